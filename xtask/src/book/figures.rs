//! Figures of bench runs, put into pages that name where they stand. A figure that is not there is an error.
//!
//! - `{{figure RUN/FILE.json /pointer}}`: a number. `*` in the file's name, or `[key=value]` behind that of a file of JSON lines:
//!   the median of all, with the least and the most.
//! - `{{table RUN/README.md#text | column | column as name | where column = a; b}}`: of the first table (behind the text) that
//!   has these columns.
//! - `{{line RUN/FILE text}}`: the line that begins with the text.
//! - `{{run RUN}}`: link and machine. `{{missed}}`: the targets that bench runs missed.
//!
//! What stands in a block of code of the language `bench` is asked as well, and may take several lines.

use super::tables::{Table, plain, tables};
use crate::measured::measured;
use crate::tree::Tree;
use anyhow::{Context, bail};
use serde_json::Value;

/// Where the runs lie, and how a page of the book reaches them.
const RUNS: &str = "bench-runs/";
const LINK: &str = "../../bench-runs/";

/// The page with all that it asks for.
pub(super) fn filled(tree: &Tree, page: &str, text: &str) -> anyhow::Result<String> {
    let blocks = text.split("```bench\n").enumerate();
    let text: String = blocks
        .map(
            |(at, part)| {
                if at == 0 { part.to_owned() } else { format!("{{{{{}", part.replacen("\n```", "}}", 1)) }
            },
        )
        .collect();
    if let Some(typed) = typed(&text) {
        bail!("{page}: \"{typed}\" is typed by hand; insert it from a bench run (xtask/src/book/figures.rs)");
    }
    let mut parts = text.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (asked, rest) = part.split_once("}}").with_context(|| format!("{page}: {{{{ without }}}}"))?;
        let found = answer(tree, asked).with_context(|| format!("{page}: {{{{{asked}}}}}"))?;
        out.push_str(&found);
        out.push_str(rest);
    }
    Ok(out)
}

fn answer(tree: &Tree, asked: &str) -> anyhow::Result<String> {
    let asked = asked.split_whitespace().collect::<Vec<_>>().join(" ");
    let (verb, rest) = asked.split_once(' ').unwrap_or((&asked, ""));
    match verb {
        "figure" => figure(tree, rest),
        "table" => Ok(table(tree, rest)?.markdown().trim_end().to_owned()),
        "line" => line(tree, rest),
        "run" => run(tree, rest),
        "missed" => Ok(missed(tree).markdown().trim_end().to_owned()),
        _ => bail!("asks for figure, table, line, run or missed"),
    }
}

fn text<'a>(tree: &'a Tree, file: &str) -> anyhow::Result<&'a str> {
    tree.text(&format!("{RUNS}{file}")).with_context(|| format!("there is no {RUNS}{file}"))
}

fn figure(tree: &Tree, asked: &str) -> anyhow::Result<String> {
    let (file, pointer) = asked.split_once(' ').context("a file and a pointer")?;
    let documents = documents(tree, file)?;
    let mut values = Vec::new();
    for document in &documents {
        values.push(document.pointer(pointer).and_then(Value::as_f64).context("no such number")?);
    }
    values.sort_by(f64::total_cmp);
    let show = |value: &f64| shown(pointer.rsplit('/').next().unwrap_or_default(), *value);
    let middle = values.len() / 2;
    match &values[..] {
        [] => bail!("no such file or line"),
        [value] => Ok(show(value)),
        [least, .., most] => {
            let median = if values.len() % 2 == 1 {
                values[middle]
            } else {
                (values[middle - 1] + values[middle]) / 2.0
            };
            Ok(format!("{} ({} to {})", show(&median), show(least), show(most)))
        }
    }
}

/// One document; those of all files that match; or the lines of a file that have a value.
fn documents(tree: &Tree, file: &str) -> anyhow::Result<Vec<Value>> {
    if let Some((file, wanted)) = file.split_once('[') {
        let (key, value) = wanted.trim_end_matches(']').split_once('=').context("[key=value]")?;
        let lines: Result<Vec<Value>, _> = text(tree, file)?.lines().map(serde_json::from_str).collect();
        return Ok(lines?.into_iter().filter(|line| line[key] == value).collect());
    }
    if let Some((before, behind)) = file.split_once('*') {
        let name = |path: &&str| {
            path.strip_prefix(RUNS).and_then(|path| path.strip_prefix(before)?.strip_suffix(behind)).is_some()
        };
        let texts = tree.texts().filter(|(path, _)| name(path));
        return Ok(texts.map(|(_, text)| serde_json::from_str(text)).collect::<Result<_, _>>()?);
    }
    Ok(vec![serde_json::from_str(text(tree, file)?)?])
}

