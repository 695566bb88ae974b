//! A first look at what arrives, before anything is measured: who sends, what the payload is, how fast it comes.

use super::{Sink, payload};
use crate::error::ProbeError;
use crate::socket::{numbers, set_option};
use quaver_clock::monotonic_ns;
use quaver_host::trace::Payload;
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::SockAddr;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Bytes of a payload that are kept: enough for every header that we know.
pub const KEPT_BYTES: usize = 128;
/// Time between two looks at whether to go on.
const TICK: Duration = Duration::from_millis(50);

/// A packet that was taken off the queue to learn from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPacket {
    /// When we had it, CLOCK_MONOTONIC nanoseconds.
    pub seen_ns: i64,
    /// Who sent it.
    pub sender: SocketAddr,
    /// Index of the interface that it came in on, where the kernel tells.
    pub interface: Option<u32>,
    /// Length of its payload in bytes.
    pub payload_bytes: usize,
    /// The first bytes of its payload, [`KEPT_BYTES`] at most.
    pub octets: Vec<u8>,
}

impl SeenPacket {
    /// What the payload most likely is ([`super::classify`]).
    pub fn payload(&self) -> Payload {
        payload::classify(&self.octets)
    }
}

impl Sink {
    /// Takes packets off the queue and hands them to `take` until that answers false. `take` is also called, with
    /// none, when nothing came for 50 ms.
    ///
    /// # Errors
    /// When the socket refuses to tell interfaces or to receive.
    pub fn look(&self, mut take: impl FnMut(Option<SeenPacket>) -> bool) -> Result<(), ProbeError> {
        let address = self.local_address();
        let failed = |what: &str, error: std::io::Error| {
            ProbeError::os(format!("{what} the sink at {address}"), error)
        };
        tell_interfaces(self.as_fd(), address, true)
            .map_err(|error| failed("ask for the interface of packets to", error))?;
        let tick = Timespec::try_from(TICK).expect("50 ms fit");
        loop {
            let mut descriptors = [PollFd::new(self, PollFlags::IN)];
            match rustix::event::poll(&mut descriptors, Some(&tick)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("wait for packets to", error.into())),
            }
            let packet = receive(self.as_fd()).map_err(|error| failed("receive packets at", error))?;
            if !take(packet) {
                break;
            }
        }
        tell_interfaces(self.as_fd(), address, false)
            .map_err(|error| failed("ask no more for the interface of packets to", error))
    }

    /// Sets what is taken for the stream, once a look at it has told. As [`super::SinkOptions`] has it.
    pub fn follow(&mut self, payload: Payload, stream_id: Option<u32>) {
        self.options.payload = payload;
        self.options.stream_id = stream_id;
    }

    /// The CPU that processed the packet received last, where the kernel tells (`SO_INCOMING_CPU`).
    pub fn incoming_cpu(&self) -> Option<u16> {
        let cpu = numbers::<1>(self.as_fd(), libc::SOL_SOCKET, libc::SO_INCOMING_CPU).ok()?[0];
        u16::try_from(cpu).ok()
    }

    /// Receives from `sender` alone from here on; the kernel turns others away. What is in the queue stays there.
    ///
    /// # Errors
    /// When no route leads to `sender`.
    pub fn only_from(&self, sender: SocketAddr) -> Result<(), ProbeError> {
        self.socket.connect(&SockAddr::from(sender)).map_err(|error| {
            ProbeError::os(format!("receive from {sender} alone at {}", self.local_address()), error)
        })
    }
}

/// Whether each packet shall come with the interface that it came in on.
fn tell_interfaces(socket: BorrowedFd<'_>, address: SocketAddr, on: bool) -> std::io::Result<()> {
    let on = i32::from(on);
    match address {
        SocketAddr::V4(_) => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, &on),
        SocketAddr::V6(_) => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &on),
    }
}

/// Room for the control messages of a packet, aligned as they are.
#[repr(C, align(8))]
struct ControlSpace([u8; 256]);

