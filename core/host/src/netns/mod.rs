//! A lab on one machine: two anonymous network namespaces, joined by a veth pair.
//!
//! Nothing gets a name in the file system. The namespaces live as long as a descriptor, a socket or a thread of
//! this process is in them, so not even `kill -9` leaves anything behind.

mod device;

use super::route::{self, Address, RouteSocket};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// MTU of both ends in bytes.
pub const DEFAULT_MTU: u32 = 1500;

/// Why the lab could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel refused for want of privilege.
    #[error("{operation}: not permitted; run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN), or use loopback")]
    NotPermitted {
        /// What was tried, on what.
        operation: String,
    },
    /// Anything else.
    #[error("{operation}: {source}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LabError {
    fn new(operation: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        let (operation, source) = (operation.into(), source.into());
        match source.kind() {
            std::io::ErrorKind::PermissionDenied => Self::NotPermitted { operation },
            _ => Self::Os { operation, source },
        }
    }
}

/// One end of the lab.
#[derive(Debug)]
pub struct LabEnd {
    namespace: OwnedFd,
    /// Name of the veth interface; it holds our process id.
    pub interface: String,
    /// Index of the veth interface in its namespace.
    pub interface_index: u32,
    /// IPv4 address (192.0.2.0/24, documentation, RFC 5737).
    pub ipv4: Ipv4Addr,
    /// IPv6 address (2001:db8::/32, documentation, RFC 3849); none where the kernel has no IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// Whether the interface is a device, which interrupts; one end of a veth pair is none.
    pub is_device: bool,
}

impl LabEnd {
    /// An end in a namespace of its own, where nothing is yet; its addresses end with `last`.
    fn new(role: &str, interface: String, last: u8, is_device: bool) -> Result<Self, LabError> {
        Ok(Self {
            namespace: new_namespace(role)?,
            interface,
            interface_index: 0,
            ipv4: Ipv4Addr::new(192, 0, 2, last),
            ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last))),
            is_device,
        })
    }

    /// Moves the calling thread into this end's namespace, for good. Sockets that it opens from then on belong
    /// there and stay there, whichever thread uses them.
    ///
    /// # Errors
    /// [`LabError::NotPermitted`] without CAP_SYS_ADMIN.
    pub fn enter(&self) -> Result<(), LabError> {
        enter(self.namespace.as_fd(), &self.interface)
    }

    /// Runs `body` on a short-lived thread in this end's namespace: to open a socket there, for example, without
    /// moving the caller.
    ///
    /// # Errors
    /// As [`Self::enter`]; a panic of `body` goes on in the caller.
    pub fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        on_thread(|| {
            self.enter()?;
            Ok(body())
        })
    }

    /// Lets the kernel process packets that arrive at this end on `cpus` (receive packet steering) instead of
    /// on the CPU that sent them; none switches it off.
    ///
    /// # Errors
    /// Where this kernel has no packet steering, or a CPU is not possible.
    pub fn steer_receive(&self, cpus: &[u16]) -> Result<(), LabError> {
        let operation = format!("set receive packet steering of {} to CPUs {cpus:?}", self.interface);
        let mask = cpu_mask(cpus);
        self.within(|| write_sysfs(&format!("class/net/{}/queues/rx-0/rps_cpus", self.interface), &mask))?
            .map_err(|e| LabError::new(operation, e))
    }

    /// Writes an attribute of this end's interface, such as `napi_defer_hard_irqs` (a file below `/sys/class/net/NAME`).
    /// It goes with the namespace.
    ///
    /// # Errors
    /// Where this kernel has no such attribute or refuses the value.
    pub fn set_attribute(&self, attribute: &str, value: &str) -> Result<(), LabError> {
        let operation = format!("set {attribute} of {} to {value}", self.interface);
        self.within(|| write_sysfs(&format!("class/net/{}/{attribute}", self.interface), value))?
            .map_err(|e| LabError::new(operation, e))
    }

    /// What an attribute of this end's interface says, without the end of its line; none where this kernel has no such one.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn attribute(&self, attribute: &str) -> Result<Option<String>, LabError> {
        let operation = format!("read {attribute} of {}", self.interface);
        let read = self.within(|| read_sysfs(&format!("class/net/{}/{attribute}", self.interface)))?;
        there(read.map(|text| text.trim_end().to_owned())).map_err(|e| LabError::new(operation, e))
    }

    /// What a field of this end's driver says; none where it has no such one.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn driver(&self, field: &str) -> Result<Option<String>, LabError> {
        let operation = format!("read {field} of {}", self.interface);
        there(self.within(|| crate::settings::ethtool::get(&self.interface, field))?)
            .map_err(|e| LabError::new(operation, e))
    }

    /// Sets a field of this end's driver, such as `feature.rx-gro` to `on`; the fields are those of
    /// [`crate::settings::ethtool`]. It goes with the namespace.
    ///
    /// # Errors
    /// Where the driver has no such field or refuses the value.
    pub fn set_driver(&self, field: &str, value: &str) -> Result<(), LabError> {
        let operation = format!("set {field} of {} to {value}", self.interface);
        self.within(|| crate::settings::ethtool::set(&self.interface, field, value))?
            .map_err(|e| LabError::new(operation, e))
    }
}

