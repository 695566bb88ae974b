//! Counters of the network stack, read before and after a run so that each lost packet gets a place.
//!
//! They are read from `/proc/thread-self/net`, which is the network namespace of the calling thread: call
//! from the thread that sits in the receiver's namespace.

use super::root::HostRoot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// UDP counters of `/proc/net/snmp` or `snmp6` (RFC 4113 for the first three).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpCounters {
    /// Datagrams delivered to sockets.
    pub in_datagrams: u64,
    /// Datagrams for a port that nobody listens on.
    pub no_ports: u64,
    /// Datagrams not delivered for any other reason; includes the ones below.
    pub in_errors: u64,
    /// Dropped because the socket's receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Dropped for a wrong checksum.
    pub checksum_errors: u64,
    /// Dropped because the protocol's memory limit was reached.
    pub memory_errors: u64,
}

/// Counters of `/proc/net/softnet_stat`, over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftnetCounters {
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped because a CPU's backlog was full.
    pub dropped: u64,
    /// Times that NET_RX stopped with work left because its budget of packets or time was spent.
    pub time_squeeze: u64,
    /// Times that a CPU was woken by another to receive (RPS).
    pub received_rps: u64,
    /// Packets that the flow limit dropped.
    pub flow_limit: u64,
}

/// Receive counters of one interface, from `/proc/net/dev`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets received with errors.
    pub rx_errors: u64,
    /// Packets dropped by the driver or for want of ring space (`rx_dropped` and `rx_missed_errors`).
    pub rx_dropped: u64,
    /// Overruns of the device's own buffer.
    pub rx_fifo_errors: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped on the way out.
    pub tx_dropped: u64,
}

/// All counters along the receive path. Compare two readings with [`PathCounters::since`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCounters {
    /// UDP over IPv4; none if the file cannot be read.
    pub udp4: Option<UdpCounters>,
    /// UDP over IPv6.
    pub udp6: Option<UdpCounters>,
    /// The per-CPU backlog and NET_RX. These are of the whole machine, whatever the namespace.
    pub softnet: Option<SoftnetCounters>,
    /// By interface name.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
}

/// Subtracts field by field; a counter that went backwards (it wrapped or was reset) gives 0.
macro_rules! since {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl $type {
            /// What was counted between an earlier reading and this one.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field)),+ }
            }
        }
    };
}
since!(UdpCounters {
    in_datagrams,
    no_ports,
    in_errors,
    receive_buffer_errors,
    checksum_errors,
    memory_errors
});
since!(SoftnetCounters { processed, dropped, time_squeeze, received_rps, flow_limit });
since!(InterfaceCounters { rx_packets, rx_errors, rx_dropped, rx_fifo_errors, tx_packets, tx_dropped });

impl PathCounters {
    /// Reads them.
    pub fn read(root: &HostRoot) -> Self {
        let text = |name: &str| {
            root.text(&format!("proc/thread-self/net/{name}"))
                .or_else(|| root.text(&format!("proc/net/{name}")))
        };
        Self {
            udp4: text("snmp").and_then(|snmp| parse_snmp(&snmp)),
            udp6: text("snmp6").and_then(|snmp| parse_snmp6(&snmp)),
            softnet: text("softnet_stat").map(|stat| parse_softnet(&stat)),
            interfaces: text("dev").map(|dev| parse_dev(&dev)).unwrap_or_default(),
        }
    }

    /// Datagrams with a wrong checksum, over IPv4 and IPv6.
    pub fn checksum_errors(&self) -> u64 {
        [self.udp4, self.udp6].into_iter().flatten().map(|udp| udp.checksum_errors).sum()
    }

    /// What was counted between an earlier reading and this one. An interface that came up in between
    /// counts from 0; one that went is left out.
    pub fn since(&self, earlier: &Self) -> Self {
        let pair = |now: Option<UdpCounters>, then: Option<UdpCounters>| Some(now?.since(&then?));
        let interfaces = self.interfaces.iter().map(|(name, now)| {
            let then = earlier.interfaces.get(name).copied().unwrap_or_default();
            (name.clone(), now.since(&then))
        });
        Self {
            udp4: pair(self.udp4, earlier.udp4),
            udp6: pair(self.udp6, earlier.udp6),
            softnet: self.softnet.zip(earlier.softnet).map(|(now, then)| now.since(&then)),
            interfaces: interfaces.collect(),
        }
    }
}

fn parse_snmp(snmp: &str) -> Option<UdpCounters> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let fields: BTreeMap<&str, u64> = names
        .split_whitespace()
        .zip(values.split_whitespace())
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect();
    Some(udp_counters(|name| fields.get(name).copied()))
}

