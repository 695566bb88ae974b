//! Changes of the number of hops of a way, by the TTL of its packets: a route that changed.

/// So many packets in a row with another TTL are a route that changed; fewer went a way of their own.
const ENOUGH: u32 = 3;

/// Changes that are kept one by one.
pub const MOST_HOP_CHANGES: usize = 8;

/// A change: the packet from which on, and the TTL before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopChange {
    /// Number of the first packet that came the other way.
    pub from_packet: u64,
    /// TTL or hop limit before.
    pub before: u8,
    /// And from then on.
    pub after: u8,
}

/// What the TTLs of a flow's packets say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopSummary {
    /// TTL of the first packet; 0: not known.
    pub ttl: u8,
    /// How often the route changed.
    pub changes: u64,
    /// The first of these; the rest is 0.
    pub first: [HopChange; MOST_HOP_CHANGES],
}

/// The TTL of a way's packets as they come.
#[derive(Clone, Debug, Default)]
pub struct Hops {
    now: Option<u8>,
    /// Another TTL, the first packet that had it, and how many in a row.
    other: Option<(u8, u64, u32)>,
    /// What was found.
    pub found: HopSummary,
}

impl Hops {
    /// Takes the TTL with which a packet came; 0 is that of somebody who cannot tell.
    #[inline]
    pub fn take(&mut self, packet: u64, ttl: u8) {
        if ttl == 0 {
            return;
        }
        let Some(before) = self.now else {
            (self.now, self.found.ttl) = (Some(ttl), ttl);
            return;
        };
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
            if let Some(place) = self.found.first.get_mut(self.found.changes as usize) {
                *place = HopChange { from_packet, before, after: ttl };
            }
            self.found.changes += 1;
            (self.now, self.other) = (Some(ttl), None);
        }
    }
}
