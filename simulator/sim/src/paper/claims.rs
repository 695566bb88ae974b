//! What the paper says, judged by our runs. Nothing here changes a run; what does not hold says so, and why as far as the
//! runs tell.

use super::arms::Arm;
use super::summary::{PaperSummary, ProgramSummary};
use super::tables::{OVERHEAD_WITH_BOTH_PERCENT, UNIFIED_PERCENT, product_error, table_8};
use quaver_sync_analysis::bench::paper::{CORRELATIONS, PROGRAMS, PaperProgram, Suite};
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
/// The highest point of table 3 over rest.
const HIGHEST: f64 = 1.2;

/// Which kind of statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Arithmetic, or a law of the model: if it does not hold, something is wrong.
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
    /// Why not, as far as is known.
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
    fn judged(self, ours: impl Into<String>, holds: bool, why: impl Into<String>) -> Self {
        let why = if holds { String::new() } else { why.into() };
        Self { ours: ours.into(), holds: Some(holds), why, ..self }
    }

    fn told(self, ours: impl Into<String>) -> Self {
        Self { ours: ours.into(), ..self }
    }
}

/// All of them, laws first.
pub fn claims(summary: &PaperSummary) -> Vec<Claim> {
    let mut all = arithmetic();
    all.extend(undisturbed(summary));
    all.extend(bound_of_dvfs(summary));
    all.extend(power(summary));
    all.extend(summary.programs.iter().flat_map(shape));
    all.extend(summary.programs.iter().filter_map(classes));
    all.extend(reactivity(summary));
    all.extend(alternatives(summary));
    all.extend(grid(summary));
    all.extend(learning(summary));
    all
}

fn arithmetic() -> Vec<Claim> {
    let mut all = Vec::new();
    for (suite, (ours, paper)) in Suite::ALL.into_iter().zip(table_8().into_iter().zip(CORRELATIONS)) {
        let words = |values: [f64; 3]| values.map(|value| format!("{value:.2}")).join(", ");
        let ours = ours.map(|value| value.unwrap_or(f64::NAN));
        let holds = ours.iter().zip(paper).all(|(ours, paper)| (ours - paper).abs() <= 0.01);
        let what = format!("table 8: correlations that follow from the paper's own table, {}", suite.name());
        all.push(claim(Kind::Law, what, words(paper)).judged(words(ours), holds, "the paper's arithmetic"));
    }
    let worst = PROGRAMS.iter().map(|row| product_error(row).abs()).fold(0.0, f64::max) * 100.0;
    let third = claim(Kind::Law, "tables 6 and 7: column 3 is the product of columns 1 and 2", "within 4 %");
    all.push(third.judged(format!("{worst:.2} % off at most"), worst <= 4.0, "the paper's arithmetic"));
    all
}

/// The largest of a value over the programs that have it, with the program's name.
fn most(summary: &PaperSummary, of: impl Fn(&ProgramSummary) -> Option<f64>) -> Option<(&str, f64)> {
    let all = summary.programs.iter().filter_map(|program| Some((program.program.as_str(), of(program)?)));
    all.max_by(|one, other| one.1.total_cmp(&other.1))
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
        let far = most(summary, |program| Some(apart(program, arm, Arm::Plain)?.abs()));
        if let Some((name, far)) = far {
            let words = format!("{far:.3} % at most ({name})");
            all.push(claim(Kind::Law, what, "within 0.1 %").judged(
                words,
                far <= 0.1,
                "the cure disturbs the program",
            ));
        }
    }
    let rests = |program: &ProgramSummary| {
        let arm = program.arm(Arm::IdealWatched)?;
        Some((arm.mean_factor - 1.0).abs() + arm.changes)
    };
    if let Some((name, far)) = most(summary, rests) {
        let ours = if far == 0.0 { "1.0 everywhere".to_owned() } else { format!("it moves in {name}") };
        let rests = claim(Kind::Law, "no jitter: the controller rests at 1.0", "1.0");
        all.push(rests.judged(ours, far == 0.0, "it sees jitter where none was injected"));
    }
    let gain = most(summary, |program| Some(-apart(program, Arm::IdealOsCache, Arm::Plain)?));
    if let Some((name, gain)) = gain {
        let told = claim(
            Kind::Told,
            "no jitter: what a program gains by the idle OS cache when lines are shared",
            "-",
        );
        all.push(told.told(format!("{gain:.2} % at most ({name})")));
    }
    all
}

fn bound_of_dvfs(summary: &PaperSummary) -> Option<Claim> {
    let least = |program: &ProgramSummary| {
        let ratios = program.arms.iter().filter_map(|arm| arm.least_ratio);
        ratios.min_by(f64::total_cmp).map(|ratio| -ratio)
    };
    let (name, least) = most(summary, least)?;
    let bound = 1.0 / HIGHEST;
    let what = "DVFS alone never below (1 + J) / 1.2 - 1, J with the same cache and seed";
    let ours = format!("at least {:.3} of the time without ({name}); the bound is {bound:.3}", -least);
    Some(claim(Kind::Law, what, "table 3 ends at 1.2").judged(
        ours,
        -least >= bound,
        "no clock can do this: which threads wait, and so may be late, changes with the frequencies, so that two runs of one seed do not meet quite the same lateness",
    ))
}

