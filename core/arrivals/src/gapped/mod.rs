//! How a video stream is shaped: the two models of SMPTE ST 2110-21, for multicast and unicast alike.
//!
//! - The network compatibility model (section 6.6.1) asks whether switches can take the stream: [`network`], C_INST.
//! - The virtual receiver buffer model (section 6.6.2) asks whether receivers can: [`receiver`], VRX.
//!
//! Sections are those of ST 2110-21:2022. The edition of 2017 has the same models and limits; it fixes the offset of
//! interlaced formats of 525 and 625 lines at 20 and 26 lines, which [`Datum::SmpteEpoch`] takes as an offset.
//!
//! The standard speaks of packets as they leave the sender. Measured elsewhere, what the network did is in the figures.

pub mod format;
pub mod frames;
mod levels;
pub mod network;
pub mod receiver;

pub use format::{ReadSchedule, Scan, SenderType, VideoFormat};
pub use network::{CInst, network_compatibility};
pub use receiver::{Datum, Vrx, virtual_receiver_buffer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One packet of a video stream (ST 2110-20) as it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoPacket {
    /// RTP sequence number, extended and unwrapped.
    pub sequence: u64,
    /// When it was captured. For figures by the SMPTE epoch: TAI nanoseconds since 1970.
    pub arrived_ns: i64,
    /// RTP timestamp, the same for all packets of a frame or field.
    pub rtp_timestamp: u32,
    /// Marker: the last packet of a frame or, interlaced, of a field.
    pub marker: bool,
    /// The packet is of the second field (ST 2110-20, section 6.1.4). Always false where scanning is progressive.
    pub second_field: bool,
}

/// What one type of sender may do, and whether this one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Type of sender.
    pub sender: SenderType,
    /// C_MAX; none where the standard sets none: for wide senders of 900,000 packets/s or more.
    pub c_max: Option<u64>,
    /// VRX_FULL.
    pub vrx_full: u64,
    /// C_INST never exceeded C_MAX.
    pub network: Option<bool>,
    /// The buffer neither ran over nor empty: its level never exceeded VRX_FULL and no packet came after its reading.
    /// None where no whole frame was seen.
    pub receiver: Option<bool>,
}

impl Verdict {
    /// Whether both limits were kept; none where that is not known.
    pub fn kept(&self) -> Option<bool> {
        match (self.network, self.receiver) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }
}

/// Both models for one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VideoTiming {
    /// Network compatibility.
    pub c_inst: CInst,
    /// Virtual receiver buffer with the gapped schedule, for senders of type N.
    pub gapped: Option<Vrx>,
    /// With the linear schedule, for senders of types NL and W.
    pub linear: Option<Vrx>,
    /// For each type of sender, strictest first.
    pub verdicts: [Verdict; 3],
}

/// Runs both models over a stream. `packets` in any order; copies beyond the first stay in C_INST, for the network had
/// to carry them, and are no part of VRX.
pub fn video_timing(packets: &[VideoPacket], format: &VideoFormat, datum: Datum) -> VideoTiming {
    let origin_ns = match datum {
        Datum::SmpteEpoch { .. } => 0,
        Datum::Observed => packets.iter().map(|packet| packet.arrived_ns).min().unwrap_or(0),
    };
    let arrivals: Vec<i64> = packets.iter().map(|packet| packet.arrived_ns).collect();
    let c_inst = network_compatibility(&arrivals, format, origin_ns);
    let gapped = virtual_receiver_buffer(packets, format, ReadSchedule::Gapped, datum);
    let linear = virtual_receiver_buffer(packets, format, ReadSchedule::Linear, datum);
    let verdict = |sender: SenderType| {
        let vrx = match sender.schedule() {
            ReadSchedule::Gapped => &gapped,
            ReadSchedule::Linear => &linear,
        };
        let (c_max, vrx_full) = (format.c_max(sender), format.vrx_full(sender));
        Verdict {
            sender,
            c_max,
            vrx_full,
            network: c_max.filter(|_| c_inst.packets > 0).map(|c_max| c_inst.max <= c_max),
            receiver: vrx.as_ref().map(|vrx| vrx.late == 0 && vrx.max <= vrx_full),
        }
    };
    let verdicts = [SenderType::Narrow, SenderType::NarrowLinear, SenderType::Wide].map(verdict);
    VideoTiming { c_inst, gapped, linear, verdicts }
}

#[cfg(test)]
mod tests;
