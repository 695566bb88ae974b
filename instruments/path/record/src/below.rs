//! What an end of a flow knows of its packets below the program: when they left, and the segments of a TCP flow.

use quaver_path_flow::TransmitStamps;

/// Packets in a message of departures.
pub(super) const MOST_DEPARTED: usize = 8_000;
/// Packets whose departures a client takes.
pub(super) const MOST_DEPARTURES: usize = 1 << 21;
/// A departure that nobody stamped.
pub(super) const NOT_KNOWN: u32 = u32::MAX;

/// Time from sending to departure of each packet by its number, nanoseconds; empty where nobody stamped any, or the
/// stamps are not all of one layer.
pub(super) fn departed(stamps: &TransmitStamps) -> Vec<u32> {
    if stamps.stamped_by.iter().filter(|count| **count > 0).count() != 1 {
        return Vec::new();
    }
    let mut took_ns = Vec::new();
    for stamp in &stamps.kept {
        let Some(place) = usize::try_from(stamp.sequence).ok().filter(|place| *place < MOST_DEPARTURES)
        else {
            break;
        };
        if took_ns.len() <= place {
            took_ns.resize(place + 1, NOT_KNOWN);
        }
        took_ns[place] = u32::try_from(stamp.left_ns.saturating_sub(stamp.sent_ns)).unwrap_or(NOT_KNOWN);
    }
    took_ns
}
