//! What jitter costs, with and without cure: figures 10 to 14, 18 and 19.

use super::{Exhibit, called, charts, difference, microseconds, number, percent, spread};
use quaver_dvfs::power::MODELS;
use quaver_sim::cure::Refills;
use quaver_sim::inject::Spread;
use quaver_sim::paper::{Arm, OVERHEAD_WITH_BOTH_PERCENT, PaperSummary, ProgramSummary, UNIFIED_PERCENT};
use quaver_sync_analysis::bench::paper::Suite;
use quaver_view::{Cell, Section, Table, text};

/// Mean power overhead of the paper, percent: Splash-2 and Parsec, unified and OS cache (6.3).
const POWER_PERCENT: [[f64; 2]; 2] = [[14.0, 13.6], [16.3, 16.5]];
/// The grid of figure 10.
const GRID: [(Arm, &str); 4] = [
    (Arm::Unified, "unified"),
    (Arm::OsCache, "OS cache"),
    (Arm::UnifiedDvfs, "unified, DVFS"),
    (Arm::OsCacheDvfs, "OS cache, DVFS"),
];
/// Figure 18.
const REACTIVITY: [(Arm, &str); 4] = [
    (Arm::Unified, "no DVFS"),
    (Arm::UnifiedDvfs, "k = 1"),
    (Arm::UnifiedDvfs2, "k = 2"),
    (Arm::UnifiedDvfs4, "k = 4"),
];
/// Ways in which debt passes where threads meet.
const MEETINGS: [(Arm, &str); 4] = [
    (Arm::Unified, "no DVFS"),
    (Arm::UnifiedDvfsJoin, "at joins alone"),
    (Arm::UnifiedDvfs, "largest debt"),
    (Arm::UnifiedDvfsSlack, "by slack"),
];
/// Highest frequency of table 3 over rest.
const HIGHEST: f64 = 1.2;
/// Figure 19.
const ALTERNATIVES: [(Arm, &str); 4] = [
    (Arm::Unified, "unified"),
    (Arm::OsCache, "OS cache"),
    (Arm::Prefetch, "prefetch"),
    (Arm::Pinned, "pinning"),
];
/// Power with DVFS.
const POWER: [(Arm, &str); 2] = [(Arm::UnifiedDvfs, "unified"), (Arm::OsCacheDvfs, "OS cache")];

pub(super) fn exhibits(summary: &PaperSummary) -> Vec<Exhibit> {
    let reactivity = Section::new("reactivity", "Reactivity 1, 2 and 4 (figure 18)").link("Reactivity").note(
        "Slow-down with the unified cache and the heuristic of evicted lines, percent. The paper: 1 is best, then 2; except \
         water-spatial, where 2 is better by 0.4 points.",
    );
    let alternatives =
        Section::new("alternatives", "Prefetching and selective pinning (figure 19)").link("Alternatives").note(
            "Slow-down without DVFS, percent. The paper: pinning is worse than the unified cache in all 17 programs, by over 10 points in \
             water-spatial; prefetching differs little.",
        );
    vec![
        grid(summary),
        meetings(summary),
        frequencies(summary),
        power(summary),
        os_cache(summary),
        (&["figure 18"], compared(reactivity, summary, &REACTIVITY)),
        (&["figure 19"], compared(alternatives, summary, &ALTERNATIVES)),
        refills(summary),
    ]
}

fn slow_down(one: &ProgramSummary, arm: Arm) -> Option<Spread> {
    one.arm(arm)?.slow_down_percent
}