fn power(summary: &PaperSummary) -> Vec<Claim> {
    let of = |program: &ProgramSummary, largest: bool| {
        let each = program.arms.iter().flat_map(|arm| &arm.power_percent);
        each.map(|spread| if largest { spread.max } else { -spread.min }).max_by(f64::total_cmp)
    };
    let Some((name, highest)) = most(summary, |program| of(program, true)) else { return Vec::new() };
    let law = claim(Kind::Law, "power with DVFS, under every model and seed", "below 72.8 % more");
    let own = |program: &ProgramSummary| Some(program.arm(Arm::UnifiedDvfs)?.power_percent.first()?.mean);
    let (Some(most_of), Some(least_of)) =
        (most(summary, own), most(summary, |program| own(program).map(|percent| -percent)))
    else {
        return Vec::new();
    };
    let (least, largest) = (-least_of.1, most_of.1);
    let told = claim(Kind::Shape, "figure 13: power overhead of the programs, unified cache", "1 to 41 %");
    let mut why = Vec::new();
    if least < 1.0 {
        why.push(format!("{} has little jitter to give back, or gives back more than it won", least_of.0));
    }
    if largest > 41.0 {
        why.push(format!("{} has jitter all the time: its cores hardly leave the highest points", most_of.0));
    }
    vec![
        law.judged(format!("{highest:.1} % at most ({name})"), highest < 72.8, "power model"),
        told.judged(format!("{least:.1} to {largest:.1} %"), least >= 1.0 && largest <= 41.0, why.join("; ")),
    ]
}

fn shape(program: &ProgramSummary) -> Vec<Claim> {
    let Some((row, paper)) = program.row.zip(program.of_paper()) else { return Vec::new() };
    if program.suite != Suite::Splash2 {
        return Vec::new();
    }
    let name = &program.program;
    let mut all = Vec::new();
    if let Some((_, low, high)) = SHAPE_PERCENT.iter().find(|(own, ..)| own == name) {
        let what = format!("slow-down of {name}{}", if program.held_out { " (held out)" } else { "" });
        let bar =
            claim(Kind::Shape, what, format!("{low} to {high} % (table 6: {} %)", paper.slowdown_percent));
        let holds = (*low..=*high).contains(&row.slow_down_percent);
        all.push(bar.judged(format!("{:.2} %", row.slow_down_percent), holds, why_not(program)));
    }
    let far = (row.events_per_ms / paper.events_per_ms - 1.0) * 100.0;
    let what =
        format!("jitter events a millisecond of {name}{}", if program.held_out { " (held out)" } else { "" });
    let bar = claim(Kind::Shape, what, format!("{} ± 15 %", paper.events_per_ms));
    all.push(bar.judged(
        format!("{:.2} ({far:+.0} %)", row.events_per_ms),
        far.abs() <= 15.0,
        why_not(program),
    ));
    all
}

/// Why a shape is missed, from what the runs show.
fn why_not(program: &ProgramSummary) -> String {
    let how = &program.how;
    let expected = program.of_paper().map_or(0.0, |paper| paper.events_per_ms) * how.ideal_us / 1e3;
    if program.held_out {
        let mut why = "held out: its injection is predicted from the other programs".to_owned();
        if let Some((row, paper)) = program.row.zip(program.of_paper()) {
            why.push_str(&format!(
                "; the prediction gives {:.2} of the paper's events and a mean of {:.0} us (paper {:.0})",
                row.events_per_ms / paper.events_per_ms,
                row.mean_us,
                paper.mean_us
            ));
        }
        return why;
    }
    if !how.fitted {
        return "its injection was not fitted".to_owned();
    }
    let Some((row, paper)) = program.row.zip(program.of_paper()) else { return String::new() };
    let share = least_percent(paper);
    if share > paper.slowdown_percent {
        return format!(
            "the paper's events take {share:.1} % of the time of each of 16 threads, and slow it down by {} %: most must fall \
             where a thread waits anyhow. Here threads seldom do, so that rate and slow-down cannot both be the paper's; the fit \
             gives {:.0} % of the rate and {:.2} %",
            paper.slowdown_percent,
            100.0 * row.events_per_ms / paper.events_per_ms,
            row.slow_down_percent
        );
    }
    if how.knobs.probability > 0.99 {
        return format!(
            "every wait is late already: somebody ends one {:.0} times a millisecond, and a lock is contended {:.0} times",
            how.occasions.waits_per_ms, how.occasions.locks_per_ms
        );
    }
    if expected < 30.0 {
        return format!(
            "about {expected:.0} events in a run of {:.1} ms: chance decides",
            how.ideal_us / 1e3
        );
    }
    "the fit, by other seeds, came no nearer".to_owned()
}

/// What a row of table 6 takes of the time of each of sixteen threads, in percent, the threshold of 10 us included.
fn least_percent(row: &PaperProgram) -> f64 {
    row.events_per_ms * (row.mean_us + 10.0) / 16.0 / 10.0
}