/// The oldest packet of the queue, if there is one.
fn receive(socket: BorrowedFd<'_>) -> std::io::Result<Option<SeenPacket>> {
    let mut octets = vec![0u8; KEPT_BYTES];
    let mut control = ControlSpace([0; 256]);
    let mut part = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
    // SAFETY: all-zero bytes are a valid msghdr: no name, no parts, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the closure gets room for a whole address and sets the length that the kernel filled; the message
    // leads to `octets` and `control`, valid for writing for the lengths given.
    let (length, sender) = unsafe {
        SockAddr::try_init(|storage, name_length| {
            message.msg_name = storage.cast();
            message.msg_namelen = *name_length;
            let length = libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags);
            *name_length = message.msg_namelen;
            Ok(length)
        })?
    };
    let Ok(payload_bytes) = usize::try_from(length) else {
        let error = std::io::Error::last_os_error();
        return match error.kind() {
            // An ICMP error about what we never sent, or a signal: no packet.
            std::io::ErrorKind::WouldBlock
            | std::io::ErrorKind::Interrupted
            | std::io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        };
    };
    let Some(sender) = sender.as_socket() else { return Ok(None) };
    octets.truncate(payload_bytes);
    let interface = interface_of(&message);
    Ok(Some(SeenPacket { seen_ns: monotonic_ns(), sender, interface, payload_bytes, octets }))
}

/// The interface that the control messages of `message` tell of.
fn interface_of(message: &libc::msghdr) -> Option<u32> {
    let mut interface = None;
    // SAFETY: the kernel filled the control data with whole messages and set its length; the macros stay within
    // it, and each message read here holds the type that its number says.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const *message);
        while let Some(found) = header.as_ref() {
            let data = libc::CMSG_DATA(header);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let told = data.cast::<libc::in_pktinfo>().read_unaligned();
                    interface = u32::try_from(told.ipi_ifindex).ok();
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    interface = Some(data.cast::<libc::in6_pktinfo>().read_unaligned().ipi6_ifindex);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const *message, header);
        }
    }
    interface.filter(|index| *index != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::SinkOptions;
    use quaver_clock::CounterSupport;
    use quaver_testbed::privileged::{Feature, Lack, skip};
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::path::Path;

    #[test]
    fn packets_are_seen_with_sender_interface_and_head() {
        let counter = CounterSupport::detect(Path::new("/")).counter;
        for host in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let Ok(sender) = UdpSocket::bind(SocketAddr::new(host, 0)) else {
                assert!(host.is_ipv6(), "no loopback");
                skip("packets_are_seen_with_sender_interface_and_head", Lack::Feature(Feature::Ipv6));
                continue;
            };
            let sink = Sink::open(SinkOptions::new(SocketAddr::new(host, 0), counter)).unwrap();
            let mut seen = Vec::new();
            let mut sent = false;
            sink.look(|packet| {
                // The kernel tells the interface of packets that come while it is asked to.
                if !std::mem::replace(&mut sent, true) {
                    sender.send_to(&[7; 300], sink.local_address()).unwrap();
                    sender.send_to(&[8; 3], sink.local_address()).unwrap();
                    return true;
                }
                let nothing = packet.is_none();
                seen.extend(packet);
                !nothing
            })
            .unwrap();
            assert_eq!(seen.len(), 2);
            assert!(seen.iter().all(|packet| packet.sender == sender.local_addr().unwrap()));
            assert!(seen.iter().all(|packet| packet.interface == Some(1)), "loopback is interface 1");
            assert_eq!((seen[0].payload_bytes, seen[0].octets.len()), (300, KEPT_BYTES));
            assert_eq!((seen[1].payload_bytes, seen[1].octets.as_slice()), (3, &[8u8; 3][..]));
        }
    }

    #[test]
    fn others_are_turned_away() {
        let counter = CounterSupport::detect(Path::new("/")).counter;
        let sink = Sink::open(SinkOptions::new((Ipv4Addr::LOCALHOST, 0).into(), counter)).unwrap();
        let [wanted, other] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        sink.only_from(wanted.local_addr().unwrap()).unwrap();
        other.send_to(b"no", sink.local_address()).unwrap();
        wanted.send_to(b"yes", sink.local_address()).unwrap();
        let mut seen = Vec::new();
        sink.look(|packet| {
            let nothing = packet.is_none();
            seen.extend(packet.map(|packet| packet.octets));
            !nothing
        })
        .unwrap();
        assert_eq!(seen, [b"yes"]);
    }
}
