//! Long turns of our receiver's loop and long calls of our source, as events.

use crate::error::StoreError;
use crate::run::RunDir;
use crate::segments::{open_if_any, read_if_any};
use crate::timeline::Timeline;
use quaver_abi::record::{AnchorRecord, EventKind, EventRecord, GapPlace, GapRecord, SendRecord};

/// Send calls from which the usual length is learned.
const LEARNED: usize = 4_096;
/// A send call is long from this many times the median on, and from [`SHORTEST_NS`] on. So is a turn of the receiver.
const TIMES: i64 = 4;
const SHORTEST_NS: i64 = 2_000;

/// Long turns of our polling receiver.
///
/// # Errors
/// A segment cannot be read.
pub(crate) fn long_turns(run: &RunDir) -> Result<Vec<EventRecord>, StoreError> {
    let turns = read_if_any::<GapRecord>(&run.turns_segment())?;
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    // Without anchors nobody knows when they were; the packets have no time then either.
    let Some(mut timeline) = timeline(run)? else { return Ok(Vec::new()) };
    let mut event = |turn: &GapRecord| {
        let [before_ns, after_ns] =
            [turn.before_cycles, turn.after_cycles].map(|at| timeline.monotonic_ns(at));
        stood(before_ns, after_ns, turn.cpu, turn.place()?)
    };
    Ok(turns.iter().filter_map(&mut event).collect())
}

/// Long calls of our source, which was pinned to `cpu`.
///
/// # Errors
/// A segment cannot be read.
pub(crate) fn long_sends(run: &RunDir, cpu: u16) -> Result<Vec<EventRecord>, StoreError> {
    let Some(sends) = open_if_any::<SendRecord>(&run.sends_segment())? else { return Ok(Vec::new()) };
    let Some(mut timeline) = timeline(run)? else { return Ok(Vec::new()) };
    let (mut usual, mut limit_ns, mut found) = (Vec::with_capacity(LEARNED), None, Vec::new());
    for send in sends {
        let send = send?;
        if send.after_cycles == 0 {
            continue;
        }
        let [before_ns, after_ns] =
            [send.before_cycles, send.after_cycles].map(|at| timeline.monotonic_ns(at));
        match limit_ns {
            Some(limit_ns) if after_ns.saturating_sub(before_ns) > limit_ns => {
                found.extend(stood(before_ns, after_ns, cpu, GapPlace::Send));
            }
            Some(_) => {}
            None => {
                usual.push(after_ns.saturating_sub(before_ns));
                if usual.len() == LEARNED {
                    let (_, median_ns, _) = usual.select_nth_unstable(LEARNED / 2);
                    limit_ns = Some(median_ns.saturating_mul(TIMES).max(SHORTEST_NS));
                }
            }
        }
    }
    Ok(found)
}

fn timeline(run: &RunDir) -> Result<Option<Timeline>, StoreError> {
    Ok(Timeline::new(&read_if_any::<AnchorRecord>(&run.anchors_segment())?))
}

fn stood(before_ns: i64, after_ns: i64, cpu: u16, place: GapPlace) -> Option<EventRecord> {
    let start_ns = u64::try_from(before_ns).ok()?;
    let aux = u64::try_from(after_ns.checked_sub(before_ns)?).ok()?;
    let (kind, detail) = (EventKind::LoopGap as u8, place as u8);
    Some(EventRecord { start_ns, end_ns: start_ns, aux, id: 0, cpu, kind, detail })
}
