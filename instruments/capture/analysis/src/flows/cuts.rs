//! Numbers that lie in what the snap length cut.
//!
//! A train (UDP_SEGMENT, GRO) is captured as one datagram, whose later headers may be cut. Nothing in the rest tells it from a datagram
//! as long. The numbers do: the next one goes on behind all that the train has. So where it leaves out some, and the datagram before
//! is longer than each that no number is missing behind, the missing ones may lie in the cut part. They are not known to be lost.

/// A datagram of a train has a header at least.
const LEAST_BYTES: u64 = 12;

/// What the cut datagrams of a flow tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cuts {
    /// Of the packet before: its number, and how many bytes were cut.
    before: Option<(u64, u32)>,
    /// Most bytes cut of a datagram behind which no number is missing.
    longest_single: u32,
    /// Most bytes cut of one behind which numbers are missing that have room there.
    longest_gap: u32,
}

impl Cuts {
    /// Takes the next packet in order of arrival. Numbers wrap at `mask`.
    pub(super) fn take(&mut self, number: u64, mask: u64, cut_octets: u32) {
        let before = self.before.replace((number, cut_octets));
        let Some((before, cut_before)) = before.filter(|(_, cut_octets)| *cut_octets > 0) else { return };
        match number.wrapping_sub(before) & mask {
            0 => {}
            1 => self.longest_single = self.longest_single.max(cut_before),
            step if (step - 1).saturating_mul(LEAST_BYTES) <= cut_before.into() => {
                self.longest_gap = self.longest_gap.max(cut_before);
            }
            _ => {}
        }
    }

    /// Whether numbers may lie in what was cut.
    pub(super) fn have_numbers(&self) -> bool {
        self.longest_gap > self.longest_single
    }
}
