//! What jitter there is: tables 4 to 8, figures 4 to 9 and 15 to 17.

use super::{Rows, Section, distance, number};
use quaver_page::units::{count, percent};
use quaver_sim::paper::{
    PaperSummary, ProgramSummary, SHARES_PERCENT, Shown, mean_slowdown_percent, product_error,
    sync_share_percent, table_8,
};
use quaver_sync_analysis::bench::paper::{CORRELATIONS, PROGRAMS, PaperProgram, Suite};
use quaver_sync_analysis::bench::{BenchSummary, ProgramFigures, pearson};
use quaver_sync_analysis::sync::SyncClass;

pub(super) fn sections(summary: &PaperSummary, bench: Option<&BenchSummary>) -> Vec<Section> {
    vec![
        shares(summary, bench),
        statistics(summary, bench, Suite::Splash2),
        statistics(summary, bench, Suite::Parsec),
        correlations(summary, bench),
        distributions(summary),
        classes(summary),
        units(summary),
        subframes(summary),
    ]
}

fn rows_of(suite: Suite) -> impl Iterator<Item = &'static PaperProgram> {
    PROGRAMS.iter().filter(move |row| row.suite == suite)
}

fn measured<'a>(bench: Option<&'a BenchSummary>, name: &str) -> Option<&'a ProgramFigures> {
    bench?.programs.iter().find(|one| one.program == name)
}

/// What a program is called in a table.
pub(super) fn called(program: &ProgramSummary) -> String {
    if program.held_out { format!("{} (held out)", program.program) } else { program.program.clone() }
}

fn shares(summary: &PaperSummary, bench: Option<&BenchSummary>) -> Section {
    let row = |paper: &PaperProgram| {
        let simulated =
            summary.program(paper.program).and_then(|one| one.sync_share).map(|share| share * 100.0);
        let here = measured(bench, paper.program).and_then(|one| one.sync_share).map(|share| share * 100.0);
        vec![
            paper.program.to_owned(),
            number(Some(paper.sync_share_percent)),
            number(simulated),
            distance(simulated, Some(paper.sync_share_percent)),
            number(here),
        ]
    };
    let tables = Suite::ALL.into_iter().zip(["table 4", "table 5"]).filter(|(_, name)| summary.wants(name));
    let tables = tables.map(|(suite, name)| {
        let mut rows: Vec<Vec<String>> = rows_of(suite).map(row).collect();
        let printed = SHARES_PERCENT[suite as usize];
        let mean = format!("mean{}", if suite == Suite::Splash2 { " without lu and radix" } else { "" });
        rows.push(vec![
            format!("{mean}; the paper prints {printed}"),
            number(Some(sync_share_percent(suite))),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
        ]);
        Rows {
            title: format!("{name}, {}", suite.name()),
            columns: vec!["program", "paper %", "simulated %", "distance", "this machine %"],
            rows,
        }
    });
    Section {
        id: "shares",
        shows: &["table 4", "table 5"],
        title: "Sync jitter over all jitter (tables 4 and 5)",
        lead: "The paper measured it; in a simulation the rest is what was injected besides: timer interrupts every 10 ms on two \
               cores. `quaver sync bench` measures it on this machine (--sync)."
            .to_owned(),
        tables: tables.collect(),
    }
}

