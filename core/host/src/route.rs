//! The few requests of rtnetlink that we need, each answered before the next.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage, State,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::tc::{TcAttribute, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io::{Error, Result};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One end of a veth pair to make.
pub(crate) struct VethEnd {
    pub(crate) name: String,
    pub(crate) hardware: [u8; 6],
    pub(crate) mtu: u32,
}

/// An address to add.
pub(crate) struct Address {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

/// An interface of a VLAN, and the one that its packets come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanLink {
    /// Its index.
    pub index: u32,
    /// Index of the one below all VLANs.
    pub below: u32,
    /// Name of that one.
    pub below_name: String,
}

/// A socket in the namespace of the thread that opened it.
pub struct RouteSocket {
    socket: Socket,
    sequence: u32,
}

impl RouteSocket {
    /// Opens a socket of the routing family in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Makes `near` here and its `far` peer in another namespace.
    pub(crate) fn create_veth(
        &mut self,
        near: &VethEnd,
        far: &VethEnd,
        far_namespace: BorrowedFd<'_>,
    ) -> Result<()> {
        let mut peer = link(far);
        peer.attributes.push(LinkAttribute::NetNsFd(far_namespace.as_raw_fd()));
        let mut message = link(near);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub(crate) fn set_up(&mut self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// No automatic IPv6 link-local address.
    pub(crate) fn without_link_local(&mut self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![
            AfSpecInet6::AddrGenMode(In6AddrGenMode::None),
        ])]));
        self.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    pub(crate) fn add_address(&mut self, index: u32, address: Address) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address.address);
        message.header.prefix_len = address.prefix;
        message.header.index = index;
        // Nobody else is on this link: the address is usable at once.
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes.push(AddressAttribute::Local(address.address));
        message.attributes.push(AddressAttribute::Address(address.address));
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    pub(crate) fn add_neighbour(&mut self, index: u32, neighbour: IpAddr, hardware: [u8; 6]) -> Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(neighbour);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::Destination(neighbour.into()));
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(hardware.to_vec()));
        self.request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Whether interface `index` can carry packets: it is up, has a carrier, and its queues are connected.
    pub(crate) fn is_operational(&mut self, index: u32) -> Result<bool> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let mut operational = false;
        self.exchange(RouteNetlinkMessage::GetLink(message), 0, |answer| {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                operational = link.attributes.contains(&LinkAttribute::OperState(State::Up));
            }
        })?;
        Ok(operational)
    }

    /// Whether packets to `address` are taken in here. An IPv6 address is told of, and bound to, some time before.
    pub(crate) fn takes_in(&mut self, address: IpAddr) -> Result<bool> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(address);
        message.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(address.into()));
        let mut own = false;
        self.exchange(RouteNetlinkMessage::GetRoute(message), 0, |answer| {
            if let RouteNetlinkMessage::NewRoute(route) = answer {
                own |= route.header.kind == RouteType::Local;
            }
        })?;
        Ok(own)
    }

    /// Index of the interface that packets to `destination` leave by.
    pub fn interface_towards(&mut self, destination: IpAddr) -> Result<u32> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(destination.into()));
        let mut interface = None;
        self.exchange(RouteNetlinkMessage::GetRoute(message), 0, |answer| {
            if let RouteNetlinkMessage::NewRoute(route) = answer {
                interface = route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Oif(index) => Some(*index),
                    _ => None,
                });
            }
        })?;
        interface.ok_or_else(|| Error::from_raw_os_error(libc::ENETUNREACH))
    }

    /// Kinds of the queueing disciplines on interface `index`, such as `fq`.
    pub fn queueing_disciplines(&mut self, index: u32) -> Result<Vec<String>> {
        let mut kinds = Vec::new();
        let message = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        self.exchange(message, NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewQueueDiscipline(discipline) = answer
                && u32::try_from(discipline.header.index) == Ok(index)
            {
                kinds.extend(discipline.attributes.into_iter().filter_map(|attribute| match attribute {
                    TcAttribute::Kind(kind) => Some(kind),
                    _ => None,
                }));
            }
        })?;
        Ok(kinds)
    }

    /// Interfaces of VLANs whose packets come by one of this namespace.
    pub fn vlans(&mut self) -> Result<Vec<VlanLink>> {
        let mut links = Vec::new();
        self.exchange(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                links.push(link);
            }
        })?;
        Ok(vlans_among(&links))
    }

    /// Sends a request and waits for its acknowledgement.
    pub fn request(&mut self, payload: RouteNetlinkMessage, flags: u16) -> Result<()> {
        self.exchange(payload, NLM_F_ACK | flags, |_| {})
    }

    /// Sends a request and hands each answer to `take`, until the kernel says that it was the last: an
    /// acknowledgement, the end of a dump, or the only answer to a plain question.
    pub fn exchange(
        &mut self,
        payload: RouteNetlinkMessage,
        flags: u16,
        mut take: impl FnMut(RouteNetlinkMessage),
    ) -> Result<()> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(payload);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        self.socket.send(&octets, 0)?;
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|e| Error::other(format!("answer of rtnetlink: {e}")))?;
                // Each message of a datagram starts at a multiple of 4 bytes.
                let length = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or(&[]);
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Error(outcome) => {
                        return outcome.code.map_or(Ok(()), |_| Err(outcome.to_io()));
                    }
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::InnerMessage(inner) => take(inner),
                    _ => {}
                }
                if flags & (NLM_F_ACK | NLM_F_DUMP) == 0 {
                    return Ok(());
                }
            }
        }
    }
}

