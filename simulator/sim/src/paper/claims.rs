//! What the paper says, judged by our runs. The list of laws and shapes is the same for every run: without the runs that
//! could decide it, a statement is not judged. Reasons are figures of the run.

mod reasons;

use super::arms::Arm;
use super::summary::{PaperSummary, ProgramSummary};
use super::tables::{OVERHEAD_WITH_BOTH_PERCENT, UNIFIED_PERCENT};
use quaver_sync_analysis::bench::paper::{PROGRAMS, PaperProgram, Suite};
use quaver_sync_analysis::sync::SyncClass;
use serde::{Deserialize, Serialize};

/// Range of the slow-down of each Splash program that its shape is judged by, percent.
pub const SHAPE_PERCENT: [(&str, f64, f64); 8] = [
    ("ocean", 25.0, 40.0),
    ("water-nsquared", 25.0, 40.0),
    ("water-spatial", 25.0, 40.0),
    ("fmm", 8.0, 18.0),
    ("barnes", 2.0, 8.0),
    ("raytrace", 2.0, 8.0),
    ("lu", 0.0, 1.5),
    ("radix", 0.0, 1.5),
];
/// Programs in which the paper sees signal-wait most.
const BY_SIGNALS: [&str; 3] = ["vips", "ferret", "dedup"];
/// How far a rate of events may be from the paper's, percent.
const RATE_PERCENT: f64 = 15.0;
/// Slow-down that the paper has at most with DVFS: in five Splash programs, and in the mean of Parsec (6.3), percent.
const CURED_PERCENT: f64 = 2.5;
/// Splash programs of which that is said.
const CURED: usize = 5;
/// The highest point of table 3 over rest.
const HIGHEST: f64 = 1.2;

/// Which kind of statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A law of the model: if it does not hold, something is wrong.
    Law,
    /// A shape that the paper's runs have.
    Shape,
    /// Told only, without a bar.
    Told,
}

/// A statement and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Kind.
    pub kind: Kind,
    /// What it is about.
    pub what: String,
    /// The paper's, or what must be.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// Whether it holds; none where nothing was run that could tell, or where there is no bar.
    pub holds: Option<bool>,
    /// Figures of the run that go with its not holding, or what is missing to judge it.
    pub why: String,
}

fn claim(kind: Kind, what: impl Into<String>, paper: impl Into<String>) -> Claim {
    Claim {
        kind,
        what: what.into(),
        paper: paper.into(),
        ours: String::new(),
        holds: None,
        why: String::new(),
    }
}

impl Claim {
    /// Judged; the reason is computed only where it does not hold.
    fn judged(self, ours: impl Into<String>, holds: bool, why: impl FnOnce() -> String) -> Self {
        let why = if holds { String::new() } else { why() };
        Self { ours: ours.into(), holds: Some(holds), why, ..self }
    }

    /// Judged where a counterexample suffices, but only all programs of `wanted` prove it.
    fn judged_by_all(
        self,
        ours: impl Into<String>,
        holds: bool,
        (have, wanted): (usize, usize),
        why: impl FnOnce() -> String,
    ) -> Self {
        if holds && have < wanted {
            let missing = format!("only {have} of {wanted} programs have the runs that it takes");
            return Self { ours: ours.into(), why: missing, ..self };
        }
        self.judged(ours, holds, why)
    }

    fn not_judged(self, missing: impl Into<String>) -> Self {
        Self { ours: NOTHING.to_owned(), why: missing.into(), ..self }
    }

    fn told(self, ours: impl Into<String>) -> Self {
        Self { ours: ours.into(), ..self }
    }

    /// Whether it has a bar and the run's data cannot decide it.
    pub fn is_not_judged(&self) -> bool {
        self.kind != Kind::Told && self.holds.is_none()
    }
}

/// What stands for a figure that no run gives.
const NOTHING: &str = "-";
/// Why nothing is said of DVFS.
const NOT_LATE_WITH_DVFS: &str =
    "no program with late operations has runs with DVFS beside runs of the same seed without";

