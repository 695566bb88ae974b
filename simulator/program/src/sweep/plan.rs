//! The plan of a sweep: read from its file, and made whole, so that it can be carried out where the files around it are not.

use super::axis::{Axis, AxisText};
use crate::{cure_file, file};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::config::overlay;
use quaver_sim::inject::BUNDLED;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Schema of a plan that was made whole (`sweep.json`).
pub(super) const SCHEMA: &str = "quaver.sim.sweep.plan/1";
/// Most seeds.
const MOST_SEEDS: u64 = 10_000;

/// A plan, with what its files say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// [`SCHEMA`].
    pub(super) schema: String,
    /// Version of the program that made it whole.
    pub(super) version: String,
    /// Its name, and that of its directory.
    pub(super) name: String,
    /// What is simulated.
    pub(super) traces: Vec<PlannedTrace>,
    /// What the machine has over the default.
    pub(super) machine: toml::Table,
    /// Injection and cure; none: neither.
    pub(super) cure: Option<toml::Table>,
    /// Kernel activity that runs for what is injected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) library: Option<Input>,
    /// The run whose lateness is injected; which recording that is stands in `cure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<PathBuf>,
    /// What is varied, the first slowest.
    pub(super) axes: Vec<Axis>,
    /// Seeds of what is injected; none: that of the cure.
    pub(super) seeds: Vec<u64>,
    /// What a run's slow-down is against.
    pub(super) ideal: Ideal,
}

/// A file whose bytes matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What is in it.
    pub(super) sha256: String,
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlannedTrace {
    /// As it stands in tables.
    pub(super) name: String,
    /// The file.
    #[serde(flatten)]
    pub(super) input: Input,
    /// Its steps, which is about what a simulation costs.
    pub(super) steps: u64,
    /// It has no end: whoever wrote it was stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) cut_short: bool,
}

/// The run without jitter that others are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ideal {
    /// With the caches of the point.
    #[default]
    SameCache,
    /// With one second level for the application and the kernel.
    Unified,
    /// None: no slow-downs are told.
    None,
}

impl Ideal {
    /// As it is written.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SameCache => "same-cache",
            Self::Unified => "unified",
            Self::None => "none",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    sweep: Head,
    #[serde(default)]
    machine: toml::Table,
    cure: Option<toml::Table>,
    #[serde(default)]
    axis: Vec<AxisText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: Option<String>,
    traces: Vec<TraceText>,
    machine: Option<PathBuf>,
    cure: Option<PathBuf>,
    seeds: Option<Seeds>,
    #[serde(default)]
    ideal: Ideal,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TraceText {
    Path(PathBuf),
    Named { name: String, path: PathBuf },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Seeds {
    Number(u64),
    Each(Vec<u64>),
}

/// Reads the plan in this file, and the files that it names. Names of files are as seen from the plan's directory.
///
/// # Errors
/// What is wrong, in a sentence with the plan's name (status 5).
pub(super) fn read(path: &Path) -> anyhow::Result<Plan> {
    let said = |what: String| failure(ExitCode::BadInput, format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| said(format!("read the plan: {error}")))?;
    let text: Text = toml::from_str(&text).map_err(|error| said(error.to_string().trim_end().to_owned()))?;
    let around = path.parent().unwrap_or(Path::new(""));
    let head = text.sweep;
    let name = name(head.name, path).map_err(&said)?;
    let seeds = seeds(head.seeds).map_err(&said)?;
    let axes = axes(text.axis).map_err(&said)?;
    let (over_machine, over_cure) = (text.machine, text.cure);
    let machine = match head.machine {
        None => over_machine,
        Some(file) => over(table(&around.join(file))?, over_machine),
    };
    let (cure, library, recorded) = cure(head.cure.map(|file| around.join(file)), over_cure, path)?;
    let traces = traces(head.traces, around).map_err(|error| match error {
        Fault::Plan(what) => said(what),
        Fault::Trace(error) => error,
    })?;
    Ok(Plan {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name,
        traces,
        machine,
        cure,
        library,
        recorded,
        axes,
        seeds,
        ideal: head.ideal,
    })
}

fn name(given: Option<String>, path: &Path) -> Result<String, String> {
    let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = given.unwrap_or_else(stem);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(format!(
            "name = {name:?}: a sweep's name becomes that of a directory: letters, digits, - _ and ., at most 100"
        ));
    }
    Ok(name)
}

fn seeds(given: Option<Seeds>) -> Result<Vec<u64>, String> {
    let seeds: Vec<u64> = match given {
        None => return Ok(Vec::new()),
        Some(Seeds::Number(number)) if number <= MOST_SEEDS => (1..=number).collect(),
        Some(Seeds::Number(number)) => return Err(format!("seeds = {number}: at most {MOST_SEEDS}")),
        Some(Seeds::Each(seeds)) => seeds,
    };
    if seeds.is_empty() || seeds.len() as u64 > MOST_SEEDS {
        return Err(format!("seeds: give a number of them from 1 to {MOST_SEEDS}, or list them"));
    }
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(format!("seeds: {} stands there twice", two[0])),
        None => Ok(seeds),
    }
}