/// A number as a reader wants it; its key has the unit.
fn shown(key: &str, value: f64) -> String {
    let (value, unit) = match key {
        _ if key.ends_with("_ns") => match value.abs() {
            size if size < 1e3 => (value, " ns"),
            size if size < 1e6 => (value / 1e3, " µs"),
            size if size < 1e9 => (value / 1e6, " ms"),
            _ => (value / 1e9, " s"),
        },
        _ if key.ends_with("share") => (value * 100.0, " %"),
        _ if key.ends_with("_ppm") => (value, " ppm"),
        _ if key.ends_with("_s") => (value, " s"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        size if value.fract() == 0.0 || size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let number = format!("{value:.digits$}");
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let behind = whole.len() - at;
        if at > 0 && behind.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped}{rest}{unit}")
}

fn table(tree: &Tree, asked: &str) -> anyhow::Result<Table> {
    let mut parts = asked.split(" | ");
    let file = parts.next().unwrap_or_default();
    let (file, mark) = file.split_once('#').unwrap_or((file, ""));
    let (columns, conditions): (Vec<&str>, Vec<&str>) = parts.partition(|part| !part.starts_with("where "));
    let columns: Vec<(&str, &str)> =
        columns.iter().map(|one| one.split_once(" as ").unwrap_or((one, one))).collect();
    let whole = text(tree, file)?;
    let behind = whole.find(mark).with_context(|| format!("{file} has no {mark}"))?;
    let has = |table: &Table| columns.iter().all(|(name, _)| table.column(name).is_some());
    let found = tables(&whole[behind..]).into_iter().find(has).context("no table has these columns")?;
    let mut rows: Vec<&Vec<String>> = found.rows.iter().collect();
    for condition in conditions {
        let (name, wanted) = condition["where ".len()..].split_once(" = ").context("where COLUMN = VALUE")?;
        let at = found.column(name).with_context(|| format!("no column {name}"))?;
        let wanted: Vec<&str> = wanted.split("; ").collect();
        let cell = |row: &[String]| row.get(at).cloned().unwrap_or_default();
        rows.retain(|row| wanted.contains(&cell(row).as_str()));
        if let Some(none) = wanted.iter().find(|value| !rows.iter().any(|row| cell(row) == **value)) {
            bail!("no row {none}");
        }
    }
    let places: Vec<usize> = columns.iter().filter_map(|(name, _)| found.column(name)).collect();
    Ok(Table {
        heads: columns.iter().map(|(_, name)| (*name).to_owned()).collect(),
        rows: rows
            .iter()
            .map(|row| places.iter().map(|at| row.get(*at).cloned().unwrap_or_default()).collect())
            .collect(),
    })
}

fn line(tree: &Tree, asked: &str) -> anyhow::Result<String> {
    let (file, start) = asked.split_once(' ').context("a file and how the line begins")?;
    let found = text(tree, file)?.lines().find(|line| line.trim_start().starts_with(start));
    Ok(found.context("no such line")?.trim().to_owned())
}

fn run(tree: &Tree, name: &str) -> anyhow::Result<String> {
    text(tree, &format!("{name}/README.md"))?;
    let machine = tree.text(&format!("{RUNS}{name}/machine.txt")).unwrap_or_default();
    let fact = |key: &str| {
        machine.lines().find_map(|line| Some(line.strip_prefix(key)?.trim_start_matches(':').trim()))
    };
    let facts: Vec<String> = [("processor", ""), ("CPUs", " CPUs"), ("kernel", "")]
        .iter()
        .filter_map(|(key, unit)| Some(format!("{}{unit}", fact(key)?)))
        .collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    Ok(format!("[{name}]({LINK}{name}/README.md){facts}"))
}

/// Rows of the runs' tables that end with "missed", the latest run first.
fn missed(tree: &Tree) -> Table {
    let heads = ["run", "what", "target", "found"].map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for (path, text) in
        tree.texts().filter(|(path, _)| path.starts_with(RUNS) && path.ends_with("/README.md"))
    {
        let name = path.trim_start_matches(RUNS).trim_end_matches("/README.md");
        for table in tables(text).into_iter().filter(|table| table.column("target").is_some()) {
            let missed =
                table.rows.iter().filter(|row| row.last().is_some_and(|cell| plain(cell) == "missed"));
            for row in missed {
                let facts = &row[row.len().saturating_sub(4)..row.len() - 1];
                let link = format!("[{name}]({LINK}{name}/README.md)");
                rows.push(std::iter::once(link).chain(facts.iter().cloned()).collect());
            }
        }
    }
    rows.reverse();
    Table { heads, rows }
}

/// The first measured number in a page's own words.
fn typed(text: &str) -> Option<String> {
    let asked = text.split("{{").enumerate();
    let own: String = asked
        .map(|(at, part)| if at == 0 { part } else { part.split_once("}}").map_or("", |(_, own)| own) })
        .collect();
    let without_code: String = own.split('`').step_by(2).collect::<Vec<_>>().join("Code");
    measured(&without_code).first().map(|(number, unit)| format!("{number} {unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::of(&[
            (
                "bench-runs/1-a/README.md",
                "# A\n\n| tool | what | target | p99 (us) | |\n|---|---|---|---|---|\n| x | w | low | 7.2 | met |\n| y | w | low | 9 | **missed** |\n\nlater\n\n| tool | p99 (us) |\n|---|---|\n| z | 1 |\n",
            ),
            ("bench-runs/1-a/machine.txt", "kernel:  Linux 6\nCPUs:   2\n"),
            ("bench-runs/1-a/d/x-1.json", "{\"e\": {\"p50_ns\": 1530}}"),
            ("bench-runs/1-a/d/x-2.json", "{\"e\": {\"p50_ns\": 900}}"),
            ("bench-runs/1-a/d/x-3.json", "{\"e\": {\"p50_ns\": 2500000}}"),
            (
                "bench-runs/1-a/loads.jsonl",
                "{\"name\": \"q\", \"sent\": 5000000}\n{\"name\": \"r\", \"sent\": 7}\n",
            ),
            ("bench-runs/1-a/cost.txt", "a: 1\nuprobe: 9972 ns more\n"),
        ])
    }

    fn asked(text: &str) -> String {
        match filled(&tree(), "p.md", text) {
            Ok(found) => found,
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn figures_come_from_the_files_of_runs() {
        assert_eq!(asked("so {{figure 1-a/d/x-1.json /e/p50_ns}}."), "so 1.53 µs.");
        assert_eq!(asked("{{figure 1-a/d/x-*.json /e/p50_ns}}"), "1.53 µs (900 ns to 2.50 ms)");
        assert_eq!(asked("{{figure 1-a/loads.jsonl[name=q] /sent}}"), "5,000,000");
        assert_eq!(asked("{{line 1-a/cost.txt uprobe:}}"), "uprobe: 9972 ns more");
        let link = "[1-a](../../bench-runs/1-a/README.md)";
        assert_eq!(asked("{{run 1-a}}"), format!("{link} (2 CPUs, Linux 6)"));
        assert_eq!(
            asked("{{missed}}"),
            format!("| run | what | target | found |\n| --- | --- | --- | --- |\n| {link} | w | low | 9 |")
        );
    }

    #[test]
    fn tables_are_cut_to_columns_and_rows() {
        let all = "| tool | p99 (µs) |\n| --- | --- |\n";
        let block = "```bench\ntable 1-a/README.md | tool | p99 (us) as p99 (µs)\n| where tool = y\n```\n";
        assert_eq!(asked(block), format!("{all}| y | 9 |\n"));
        assert_eq!(
            asked("{{table 1-a/README.md#later | tool | p99 (us) as p99 (µs)}}"),
            format!("{all}| z | 1 |")
        );
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        for (text, why) in [
            ("{{figure 1-a/d/y.json /e}}", "there is no bench-runs/1-a/d/y.json"),
            ("{{figure 1-a/d/x-1.json /f}}", "no such number"),
            ("{{figure 1-a/d/y-*.json /f}}", "no such file or line"),
            ("{{figure 1-a/loads.jsonl[name=s] /sent}}", "no such file or line"),
            ("{{table 1-a/README.md | tool | p50}}", "no table has these columns"),
            ("{{table 1-a/README.md | tool | where tool = z}}", "no row z"),
            ("{{line 1-a/cost.txt b:}}", "no such line"),
            ("{{run 1-b}}", "there is no bench-runs/1-b/README.md"),
            ("{{sum 1-a}}", "asks for"),
        ] {
            let found = asked(text);
            assert!(found.starts_with(&format!("p.md: {text}")) && found.contains(why), "{found}");
        }
    }

    #[test]
    fn nobody_types_a_measured_number() {
        for text in ["It takes 12 ns.", "About 3.5 % of", "20% more", "a 0.5ms stop", "| 7 µs |"] {
            assert!(typed(text).is_some(), "{text}");
        }
        for text in ["Linux 6.18, 2 CPUs", "`--period 1 ms` sets", "{{line x 5 ns}} and", "RFC 8762 says"] {
            assert_eq!(typed(text), None);
        }
    }

    #[test]
    fn numbers_are_shown_with_their_units() {
        let shown = [
            ("a", 1234567.0),
            ("late_share", 0.0049),
            ("slope_ppm", -1.722),
            ("cpu_s", 11.1),
            ("x_ns", 1.5e9),
            ("n", -1000.0),
        ]
        .map(|(key, value)| shown(key, value));
        assert_eq!(shown, ["1,234,567", "0.49 %", "-1.72 ppm", "11.1 s", "1.50 s", "-1,000"]);
    }
}