/// All of them, laws first.
pub fn claims(summary: &PaperSummary) -> Vec<Claim> {
    let mut all = undisturbed(summary);
    all.push(bound_of_dvfs(summary));
    all.extend(power(summary));
    for paper in PROGRAMS.iter().filter(|paper| paper.suite == Suite::Splash2) {
        all.extend(slow_down(summary, paper));
        all.push(events(summary, paper));
    }
    all.extend(PROGRAMS.iter().map(|paper| classes(summary, paper)));
    all.extend(Suite::ALL.map(|suite| cured(summary, suite)));
    all.extend(Suite::ALL.map(|suite| reactivity(summary, suite)));
    all.extend(alternatives(summary));
    all.extend(grid(summary));
    all.extend(learning(summary));
    all.extend(Suite::ALL.map(forbidden));
    all
}

/// A value of each program that has it.
fn each<T>(summary: &PaperSummary, of: impl Fn(&ProgramSummary) -> Option<T>) -> Vec<(&ProgramSummary, T)> {
    summary.programs.iter().filter_map(|program| Some((program, of(program)?))).collect()
}

/// The same of programs in whose runs an operation was late: without lateness there is nothing to cure.
fn each_late<T>(
    summary: &PaperSummary,
    of: impl Fn(&ProgramSummary) -> Option<T>,
) -> Vec<(&ProgramSummary, T)> {
    each(summary, |program| of(program).filter(|_| program.was_late()))
}

/// The largest value, with its program.
fn most<'a>(all: &[(&'a ProgramSummary, f64)]) -> Option<(&'a ProgramSummary, f64)> {
    all.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1))
}

/// How many programs of all there is a value of.
fn share<T>(have: &[T]) -> String {
    format!("{} of {} programs", have.len(), PROGRAMS.len())
}

/// No program, or none with late operations, has the runs of these arms.
fn without(arms: &[Arm]) -> String {
    let names: Vec<String> = arms.iter().map(|arm| format!("\u{201c}{}\u{201d}", arm.name())).collect();
    let which =
        if arms.iter().any(|arm| arm.injects()) { "no program with late operations" } else { "no program" };
    format!("{which} has runs of {}", names.join(" and "))
}

/// How far two arms of a program are apart in time, percent.
fn apart(program: &ProgramSummary, one: Arm, other: Arm) -> Option<f64> {
    let (one, other) = (program.arm(one)?.duration_us, program.arm(other)?.duration_us);
    (other > 0.0).then(|| (one / other - 1.0) * 100.0)
}

fn undisturbed(summary: &PaperSummary) -> Vec<Claim> {
    let mut all = Vec::new();
    for (arm, what) in [
        (Arm::IdealWatched, "no jitter: units, subframes and controllers change the time by nothing"),
        (Arm::IdealOsCacheAlone, "no jitter: the OS cache without sharing changes the time by nothing"),
    ] {
        let law = claim(Kind::Law, what, "within 0.1 %");
        let found = each(summary, |program| Some(apart(program, arm, Arm::Plain)?.abs()));
        all.push(match most(&found) {
            Some((program, far)) => {
                let ours = format!("{far:.3} % at most ({}; {})", program.program, share(&found));
                law.judged(ours, far <= 0.1, || reasons::times(program, &[arm, Arm::Plain]))
            }
            None => law.not_judged(without(&[arm, Arm::Plain])),
        });
    }
    let law = claim(Kind::Law, "no jitter: the controller rests at 1.0", "1.0");
    let found = each(summary, |program| {
        let arm = program.arm(Arm::IdealWatched)?;
        Some((arm.mean_factor - 1.0).abs() + arm.changes)
    });
    all.push(match most(&found) {
        Some((program, far)) => {
            let ours = match far == 0.0 {
                true => format!("1.0 in {}", share(&found)),
                false => format!("it moves in {}", program.program),
            };
            law.judged(ours, far == 0.0, || reasons::clock(program, Arm::IdealWatched))
        }
        None => law.not_judged(without(&[Arm::IdealWatched])),
    });
    let gain = each(summary, |program| Some(-apart(program, Arm::IdealOsCache, Arm::Plain)?));
    if let Some((program, gain)) = most(&gain) {
        let what = "no jitter: what a program gains by the idle OS cache when lines are shared";
        let told = claim(Kind::Told, what, "-");
        all.push(told.told(format!("{gain:.2} % at most ({})", program.program)));
    }
    all
}

