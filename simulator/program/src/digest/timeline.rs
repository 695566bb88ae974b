//! What the simulator kept of each thread's time, as a table and as lanes for drawings.

use super::lanes::SimLanes;
use crate::intervals::{SimInterval, SimIntervalWriter, SimState};
use quaver_sim::statistics::{Interval, IntervalKind, WaitKind};
use quaver_store::error::StoreError;
use std::collections::BTreeMap;
use std::path::Path;

/// Writes `intervals.parquet`, and gathers what is drawn. Between two intervals of a thread it was ready: its wake-up was on the
/// way, or another had its core.
pub(crate) fn keep(path: &Path, intervals: &[Interval]) -> Result<SimLanes, StoreError> {
    let mut table = SimIntervalWriter::create(path)?;
    let mut lanes = SimLanes::default();
    let mut reached_fs: BTreeMap<u32, u64> = BTreeMap::new();
    for interval in intervals.iter().map(converted) {
        let before = interval.thread.and_then(|thread| reached_fs.insert(thread, interval.end_fs));
        let ready = before.filter(|end_fs| *end_fs < interval.start_fs).map(|end_fs| SimInterval {
            core: None,
            state: SimState::Ready,
            start_fs: end_fs,
            end_fs: interval.start_fs,
            object: None,
            woken_by: None,
            ..interval
        });
        for interval in ready.into_iter().chain([interval]) {
            table.push(interval)?;
            lanes.push(interval);
        }
    }
    table.finish()?;
    Ok(lanes)
}

fn converted(interval: &Interval) -> SimInterval {
    let Interval { start_fs, end_fs, what } = *interval;
    let plain = SimInterval {
        thread: None,
        core: None,
        state: SimState::Kernel,
        start_fs,
        end_fs,
        object: None,
        woken_by: None,
    };
    match what {
        IntervalKind::Runs { core, thread } => {
            SimInterval { thread: Some(thread), core: Some(core), state: SimState::Runs, ..plain }
        }
        IntervalKind::Kernel { core } => SimInterval { core: Some(core), ..plain },
        IntervalKind::Waits { thread, reason, object, by } => SimInterval {
            thread: Some(thread),
            state: match reason {
                WaitKind::Lock => SimState::Lock,
                WaitKind::Wakeup => SimState::Condition,
                WaitKind::Barrier => SimState::Barrier,
                WaitKind::Join => SimState::Join,
                WaitKind::Create => SimState::Ready,
            },
            object: Some(object),
            woken_by: Some(by),
            ..plain
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::read_sim_intervals;

    #[test]
    fn between_two_intervals_a_thread_was_ready() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("intervals.parquet");
        let runs = |core, thread| IntervalKind::Runs { core, thread };
        let waits = IntervalKind::Waits { thread: 1, reason: WaitKind::Lock, object: 64, by: 0 };
        let of = |start_fs, end_fs, what| Interval { start_fs, end_fs, what };
        let lanes = keep(
            &path,
            &[of(0, 50, runs(0, 0)), of(10, 60, runs(1, 1)), of(60, 80, waits), of(90, 100, runs(1, 1))],
        )
        .unwrap();
        let rows = read_sim_intervals(&path).unwrap();
        let said: Vec<_> = rows
            .iter()
            .map(|row| {
                (row.thread.unwrap(), row.core, row.state.name(), row.start_fs, row.end_fs, row.woken_by)
            })
            .collect();
        assert_eq!(
            said,
            [
                (0, Some(0), "runs", 0, 50, None),
                (1, Some(1), "runs", 10, 60, None),
                (1, None, "lock", 60, 80, Some(0)),
                (1, None, "ready", 80, 90, None),
                (1, Some(1), "runs", 90, 100, None),
            ]
        );
        assert_eq!((lanes.intervals, lanes.spans, lanes.end_fs), (5, rows, 100));
    }
}
