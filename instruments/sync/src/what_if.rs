//! `quaver sync what-if`: the compensation curve of a recorded program.

pub mod digest;
pub mod view;

use crate::args::compensation::{Example, WhatIfArgs};
use crate::what_if::digest::{FramesAsked, Question, of_example, of_run};
use anyhow::Context;
use quaver_dvfs::dvfs::Table;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::results::{self, Found};
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

/// Answers and prints.
pub(super) fn run(args: &WhatIfArgs) -> anyhow::Result<ExitCode> {
    let question = question(args)?;
    let (answer, facts) = match &args.run {
        Some(path) => {
            let run = quaver_store::listing::open(path)?;
            let verb = run.read_manifest()?.verb;
            if verb != "sync" {
                let message = format!(
                    "{}: a run of {verb:?}; what-if is about runs of quaver sync -- PROGRAM",
                    path.display()
                );
                return Err(failure(ExitCode::BadInput, message));
            }
            of_run(&run, &question)?
        }
        None => (of_example(&question, args.seed), RunFacts::default()),
    };
    let mut document = view::document(&answer, &facts);
    if let Some(path) = &args.html {
        let file = std::fs::File::create(path).with_context(|| format!("making {}", path.display()))?;
        quaver_view::write_html(&mut BufWriter::new(file), &document)?;
    }
    document.report_path = args.html.as_ref().map(|path| path.display().to_string());
    let summary = serde_json::to_value(&answer)?;
    let found = Found { run: args.run.as_deref(), ..Found::new(&summary) };
    results::print(&found, || document, args.json, &[])
}

fn question(args: &WhatIfArgs) -> anyhow::Result<Question> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let within = |name: &str, time: Duration, least_ns: u64, most_ns: u64| {
        let value = ns(time);
        if (least_ns..=most_ns).contains(&value) {
            return Ok(value);
        }
        let (least, most) = (Duration::from_nanos(least_ns), Duration::from_nanos(most_ns));
        Err(failure(ExitCode::Usage, format!("--{name}: from {least:?} to {most:?}")))
    };
    const HOUR_NS: u64 = 3_600_000_000_000;
    let frames = match (args.example, args.deadline) {
        (Some(Example::Wimax), _) => Some(FramesAsked::Wimax),
        (None, Some(deadline)) => Some(FramesAsked::Own {
            deadline_ns: within("deadline", deadline, 1_000, HOUR_NS)?,
            period_ns: within("period", args.period.unwrap_or(deadline), 1_000, HOUR_NS)?,
        }),
        (None, None) => None,
    };
    Ok(Question {
        table: args.table.as_deref().map(read_table).transpose()?.unwrap_or_default(),
        highest: args.highest,
        subframe_ns: within("subframe", args.subframe, 1_000, 1_000_000_000)?,
        unpaced_share: f64::from(args.memory) / 100.0,
        frames,
    })
}

fn read_table(path: &Path) -> anyhow::Result<Table> {
    let bad = |reason: String| failure(ExitCode::BadInput, format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    table(&text).map_err(bad)
}

fn table(text: &str) -> Result<Table, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    match table.fault() {
        Some(fault) => Err(fault.to_owned()),
        None => Ok(table),
    }
}

/// What is wrong with the text of a file for `--table`; none where it can be used.
pub fn table_fault(text: &str) -> Option<String> {
    table(text).err()
}
