//! The files of a run, one after the other: each is rewritten by what it is, or left out.

use super::fields::{Field, Fields};
use super::pseudonyms::Pseudonyms;
use crate::exit_code::{ExitCode, failure};
use crate::interrupt::Interrupt;
use crate::registry::RunKind;
use anyhow::Context;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_store::columns::table_name;
use quaver_store::events::{read_events, write_events};
use quaver_store::rewrite::rewrite;
use quaver_store::run::RunDir;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What became of a run.
pub(super) struct Copied {
    pub(super) files: Vec<String>,
    pub(super) replaced: BTreeMap<&'static str, usize>,
    pub(super) left_out: Vec<LeftOut>,
}

/// A file that the copy lacks.
pub(super) struct LeftOut {
    pub(super) file: String,
    pub(super) why: &'static str,
}

/// As the copy's manifest has them.
pub(super) fn as_json(left_out: &[LeftOut]) -> Vec<Value> {
    left_out.iter().map(|left| json!({ "file": left.file, "why": left.why })).collect()
}

/// What a file is: a closed list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum File {
    /// Rewritten string by string; the word begins the paths of its strings.
    Json(&'static str),
    Table,
    /// Records of numbers alone.
    Numbers,
    /// Drawn again from the copy.
    Report,
    LeftOut(&'static str),
}

/// Folders of a run whose files are looked at; runs lie in some of them.
const FOLDERS: [&str; 6] = ["cells", "sync", "tests", "measured", "points", "recordings"];
/// Tables whose strings are all listed.
const TABLES: [&str; 9] =
    ["packets", "events", "late", "gaps", "path", "compare", "sync", "study-stamps", "sim-intervals"];

fn what_is(path: &Path) -> File {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    match (name.as_ref(), path.extension().and_then(|end| end.to_str()).unwrap_or_default()) {
        ("manifest.json", _) => File::Json("manifest"),
        ("summary.json" | "details.json", _) => File::Json("summary"),
        ("names.json", _) => File::Json("names"),
        ("cost.json", _) => File::Json("cost"),
        (_, "json") if folder == "cells" => File::Json("cell"),
        (_, "json") if folder == "sync" => File::Json("image"),
        (_, "parquet") => File::Table,
        ("kernel.seg" | "anchors.seg" | "compensation.seg", _) if folder == "sync" => File::Numbers,
        ("report.html", _) => File::Report,
        (_, "seg") => File::LeftOut("raw records hold names of threads"),
        (_, "maps") => File::LeftOut("a memory map holds paths of files"),
        ("tags.txt", _) => File::LeftOut("tags are words of people"),
        (_, "pcapng" | "pcap") => File::LeftOut("packets are the traffic itself"),
        _ => File::LeftOut("it is not known to be harmless"),
    }
}

/// Files of a folder and those below it, in the order of their names but for manifests, which come first.
fn files(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let list = || format!("listing {}", root.join(below).display());
    let mut entries = Vec::new();
    for entry in fs::read_dir(root.join(below)).with_context(list)? {
        entries.push(entry.with_context(list)?);
    }
    entries.sort_by_key(|entry| (entry.file_name() != "manifest.json", entry.file_name()));
    for entry in entries {
        let path = below.join(entry.file_name());
        match entry.file_type().with_context(list)?.is_dir() {
            true => files(root, &path, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}

struct Scrub<'a> {
    from: &'a Path,
    to: &'a Path,
    fields: Fields,
    names: Pseudonyms,
    /// Pseudonyms of addresses in the kernel, in the same order.
    kernel: BTreeMap<u64, u64>,
    left_out: Vec<LeftOut>,
}

/// Copies a run.
pub(super) fn run(
    run: &RunDir,
    to: &Path,
    interface: &'static str,
    interrupt: &Interrupt,
    kind_of: &dyn Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
) -> anyhow::Result<Copied> {
    let mut all = Vec::new();
    files(run.path(), Path::new(""), &mut all)?;
    // Tables state their run by its manifest, and their names by the names beside them.
    all.sort_by_key(|path| !matches!(what_is(path), File::Json(_)));
    let fields = Fields::of(interface);
    let names = Pseudonyms::new();
    let mut scrub =
        Scrub { from: run.path(), to, fields, names, kernel: BTreeMap::new(), left_out: Vec::new() };
    scrub.learn(&all)?;
    let mut made = Vec::new();
    for path in &all {
        if interrupt.requested() {
            return Err(failure(ExitCode::Interrupted, "scrub: interrupted; no copy was made"));
        }
        made.extend(scrub.file(path)?);
    }
    let reports: Vec<&PathBuf> = all.iter().filter(|path| what_is(path) == File::Report).collect();
    scrub.state()?;
    for path in reports {
        match scrub.report(path, kind_of) {
            Ok(()) => made.push(scrub.place(path)),
            Err(_) => scrub.leave_out(path, "it cannot be drawn from what is left"),
        }
    }
    scrub.state()?;
    let files = made.iter().map(|path| path.display().to_string()).collect();
    Ok(Copied { files, replaced: scrub.names.counts(), left_out: scrub.left_out })
}

impl Scrub<'_> {
    /// Where a file lies in the copy: programs and hosts give names to folders.
    fn place(&mut self, path: &Path) -> PathBuf {
        let mut folders: Vec<String> =
            path.parent().into_iter().flatten().map(|part| part.to_string_lossy().into_owned()).collect();
        for folder in folders.iter_mut().filter(|folder| !FOLDERS.contains(&folder.as_str())) {
            *folder = self.names.sentence(folder);
        }
        folders.iter().collect::<PathBuf>().join(path.file_name().unwrap_or_default())
    }

    fn leave_out(&mut self, path: &Path, why: &'static str) {
        let place = self.place(path);
        // The name of a file that nobody knows may be private as well.
        let name = match what_is(path) {
            File::Report => "report.html".to_owned(),
            _ => self.names.sentence(&place.file_name().unwrap_or_default().to_string_lossy()),
        };
        let file = place.with_file_name(name).display().to_string();
        self.left_out.push(LeftOut { file, why });
    }

    /// Gives pseudonyms to all that is private, so that sentences can be searched for it.
    fn learn(&mut self, all: &[PathBuf]) -> anyhow::Result<()> {
        let mut addresses = BTreeSet::new();
        for path in all {
            match what_is(path) {
                File::Json(root) => {
                    let mut value = read(&self.from.join(path))?;
                    if let Some(symbols) =
                        value.get("symbol").and_then(Value::as_object).filter(|_| root == "names")
                    {
                        addresses.extend(symbols.keys().filter_map(|key| key.parse::<u64>().ok()));
                    }
                    self.walk(&mut value, root, false);
                }
                File::Table if path.file_name().is_some_and(|name| name == "events.parquet") => {
                    let events = read_events(&self.from.join(path))?;
                    addresses.extend(events.iter().filter_map(kernel_address));
                }
                _ => {}
            }
        }
        // Far apart, as functions are.
        self.kernel = addresses.into_iter().zip((1..).map(|number: u64| number << 12)).collect();
        Ok(())
    }

    /// Rewrites a file; where it lies in the copy.
    fn file(&mut self, path: &Path) -> anyhow::Result<Option<PathBuf>> {
        let what = what_is(path);
        let from = self.from.join(path);
        if let File::LeftOut(why) = what {
            self.leave_out(path, why);
            return Ok(None);
        }
        if what == File::Report {
            return Ok(None);
        }
        let place = self.place(path);
        let to = self.to.join(&place);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        match what {
            File::Json(root) => {
                let mut value = read(&from)?;
                self.walk(&mut value, root, true);
                if root == "manifest" {
                    // Of a run within a run; that of the whole is replaced at the end.
                    value["scrubbed"] = json!({});
                }
                write(&to, &value)?;
            }
            File::Numbers => {
                fs::copy(&from, &to).with_context(|| format!("writing {}", to.display()))?;
            }
            _ => {
                let table = table_name(&from)?;
                if !TABLES.contains(&table.as_str()) {
                    self.leave_out(path, "it is not known to be harmless");
                    return Ok(None);
                }
                self.table(&table, &from, &to)?;
            }
        }
        Ok(Some(place))
    }

    fn table(&mut self, table: &str, from: &Path, to: &Path) -> anyhow::Result<()> {
        if table == "events" {
            let mut events = read_events(from)?;
            for event in &mut events {
                if let Some(address) = kernel_address(event) {
                    event.aux = self.kernel.get(&address).copied().unwrap_or_default();
                }
            }
            let run = RunDir::open(to.parent().unwrap_or(self.to))?;
            return Ok(write_events(to, &events, &run.read_names()?)?);
        }
        rewrite(from, to, table, &mut |column, text| self.text(&format!("{table}.{column}"), text, true))?;
        Ok(())
    }

    fn text(&mut self, path: &str, text: &str, whole: bool) -> String {
        match self.fields.at(path, text) {
            Field::Own => text.to_owned(),
            Field::Sentence if !whole => String::new(),
            Field::Sentence => self.names.sentence(text),
            Field::Thread => self.names.thread(text),
            Field::Symbol => self.names.symbol(text),
            Field::Names => self.names.names(text),
            Field::Command => self.names.command(text),
            Field::Private => self.names.private(text),
        }
    }

    /// Rewrites all strings below a path. Without `whole` only those that are private as a whole, for their pseudonyms.
    fn walk(&mut self, value: &mut Value, path: &str, whole: bool) {
        match value {
            Value::String(text) => *text = self.text(path, text, whole),
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, path, whole)),
            Value::Object(entries) => {
                let mut scrubbed = Map::new();
                for (key, mut item) in std::mem::take(entries) {
                    let number = key.parse::<u64>().ok();
                    let below = format!("{path}.{}", if number.is_some() { "{}" } else { &key });
                    self.walk(&mut item, &below, whole);
                    let key = match number {
                        Some(address) if path == "names.symbol" => {
                            self.kernel.get(&address).map_or(key, u64::to_string)
                        }
                        None if !self.fields.is_key(&key) && whole => self.names.key(&key),
                        _ => key,
                    };
                    scrubbed.insert(key, item);
                }
                *entries = scrubbed;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// States in the copy's manifest that it is one, and what it lacks.
    fn state(&self) -> anyhow::Result<()> {
        let path = self.to.join("manifest.json");
        let mut manifest = read(&path)?;
        manifest["scrubbed"] =
            json!({ "replaced": self.names.counts(), "left_out": as_json(&self.left_out) });
        write(&path, &manifest)
    }

    fn report(
        &mut self,
        path: &Path,
        kind_of: &dyn Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
    ) -> anyhow::Result<()> {
        let place = self.to.join(self.place(path));
        let run = RunDir::open(place.parent().unwrap_or(self.to))?;
        let found = kind_of(&run)?.analyze(&run, None)?;
        crate::deliver::deliver(&place, |out| found.write_html(&run, out))
    }
}

/// The address of a kernel function that an event has.
fn kernel_address(event: &EventRecord) -> Option<u64> {
    use EventKind::{CrossCall, Frame, Hrtimer, IpiSend, Nmi, Timer, Work};
    let kind = EventKind::from_repr(event.kind)?;
    let has_one = matches!(kind, Nmi | Hrtimer | Timer | Work | CrossCall | IpiSend | Frame);
    Some(event.aux).filter(|address| has_one && *address != 0)
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text)
        .map_err(|error| failure(ExitCode::BadInput, format!("read {}: {error}", path.display())))
}

fn write(path: &Path, value: &Value) -> anyhow::Result<()> {
    let text = format!("{}\n", serde_json::to_string_pretty(value)?);
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACE: &str = include_str!("../../../../docs/interface.txt");
    const PLANTED: &str = "zyxwvut";

    fn scrub() -> Scrub<'static> {
        let (from, to) = (Path::new(""), Path::new(""));
        let (fields, names) = (Fields::of(INTERFACE), Pseudonyms::new());
        Scrub { from, to, fields, names, kernel: BTreeMap::new(), left_out: Vec::new() }
    }

    /// Places of all texts that documents of runs have, with the root that their file gives.
    fn places() -> impl Iterator<Item = String> {
        let sections = INTERFACE.split("\n==== ").filter_map(|section| section.split_once(" ====\n"));
        sections.flat_map(|(title, text)| {
            let root = match title.split(' ').next() {
                Some("summary.json") => "summary",
                Some("manifest.json") if title.ends_with("key path") => "manifest.path",
                Some("manifest.json") if title.ends_with("key compare") => "manifest.compare",
                Some("manifest.json") => "manifest",
                Some("names.json") => "names",
                _ => "",
            };
            let lines = text
                .lines()
                .filter(move |_| !root.is_empty())
                .filter_map(|line| line.trim().split_once(": "));
            let texts =
                lines.filter(|(_, holds)| holds.split(" or ").any(|one| one == "string" || one == "any"));
            texts.map(move |(path, _)| format!("{root}.{}", path.replace("[]", "")))
        })
    }

    #[test]
    fn a_name_survives_at_no_place_but_those_of_our_own_words() {
        let (mut all, mut own, mut scrub) = (0, 0, scrub());
        for place in places() {
            all += 1;
            let mut value = Value::String(format!("/srv/{PLANTED} of {PLANTED}, 10.9.8.7"));
            scrub.walk(&mut value, &place, true);
            let text = value.as_str().expect("a text");
            if scrub.fields.at(&place, PLANTED) == Field::Own {
                own += 1;
                continue;
            }
            assert!(!text.contains(PLANTED) && !text.contains("10.9.8.7"), "{place}: {text}");
        }
        assert!(all > 250 && own < all / 3, "{own} of {all} places keep what they hold");
    }

    #[test]
    fn names_and_addresses_of_people_are_at_private_places() {
        let scrub = scrub();
        for place in [
            "manifest.host.kernel.hostname",
            "manifest.asked.facts.program",
            "manifest.asked.facts.path",
            "manifest.asked.incident.receiver",
            "manifest.asked.study.plan",
            "manifest.asked.anything.new",
            "manifest.analysis.streams.destination",
            "manifest.analysis.streams.source",
            "manifest.analysis.far_source.server",
            "manifest.path.peer",
            "manifest.path.here",
            "manifest.path.flows.source",
            "manifest.path.tests.host",
            "summary.pairs.from",
            "summary.pairs.to",
            "summary.unreachable",
            "summary.interface",
            "summary.processes.exe",
            "image.facts.exe",
            "image.facts.argv",
        ] {
            assert_eq!(scrub.fields.at(place, "chase"), Field::Private, "{place}");
        }
        assert_eq!(scrub.fields.at("names.task.{}", "user"), Field::Thread);
        assert_eq!(scrub.fields.at("summary.layers.layer", "schedule"), Field::Own);
        assert_eq!(scrub.fields.at("summary.layers.layer", "studio"), Field::Private, "no word of that type");
    }

    #[test]
    fn what_is_not_listed_is_left_out() {
        let is = |path: &str| what_is(Path::new(path));
        for path in [
            "notes.txt",
            "names.json.bak",
            "core",
            "capture.pcapng",
            "events.seg",
            "tags.txt",
            "late.csv",
            "x.json",
        ] {
            assert!(matches!(is(path), File::LeftOut(_)), "{path}");
        }
        assert!(is("sync/kernel.seg") == File::Numbers && matches!(is("kernel.seg"), File::LeftOut(_)));
        assert!(is("cells/b0000-p000.json") == File::Json("cell"));
    }
}
