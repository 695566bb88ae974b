//! What this process may do: its capabilities and limits, and what the kernel's settings leave of them.

use super::facts::HostFacts;
use super::root::HostRoot;
use serde::{Deserialize, Serialize};

/// Linux capabilities that matter here, by their number in `linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Configure interfaces, queueing disciplines and hardware stamping.
    NetAdmin = 12,
    /// Raw and packet sockets.
    NetRaw = 13,
    /// Lock memory beyond the limit.
    IpcLock = 14,
    /// Look into other users' processes.
    SysPtrace = 19,
    /// Mount, unshare, and much else.
    SysAdmin = 21,
    /// Real-time priorities and CPU affinity of others.
    SysNice = 23,
    /// Read performance counters and trace kernel memory.
    Perfmon = 38,
    /// Load BPF programs.
    Bpf = 39,
}

/// A set of capabilities as `/proc/PID/status` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// Whether the capability is in the set.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }
}

/// Whether something may be done, why, and what would allow it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Right {
    /// Whether it may be done.
    pub allowed: bool,
    /// What that was concluded from.
    pub evidence: String,
    /// The command that allows it; none if it is allowed or nothing can.
    pub remedy: Option<String>,
}

impl Right {
    fn when(allowed: bool, yes: &str, no: &str, remedy: &str) -> Self {
        let evidence = if allowed { yes } else { no }.to_owned();
        Self { allowed, evidence, remedy: (!allowed).then(|| remedy.to_owned()) }
    }
}

