//! What a controller of frequencies would have made of a recorded program.

mod frames;

pub use frames::{FrameRow, Frames, FramesAsked};

use crate::digest::facts::SyncFacts;
use crate::digest::{CompensationFacts, Cut, cut};
use frames::FrameGatherer;
use quaver_dvfs::dvfs::deadline::{FrameWork, wimax_packets};
use quaver_dvfs::dvfs::what_if::{Compensated, Compensator, limited};
use quaver_dvfs::dvfs::{ControllerConfig, CriticalPath, Kind, Table};
use quaver_dvfs::power::{PowerModel, Sensitivity, sensitivity};
use quaver_instrument::facts::RunFacts;
use quaver_store::run::RunDir;
use quaver_sync_analysis::subframes::Step;
use serde::Serialize;

/// Schema of the document.
pub const SCHEMA: &str = "quaver.sync-what-if/1";
/// Threads that are listed.
const THREADS: usize = 1_000;
/// Subframes of the drawn thread are put together to fewer than twice as many columns.
const COLUMNS: usize = 1_200;
/// Made-up packets of an example without a run.
const PACKETS: usize = 2_000;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Operating points.
    pub table: Table,
    /// How far the curve goes, over rest.
    pub highest: f64,
    /// Subframe, nanoseconds.
    pub subframe_ns: u64,
    /// Part of own work that waits for memory.
    pub unpaced_share: f64,
    /// Real-time frames.
    pub frames: Option<FramesAsked>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIf {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The run came to its end.
    pub complete: bool,
    /// What was run; none of an example without a run.
    pub program: Option<Program>,
    /// Subframe, nanoseconds.
    pub subframe_ns: u64,
    /// Part of own work that was taken to wait for memory, 0 to 1.
    pub unpaced_share: f64,
    /// Operating points.
    pub table: Table,
    /// Curves, a controller each.
    pub curves: Vec<Curve>,
    /// Threads under the first controller with the whole table, those that lost most first.
    pub threads: Vec<ThreadRow>,
    /// The thread that lost most, over time.
    pub drawn: Option<ThreadHistory>,
    /// Power under other assumptions, of the first controller with the whole table.
    pub power: Vec<Sensitivity>,
    /// Real-time frames.
    pub frames: Option<Frames>,
    /// What `--compensate` did in the run itself.
    pub compensated: Option<CompensationFacts>,
    /// What to know before believing the numbers.
    pub warnings: Vec<String>,
}

/// What was run.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    /// Its words.
    pub words: Vec<String>,
    /// Run directory.
    pub run: String,
    /// From the first event to the last, nanoseconds.
    pub length_ns: u64,
    /// Threads.
    pub threads: u64,
    /// Subframes.
    pub subframes: u64,
    /// Lost by the program: its threads' lost time, passed on where they meet, nanoseconds.
    pub lost_ns: u64,
    /// Lost by all threads together, nanoseconds.
    pub lost_all_ns: u64,
    /// Lost on the critical path, nanoseconds: what the run was really longer for, as far as that is known.
    pub lost_on_path_ns: u64,
    /// Slow-down without a controller: that over the rest of the time.
    pub slow_down: Option<f64>,
}

/// The slow-down against the highest frequency, for one controller.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Which.
    pub kind: Kind,
    /// k.
    pub reactivity: u32,
    /// Lowest limit first.
    pub points: Vec<CurvePoint>,
}

/// One place of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct CurvePoint {
    /// Highest frequency over rest.
    pub highest: f64,
    /// Of the whole program; none of no time.
    pub slow_down: Option<f64>,
    /// What is left of the loss, nanoseconds.
    pub left_ns: f64,
    /// Power over that at rest, less 1; a model's.
    pub power_overhead: Option<f64>,
    /// Changes of frequencies, of all threads together.
    pub changes: u64,
    /// By point of the table up to there: share of the threads' working time.
    pub residency: Vec<(f64, f64)>,
}

/// One thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadRow {
    /// Number.
    pub thread: u32,
    /// Its life, nanoseconds.
    pub length_ns: u64,
    /// Waiting for others, nanoseconds.
    pub blocked_ns: u64,
    /// Lost, nanoseconds.
    pub lost_ns: u64,
    /// Lost less won, nanoseconds. A thread that gives back what its maker lost wins more than it lost.
    pub left_ns: f64,
    /// Slow-down without.
    pub slow_down_without: Option<f64>,
    /// And with.
    pub slow_down_with: Option<f64>,
    /// Mean frequency while it did not wait, over rest.
    pub mean_ratio: Option<f64>,
    /// Changes of the frequency.
    pub changes: u64,
}

