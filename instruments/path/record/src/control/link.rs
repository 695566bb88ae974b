//! The interface of a link-local address that the system names without one.

use std::net::{Ipv6Addr, SocketAddr};

/// `local` with its interface. The system leaves it out of a connection's own link-local address where the peer's address is
/// a global one, but does not bind to the address without it. Of an address that several interfaces have, none is known.
pub(crate) fn with_interface(local: SocketAddr) -> SocketAddr {
    let SocketAddr::V6(mut at) = local else { return local };
    if at.ip().is_unicast_link_local() && at.scope_id() == 0 {
        let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
        at.set_scope_id(interface_of(*at.ip(), &table).unwrap_or(0));
    }
    at.into()
}

/// The number of the only interface with this address; `table` is the kernel's: address and number in hexadecimal, and more.
fn interface_of(address: Ipv6Addr, table: &str) -> Option<u32> {
    let mut found = table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let here = u128::from_str_radix(words.next()?, 16).ok()?;
        (here == address.to_bits()).then(|| u32::from_str_radix(words.next()?, 16).ok())?
    });
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_one_interface_is_found_and_of_two_is_not() {
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fe800000000000000051c0fffe000202 0c 40 20 80     eth0\n\
                     fe800000000000000000000000000001 02 40 20 80     eth1\n\
                     fe800000000000000000000000000001 03 40 20 80     eth2\n";
        let of = |text: &str| interface_of(text.parse().unwrap(), table);
        assert_eq!(of("fe80::51:c0ff:fe00:202"), Some(12));
        assert_eq!(of("fe80::1"), None);
        assert_eq!(of("fe80::2"), None);
        assert_eq!(interface_of(Ipv6Addr::LOCALHOST, ""), None);
    }

    #[test]
    fn what_has_an_interface_or_needs_none_stays() {
        for text in ["[fe80::1%9]:5", "[2001:db8::1]:5", "192.0.2.1:5"] {
            let at: SocketAddr = text.parse().unwrap();
            assert_eq!(with_interface(at), at);
        }
    }
}