/// No law: a faster thread takes a lock before another, and other operations are late, so that a run may beat the clock's bound.
fn bound_of_dvfs(summary: &PaperSummary) -> Claim {
    let what = "least time with DVFS over that without, same cache and seed (lateness and order of locks may differ)";
    let told = claim(Kind::Told, what, "table 3 ends at 1.2");
    let found = each_late(summary, |program| {
        let ratios = program.arms.iter().filter_map(|arm| Some((arm.arm, arm.least_ratio?)));
        ratios.min_by(|one, other| one.1.total_cmp(&other.1))
    });
    let least = found.iter().min_by(|one, other| one.1.1.total_cmp(&other.1.1));
    let Some((program, (arm, ratio))) = least else {
        return told.not_judged(NOT_LATE_WITH_DVFS);
    };
    let bound = 1.0 / HIGHEST;
    let ours = format!(
        "{ratio:.3} ({}; {}); the clock alone could reach {bound:.3}",
        program.program,
        share(&found)
    );
    let why = if *ratio < bound { reasons::below_the_bound(program, *arm) } else { String::new() };
    Claim { why, ..told.told(ours) }
}

fn power(summary: &PaperSummary) -> [Claim; 2] {
    let law = claim(Kind::Law, "power with DVFS, under every model and seed", "below 72.8 % more");
    let highest = each_late(summary, |program| {
        let of_arms = program.arms.iter().filter_map(|arm| {
            let highest = arm.power_percent.iter().map(|spread| spread.max).max_by(f64::total_cmp)?;
            Some((arm.arm, highest))
        });
        of_arms.max_by(|one, other| one.1.total_cmp(&other.1))
    });
    let law = match highest.iter().max_by(|one, other| one.1.1.total_cmp(&other.1.1)) {
        Some((program, (arm, percent))) => {
            let ours = format!("{percent:.1} % at most ({}; {})", program.program, share(&highest));
            law.judged(ours, *percent < 72.8, || reasons::clock(program, *arm))
        }
        None => law.not_judged(NOT_LATE_WITH_DVFS),
    };
    let shape = claim(Kind::Shape, "figure 13: power overhead of the programs, unified cache", "1 to 41 %");
    let mut own =
        each_late(summary, |program| Some(program.arm(Arm::UnifiedDvfs)?.power_percent.first()?.mean));
    own.sort_by(|one, other| one.1.total_cmp(&other.1));
    let [(_, least), ..] = own[..] else {
        return [law, shape.not_judged(without(&[Arm::UnifiedDvfs, Arm::Unified]))];
    };
    let largest = own[own.len() - 1].1;
    let outside = || own.iter().filter(|(_, percent)| !(1.0..=41.0).contains(percent));
    let shape = shape.judged_by_all(
        format!("{least:.1} to {largest:.1} % ({})", share(&own)),
        outside().next().is_none(),
        (own.len(), PROGRAMS.len()),
        || {
            outside()
                .map(|(program, percent)| reasons::power(program, *percent))
                .collect::<Vec<_>>()
                .join("; ")
        },
    );
    [law, shape]
}

fn held_out(summary: &PaperSummary, name: &str) -> &'static str {
    if summary.program(name).is_some_and(|program| program.held_out) { " (held out)" } else { "" }
}

