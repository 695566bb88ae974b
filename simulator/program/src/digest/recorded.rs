//! What was injected from a recording, beside what was recorded.

use crate::recording::Recorded;
use quaver_sim::cure::CureResults;
use quaver_sim::inject::{JointCounts, RecordingFacts};
use quaver_sync_analysis::sync::SyncClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A recording and what was drawn from it in the first seed's run with the cure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedFigures {
    /// Which recording.
    pub recording: RecordingFacts,
    /// The recorded program and its arguments; none where that is not known.
    #[serde(default)]
    pub program: Vec<String>,
    /// Threads that it has.
    pub threads: u32,
    /// From its first event to the last, nanoseconds.
    pub span_ns: u64,
    /// Records that found no room in it.
    pub records_lost: u64,
    /// CPUs that the recorded program had; none where they are not known.
    pub cpus: Option<u32>,
    /// Time in recorded waits in which their mutex was held, nanoseconds. It is not injected.
    pub held_ns: u64,
    /// By class that is drawn from the recording.
    pub classes: Vec<RecordedClass>,
    /// Broadcasts and barriers of the recording, by how many threads were late together.
    pub joint: JointCounts,
    /// The same as drawn; none where the broadcasts are not drawn from the recording.
    pub drawn_joint: Option<JointCounts>,
    /// Late operations a millisecond and thread: recorded, and injected in simulated time.
    pub late_per_thread_ms: [Option<f64>; 2],
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedClass {
    /// Its name.
    pub class: String,
    /// Operations of the recording.
    pub timed: u64,
    /// Of these, late ones.
    pub late: u64,
    /// What the late ones took, nanoseconds.
    pub late_ns: u64,
    /// Operations of the simulation.
    pub drawn: u64,
    /// Of these, late ones.
    pub injected: u64,
    /// What the late ones took, nanoseconds.
    pub injected_ns: u64,
    /// Kolmogorov-Smirnov distance between what late operations took as recorded and as injected, 0 to 1; none where one of them
    /// has none.
    pub distance: Option<f64>,
}

/// The largest difference between the distributions of two samples.
fn distance(recorded_ns: &mut [u64], injected_ns: &BTreeMap<u64, u64>) -> Option<f64> {
    let (all, drawn) = (recorded_ns.len(), injected_ns.values().sum::<u64>());
    if all == 0 || drawn == 0 {
        return None;
    }
    recorded_ns.sort_unstable();
    let (mut passed, mut met, mut largest) = (0, 0, 0.0_f64);
    // All that was injected was recorded, so both distributions step at recorded values.
    for group in recorded_ns.chunk_by(|one, other| one == other) {
        passed += group.len();
        met += injected_ns.get(&group[0]).copied().unwrap_or(0);
        largest = largest.max((passed as f64 / all as f64 - met as f64 / drawn as f64).abs());
    }
    Some(largest)
}

impl RecordedFigures {
    /// Of a run that took so long, femtoseconds; none where nothing was drawn from a recording.
    pub(super) fn of(recorded: &Recorded, cure: &CureResults, duration_fs: u64) -> Option<Self> {
        let drawn = cure.recorded.as_ref()?;
        let threads = cure.owed_fs.len();
        let recording = &recorded.recording;
        let none = BTreeMap::new();
        let class = |class: SyncClass| {
            let mut late_ns = recording.late_ns(class);
            let injected_ns = drawn.late_ns.get(&class).unwrap_or(&none);
            let counts = cure.injected.get(&class).copied().unwrap_or_default();
            RecordedClass {
                class: class.name().to_owned(),
                timed: recording.timed(class),
                late: late_ns.len() as u64,
                late_ns: late_ns.iter().sum(),
                drawn: counts.drawn,
                injected: injected_ns.values().sum(),
                injected_ns: injected_ns.iter().map(|(ns, count)| ns * count).sum(),
                distance: distance(&mut late_ns, injected_ns),
            }
        };
        let is_drawn = |class: &SyncClass| !drawn.given.contains(class);
        let mut classes: Vec<RecordedClass> =
            SyncClass::ALL.into_iter().filter(is_drawn).map(class).collect();
        classes.retain(|one| one.timed > 0 || one.drawn > 0);
        let per_thread_ms = |late: fn(&RecordedClass) -> u64, threads: f64, span_ms: f64| {
            let late: u64 = classes.iter().map(late).sum();
            (threads * span_ms > 0.0).then(|| late as f64 / threads / span_ms)
        };
        let late_per_thread_ms = [
            per_thread_ms(|one| one.late, f64::from(recording.threads), recording.span_ns as f64 / 1e6),
            per_thread_ms(|one| one.injected, threads as f64, duration_fs as f64 / 1e12),
        ];
        Some(Self {
            recording: recording.facts.clone(),
            program: recorded.program.clone(),
            threads: recording.threads,
            span_ns: recording.span_ns,
            records_lost: recorded.records_lost,
            cpus: recorded.cpus,
            held_ns: recording.held_ns,
            joint: recording.joint(),
            drawn_joint: is_drawn(&SyncClass::BroadcastWait).then(|| drawn.joint.clone()),
            late_per_thread_ms,
            classes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_the_largest_between_the_two_steps() {
        let injected = |pairs: &[(u64, u64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
        let of = |recorded: &[u64], pairs: &[(u64, u64)]| distance(&mut recorded.to_vec(), &injected(pairs));
        assert_eq!(of(&[30, 10, 20, 20], &[(10, 1), (20, 2), (30, 1)]), Some(0.0));
        assert_eq!(of(&[30, 10, 20, 20], &[(10, 4)]), Some(0.75));
        assert_eq!(of(&[10, 20], &[(20, 7)]), Some(0.5));
        assert_eq!((of(&[], &[(1, 1)]), of(&[1], &[])), (None, None));
    }
}
