//! A running process seen from outside: its threads and its sockets. Nothing here touches it: only files of
//! `/proc` are read.

use super::root::{HostRoot, parse_cpu_list};
use super::stat::Stat;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why a process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is none of that number.
    #[error("there is no process {0} (see: pgrep -a NAME)")]
    None(u32),
    /// The number is a thread's.
    #[error("{thread} is a thread of process {process}: name the process")]
    Thread {
        /// Number that was given.
        thread: u32,
        /// Its process.
        process: u32,
    },
    /// It belongs to somebody else.
    #[error("looking at the sockets of process {0}: not permitted; run as root, or as the process's user")]
    NotPermitted(u32),
    /// Anything else.
    #[error("reading {path}: {source}")]
    Unreadable {
        /// What was read.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// One UDP socket of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// Local address and port.
    pub local: SocketAddr,
    /// Only sender that it takes packets from, where it is connected.
    pub remote: Option<SocketAddr>,
    /// Memory that the packets in its receive queue take, by the kernel's count.
    pub queued_bytes: u64,
    /// Packets that it dropped since it was opened: its buffer was full, or a checksum failed.
    pub drops: u64,
}

/// One thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Kernel's number.
    pub id: u32,
    /// Runs under SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    pub realtime: bool,
    /// CPU that it is bound to, where it may use but one.
    pub cpu: Option<u16>,
}

/// What tells a process from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Number.
    pub pid: u32,
    /// When it started, clock ticks since boot.
    pub started_ticks: u64,
}

impl ProcessIdentity {
    /// Looks at process `pid`.
    ///
    /// # Errors
    /// [`ProcessError::None`] where there is none (or but its remains), [`ProcessError::Thread`] where the number
    /// is a thread's.
    pub fn of(root: &HostRoot, pid: u32) -> Result<Self, ProcessError> {
        let stat = Stat::read(root, &format!("proc/{pid}")).filter(|stat| !stat.is_dead());
        let stat = stat.ok_or(ProcessError::None(pid))?;
        let status = root.text(&format!("proc/{pid}/status")).unwrap_or_default();
        match field(&status, "Tgid:").and_then(|text| text.parse().ok()) {
            Some(process) if process != pid => Err(ProcessError::Thread { thread: pid, process }),
            _ => Ok(Self { pid, started_ticks: stat.started_ticks }),
        }
    }

    /// Whether it still runs.
    pub fn lives(&self, root: &HostRoot) -> bool {
        let stat = Stat::read(root, &format!("proc/{}", self.pid));
        stat.is_some_and(|stat| !stat.is_dead() && stat.started_ticks == self.started_ticks)
    }

    /// Its name.
    pub fn name(&self, root: &HostRoot) -> String {
        root.text(&format!("proc/{}/comm", self.pid)).unwrap_or_else(|| "nameless".to_owned())
    }

    /// Its threads, by number; empty if it is gone.
    pub fn threads(&self, root: &HostRoot) -> Vec<ThreadFacts> {
        let folder = format!("proc/{}/task", self.pid);
        let mut ids: Vec<u32> = root.names(&folder).iter().filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        let facts = |id: &u32| {
            let stat = Stat::read(root, &format!("{folder}/{id}"))?;
            let status = root.text(&format!("{folder}/{id}/status")).unwrap_or_default();
            let cpus = parse_cpu_list(field(&status, "Cpus_allowed_list:").unwrap_or_default());
            let cpu = (cpus.len() == 1).then(|| cpus[0]);
            Some(ThreadFacts { id: *id, realtime: stat.is_realtime(), cpu })
        };
        ids.iter().filter_map(facts).collect()
    }

    /// Its UDP sockets, by local address. A socket that several descriptors share is listed once.
    ///
    /// # Errors
    /// Where its descriptors or its network's sockets cannot be read.
    pub fn udp_sockets(&self, root: &HostRoot) -> Result<Vec<UdpSocket>, ProcessError> {
        let inodes = self.socket_inodes(root)?;
        let mut found = Vec::new();
        for table in ["udp", "udp6"] {
            let path = format!("proc/{}/net/{table}", self.pid);
            // A host without IPv6 has no second table.
            let text = root.text(&path).unwrap_or_default();
            let lines = text.lines().filter_map(parse_socket).filter(|(inode, _)| inodes.contains(inode));
            found.extend(lines.map(|(_, socket)| socket));
        }
        found.sort_by_key(|socket| socket.local);
        Ok(found)
    }