/// The two ends. Dropping it closes them; the kernel then removes the namespaces and the link.
#[derive(Debug)]
pub struct Lab {
    /// Where the source sends from.
    pub source: LabEnd,
    /// Where the sink receives.
    pub sink: LabEnd,
}

impl Lab {
    /// Makes the namespaces and the link between them, with fixed neighbour entries so that no address
    /// resolution disturbs the stream, and brings both ends and their loopbacks up.
    ///
    /// # Errors
    /// [`LabError::NotPermitted`] without CAP_SYS_ADMIN and CAP_NET_ADMIN: use loopback then.
    pub fn create() -> Result<Self, LabError> {
        Self::with_mtu(DEFAULT_MTU)
    }

    /// As [`Self::create`], with this MTU in bytes (68 to 65535; IPv6 wants 1280 or more).
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn with_mtu(mtu: u32) -> Result<Self, LabError> {
        let process = std::process::id();
        let end = |role: &str, last| LabEnd::new(role, format!("quav{}{process}", &role[..2]), last, false);
        let (source, sink) = (end("source", 1)?, end("sink", 2)?);
        source.within(|| create_pair(&source, &sink, mtu))??;
        Self::made_ready(source, sink)
    }

    /// Gives the ends their addresses and waits until they take packets in.
    fn made_ready(mut source: LabEnd, mut sink: LabEnd) -> Result<Self, LabError> {
        let (source_end, sink_end) = (plan(&source), plan(&sink));
        for (end, own, peer) in [(&mut source, &source_end, &sink_end), (&mut sink, &sink_end, &source_end)] {
            let (index, has_ipv6) = end.within(|| bring_up(own, peer))??;
            end.interface_index = index;
            end.ipv6 = end.ipv6.filter(|_| has_ipv6);
        }
        for end in [&source, &sink] {
            end.within(|| wait_until_operational(end))??;
        }
        Ok(Self { source, sink })
    }

    /// Moves the calling thread to the source's end ([`LabEnd::enter`]).
    ///
    /// # Errors
    /// As [`LabEnd::enter`].
    pub fn enter_source(&self) -> Result<(), LabError> {
        self.source.enter()
    }

    /// Moves the calling thread to the sink's end ([`LabEnd::enter`]).
    ///
    /// # Errors
    /// As [`LabEnd::enter`].
    pub fn enter_sink(&self) -> Result<(), LabError> {
        self.sink.enter()
    }
}

/// What an end is to become.
struct Plan {
    interface: String,
    hardware: [u8; 6],
    addresses: [(IpAddr, u8); 2],
}

fn plan(end: &LabEnd) -> Plan {
    let ipv6 = end.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED);
    Plan {
        interface: end.interface.clone(),
        hardware: hardware_address(end.ipv4),
        addresses: [(end.ipv4.into(), 24), (ipv6.into(), 64)],
    }
}

/// A locally administered unicast address that ends as the IPv4 address does.
fn hardware_address(ipv4: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = ipv4.octets();
    [0x02, 0x51, a, b, c, d]
}

fn create_pair(source: &LabEnd, sink: &LabEnd, mtu: u32) -> Result<(), LabError> {
    let failed =
        |e| LabError::new(format!("create veth pair {} and {}", source.interface, sink.interface), e);
    let mut socket = RouteSocket::open().map_err(failed)?;
    let end = |end: &LabEnd| route::VethEnd {
        name: end.interface.clone(),
        hardware: hardware_address(end.ipv4),
        mtu,
    };
    socket.create_veth(&end(source), &end(sink), sink.namespace.as_fd()).map_err(failed)
}

/// Brings up the loopback interface of the calling thread's namespace.
///
/// # Errors
/// The process may not, or there is none.
pub fn bring_up_loopback() -> Result<(), LabError> {
    let up = || RouteSocket::open()?.set_up(route::interface_index("lo")?);
    up().map_err(|e| LabError::new("bring up loopback".to_owned(), e))
}

