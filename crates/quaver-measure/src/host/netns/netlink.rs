//! The few requests of rtnetlink that a lab needs, each acknowledged before the next.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io::{Error, Result};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One end of a veth pair to make.
pub(super) struct VethEnd {
    pub(super) name: String,
    pub(super) hardware: [u8; 6],
    pub(super) mtu: u32,
}

/// An address to add.
pub(super) struct Address {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

/// A socket in the namespace of the thread that opened it.
pub(super) struct RouteSocket {
    socket: Socket,
    sequence: u32,
}

impl RouteSocket {
    pub(super) fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Makes `near` here and its `far` peer in another namespace.
    pub(super) fn create_veth(
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

    pub(super) fn set_up(&mut self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// No automatic IPv6 link-local address.
    pub(super) fn without_link_local(&mut self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![
            AfSpecInet6::AddrGenMode(In6AddrGenMode::None),
        ])]));
        self.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    pub(super) fn add_address(&mut self, index: u32, address: Address) -> Result<()> {
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

    pub(super) fn add_neighbour(&mut self, index: u32, neighbour: IpAddr, hardware: [u8; 6]) -> Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(neighbour);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::Destination(neighbour.into()));
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(hardware.to_vec()));
        self.request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    fn request(&mut self, payload: RouteNetlinkMessage, flags: u16) -> Result<()> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(payload);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        self.socket.send(&octets, 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
                .map_err(|e| Error::other(format!("answer of rtnetlink: {e}")))?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            if let NetlinkPayload::Error(outcome) = answer.payload {
                return outcome.code.map_or(Ok(()), |_| Err(outcome.to_io()));
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

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// Index of the interface `name` in the namespace of the calling thread.
pub(super) fn interface_index(name: &str) -> Result<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(netdevice::name_to_index(socket, name)?)
}
