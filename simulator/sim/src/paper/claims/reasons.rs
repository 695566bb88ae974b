//! Figures of a run that go with a statement that does not hold. Each sentence is computed; the runs do not tell more.

use super::super::arms::Arm;
use super::super::calibration::{MOST_MISSED, Shown};
use super::super::summary::{PaperSummary, ProgramSummary};
use crate::inject::Spread;
use quaver_sync_analysis::bench::paper::{PaperProgram, Suite};
use quaver_sync_analysis::sync::SyncClass;

/// Threads of the paper's runs.
const PAPER_THREADS: f64 = 16.0;
/// Threshold above which a late operation is counted, microseconds.
const THRESHOLD_US: f64 = 10.0;
/// Probability from which on practically every wait is late.
const ALWAYS: f64 = 0.99;

/// What an arm's time was, in the order given.
pub(super) fn times(program: &ProgramSummary, arms: &[Arm]) -> String {
    let each = arms.iter().filter_map(|arm| {
        let own = program.arm(*arm)?;
        Some(format!("{:.2} us with \u{201c}{}\u{201d}", own.duration_us, arm.name()))
    });
    let times = format!("{} takes {}", program.program, each.collect::<Vec<_>>().join(", "));
    match arms.first().and_then(|arm| program.arm(*arm)) {
        Some(first) => format!("{times}; its frequencies change {:.1} times a run", first.changes),
        None => times,
    }
}

/// What the frequencies of an arm did.
pub(super) fn clock(program: &ProgramSummary, arm: Arm) -> String {
    let own = program.arm(arm);
    let (factor, changes) = own.map_or((f64::NAN, f64::NAN), |own| (own.mean_factor, own.changes));
    format!(
        "{} with \u{201c}{}\u{201d}: mean frequency {factor:.3} of rest, {changes:.1} changes a run",
        program.program,
        arm.name()
    )
}

/// An arm that won more than its frequencies can give.
pub(super) fn below_the_bound(program: &ProgramSummary, arm: Arm) -> String {
    let slow = |arm: Arm| percent(program.arm(arm).and_then(|own| own.own_slow_down_percent));
    format!(
        "{}; slow-down {} with DVFS and {} without. A higher frequency alone cannot do this: another order of threads or \
         another lateness has a part in it",
        clock(program, arm),
        slow(arm),
        slow(arm.without_dvfs())
    )
}

/// A power overhead outside the paper's.
pub(super) fn power(program: &ProgramSummary, overhead_percent: f64) -> String {
    let slow = |arm: Arm| percent(program.arm(arm).and_then(|own| own.slow_down_percent));
    format!(
        "{overhead_percent:.1} %: {}; {} us of lateness a millisecond, slow-down {} with DVFS and {} without",
        clock(program, Arm::UnifiedDvfs),
        program.late_us_per_ms.map_or_else(|| "-".to_owned(), |late| format!("{late:.1}")),
        slow(Arm::UnifiedDvfs),
        slow(Arm::Unified)
    )
}

/// A slow-down outside its range.
pub(super) fn slow_down(program: &ProgramSummary, row: &Shown, paper: &PaperProgram) -> String {
    let seeds = program.arm(Arm::Unified).and_then(|own| own.slow_down_percent);
    let seeds = seeds
        .map(|seeds| format!("{} seeds lie between {:.2} and {:.2} %", seeds.runs, seeds.min, seeds.max));
    join([Some(injection(program, row, paper)), Some(time_taken(program, row, paper)), seeds])
}

/// No operation of a program was late, in so many runs.
pub(super) fn nothing_late(program: &ProgramSummary) -> String {
    let runs = program.arm(Arm::Unified).map_or(0, |own| own.runs);
    format!(
        "no operation of {} was late in {runs} run{} of {:.2} ms",
        program.program,
        if runs == 1 { "" } else { "s" },
        program.how.ideal_us / 1e3
    )
}