    /// Whether it has an io_uring: what it receives through that returns from no receive call.
    pub fn uses_io_uring(&self, root: &HostRoot) -> bool {
        self.descriptors(root).is_ok_and(|targets| targets.iter().any(|target| target.contains("[io_uring]")))
    }

    fn socket_inodes(&self, root: &HostRoot) -> Result<BTreeSet<u64>, ProcessError> {
        let inode = |target: &String| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
        Ok(self.descriptors(root)?.iter().filter_map(inode).collect())
    }

    /// What its descriptors are.
    fn descriptors(&self, root: &HostRoot) -> Result<Vec<String>, ProcessError> {
        let folder = format!("proc/{}/fd", self.pid);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => ProcessError::NotPermitted(self.pid),
            io::ErrorKind::NotFound => ProcessError::None(self.pid),
            _ => ProcessError::Unreadable { path: format!("/{folder}"), source },
        };
        let entries = std::fs::read_dir(root.path(&folder)).map_err(failed)?;
        // A descriptor closed meanwhile is left out.
        let target = |entry: io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
        Ok(entries.filter_map(target).map(|path| path.to_string_lossy().into_owned()).collect())
    }
}

/// Processes that hold a UDP socket of the calling thread's network which sends from `local`, by number. One whose descriptors
/// may not be read is left out.
pub fn holders(root: &HostRoot, local: SocketAddr) -> Vec<ProcessIdentity> {
    let sends = |own: SocketAddr| {
        own.port() == local.port() && (own.ip().is_unspecified() || own.ip() == local.ip().to_canonical())
    };
    let tables = ["udp", "udp6"].map(|table| root.text(&format!("proc/thread-self/net/{table}")));
    let sockets = tables.iter().flatten().flat_map(|text| text.lines()).filter_map(parse_socket);
    let inodes: BTreeSet<u64> =
        sockets.filter(|(_, socket)| sends(socket.local)).map(|(inode, _)| inode).collect();
    let holds =
        |process: &ProcessIdentity| process.socket_inodes(root).is_ok_and(|own| !own.is_disjoint(&inodes));
    if inodes.is_empty() { Vec::new() } else { processes(root).filter(holds).collect() }
}

/// Processes that hold a UDP or TCP socket of whichever network, by number. One whose descriptors may not be read is left out.
pub fn receivers(root: &HostRoot) -> Vec<ProcessIdentity> {
    // Each network's tables are read once: a host may have many sockets in few networks.
    let mut networks: BTreeMap<std::path::PathBuf, BTreeSet<u64>> = BTreeMap::new();
    let mut holds = |process: &ProcessIdentity| {
        let folder = root.path(&format!("proc/{}", process.pid));
        let network = std::fs::read_link(folder.join("ns/net")).unwrap_or(folder);
        let sockets = networks.entry(network).or_insert_with(|| socket_inodes_of_network(root, process.pid));
        process.socket_inodes(root).is_ok_and(|own| !own.is_disjoint(sockets))
    };
    processes(root).filter(|process| holds(process)).collect()
}

/// Inodes of all UDP and TCP sockets in the network of a process.
fn socket_inodes_of_network(root: &HostRoot, pid: u32) -> BTreeSet<u64> {
    let table = |name| root.text(&format!("proc/{pid}/net/{name}")).unwrap_or_default();
    let tables = ["udp", "udp6", "tcp", "tcp6"].map(table);
    // Their tables have the inode in the same place.
    let inode = |line: &str| line.split_whitespace().nth(9)?.parse().ok();
    tables.iter().flat_map(|text| text.lines()).filter_map(inode).collect()
}