fn parse_snmp6(snmp: &str) -> Option<UdpCounters> {
    let fields: BTreeMap<&str, u64> = snmp
        .lines()
        .filter_map(|line| {
            let (name, value) = line.strip_prefix("Udp6")?.split_once(char::is_whitespace)?;
            Some((name, value.trim().parse().ok()?))
        })
        .collect();
    (!fields.is_empty()).then(|| udp_counters(|name| fields.get(name).copied()))
}

fn udp_counters(field: impl Fn(&str) -> Option<u64>) -> UdpCounters {
    // An old kernel lacks the later fields: nothing was counted under that name, which is 0.
    let field = |name| field(name).unwrap_or(0);
    UdpCounters {
        in_datagrams: field("InDatagrams"),
        no_ports: field("NoPorts"),
        in_errors: field("InErrors"),
        receive_buffer_errors: field("RcvbufErrors"),
        checksum_errors: field("InCsumErrors"),
        memory_errors: field("MemErrors"),
    }
}

/// Columns as `net/core/net-procfs.c` prints them: 0 processed, 1 dropped, 2 time_squeeze, 9 received_rps,
/// 10 flow_limit; hexadecimal, one line a CPU.
fn parse_softnet(stat: &str) -> SoftnetCounters {
    let mut total = SoftnetCounters::default();
    for line in stat.lines() {
        let columns: Vec<u64> =
            line.split_whitespace().map(|word| u64::from_str_radix(word, 16).unwrap_or(0)).collect();
        let column = |index: usize| columns.get(index).copied().unwrap_or(0);
        total.processed += column(0);
        total.dropped += column(1);
        total.time_squeeze += column(2);
        total.received_rps += column(9);
        total.flow_limit += column(10);
    }
    total
}

fn parse_dev(dev: &str) -> BTreeMap<String, InterfaceCounters> {
    dev.lines()
        .filter_map(|line| {
            let (name, values) = line.rsplit_once(':')?;
            let values: Vec<u64> = values.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let counters = InterfaceCounters {
                rx_packets: *values.get(1)?,
                rx_errors: *values.get(2)?,
                rx_dropped: *values.get(3)?,
                rx_fifo_errors: *values.get(4)?,
                tx_packets: *values.get(9)?,
                tx_dropped: *values.get(11)?,
            };
            Some((name.trim().to_owned(), counters))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    #[test]
    fn two_readings_differ_by_what_happened_between() {
        let host = FakeHost::empty();
        let snmp = |errors: u64| {
            format!(
                "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors\n\
                 Udp: 177 1 {errors} 178 {errors} 0 0 0 0\nUdpLite: InDatagrams\nUdpLite: 9"
            )
        };
        let header =
            "Inter-|   Receive\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n";
        host.file("proc/net/snmp", &snmp(5));
        host.file(
            "proc/net/softnet_stat",
            "00000014 00000001 00000002 0 0 0 0 0 0 00000003\n00001ee6 0 0000000a",
        );
        host.file("proc/net/dev", &format!("{header}  eth0: 100 10 0 3 0 0 0 0 200 20 0 4 0 0 0 0"));
        let before = PathCounters::read(&host.root());
        assert_eq!(before.softnet.map(|softnet| (softnet.processed, softnet.time_squeeze)), Some((7930, 12)));
        assert_eq!(before.udp6, None);

        host.file("proc/net/snmp", &snmp(12));
        host.file("proc/net/dev", &format!("{header}  eth0: 100 11 0 9 0 0 0 0 200 20 0 4 0 0 0 0"));
        host.file("proc/net/snmp6", "Udp6InDatagrams                 \t3\nUdp6RcvbufErrors\t2");
        let after = PathCounters::read(&host.root());
        let between = after.since(&before);
        assert_eq!(between.udp4.map(|udp| udp.receive_buffer_errors), Some(7));
        assert_eq!(between.interfaces["eth0"].rx_dropped, 6);
        assert_eq!(after.udp6.map(|udp| udp.receive_buffer_errors), Some(2));
        assert_eq!(between.udp6, None, "a difference needs both readings");
        assert_eq!(before.since(&after).interfaces["eth0"].rx_packets, 0, "a counter that was reset gives 0");
    }

    #[test]
    fn this_machine_has_them() {
        let counters = PathCounters::read(&HostRoot::system());
        assert!(
            counters.udp4.is_some() && counters.softnet.is_some() && counters.interfaces.contains_key("lo")
        );
    }
}
