//! What the paper says, judged by our runs. The list of laws and shapes is the same for every run: without the runs that
//! could decide it, or where chance could, a statement is not judged. Reasons are figures of the run.

mod data;
mod reasons;

pub use data::Undecided;

use super::arms::Arm;
use super::calibration::Shown;
use super::summary::{PaperSummary, ProgramSummary};
use super::tables::{OVERHEAD_WITH_BOTH_PERCENT, UNIFIED_PERCENT};
use quaver_sync_analysis::bench::paper::{PROGRAMS, PaperProgram, Suite};
use quaver_sync_analysis::sync::SyncClass;
use schemars::JsonSchema;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// What keeps a statement with a bar from being judged.
    pub undecided: Option<Undecided>,
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
        undecided: None,
        why: String::new(),
    }
}

impl Claim {
    /// Judged; the reason is computed only where it does not hold.
    fn judged(self, ours: impl Into<String>, holds: bool, why: impl FnOnce() -> String) -> Self {
        let why = if holds { String::new() } else { why() };
        Self { ours: ours.into(), holds: Some(holds), why, ..self }
    }

    /// Judged by the mean of these seeds, where chance cannot carry it over a border of the range.
    fn judged_by_seeds(
        self,
        ours: impl Into<String>,
        seeds: &[f64],
        range: (f64, f64),
        why: impl FnOnce() -> String,
    ) -> Self {
        match data::within(seeds, range) {
            Some(holds) => self.judged(ours, holds, why),
            None => self.undecided(ours, (Undecided::Chance, data::chance(seeds))),
        }
    }

    fn undecided(self, ours: impl Into<String>, (undecided, why): data::Lack) -> Self {
        Self { ours: ours.into(), undecided: Some(undecided), why, ..self }
    }

    fn not_judged(self, missing: impl Into<String>) -> Self {
        self.undecided(NOTHING, (Undecided::NotRun, missing.into()))
    }

    fn told(self, ours: impl Into<String>) -> Self {
        Self { ours: ours.into(), ..self }
    }

    /// Whether it has a bar and the run's data cannot decide it.
    pub fn is_not_judged(&self) -> bool {
        self.undecided.is_some()
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
        return Claim { why: NOT_LATE_WITH_DVFS.to_owned(), ..told.told(NOTHING) };
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
    let (programs, lack) = data::able(summary, None, &[Arm::UnifiedDvfs]);
    let mut own: Vec<f64> = programs.iter().filter_map(|one| mean_power(one)).collect();
    own.sort_by(f64::total_cmp);
    let ours = match own[..] {
        [] => NOTHING.to_owned(),
        [least, .., largest] | [least @ largest] => {
            format!("{least:.1} to {largest:.1} % ({})", share(&own))
        }
    };
    let seeds = |program: &ProgramSummary| -> Vec<f64> {
        program.seeds(Arm::UnifiedDvfs).filter_map(|seed| seed.power_percent).collect()
    };
    let shape = judged_by_each(shape, ours, (programs, lack), seeds, (1.0, 41.0), |program| {
        reasons::power(program, mean_power(program).unwrap_or(f64::NAN))
    });
    [law, shape]
}

/// Mean power with DVFS over that without, unified cache, percent.
fn mean_power(program: &ProgramSummary) -> Option<f64> {
    Some(program.arm(Arm::UnifiedDvfs)?.power_percent.first()?.mean)
}

/// A statement about each of the programs: one that is outside the range decides against it, only all of them for it.
fn judged_by_each(
    bar: Claim,
    ours: String,
    (programs, lack): (Vec<&ProgramSummary>, Option<data::Lack>),
    seeds: impl Fn(&ProgramSummary) -> Vec<f64>,
    range: (f64, f64),
    why: impl Fn(&ProgramSummary) -> String,
) -> Claim {
    let of = |wanted: Option<bool>| -> Vec<&ProgramSummary> {
        programs.iter().copied().filter(|program| data::within(&seeds(program), range) == wanted).collect()
    };
    let (missed, open) = (of(Some(false)), of(None));
    if !missed.is_empty() {
        return bar.judged(ours, false, || missed.into_iter().map(why).collect::<Vec<_>>().join("; "));
    }
    if let Some(lack) = lack {
        return bar.undecided(ours, lack);
    }
    if open.is_empty() {
        return bar.judged(ours, true, String::new);
    }
    let each: Vec<String> =
        open.iter().map(|one| format!("{}: {}", one.program, data::chance(&seeds(one)))).collect();
    bar.undecided(ours, (Undecided::Chance, each.join("; ")))
}

fn held_out(summary: &PaperSummary, name: &str) -> &'static str {
    if summary.program(name).is_some_and(|program| program.held_out) { " (held out)" } else { "" }
}