fn classes(program: &ProgramSummary) -> Option<Claim> {
    let shares = program.class_shares?;
    let of = |classes: &[SyncClass]| classes.iter().map(|class| shares[*class as usize]).sum::<f64>() * 100.0;
    let most = of(&[SyncClass::BroadcastWait, SyncClass::LockUnlock, SyncClass::Unlock]);
    let by_signals = BY_SIGNALS.contains(&program.program.as_str());
    let name = &program.program;
    let (what, paper, part) = match by_signals {
        true => {
            let what = format!("figure 9: signal-wait dominates in {name}");
            (what, "more than half", of(&[SyncClass::SignalWait]))
        }
        false => (format!("figure 9: bw, lu and u dominate in {name}"), "more than half", most),
    };
    Some(claim(Kind::Shape, what, paper).judged(
        format!("{part:.0} %"),
        part > 50.0,
        "its trace synchronises otherwise",
    ))
}

fn reactivity(summary: &PaperSummary) -> Vec<Claim> {
    let arms = [Arm::UnifiedDvfs, Arm::UnifiedDvfs2, Arm::UnifiedDvfs4];
    let judge = |suite: Suite| {
        let means: Vec<f64> = arms.iter().filter_map(|arm| summary.mean(suite, *arm)).collect();
        let [one, two, four] = means[..] else { return None };
        let what = format!("figure 18: k = 1 no slower than 2, and 2 than 4, mean of {}", suite.name());
        let ours = format!("{one:.2}, {two:.2}, {four:.2} %");
        let why = "where threads meet more often than subframes end, what one thread is given back another one waits for, and \
                   each change of frequency stops a core for 10 us: a larger k changes less often";
        Some(claim(Kind::Shape, what, "k = 1 is best").judged(ours, one <= two && two <= four, why))
    };
    Suite::ALL.into_iter().filter_map(judge).collect()
}

fn alternatives(summary: &PaperSummary) -> Vec<Claim> {
    let mut all = Vec::new();
    let over =
        |program: &ProgramSummary, arm: Arm| Some(program.slow_down(arm)? - program.slow_down(Arm::Unified)?);
    let pinned: Vec<(&str, f64)> = summary
        .programs
        .iter()
        .filter_map(|program| Some((program.program.as_str(), over(program, Arm::Pinned)?)))
        .collect();
    if !pinned.is_empty() {
        let better: Vec<&str> = pinned.iter().filter(|one| one.1 < 0.0).map(|one| one.0).collect();
        let what = "figure 19: selective pinning no better than the unified cache";
        let ours = match better.is_empty() {
            true => "in no program".to_owned(),
            false => format!("better in {}", better.join(", ")),
        };
        all.push(claim(Kind::Shape, what, "in all programs").judged(
            ours,
            better.is_empty(),
            "kernel activity is short and touches little, so that holding lines costs nothing here",
        ));
    }
    if let Some((name, far)) = most(summary, |program| Some(over(program, Arm::Prefetch)?.abs())) {
        let bar = claim(
            Kind::Shape,
            "figure 19: prefetching within 1 % of the unified cache",
            "no significant difference",
        );
        all.push(bar.judged(
            format!("{far:.2} points at most ({name})"),
            far <= 1.0,
            "lines that come back early help",
        ));
    }
    if let Some((name, worst)) = most(summary, |program| over(program, Arm::OsCache)) {
        let bar = claim(Kind::Shape, "figure 10: where the OS cache loses, it loses less than 2 %", "< 2 %");
        all.push(bar.judged(format!("{worst:.2} points at most ({name})"), worst < 2.0, "capacity"));
    }
    all
}

fn grid(summary: &PaperSummary) -> Vec<Claim> {
    let mut all = Vec::new();
    for (number, suite) in Suite::ALL.into_iter().enumerate() {
        for (arm, paper) in [
            (Arm::Unified, format!("{} %", UNIFIED_PERCENT[number])),
            (Arm::UnifiedDvfs, ["<= 2.5 % for 5 of 8, three at 10 to 20 %", "1 %"][number].to_owned()),
            (Arm::OsCache, "less than unified".to_owned()),
            (Arm::OsCacheDvfs, format!("{} %", OVERHEAD_WITH_BOTH_PERCENT[number])),
        ] {
            if let Some(mean) = summary.mean(suite, arm) {
                let what = format!("section 6.2: mean slow-down of {}, {}", suite.name(), arm.name());
                all.push(claim(Kind::Told, what, paper).told(format!("{mean:.2} %")));
            }
        }
    }
    all
}

fn learning(summary: &PaperSummary) -> Vec<Claim> {
    let judge = |suite: Suite| {
        let (reacts, learns) =
            (summary.mean(suite, Arm::UnifiedDvfs)?, summary.mean(suite, Arm::UnifiedPredictive)?);
        let what = format!("beyond the paper: the controller that learns, mean of {}", suite.name());
        Some(
            claim(Kind::Told, what, "-")
                .told(format!("{learns:.2} %, and {reacts:.2} % by the one that reacts")),
        )
    };
    Suite::ALL.into_iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests;
