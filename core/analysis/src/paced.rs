//! The dummy program: stamps against absolute deadlines, and how they compare with the paper's.

use crate::model::GapTable;
use crate::summary::{DummyProgram, PaperDummy};
use quaver_arrivals::distribution::distribution;
use std::collections::BTreeMap;

/// What the paper saw of its dummy program on a tuned machine: "Chasing Linux Jitter Sources for Uncompressed Video",
/// section IV-B, figure 5 and the text about it.
pub const PAPER: PaperDummy =
    PaperDummy { period_ns: 7_410, timestamps: 1_000_000, spikes: 4, spike_ns: 15_000 };

/// Counts what the dummy program stamped. `stamps` has a row for each deadline; those of one CPU are in the order of
/// time. A spike is a ΔT of twice the period or more: at least one deadline came and went within it.
pub fn summarize(stamps: &GapTable, period_ns: f64, threshold_ns: i64) -> DummyProgram {
    let mut last: BTreeMap<u16, i64> = BTreeMap::new();
    let mut delta_t = Vec::with_capacity(stamps.len());
    let mut late = 0;
    for row in 0..stamps.len() {
        let stamp_ns = stamps.after_ns[row];
        if let Some(before_ns) = last.insert(stamps.cpu[row], stamp_ns) {
            delta_t.push(stamp_ns - before_ns);
        }
        late += u64::from(stamp_ns - stamps.before_ns[row] >= threshold_ns);
    }
    let spikes = delta_t.iter().filter(|ns| **ns as f64 >= 2.0 * period_ns).count() as u64;
    let mut lateness: Vec<i64> =
        (0..stamps.len()).map(|row| stamps.after_ns[row] - stamps.before_ns[row]).collect();
    let per_million = if delta_t.is_empty() { 0.0 } else { spikes as f64 * 1e6 / delta_t.len() as f64 };
    DummyProgram {
        timestamps: stamps.len() as u64,
        late,
        spikes,
        spikes_per_million: per_million,
        delta_t: distribution(&mut delta_t),
        lateness: distribution(&mut lateness),
        paper: PAPER,
    }
}

/// The times for which the program was kept from stamping, each at least the threshold: from a deadline (or the stamp
/// before, where the deadline had passed by then) to its stamp. The stamps that follow one such stop at once are late
/// too, by the same stop, and make no further gap.
pub fn stops(stamps: &GapTable, threshold_ns: i64) -> GapTable {
    let mut last: BTreeMap<u16, i64> = BTreeMap::new();
    let mut stops = GapTable::default();
    for row in 0..stamps.len() {
        let after_ns = stamps.after_ns[row];
        let earlier_ns = last.insert(stamps.cpu[row], after_ns).unwrap_or(i64::MIN);
        let before_ns = stamps.before_ns[row].max(earlier_ns);
        if after_ns.saturating_sub(before_ns) >= threshold_ns {
            stops.index.push(stamps.index[row]);
            stops.before_ns.push(before_ns);
            stops.after_ns.push(after_ns);
            stops.cpu.push(stamps.cpu[row]);
        }
    }
    stops
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deadlines each microsecond on CPU 1, met with 20 ns, but those from the third to the fifth wait for one stop;
    /// one stamp of another CPU in between.
    fn stamps() -> GapTable {
        let late = [20, 20, 2_500, 1_520, 540, 20, 20];
        let mut table = GapTable::default();
        for (at, late) in late.into_iter().enumerate() {
            let deadline = 1_000_000 + 1_000 * at as i64;
            table.index.push(at as u64);
            table.before_ns.push(deadline);
            table.after_ns.push(deadline + late);
            table.cpu.push(1);
        }
        table.index.push(0);
        table.before_ns.push(1);
        table.after_ns.push(11);
        table.cpu.push(2);
        table
    }

    #[test]
    fn one_stop_is_one_spike_and_several_late_stamps() {
        let summary = summarize(&stamps(), 1_000.0, 500);
        assert_eq!((summary.timestamps, summary.late, summary.spikes), (8, 3, 1));
        assert_eq!((summary.delta_t.count, summary.delta_t.max_ns, summary.delta_t.min_ns), (6, 3_480, 20));
        assert!((summary.spikes_per_million - 1e6 / 6.0).abs() < 1e-6);
        assert_eq!((summary.lateness.min_ns, summary.lateness.max_ns), (10, 2_500));
        assert_eq!(summary.paper.spikes, 4);
    }

    #[test]
    fn stamps_behind_one_stop_make_one_gap() {
        let one = stops(&stamps(), 1_000);
        assert_eq!((one.index, one.before_ns), (vec![2], vec![1_002_000]));
        assert_eq!((one.after_ns, one.cpu), (vec![1_004_500], vec![1]));
    }

    #[test]
    fn a_stop_while_catching_up_is_a_gap_of_its_own() {
        let mut stamps = stamps();
        // The fourth stamp comes 1,200 ns after the third, though its deadline had passed before that.
        stamps.after_ns[3] = 1_005_700;
        stamps.after_ns[4] = 1_005_720;
        stamps.after_ns[5] = 1_005_740;
        let two = stops(&stamps, 1_000);
        assert_eq!((two.before_ns, two.after_ns), (vec![1_002_000, 1_004_500], vec![1_004_500, 1_005_700]));
    }

    #[test]
    fn nothing_stamped_is_nothing_counted() {
        let summary = summarize(&GapTable::default(), 1_000.0, 1);
        assert_eq!((summary.timestamps, summary.spikes_per_million), (0, 0.0));
    }
}