/// Tables 6 and 7: the paper's, ours, the distance, and this machine's.
fn statistics(summary: &PaperSummary, bench: Option<&BenchSummary>, suite: Suite) -> Section {
    let splash = suite == Suite::Splash2;
    let mut rows = Vec::new();
    for paper in rows_of(suite) {
        let ours = summary.program(paper.program);
        let name = ours.map_or_else(|| paper.program.to_owned(), called);
        let row = ours.and_then(|one| one.row);
        let late = ours.and_then(|one| one.late_us_per_ms);
        let of = |of: fn(&Shown) -> f64| row.as_ref().map(of);
        let columns = [
            (paper.events_per_ms, of(|row| row.events_per_ms)),
            (paper.mean_us, of(|row| row.mean_us)),
            (paper.late_us_per_ms, late),
            (paper.slowdown_percent, of(|row| row.slow_down_percent)),
        ];
        let mut line = |whose: &str, cells: [String; 4]| {
            rows.push([vec![name.clone(), whose.to_owned()], cells.to_vec()].concat());
        };
        line("paper", columns.map(|(paper, _)| number(Some(paper))));
        if row.is_some() {
            line("simulated", columns.map(|(_, ours)| number(ours)));
            line("distance", columns.map(|(paper, ours)| distance(ours, Some(paper))));
        }
        if let Some(here) = measured(bench, paper.program).and_then(|one| one.row) {
            let cells =
                [Some(here.events_per_ms), here.mean_us, Some(here.late_us_per_ms), here.slowdown_percent];
            line("this machine", cells.map(number));
        }
    }
    let worst = rows_of(suite).map(|row| product_error(row).abs()).fold(0.0, f64::max);
    Section {
        id: if splash { "table-6" } else { "table-7" },
        shows: if splash { &["table 6"] } else { &["table 7"] },
        title: if splash {
            "Jitter of each program, Splash-2 (table 6)"
        } else {
            "Jitter of each program, Parsec (table 7)"
        },
        lead: format!(
            "Unified cache, no DVFS, mean over the seeds. Column 3 is the product of 1 and 2; the paper's is off by {} at most. \
             The mean of its column 4 is {:.1} % (one run each), and the paper says {} % of ten runs.",
            percent(worst),
            mean_slowdown_percent(suite),
            quaver_sim::paper::UNIFIED_PERCENT[suite as usize]
        ),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["program", "figure", "events/ms", "mean us", "us/ms", "slow-down %"],
            rows,
        }],
    }
}

fn correlations(summary: &PaperSummary, bench: Option<&BenchSummary>) -> Section {
    let mut rows = Vec::new();
    for (place, suite) in Suite::ALL.into_iter().enumerate() {
        let mut line = |whose: &str, values: [Option<f64>; 3]| {
            let cells =
                values.map(|value| value.map_or_else(|| "-".to_owned(), |value| format!("{value:+.2}")));
            rows.push([vec![suite.name().to_owned(), whose.to_owned()], cells.to_vec()].concat());
        };
        line("paper", CORRELATIONS[place].map(Some));
        line("from the paper's own table", table_8()[place]);
        line("simulated", simulated(summary, suite));
        if let Some(bench) = bench {
            line("this machine", bench.correlations[place]);
        }
    }
    Section {
        id: "table-8",
        shows: &["table 8"],
        title: "Correlation of the slow-down with columns 1 to 3 (table 8)",
        lead: "Pearson's coefficient; Splash-2 without lu and radix, as in the paper.".to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["suite", "figure", "events/ms", "mean us", "us/ms"],
            rows,
        }],
    }
}

fn simulated(summary: &PaperSummary, suite: Suite) -> [Option<f64>; 3] {
    let counts = |one: &&ProgramSummary| !one.of_paper().is_some_and(|paper| paper.left_out);
    let columns: [fn(&ProgramSummary) -> Option<f64>; 3] =
        [|one| Some(one.row?.events_per_ms), |one| Some(one.row?.mean_us), |one| one.late_us_per_ms];
    columns.map(|column| {
        let pairs: Vec<(f64, f64)> = summary
            .of(suite)
            .filter(counts)
            .filter_map(|one| Some((column(one)?, one.row?.slow_down_percent)))
            .collect();
        pearson(&pairs)
    })
}

