//! What each simulated thread did over time, for drawings: shares of time in slices, and the longest intervals whole.
//!
//! Neither the length of a run nor the number of its intervals is known before it ends. So slices begin short and become twice
//! as wide each time a run outgrows them, and of too many intervals the shorter half is let go: memory is bounded, and what is
//! drawn whole is always everything from some length on.

use crate::intervals::{SimInterval, SimState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most slices of a run; never fewer than half of them once a run is longer than the first.
pub const SLICES: usize = 480;
/// Width of a slice at first: a microsecond.
const FIRST_SLICE_FS: u64 = 1_000_000_000;
/// Intervals that are kept whole.
const MOST_SPANS: usize = 20_000;
/// Threads that have slices.
const MOST_LANES: usize = 64;
/// States that a slice is divided into.
const STATES: usize = SimState::ALL.len();

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SimLane {
    /// Which.
    pub thread: u32,
    /// Its first interval begins.
    pub first_fs: u64,
    /// Its last one ends.
    pub last_fs: u64,
    /// Of each slice, femtoseconds in each [`SimState`].
    pub slices: Vec<[u64; STATES]>,
}

/// All threads: `lanes.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SimLanes {
    /// Width of a slice; the first begins at 0.
    pub slice_fs: u64,
    /// Where the last interval ends.
    pub end_fs: u64,
    /// Intervals in all.
    pub intervals: u64,
    /// By number of thread.
    pub lanes: Vec<SimLane>,
    /// Threads without slices, for there were too many.
    pub threads_left_out: BTreeSet<u32>,
    /// Whole intervals, in the order of their ends: all from `shortest_fs` on.
    pub spans: Vec<SimInterval>,
    /// Intervals shorter than this are not among `spans`.
    pub shortest_fs: u64,
}

impl Default for SimLanes {
    fn default() -> Self {
        Self {
            slice_fs: FIRST_SLICE_FS,
            end_fs: 0,
            intervals: 0,
            lanes: Vec::new(),
            threads_left_out: BTreeSet::new(),
            spans: Vec::new(),
            shortest_fs: 0,
        }
    }
}

impl SimLanes {
    /// Takes in the next interval.
    pub fn push(&mut self, interval: SimInterval) {
        self.intervals += 1;
        self.end_fs = self.end_fs.max(interval.end_fs);
        while self.end_fs > self.slice_fs * SLICES as u64 {
            self.slice_fs *= 2;
            self.lanes.iter_mut().for_each(|lane| halve(&mut lane.slices));
        }
        let slice_fs = self.slice_fs;
        if let Some(lane) = interval.thread.and_then(|thread| self.lane(thread, &interval)) {
            lane.last_fs = lane.last_fs.max(interval.end_fs);
            spread(&mut lane.slices, &interval, slice_fs);
        }
        if interval.length_fs() >= self.shortest_fs {
            self.keep(interval);
        }
    }

    fn lane(&mut self, thread: u32, interval: &SimInterval) -> Option<&mut SimLane> {
        let place = match self.lanes.binary_search_by_key(&thread, |lane| lane.thread) {
            Ok(place) => place,
            Err(place) => {
                if self.lanes.len() == MOST_LANES {
                    self.threads_left_out.insert(thread);
                    return None;
                }
                let (first_fs, last_fs) = (interval.start_fs, interval.end_fs);
                self.lanes.insert(place, SimLane { thread, first_fs, last_fs, slices: Vec::new() });
                place
            }
        };
        self.lanes.get_mut(place)
    }

    fn keep(&mut self, interval: SimInterval) {
        self.spans.push(interval);
        if self.spans.len() > MOST_SPANS {
            let mut lengths: Vec<u64> = self.spans.iter().map(SimInterval::length_fs).collect();
            let (_, middle, _) = lengths.select_nth_unstable(MOST_SPANS / 2);
            let middle = *middle;
            self.shortest_fs = middle + 1;
            self.spans.retain(|span| span.length_fs() > middle);
        }
    }
}