/// A thread over time.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadHistory {
    /// Which.
    pub thread: u32,
    /// Columns in the order of time.
    pub columns: Vec<Column>,
}

/// Some subframes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Column {
    /// End of the last, nanoseconds from the thread's begin.
    pub at_ns: u64,
    /// Lost since the thread's begin without a controller, nanoseconds.
    pub lost_so_far_ns: u64,
    /// Owed with it, nanoseconds.
    pub owed_ns: f64,
    /// Highest frequency over rest.
    pub ratio: f64,
}

/// The controllers that are held against each other: name, which, k.
const CONTROLLERS: [(&str, Kind, u32); 4] = [
    ("reactive, k = 1", Kind::Reactive, 1),
    ("reactive, k = 2", Kind::Reactive, 2),
    ("reactive, k = 4", Kind::Reactive, 4),
    ("predictive, k = 1", Kind::Predictive, 1),
];

impl Question {
    fn config(&self, kind: Kind, reactivity: u32, highest: f64) -> ControllerConfig {
        ControllerConfig {
            table: limited(&self.table, highest),
            reactivity,
            kind,
            subframe_ns: self.subframe_ns,
            // What the program lost is printed: lateness within another's slack is no loss, and all waits are recorded.
            critical_path: CriticalPath::Slack,
            ..ControllerConfig::default()
        }
    }

    /// The limits of the curve: rest, and each point above it.
    fn limits(&self) -> Vec<f64> {
        let whole = limited(&self.table, self.highest);
        (whole.rest..whole.points.len()).map(|point| whole.factor(point)).collect()
    }

    /// The table's own highest point, as far as the curve goes.
    fn own_highest(&self) -> f64 {
        self.table.factor(self.table.highest()).min(self.highest).max(1.0)
    }
}

/// Every controller at every limit.
struct Grid {
    limits: Vec<f64>,
    /// By controller, then limit.
    compensators: Vec<Vec<Compensator>>,
}

impl Grid {
    fn of(question: &Question) -> Self {
        let limits = question.limits();
        let of = |&(_, kind, reactivity): &(&str, Kind, u32)| {
            let each = |highest: &f64| {
                Compensator::new(question.config(kind, reactivity, *highest), question.unpaced_share)
            };
            limits.iter().map(each).collect()
        };
        Self { compensators: CONTROLLERS.iter().map(of).collect(), limits }
    }

    fn step(&mut self, step: &Step) {
        for compensator in self.compensators.iter_mut().flatten() {
            match step {
                Step::Began { thread, parent, .. } => {
                    compensator.began(thread.0, parent.map(|parent| parent.0));
                }
                Step::Woken { wakeup, own, others } => compensator.woken(wakeup, own, others),
                Step::Ended(subframe) => {
                    compensator.ended(subframe);
                }
                Step::Waits { .. } | Step::GoesOn { .. } => {}
            }
        }
    }

    fn finish(self, length_ns: u64) -> (Vec<Curve>, Vec<Vec<Compensated>>) {
        let mut curves = Vec::new();
        let mut all = Vec::new();
        for ((name, kind, reactivity), compensators) in CONTROLLERS.into_iter().zip(self.compensators) {
            let mut points = Vec::new();
            let mut row = Vec::new();
            for (highest, compensator) in self.limits.iter().zip(compensators) {
                let table = compensator.config().table.clone();
                let seen = compensator.finish();
                points.push(point(&table, *highest, &seen, length_ns));
                row.push(seen);
            }
            curves.push(Curve { name: name.to_owned(), kind, reactivity, points });
            all.push(row);
        }
        (curves, all)
    }
}

fn point(table: &Table, highest: f64, seen: &Compensated, length_ns: u64) -> CurvePoint {
    let total: u64 = seen.residency.active_fs.iter().sum();
    let share = |(point, fs): (usize, &u64)| (table.factor(point), *fs as f64 / total.max(1) as f64);
    let with = (table, std::slice::from_ref(&seen.residency));
    let without = (table, std::slice::from_ref(&seen.at_rest));
    CurvePoint {
        highest,
        slow_down: seen.slow_down_with(length_ns),
        left_ns: seen.left_ns,
        power_overhead: PowerModel::default().overhead(with, without),
        changes: seen.residency.changes,
        residency: seen.residency.active_fs.iter().enumerate().map(share).collect(),
    }
}

