//! Exports that every kind of runs has: they follow from its tables, its summary and its samples, so no kind has code of its own.

mod histograms;
mod metrics;
mod spans;

use crate::deliver::{deliver, say_written};
use crate::exit_code::{ExitCode, failure};
use crate::registry::{Analyzed, not_exported};
use crate::runs::ExportArgs;
use quaver_store::rows::read_rows;
use quaver_store::run::RunDir;
use quaver_store::table::Table;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a table of the run, if that was asked for. No analysis is needed.
///
/// # Errors
/// The run has no such table (status 2), it is damaged, or writing failed.
pub(crate) fn table(run: &RunDir, asked: &ExportArgs) -> anyhow::Result<bool> {
    let (name, end, lines) = match (&asked.csv, &asked.json_lines) {
        (Some(name), _) => (name, "csv", false),
        (_, Some(name)) => (name, "jsonl", true),
        _ => return Ok(false),
    };
    refuse_late(asked)?;
    if name == "numbers" {
        let summary: Value = run.read_summary()?;
        let target = asked.output.clone().unwrap_or_else(|| run.path().join(format!("numbers.{end}")));
        deliver(&target, |out| Ok(numbers(&summary, lines, out)?))?;
        say_written(&target);
        return Ok(true);
    }
    let tables = tables_below(run.path())?;
    // What `quaver query` calls packets.
    let own =
        if name == "packets" && !tables.iter().any(|(place, _)| place == name) { "samples" } else { name };
    let Some((_, table)) = tables.iter().find(|(place, _)| place == own) else {
        let mut names: Vec<&str> = tables.iter().map(|(place, _)| place.as_str()).take(NAMED).collect();
        let more = format!("{} more", tables.len().saturating_sub(NAMED));
        names.extend((tables.len() > NAMED).then_some(more.as_str()));
        names.push("numbers");
        let has = names.join(", ");
        let message = format!("export {}: it has no table {name:?}; it has {has}", run.path().display());
        return Err(failure(ExitCode::Usage, message));
    };
    let target = asked.output.clone().unwrap_or_else(|| table.with_extension(end));
    deliver(&target, |out| Ok(rows(table, lines, out)??))?;
    say_written(&target);
    Ok(true)
}

/// Writes what follows from the results of any kind of runs, if that was asked for.
///
/// # Errors
/// The kind has no samples (status 2), or writing failed.
pub(crate) fn results(
    run: &RunDir,
    found: &dyn Analyzed,
    asked: &ExportArgs,
    known: &[&'static Table],
) -> anyhow::Result<bool> {
    let target = |name: &str| asked.output.clone().unwrap_or_else(|| run.path().join(name));
    if asked.perfetto {
        let target = target("timeline.perfetto-trace");
        deliver(&target, |out| match found.write_perfetto(run, asked, out)? {
            true => Ok(()),
            false => spans::timeline(&spans::of_run(run, found, known)?, out),
        })?;
        say_written(&target);
        return Ok(true);
    }
    if asked.late_csv {
        let target = target("late.csv");
        deliver(&target, |out| match found.write_late_csv(out)? {
            true => Ok(()),
            false => Err(not_exported("--late-csv: runs of this kind have no causes of lateness")),
        })?;
        say_written(&target);
        return Ok(true);
    }
    let (target, text) = match asked {
        _ if asked.openmetrics => {
            (target("metrics.txt"), metrics::text(run, &found.summary()?)?.into_bytes())
        }
        _ if asked.hdr => (target("histograms.hlog"), histograms::log(run, found, known)?),
        _ if asked.gnuplot => {
            let mut script = quaver_view::gnuplot(&found.page(run)?);
            if script.is_none() {
                script = quaver_view::gnuplot(&spans::drawn(spans::of_run(run, found, known)?));
            }
            let script = script.ok_or_else(|| not_exported("--gnuplot: this run has nothing to draw"))?;
            (target("plots.gp"), script.into_bytes())
        }
        _ => return Ok(false),
    };
    deliver(&target, |out| Ok(out.write_all(&text)?))?;
    say_written(&target);
    Ok(true)
}

fn refuse_late(asked: &ExportArgs) -> anyhow::Result<()> {
    match asked.late {
        None => Ok(()),
        Some(_) => {
            Err(failure(ExitCode::Usage, "--late changes no table: it is for --perfetto and --late-csv"))
        }
    }
}

/// Most tables that an error names.
const NAMED: usize = 20;

/// The Parquet files of a run, and of runs within it, with their places in order: `samples`, `cells/b0000-p000`.
///
/// # Errors
/// A directory cannot be read.
pub(crate) fn tables_below(run: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut tables = Vec::new();
    collect(run, "", &mut tables)?;
    tables.sort();
    Ok(tables)
}

fn collect(folder: &Path, below: &str, into: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if kind.is_dir() {
            let name = entry.file_name();
            collect(&path, &format!("{below}{}/", name.to_string_lossy()), into)?;
        } else if path.extension().is_some_and(|end| end == "parquet") {
            into.push((format!("{below}{stem}"), path));
        }
    }
    Ok(())
}

/// The numbers of a summary by their paths, as the view of `quaver query` has them.
fn numbers(summary: &Value, lines: bool, out: &mut dyn Write) -> io::Result<()> {
    if !lines {
        writeln!(out, "name,value")?;
    }
    let mut left = vec![(String::new(), summary)];
    while let Some((name, value)) = left.pop() {
        let inside = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match value {
            Value::Object(fields) => {
                left.extend(fields.iter().rev().map(|(key, value)| (inside(key), value)))
            }
            Value::Array(items) => {
                left.extend(
                    items.iter().enumerate().rev().map(|(at, value)| (inside(&at.to_string()), value)),
                );
            }
            Value::Number(_) if lines => {
                writeln!(out, "{}", serde_json::json!({ "name": name, "value": value }))?;
            }
            Value::Number(_) => writeln!(out, "{},{value}", cell(&name))?,
            _ => {}
        }
    }
    Ok(())
}

fn rows(table: &Path, lines: bool, out: &mut dyn Write) -> anyhow::Result<io::Result<()>> {
    let mut first = true;
    let written = read_rows(table, &mut |names, values| {
        if lines {
            let row: Map<String, Value> = names.iter().cloned().zip(values.iter().cloned()).collect();
            return writeln!(out, "{}", Value::Object(row));
        }
        if std::mem::take(&mut first) {
            writeln!(out, "{}", names.iter().map(|name| cell(name)).collect::<Vec<_>>().join(","))?;
        }
        let cells = values.iter().map(|value| match value {
            Value::Null => String::new(),
            Value::String(words) => cell(words),
            other => other.to_string(),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(","))
    })?;
    Ok(written)
}

/// A field as RFC 4180 has it (section 2).
fn cell(words: &str) -> String {
    match words.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", words.replace('"', "\"\"")),
        false => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(cell("swapper/0"), "swapper/0");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