/// What this process may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Effective user id; none if `/proc` does not tell.
    pub user_id: Option<u32>,
    /// Effective capabilities.
    pub capabilities: CapabilitySet,
    /// Real-time priority that may be asked for without a capability.
    pub realtime_priority_limit: Option<u64>,
    /// Memory that may be locked without a capability, in bytes; `u64::MAX`: all.
    pub locked_memory_limit_bytes: Option<u64>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.kptr_restrict`.
    pub kernel_pointer_restriction: Option<i32>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Option<i32>,
    /// Load BPF programs on tracepoints.
    pub bpf: Right,
    /// Make and read an instance in tracefs.
    pub tracefs: Right,
    /// Run threads under SCHED_FIFO.
    pub realtime: Right,
    /// Lock the memory of the hot path.
    pub lock_memory: Right,
    /// Make network namespaces for a stream of our own.
    pub namespaces: Right,
    /// Replace the queueing discipline by one that sends at a given time.
    pub transmit_time: Right,
    /// Switch hardware time stamping on.
    pub hardware_stamps: Right,
    /// Open packet sockets (`capture`).
    #[serde(default)]
    pub capture: Right,
    /// Follow the threads of other users' processes (`chase --pid`).
    pub observe_others: Right,
}

/// The line that gives the binary all that it can use without being root.
pub const SETCAP: &str = "sudo setcap \
                          cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep \
                          \"$(readlink -f \"$(command -v quaver)\")\"";

/// Each capability of [`SETCAP`], and what it is for.
pub const GRANTS: [(&str, &str); 6] = [
    ("cap_net_raw", "opens packet sockets: capture, and stamps below the socket in path tests"),
    ("cap_net_admin", "has interfaces stamp packets, and sets queueing disciplines that keep times"),
    ("cap_bpf", "loads the programs that stamp packets and name causes"),
    ("cap_perfmon", "lets these programs read the kernel's records, and samples what runs"),
    ("cap_sys_nice", "gives threads that measure a real-time priority"),
    ("cap_ipc_lock", "keeps their buffers in memory beyond the limit of the user"),
];

/// What to type to be root.
const AS_ROOT: &str = "sudo quaver ...";

impl Rights {
    /// Reads the rights of this process (or of the process that a fake root describes).
    pub fn read(root: &HostRoot, facts: &HostFacts) -> Self {
        let status = root.text("proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let set = field("CapEff").and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        let set = CapabilitySet(set.unwrap_or(0));
        let limits = root.text("proc/self/limits").unwrap_or_default();
        let priority = limit(&limits, "Max realtime priority");
        let locked = limit(&limits, "Max locked memory");
        Self {
            user_id: field("Uid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()),
            capabilities: set,
            realtime_priority_limit: priority,
            locked_memory_limit_bytes: locked,
            perf_event_paranoid: root.value("proc/sys/kernel/perf_event_paranoid"),
            kernel_pointer_restriction: root.value("proc/sys/kernel/kptr_restrict"),
            unprivileged_bpf_disabled: root.value("proc/sys/kernel/unprivileged_bpf_disabled"),
            bpf: bpf(set, facts),
            tracefs: tracefs(set, facts),
            realtime: realtime(set, priority),
            lock_memory: lock_memory(set, locked),
            namespaces: namespaces(set),
            transmit_time: net_admin(set, "queueing disciplines can be replaced"),
            hardware_stamps: net_admin(set, "the device can be told to stamp"),
            capture: capture(set),
            observe_others: observe_others(set),
        }
    }

    /// Whether the user is root.
    pub fn is_root(&self) -> bool {
        self.user_id == Some(0)
    }
}

fn bpf(set: CapabilitySet, facts: &HostFacts) -> Right {
    if facts.kernel.lockdown.as_deref() == Some("confidentiality") {
        return Right {
            allowed: false,
            evidence: "kernel lockdown is \"confidentiality\", which forbids reading kernel memory"
                .to_owned(),
            remedy: Some("boot with lockdown=integrity, or with Secure Boot off".to_owned()),
        };
    }
    let allowed = set.has(Capability::SysAdmin) || (set.has(Capability::Bpf) && set.has(Capability::Perfmon));
    Right::when(
        allowed,
        "CAP_SYS_ADMIN, or CAP_BPF with CAP_PERFMON",
        "neither CAP_SYS_ADMIN nor CAP_BPF with CAP_PERFMON",
        SETCAP,
    )
}

fn tracefs(set: CapabilitySet, facts: &HostFacts) -> Right {
    if facts.kernel.lockdown.as_deref() == Some("confidentiality") {
        return Right {
            allowed: false,
            evidence: "kernel lockdown is \"confidentiality\", which closes tracefs".to_owned(),
            remedy: Some("boot with lockdown=integrity, or with Secure Boot off".to_owned()),
        };
    }
    let root = set.has(Capability::SysAdmin);
    Right::when(
        root,
        "CAP_SYS_ADMIN: tracefs can be mounted and written",
        "no CAP_SYS_ADMIN, and files of tracefs belong to root",
        AS_ROOT,
    )
}

fn realtime(set: CapabilitySet, limit: Option<u64>) -> Right {
    let by_limit = limit.is_some_and(|limit| limit > 0);
    Right::when(
        set.has(Capability::SysNice) || by_limit,
        if by_limit { "the real-time priority limit is above 0" } else { "CAP_SYS_NICE" },
        "no CAP_SYS_NICE, and the real-time priority limit is 0",
        SETCAP,
    )
}

/// Memory that a run locks: buffers for a few million packets.
const LOCKED_BYTES: u64 = 512 << 20;

fn lock_memory(set: CapabilitySet, limit: Option<u64>) -> Right {
    let by_limit = limit.is_some_and(|limit| limit >= LOCKED_BYTES);
    Right::when(
        set.has(Capability::IpcLock) || by_limit,
        if by_limit { "the locked-memory limit is 512 MiB or more" } else { "CAP_IPC_LOCK" },
        "no CAP_IPC_LOCK, and the locked-memory limit is below 512 MiB",
        SETCAP,
    )
}

fn namespaces(set: CapabilitySet) -> Right {
    Right::when(
        set.has(Capability::SysAdmin) && set.has(Capability::NetAdmin),
        "CAP_SYS_ADMIN and CAP_NET_ADMIN",
        "CAP_SYS_ADMIN and CAP_NET_ADMIN are needed; streams made here use loopback instead",
        AS_ROOT,
    )
}

fn net_admin(set: CapabilitySet, yes: &str) -> Right {
    Right::when(
        set.has(Capability::NetAdmin),
        &format!("CAP_NET_ADMIN: {yes}"),
        "no CAP_NET_ADMIN in the namespace of the interface",
        SETCAP,
    )
}

fn capture(set: CapabilitySet) -> Right {
    Right::when(
        set.has(Capability::NetRaw),
        "CAP_NET_RAW: packet sockets can be opened",
        "no CAP_NET_RAW in the namespace of the interface",
        SETCAP,
    )
}

fn observe_others(set: CapabilitySet) -> Right {
    Right::when(
        set.has(Capability::SysPtrace) || set.has(Capability::SysAdmin),
        "CAP_SYS_PTRACE or CAP_SYS_ADMIN",
        "no CAP_SYS_PTRACE: only your own processes' sockets can be looked up",
        AS_ROOT,
    )
}

/// Soft limit of a line of `/proc/PID/limits`.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    fn rights(host: &FakeHost) -> Rights {
        Rights::read(&host.root(), &HostFacts::read(&host.root()))
    }

    #[test]
    fn root_may_do_all() {
        let rights = rights(&FakeHost::bare_metal());
        assert!(rights.is_root() && rights.bpf.allowed && rights.tracefs.allowed && rights.realtime.allowed);
        assert!(
            rights.namespaces.allowed
                && rights.hardware_stamps.allowed
                && rights.capture.allowed
                && rights.observe_others.allowed
        );
        assert_eq!(rights.locked_memory_limit_bytes, Some(8_388_608));
    }

    #[test]
    fn a_user_may_do_nothing_and_every_refusal_has_a_remedy() {
        let rights = rights(&FakeHost::virtual_machine());
        for right in [
            &rights.bpf,
            &rights.tracefs,
            &rights.realtime,
            &rights.lock_memory,
            &rights.namespaces,
            &rights.transmit_time,
            &rights.hardware_stamps,
            &rights.capture,
            &rights.observe_others,
        ] {
            assert!(!right.allowed && right.remedy.is_some(), "{right:?}");
        }
    }

    #[test]
    fn two_capabilities_suffice_for_bpf_but_not_for_tracefs() {
        let host = FakeHost::bare_metal();
        let bits = (1_u64 << 38) | (1 << 39);
        host.file("proc/self/status", &format!("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t{bits:016x}"));
        let rights = rights(&host);
        assert!(rights.bpf.allowed && !rights.tracefs.allowed && !rights.realtime.allowed);
    }

    #[test]
    fn limits_allow_without_capabilities() {
        let host = FakeHost::virtual_machine();
        host.file(
            "proc/self/limits",
            "Max locked memory         unlimited            unlimited            bytes\n\
             Max realtime priority     40                   40",
        );
        let rights = rights(&host);
        assert!(rights.realtime.allowed && rights.lock_memory.allowed && !rights.bpf.allowed);
    }

    #[test]
    fn the_set_without_root_is_enough_and_each_of_it_is_needed() {
        use Capability::{Bpf, IpcLock, NetAdmin, NetRaw, Perfmon, SysNice};
        let names: Vec<&str> = GRANTS.iter().map(|(name, _)| *name).collect();
        assert!(SETCAP.contains(&format!("setcap {}+ep ", names.join(","))), "{SETCAP}");
        let allowed = |set: &[Capability]| {
            let bits = set.iter().fold(0_u64, |bits, one| bits | 1 << *one as u8);
            let host = FakeHost::virtual_machine();
            host.file("proc/self/status", &format!("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t{bits:016x}"));
            let rights = rights(&host);
            // What the others need is root's, which no set of capabilities replaces.
            let all = [&rights.bpf, &rights.realtime, &rights.lock_memory, &rights.transmit_time];
            let all = all.into_iter().chain([&rights.hardware_stamps, &rights.capture]);
            all.filter(|right| right.allowed).count()
        };
        // In the order of the grants.
        let all = [NetRaw, NetAdmin, Bpf, Perfmon, SysNice, IpcLock];
        assert_eq!((allowed(&all), all.len()), (6, GRANTS.len()));
        for index in 0..all.len() {
            let mut fewer = all.to_vec();
            let gone = fewer.remove(index);
            assert!(allowed(&fewer) < 6, "{gone:?}");
        }
    }

    #[test]
    fn lockdown_beats_root() {
        let host = FakeHost::bare_metal();
        host.file("sys/kernel/security/lockdown", "none integrity [confidentiality]");
        let rights = rights(&host);
        assert!(!rights.bpf.allowed && !rights.tracefs.allowed);
    }
}
