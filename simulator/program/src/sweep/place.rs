//! The directory of a sweep: its plan, its points, and who did what when.
//!
//! ```text
//! sweep-NAME/
//!   manifest.json  sweep.json      who began it; the plan, whole
//!   points/ID.json                 a point that is done; written as a whole or not at all
//!   ideals/ID.json                 runs without jitter that points are compared with
//!   log/HOST-PID-TIME.jsonl        what each process did, line by line
//!   earlier/ID.json                points of the plan before it was changed
//!   points.parquet  summary.json  report.html    when all are done, or by merge
//! ```

use super::plan::{self, Plan};
use super::row::{self, IdealRun, PointResult};
use anyhow::Context;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::shard::Shard;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Verb of a sweep's manifest.
pub const VERB: &str = "sim-sweep";

/// A sweep's directory.
#[derive(Clone, Debug)]
pub(super) struct SweepDirectory {
    path: PathBuf,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Logged {
    /// `begins`, `ends` or `fails`.
    pub(super) what: String,
    /// Which point.
    pub(super) point: String,
    /// Which part of the sweep it was done for.
    pub(super) shard: String,
    /// Wall clock, milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Of `ends`: how long it took, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) took_s: Option<f64>,
}

/// The log of this process.
pub(super) struct Log {
    file: File,
    shard: Shard,
}

/// Held while a process works on a part of a sweep.
pub(super) struct PartLock {
    _file: File,
}

impl SweepDirectory {
    /// The directory of a sweep of this name in `parent`.
    pub(super) fn named(parent: &Path, name: &str) -> Self {
        Self { path: parent.join(format!("sweep-{name}")) }
    }

    /// This directory.
    pub(super) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// `sweep.json`.
    fn plan_file(&self) -> PathBuf {
        self.path.join("sweep.json")
    }

    /// `points.parquet`.
    pub(super) fn table(&self) -> PathBuf {
        self.path.join("points.parquet")
    }

    fn points(&self) -> PathBuf {
        self.path.join("points")
    }

    fn earlier(&self) -> PathBuf {
        self.path.join("earlier")
    }

    /// Whether it is the directory of a sweep.
    pub(super) fn is_sweep(&self) -> bool {
        self.plan_file().is_file()
    }

