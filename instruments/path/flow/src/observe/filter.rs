//! The packet socket, and the classic BPF program that lets one direction of one connection through.

use super::own;
use crate::error::FlowError;
use crate::segments::Side;
use quaver_probe::socket::{numbers, set_option};
use std::io::Error;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Bytes kept of each packet: the longest IP header and the longest TCP header.
pub(super) const KEPT_BYTES: usize = 128;

// Instructions of classic BPF, of which there are no others here (linux/bpf_common.h).
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_OCTET: u16 = 0x30;
const LOAD_HALF_INDEXED: u16 = 0x48;
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;
/// Where the packet's kind is found (`SKF_AD_OFF + SKF_AD_PKTTYPE`).
const PACKET_KIND_AT: u32 = (-0x1000i32 + 4).cast_unsigned();

/// Where its protocol is found (`SKF_AD_OFF + SKF_AD_PROTOCOL`).
const PACKET_PROTOCOL_AT: u32 = (-0x1000i32).cast_unsigned();

/// What has to hold for a number in the packet.
enum Must {
    Equal(u32),
    Differ(u32),
    HaveNoneOf(u32),
}

/// Offsets are from the IP header on, as packet sockets without link headers have them.
fn checks(from: SocketAddr, to: SocketAddr, side: Side) -> Vec<(u16, u32, Must)> {
    let outgoing = u32::from(libc::PACKET_OUTGOING);
    let tcp = libc::IPPROTO_TCP.cast_unsigned();
    let mut checks = vec![(
        LOAD_WORD,
        PACKET_KIND_AT,
        // Loopback shows each packet as it goes and as it comes.
        if side == Side::Sender { Must::Equal(outgoing) } else { Must::Differ(outgoing) },
    )];
    let words = |octets: &[u8], at: u32| -> Vec<(u16, u32, Must)> {
        let words =
            octets.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        (at..).step_by(4).zip(words).map(|(at, word)| (LOAD_WORD, at, Must::Equal(word))).collect()
    };
    match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            checks.push((LOAD_WORD, PACKET_PROTOCOL_AT, Must::Equal(libc::ETH_P_IP as u32)));
            checks.push((LOAD_OCTET, 9, Must::Equal(tcp)));
            checks.extend(words(&source.octets(), 12));
            checks.extend(words(&destination.octets(), 16));
            checks.push((LOAD_HALF, 6, Must::HaveNoneOf(0x1fff)));
            checks.push((LOAD_HALF_INDEXED, 0, Must::Equal(from.port().into())));
            checks.push((LOAD_HALF_INDEXED, 2, Must::Equal(to.port().into())));
        }
        (source, destination) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            checks.push((LOAD_WORD, PACKET_PROTOCOL_AT, Must::Equal(libc::ETH_P_IPV6 as u32)));
            checks.push((LOAD_OCTET, 6, Must::Equal(tcp)));
            checks.extend(words(&octets(source), 8));
            checks.extend(words(&octets(destination), 24));
            checks.push((LOAD_HALF, 40, Must::Equal(from.port().into())));
            checks.push((LOAD_HALF, 42, Must::Equal(to.port().into())));
        }
    }
    checks
}

fn program(from: SocketAddr, to: SocketAddr, side: Side) -> Vec<libc::sock_filter> {
    let instruction = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut program = vec![instruction(LOAD_HEADER_LENGTH, 0)];
    let mut jumps = Vec::new();
    for (load, at, must) in checks(from, to, side) {
        program.push(instruction(load, at));
        let (code, number, wanted) = match must {
            Must::Equal(number) => (JUMP_IF_EQUAL, number, true),
            Must::Differ(number) => (JUMP_IF_EQUAL, number, false),
            Must::HaveNoneOf(bits) => (JUMP_IF_ANY, bits, false),
        };
        jumps.push((program.len(), wanted));
        program.push(instruction(code, number));
    }
    program.push(instruction(RETURN, KEPT_BYTES as u32));
    let refuse = program.len();
    program.push(instruction(RETURN, 0));
    for (at, wanted) in jumps {
        let distance = u8::try_from(refuse - at - 1).expect("the program has fewer than 60 instructions");
        let jump = &mut program[at];
        if wanted { jump.jf = distance } else { jump.jt = distance }
    }
    program
}