fn link(end: &VethEnd) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(end.name.clone()));
    message.attributes.push(LinkAttribute::Address(end.hardware.to_vec()));
    message.attributes.push(LinkAttribute::Mtu(end.mtu));
    message
}

fn vlans_among(links: &[LinkMessage]) -> Vec<VlanLink> {
    let of = |index: u32| links.iter().find(|link| link.header.index == index);
    // The index that a VLAN's packets come by; one of another namespace says so.
    let below = |link: &LinkMessage| {
        let is_vlan = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkInfo(info) if info.contains(&LinkInfo::Kind(InfoKind::Vlan)));
        let elsewhere = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkNetNsId(_));
        let attributes = &link.attributes;
        (attributes.iter().any(is_vlan) && !attributes.iter().any(elsewhere)).then(|| {
            attributes.iter().find_map(|one| match one {
                LinkAttribute::Link(index) => Some(*index),
                _ => None,
            })
        })?
    };
    let each = links.iter().filter_map(|link| {
        let mut lowest = of(below(link)?)?;
        while let Some(next) = below(lowest).and_then(of) {
            lowest = next;
        }
        let name = lowest.attributes.iter().find_map(|one| match one {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })?;
        Some(VlanLink { index: link.header.index, below: lowest.header.index, below_name: name })
    });
    each.collect()
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// Index of the interface `name` in the namespace of the calling thread.
pub fn interface_index(name: &str) -> Result<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(netdevice::name_to_index(socket, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(index: u32, name: &str, kind: Option<InfoKind>, below: Option<u32>) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.extend(kind.map(|kind| LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)])));
        message.attributes.extend(below.map(LinkAttribute::Link));
        message
    }

    #[test]
    fn a_vlan_is_followed_to_the_interface_below_all_of_them() {
        let vlan = || Some(InfoKind::Vlan);
        let mut elsewhere = made(6, "e.9", vlan(), Some(2));
        elsewhere.attributes.push(LinkAttribute::LinkNetNsId(0));
        let links = [
            made(5, "eth0.7.8", vlan(), Some(4)),
            made(4, "eth0.7", vlan(), Some(2)),
            made(2, "eth0", None, None),
            // A veth names its peer so.
            made(3, "veth0", Some(InfoKind::Veth), Some(2)),
            elsewhere,
        ];
        let of = |index| VlanLink { index, below: 2, below_name: "eth0".to_owned() };
        assert_eq!(vlans_among(&links), [of(5), of(4)]);
    }

    #[test]
    fn the_loopback_is_no_vlan() {
        let vlans = RouteSocket::open().and_then(|mut route| route.vlans()).unwrap();
        assert!(vlans.iter().all(|vlan| vlan.index != 1), "{vlans:?}");
    }
}