    /// The plan that it holds.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let path = self.plan_file();
        let said = |what: String| failure(ExitCode::BadInput, format!("{}: {what}", path.display()));
        let text = fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let what =
                    "there is no sweep.json in it; name the directory that `quaver sim sweep run` made";
                failure(ExitCode::BadInput, format!("{}: {what}", self.path.display()))
            }
            _ => said(error.to_string()),
        })?;
        let plan: Plan = serde_json::from_slice(&text)
            .map_err(|error| said(format!("this is no plan of a sweep: {error}")))?;
        if plan.schema != plan::SCHEMA {
            let what = format!("it is of {}, and this program reads {}", plan.schema, plan::SCHEMA);
            return Err(said(what));
        }
        Ok(plan)
    }

    /// Makes the directory, or one of an earlier plan this plan's: points that are none of it are put aside, and those of it that
    /// were aside come back.
    pub(super) fn begin(&self, plan: &Plan, ids: &BTreeSet<&str>) -> anyhow::Result<()> {
        for directory in [self.points(), self.path.join("ideals"), self.path.join("log")] {
            fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        }
        for id in self.done()? {
            if !ids.contains(id.as_str()) {
                let earlier = self.earlier();
                fs::create_dir_all(&earlier).with_context(|| format!("making {}", earlier.display()))?;
                move_file(&self.point_file(&id), &earlier.join(format!("{id}.json")))?;
            }
        }
        for id in listed(&self.earlier())? {
            if ids.contains(id.as_str()) && !self.point_file(&id).exists() {
                move_file(&self.earlier().join(format!("{id}.json")), &self.point_file(&id))?;
            }
        }
        write_json(&self.plan_file(), plan)?;
        self.write_manifest(plan, false)
    }

    /// Writes the manifest. `complete`: all points are in the table.
    pub(super) fn write_manifest(&self, plan: &Plan, complete: bool) -> anyhow::Result<()> {
        let now_ns = quaver_clock::realtime_ns();
        let path = self.path.join("manifest.json");
        let begun = || RunDir::open(&self.path).ok()?.read_manifest().ok();
        let mut manifest = match begun() {
            Some(manifest) => manifest,
            None => {
                let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
                let asked = serde_json::json!({ "command": quaver_instrument::recording::command_line(), "sweep": plan.name });
                Manifest::begin(env!("CARGO_PKG_VERSION"), VERB, asked, host, now_ns)
            }
        };
        let reason = (!complete).then(|| "not all points of the sweep are done".to_owned());
        manifest.end(now_ns, reason);
        write_json(&path, &manifest)
    }

    fn point_file(&self, id: &str) -> PathBuf {
        self.points().join(format!("{id}.json"))
    }

    /// Points that are done, by name.
    pub(super) fn done(&self) -> anyhow::Result<BTreeSet<String>> {
        listed(&self.points())
    }

    /// Points of the plan before this one.
    pub(super) fn put_aside(&self) -> anyhow::Result<usize> {
        Ok(listed(&self.earlier())?.len())
    }

    /// What a point came to.
    pub(super) fn read_point(&self, id: &str) -> anyhow::Result<PointResult> {
        let path = self.point_file(id);
        let said = |what: String| {
            let message =
                format!("{}: {what}; remove the file, and the point is simulated again", path.display());
            failure(ExitCode::BadInput, message)
        };
        let text = fs::read(&path).map_err(|error| said(error.to_string()))?;
        let done: PointResult = serde_json::from_slice(&text)
            .map_err(|error| said(format!("this is no point of a sweep: {error}")))?;
        match () {
            () if done.schema != row::SCHEMA => {
                Err(said(format!("it is of {}, not {}", done.schema, row::SCHEMA)))
            }
            () if done.id != id => Err(said(format!("it is point {}", done.id))),
            () => Ok(done),
        }
    }

    /// Keeps a point.
    pub(super) fn keep_point(&self, done: &PointResult) -> anyhow::Result<()> {
        write_json(&self.point_file(&done.id), done)
    }

    /// A run without jitter that was kept.
    pub(super) fn read_ideal(&self, id: &str) -> Option<IdealRun> {
        let text = fs::read(self.ideal_file(id)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps a run without jitter.
    pub(super) fn keep_ideal(&self, id: &str, ideal: &IdealRun) -> anyhow::Result<()> {
        write_json(&self.ideal_file(id), ideal)
    }

    fn ideal_file(&self, id: &str) -> PathBuf {
        self.path.join("ideals").join(format!("{id}.json"))
    }

    /// Keeps others from working on the same part in the same directory.
    pub(super) fn hold(&self, shard: Shard) -> anyhow::Result<PartLock> {
        let path = self.path.join("log").join(format!("part-{}-of-{}.lock", shard.index, shard.of));
        let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let message = format!(
                    "{}: another process does part {shard} of this sweep; wait for it (quaver sim sweep status {}), or \
                     give each process a part of its own (--shard i/n)",
                    self.path.display(),
                    self.path.display()
                );
                Err(failure(ExitCode::Output, message))
            }
            // A file system without locks: points are whole all the same, at worst some are done twice.
            _ => Ok(PartLock { _file: file }),
        }
    }

    /// Whether some process works on a part of it.
    pub(super) fn is_held(&self) -> bool {
        let Ok(entries) = fs::read_dir(self.path.join("log")) else { return false };
        entries.flatten().any(|entry| {
            let path = entry.path();
            path.extension().is_some_and(|extension| extension == "lock")
                && File::open(&path).is_ok_and(|file| {
                    flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
                })
        })
    }

    /// A log for this process.
    pub(super) fn log(&self, shard: Shard) -> anyhow::Result<Log> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let name = format!("{host}-{}-{}.jsonl", std::process::id(), now_ms());
        let path = self.path.join("log").join(name);
        let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Log { file, shard })
    }

    /// All lines of all logs, by time. Lines that a crash cut off are left out.
    pub(super) fn logged(&self) -> anyhow::Result<Vec<Logged>> {
        let mut lines = Vec::new();
        let Ok(entries) = fs::read_dir(self.path.join("log")) else { return Ok(lines) };
        for entry in entries {
            let path = entry.context("listing logs")?.path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            let file = File::open(&path).with_context(|| format!("reading {}", path.display()))?;
            let read = BufReader::new(file).lines().map_while(Result::ok);
            lines.extend(read.filter_map(|line| serde_json::from_str::<Logged>(&line).ok()));
        }
        lines.sort_by_key(|line| line.at_ms);
        Ok(lines)
    }

    /// The run directory, for what reads and draws runs.
    pub(super) fn run(&self) -> anyhow::Result<RunDir> {
        Ok(RunDir::open(&self.path)?)
    }
}

impl Log {
    /// Writes a line, at once and as a whole.
    pub(super) fn tell(&self, what: &str, point: &str, took_s: Option<f64>) {
        let line = Logged {
            what: what.to_owned(),
            point: point.to_owned(),
            shard: self.shard.to_string(),
            at_ms: now_ms(),
            took_s,
        };
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        // The log helps to foretell how long the rest takes; nothing depends on it.
        let _ = (&self.file).write_all(&text);
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Names of the files `NAME.json` in a directory; none where there is no directory.
fn listed(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.with_context(|| format!("listing {}", directory.display()))?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry.with_context(|| format!("listing {}", directory.display()))?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
    }
    Ok(names)
}

fn move_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("moving {} to {}", from.display(), to.display()))
}

/// Writes a file so that it is there whole or not at all, whoever else writes it at the same time.
fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_whole(path, &text)
}

/// The same of bytes.
pub(super) fn write_whole(path: &Path, octets: &[u8]) -> anyhow::Result<()> {
    let writing = || format!("writing {}", path.display());
    let directory = path.parent().unwrap_or(Path::new("."));
    // As any other file is made: who may read it is for the umask to say.
    let readable = Permissions::from_mode(0o666);
    let mut beside = tempfile::Builder::new();
    let mut beside =
        beside.prefix(".part-").permissions(readable).tempfile_in(directory).with_context(writing)?;
    beside.write_all(octets).with_context(writing)?;
    beside.as_file().sync_all().with_context(writing)?;
    beside.persist(path).map_err(|error| error.error).with_context(writing)?;
    File::open(directory).and_then(|directory| directory.sync_all()).with_context(writing)
}
