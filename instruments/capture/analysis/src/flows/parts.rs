//! Datagrams that came in parts (RFC 791, section 3.2; RFC 8200, section 4.5): only the first part has ports and
//! payload, so what it carries is remembered for those that come after it.

use super::{NetworkFacts, Payload, Tunnel};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Datagrams remembered at once.
const MOST: usize = 1_024;
/// For so long parts are put together (RFC 8200, section 4.5): later the number belongs to another datagram.
const TIME_NS: i64 = 60_000_000_000;

/// What makes parts one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Datagram {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// Networks in tunnels may have the same addresses.
    tunnel: Option<Tunnel>,
    id: u32,
}

/// What its first part said, and when.
#[derive(Clone, Copy, Debug)]
struct First {
    ports: (Option<u16>, Option<u16>),
    payload: Payload,
    seen_ns: i64,
}

/// The first parts that were seen last.
#[derive(Debug, Default)]
pub(super) struct Parts {
    firsts: HashMap<Datagram, First>,
    order: VecDeque<Datagram>,
}

impl Parts {
    /// Gives a later part the ports and the payload of its datagram's first part, and says whether it did: then the
    /// packet belongs to that one's flow, and is none of its numbered packets. A part that came before the first stays
    /// as it is.
    pub(super) fn resolve(&mut self, network: &mut NetworkFacts, now_ns: i64) -> bool {
        let Some(part) = network.part else { return false };
        let NetworkFacts { source, destination, protocol, tunnel, .. } = *network;
        let datagram = Datagram { source, destination, protocol, tunnel, id: part.id };
        if part.first {
            let ports = (network.source_port, network.destination_port);
            self.remember(datagram, First { ports, payload: network.payload, seen_ns: now_ns });
            return false;
        }
        let known = self.firsts.get(&datagram);
        let Some(first) = known.filter(|first| now_ns.saturating_sub(first.seen_ns) <= TIME_NS) else {
            return false;
        };
        (network.source_port, network.destination_port) = first.ports;
        network.payload = first.payload;
        true
    }

    fn remember(&mut self, datagram: Datagram, first: First) {
        if self.firsts.insert(datagram, first).is_some() {
            return;
        }
        self.order.push_back(datagram);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.firsts.remove(&oldest);
        }
    }
}
