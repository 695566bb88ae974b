//! What jitter costs, and what is left of it: figures 10 to 14, 18 and 19.

use super::disturbed::called;
use super::{Rows, Section, distance, number, spread};
use quaver_dvfs::power::MODELS;
use quaver_page::units::count;
use quaver_sim::paper::{Arm, OVERHEAD_WITH_BOTH_PERCENT, PaperSummary, ProgramSummary, UNIFIED_PERCENT};
use quaver_sync_analysis::bench::paper::Suite;

/// Mean power overhead of the paper, percent: Splash-2 and Parsec, unified and OS cache (6.3).
const POWER_PERCENT: [[f64; 2]; 2] = [[14.0, 13.6], [16.3, 16.5]];
/// The grid of figure 10.
pub(crate) const GRID: [(Arm, &str); 4] = [
    (Arm::Unified, "unified"),
    (Arm::OsCache, "OS cache"),
    (Arm::UnifiedDvfs, "unified, DVFS"),
    (Arm::OsCacheDvfs, "OS cache, DVFS"),
];
/// Figure 18.
pub(crate) const REACTIVITY: [(Arm, &str); 4] = [
    (Arm::Unified, "no DVFS"),
    (Arm::UnifiedDvfs, "k = 1"),
    (Arm::UnifiedDvfs2, "k = 2"),
    (Arm::UnifiedDvfs4, "k = 4"),
];
/// Figure 19.
pub(crate) const ALTERNATIVES: [(Arm, &str); 4] = [
    (Arm::Unified, "unified"),
    (Arm::OsCache, "OS cache"),
    (Arm::Prefetch, "prefetch"),
    (Arm::Pinned, "pinning"),
];
/// Power with DVFS.
pub(crate) const POWER: [(Arm, &str); 2] = [(Arm::UnifiedDvfs, "unified"), (Arm::OsCacheDvfs, "OS cache")];

pub(super) fn sections(summary: &PaperSummary) -> Vec<Section> {
    vec![
        grid(summary),
        frequencies(summary),
        power(summary),
        os_cache(summary),
        reactivity(summary),
        alternatives(summary),
    ]
}