fn distributions(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let all: u64 = one.distribution.iter().map(|bin| bin.count).sum();
        let over = |ns: f64| -> u64 {
            one.distribution.iter().filter(|bin| bin.from_ns >= ns * 0.999).map(|bin| bin.count).sum()
        };
        let part = |ns: f64| if all > 0 { percent(over(ns) as f64 / all as f64) } else { "-".to_owned() };
        let largest = one.distribution.iter().map(|bin| bin.to_ns).fold(0.0, f64::max);
        let mean = one.row.map(|row| row.mean_us);
        vec![called(one), count(all), number(mean), part(199_526.0), number(Some(largest / 1e3))]
    };
    Section {
        id: "sizes",
        shows: &["figure 7", "figure 8"],
        title: "Late operations by size (figures 7 and 8)",
        lead: "The paper: heavy-tailed, close to log-normal, about 100 us on average, fewer after 200 us, a couple of \
               milliseconds at most. Ours are drawn log-normal, so the shape is no finding; what units and caches make of it is."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["program", "late", "mean us", "beyond 200 us", "largest us, at most"],
            rows: summary.programs.iter().map(row).collect(),
        }],
    }
}

fn classes(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let shares = one.class_shares.unwrap_or([f64::NAN; 6]);
        let mut cells = vec![called(one)];
        cells.extend(SyncClass::ALL.map(|class| number(Some(shares[class as usize] * 100.0))));
        cells
    };
    let mut rows: Vec<Vec<String>> = summary.programs.iter().map(row).collect();
    let paper = ["the paper's range", "vips 91.5", "10 to 15", "12.5 to 91.2", "2 to 5", "2.5 to 81.9", "-"];
    rows.push(paper.map(str::to_owned).to_vec());
    Section {
        id: "classes",
        shows: &["figure 6", "figure 9"],
        title: "Jitter by class (figures 6 and 9)",
        lead: "Part of each program's jitter, percent. sw signal-wait, s signal, bw broadcast-wait, b broadcast, lu lock-unlock, \
               u unlock."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["program", "sw", "s", "bw", "b", "lu", "u"],
            rows,
        }],
    }
}

fn units(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let units = one.units?;
        Some(vec![
            called(one),
            count(units.transactions),
            percent(units.busy_share),
            format!("{:.2}", units.messages_in_10_us),
            format!("{} and {}", units.most_entries[0], units.most_entries[1]),
            count(units.overflows),
            count(units.slots_differ),
        ])
    };
    let mut rows: Vec<Vec<String>> = summary.programs.iter().filter_map(row).collect();
    let paper = ["paper", "-", "negligible", "1 to 5", "8 and 8 (room)", "0", "-"];
    rows.push(paper.map(str::to_owned).to_vec());
    Section {
        id: "units",
        shows: &["figure 4", "figure 15", "figure 16", "figure 17"],
        title: "The jitter units at work (figures 4 and 15 to 17)",
        lead: "The paper's figures are drawings of the unit and of its two flow charts; ours is built as they say. First seed, \
               unified cache. The last column counts operations that ended elsewhere than the offline protocol's books say."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec![
                "program",
                "transactions",
                "a unit is busy",
                "messages in 10 us",
                "most waits and locks in a buffer",
                "dropped",
                "differ",
            ],
            rows,
        }],
    }
}

fn subframes(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        vec![
            called(one),
            one.how.threads.to_string(),
            count(one.subframes.0),
            count(one.subframes.1),
            number(Some(one.how.warm_up_us)),
            if one.how.warm_up_shortened { "a tenth of the run" } else { "90 subframes" }.to_owned(),
        ]
    };
    Section {
        id: "subframes",
        shows: &["figure 5"],
        title: "Subframes (figure 5)",
        lead: "330 us each, of all threads together; forced where a thread creates, joins or ends. The paper warms up for 90 of \
               them, 29.7 ms, which would swallow short runs whole: we take a tenth of the run where that is less."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["program", "threads", "ended in time", "forced", "warm-up us", "that is"],
            rows: summary.programs.iter().map(row).collect(),
        }],
    }
}
