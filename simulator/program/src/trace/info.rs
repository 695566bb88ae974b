//! `quaver sim trace --info`: what is in a trace.

use crate::file;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results::{self, Found};
use quaver_trace::file::{Facts, ReadAt, TraceReader};
use quaver_trace::step::TraceError;
use quaver_trace::summary::{SyncCounts, ThreadSummary, summary_of};
use quaver_view::{Cell, Document, Text, text};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// What is told, as JSON.
#[derive(Debug, Serialize)]
struct Info {
    schema: &'static str,
    #[serde(flatten)]
    facts: Facts,
    cut_short: bool,
    octets: u64,
    blocks: usize,
    instructions: u64,
    octets_per_million_instructions: Option<f64>,
    loads: u64,
    stores: u64,
    syncs: SyncCounts,
    threads: Vec<ThreadSummary>,
}

/// Tells it.
pub(super) fn run(path: &Path, json: bool) -> anyhow::Result<ExitCode> {
    if file::is_library(path)? {
        return super::info_epochs::run(path, json);
    }
    let trace = file::open(path)?;
    let bad = |error: TraceError| failure(ExitCode::BadInput, format!("{}: {error}", path.display()));
    let info = look(&trace.reader).map_err(bad)?;
    if !json {
        results::to_stdout(page(&info).as_bytes())?;
        return Ok(ExitCode::Done);
    }
    let mut document = Document::new("quaver sim trace info", path.display().to_string());
    document.incomplete = info.cut_short;
    document.verdict = Some(verdict(&info));
    results::print(&Found::new(&serde_json::to_value(&info)?), || document, true, &[])
}

fn verdict(info: &Info) -> Text {
    let [instructions, threads] = [info.instructions, info.threads.len() as u64].map(Cell::Count);
    text!("The trace has {instructions} instructions of {threads} threads.")
}

fn look<R: ReadAt>(trace: &TraceReader<R>) -> Result<Info, TraceError> {
    let threads =
        trace.threads().map(|thread| summary_of(trace, thread)).collect::<Result<Vec<_>, TraceError>>()?;
    let sum = |of: fn(&ThreadSummary) -> u64| threads.iter().map(of).sum::<u64>();
    let instructions = sum(|thread| thread.instructions);
    let per_million = trace.octets as f64 * 1e6 / instructions as f64;
    Ok(Info {
        schema: "quaver.sim.trace/1",
        facts: trace.facts.clone(),
        cut_short: trace.cut_short,
        octets: trace.octets,
        blocks: trace.dictionary.blocks.len(),
        instructions,
        octets_per_million_instructions: (instructions > 0).then_some(per_million),
        loads: sum(|thread| thread.loads),
        stores: sum(|thread| thread.stores),
        syncs: threads.iter().fold(SyncCounts::default(), |all, thread| all.and(&thread.syncs)),
        threads,
    })
}

fn page(info: &Info) -> String {
    let mut page = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{name:<14}{value}");
    };
    if !info.facts.program.is_empty() {
        line("program", info.facts.program.join(" "));
    }
    line("written by", format!("{}, for {}", info.facts.tool, info.facts.architecture));
    if info.cut_short {
        line("", "it was cut short: this is what is whole of it".into());
    }
    for lack in &info.facts.lacks {
        line("", format!("it does not tell {lack}"));
    }
    line("instructions", format!("{} in {} blocks", info.instructions, info.blocks));
    line("accesses", format!("{} loads, {} stores", info.loads, info.stores));
    let per_million = info.octets_per_million_instructions;
    let per_million =
        per_million.map_or(String::new(), |octets| format!(", {octets:.0} a million instructions"));
    line("bytes", format!("{}{per_million}", info.octets));
    line("calls", steps(&info.syncs));
    let _ = writeln!(page, "\nthread  instructions       loads      stores   thread calls");
    for thread in &info.threads {
        let ThreadSummary { thread, instructions, loads, stores, syncs, .. } = thread;
        let _ = writeln!(page, "{thread:>6}  {instructions:>12} {loads:>11} {stores:>11}   {}", syncs.all());
    }
    page
}

/// The kinds of steps that there are.
fn steps(counts: &SyncCounts) -> String {
    let each = [
        ("creations", counts.creates),
        ("joins", counts.joins),
        ("locks", counts.locks),
        ("unlocks", counts.unlocks),
        ("read locks", counts.read_locks),
        ("read unlocks", counts.read_unlocks),
        ("signals", counts.signals),
        ("broadcasts", counts.broadcasts),
        ("arrivals at barriers", counts.barriers),
    ];
    let mut words: Vec<String> =
        each.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    if counts.waits > 0 {
        words.push(format!("{} waits ({} ended by another thread)", counts.waits, counts.woken));
    }
    if words.is_empty() { "none".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_trace::block::{Block, Class, Instruction, Registers};
    use quaver_trace::file::TraceWriter;
    use quaver_trace::step::{Access, Sync, Thread, Wakeup};

    #[test]
    fn the_page_says_what_is_in_it() {
        let facts = Facts {
            program: vec!["./ocean".into(), "-p2".into()],
            tool: "quaver 0.1.0".into(),
            architecture: "x86-64".into(),
            ..Facts::default()
        };
        let mut writer = TraceWriter::new(Vec::new(), &facts).unwrap();
        let none = Registers::default();
        let instruction = Instruction {
            octets: 4,
            class: Class::Integer,
            loads: true,
            stores: false,
            reads: none,
            writes: none,
        };
        let block = writer.define(Block { pc: 64, instructions: vec![instruction; 5] });
        let access = Access { address: 8, instruction: 0, octets: 8, write: false };
        writer.sync(0, Sync::Create { thread: Thread(1) });
        for _ in 0..2 {
            writer.block(0, block, &[access]).unwrap();
        }
        writer.end(0);
        writer.sync(1, Sync::Wait { object: 8, mutex: 16, by: Some(Wakeup(1)) });
        writer.end(1);
        let octets = writer.finish().unwrap();
        let info = look(&TraceReader::open(octets).unwrap()).unwrap();
        let page = page(&info);
        for said in [
            "program       ./ocean -p2\n",
            "written by    quaver 0.1.0, for x86-64\n",
            "instructions  10 in 1 blocks\n",
            "accesses      2 loads, 0 stores\n",
            "calls         1 creations, 1 waits (1 ended by another thread)\n",
            "     0            10           2           0   1\n",
        ] {
            assert!(page.contains(said), "{page}");
        }
        let json = serde_json::to_value(&info).unwrap();
        assert_eq!((&json["schema"], &json["instructions"]), (&"quaver.sim.trace/1".into(), &10.into()));
        assert_eq!(json["program"][0], "./ocean");
    }
}
