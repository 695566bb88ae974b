//! Virtual receiver buffer model (ST 2110-21, section 6.6.2): what a stream asks of its receivers.
//!
//! Packet j of a frame enters when it is sent and leaves at its instant TPR_j. The sender complies if the buffer never
//! holds more than VRX_FULL and no packet enters after its instant. A late packet is counted and passes at once; one
//! that never came has no place in the buffer, but keeps its instant.

use super::VideoPacket;
use super::format::{ReadSchedule, VideoFormat};
use super::frames::{Placed, placed};
use super::levels::binned;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Where the read schedule begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Datum {
    /// T_VD = N × T_FRAME + TR_OFFSET since the SMPTE epoch (section 6.2), so times must be TAI. N is chosen for the
    /// first frame so that its T_VD lies nearest to its packets.
    SmpteEpoch {
        /// TR_OFFSET: what the sender signals as TROFF. TRO_DEFAULT where it signals none.
        offset_ns: Option<i64>,
    },
    /// The earliest schedule by which no packet is late, for captures whose clock is not that of the sender. The level
    /// then tells the least buffer that the stream needs. Where the two clocks drift apart, judge short stretches.
    Observed,
}

/// VRX over a stream, taken whenever a packet enters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Vrx {
    /// Schedule by which packets leave.
    pub schedule: ReadSchedule,
    /// T_VD of the first whole frame, rounded down.
    pub datum_ns: i64,
    /// Frames from the first whole one to the last.
    pub frames: u64,
    /// Packets in them.
    pub packets: u64,
    /// Largest level.
    pub max: u64,
    /// Mean level.
    pub mean: f64,
    /// From level to how often it was so, in bins: [`super::levels::binned`].
    pub histogram: BTreeMap<u64, u64>,
    /// Packets that came after their instant: the buffer ran empty.
    pub late: u64,
    /// By how much the latest of them did, rounded down.
    pub max_late_ns: u64,
}

/// Runs the model. None where no frame ends in the capture, for then nobody knows which packet is which.
pub fn virtual_receiver_buffer(
    packets: &[VideoPacket],
    format: &VideoFormat,
    schedule: ReadSchedule,
    datum: Datum,
) -> Option<Vrx> {
    let mut placed = placed(packets, format);
    placed.sort_by_key(|packet| packet.arrived_ns);
    let first = placed.iter().min_by_key(|packet| (packet.frame, packet.index))?;
    let base = base_ticks(first, &placed, format, schedule, datum);
    let per_ns = format.ticks_per_ns();
    let mut result = Vrx {
        schedule,
        datum_ns: i64::try_from(base.div_euclid(per_ns)).unwrap_or(i64::MAX),
        frames: placed.iter().map(|packet| packet.frame + 1).max().unwrap_or(0),
        packets: placed.len() as u64,
        max: 0,
        mean: 0.0,
        histogram: BTreeMap::new(),
        late: 0,
        max_late_ns: 0,
    };
    let mut waiting = BinaryHeap::new();
    let mut sum = 0u128;
    for packet in &placed {
        let entered = i128::from(packet.arrived_ns) * per_ns;
        while waiting.peek().is_some_and(|&Reverse(leaves)| leaves <= entered) {
            waiting.pop();
        }
        let leaves = base + in_schedule(packet, format, schedule);
        if leaves > entered {
            waiting.push(Reverse(leaves));
        } else if leaves < entered {
            result.late += 1;
            let late_ns = u64::try_from((entered - leaves) / per_ns).unwrap_or(u64::MAX);
            result.max_late_ns = result.max_late_ns.max(late_ns);
        }
        let level = waiting.len() as u64;
        result.max = result.max.max(level);
        sum += u128::from(level);
        *result.histogram.entry(level).or_default() += 1;
    }
    result.histogram = binned(result.histogram);
    result.mean = sum as f64 / placed.len() as f64;
    Some(result)
}

/// TPR of a packet after the T_VD of the first frame.
fn in_schedule(packet: &Placed, format: &VideoFormat, schedule: ReadSchedule) -> i128 {
    i128::from(packet.frame) * format.frame_ticks() + format.read_ticks(schedule, packet.index)
}

/// T_VD of the first frame.
fn base_ticks(
    first: &Placed,
    placed: &[Placed],
    format: &VideoFormat,
    schedule: ReadSchedule,
    datum: Datum,
) -> i128 {
    let begins = |packet: &Placed| {
        i128::from(packet.arrived_ns) * format.ticks_per_ns() - in_schedule(packet, format, schedule)
    };
    match datum {
        Datum::Observed => placed.iter().map(begins).max().unwrap_or(0),
        Datum::SmpteEpoch { offset_ns } => {
            let offset = match offset_ns {
                Some(offset_ns) => i128::from(offset_ns) * format.ticks_per_ns(),
                None => format.default_offset_ticks(),
            };
            let frame = format.frame_ticks();
            let number = (begins(first) - offset + frame / 2).div_euclid(frame);
            number * frame + offset
        }
    }
}