/// Two slices become one.
fn halve(slices: &mut Vec<[u64; STATES]>) {
    let sum = |pair: &[[u64; STATES]]| {
        let mut both = [0; STATES];
        pair.iter().for_each(|one| both.iter_mut().zip(one).for_each(|(sum, part)| *sum += part));
        both
    };
    *slices = slices.chunks(2).map(sum).collect();
}

/// Spreads an interval over the slices that it lies in.
fn spread(slices: &mut Vec<[u64; STATES]>, interval: &SimInterval, slice_fs: u64) {
    if interval.length_fs() == 0 {
        return;
    }
    let (first, last) = (interval.start_fs / slice_fs, (interval.end_fs - 1) / slice_fs);
    if slices.len() <= last as usize {
        slices.resize(last as usize + 1, [0; STATES]);
    }
    for slice in first..=last {
        let begin = interval.start_fs.max(slice * slice_fs);
        let end = interval.end_fs.min((slice + 1) * slice_fs);
        slices[slice as usize][interval.state as usize] += end - begin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(thread: u32, state: SimState, start_fs: u64, end_fs: u64) -> SimInterval {
        SimInterval {
            thread: Some(thread),
            core: None,
            state,
            start_fs,
            end_fs,
            object: None,
            woken_by: None,
        }
    }

    fn sum(lanes: &SimLanes, thread: usize, state: SimState) -> u64 {
        lanes.lanes[thread].slices.iter().map(|slice| slice[state as usize]).sum()
    }

    #[test]
    fn slices_grow_with_the_run_and_lose_no_time() {
        let mut lanes = SimLanes::default();
        let us = FIRST_SLICE_FS;
        lanes.push(interval(0, SimState::Runs, 0, us / 2));
        lanes.push(interval(0, SimState::Lock, us / 2, us * 5 / 2));
        lanes.push(interval(1, SimState::Barrier, us, us * 2));
        assert_eq!(lanes.lanes[0].slices[0][SimState::Runs as usize], us / 2);
        assert_eq!(lanes.lanes[0].slices[2][SimState::Lock as usize], us / 2);
        lanes.push(interval(0, SimState::Runs, us * 5 / 2, us * 1_000));
        assert_eq!(lanes.slice_fs, 4 * us, "480 slices of 2 us are not enough");
        assert_eq!(sum(&lanes, 0, SimState::Runs), us / 2 + us * 1_000 - us * 5 / 2);
        assert_eq!((sum(&lanes, 0, SimState::Lock), sum(&lanes, 1, SimState::Barrier)), (2 * us, us));
        assert_eq!((lanes.lanes[0].slices.len(), lanes.lanes[0].last_fs), (250, us * 1_000));
        assert_eq!((lanes.intervals, lanes.spans.len(), lanes.shortest_fs), (4, 4, 0));
    }

    #[test]
    fn of_too_many_intervals_the_longest_stay_and_the_limit_is_told() {
        let mut lanes = SimLanes::default();
        let length = |number: u64| 1 + number * 7_919 % 100_003;
        let mut at_fs = 0;
        for number in 0..50_000 {
            lanes.push(interval(0, SimState::Runs, at_fs, at_fs + length(number)));
            at_fs += length(number);
        }
        assert!((MOST_SPANS / 4..=MOST_SPANS).contains(&lanes.spans.len()));
        let kept = (0..50_000).filter(|number| length(*number) >= lanes.shortest_fs).count();
        assert_eq!(lanes.spans.len(), kept);
        assert_eq!(sum(&lanes, 0, SimState::Runs), at_fs);
    }

    #[test]
    fn more_threads_than_can_be_drawn_are_counted() {
        let mut lanes = SimLanes::default();
        (0..70).for_each(|thread| lanes.push(interval(thread, SimState::Runs, 0, 10)));
        assert_eq!((lanes.lanes.len(), lanes.threads_left_out.len()), (64, 6));
        let again: SimLanes = serde_json::from_str(&serde_json::to_string(&lanes).unwrap()).unwrap();
        assert_eq!(again, lanes);
    }
}
