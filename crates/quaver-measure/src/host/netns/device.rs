//! A lab between two interfaces that are there already, such as those of a guest, each moved into a namespace of its own.

use super::{Lab, LabEnd, LabError, bring_up, new_namespace, plan, wait_until_operational};
use crate::host::route::{self, RouteSocket};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::path::Path;

impl Lab {
    /// Moves the two interfaces into namespaces and gives them addresses, with fixed neighbour entries as
    /// [`Lab::create`] does: their hardware addresses have to be `02:51:c0:00:02:01` (source) and `:02` (sink). When this is
    /// dropped the kernel moves them back.
    ///
    /// # Errors
    /// As [`Lab::create`], and where there is no such interface.
    pub fn between(source: &str, sink: &str) -> Result<Self, LabError> {
        let end = |role: &str, interface: &str, last: u8| -> Result<LabEnd, LabError> {
            Ok(LabEnd {
                namespace: new_namespace(role)?,
                interface: interface.to_owned(),
                interface_index: 0,
                ipv4: Ipv4Addr::new(192, 0, 2, last),
                ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last))),
                // Asked before it is moved: the /sys of this thread's namespace does not show it afterwards.
                is_device: Path::new(&format!("/sys/class/net/{interface}/device")).exists(),
            })
        };
        let (mut source, mut sink) = (end("source", source, 1)?, end("sink", sink, 2)?);
        move_there(&source)?;
        move_there(&sink)?;
        let (source_plan, sink_plan) = (plan(&source), plan(&sink));
        for (end, own, peer) in
            [(&mut source, &source_plan, &sink_plan), (&mut sink, &sink_plan, &source_plan)]
        {
            let (index, has_ipv6) = end.within(|| bring_up(own, peer))??;
            end.interface_index = index;
            end.ipv6 = end.ipv6.filter(|_| has_ipv6);
        }
        for end in [&source, &sink] {
            end.within(|| wait_until_operational(end))??;
        }
        Ok(Self { source, sink })
    }
}

fn move_there(end: &LabEnd) -> Result<(), LabError> {
    let failed = |e| LabError::new(format!("move {} into a namespace of its own", end.interface), e);
    let mut message = LinkMessage::default();
    message.header.index = route::interface_index(&end.interface).map_err(failed)?;
    message.attributes.push(LinkAttribute::NetNsFd(end.namespace.as_raw_fd()));
    let mut socket = RouteSocket::open().map_err(failed)?;
    socket.request(RouteNetlinkMessage::SetLink(message), 0).map_err(failed)
}
