//! Facts of one network interface.

use super::ethtool;
use super::root::HostRoot;
use serde::{Deserialize, Serialize};

/// An interrupt of the interface's device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceInterrupt {
    /// Number.
    pub irq: u32,
    /// Name as `/proc/interrupts` and the tracepoints show it.
    pub name: String,
    /// CPUs that may take it.
    pub affinity: Vec<u16>,
}

/// Facts of one network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    /// Name.
    pub name: String,
    /// Driver; none for an interface without a device (loopback, veth).
    pub driver: Option<String>,
    /// `up`, `down` or `unknown` (loopback never says up).
    pub state: Option<String>,
    /// Largest packet, in bytes.
    pub mtu_bytes: Option<u32>,
    /// Speed of the link in Mbit/s; none where there is no physical link.
    pub speed_mbps: Option<u32>,
    /// Receive queues.
    pub rx_queues: usize,
    /// Transmit queues.
    pub tx_queues: usize,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
    /// Whether NAPI runs in threads of its own instead of in the softirq.
    pub threaded_napi: Option<bool>,
    /// Time that NAPI waits before it asks for interrupts again, in nanoseconds.
    pub gro_flush_timeout_ns: Option<u64>,
    /// Empty polls after which NAPI asks for interrupts again.
    pub napi_defer_hard_irqs: Option<u64>,
    /// Masks of the CPUs that receive packet steering spreads to, one a queue, zeros left out.
    pub steering_masks: Vec<String>,
    /// Interrupts of the device.
    pub interrupts: Vec<InterfaceInterrupt>,
    /// Interrupt coalescing; none where the driver has none or another root than `/` is read.
    pub coalescing: Option<ethtool::Coalescing>,
    /// Receive ring; none as above.
    pub ring: Option<ethtool::Ring>,
    /// Time stamping; none as above.
    pub stamping: Option<ethtool::Stamping>,
}

impl InterfaceFacts {
    /// Reads the facts of the interface; none if there is no interface of that name.
    ///
    /// `/sys/class/net` shows the network namespace that mounted sysfs, not the caller's.
    pub fn read(root: &HostRoot, name: &str) -> Option<Self> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return None;
        }
        let base = format!("sys/class/net/{name}");
        if !root.exists(&base) {
            return None;
        }
        let queues = root.names(&format!("{base}/queues"));
        let steering = queues
            .iter()
            .filter_map(|queue| root.text(&format!("{base}/queues/{queue}/rps_cpus")))
            .filter(|mask| mask.chars().any(|letter| letter != '0' && letter != ','));
        let live = root.is_system();
        Some(Self {
            name: name.to_owned(),
            driver: root.link_name(&format!("{base}/device/driver")),
            state: root.text(&format!("{base}/operstate")),
            mtu_bytes: root.value(&format!("{base}/mtu")),
            speed_mbps: root.value(&format!("{base}/speed")),
            rx_queues: queues.iter().filter(|queue| queue.starts_with("rx-")).count(),
            tx_queues: queues.iter().filter(|queue| queue.starts_with("tx-")).count(),
            numa_node: root.value(&format!("{base}/device/numa_node")),
            threaded_napi: root.switch(&format!("{base}/threaded")),
            gro_flush_timeout_ns: root.value(&format!("{base}/gro_flush_timeout")),
            napi_defer_hard_irqs: root.value(&format!("{base}/napi_defer_hard_irqs")),
            steering_masks: steering.collect(),
            interrupts: interrupts(root, name),
            coalescing: live.then(|| ethtool::coalescing(name)).flatten(),
            ring: live.then(|| ethtool::ring(name)).flatten(),
            stamping: live.then(|| ethtool::stamping(name)).flatten(),
        })
    }

    /// Names of all interfaces.
    pub fn names(root: &HostRoot) -> Vec<String> {
        root.names("sys/class/net")
            .into_iter()
            .filter(|name| root.exists(&format!("sys/class/net/{name}/mtu")))
            .collect()
    }

    /// Names of all interfaces of the calling thread's network namespace, which need not be the one that `/sys` shows.
    pub fn names_here() -> Vec<String> {
        let text = HostRoot::system().text("proc/thread-self/net/dev").unwrap_or_default();
        let mut names: Vec<String> =
            text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect();
        names.sort();
        names
    }
}