/// The injection of a program was fitted to a trace that synchronises otherwise, or predicted by a relation that does not predict:
/// what came of it says nothing of the program.
pub(super) fn not_predicted(program: &ProgramSummary) -> Option<String> {
    let how = &program.how;
    if how.fitted {
        let (here, there) = (how.occasions, how.fitted_at?);
        let pairs = [(here.waits_per_ms, there.waits_per_ms), (here.locks_per_ms, there.locks_per_ms)];
        let far = |(here, there): (f64, f64)| (here.max(1.0) / there.max(1.0)).ln().abs() > MOST_MISSED.ln();
        return pairs.into_iter().any(far).then(|| {
            format!(
                "its fit is of another trace: there waits were ended {:.0} times a millisecond and locks contended {:.0} times, \
                 here {:.0} and {:.0}",
                there.waits_per_ms, there.locks_per_ms, here.waits_per_ms, here.locks_per_ms
            )
        });
    }
    let factor = how.missed_by.filter(|factor| *factor > MOST_MISSED)?;
    Some(format!(
        "its lateness cannot be predicted: waits a millisecond, the only thing that the prediction knows, miss the lateness of \
         each fitted program by a factor of {factor:.1} in the median when that one is left out"
    ))
}

/// How many events these runs should have by the paper, in words, and by how much chance moves their rate, percent.
pub(super) fn chance(program: &ProgramSummary, paper: &PaperProgram) -> (String, f64) {
    let runs = program.arm(Arm::Unified).map_or(0, |own| own.runs);
    let expected = paper.events_per_ms * program.how.ideal_us / 1e3 * runs as f64;
    let plural = if runs == 1 { "" } else { "s" };
    // Independent events scatter by the root of their number; two standard deviations hold 95 % of it.
    (format!("{expected:.0} events are expected in {runs} run{plural}"), 200.0 / expected.sqrt())
}

/// A rate of events too far from the paper's.
pub(super) fn events(program: &ProgramSummary, row: &Shown, paper: &PaperProgram) -> String {
    let (expected, chance) = chance(program, paper);
    let chance = format!("{expected}: chance moves their rate by \u{b1} {chance:.0} %, less than it is off");
    join([Some(injection(program, row, paper)), Some(time_taken(program, row, paper)), Some(chance)])
}