/// Why there is nothing of a program to judge.
fn not_run(summary: &PaperSummary, name: &str) -> String {
    if summary.program(name).is_some() {
        return without_of(name, Arm::Unified);
    }
    let known = summary.not_run.iter().find(|(program, _)| program == name);
    known.map_or_else(|| format!("{name} was not run"), |(_, why)| format!("{name} was not run: {why}"))
}

fn without_of(name: &str, arm: Arm) -> String {
    format!("{name} has no runs of \u{201c}{}\u{201d}", arm.name())
}

fn slow_down(summary: &PaperSummary, paper: &PaperProgram) -> Option<Claim> {
    let name = paper.program;
    let (_, low, high) = SHAPE_PERCENT.iter().find(|(own, ..)| *own == name)?;
    let what = format!("slow-down of {name}{}", held_out(summary, name));
    let bar = claim(Kind::Shape, what, format!("{low} to {high} % (table 6: {} %)", paper.slowdown_percent));
    let Some((program, row)) = summary.program(name).and_then(|program| Some((program, program.row?))) else {
        return Some(bar.not_judged(not_run(summary, name)));
    };
    if !program.was_late() {
        return Some(bar.not_judged(reasons::nothing_late(program)));
    }
    let holds = (*low..=*high).contains(&row.slow_down_percent);
    let ours = format!("{:.2} %", row.slow_down_percent);
    if let Some(why) = reasons::not_predicted(program) {
        return Some(Claim { ours, why, ..bar });
    }
    Some(bar.judged(ours, holds, || reasons::slow_down(program, &row, paper, (*low, *high))))
}

fn events(summary: &PaperSummary, paper: &PaperProgram) -> Claim {
    let name = paper.program;
    let what = format!("jitter events a millisecond of {name}{}", held_out(summary, name));
    let bar = claim(Kind::Shape, what, format!("{} ± {RATE_PERCENT} %", paper.events_per_ms));
    let Some((program, row)) = summary.program(name).and_then(|program| Some((program, program.row?))) else {
        return bar.not_judged(not_run(summary, name));
    };
    if !program.was_late() {
        return bar.not_judged(reasons::nothing_late(program));
    }
    let far = (row.events_per_ms / paper.events_per_ms - 1.0) * 100.0;
    let ours = format!("{:.2} ({far:+.0} %)", row.events_per_ms);
    if let Some(why) = reasons::not_predicted(program) {
        return Claim { ours, why, ..bar };
    }
    let (expected, chance) = reasons::chance(program, paper);
    let decided =
        if far.abs() <= RATE_PERCENT { chance <= RATE_PERCENT } else { far.abs() > RATE_PERCENT + chance };
    if !decided {
        let why = format!("{expected}: chance moves their rate by \u{b1} {chance:.0} %");
        return Claim { ours, why, ..bar };
    }
    bar.judged(ours, far.abs() <= RATE_PERCENT, || reasons::events(program, &row, paper))
}

fn classes(summary: &PaperSummary, paper: &PaperProgram) -> Claim {
    let name = paper.program;
    let (what, wanted): (&str, &[SyncClass]) = match BY_SIGNALS.contains(&name) {
        true => ("signal-wait dominates", &[SyncClass::SignalWait]),
        false => {
            let three = &[SyncClass::BroadcastWait, SyncClass::LockUnlock, SyncClass::Unlock];
            ("bw, lu and u dominate", three)
        }
    };
    let bar = claim(Kind::Shape, format!("figure 9: {what} in {name}"), "more than half");
    let Some(program) = summary.program(name) else { return bar.not_judged(not_run(summary, name)) };
    let Some(shares) = program.class_shares else {
        return bar.not_judged(format!("no synchronisation of {name} was late"));
    };
    let part = wanted.iter().map(|class| shares[*class as usize]).sum::<f64>() * 100.0;
    bar.judged(format!("{part:.0} %"), part > 50.0, || reasons::classes(&shares))
}

