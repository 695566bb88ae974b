//! What became of the packets that came to the writing thread.

use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};

/// What became of the packets of one tap that came to the writing thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fates {
    /// Written, or taken into the figures where nothing is written.
    pub(super) captured: u64,
    /// Bytes of these on the wire.
    pub(super) octets: u64,
    /// The filter that runs here kept them out.
    pub(super) filtered: u64,
    /// They went the other way.
    pub(super) direction: u64,
    /// They came after a limit was reached.
    pub(super) after_limit: u64,
    /// They could not be written.
    pub(super) unwritten: u64,
    /// By layer: packets that bear its stamp.
    pub(super) stamped: [u64; Layer::ALL.len()],
    /// Packets without the stamp of the layer that was asked for, shown by the ring's.
    pub(super) other_layer: u64,
    /// Captured packets whose stamps are not in the order of the layers, by more than their bounds.
    pub(super) disordered: u64,
}

impl Fates {
    /// Counts a captured packet. `other_layer`: its time in the file is not of the layer that was asked for.
    pub(super) fn capture(&mut self, original_length: u32, other_layer: bool, stamps: &PacketStamps) {
        self.captured += 1;
        self.octets += u64::from(original_length);
        self.other_layer += u64::from(other_layer);
        let mut before: Option<LayerStamp> = None;
        let mut disordered = false;
        for (layer, stamp) in stamps.iter() {
            self.stamped[layer as usize - 1] += 1;
            // What an interface's own clock counts does not compare.
            if stamp.clock != StampClock::Phc {
                disordered |= before.is_some_and(|before| is_before(stamp, before));
                before = Some(stamp);
            }
        }
        self.disordered += u64::from(disordered);
    }

    /// A packet that was counted as captured could not be written after all.
    pub(super) fn take_back(&mut self, original_length: u32, other_layer: bool, stamps: &PacketStamps) {
        let mut one = Self::default();
        one.capture(original_length, other_layer, stamps);
        *self = self.since(&one);
        self.unwritten += 1;
    }

    /// Packets that came to the writing thread and were understood.
    pub(super) fn handled(&self) -> u64 {
        self.captured + self.filtered + self.direction + self.after_limit + self.unwritten
    }

    /// What happened since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            captured: self.captured - earlier.captured,
            octets: self.octets - earlier.octets,
            filtered: self.filtered - earlier.filtered,
            direction: self.direction - earlier.direction,
            after_limit: self.after_limit - earlier.after_limit,
            unwritten: self.unwritten - earlier.unwritten,
            stamped: std::array::from_fn(|at| self.stamped[at] - earlier.stamped[at]),
            other_layer: self.other_layer - earlier.other_layer,
            disordered: self.disordered - earlier.disordered,
        }
    }
}

/// Whether a stamp lies before another by more than both bounds allow.
fn is_before(stamp: LayerStamp, other: LayerStamp) -> bool {
    if stamp.bound_ns == u32::MAX || other.bound_ns == u32::MAX {
        return false;
    }
    let slack_ns = i64::from(stamp.bound_ns) + i64::from(other.bound_ns);
    stamp.time_ns.saturating_add(slack_ns) < other.time_ns
}
