//! What jitter there is: tables 4 to 8, figures 4 to 9 and 15 to 17.

use super::{Exhibit, called, charts, difference, microseconds, number, percent};
use quaver_sim::paper::{
    PaperSummary, ProgramSummary, SHARES_PERCENT, Shown, mean_slowdown_percent, product_error,
    sync_share_percent, table_8,
};
use quaver_sync_analysis::bench::paper::{CORRELATIONS, PROGRAMS, PaperProgram, Suite};
use quaver_sync_analysis::bench::{BenchSummary, ProgramFigures, pearson};
use quaver_sync_analysis::sync::SyncClass;
use quaver_view::{Cell, Section, Table, text};

pub(super) fn exhibits(summary: &PaperSummary, bench: Option<&BenchSummary>) -> Vec<Exhibit> {
    vec![
        shares(summary, bench),
        statistics(summary, bench, Suite::Splash2),
        statistics(summary, bench, Suite::Parsec),
        correlations(summary, bench),
        sizes(summary),
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

fn shares(summary: &PaperSummary, bench: Option<&BenchSummary>) -> Exhibit {
    let mut section = Section::new("shares", "Sync jitter over all jitter (tables 4 and 5)")
        .link("Share of all jitter")
        .note(
            "The paper measured it. In the simulation, other jitter is the injected timer interrupts: every 10 ms on two \
             cores. `quaver sync bench` measures it on this machine (--sync).",
        );
    let columns = ["program", "paper", "simulated", "difference, %", "this machine"];
    for (suite, name) in Suite::ALL.into_iter().zip(["table 4", "table 5"]) {
        if !summary.wants(name) {
            continue;
        }
        let mut table = Table::new(columns).title(format!("{name}, {}", suite.name()));
        for paper in rows_of(suite) {
            let simulated = summary.program(paper.program).and_then(|one| one.sync_share);
            let here = measured(bench, paper.program).and_then(|one| one.sync_share);
            table.row([
                paper.program.into(),
                percent(Some(paper.sync_share_percent)),
                simulated.map(Cell::Share).into(),
                difference(simulated.map(|share| share * 100.0), Some(paper.sync_share_percent)),
                here.map(Cell::Share).into(),
            ]);
        }
        let without = if suite == Suite::Splash2 { " without lu and radix" } else { "" };
        let printed = percent(Some(SHARES_PERCENT[suite as usize]));
        table.row([
            text!("mean{without}; the paper prints {printed}").into(),
            percent(Some(sync_share_percent(suite))),
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
        ]);
        section.push(table);
    }
    (&["table 4", "table 5"], section)
}

/// Tables 6 and 7: the paper's, ours, the difference, and this machine's.
fn statistics(summary: &PaperSummary, bench: Option<&BenchSummary>, suite: Suite) -> Exhibit {
    let mut table =
        Table::new(["program", "figure", "events per ms", "mean", "lateness per ms", "slow-down"]);
    for paper in rows_of(suite) {
        let ours = summary.program(paper.program);
        let name = ours.map_or_else(|| paper.program.into(), called);
        let row = ours.and_then(|one| one.row);
        let late = ours.and_then(|one| one.late_us_per_ms);
        let of = |of: fn(&Shown) -> f64| row.as_ref().map(of);
        let papers = [paper.events_per_ms, paper.mean_us, paper.late_us_per_ms, paper.slowdown_percent];
        let own = [of(|row| row.events_per_ms), of(|row| row.mean_us), late, of(|row| row.slow_down_percent)];
        let cells = |[events, mean, late, slow_down]: [Option<f64>; 4]| {
            [number(events), microseconds(mean), microseconds(late), percent(slow_down)]
        };
        let mut line = |whose: &str, cells: [Cell; 4]| {
            table.row([name.clone(), whose.into()].into_iter().chain(cells));
        };
        line("paper", cells(papers.map(Some)));
        if row.is_some() {
            line("simulated", cells(own));
            line("difference, %", std::array::from_fn(|at| difference(own[at], Some(papers[at]))));
        }
        if let Some(here) = measured(bench, paper.program).and_then(|one| one.row) {
            let own =
                [Some(here.events_per_ms), here.mean_us, Some(here.late_us_per_ms), here.slowdown_percent];
            line("this machine", cells(own));
        }
    }
    let worst = rows_of(suite).map(|row| product_error(row).abs()).fold(0.0, f64::max);
    let note = text!(
        "Unified cache, no DVFS, mean over seeds. Column 3 is the product of columns 1 and 2; the paper's deviates by at \
         most {}. The mean of its column 4 is {} (one run each), and the paper says {} for ten runs.",
        Cell::Share(worst),
        percent(Some(mean_slowdown_percent(suite))),
        percent(Some(quaver_sim::paper::UNIFIED_PERCENT[suite as usize]))
    );
    let (id, name, link): (_, &[&str], _) = match suite {
        Suite::Parsec => ("table-7", &["table 7"], "Table 7"),
        _ => ("table-6", &["table 6"], "Table 6"),
    };
    let title = format!("Jitter of each program, {} ({})", suite.name(), name[0]);
    (name, Section::new(id, title).link(link).note(note).with(table))
}

fn correlations(summary: &PaperSummary, bench: Option<&BenchSummary>) -> Exhibit {
    let mut table = Table::new(["suite", "figure", "events per ms", "mean", "lateness per ms"]);
    for (place, suite) in Suite::ALL.into_iter().enumerate() {
        let mut line = |whose: &str, values: [Option<f64>; 3]| {
            let cells = values.map(|value| {
                Cell::from(value.map(|value| Cell::difference(Cell::Number { value, digits: 2 })))
            });
            table.row([suite.name().into(), whose.into()].into_iter().chain(cells));
        };
        line("paper", CORRELATIONS[place].map(Some));
        line("recomputed from the paper's table", table_8()[place]);
        line("simulated", simulated(summary, suite));
        if let Some(bench) = bench {
            line("this machine", bench.correlations[place]);
        }
    }
    let section = Section::new("table-8", "Correlation of the slow-down with columns 1 to 3 (table 8)")
        .link("Table 8")
        .note("Pearson's coefficient; Splash-2 without lu and radix, as in the paper.")
        .with(table);
    (&["table 8"], section)
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

fn sizes(summary: &PaperSummary) -> Exhibit {
    let mut table = Table::new(["program", "late", "mean", "above 200 µs", "at most"]);
    for one in &summary.programs {
        let count = |from_ns: f64| -> u64 {
            one.distribution.iter().filter(|bin| bin.from_ns >= from_ns).map(|bin| bin.count).sum()
        };
        // The end of the last bin.
        let largest = one.distribution.iter().map(|bin| bin.to_ns).reduce(f64::max);
        table.row([
            called(one),
            Cell::Count(count(0.0)),
            microseconds(one.row.map(|row| row.mean_us)),
            // The edge of the bin that 200 µs lie at, which rounding may miss.
            Cell::part(count(199_526.0 * 0.999), count(0.0)),
            largest.map(Cell::FineDuration).into(),
        ]);
    }
    let section = Section::new("sizes", "Late operations by size (figures 7 and 8)")
        .link("Sizes")
        .note(
            "The paper: heavy-tailed, close to log-normal, about 100 µs on average, fewer after 200 µs, a couple of \
             milliseconds at most. Ours are drawn from a log-normal, so the shape is not a result; its change by units and \
             caches is.",
        )
        .with(charts::sizes(summary))
        .with(table);
    (&["figure 7", "figure 8"], section)
}

fn classes(summary: &PaperSummary) -> Exhibit {
    let short = SyncClass::ALL.map(SyncClass::short);
    let mut table = Table::new(["program"].into_iter().chain(short));
    for one in &summary.programs {
        let shares = one.class_shares.unwrap_or([f64::NAN; 6]);
        let cells = SyncClass::ALL.map(|class| Cell::Share(shares[class as usize]));
        table.row([called(one)].into_iter().chain(cells));
    }
    let paper = [
        "range of the paper",
        "vips 91.5 %",
        "10 % to 15 %",
        "12.5 % to 91.2 %",
        "2 % to 5 %",
        "2.5 % to 81.9 %",
        "-",
    ];
    table.row(paper);
    let section = Section::new("classes", "Jitter by class (figures 6 and 9)")
        .link("Classes")
        .note(
            "Part of each program's jitter. sw signal-wait, s signal, bw broadcast-wait, b broadcast, lu lock-unlock, u \
             unlock.",
        )
        .with(charts::classes(summary))
        .with(table);
    (&["figure 6", "figure 9"], section)
}

fn units(summary: &PaperSummary) -> Exhibit {
    let mut table = Table::of(
        summary.programs.iter().filter_map(|one| Some((one, one.units?))),
        &[
            ("program", &|(one, _)| called(one)),
            ("transactions", &|(_, units)| Cell::Count(units.transactions)),
            ("unit busy", &|(_, units)| Cell::Share(units.busy_share)),
            ("messages per 10 µs", &|(_, units)| Cell::Figure(units.messages_in_10_us)),
            ("max buffer entries, waits and locks", &|(_, units)| {
                text!("{} and {}", units.most_entries[0], units.most_entries[1]).into()
            }),
            ("dropped", &|(_, units)| Cell::Count(units.overflows)),
            ("differ", &|(_, units)| Cell::Count(units.slots_differ)),
        ],
    );
    table.row([
        Cell::from("paper"),
        Cell::Missing,
        "negligible".into(),
        "1 to 5".into(),
        "8 and 8 (room)".into(),
        Cell::Count(0),
        Cell::Missing,
    ]);
    let section = Section::new("units", "The jitter units at work (figures 4 and 15 to 17)")
        .link("Units")
        .note(
            "The paper's figures are drawings of the unit and of its two flow charts; ours follows them. First seed, unified \
             cache. The last column counts operations on which unit and offline protocol disagree.",
        )
        .with(table);
    (&["figure 4", "figure 15", "figure 16", "figure 17"], section)
}

fn subframes(summary: &PaperSummary) -> Exhibit {
    let whole = |one: &ProgramSummary| {
        if one.how.warm_up_shortened { "a tenth of the run" } else { "90 subframes" }
    };
    let table = Table::of(
        &summary.programs,
        &[
            ("program", &|one| called(one)),
            ("threads", &|one| Cell::Count(one.how.threads as u64)),
            ("ended in time", &|one| Cell::Count(one.subframes.0)),
            ("ended early", &|one| Cell::Count(one.subframes.1)),
            ("warm-up", &|one| microseconds(Some(one.how.warm_up_us))),
            ("that is", &|one| whole(one).into()),
        ],
    );
    let section = Section::new("subframes", "Subframes (figure 5)")
        .link("Subframes")
        .note(
            "330 µs each, of all threads together; ended early where a thread creates, joins or ends. The paper warms up for \
             90 of them, 29.7 ms. That would take short runs whole: ours take a tenth of the run where that is less.",
        )
        .with(table);
    (&["figure 5"], section)
}
