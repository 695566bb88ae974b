//! `quaver sim trace --info` of a library of kernel activity.

use crate::file;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::results;
use quaver_page::table::{Align, Style, Table};
use quaver_page::units::count;
use quaver_trace::epochs::{EpochFacts, EpochSummary, summary_of};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Lines of what is within a class.
const MOST_WITHIN: usize = 8;
/// Widest bar, in characters.
const WIDTH: u64 = 40;

/// What is told, as JSON.
#[derive(Debug, Serialize)]
struct Info {
    schema: &'static str,
    #[serde(flatten)]
    facts: EpochFacts,
    cut_short: bool,
    octets: u64,
    dictionary: usize,
    #[serde(flatten)]
    summary: EpochSummary,
}

/// Tells it.
pub(super) fn run(path: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let library = file::open_library(path)?;
    let summary = summary_of(&library).map_err(|error| file::refused(path, &error))?;
    let info = Info {
        schema: "quaver.sim.epochs/1",
        facts: library.facts.clone(),
        cut_short: library.cut_short,
        octets: library.octets,
        dictionary: library.dictionary.blocks.len(),
        summary,
    };
    let text = if json {
        format!("{}\n", serde_json::to_string_pretty(&info)?)
    } else {
        page(&info, Style::of_stdout())
    };
    results::to_stdout(text.as_bytes())?;
    Ok(ExitCode::Done)
}

fn page(info: &Info, style: Style) -> String {
    let mut page = String::new();
    let EpochFacts { tool, architecture, kernel, emulator, processors, workload, changes, .. } = &info.facts;
    let all = &info.summary;
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{name:<14}{value}");
    };
    line("kernel", format!("Linux {kernel}, {processors} processors, in {emulator}"));
    line("busy with", workload.clone());
    line("written by", format!("{tool}, for {architecture}"));
    if info.cut_short {
        line("", "it was cut short: this is what is whole of it".into());
    }
    changes.iter().for_each(|change| line("", change.clone()));
    line("epochs", format!("{} of {} blocks", count(all.epochs), count(all.blocks)));
    let entries = count(all.instructions);
    line(
        "entries",
        format!("{entries} (one an instruction) in {} different blocks", count(info.dictionary as u64)),
    );
    line("accesses", format!("{} loads, {} stores", count(all.loads), count(all.stores)));
    line("octets", count(info.octets));
    page.push('\n');
    page.push_str(&classes(all, style));
    let _ = writeln!(page, "\nDuration in instructions, all epochs:");
    let most = all.duration.by_power_of_two.values().copied().max().unwrap_or(1);
    for (power, epochs) in &all.duration.by_power_of_two {
        let bar = "#".repeat((epochs * WIDTH).div_ceil(most) as usize);
        let from = 1_u64 << power;
        let _ =
            writeln!(page, "{:>11} - {:<11} {:>9}  {bar}", count(from), count(from * 2 - 1), count(*epochs));
    }
    page
}

fn classes(all: &EpochSummary, style: Style) -> String {
    let columns = ["class", "epochs", "entries", "bottom halves", "median", "99 of 100", "longest"];
    let align = |at: usize| if at == 0 { Align::Left } else { Align::Right };
    let columns: Vec<_> = columns.iter().enumerate().map(|(at, name)| (*name, align(at))).collect();
    let mut table = Table::new(&columns);
    for class in &all.classes {
        let duration = &class.duration;
        table.row([
            class.class.to_owned(),
            count(class.epochs),
            count(class.instructions),
            count(class.bottom_halves),
            count(duration.p50),
            count(duration.p99),
            count(duration.max),
        ]);
        let mut within: Vec<_> = class.within.iter().collect();
        within.sort_by_key(|(name, (epochs, _))| (std::cmp::Reverse(*epochs), name.as_str()));
        for (name, (epochs, instructions)) in within.iter().take(MOST_WITHIN) {
            let [a, b, c, d] = [const { String::new() }; 4];
            table.row([format!("  {name}"), count(*epochs), count(*instructions), a, b, c, d]);
        }
        if within.len() > MOST_WITHIN {
            let (epochs, instructions) = within[MOST_WITHIN..]
                .iter()
                .fold((0, 0), |sum, (_, (epochs, instructions))| (sum.0 + epochs, sum.1 + instructions));
            let [a, b, c, d] = [const { String::new() }; 4];
            let name = format!("  {} others", within.len() - MOST_WITHIN);
            table.row([name, count(epochs), count(instructions), a, b, c, d]);
        }
    }
    table.render(style)
}