/// What DVFS left of each program, beside what a clock of so many times rest can leave at least.
pub(super) fn left<'a>(programs: impl Iterator<Item = &'a ProgramSummary>, highest: f64) -> String {
    let each = programs.map(|program| {
        let slow = |arm: Arm| program.slow_down(arm).unwrap_or(f64::NAN);
        let without = slow(Arm::Unified);
        let bound = (100.0 + without) / highest - 100.0;
        let (left, name) = (slow(Arm::UnifiedDvfs), &program.program);
        format!("{name} {left:.2} % of {without:.2} % (bound {bound:.2} %)")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Where the injection comes from, and what it gives.
fn injection(program: &ProgramSummary, row: &Shown, paper: &PaperProgram) -> String {
    let how = &program.how;
    let gives = format!(
        "{:.2} of the paper's events and a mean of {:.0} us (paper {:.0})",
        row.events_per_ms / paper.events_per_ms,
        row.mean_us,
        paper.mean_us
    );
    if program.held_out {
        return format!("held out: the injection, predicted from the other programs, gives {gives}");
    }
    if !how.fitted {
        return format!("its injection was not fitted and gives {gives}");
    }
    if how.knobs.probability > ALWAYS {
        return format!(
            "every wait is late already: waits are ended {:.0} times a millisecond, and locks contended {:.0} times; that \
             gives {gives}",
            how.occasions.waits_per_ms, how.occasions.locks_per_ms
        );
    }
    format!("the fit (a wait is late with probability {:.2e}) gives {gives}", how.knobs.probability)
}

/// How much of the threads' time lateness takes, beside how much longer the run takes: what lies between fell where a thread
/// waited anyhow.
fn time_taken(program: &ProgramSummary, row: &Shown, paper: &PaperProgram) -> String {
    let paper_share = percent_of_threads(paper.events_per_ms, paper.mean_us, PAPER_THREADS);
    let share = percent_of_threads(row.events_per_ms, row.mean_us, program.how.threads.max(1) as f64);
    format!(
        "late events take {share:.1} % of each thread's time and slow it down by {:.2} % (paper: {paper_share:.1} % and {} %)",
        row.slow_down_percent, paper.slowdown_percent
    )
}

/// Time of late events, the threshold included, over that of each thread, percent.
fn percent_of_threads(events_per_ms: f64, mean_us: f64, threads: f64) -> f64 {
    events_per_ms * (mean_us + THRESHOLD_US) / threads / 10.0
}

/// Each class of late operation that has a part, the largest first.
pub(super) fn classes(shares: &[f64; 6]) -> String {
    let mut parts: Vec<(SyncClass, f64)> =
        SyncClass::ALL.iter().map(|class| (*class, shares[*class as usize])).collect();
    parts.retain(|(_, part)| *part > 0.0);
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let words = parts.iter().map(|(class, part)| format!("{} {:.1} %", class.name(), part * 100.0));
    format!("its lateness is {}", words.collect::<Vec<_>>().join(", "))
}

/// What each reactivity did over the programs of a suite.
pub(super) fn reactivity(summary: &PaperSummary, suite: Suite, arms: &[Arm]) -> String {
    let each = arms.iter().map(|arm| {
        let of = |value: fn(&super::super::summary::ArmSummary) -> f64| {
            let all: Vec<f64> = summary.of(suite).filter_map(|one| Some(value(one.arm(*arm)?))).collect();
            Spread::of(&all).map_or(f64::NAN, |spread| spread.mean)
        };
        let k = arm.controller().map_or(0, |(k, _)| k);
        format!(
            "k = {k} changes frequencies {:.0} times a run, mean frequency {:.3} of rest",
            of(|own| own.changes),
            of(|own| own.mean_factor)
        )
    });
    let slower = summary.of(suite).filter(|program| {
        let of = |arm: usize| program.slow_down(arms[arm]);
        of(0).zip(of(arms.len() - 1)).is_some_and(|(first, last)| first > last)
    });
    let slower: Vec<&str> = slower.map(|program| program.program.as_str()).collect();
    let mut words = each.collect::<Vec<_>>().join("; ");
    if !slower.is_empty() {
        words.push_str(&format!("; the smallest k is slower than the largest in {}", slower.join(", ")));
    }
    words
}

/// What an alternative did beside the unified cache, and what it could have done.
pub(super) fn beside_unified(program: &ProgramSummary, arm: Arm) -> String {
    let slow = |arm: Arm| percent(program.arm(arm).and_then(|own| own.slow_down_percent));
    let lines = |arm: Arm| program.arm(arm).map_or(f64::NAN, |own| own.kernel_lines);
    let mut words = format!(
        "{}: slow-down {} and {} with the unified cache; kernel activity brings in {:.0} lines a run, and {:.0} there",
        program.program,
        slow(arm),
        slow(Arm::Unified),
        lines(arm),
        lines(Arm::Unified)
    );
    let refills = |arm: Arm| program.arm(arm).map(|own| own.refills);
    if let (Some(unified), Some(own)) = (refills(Arm::Unified), refills(arm))
        && let (Some(removed), Some(removable)) = (unified.removed_in(&own), unified.removable())
    {
        let at_most = removable[usize::from(arm == Arm::Prefetch)];
        let (removed, at_most) = (removed * 100.0, at_most * 100.0);
        words.push_str(&format!("; {removed:.1} % of what an event costs went, {at_most:.1} % could"));
    }
    words
}

/// Mean over the seeds, and from which to which they lie.
fn percent(spread: Option<Spread>) -> String {
    match spread {
        Some(spread) if spread.runs > 1 => {
            format!("{:.2} % ({:.2} to {:.2} %)", spread.mean, spread.min, spread.max)
        }
        Some(spread) => format!("{:.2} %", spread.mean),
        None => "-".to_owned(),
    }
}

fn join<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
