//! Ports for tests that must name one before it is bound.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// What says that a port is ours, for as long as this process lives.
static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port that nothing on this machine is bound to by UDP or TCP over IPv4, and that no other test is given while this process lives:
/// below those that the system gives away by itself, and held by a name that only one process can have.
///
/// # Panics
/// All of them are taken.
pub fn free_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first: u16 = range.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(32_768);
    let any = Ipv4Addr::UNSPECIFIED;
    let free = |port: &u16| UdpSocket::bind((any, *port)).is_ok() && TcpListener::bind((any, *port)).is_ok();
    (1_024..first.max(10_000))
        .rev()
        .filter(|port| port % 16 == 0)
        .find(|port| hold(*port) && free(port))
        .expect("some port is free")
}

/// Whether nobody else holds the port; from now on this process does.
fn hold(port: u16) -> bool {
    let name = format!("quaver-test-port-{port}");
    let held = SocketAddr::from_abstract_name(name).and_then(|name| UnixListener::bind_addr(&name));
    let Ok(held) = held else { return false };
    HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(held);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_given_a_port_twice() {
        let all: Vec<u16> =
            (0..4).map(|_| std::thread::spawn(free_port)).map(|one| one.join().unwrap()).collect();
        let different: std::collections::BTreeSet<u16> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        assert!(all.iter().all(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()));
        assert!(all.iter().all(|port| !hold(*port)));
    }
}