/// Configures the end whose namespace the thread is in; its interface index and whether IPv6 works.
fn bring_up(own: &Plan, peer: &Plan) -> Result<(u32, bool), LabError> {
    let failed = |step: &str, e: std::io::Error| LabError::new(format!("{step} {}", own.interface), e);
    bring_up_loopback()?;
    let mut socket = RouteSocket::open().map_err(|e| failed("open route socket for", e))?;
    let index = route::interface_index(&own.interface).map_err(|e| failed("look up", e))?;
    // Router solicitations and duplicate detection for a link-local address would mix with the stream. A
    // kernel without IPv6 refuses this, and needs it not.
    let has_ipv6 = socket.without_link_local(index).is_ok();
    socket.set_up(index).map_err(|e| failed("bring up", e))?;
    for ((address, prefix), (neighbour, _)) in own.addresses.iter().zip(&peer.addresses) {
        if address.is_ipv6() && !has_ipv6 {
            continue;
        }
        let (address, prefix) = (*address, *prefix);
        socket
            .add_address(index, Address { address, prefix })
            .and_then(|()| socket.add_neighbour(index, *neighbour, peer.hardware))
            .map_err(|e| failed(&format!("add address {address} to"), e))?;
    }
    Ok((index, has_ipv6))
}

/// The kernel connects the queues of an interface in its own time after both ends are up, and later still takes in what is
/// sent to its IPv6 address; until then it drops what is sent without a word.
fn wait_until_operational(end: &LabEnd) -> Result<(), LabError> {
    const MOST_WAIT: Duration = Duration::from_secs(10);
    let failed = |e| LabError::new(format!("wait for the link of {}", end.interface), e);
    let mut socket = RouteSocket::open().map_err(failed)?;
    let start = Instant::now();
    let ready = |socket: &mut RouteSocket| -> std::io::Result<bool> {
        let takes_in = match end.ipv6 {
            Some(own) => socket.takes_in(own.into())?,
            None => true,
        };
        Ok(takes_in && socket.is_operational(end.interface_index)?)
    };
    while !ready(&mut socket).map_err(failed)? {
        if start.elapsed() > MOST_WAIT {
            return Err(failed(std::io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn enter(namespace: BorrowedFd<'_>, interface: &str) -> Result<(), LabError> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(|e| LabError::new(format!("enter the network namespace of {interface}"), e))
}

fn new_namespace(role: &str) -> Result<OwnedFd, LabError> {
    on_thread(|| {
        let failed = |e: Errno| LabError::new(format!("make a network namespace for the {role}"), e);
        // SAFETY: only the network namespace of this short-lived thread changes; descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(failed)?;
        rustix::fs::open("/proc/thread-self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(failed)
    })
}

/// Runs `body` on a thread of its own, because namespaces belong to threads.
fn on_thread<T: Send>(body: impl FnOnce() -> Result<T, LabError> + Send) -> Result<T, LabError> {
    std::thread::scope(|scope| {
        let thread = quaver_waiting::start_in(scope, "quaver-netns", body)
            .map_err(|e| LabError::new("start a thread for a network namespace", e))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Writes `value` to a sysfs file as the thread's network namespace shows it: sysfs ties what it shows to the
/// namespace that it is mounted in, so this makes a mount of its own, which has no place in the tree and ends
/// with its descriptor.
fn write_sysfs(path: &str, value: &str) -> std::io::Result<()> {
    open_sysfs(path, OFlags::WRONLY)?.write_all(value.as_bytes())
}

/// Reads a sysfs file in the same way.
fn read_sysfs(path: &str) -> std::io::Result<String> {
    std::io::read_to_string(open_sysfs(path, OFlags::RDONLY)?)
}

fn open_sysfs(path: &str, how: OFlags) -> std::io::Result<File> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let root = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(openat(&root, path, how | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// What was read; none where there is nothing of the kind.
fn there(read: std::io::Result<String>) -> std::io::Result<Option<String>> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => Ok(None),
        Err(error) => Err(error),
    }
}

/// CPUs as the kernel writes masks: groups of 32 bits in hexadecimal, highest first, with commas between.
fn cpu_mask(cpus: &[u16]) -> String {
    let mut groups = vec![0u32; usize::from(cpus.iter().max().copied().unwrap_or(0)) / 32 + 1];
    for cpu in cpus {
        groups[usize::from(*cpu) / 32] |= 1 << (cpu % 32);
    }
    let groups: Vec<String> = groups.iter().rev().map(|group| format!("{group:08x}")).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests;