fn axes(texts: Vec<AxisText>) -> Result<Vec<Axis>, String> {
    let mut axes: Vec<Axis> = Vec::new();
    for (number, text) in texts.into_iter().enumerate() {
        let axis = text.read(number + 1)?;
        if super::row::is_column(&axis.name) {
            return Err(format!(
                "axis {}: a column of the results has that name; give it another",
                axis.name
            ));
        }
        for before in &axes {
            if before.name == axis.name {
                return Err(format!("axis {}: there are two of this name", axis.name));
            }
            let sets = |axis: &Axis, key: &str| {
                axis.points.iter().any(|point| point.set.iter().any(|(own, _)| own == key))
            };
            let keys = axis.points.iter().flat_map(|point| &point.set);
            if let Some((key, _)) = keys.into_iter().find(|(key, _)| sets(before, key)) {
                return Err(format!("axes {} and {} both set {key}", before.name, axis.name));
            }
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// The table of a file.
fn table(path: &Path) -> anyhow::Result<toml::Table> {
    let said = |error: &dyn std::fmt::Display| {
        failure(ExitCode::BadInput, format!("{}: {}", path.display(), error.to_string().trim_end()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
    toml::from_str(&text).map_err(|error| said(&error))
}

fn over(mut base: toml::Table, over: toml::Table) -> toml::Table {
    overlay(&mut base, over);
    base
}

/// Keys of a cure that name files.
const FILES: [&str; 2] = ["library", "recorded"];

/// The cure of a file with that of the plan over it, and the library of kernel activity and the recorded run that they name. Files
/// that are named are taken from the place of who names them; which recording it is stands in the cure already.
fn cure(
    file: Option<PathBuf>,
    own: Option<toml::Table>,
    plan: &Path,
) -> anyhow::Result<(Option<toml::Table>, Option<Input>, Option<PathBuf>)> {
    let placed = |mut table: toml::Table, place: &Path| {
        for name in FILES {
            if let Some(toml::Value::String(path)) = table.get_mut(name)
                && path != cure_file::BUNDLED
            {
                let path_there = place.parent().unwrap_or(Path::new("")).join(&*path);
                *path = path_there.to_string_lossy().into_owned();
            }
        }
        table
    };
    let base = file.map(|file| Ok::<_, anyhow::Error>(placed(table(&file)?, &file))).transpose()?;
    let own = own.map(|own| placed(own, plan));
    let mut cure = match (base, own) {
        (Some(base), own) => over(base, own.unwrap_or_default()),
        (None, Some(own)) => own,
        (None, None) => return Ok((None, None, None)),
    };
    let named: toml::Table = FILES.iter().filter_map(|name| cure.remove_entry(*name)).collect();
    let mut asked = named;
    if let (true, Some(injection)) = (asked.contains_key("recorded"), cure.get("injection")) {
        asked.insert("injection".to_owned(), injection.clone());
    }
    // Names are whole already, so the plan's place is not to be put before them once more.
    let read = cure_file::of_table(asked, Path::new(plan.file_name().unwrap_or(plan.as_os_str())))?;
    if let Some(injection) = &read.config.injection {
        cure.insert("injection".to_owned(), toml::Table::try_from(injection)?.into());
    }
    let recorded =
        read.recorded.map(|recorded| std::fs::canonicalize(&recorded.path).unwrap_or(recorded.path));
    Ok((Some(cure), read.library.as_deref().map(input).transpose()?, recorded))
}

enum Fault {
    Plan(String),
    Trace(anyhow::Error),
}

fn traces(texts: Vec<TraceText>, around: &Path) -> Result<Vec<PlannedTrace>, Fault> {
    if texts.is_empty() {
        return Err(Fault::Plan("traces: name at least one".to_owned()));
    }
    let mut traces: Vec<PlannedTrace> = Vec::new();
    for text in texts {
        let (name, path) = match text {
            TraceText::Named { name, path } => (name, path),
            TraceText::Path(path) => (trace_name(&path), path),
        };
        if traces.iter().any(|other| other.name == name) {
            let what = format!(
                "traces: two are called {name}; tell them apart: {{ name = \"…\", path = \"{}\" }}",
                path.display()
            );
            return Err(Fault::Plan(what));
        }
        let path = around.join(path);
        let trace = file::open(&path).map_err(Fault::Trace)?;
        if trace.reader.threads().next().is_none() {
            return Err(Fault::Plan(format!("{}: there are no steps in it to simulate", path.display())));
        }
        let (steps, cut_short) = (trace.reader.step_count(), trace.reader.cut_short);
        let input = input(&path).map_err(Fault::Trace)?;
        if let Some(other) = traces.iter().find(|other| other.input.sha256 == input.sha256) {
            return Err(Fault::Plan(format!("traces: {name} and {} are the same, byte by byte", other.name)));
        }
        traces.push(PlannedTrace { name, input, steps, cut_short });
    }
    Ok(traces)
}

/// `ocean` of `traces/ocean.qtrace.txt`.
fn trace_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let name = name.strip_suffix(".txt").unwrap_or(&name);
    name.strip_suffix(".qtrace").unwrap_or(name).to_owned()
}

/// A file, where it really is, and what is in it. The library of kernel activity that comes along is no file.
fn input(path: &Path) -> anyhow::Result<Input> {
    let said =
        |error: std::io::Error| failure(ExitCode::BadInput, format!("read {}: {error}", path.display()));
    let path = if is_bundled(path) { path.to_owned() } else { path.canonicalize().map_err(said)? };
    let sha256 = digest(&path).map_err(said)?;
    Ok(Input { path, sha256 })
}

fn is_bundled(path: &Path) -> bool {
    path == Path::new(cure_file::BUNDLED)
}

fn digest(path: &Path) -> std::io::Result<String> {
    if is_bundled(path) {
        return Ok(hexadecimal(&Sha256::digest(BUNDLED.as_bytes())));
    }
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut part = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(&part[..read]);
    }
}

/// Bytes as text.
pub(super) fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

impl Input {
    /// Whether it is still what the plan was made with.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let found = digest(&self.path)
            .map_err(|error| failure(ExitCode::BadInput, format!("read {}: {error}", self.path.display())))?;
        if found == self.sha256 {
            return Ok(());
        }
        let message = format!(
            "{} is another file than when the sweep was begun; put the old one back, or begin again from the plan",
            self.path.display()
        );
        Err(failure(ExitCode::BadInput, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sweeps_and_traces() {
        assert_eq!(name(None, Path::new("a/l2-size.toml")), Ok("l2-size".into()));
        assert_eq!(name(Some("x.1".into()), Path::new("b")), Ok("x.1".into()));
        for wrong in ["", "a/b", ".x", "a b", "ä"] {
            let said = name(Some(wrong.into()), Path::new("b")).unwrap_err();
            assert!(said.contains("becomes that of a directory"), "{said}");
        }
        assert_eq!(trace_name(Path::new("t/ocean.qtrace.txt")), "ocean");
        assert_eq!(trace_name(Path::new("ocean.qtrace")), "ocean");
        assert_eq!(trace_name(Path::new("ocean.txt")), "ocean");
        assert_eq!(trace_name(Path::new("ocean")), "ocean");
    }

    #[test]
    fn seeds_are_counted_or_listed() {
        assert_eq!(seeds(None), Ok(vec![]));
        assert_eq!(seeds(Some(Seeds::Number(3))), Ok(vec![1, 2, 3]));
        assert_eq!(seeds(Some(Seeds::Each(vec![7, 1]))), Ok(vec![7, 1]));
        assert!(seeds(Some(Seeds::Number(0))).unwrap_err().contains("from 1 to"));
        assert!(seeds(Some(Seeds::Number(1 << 40))).unwrap_err().contains("at most"));
        assert!(seeds(Some(Seeds::Each(vec![2, 1, 2]))).unwrap_err().contains("2 stands there twice"));
    }
}