fn slow_down(summary: &PaperSummary, paper: &PaperProgram) -> Option<Claim> {
    let name = paper.program;
    let (_, low, high) = SHAPE_PERCENT.iter().find(|(own, ..)| *own == name)?;
    let what = format!("slow-down of {name}{}", held_out(summary, name));
    let bar = claim(Kind::Shape, what, format!("{low} to {high} % (table 6: {} %)", paper.slowdown_percent));
    let found = data::row(summary, name);
    let ours = |row: &Shown| format!("{:.2} %", row.slow_down_percent);
    Some(match found {
        Err((row, lack)) => bar.undecided(row.map_or(NOTHING.to_owned(), |row| ours(&row)), lack),
        Ok((program, row)) => {
            let seeds = program.slow_downs(Arm::Unified);
            bar.judged_by_seeds(ours(&row), &seeds, (*low, *high), || {
                reasons::slow_down(program, &row, paper)
            })
        }
    })
}

fn events(summary: &PaperSummary, paper: &PaperProgram) -> Claim {
    let name = paper.program;
    let what = format!("jitter events a millisecond of {name}{}", held_out(summary, name));
    let bar = claim(Kind::Shape, what, format!("{} ± {RATE_PERCENT} %", paper.events_per_ms));
    let off = |row: &Shown| (row.events_per_ms / paper.events_per_ms - 1.0) * 100.0;
    let ours = |row: &Shown| format!("{:.2} ({:+.0} %)", row.events_per_ms, off(row));
    let (program, row) = match data::row(summary, name) {
        Ok(found) => found,
        Err((row, lack)) => {
            return bar.undecided(row.map_or(NOTHING.to_owned(), |row| ours(&row)), lack);
        }
    };
    let far = off(&row).abs();
    let (expected, chance) = reasons::chance(program, paper);
    let decided = if far <= RATE_PERCENT { chance <= RATE_PERCENT } else { far > RATE_PERCENT + chance };
    if !decided {
        let why = format!("{expected}: chance moves their rate by \u{b1} {chance:.0} %");
        return bar.undecided(ours(&row), (Undecided::Chance, why));
    }
    bar.judged(ours(&row), far <= RATE_PERCENT, || reasons::events(program, &row, paper))
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
    let shares = summary.program(name).and_then(|program| program.class_shares);
    let part = |shares: [f64; 6]| wanted.iter().map(|class| shares[*class as usize]).sum::<f64>() * 100.0;
    let ours = shares.map_or(NOTHING.to_owned(), |shares| format!("{:.0} %", part(shares)));
    let program = match data::row(summary, name) {
        Ok((program, _)) => program,
        Err((_, lack)) => return bar.undecided(ours, lack),
    };
    let Some(shares) = shares else {
        return bar
            .undecided(NOTHING, (Undecided::NothingLate, format!("no synchronisation of {name} was late")));
    };
    let late: u64 = program.distribution.iter().map(|bin| bin.count).sum();
    // The share of one kind among independent events scatters by at most half the root of their number, twice for 95 %.
    let chance = 100.0 / (late.max(1) as f64).sqrt();
    if (part(shares) - 50.0).abs() <= chance {
        let why =
            format!("{late} late operations: chance moves a share of them by \u{b1} {chance:.0} points");
        return bar.undecided(ours, (Undecided::Chance, why));
    }
    bar.judged(ours, part(shares) > 50.0, || reasons::classes(&shares))
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
    let (programs, lack) = data::able(summary, Some(suite), &[Arm::UnifiedDvfs]);
    let found = each_late(summary, |program| program.slow_down(Arm::UnifiedDvfs));
    let means: Vec<f64> = found.iter().filter(|(one, _)| one.suite == suite).map(|(_, mean)| *mean).collect();
    let below = means.iter().filter(|percent| **percent <= CURED_PERCENT).count();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let why = || reasons::left(programs.iter().copied(), HIGHEST);
    let ours = match suite {
        _ if means.is_empty() => NOTHING.to_owned(),
        Suite::Splash2 => format!("{below} of {}, mean {mean:.2} %", means.len()),
        Suite::Parsec | Suite::Own => format!("{mean:.2} %, {below} of {} below", means.len()),
    };
    if let Some(lack) = lack {
        return bar.undecided(ours, lack);
    }
    if suite != Suite::Splash2 {
        let seeds =
            data::mean_by_seed(summary, &programs, |one, seed| one.slow_down_at(Arm::UnifiedDvfs, seed));
        return bar.judged_by_seeds(ours, &seeds, (f64::NEG_INFINITY, CURED_PERCENT), why);
    }
    let each: Vec<Option<bool>> = programs
        .iter()
        .map(|one| data::within(&one.slow_downs(Arm::UnifiedDvfs), (f64::NEG_INFINITY, CURED_PERCENT)))
        .collect();
    let [surely, open] = [Some(true), None].map(|side| each.iter().filter(|one| **one == side).count());
    if surely < CURED && surely + open >= CURED {
        let why = format!("{surely} are below for sure, and chance decides {open}; {}", why());
        return bar.undecided(ours, (Undecided::Chance, why));
    }
    bar.judged(ours, surely >= CURED, why)
}

