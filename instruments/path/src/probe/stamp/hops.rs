//! Changes of the number of hops of a way, by the TTL of its packets: a route that changed.

use quaver_analysis::path::direction::Direction;
use quaver_view::Cell;

/// So many packets in a row with another TTL are a route that changed; fewer went a way of their own.
const ENOUGH: u32 = 3;

/// Changes that are told one by one.
const MOST_TOLD: usize = 8;

/// A change: the packet from which on, and the TTL before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    from_packet: u64,
    before: u8,
    after: u8,
}

/// The TTL of a way's packets as they come.
#[derive(Debug, Default)]
pub(super) struct Hops {
    now: Option<u8>,
    /// Another TTL, the first packet that had it, and how many in a row.
    other: Option<(u8, u64, u32)>,
    first: Vec<Change>,
    changes: u64,
}

impl Hops {
    /// Takes the TTL with which a packet came; 0 is that of a reflector that cannot tell.
    pub(super) fn take(&mut self, packet: u64, ttl: u8) {
        if ttl == 0 {
            return;
        }
        let before = *self.now.get_or_insert(ttl);
        if before == ttl {
            self.other = None;
            return;
        }
        let (from_packet, row) = match self.other {
            Some((other, from, row)) if other == ttl => (from, row + 1),
            _ => (packet, 1),
        };
        self.other = Some((ttl, from_packet, row));
        if row == ENOUGH {
            self.changes += 1;
            if self.first.len() < MOST_TOLD {
                self.first.push(Change { from_packet, before, after: ttl });
            }
            (self.now, self.other) = (Some(ttl), None);
        }
    }

    /// What changed, as a sentence; none where nothing did.
    pub(super) fn told(&self, direction: Direction) -> Option<String> {
        if self.changes == 0 {
            return None;
        }
        let change = |Change { from_packet, before, after }: &Change| {
            let (hops, way) = (before.abs_diff(*after), if after < before { "more" } else { "fewer" });
            let plural = if hops == 1 { "" } else { "s" };
            format!("from packet {} on {hops} hop{plural} {way}", Cell::Sequence(*from_packet))
        };
        let each: Vec<String> = self.first.iter().map(change).collect();
        let rest = self.changes - self.first.len() as u64;
        let rest =
            if rest == 0 { String::new() } else { format!(", and {} more changes", Cell::Count(rest)) };
        Some(format!("{}: the route changed: {}{rest}", direction.name(), each.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ttls: &[u8]) -> Option<String> {
        let mut hops = Hops::default();
        ttls.iter().zip(0..).for_each(|(ttl, packet)| hops.take(packet, *ttl));
        hops.told(Direction::Up)
    }

    #[test]
    fn a_route_that_changed_is_told_with_its_packet() {
        let found = told(&[60, 60, 58, 58, 58, 58, 59, 59, 59]).unwrap();
        assert_eq!(
            found,
            "up: the route changed: from packet #2 on 2 hops more, from packet #6 on 1 hop fewer"
        );
        let flapping: Vec<u8> = (0..60).map(|packet| if packet / 3 % 2 == 0 { 60 } else { 61 }).collect();
        assert!(told(&flapping).unwrap().ends_with(", and 11 more changes"));
    }

    #[test]
    fn single_packets_and_reflectors_that_cannot_tell_change_no_route() {
        for ttls in [
            &[60u8; 9][..],
            &[60, 60, 58, 58, 60, 58, 58, 60],
            &[60, 58, 57, 56, 60],
            &[0; 9],
            &[],
            &[0, 0, 60, 60, 60],
            &[60, 0, 0, 0, 60],
        ] {
            assert_eq!(told(ttls), None, "{ttls:?}");
        }
    }
}