/// Answers for a stored run.
///
/// # Errors
/// The run cannot be read.
pub fn of_run(run: &RunDir, question: &Question) -> anyhow::Result<(WhatIf, RunFacts)> {
    let mut grid = Grid::of(question);
    let mut frames = question.frames.map(|asked| FrameGatherer::new(question, asked));
    let mut subframes = 0;
    let cut = cut(run, question.subframe_ns, &mut |step| {
        grid.step(&step);
        if let Step::Ended(subframe) = &step {
            subframes += 1;
            if let Some(frames) = &mut frames {
                frames.take(subframe);
            }
        }
    })?;
    let length_ns = cut.results.duration_ns();
    let own = question.own_highest();
    let place = grid.limits.iter().position(|limit| (limit - own).abs() < 1e-9).unwrap_or(0);
    let (curves, all) = grid.finish(length_ns);
    let first = &all[0][place];
    let mut threads: Vec<ThreadRow> = first.threads.iter().map(row).collect();
    threads.sort_by_key(|one| (std::cmp::Reverse(one.lost_ns), one.thread));
    let worst = threads.first().filter(|one| one.lost_ns > 0).map(|one| one.thread);
    let drawn = worst.map(|thread| drawn(run, question, thread)).transpose()?;
    threads.truncate(THREADS);
    let table = question.config(Kind::Reactive, 1, own).table;
    let power = sensitivity(
        (&table, std::slice::from_ref(&first.residency)),
        (&table, std::slice::from_ref(&first.at_rest)),
    );
    let path = &cut.results.critical_path;
    let program = Program {
        words: cut.facts.program.clone(),
        run: run.path().display().to_string(),
        length_ns,
        threads: cut.results.counts.threads,
        subframes,
        lost_ns: first.lost_ns,
        lost_all_ns: first.threads.iter().map(|one| one.lost_ns).sum(),
        lost_on_path_ns: path.sync_jitter_ns + path.other_ns,
        slow_down: first.slow_down_without(length_ns),
    };
    let answer = WhatIf {
        schema: SCHEMA,
        complete: cut.complete,
        program: Some(program),
        subframe_ns: question.subframe_ns,
        unpaced_share: question.unpaced_share,
        table: question.table.clone(),
        curves,
        threads,
        drawn,
        power,
        frames: frames.map(FrameGatherer::finish),
        compensated: cut.facts.compensation.clone(),
        warnings: warnings(&cut),
    };
    Ok((answer, cut.run))
}

/// Answers for made-up packets.
pub fn of_example(question: &Question, seed: u64) -> WhatIf {
    let mut frames = FrameGatherer::new(question, FramesAsked::Wimax);
    for packet in wimax_packets(PACKETS, question.subframe_ns, seed) {
        frames.judge(&FrameWork { unpaced_share: question.unpaced_share, ..packet });
    }
    WhatIf {
        schema: SCHEMA,
        complete: true,
        program: None,
        subframe_ns: question.subframe_ns,
        unpaced_share: question.unpaced_share,
        table: question.table.clone(),
        curves: Vec::new(),
        threads: Vec::new(),
        drawn: None,
        power: Vec::new(),
        frames: Some(Frames { of: "wimax-made-up", ..frames.finish() }),
        compensated: None,
        warnings: vec![format!(
            "the losses of these packets are made up (seed {seed}); quaver sync what-if RUN --example wimax takes those of a program"
        )],
    }
}

fn row(one: &quaver_dvfs::dvfs::what_if::ThreadCompensation) -> ThreadRow {
    ThreadRow {
        thread: one.thread,
        length_ns: one.length_ns,
        blocked_ns: one.blocked_ns,
        lost_ns: one.lost_ns,
        left_ns: one.left_ns,
        slow_down_without: one.slow_down_without(),
        slow_down_with: one.slow_down_with(),
        mean_ratio: one.mean_ratio,
        changes: one.changes,
    }
}

/// The subframes of one thread under the first controller with the whole table.
fn drawn(run: &RunDir, question: &Question, thread: u32) -> anyhow::Result<ThreadHistory> {
    let config = question.config(Kind::Reactive, 1, question.own_highest());
    let table = config.table.clone();
    let mut compensator = Compensator::new(config, question.unpaced_share);
    let (mut columns, mut begin_ns, mut lost_so_far_ns) = (Columns::default(), None, 0);
    cut(run, question.subframe_ns, &mut |step| match step {
        Step::Began { thread, parent, .. } => compensator.began(thread.0, parent.map(|parent| parent.0)),
        Step::Woken { wakeup, own, others } => compensator.woken(&wakeup, &own, &others),
        Step::Ended(subframe) => {
            let ratio = table.factor(compensator.point(subframe.thread.0));
            let decision = compensator.ended(&subframe);
            if subframe.thread.0 == thread {
                let begin_ns = *begin_ns.get_or_insert(subframe.begin_ns);
                lost_so_far_ns += subframe.lost_ns;
                let owed_ns = decision.owed_fs as f64 / 1e6;
                let at_ns = subframe.end_ns - begin_ns;
                columns.push(Column { at_ns, lost_so_far_ns, owed_ns, ratio });
            }
        }
        Step::Waits { .. } | Step::GoesOn { .. } => {}
    })?;
    Ok(ThreadHistory { thread, columns: columns.all })
}

