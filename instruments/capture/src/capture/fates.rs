//! What became of the packets that came to the writing thread.

use quaver_abi::stamp::Layer;

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