fn reactivity(summary: &PaperSummary, suite: Suite) -> Claim {
    let arms = [Arm::UnifiedDvfs, Arm::UnifiedDvfs2, Arm::UnifiedDvfs4];
    let what = format!("figure 18: k = 1 no slower than 2, and 2 than 4, mean of {}", suite.name());
    let bar = claim(Kind::Shape, what, "k = 1 is best");
    let (programs, lack) = data::able(summary, Some(suite), &arms);
    let late = summary.of(suite).any(ProgramSummary::was_late);
    let ours = match arms.map(|arm| summary.mean(suite, arm)) {
        [Some(one), Some(two), Some(four)] if late => format!("{one:.2}, {two:.2}, {four:.2} %"),
        _ => NOTHING.to_owned(),
    };
    if let Some(lack) = lack {
        return bar.undecided(ours, lack);
    }
    let gains = [(arms[0], arms[1]), (arms[1], arms[2])].map(|(smaller, larger)| {
        data::mean_by_seed(summary, &programs, |program, seed| {
            Some(program.slow_down_at(smaller, seed)? - program.slow_down_at(larger, seed)?)
        })
    });
    let sides = gains.each_ref().map(|gain| data::within(gain, (f64::NEG_INFINITY, 0.0)));
    if !sides.contains(&Some(false)) && sides.contains(&None) {
        let [first, second] = gains.map(|gain| data::chance(&gain));
        let why = format!("k = 1 over 2: {first}; 2 over 4: {second}");
        return bar.undecided(ours, (Undecided::Chance, why));
    }
    bar.judged(ours, sides == [Some(true); 2], || reasons::reactivity(summary, suite, &arms))
}

fn alternatives(summary: &PaperSummary) -> [Claim; 3] {
    let judge = |what: &str, paper: &str, arm: Arm, range: (f64, f64), size: fn(f64) -> f64| {
        let bar = claim(Kind::Shape, what, paper);
        let (programs, lack) = data::able(summary, None, &[arm, Arm::Unified]);
        // Points of the arm's slow-down above the unified cache's.
        let over =
            |program: &ProgramSummary| Some(program.slow_down(arm)? - program.slow_down(Arm::Unified)?);
        let worst = programs.iter().filter_map(|program| Some((program, over(program)?)));
        let worst = worst.max_by(|one, other| size(one.1).total_cmp(&size(other.1)));
        let ours = worst.map_or(NOTHING.to_owned(), |(program, far)| {
            format!("{far:+.2} points at most ({}; {})", program.program, share(&programs))
        });
        let seeds = |program: &ProgramSummary| -> Vec<f64> {
            let over =
                |seed| Some(program.slow_down_at(arm, seed)? - program.slow_down_at(Arm::Unified, seed)?);
            summary.seeds.iter().filter_map(|seed| over(*seed)).collect()
        };
        judged_by_each(bar, ours, (programs, lack), seeds, range, |program| {
            reasons::beside_unified(program, arm)
        })
    };
    [
        judge(
            "figure 19: selective pinning no better than the unified cache",
            "in all programs",
            Arm::Pinned,
            (0.0, f64::INFINITY),
            |far| -far,
        ),
        judge(
            "figure 19: prefetching within 1 % of the unified cache",
            "no significant difference",
            Arm::Prefetch,
            (-1.0, 1.0),
            f64::abs,
        ),
        judge(
            "figure 10: where the OS cache loses, it loses less than 2 %",
            "< 2 %",
            Arm::OsCache,
            (f64::NEG_INFINITY, 2.0),
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
    let budget = |suite: Suite| {
        let mean = |arm: Arm| Some(format!("{:.2} %", summary.mean(suite, arm)?));
        let [debt, sync, stack, stalls] =
            [Arm::BoostDebt, Arm::BoostSync, Arm::BoostStack, Arm::BoostStalls].map(mean);
        let what = format!("beyond the paper: one power budget, mean of {}", summary.coverage(suite));
        let told = format!(
            "debt {}, Booster's SYNC {}, criticality stacks {}, stalls {}",
            debt?, sync?, stack?, stalls?
        );
        Some(claim(Kind::Told, what, "-").told(told))
    };
    Suite::ALL.into_iter().filter_map(judge).chain(Suite::ALL.into_iter().filter_map(budget)).collect()
}

#[cfg(test)]
mod tests;