fn slow_downs(one: &ProgramSummary, arms: &[(Arm, &'static str)]) -> Vec<Cell> {
    let cells = arms.iter().map(|(arm, _)| spread(slow_down(one, *arm)));
    [called(one)].into_iter().chain(cells).collect()
}

fn heads(arms: &[(Arm, &'static str)], first: &'static str) -> Vec<&'static str> {
    [first].into_iter().chain(arms.iter().map(|(_, name)| *name)).collect()
}

fn means(summary: &PaperSummary, suite: Suite, arms: &[(Arm, &'static str)]) -> Option<Vec<Cell>> {
    summary.of(suite).next()?;
    let cells = arms.iter().map(|(arm, _)| number(summary.mean(suite, *arm)));
    Some([mean_name(summary, suite)].into_iter().chain(cells).collect())
}

fn mean_name(summary: &PaperSummary, suite: Suite) -> Cell {
    text!("mean of {}", summary.coverage(suite)).into()
}

/// A drawing and a table of slow-downs.
fn compared(mut section: Section, summary: &PaperSummary, arms: &[(Arm, &'static str)]) -> Section {
    let mut table = Table::new(heads(arms, "program"));
    let rows = summary.programs.iter().map(|one| slow_downs(one, arms));
    rows.chain(Suite::ALL.into_iter().filter_map(|suite| means(summary, suite, arms))).for_each(|row| {
        table.row(row);
    });
    if let Some(chart) = charts::arms(&section.id, "Slow-down", summary, arms, slow_down) {
        section.push(chart);
    }
    section.with(table)
}

fn grid(summary: &PaperSummary) -> Exhibit {
    let mut columns = heads(&GRID, "program");
    columns.extend(["paper, unified", "difference, %"]);
    let mut table = Table::new(columns);
    for one in &summary.programs {
        let mut cells = slow_downs(one, &GRID);
        let paper = one.of_paper().map(|paper| paper.slowdown_percent);
        cells.extend([number(paper), difference(one.slow_down(Arm::Unified), paper)]);
        table.row(cells);
    }
    let mut papers = Table::new(heads(&GRID, "suite")).title("What the paper says of the four");
    for suite in Suite::ALL {
        let Some(mut ours) = means(summary, suite, &GRID) else { continue };
        let place = suite as usize;
        let paper = Some(UNIFIED_PERCENT[place]);
        let compared = paper.filter(|_| summary.covers(suite));
        ours.extend([number(compared), difference(summary.mean(suite, Arm::Unified), compared)]);
        table.row(ours);
        let with_dvfs = ["<= 2.5 % for 5 of 8, 10 % to 20 % for three", "1 %, and <= 2.5 % for each"][place];
        let also = if suite == Suite::Parsec { " (section 7: 0 %)" } else { "" };
        papers.row([
            suite.name().into(),
            percent(paper),
            "less than unified; cures ferret and ocean".into(),
            with_dvfs.into(),
            text!("{}{also}", percent(Some(OVERHEAD_WITH_BOTH_PERCENT[place]))).into(),
        ]);
    }
    let mut section = Section::new("grid", "Slow-down by jitter, with and without cure (figure 10)")
        .link("Slow-down")
        .note(
            "Extra time of the same instructions over the run without jitter on the unified cache, percent: mean over seeds, min to \
             max. The paper's column is table 6 or 7, one run each; its mean is of ten.",
        );
    if let Some(chart) = charts::arms("grid", "Slow-down", summary, &GRID, slow_down) {
        section.push(chart);
    }
    (&["figure 10"], section.with(table).with(papers))
}

/// Who owes what after threads have met, and what that makes of the slow-down.
fn meetings(summary: &PaperSummary) -> Exhibit {
    let mut table = Table::new(heads(&MEETINGS, "program").into_iter().chain([
        "bound",
        "beyond slack",
        "before the ideal run",
    ]));
    for one in &summary.programs {
        let mut cells = slow_downs(one, &MEETINGS);
        let bound = one.slow_down(Arm::Unified).map(|percent| (100.0 + percent) / HIGHEST - 100.0);
        let ahead = slow_down(one, Arm::UnifiedDvfs).map(|spread| (-spread.min).max(0.0));
        cells.extend([
            number(bound),
            percent(one.arm(Arm::UnifiedDvfs).map(|arm| arm.beyond_slack_percent)),
            percent(ahead),
        ]);
        table.row(cells);
    }
    for mean in Suite::ALL.into_iter().filter_map(|suite| means(summary, suite, &MEETINGS)) {
        table.row(mean);
    }
    let mut section = Section::new("meetings", "Debt where threads meet (figure 5)").link("Debt").note(
        "Slow-down with the unified cache, k = 1, percent. Debt passes at joins alone, as the largest of all that meet, or only as \
         far as a wait was not slack. The bound is (1 + J) / 1.2 - 1. \u{201c}Beyond slack\u{201d} is what barriers made a thread owe \
         beyond the rule of slack with the largest debt, as a share of the run: so much may be given back too much. The last column \
         is how long before the ideal run the best seed ended.",
    );
    if let Some(chart) = charts::arms("meetings", "Slow-down", summary, &MEETINGS, slow_down) {
        section.push(chart);
    }
    (&["figure 5"], section.with(table).with(paths(summary)))
}

/// What the critical path is made of: a cure can only take from it what it shortens there.
fn paths(summary: &PaperSummary) -> Table {
    let mut table = Table::new(["program", "", "work", "late on it", "in flight", "whole"])
        .title("Critical path, mean: work of threads, kernel activity that held them up, wake-ups in flight");
    for one in &summary.programs {
        for (arm, name) in [(Arm::Ideal, "no jitter")].into_iter().chain(MEETINGS) {
            let Some(path) = one.arm(arm).and_then(|arm| arm.path_us) else { continue };
            let cells = path.into_iter().chain([path.iter().sum()]).map(|us| microseconds(Some(us)));
            table.row([called(one), name.into()].into_iter().chain(cells));
        }
    }
    table
}

fn frequencies(summary: &PaperSummary) -> Exhibit {
    let ratio = |value: f64, digits| Cell::Number { value, digits };
    let range = |one: &ProgramSummary| {
        let factors = || one.drawn.iter().map(|subframe| subframe.factor);
        let range = factors().reduce(f64::min).zip(factors().reduce(f64::max));
        range.map(|(least, most)| Cell::interval(ratio(least, 2), ratio(most, 2)))
    };
    let table = Table::of(
        summary.programs.iter().filter_map(|one| Some((one, one.arm(Arm::UnifiedDvfs)?))),
        &[
            ("program", &|(one, _)| called(one)),
            ("subframes", &|(one, _)| Cell::Count(one.drawn.len() as u64)),
            ("range", &|(one, _)| range(one).into()),
            ("mean over cores", &|(_, arm)| ratio(arm.mean_factor, 3)),
            ("changes per run", &|(_, arm)| number(Some(arm.changes))),
        ],
    );
    let section = Section::new("frequencies", "Frequency of 30 subframes (figures 11 and 12)")
        .link("Frequency")
        .note(
            "Thread with the largest loss, first seed, unified cache, k = 1, f/f0. The paper shows water-spatial (1.2 under heavy \
             jitter, 0.95 after over-correction) and facesim.",
        )
        .with(charts::frequencies(summary))
        .with(table);
    (&["figure 11", "figure 12"], section)
}

fn overhead(one: &ProgramSummary, arm: Arm) -> Option<Spread> {
    one.arm(arm)?.power_percent.first().copied()
}

fn power(summary: &PaperSummary) -> Exhibit {
    let mut table = Table::new(heads(&POWER, "program"));
    for one in &summary.programs {
        let cells = POWER.iter().map(|(arm, _)| spread(overhead(one, *arm)));
        table.row([called(one)].into_iter().chain(cells));
    }
    let mean = |suite: Suite, arm: Arm, model: usize| -> Option<f64> {
        let of = |one: &ProgramSummary| Some(one.arm(arm)?.power_percent.get(model)?.mean);
        let all: Vec<f64> = summary.of(suite).filter_map(of).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let mut others =
        Table::new(["suite", "dynamic share", "idle activity", "leakage", "unified", "OS cache"])
            .title("The same means under other assumptions; our assumption first");
    for suite in Suite::ALL.into_iter().filter(|suite| summary.of(*suite).next().is_some()) {
        let printed = POWER_PERCENT[suite as usize];
        let ours = POWER.iter().zip(printed).map(|((arm, _), paper)| {
            let ours = mean(suite, *arm, 0);
            match summary.covers(suite).then_some(paper) {
                None => number(ours),
                paper => {
                    text!("{} (paper: {}, {} %)", number(ours), number(paper), difference(ours, paper)).into()
                }
            }
        });
        table.row([mean_name(summary, suite)].into_iter().chain(ours));
        for (number_of, model) in MODELS.iter().enumerate() {
            others.row([
                suite.name().into(),
                Cell::Share(model.dynamic_share),
                Cell::Number { value: model.idle_activity, digits: 1 },
                text!("V^{}", model.leakage_exponent).into(),
                number(mean(suite, Arm::UnifiedDvfs, number_of)),
                number(mean(suite, Arm::OsCacheDvfs, number_of)),
            ]);
        }
    }
    let mut section = Section::new("power", "Power (figure 13)").link("Power").note(
        "Additional power of the cores with DVFS over those without, same cache and seed, percent: P = αCV²f + leakage(V). The paper: \
         1 % to 41 %; 72.8 % is the overhead of the highest point at all times if all power is dynamic.",
    );
    if let Some(chart) = charts::arms("power", "Additional power", summary, &POWER, overhead) {
        section.push(chart);
    }
    (&["figure 13"], section.with(table).with(others))
}

fn refills(summary: &PaperSummary) -> Exhibit {
    let unified = |one: &ProgramSummary| {
        one.arm(Arm::Unified).map(|arm| arm.refills).filter(|refills| refills.kernel.events > 0)
    };
    let removed = |(one, unified): &(&ProgramSummary, Refills), arm: Arm| -> Cell {
        one.arm(arm).and_then(|arm| unified.removed_in(&arm.refills)).map(Cell::Share).into()
    };
    let at_most = |(_, unified): &(&ProgramSummary, Refills), which: usize| -> Cell {
        unified.removable().map(|shares| Cell::Share(shares[which])).into()
    };
    let table = Table::of(
        summary.programs.iter().filter_map(|one| Some((one, unified(one)?))),
        &[
            ("program", &|(one, _)| called(one)),
            ("events", &|(_, unified)| Cell::Count(unified.kernel.events)),
            ("cost of one", &|(_, unified)| {
                unified.per_event_fs().map(|fs| Cell::Duration((fs / 1e6) as i64)).into()
            }),
            ("own cache, at most", &|both| at_most(both, 0)),
            ("prefetch, at most", &|both| at_most(both, 1)),
            ("OS cache", &|both| removed(both, Arm::OsCache)),
            ("prefetch", &|both| removed(both, Arm::Prefetch)),
            ("pinning", &|both| removed(both, Arm::Pinned)),
        ],
    );
    let section = Section::new("refills", "What caches could remove, and what they did").link("Refills")
        .note(
            "An injected event costs its time in the kernel, and the threads' stalls for lines beyond the run without jitter. A cache of \
             the core's own (OS cache, pinning) removes at most the stalls for lines that no other core has; prefetching also the others. \
             The last columns are the part that went, over the unified cache; negative where an event costs more.",
        )
        .with(table);
    (&["figure 14", "figure 19"], section)
}

fn os_cache(summary: &PaperSummary) -> Exhibit {
    let lines = |one: &ProgramSummary, arm: Arm| {
        Cell::from(one.arm(arm).map(|arm| Cell::Count(arm.kernel_lines.round() as u64)))
    };
    let over = |one: &ProgramSummary, arm: Arm| {
        let (arm, plain) = (one.arm(arm)?.duration_us, one.arm(Arm::Plain)?.duration_us);
        (plain > 0.0).then(|| Cell::Share(arm / plain - 1.0))
    };
    let against = |one: &ProgramSummary| {
        let points = one.slow_down(Arm::OsCache)? - one.slow_down(Arm::Unified)?;
        Some(Cell::difference(Cell::Share(points / 100.0)))
    };
    let own = |one: &ProgramSummary| one.arm(Arm::OsCache).and_then(|arm| arm.own_slow_down_percent);
    let table = Table::of(
        &summary.programs,
        &[
            ("program", &|one| called(one)),
            ("no sharing", &|one| over(one, Arm::IdealOsCacheAlone).into()),
            ("sharing", &|one| over(one, Arm::IdealOsCache).into()),
            ("kernel lines", &|one| lines(one, Arm::Unified)),
            ("with OS cache", &|one| lines(one, Arm::OsCache)),
            ("over unified", &|one| against(one).into()),
            ("slow-down, %", &|one| spread(own(one))),
        ],
    );
    let section = Section::new("os-cache", "The OS cache (figure 14)")
        .link("OS cache")
        .note(
            "The paper's figure is a drawing. Without jitter the OS cache changes the run time over the unified cache by the first \
             two columns: by nothing unless lines are shared. The next are lines that kernel activity brought in, with the \
             unified cache and with the OS cache. The last are the slow-down over the unified cache's, and over the \
             OS cache without jitter.",
        )
        .with(table);
    (&["figure 14"], section)
}
