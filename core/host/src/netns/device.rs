//! A lab between two interfaces that are there already, such as those of a guest, each moved into a namespace of its own.

use super::{Lab, LabEnd, LabError};
use crate::route;
use crate::route::RouteSocket;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
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
        let end = |role: &str, interface: &str, last| {
            // Asked before it is moved: the /sys of this thread's namespace does not show it afterwards.
            let is_device = Path::new(&format!("/sys/class/net/{interface}/device")).exists();
            LabEnd::new(role, interface.to_owned(), last, is_device)
        };
        let (source, sink) = (end("source", source, 1)?, end("sink", sink, 2)?);
        move_there(&source)?;
        move_there(&sink)?;
        Self::made_ready(source, sink)
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