/// All processes, by number.
pub fn processes(root: &HostRoot) -> impl Iterator<Item = ProcessIdentity> {
    let mut numbers: Vec<u32> = root.names("proc").iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.into_iter().filter_map(|pid| ProcessIdentity::of(root, pid).ok())
}

/// The rest of the line that begins with `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A line of `/proc/net/udp` or `udp6`: the second field is the local address, the third the other end's, the fifth
/// the lengths of both queues, the tenth the inode, the last the count of drops.
fn parse_socket(line: &str) -> Option<(u64, UdpSocket)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let local = parse_address(fields.get(1)?)?;
    let remote = parse_address(fields.get(2)?)?;
    let queued_bytes = u64::from_str_radix(fields.get(4)?.split_once(':')?.1, 16).ok()?;
    let inode = fields.get(9)?.parse().ok()?;
    let drops = fields.last()?.parse().ok()?;
    Some((inode, UdpSocket { local, remote: (remote.port() != 0).then_some(remote), queued_bytes, drops }))
}

/// `0100007F:1389`: 32-bit words of the address, each as this machine holds it in memory, and the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    if !address.is_ascii() {
        return None;
    }
    let mut octets = Vec::with_capacity(16);
    for start in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(start..start + 8)?, 16).ok()?;
        octets.extend(word.to_ne_bytes());
    }
    let address: IpAddr = match octets.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(address.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use std::net::UdpSocket as RealSocket;
    use std::os::unix::fs::symlink;

    const HEADER: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";

    fn stat(name: &str, state: char, policy: u32) -> String {
        let between = "1 ".repeat(18);
        let rest = "0 ".repeat(18);
        format!("77 ({name}) {state} {between}4242 {rest}{policy} 0 0")
    }

    /// A process 77 with two UDP sockets, one TCP socket and an io_uring.
    fn host() -> FakeHost {
        let host = FakeHost::empty();
        host.file("proc/77/stat", &stat("odd ) name", 'S', 0));
        host.file("proc/77/status", "Name:\todd\nTgid:\t77\nPid:\t77\n");
        host.file("proc/77/comm", "odd ) name\n");
        host.file("proc/77/task/77/stat", &stat("odd ) name", 'S', 0));
        host.file("proc/77/task/77/status", "Cpus_allowed_list:\t0-3\n");
        host.file("proc/77/task/78/stat", &stat("worker", 'R', 1));
        host.file("proc/77/task/78/status", "Cpus_allowed_list:\t3\n");
        host.file("proc/77/net/udp", &format!(
            "{HEADER}\n  521: 0100007F:1389 00000000:0000 07 00000000:00034000 00:00000000 00000000     0        0 5001 2 0000000000000000 17\n  \
             522: 00000000:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9999 2 0000000000000000 0\nno socket\n"
        ));
        host.file("proc/77/net/udp6", &format!(
            "{HEADER}\n  521: B80D0120000000000000000001000000:138A B80D0120000000000000000002000000:0007 01 00000000:00000000 \
             00:00000000 00000000     0        0 5002 2 0000000000000000 0\n"
        ));
        host.file("proc/77/fd/marker", "");
        let folder = host.root().path("proc/77/fd");
        for (number, target) in [
            (3, "socket:[5001]"),
            (4, "socket:[5002]"),
            (5, "socket:[5001]"),
            (6, "socket:[7000]"),
            (7, "anon_inode:[io_uring]"),
        ] {
            symlink(target, folder.join(number.to_string())).unwrap();
        }
        host
    }

    #[test]
    fn sockets_of_a_process_are_told_from_those_of_others() {
        let host = host();
        let root = host.root();
        let process = ProcessIdentity::of(&root, 77).unwrap();
        assert_eq!(process, ProcessIdentity { pid: 77, started_ticks: 4242 });
        let sockets = process.udp_sockets(&root).unwrap();
        assert_eq!(sockets.len(), 2, "the shared one is listed once: {sockets:?}");
        assert_eq!(
            sockets[0],
            UdpSocket {
                local: "127.0.0.1:5001".parse().unwrap(),
                remote: None,
                queued_bytes: 0x34000,
                drops: 17
            }
        );
        assert_eq!(sockets[1].local, "[2001:db8::1]:5002".parse().unwrap());
        assert_eq!(sockets[1].remote, Some("[2001:db8::2]:7".parse().unwrap()));
        assert!(process.uses_io_uring(&root));
    }

    #[test]
    fn whoever_holds_a_socket_that_sends_from_an_address_is_found() {
        let host = host();
        let root = host.root();
        let lines = std::fs::read_to_string(root.path("proc/77/net/udp")).unwrap();
        host.file("proc/thread-self/net/udp", &lines);
        let pids = |local: &str| {
            holders(&root, local.parse().unwrap()).iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids("127.0.0.1:5001"), [77]);
        assert_eq!(pids("[::ffff:127.0.0.1]:5001"), [77]);
        assert_eq!(pids("192.0.2.1:5001"), [0u32; 0], "another address");
        assert_eq!(pids("127.0.0.1:5353"), [0u32; 0], "nobody holds that one");
        host.file("proc/78/stat", &stat("child", 'S', 0));
        host.file("proc/78/fd/marker", "");
        symlink("socket:[9999]", root.path("proc/78/fd").join("3")).unwrap();
        assert_eq!(pids("192.0.2.9:5353"), [78], "bound to any address");
        symlink("socket:[5001]", root.path("proc/78/fd").join("4")).unwrap();
        assert_eq!(pids("127.0.0.1:5001"), [77, 78], "shared by a fork");
    }

    #[test]
    fn threads_tell_their_class_and_cpu() {
        let host = host();
        let process = ProcessIdentity::of(&host.root(), 77).unwrap();
        assert_eq!(
            process.threads(&host.root()),
            [
                ThreadFacts { id: 77, realtime: false, cpu: None },
                ThreadFacts { id: 78, realtime: true, cpu: Some(3) }
            ]
        );
        assert_eq!(process.name(&host.root()), "odd ) name");
    }

    #[test]
    fn the_dead_and_the_reborn_are_noticed() {
        let host = host();
        let root = host.root();
        let process = ProcessIdentity::of(&root, 77).unwrap();
        assert!(process.lives(&root));
        host.file("proc/77/stat", &stat("odd", 'Z', 0));
        assert!(!process.lives(&root));
        assert!(matches!(ProcessIdentity::of(&root, 77), Err(ProcessError::None(77))));
        host.file("proc/77/stat", &stat("other", 'S', 0).replace("4242", "5000"));
        assert!(!process.lives(&root));
        host.file("proc/78/stat", &stat("worker", 'S', 0));
        host.file("proc/78/status", "Tgid:\t77\n");
        let thread = ProcessIdentity::of(&root, 78).unwrap_err();
        assert_eq!(thread.to_string(), "78 is a thread of process 77: name the process");
        assert!(matches!(ProcessIdentity::of(&root, 1), Err(ProcessError::None(1))));
    }

    #[test]
    fn damaged_tables_are_left_out() {
        for line in [
            "",
            "1: 0100007F",
            "1: 0100007F:zz 0:0",
            "1: é0000000:0001 0:0",
            "1: 0100007F01:0001 00000000:0000",
        ] {
            assert_eq!(parse_socket(line), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_seen_as_it_is() {
        let (one, two) = (RealSocket::bind("127.0.0.1:0").unwrap(), RealSocket::bind("127.0.0.1:0").unwrap());
        two.connect(one.local_addr().unwrap()).unwrap();
        let root = HostRoot::system();
        let process = ProcessIdentity::of(&root, std::process::id()).unwrap();
        let sockets = process.udp_sockets(&root).unwrap();
        let find = |address| sockets.iter().find(|socket| socket.local == address).unwrap();
        assert_eq!(find(one.local_addr().unwrap()).remote, None);
        assert_eq!(find(two.local_addr().unwrap()).remote, Some(one.local_addr().unwrap()));
        assert!(process.lives(&root));
        assert!(process.threads(&root).iter().any(|thread| thread.id == std::process::id()));
    }
}