/// The paper's headline: what DVFS leaves.
fn cured(summary: &PaperSummary, suite: Suite) -> Claim {
    let (what, paper) = match suite {
        Suite::Splash2 => {
            (format!("section 6.3: DVFS leaves at most {CURED_PERCENT} % in Splash-2 programs"), "5 of 8")
        }
        Suite::Parsec | Suite::Own => {
            (format!("section 6.3: DVFS leaves at most {CURED_PERCENT} %, mean of Parsec"), "1 %")
        }
    };
    let bar = claim(Kind::Shape, what, paper);
    let wanted = PROGRAMS.iter().filter(|paper| paper.suite == suite).count();
    let found = each_late(summary, |program| program.slow_down(Arm::UnifiedDvfs));
    let found: Vec<_> = found.into_iter().filter(|(program, _)| program.suite == suite).collect();
    if found.len() < wanted {
        return bar.not_judged(format!(
            "only {} of {wanted} programs of {} have late operations and runs with DVFS",
            found.len(),
            suite.name()
        ));
    }
    let below = found.iter().filter(|(_, percent)| *percent <= CURED_PERCENT).count();
    let mean = found.iter().map(|(_, percent)| percent).sum::<f64>() / found.len() as f64;
    let (ours, holds) = match suite {
        Suite::Splash2 => (format!("{below} of {}, mean {mean:.2} %", found.len()), below >= CURED),
        Suite::Parsec | Suite::Own => {
            (format!("{mean:.2} %, {below} of {} below", found.len()), mean <= CURED_PERCENT)
        }
    };
    bar.judged(ours, holds, || reasons::left(found.iter().map(|(program, _)| *program), HIGHEST))
}

fn reactivity(summary: &PaperSummary, suite: Suite) -> Claim {
    let arms = [Arm::UnifiedDvfs, Arm::UnifiedDvfs2, Arm::UnifiedDvfs4];
    let what = format!("figure 18: k = 1 no slower than 2, and 2 than 4, mean of {}", suite.name());
    let bar = claim(Kind::Shape, what, "k = 1 is best");
    let wanted = PROGRAMS.iter().filter(|paper| paper.suite == suite).count();
    let complete = |program: &&ProgramSummary| {
        program.was_late() && arms.iter().all(|arm| program.slow_down(*arm).is_some())
    };
    let have = summary.of(suite).filter(complete).count();
    if have < wanted {
        return bar.not_judged(format!(
            "only {have} of {wanted} programs of {} have late operations and runs with each k",
            suite.name()
        ));
    }
    let [one, two, four] = arms.map(|arm| summary.mean(suite, arm).unwrap_or(f64::NAN));
    bar.judged(format!("{one:.2}, {two:.2}, {four:.2} %"), one <= two && two <= four, || {
        reasons::reactivity(summary, suite, &arms)
    })
}

fn alternatives(summary: &PaperSummary) -> [Claim; 3] {
    // Points of an arm's slow-down above the unified cache's.
    let over = |arm: Arm| {
        each_late(summary, |program| Some(program.slow_down(arm)? - program.slow_down(Arm::Unified)?))
    };
    let judge = |bar: Claim, arm: Arm, holds: fn(f64) -> bool, size: fn(f64) -> f64| {
        let mut found = over(arm);
        found.sort_by(|one, other| size(other.1).total_cmp(&size(one.1)));
        let Some(&(worst, far)) = found.first() else {
            return bar.not_judged(without(&[arm, Arm::Unified]));
        };
        let ours = format!("{far:+.2} points at most ({}; {})", worst.program, share(&found));
        let missed = || found.iter().filter(|(_, far)| !holds(*far)).map(|(program, _)| *program);
        let met = missed().next().is_none();
        bar.judged_by_all(ours, met, (found.len(), PROGRAMS.len()), || {
            missed().map(|program| reasons::beside_unified(program, arm)).collect::<Vec<_>>().join("; ")
        })
    };
    let shape = |what, paper| claim(Kind::Shape, what, paper);
    [
        judge(
            shape("figure 19: selective pinning no better than the unified cache", "in all programs"),
            Arm::Pinned,
            |far| far >= 0.0,
            |far| -far,
        ),
        judge(
            shape("figure 19: prefetching within 1 % of the unified cache", "no significant difference"),
            Arm::Prefetch,
            |far| far.abs() <= 1.0,
            f64::abs,
        ),
        judge(
            shape("figure 10: where the OS cache loses, it loses less than 2 %", "< 2 %"),
            Arm::OsCache,
            |far| far < 2.0,
            |far| far,
        ),
    ]
}

