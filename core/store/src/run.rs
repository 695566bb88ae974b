//! The run directory and its files.
//!
//! ```text
//! runs/chase-20261120T165800Z-7f3a/
//!   manifest.json     what was asked, of whom, how it ended
//!   *.seg             raw segments, until they are converted
//!   samples.parquet   a row a packet            gaps.parquet   a row a gap (noise)
//!   late.parquet      a row a piece of lateness  waits.parquet  the same of late waits
//!   events.parquet    a row an event            names.json     what events refer to by number
//!   summary.json      what the console printed  report.html    the same, drawn
//! ```

use crate::bounded;
use crate::error::StoreError;
use crate::manifest::Manifest;
use crate::utc::compact_utc;
use quaver_analysis::model::Names;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A run directory that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes `parent/<verb>-<UTC time>-<4 hex digits>`, and `parent` where it is missing.
    ///
    /// # Errors
    /// The directory cannot be made, or `verb` cannot name one.
    pub fn create(parent: &Path, verb: &str) -> Result<Self, StoreError> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if verb.is_empty() || !verb.chars().all(allowed) {
            return Err(StoreError::Verb { verb: verb.to_owned() });
        }
        fs::create_dir_all(parent).map_err(|e| StoreError::io("make directory", parent, e))?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let stamp = compact_utc(seconds);
        loop {
            // The keys of the standard hasher are random for each instance: enough to tell runs of one second apart.
            let random = std::hash::RandomState::new().build_hasher().finish() & 0xffff;
            let path = parent.join(format!("{verb}-{stamp}-{random:04x}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::io("make directory", &path, error)),
            }
        }
    }

    /// Opens a run that was made before. Its manifest is not yet read.
    ///
    /// # Errors
    /// The path is not a directory with a manifest.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let metadata = fs::metadata(path).map_err(|e| StoreError::io("open", path, e))?;
        let not = |reason| StoreError::NotARun { path: path.to_owned(), reason };
        if !metadata.is_dir() {
            return Err(not("it is not a directory"));
        }
        let run = Self { path: path.to_owned() };
        if !run.manifest().is_file() {
            return Err(not("it has no manifest.json"));
        }
        Ok(run)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its own name, without the parent's.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// `manifest.json`.
    pub fn manifest(&self) -> PathBuf {
        self.path.join("manifest.json")
    }

    /// `packets.seg`: packets as our receiver saw them.
    pub fn packets_segment(&self) -> PathBuf {
        self.path.join("packets.seg")
    }

    /// `stamps.seg`: packets as the kernel saw them.
    pub fn stamps_segment(&self) -> PathBuf {
        self.path.join("stamps.seg")
    }

    /// `events.seg`: what else the machine did.
    pub fn events_segment(&self) -> PathBuf {
        self.path.join("events.seg")
    }

    /// `anchors.seg`: pairings of the cycle counter with the kernel's clocks.
    pub fn anchors_segment(&self) -> PathBuf {
        self.path.join("anchors.seg")
    }

    /// `sends.seg`: packets as our source sent them.
    pub fn sends_segment(&self) -> PathBuf {
        self.path.join("sends.seg")
    }

    /// `turns.seg`: long turns of our polling receiver.
    pub fn turns_segment(&self) -> PathBuf {
        self.path.join("turns.seg")
    }

    /// `gaps-cpuN.seg`: gaps of the noise loop on one CPU.
    pub fn gaps_segment(&self, cpu: u16) -> PathBuf {
        self.path.join(format!("gaps-cpu{cpu}.seg"))
    }

    /// The segments of gaps that exist, by CPU.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn gaps_segments(&self) -> Result<Vec<(u16, PathBuf)>, StoreError> {
        let cpu_of = |path: &Path| {
            path.file_name()?.to_str()?.strip_prefix("gaps-cpu")?.strip_suffix(".seg")?.parse().ok()
        };
        let mut found: Vec<_> =
            self.files()?.into_iter().filter_map(|path| Some((cpu_of(&path)?, path))).collect();
        found.sort();
        Ok(found)
    }

    /// `samples.parquet`.
    pub fn samples(&self) -> PathBuf {
        self.path.join("samples.parquet")
    }

    /// `events.parquet`.
    pub fn events(&self) -> PathBuf {
        self.path.join("events.parquet")
    }

    /// `late.parquet`.
    pub fn late(&self) -> PathBuf {
        self.path.join("late.parquet")
    }

    /// `waits.parquet`.
    pub fn waits(&self) -> PathBuf {
        self.path.join("waits.parquet")
    }

    /// `gaps.parquet`.
    pub fn gaps(&self) -> PathBuf {
        self.path.join("gaps.parquet")
    }

    /// `names.json`.
    pub fn names(&self) -> PathBuf {
        self.path.join("names.json")
    }

    /// `summary.json`.
    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.json")
    }

    /// `report.html`.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// Writes the manifest, replacing the one before as a whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        write_json(&self.manifest(), manifest)
    }

    /// An instrument's own facts in the manifest, where it stored any.
    ///
    /// # Errors
    /// The value does not have the shape of `T`.
    pub fn read_facts<T: DeserializeOwned>(&self, facts: Option<&Value>) -> Result<Option<T>, StoreError> {
        let parse = |source| StoreError::Json { path: self.manifest(), source };
        facts.map(|facts| T::deserialize(facts)).transpose().map_err(parse)
    }

    /// Reads the manifest.
    ///
    /// # Errors
    /// The file cannot be read, is of a later format, or is no manifest.
    pub fn read_manifest(&self) -> Result<Manifest, StoreError> {
        let path = self.manifest();
        let text = fs::read(&path).map_err(|e| StoreError::io("read", &path, e))?;
        Manifest::parse(&path, &text)
    }

    /// Writes the names that events refer to.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_names(&self, names: &Names) -> Result<(), StoreError> {
        write_json(&self.names(), names)
    }

    /// Reads the names; a run that was killed before they were written has none.
    ///
    /// # Errors
    /// The file is there but cannot be read.
    pub fn read_names(&self) -> Result<Names, StoreError> {
        match read_json(&self.names()) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Ok(Names::default())
            }
            other => other,
        }
    }

    /// `details.json`.
    pub fn details(&self) -> PathBuf {
        self.path.join("details.json")
    }

    /// Writes `summary.json`. One of more than [`bounded::MOST_BYTES`] is shortened, and `details.json` has all of it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_summary(&self, summary: &impl Serialize) -> Result<(), StoreError> {
        let (path, details) = (self.summary(), self.details());
        let whole = pretty(&path, summary)?;
        if whole.len() <= bounded::MOST_BYTES {
            write_atomically(&path, &whole)?;
            return match fs::remove_file(&details) {
                Err(e) if e.kind() != ErrorKind::NotFound => Err(StoreError::io("remove", &details, e)),
                _ => Ok(()),
            };
        }
        write_atomically(&details, &whole)?;
        let parse = |source| StoreError::Json { path: details.clone(), source };
        let whole: Value = serde_json::from_slice(&whole).map_err(parse)?;
        let size = |value: &Value| pretty(&path, value).map_or(usize::MAX, |text| text.len());
        let short = bounded::shortened(&whole, |value| size(value) <= bounded::MOST_BYTES);
        write_json(&path, &short)
    }

    /// The file that has all of the summary: `details.json` only where `summary.json` says that it was shortened.
    pub fn whole_summary(&self) -> PathBuf {
        let details = self.details();
        let is_short = || {
            let summary: Option<Value> = read_json(&self.summary()).ok();
            summary.is_some_and(|summary| summary.get(bounded::LEFT_OUT).is_some())
        };
        if details.is_file() && is_short() { details } else { self.summary() }
    }

    /// Reads all of the summary, as that of the verb.
    ///
    /// # Errors
    /// The file cannot be read or is not of that type.
    pub fn read_summary<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        read_json(&self.whole_summary())
    }

    /// Writes `report.html`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_report(&self, html: &str) -> Result<(), StoreError> {
        write_atomically(&self.report(), html.as_bytes())
    }

    /// Whether a table is there to be read. If not, raw segments hold the same, or the run was killed before it recorded.
    ///
    /// # Errors
    /// The run came to its end and has neither: this is a copy of a part of it.
    pub fn has_table(&self, manifest: &Manifest, table: &Path) -> Result<bool, StoreError> {
        if table.is_file() {
            return Ok(true);
        }
        if manifest.ended_realtime_ns.is_none() || self.files()?.iter().any(|path| is_segment(path)) {
            return Ok(false);
        }
        Err(StoreError::Gone { path: table.to_owned() })
    }

    /// Removes the raw segments, once they are converted. Returns how many bytes that frees.
    ///
    /// # Errors
    /// One of them cannot be removed.
    pub fn remove_raw(&self) -> Result<u64, StoreError> {
        let mut freed = 0;
        for path in self.files()? {
            if is_segment(&path) {
                freed += fs::metadata(&path).map_or(0, |m| m.len());
                fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, e))?;
            }
        }
        Ok(freed)
    }

    fn files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let list = |e| StoreError::io("list", &self.path, e);
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(list)? {
            paths.push(entry.map_err(list)?.path());
        }
        paths.sort();
        Ok(paths)
    }
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
}

