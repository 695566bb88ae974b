use super::*;
use quaver_host::netns::{Lab, LabEnd};
use quaver_testbed::privileged::privileged;
use std::net::SocketAddrV6;

/// The link-local address of an end, which the laboratory does without: made of the interface's own, at once.
fn link_local(end: &LabEnd) -> Ipv6Addr {
    let made = end.within(|| {
        for (setting, value) in [("accept_dad", "0"), ("addr_gen_mode", "0")] {
            let path = format!("/proc/sys/net/ipv6/conf/{}/{setting}", end.interface);
            std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
        }
        std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap()
    });
    let table = made.unwrap();
    let address = table.lines().find_map(|line| line.split(' ').next().filter(|a| a.starts_with("fe80")));
    let address = address.unwrap_or_else(|| panic!("no link-local address: {table}"));
    Ipv6Addr::from(u128::from_str_radix(address, 16).unwrap())
}

/// An address of a link means nothing without its interface, which must not be lost on the way to the test port.
#[test]
fn link_local_addresses_keep_their_interface() {
    let name = "link_local_addresses_keep_their_interface";
    if !privileged(name) {
        return;
    }
    let lab = Lab::create().unwrap();
    let server = lab.sink.within(|| Served::at(Ipv6Addr::UNSPECIFIED.into())).unwrap();
    let interface = lab.source.interface_index;
    link_local(&lab.source);
    let address = SocketAddrV6::new(link_local(&lab.sink), server.control.port(), 0, interface);
    for transport in [Transport::Udp, Transport::Tcp] {
        let options = ClientOptions {
            server: address.into(),
            transport,
            directions: Directions::Both,
            ..server.client()
        };
        // A source that is young has its global address alone to call from; both have to do.
        let outcome = lab.source.within(|| measure(&options)).unwrap();
        let said = || server.events.try_iter().collect::<Vec<_>>();
        let outcome = outcome.unwrap_or_else(|e| panic!("{e}; the server: {:?}", said()));
        assert!(outcome.is_complete(), "{outcome:?}");
        outcome.flows.iter().for_each(|flow| assert_all(flow, 100));
    }
}
