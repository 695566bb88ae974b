//! How much a table of flows may hold, and what its times are.

use quaver_arrivals::rtp::Tai;

/// How much the table may hold, and what times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// Flows; packets of more are counted in sum.
    pub flows: usize,
    /// Where the table is full, flows that were not seen for the longest time make way for new ones. Else the new ones
    /// are counted in sum.
    pub make_way: bool,
    /// Flows with distributions, loss and delay: up to 3 MB each. Of more there are counts.
    pub detailed: usize,
    /// Packets of RTP that are kept for its whole analysis, 56 bytes each; 0 for none.
    pub rtp_packets: usize,
    /// Times of packets that are kept to compare the clocks of sender and capture, 24 bytes each; 0 for none.
    pub arrivals: usize,
    /// Numbers that a flow remembers to tell copies, loss and late packets.
    pub window: usize,
    /// Times given are of CLOCK_REALTIME, so that a test packet's delay is that of both wall clocks.
    pub wall_clock: bool,
    /// The word for where times were taken.
    pub layer: &'static str,
    /// What is known of TAI on the capturing host, for RTP by the SMPTE epoch; the times given stand for its monotonic
    /// clock there.
    pub tai: Option<Tai>,
}

impl TableSettings {
    /// For a capture that goes on: no packets are kept, and old flows make way for new ones.
    pub const fn live(layer: &'static str) -> Self {
        Self {
            flows: 4_096,
            make_way: true,
            detailed: 64,
            rtp_packets: 0,
            arrivals: 0,
            window: 4_096,
            wall_clock: true,
            layer,
            tai: None,
        }
    }

    /// For a file: four million packets of RTP are kept, times of as many packets, and its first flows.
    pub const fn file(layer: &'static str) -> Self {
        let (rtp_packets, arrivals) = (1 << 22, 1 << 22);
        Self { flows: 16_384, make_way: false, detailed: 128, rtp_packets, arrivals, ..Self::live(layer) }
    }
}

/// What may be kept yet, of all flows.
#[derive(Debug)]
pub(super) struct Room {
    /// Packets of RTP.
    pub(super) packets: usize,
    /// Times of packets, by which clocks are compared.
    pub(super) arrivals: usize,
}
