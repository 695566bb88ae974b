//! `quaver sim trace --info` of a library of kernel activity.

use crate::file;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::results::{self, Found};
use quaver_trace::epochs::{EpochFacts, EpochSummary, Region, summary_of};
use quaver_view::{Block, Cell, Document, Section, Table, text};
use serde::Serialize;
use std::path::Path;

/// Lines of what is within a class.
const MOST_WITHIN: usize = 8;

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
    let summary = serde_json::to_value(&info)?;
    results::print(&Found::new(&summary), || document(path, &info), json, &[])
}

fn document(path: &Path, info: &Info) -> Document {
    let EpochFacts { tool, architecture, kernel, emulator, processors, workload, changes, .. } = &info.facts;
    let (all, count) = (&info.summary, Cell::Count);
    let mut document = Document::new("quaver sim trace info", path.display().to_string());
    document.incomplete = info.cut_short;
    document.verdict = Some(text!("The library has {} epochs of the kernel.", count(all.epochs)));
    document.fact("kernel", format!("Linux {kernel}, {processors} processors, in {emulator}"));
    document.fact("workload", workload).fact("tracer", format!("{tool}, for {architecture}"));
    for change in changes {
        document.fact("", change);
    }
    document.fact("epochs", text!("{} of {} blocks", count(all.epochs), count(all.blocks)));
    document.fact(
        "entries",
        text!(
            "{} (one per instruction) in {} different blocks",
            count(all.instructions),
            count(info.dictionary as u64)
        ),
    );
    document.fact("accesses", text!("{} loads, {} stores", count(all.loads), count(all.stores)));
    let accesses = all.regions.values().sum::<u64>().max(1) as f64;
    let regions =
        Region::KINDS.map(|kind| (kind, all.regions.get(kind).copied().unwrap_or(0) as f64 / accesses));
    let mut data = Table::new(["data", "accesses"]);
    for (kind, share) in regions {
        data.row([Cell::from(kind), Cell::Share(share)]);
    }
    let mut section = Section::new("data", "Whose data").note(
        "stack: of a thread in the kernel; program: of the thread's program; one CPU: elsewhere, and one CPU alone was seen to touch the \
         line; common: several were, or it is a variable of the kernel",
    );
    section.push(data);
    if !all.tells_processors {
        section.push(Block::Note(text!(
            "Data of CPUs cannot be told from other data here: that takes epochs of several CPUs that agree on the distance."
        )));
    }
    document.section(section);
    document.fact("bytes", text!("{}", count(info.octets)));
    document.section(Section::new("classes", "Classes").with(classes(all)));
    let most = all.duration.by_power_of_two.values().copied().max().unwrap_or(1);
    let mut table = Table::new(["from", "to", "epochs", ""]);
    for (power, epochs) in &all.duration.by_power_of_two {
        let from = 1_u64 << power;
        let bar = Cell::Bars(vec![*epochs as f64 / most as f64]);
        table.row([count(from), count(from * 2 - 1), count(*epochs), bar]);
    }
    document.section(Section::new("duration", "Duration in instructions").note("all epochs").with(table));
    document
}

fn classes(all: &EpochSummary) -> Table {
    let columns = ["class", "epochs", "entries", "bottom halves", "median", "p99", "max"];
    let (mut table, count) = (Table::new(columns), Cell::Count);
    for class in &all.classes {
        let duration = &class.duration;
        table.row([
            Cell::from(class.class),
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
            table.row([format!("· {name}").into(), count(*epochs), count(*instructions)]);
        }
        if within.len() > MOST_WITHIN {
            let (epochs, instructions) = within[MOST_WITHIN..]
                .iter()
                .fold((0, 0), |sum, (_, (epochs, instructions))| (sum.0 + epochs, sum.1 + instructions));
            let name = format!("· {} others", within.len() - MOST_WITHIN);
            table.row([name.into(), count(epochs), count(instructions)]);
        }
    }
    table
}