fn grid(summary: &PaperSummary) -> Vec<Claim> {
    let mut all = Vec::new();
    for (number, suite) in Suite::ALL.into_iter().enumerate() {
        for (arm, paper) in [
            (Arm::Unified, format!("{} %", UNIFIED_PERCENT[number])),
            (Arm::UnifiedDvfs, ["<= 2.5 % for 5 of 8, three at 10 to 20 %", "1 %"][number].to_owned()),
            (Arm::UnifiedDvfsJoin, "-".to_owned()),
            (Arm::UnifiedDvfsSlack, "-".to_owned()),
            (Arm::OsCache, "less than unified".to_owned()),
            (Arm::OsCacheDvfs, format!("{} %", OVERHEAD_WITH_BOTH_PERCENT[number])),
        ] {
            if let Some(mean) = summary.mean(suite, arm) {
                let what =
                    format!("section 6.2: mean slow-down of {}, {}", summary.coverage(suite), arm.name());
                let paper = if summary.covers(suite) { paper } else { "-".to_owned() };
                all.push(claim(Kind::Told, what, paper).told(format!("{mean:.2} %")));
            }
        }
    }
    all
}

/// What no clock of table 3 can do with the paper's own slow-downs.
fn forbidden(suite: Suite) -> Claim {
    let own: Vec<&PaperProgram> = PROGRAMS.iter().filter(|paper| paper.suite == suite).collect();
    let left = |paper: &PaperProgram| (bound_percent(paper.slowdown_percent), paper.program);
    let mut bound: Vec<(f64, &str)> = own.iter().map(|paper| left(paper)).filter(|one| one.0 > 0.0).collect();
    bound.sort_by(|one, other| other.0.total_cmp(&one.0));
    let sum: f64 = bound.iter().map(|one| one.0).sum();
    let names: Vec<String> = bound.iter().map(|(percent, name)| format!("{name} {percent:.1} %")).collect();
    let what = format!(
        "arithmetic: least that a clock of 1.2 can leave of the paper's own slow-downs, {}",
        suite.name()
    );
    claim(Kind::Told, what, if suite == Suite::Splash2 { "5 of 8 at <= 2.5 %" } else { "1 % in the mean" })
        .told(format!(
            "{}: with none below 0, a mean of {:.2} %",
            if names.is_empty() { "none above 0".to_owned() } else { names.join(", ") },
            sum / own.len() as f64
        ))
}

/// (1 + J) / 1.2 - 1, percent, of a slow-down J in percent.
fn bound_percent(slow_down_percent: f64) -> f64 {
    (1.0 + slow_down_percent / 100.0) / HIGHEST * 100.0 - 100.0
}

fn learning(summary: &PaperSummary) -> Vec<Claim> {
    let judge = |suite: Suite| {
        let (reacts, learns) =
            (summary.mean(suite, Arm::UnifiedDvfs)?, summary.mean(suite, Arm::UnifiedPredictive)?);
        let what =
            format!("beyond the paper: the controller that learns, mean of {}", summary.coverage(suite));
        Some(
            claim(Kind::Told, what, "-")
                .told(format!("{learns:.2} %, and {reacts:.2} % by the one that reacts")),
        )
    };
    Suite::ALL.into_iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests;