/// A packet socket that gets what goes from `from` to `to` over TCP, as this side sees it.
pub(super) fn open_tap(from: SocketAddr, to: SocketAddr, side: Side) -> Result<OwnedFd, FlowError> {
    let failed = |e: Error| match e.raw_os_error() {
        Some(libc::EPERM) => FlowError::NotPermitted {
            operation: "open a packet socket for the segments of the test connection".to_owned(),
            remedy: "give CAP_NET_RAW (setcap cap_net_raw+ep on the program), or run as root; only the \
                     connection's own counters are shown",
        },
        _ => FlowError::os("open a packet socket for the segments of the test connection", e),
    };
    // Of no protocol, so that nothing comes in before the filter is there.
    // SAFETY: takes no pointers.
    let tap = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let tap = own(tap).map_err(failed)?;
    let mut program = program(from, to, side);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program, which lives until the end of this function.
    set_option(tap.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter).map_err(failed)?;
    let protocol = if to.ip().to_canonical().is_ipv4() { libc::ETH_P_IP } else { libc::ETH_P_IPV6 };
    // SAFETY: all-zero bytes are a valid sockaddr_ll, which is plain numbers.
    let mut everywhere: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    everywhere.sll_family = libc::AF_PACKET as u16;
    // Outgoing packets are shown to taps of all protocols only.
    let protocol = if side == Side::Sender { libc::ETH_P_ALL } else { protocol };
    everywhere.sll_protocol = (protocol as u16).to_be();
    let octets = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid for reading for the length given.
    if unsafe { libc::bind(tap.as_raw_fd(), (&raw const everywhere).cast(), octets) } < 0 {
        return Err(failed(Error::last_os_error()));
    }
    Ok(tap)
}

/// Packets that found no room in the socket's buffer since the last call.
pub(super) fn unseen(tap: &OwnedFd) -> u64 {
    // struct tpacket_stats: packets, drops.
    numbers::<2>(tap.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS).map_or(0, |[_, drops]| drops.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program of the instructions above.
    fn accepts(program: &[libc::sock_filter], packet: &[u8], kind: u32) -> bool {
        let (mut at, mut a, mut x) = (0, 0u32, 0usize);
        let octets = |from: usize, count: usize| {
            packet
                .get(from..from + count)
                .map(|o| o.iter().fold(0u32, |all, octet| all << 8 | u32::from(*octet)))
        };
        loop {
            let i = program[at];
            let place = i.k as usize;
            at += 1;
            let loaded = match i.code {
                LOAD_WORD if i.k == PACKET_KIND_AT => Some(kind),
                LOAD_WORD if i.k == PACKET_PROTOCOL_AT => {
                    Some(if packet[0] & 0xf0 == 0x40 { 0x0800 } else { 0x86dd })
                }
                LOAD_WORD => octets(place, 4),
                LOAD_HALF => octets(place, 2),
                LOAD_OCTET => octets(place, 1),
                LOAD_HALF_INDEXED => octets(place + x, 2),
                LOAD_HEADER_LENGTH => {
                    x = (octets(place, 1).unwrap_or(0) as usize & 15) * 4;
                    continue;
                }
                JUMP_IF_EQUAL | JUMP_IF_ANY => {
                    let yes = if i.code == JUMP_IF_EQUAL { a == i.k } else { a & i.k != 0 };
                    at += usize::from(if yes { i.jt } else { i.jf });
                    continue;
                }
                RETURN => return i.k > 0,
                other => panic!("instruction {other}"),
            };
            let Some(loaded) = loaded else { return false };
            a = loaded;
        }
    }

    fn packet_v4() -> Vec<u8> {
        let mut packet = vec![0u8; 44];
        packet[0] = 0x46;
        packet[9] = 6;
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
        packet[24..28].copy_from_slice(&[0x10, 0x01, 0x10, 0x02]);
        packet
    }

    #[test]
    fn the_filter_lets_exactly_one_direction_of_one_connection_through() {
        let (from, to) = ("10.0.0.1:4097".parse().unwrap(), "10.0.0.2:4098".parse().unwrap());
        let outgoing = u32::from(libc::PACKET_OUTGOING);
        let (sender, receiver) = (program(from, to, Side::Sender), program(from, to, Side::Receiver));
        let packet = packet_v4();
        assert!(accepts(&sender, &packet, outgoing) && !accepts(&sender, &packet, 0));
        assert!(accepts(&receiver, &packet, 0) && !accepts(&receiver, &packet, outgoing));
        assert!(!accepts(&program(to, from, Side::Receiver), &packet, 0), "the other direction");
        // Protocol, fragment, addresses and ports each matter; the rest does not.
        for at in 0..packet.len() {
            let mut other = packet.clone();
            other[at] ^= 1;
            let matters = matches!(at, 0 | 7 | 9 | 12..20 | 24..28) || at == 6;
            assert_eq!(!accepts(&receiver, &other, 0), matters, "byte {at}");
        }
        assert!(!accepts(&receiver, &packet[..27], 0), "cut off");
    }

    #[test]
    fn the_filter_knows_version_6() {
        let (from, to) = ("[fd00::1]:4097".parse().unwrap(), "[fd00::2]:4098".parse().unwrap());
        let mut packet = vec![0u8; 60];
        packet[0] = 0x60;
        packet[6] = 6;
        packet[8..10].copy_from_slice(&[0xfd, 0]);
        packet[24..26].copy_from_slice(&[0xfd, 0]);
        (packet[23], packet[39]) = (1, 2);
        packet[40..44].copy_from_slice(&[0x10, 0x01, 0x10, 0x02]);
        let receiver = program(from, to, Side::Receiver);
        assert!(accepts(&receiver, &packet, 0));
        for at in 0..packet.len() {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert_eq!(!accepts(&receiver, &other, 0), matches!(at, 6 | 8..44), "byte {at}");
        }
    }
}
