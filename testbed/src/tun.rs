//! A link between two network namespaces whose packets pass through this process, which may lose or copy them: loss
//! *below* TCP, where the impairment relay, which ends TCP connections, cannot reach. Needs CAP_NET_ADMIN in both.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest wait without a look at the stop flag.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives twice.
    Copy,
}

/// Makes a point-to-point interface in the calling thread's network namespace and brings it up. Whole IP packets go
/// through the descriptor; the interface goes with it.
///
/// # Errors
/// Without `/dev/net/tun` or CAP_NET_ADMIN.
pub fn open(name: &str, here: Ipv4Addr, there: Ipv4Addr) -> io::Result<OwnedFd> {
    let tun = rustix::fs::open(
        "/dev/net/tun",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    )?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    control(&tun, libc::TUNSETIFF, &mut request)?;
    // SAFETY: socket() takes no pointers; what it returns is a new descriptor or -1.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    for (command, address) in [(libc::SIOCSIFADDR, here), (libc::SIOCSIFDSTADDR, there)] {
        request.ifr_ifru.ifru_addr = of_address(address);
        control(&socket, command, &mut request)?;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    control(&socket, libc::SIOCSIFFLAGS, &mut request)?;
    Ok(tun)
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid ifreq: it is numbers and bytes.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, octet) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = octet as libc::c_char;
    }
    Ok(request)
}

fn of_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data: [libc::c_char; 14] = [0; 14];
    // sockaddr_in: port (2), address (4).
    for (to, octet) in data[2..6].iter_mut().zip(address.octets()) {
        *to = octet as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn control(fd: &OwnedFd, command: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all commands used here read or write one ifreq, and `request` is one, valid for both.
    let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), command, std::ptr::from_mut(request)) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Carries packets between the two ends until `stop` is set; `fate` is asked of each, with the end (0 or 1) that it
/// comes from.
///
/// # Errors
/// When an end fails.
pub fn carry(
    ends: &[OwnedFd; 2],
    stop: &AtomicBool,
    mut fate: impl FnMut(usize, &[u8]) -> Fate,
) -> io::Result<()> {
    let mut packet = vec![0u8; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let mut waited = ends.each_ref().map(|end| PollFd::new(end, PollFlags::IN));
        match poll(&mut waited, Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (from, end) in ends.iter().enumerate() {
            loop {
                let got = match rustix::io::read(end.as_fd(), &mut packet) {
                    Ok(got) => got,
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(error) => return Err(error.into()),
                };
                let copies = match fate(from, &packet[..got]) {
                    Fate::Pass => 1,
                    Fate::Drop => 0,
                    Fate::Copy => 2,
                };
                for _ in 0..copies {
                    rustix::io::write(ends[1 - from].as_fd(), &packet[..got])?;
                }
            }
        }
    }
    Ok(())
}
