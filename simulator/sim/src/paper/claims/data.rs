//! Which programs a statement can be judged by, and what the seeds of their runs say.

use super::super::arms::Arm;
use super::super::calibration::Shown;
use super::super::summary::{PaperSummary, ProgramSummary};
use super::reasons;
use quaver_analysis::intervals::interval;
use quaver_sync_analysis::bench::paper::{PROGRAMS, Suite};
use schemars::JsonSchema;
use serde::Serialize;

/// What keeps a statement from being judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Undecided {
    /// A program or an arm was not run.
    NotRun,
    /// A trace was cut short, so that its runs are not of the whole program.
    CutShort,
    /// No operation was late.
    NothingLate,
    /// The injection is fitted to another trace, or predicted by a relation that does not predict.
    NotPredicted,
    /// Seeds or late operations are so few that chance could decide.
    Chance,
}

impl Undecided {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::NotRun, Self::CutShort, Self::NothingLate, Self::NotPredicted, Self::Chance];

    /// In words that stand behind a number of programs or statements.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotRun => "not run",
            Self::CutShort => "trace cut short",
            Self::NothingLate => "nothing late",
            Self::NotPredicted => "lateness neither fitted nor predictable",
            Self::Chance => "chance could decide",
        }
    }
}

/// What is missing, in kind and in words.
pub(super) type Lack = (Undecided, String);

/// What keeps statements about lateness from being judged by a program with runs of these arms.
fn lack(summary: &PaperSummary, name: &str, arms: &[Arm]) -> Option<Lack> {
    let Some(program) = summary.program(name) else {
        let why = summary.not_run.iter().find(|(program, _)| program == name);
        let why = why.map_or(String::new(), |(_, why)| format!(": {why}"));
        return Some((Undecided::NotRun, format!("{name} was not run{why}")));
    };
    if program.how.cut_short {
        return Some((Undecided::CutShort, format!("the trace of {name} was cut short")));
    }
    if program.row.is_some() && !program.was_late() {
        return Some((Undecided::NothingLate, reasons::nothing_late(program)));
    }
    if let Some(arm) = arms.iter().find(|arm| program.slow_down(**arm).is_none()) {
        let why = format!("{name} has no runs of \u{201c}{}\u{201d}", arm.name());
        return Some((Undecided::NotRun, why));
    }
    Some((Undecided::NotPredicted, reasons::not_predicted(program)?))
}

/// A program with its row of table 6 or 7; else what is missing, with the row where there is one.
pub(super) fn row<'a>(
    summary: &'a PaperSummary,
    name: &str,
) -> Result<(&'a ProgramSummary, Shown), (Option<Shown>, Lack)> {
    let program = summary.program(name);
    let row = program.and_then(|program| program.row);
    match (lack(summary, name, &[Arm::Unified]), program.zip(row)) {
        (None, Some(found)) => Ok(found),
        (lack, _) => {
            let lack = lack.unwrap_or_else(|| (Undecided::NotRun, format!("{name} has no runs with jitter")));
            Err((row.filter(|row| row.events_per_ms > 0.0), lack))
        }
    }
}

/// The programs (of a suite) by which statements about lateness in these arms can be judged; and what all others lack.
pub(super) fn able<'a>(
    summary: &'a PaperSummary,
    suite: Option<Suite>,
    arms: &[Arm],
) -> (Vec<&'a ProgramSummary>, Option<Lack>) {
    let wanted = PROGRAMS.iter().filter(|paper| suite.is_none_or(|suite| suite == paper.suite));
    let (mut able, mut lacks) = (Vec::new(), Vec::new());
    for paper in wanted {
        match lack(summary, paper.program, arms) {
            Some((undecided, _)) => lacks.push(undecided),
            None => able.extend(summary.program(paper.program)),
        }
    }
    let count = |wanted: Undecided| lacks.iter().filter(|one| **one == wanted).count();
    let there = || Undecided::ALL.into_iter().filter(|one| count(*one) > 0);
    let most = there().max_by_key(|one| count(*one));
    let each: Vec<String> = there().map(|one| format!("{} {}", count(one), one.words())).collect();
    let of = suite.map_or(String::new(), |suite| format!(" of {}", suite.name()));
    let all = able.len() + lacks.len();
    let lack = most.map(|most| {
        (most, format!("{} of {all} programs{of} can decide it; the others: {}", able.len(), each.join(", ")))
    });
    (able, lack)
}

/// The mean of a figure over programs, by seed; seeds that a program lacks are left out.
pub(super) fn mean_by_seed(
    summary: &PaperSummary,
    programs: &[&ProgramSummary],
    of: impl Fn(&ProgramSummary, u64) -> Option<f64>,
) -> Vec<f64> {
    let mean = |seed: &u64| -> Option<f64> {
        let all: Option<Vec<f64>> = programs.iter().map(|program| of(program, *seed)).collect();
        Some(all?.iter().sum::<f64>() / programs.len() as f64)
    };
    summary.seeds.iter().filter_map(mean).collect()
}

/// Whether the mean lies within the range for sure, or outside of it; none where chance could decide.
pub(super) fn within(seeds: &[f64], (low, high): (f64, f64)) -> Option<bool> {
    let mean = interval(seeds)?;
    if mean.high < low || mean.low > high {
        return Some(false);
    }
    (mean.low >= low && mean.high <= high).then_some(true)
}

/// What is known of the mean of seeds that do not decide.
pub(super) fn chance(seeds: &[f64]) -> String {
    let count = seeds.len();
    match interval(seeds) {
        Some(mean) => {
            format!("the mean of {count} seeds lies between {:.2} and {:.2} (95 %)", mean.low, mean.high)
        }
        None => format!("{count} seed{} cannot be told from chance", if count == 1 { "" } else { "s" }),
    }
}