/// Lines of `/proc/interrupts` that belong to the interface: by the device's list of MSI vectors, by the
/// interface's own name, or by the name of its bus device (`virtio0-input.0`).
fn interrupts(root: &HostRoot, interface: &str) -> Vec<InterfaceInterrupt> {
    let vectors = root.names(&format!("sys/class/net/{interface}/device/msi_irqs"));
    let device = root.link_name(&format!("sys/class/net/{interface}/device"));
    let table = root.text("proc/interrupts").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let irq: u32 = number.trim().parse().ok()?;
            let name = rest.split_whitespace().last()?;
            let ours = vectors.iter().any(|vector| vector == number.trim())
                || begins_with_name(name, interface)
                || device.as_deref().is_some_and(|device| begins_with_name(name, device));
            ours.then(|| InterfaceInterrupt {
                irq,
                name: name.to_owned(),
                affinity: root.cpu_list(&format!("proc/irq/{irq}/effective_affinity_list")),
            })
        })
        .collect()
}

/// Whether `text` is the name or the name and then something that is no letter or digit.
fn begins_with_name(text: &str, name: &str) -> bool {
    text.strip_prefix(name)
        .is_some_and(|rest| rest.chars().next().is_none_or(|letter| !letter.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    #[test]
    fn a_card_with_its_interrupts() {
        let host = FakeHost::empty();
        host.files(&[
            ("sys/class/net/eth1/mtu", "1500"),
            ("sys/class/net/eth1/operstate", "up"),
            ("sys/class/net/eth1/speed", "10000"),
            ("sys/class/net/eth1/queues/rx-0/rps_cpus", "00000000,00000003"),
            ("sys/class/net/eth1/queues/rx-1/rps_cpus", "00000000,00000000"),
            ("sys/class/net/eth1/queues/tx-0/xps_cpus", "0"),
            ("sys/class/net/eth1/device/msi_irqs/40", "msix"),
            ("proc/irq/40/effective_affinity_list", "3"),
            (
                "proc/interrupts",
                "           CPU0  CPU1\n 40:  1  2  PCI-MSI 1-edge  mlx5_comp0\n 41:  0  9  PCI-MSI 2-edge  eth1-TxRx-0\n \
                 42:  0  9  PCI-MSI 2-edge  eth10-TxRx-0\nNMI: 0 0 Non-maskable interrupts",
            ),
        ]);
        let facts = InterfaceFacts::read(&host.root(), "eth1").expect("it is there");
        assert_eq!((facts.rx_queues, facts.tx_queues, facts.speed_mbps), (2, 1, Some(10_000)));
        assert_eq!(facts.steering_masks, vec!["00000000,00000003"]);
        let names: Vec<&str> = facts.interrupts.iter().map(|interrupt| interrupt.name.as_str()).collect();
        assert_eq!(names, vec!["mlx5_comp0", "eth1-TxRx-0"]);
        assert_eq!(facts.interrupts[0].affinity, vec![3]);
        assert_eq!(InterfaceFacts::names(&host.root()), vec!["eth1"]);
    }

    #[test]
    fn names_that_are_no_interface() {
        let root = HostRoot::system();
        assert_eq!(InterfaceFacts::read(&root, "no-such-interface"), None);
        assert_eq!(InterfaceFacts::read(&root, "../net/lo"), None);
        assert_eq!(InterfaceFacts::read(&root, ""), None);
    }

    #[test]
    fn loopback_of_this_machine() {
        let facts = InterfaceFacts::read(&HostRoot::system(), "lo").expect("every machine has it");
        assert!(facts.driver.is_none() && facts.mtu_bytes.is_some());
    }
}
