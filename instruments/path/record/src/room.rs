//! How many rows of a flow a server keeps.

use crate::limits::Limits;
use quaver_path_flow::{FlowSpec, Transport};

/// Room for the rows of a flow. Copies have room of their own: a path may make any number of them, for which the sender is not to
/// blame, and first copies are kept all the same.
pub(crate) struct Room {
    packets: usize,
    copies: usize,
    /// TCP makes no copies.
    may_copy: bool,
    /// Whether more packets came than were asked for.
    pub(crate) is_overdrawn: bool,
}

impl Room {
    /// There is no end to it.
    pub(crate) const ENDLESS: Self =
        Self { packets: usize::MAX, copies: usize::MAX, may_copy: true, is_overdrawn: false };

    pub(crate) fn of(limits: &Limits, flow: &FlowSpec) -> Self {
        let copies = limits.most_copies(flow.packets);
        let may_copy = flow.transport == Transport::Udp;
        Self { packets: limits.most_rows(flow.packets) - copies, copies, may_copy, is_overdrawn: false }
    }

    /// Whether a row with these flags is to be kept.
    pub(crate) fn has(&mut self, flags: i32) -> bool {
        let is_copy = flags != 0;
        let left = if is_copy { &mut self.copies } else { &mut self.packets };
        let kept = *left > 0;
        *left = left.saturating_sub(1);
        self.is_overdrawn |= !(kept || is_copy && self.may_copy);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::wire::jitlat::FLAG_DUPLICATE;

    #[test]
    fn a_path_that_doubles_each_packet_takes_no_room_from_the_packets_and_ends_no_test() {
        let room = |may_copy| Room { packets: 10, copies: 4, may_copy, is_overdrawn: false };
        let kept = |room: &mut Room| (0..10).filter(|_| room.has(0) & !room.has(FLAG_DUPLICATE)).count();
        let mut udp = room(true);
        assert_eq!((kept(&mut udp), udp.is_overdrawn), (6, false), "six of ten copies are not kept");
        assert!(!udp.has(0) && udp.is_overdrawn, "an eleventh packet");
        let mut tcp = room(false);
        assert_eq!((kept(&mut tcp), tcp.is_overdrawn), (6, true));
    }
}