fn slow_downs(one: &ProgramSummary, arms: &[(Arm, &'static str)]) -> Vec<String> {
    let cells = arms.iter().map(|(arm, _)| spread(one.arm(*arm).and_then(|arm| arm.slow_down_percent)));
    [called(one)].into_iter().chain(cells).collect()
}

fn heads(arms: &[(Arm, &'static str)], first: &'static str) -> Vec<&'static str> {
    [first].into_iter().chain(arms.iter().map(|(_, name)| *name)).collect()
}

fn means(summary: &PaperSummary, suite: Suite, arms: &[(Arm, &'static str)]) -> Option<Vec<String>> {
    summary.of(suite).next()?;
    let cells = arms.iter().map(|(arm, _)| number(summary.mean(suite, *arm)));
    Some([format!("mean of {}", suite.name())].into_iter().chain(cells).collect())
}

fn grid(summary: &PaperSummary) -> Section {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in &summary.programs {
        let mut cells = slow_downs(one, &GRID);
        let paper = one.of_paper().map(|paper| paper.slowdown_percent);
        cells.push(number(paper));
        cells.push(distance(one.slow_down(Arm::Unified), paper));
        rows.push(cells);
    }
    let mut compared = Vec::new();
    for suite in Suite::ALL {
        let Some(mut ours) = means(summary, suite, &GRID) else { continue };
        let number_of = suite as usize;
        ours.push(number(Some(UNIFIED_PERCENT[number_of])));
        ours.push(distance(summary.mean(suite, Arm::Unified), Some(UNIFIED_PERCENT[number_of])));
        rows.push(ours);
        let with_dvfs = ["<= 2.5 for 5 of 8, 10 to 20 for three", "1, and <= 2.5 for each"][number_of];
        let both = OVERHEAD_WITH_BOTH_PERCENT[number_of];
        compared.push(vec![
            suite.name().to_owned(),
            number(Some(UNIFIED_PERCENT[number_of])),
            "less than unified; cures ferret and ocean".to_owned(),
            with_dvfs.to_owned(),
            format!("{both:+.1}{}", if suite == Suite::Parsec { " (section 7: 0)" } else { "" }),
        ]);
    }
    let mut columns = heads(&GRID, "program");
    columns.extend(["paper, unified", "distance"]);
    Section {
        id: "grid",
        shows: &["figure 10"],
        title: "Slow-down by jitter, and what is left of it (figure 10)",
        lead: "How much longer the same instructions take than without jitter on the unified cache, percent: mean over the seeds, \
               and from the least to the largest. The paper's column is table 6 or 7, one run each; its mean is of ten."
            .to_owned(),
        tables: vec![
            Rows { title: String::new(), columns, rows },
            Rows {
                title: "What the paper says of the four".to_owned(),
                columns: heads(&GRID, "suite"),
                rows: compared,
            },
        ],
    }
}

fn frequencies(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let arm = one.arm(Arm::UnifiedDvfs)?;
        let least = one.drawn.iter().map(|subframe| subframe.factor).fold(f64::INFINITY, f64::min);
        let most = one.drawn.iter().map(|subframe| subframe.factor).fold(0.0, f64::max);
        let range = if one.drawn.is_empty() { "-".to_owned() } else { format!("{least:.2} to {most:.2}") };
        Some(vec![
            called(one),
            one.drawn.len().to_string(),
            range,
            format!("{:.3}", arm.mean_factor),
            number(Some(arm.changes)),
        ])
    };
    Section {
        id: "frequencies",
        shows: &["figure 11", "figure 12"],
        title: "Frequency of 30 subframes (figures 11 and 12)",
        lead: "Of the thread that lost most, first seed, unified cache, k = 1, over rest. The paper shows water-spatial, at 1.2 \
               while there is much jitter and at 0.95 after giving back too much, and facesim."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["program", "subframes", "from, to", "mean of all cores", "changes in a run"],
            rows: summary.programs.iter().filter_map(row).collect(),
        }],
    }
}

fn power(summary: &PaperSummary) -> Section {
    let of = |one: &ProgramSummary, arm: Arm, model: usize| one.arm(arm)?.power_percent.get(model).copied();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in &summary.programs {
        let cells = POWER.iter().map(|(arm, _)| spread(of(one, *arm, 0)));
        rows.push([called(one)].into_iter().chain(cells).collect());
    }
    let mean = |suite: Suite, arm: Arm, model: usize| -> Option<f64> {
        let all: Vec<f64> = summary.of(suite).filter_map(|one| Some(of(one, arm, model)?.mean)).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let mut sensitivity = Vec::new();
    for suite in Suite::ALL.into_iter().filter(|suite| summary.of(*suite).next().is_some()) {
        let printed = POWER_PERCENT[suite as usize];
        let ours = POWER.iter().zip(printed).map(|((arm, _), paper)| {
            let ours = mean(suite, *arm, 0);
            format!("{} (paper {paper}, {})", number(ours), distance(ours, Some(paper)))
        });
        rows.push([format!("mean of {}", suite.name())].into_iter().chain(ours).collect());
        for (number_of, model) in MODELS.iter().enumerate() {
            sensitivity.push(vec![
                suite.name().to_owned(),
                format!("{:.0} %", model.dynamic_share * 100.0),
                format!("{}", model.idle_activity),
                format!("V^{}", model.leakage_exponent),
                number(mean(suite, Arm::UnifiedDvfs, number_of)),
                number(mean(suite, Arm::OsCacheDvfs, number_of)),
            ]);
        }
    }
    Section {
        id: "power",
        shows: &["figure 13"],
        title: "Power (figure 13)",
        lead: "How much more power the cores take with DVFS than without, same cache and seed, percent: P = αCV²f + leakage(V). The \
               paper: 1 to 41 %; 72.8 % is what the highest point takes all the time if all power switches."
            .to_owned(),
        tables: vec![
            Rows { title: String::new(), columns: heads(&POWER, "program"), rows },
            Rows {
                title: "The same means under other assumptions; the first line of each suite is ours".to_owned(),
                columns: vec!["suite", "switching", "idle core", "leakage", "unified %", "OS cache %"],
                rows: sensitivity,
            },
        ],
    }
}

fn os_cache(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let lines = |arm: Arm| {
            one.arm(arm).map_or_else(|| "-".to_owned(), |arm| count(arm.kernel_lines.round() as u64))
        };
        let over = |arm: Arm| {
            let (arm, plain) = (one.arm(arm)?.duration_us, one.arm(Arm::Plain)?.duration_us);
            (plain > 0.0).then(|| (arm / plain - 1.0) * 100.0)
        };
        let against =
            one.slow_down(Arm::OsCache).zip(one.slow_down(Arm::Unified)).map(|(os, unified)| os - unified);
        let own = one.arm(Arm::OsCache).and_then(|arm| arm.own_slow_down_percent);
        vec![
            called(one),
            over(Arm::IdealOsCacheAlone).map_or_else(|| "-".to_owned(), |over| format!("{over:+.3}")),
            over(Arm::IdealOsCache).map_or_else(|| "-".to_owned(), |over| format!("{over:+.3}")),
            lines(Arm::Unified),
            lines(Arm::OsCache),
            against.map_or_else(|| "-".to_owned(), |against| format!("{against:+.2}")),
            spread(own),
        ]
    };
    Section {
        id: "os-cache",
        shows: &["figure 14"],
        title: "The OS cache (figure 14)",
        lead: "The paper's figure is a drawing. Without jitter the OS cache must change nothing unless lines are shared; with it, \
               the kernel should bring in fewer lines, and the program lose fewer."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec![
                "program",
                "no jitter, no sharing %",
                "no jitter, sharing %",
                "kernel lines, unified",
                "kernel lines, OS cache",
                "slow-down against unified, points",
                "slow-down by itself %",
            ],
            rows: summary.programs.iter().map(row).collect(),
        }],
    }
}

fn compared(
    summary: &PaperSummary,
    arms: &[(Arm, &'static str)],
    shape: (&'static str, &'static [&'static str], &'static str),
    lead: &str,
) -> Section {
    let mut rows: Vec<Vec<String>> = summary.programs.iter().map(|one| slow_downs(one, arms)).collect();
    rows.extend(Suite::ALL.into_iter().filter_map(|suite| means(summary, suite, arms)));
    Section {
        id: shape.0,
        shows: shape.1,
        title: shape.2,
        lead: lead.to_owned(),
        tables: vec![Rows { title: String::new(), columns: heads(arms, "program"), rows }],
    }
}

fn reactivity(summary: &PaperSummary) -> Section {
    compared(
        summary,
        &REACTIVITY,
        ("reactivity", &["figure 18"], "Reactivity 1, 2 and 4 (figure 18)"),
        "Slow-down with the unified cache and the heuristic of evicted lines, percent. The paper: 1 is best, then 2; but for \
         water-spatial, where 2 is better by 0.4 points.",
    )
}

fn alternatives(summary: &PaperSummary) -> Section {
    compared(
        summary,
        &ALTERNATIVES,
        ("alternatives", &["figure 19"], "Prefetching and selective pinning (figure 19)"),
        "Slow-down without DVFS, percent. The paper: pinning is worse than the unified cache in all 17 programs, by over 10 \
         points in water-spatial; prefetching differs little.",
    )
}