/// Columns of equally many subframes each but the last, which may have fewer; fewer than twice as many as are drawn.
#[derive(Default)]
struct Columns {
    all: Vec<Column>,
    /// How often neighbours were put together: a column has two to the power of this subframes.
    halvings: u32,
    /// Subframes of the last column.
    in_last: u64,
}

impl Columns {
    fn push(&mut self, subframe: Column) {
        let each = 1_u64 << self.halvings;
        match self.all.last_mut().filter(|_| self.in_last < each) {
            Some(last) => {
                *last = last.with(subframe);
                self.in_last += 1;
            }
            None => {
                self.all.push(subframe);
                self.in_last = 1;
            }
        }
        // The last column is full, so that all of them are alike.
        if self.all.len() >= 2 * COLUMNS && self.in_last == each {
            self.all = self.all.chunks_exact(2).map(|two| two[0].with(two[1])).collect();
            self.halvings += 1;
            self.in_last = each * 2;
        }
    }
}

impl Column {
    /// This one and the next together: the end of that, with the higher frequency and the larger debt of both.
    fn with(self, next: Self) -> Self {
        Self { owed_ns: self.owed_ns.max(next.owed_ns), ratio: self.ratio.max(next.ratio), ..next }
    }
}

fn warnings(cut: &Cut) -> Vec<String> {
    let mut warnings = cut.unreadable.clone();
    if !cut.complete {
        warnings.push("the run was cut short; this is about what was kept".to_owned());
    }
    if cut.results.counts.events == 0 {
        warnings.push("nothing of this program was recorded, so there is nothing to give back".to_owned());
    } else if cut.from_kernel {
        warnings.push(
            "only futex calls of this program are known; work and waiting are told apart as far as these tell".to_owned(),
        );
    }
    if !cut.facts.kernel.looked() {
        warnings.push(
            "nobody looked at the kernel: interrupts and preemption are taken for work, and what they took is not given back"
                .to_owned(),
        );
    }
    if compensating(&cut.facts) {
        warnings.push(
            "the CPUs' frequency was already raised in this run, so that its own work was shorter than at rest: the curve starts from there"
                .to_owned(),
        );
    }
    warnings
}

fn compensating(facts: &SyncFacts) -> bool {
    facts.compensation.as_ref().is_some_and(|one| !one.dry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            table: Table::default(),
            highest: 1.3,
            subframe_ns: 330_000,
            unpaced_share: 0.0,
            frames: None,
        }
    }

    #[test]
    fn limits_go_from_rest_to_where_the_curve_ends() {
        let near = |limits: Vec<f64>, wanted: &[f64]| {
            assert_eq!(limits.len(), wanted.len(), "{limits:?}");
            assert!(limits.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 1e-9), "{limits:?}");
        };
        near(question().limits(), &[1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3]);
        near(Question { highest: 1.0, ..question() }.limits(), &[1.0]);
        assert!((question().own_highest() - 1.2).abs() < 1e-9);
    }

    #[test]
    fn the_example_is_answered_without_a_run() {
        let answer = of_example(&question(), 1);
        let frames = answer.frames.expect("that is what it is about");
        assert_eq!((frames.without.frames, frames.with.len()), (PACKETS as u64, 24));
        assert!(frames.without.missed > 0);
        let best = frames.with.iter().map(|one| one.deadlines.missed).min();
        assert!(best < Some(frames.without.missed));
        assert!(answer.curves.is_empty() && answer.program.is_none());
    }

    #[test]
    fn columns_put_together_keep_the_end_the_highest_and_the_largest() {
        let column = |at_ns, owed_ns, ratio| Column { at_ns, lost_so_far_ns: at_ns, owed_ns, ratio };
        assert_eq!(column(1, 5.0, 1.0).with(column(2, 3.0, 1.2)), column(2, 5.0, 1.2));
    }

    #[test]
    fn columns_of_a_long_thread_are_equally_long() {
        let mut columns = Columns::default();
        let subframes = 11 * COLUMNS as u64 + 5;
        for at_ns in 1..=subframes {
            columns.push(Column { at_ns, ..Column::default() });
        }
        let all = &columns.all;
        assert!((COLUMNS..2 * COLUMNS).contains(&all.len()), "{}", all.len());
        let lengths = all.windows(2).map(|two| two[1].at_ns - two[0].at_ns);
        let each = all[0].at_ns;
        assert!(lengths.take(all.len() - 2).all(|length| length == each));
        assert_eq!(all[all.len() - 1].at_ns, subframes);
    }
}