/// Writes a file so that a reader, or a crash, sees the old one or the new one, never a part: a file beside it
/// is written, synced and renamed over it.
pub(crate) fn write_atomically(path: &Path, octets: &[u8]) -> Result<(), StoreError> {
    let beside = beside(path);
    let write = |e| StoreError::io("write", path, e);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(octets)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // The error that matters is the one above; a leftover is overwritten by the next attempt.
        let _ = fs::remove_file(&beside);
        return Err(write(error));
    }
    rename_into_place(&beside, path)
}

/// Name under which a file is written before it takes its place.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Renames a finished file over `path` and makes the rename last.
pub(crate) fn rename_into_place(beside: &Path, path: &Path) -> Result<(), StoreError> {
    fs::rename(beside, path).map_err(|e| StoreError::io("rename to", path, e))?;
    let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) else { return Ok(()) };
    File::open(parent).and_then(|d| d.sync_all()).map_err(|e| StoreError::io("sync directory", parent, e))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    write_atomically(path, &pretty(path, value)?)
}

fn pretty(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|source| StoreError::Json { path: path.to_owned(), source })?;
    text.push(b'\n');
    Ok(text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let text = fs::read(path).map_err(|e| StoreError::io("read", path, e))?;
    serde_json::from_slice(&text).map_err(|source| StoreError::Json { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_made_opened_and_told_from_other_directories() {
        let parent = tempfile::tempdir().unwrap();
        let below = parent.path().join("runs");
        let (a, b) = (RunDir::create(&below, "chase").unwrap(), RunDir::create(&below, "chase").unwrap());
        assert_ne!(a, b);
        assert!(a.name().starts_with("chase-2"), "{}", a.name());
        assert_eq!(a.name().len(), "chase-20261120T165800Z-7f3a".len());
        assert!(matches!(RunDir::open(a.path()), Err(StoreError::NotARun { .. })));
        a.write_report("<p>").unwrap();
        fs::write(a.manifest(), "{}").unwrap();
        assert_eq!(RunDir::open(a.path()).unwrap(), a);
        assert!(matches!(RunDir::open(&a.report()), Err(StoreError::NotARun { .. })));
        assert!(RunDir::create(&below, "../x").is_err());
        assert_eq!(a.read_names().unwrap(), Names::default(), "a killed run has no names yet");
    }

    #[test]
    fn raw_segments_are_found_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let run = RunDir::create(parent.path(), "noise").unwrap();
        for cpu in [10, 2] {
            fs::write(run.gaps_segment(cpu), [0; 100]).unwrap();
        }
        fs::write(run.summary(), "{}").unwrap();
        let cpus: Vec<u16> = run.gaps_segments().unwrap().into_iter().map(|(cpu, _)| cpu).collect();
        assert_eq!(cpus, [2, 10]);
        assert_eq!(run.remove_raw().unwrap(), 200);
        assert!(run.summary().exists() && run.gaps_segments().unwrap().is_empty());
    }

    #[test]
    fn files_of_a_run_keep_their_names() {
        let run = RunDir { path: PathBuf::from("/runs/chase-x") };
        let names = [
            (run.manifest(), "manifest.json"),
            (run.packets_segment(), "packets.seg"),
            (run.stamps_segment(), "stamps.seg"),
            (run.events_segment(), "events.seg"),
            (run.anchors_segment(), "anchors.seg"),
            (run.sends_segment(), "sends.seg"),
            (run.turns_segment(), "turns.seg"),
            (run.gaps_segment(12), "gaps-cpu12.seg"),
            (run.samples(), "samples.parquet"),
            (run.events(), "events.parquet"),
            (run.gaps(), "gaps.parquet"),
            (run.names(), "names.json"),
            (run.summary(), "summary.json"),
            (run.report(), "report.html"),
        ];
        for (path, name) in names {
            assert_eq!(path, Path::new("/runs/chase-x").join(name));
        }
        assert_eq!(run.name(), "chase-x");
        assert_eq!(
            (run.path(), beside(&run.samples())),
            (Path::new("/runs/chase-x"), PathBuf::from("/runs/chase-x/samples.parquet.part"))
        );
    }

    #[test]
    fn what_is_written_into_a_run_is_read_again() {
        let parent = tempfile::tempdir().unwrap();
        let run = RunDir::create(parent.path(), "chase").unwrap();
        let names = Names { task: [(7, "hog".to_owned())].into(), ..Names::default() };
        run.write_names(&names).unwrap();
        run.write_summary(&[1, 2, 3]).unwrap();
        run.write_report("<p>hello</p>").unwrap();
        assert_eq!(run.read_names().unwrap(), names);
        assert_eq!(run.read_summary::<Vec<u32>>().unwrap(), [1, 2, 3]);
        assert_eq!(fs::read_to_string(run.report()).unwrap(), "<p>hello</p>");
        let long = serde_json::json!({"numbers": (0..50_000).collect::<Vec<u32>>(), "mean": 0.1});
        run.write_summary(&long).unwrap();
        assert!(fs::metadata(run.summary()).unwrap().len() <= bounded::MOST_BYTES as u64);
        let short: Value = read_json(&run.summary()).unwrap();
        let kept = short["numbers"].as_array().unwrap().len();
        assert_eq!(
            (&short["mean"], &short[bounded::LEFT_OUT]["numbers"]),
            (&0.1.into(), &(50_000 - kept).into())
        );
        assert_eq!(run.read_summary::<Value>().unwrap(), long, "nothing is lost");
        run.write_summary(&[1, 2, 3]).unwrap();
        assert_eq!(run.read_summary::<Vec<u32>>().unwrap(), [1, 2, 3], "no details of before");
        fs::write(run.names(), "[").unwrap();
        assert!(matches!(run.read_names(), Err(StoreError::Json { .. })), "damaged is not missing");
        assert!(matches!(run.read_summary::<String>(), Err(StoreError::Json { .. })));
    }
}
