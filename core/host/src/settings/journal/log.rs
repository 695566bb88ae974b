//! The journal's file: appending to it durably, and reading it back after any crash.

use super::super::error::TuneError;
use super::record::{FORMAT, Record, line, parse};
use super::steps::{Step, Steps};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the journal in its directory.
pub const JOURNAL: &str = "tune.journal";

/// What is in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Its whole records.
    pub(super) records: Vec<Record>,
    /// Bytes up to the end of the last whole record.
    whole: u64,
    /// Whether an unfinished line follows them: a crash while it was appended, before anything was changed for it.
    torn: bool,
}

/// Reads the journal. No file is an empty one.
///
/// # Errors
/// [`TuneError::BadJournal`] where more than the last line is damaged, since then something changed may be unknown.
pub(super) fn read(directory: &Path) -> Result<Content, TuneError> {
    let path = directory.join(JOURNAL);
    let failed = |error| TuneError::new(format!("reading {}", path.display()), error);
    let mut file = match std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(failed(error)),
    };
    let about = file.metadata().map_err(failed)?;
    if about.uid() != 0 && about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
        return Err(bad(&path, "others may write it, so it cannot be trusted; look at it, then remove it"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    content(&path, &bytes)
}

fn content(path: &Path, bytes: &[u8]) -> Result<Content, TuneError> {
    let mut content = Content::default();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        match parse(line) {
            Some(record) => content.records.push(record),
            // What was not synced may have reached the disk in any shape, but only the last line can be that.
            None if !after.contains(&b'\n') => break,
            None => {
                let number = content.records.len() + 1;
                return Err(bad(
                    path,
                    &format!(
                        "line {number} is damaged; the lines after it tell what to put back by hand, then remove it"
                    ),
                ));
            }
        }
        content.whole += end as u64 + 1;
        rest = after;
    }
    content.torn = !rest.is_empty();
    check(path, &content.records)?;
    Ok(content)
}

fn check(path: &Path, records: &[Record]) -> Result<(), TuneError> {
    for record in records {
        match record {
            Record::Begin { format, .. } if *format > FORMAT => {
                return Err(bad(path, &format!("written by a newer quaver (format {format}); use that one")));
            }
            Record::Intent { knob, .. } => {
                if let Some(objection) = knob.objection() {
                    return Err(bad(path, &objection));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn bad(path: &Path, reason: &str) -> TuneError {
    TuneError::BadJournal { path: path.to_owned(), reason: reason.to_owned() }
}

/// The journal, open for appending. Whoever has it has the lock.
#[derive(Debug)]
pub(super) struct Log {
    directory: PathBuf,
    file: Option<File>,
}

impl Log {
    /// The journal of a directory, of which `content` was read under the lock. A torn line is cut off.
    pub(super) fn open(directory: &Path, content: &Content, steps: &dyn Steps) -> Result<Self, TuneError> {
        let mut log = Self { directory: directory.to_owned(), file: None };
        if content.torn {
            log.step(steps, Step::Cut)?;
            let file = log.opened()?;
            let cut = file.set_len(content.whole).and_then(|()| file.sync_all());
            cut.map_err(|error| log.failed("cutting", error))?;
        }
        Ok(log)
    }

    /// Appends a record and returns when it is on disk.
    pub(super) fn append(&mut self, record: &Record, steps: &dyn Steps) -> Result<(), TuneError> {
        let fresh = !self.directory.join(JOURNAL).exists();
        self.step(steps, Step::Append)?;
        let written = self.opened()?.write_all(&line(record));
        written.map_err(|error| self.failed("appending to", error))?;
        self.step(steps, Step::Sync)?;
        let synced = self.opened()?.sync_all();
        synced
            .and_then(|()| if fresh { self.sync_directory() } else { Ok(()) })
            .map_err(|error| self.failed("syncing", error))
    }

    /// Puts a new journal with these records in the place of the old one, as a whole or not at all.
    pub(super) fn renew(&mut self, records: &[Record], steps: &dyn Steps) -> Result<(), TuneError> {
        let text: Vec<u8> = records.iter().flat_map(line).collect();
        let beside = self.directory.join("tune.journal.new");
        self.step(steps, Step::Renew)?;
        let mut options = std::fs::OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
        let renewed = options
            .open(&beside)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .and_then(|()| std::fs::rename(&beside, self.directory.join(JOURNAL)))
            .and_then(|()| self.sync_directory());
        self.file = None;
        renewed.map_err(|error| self.failed("renewing", error))
    }

    fn opened(&mut self) -> Result<&mut File, TuneError> {
        if self.file.is_none() {
            let mut options = std::fs::OpenOptions::new();
            options.create(true).append(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(self.directory.join(JOURNAL));
            self.file = Some(file.map_err(|error| self.failed("opening", error))?);
        }
        Ok(self.file.as_mut().expect("it was just opened"))
    }

    fn sync_directory(&self) -> std::io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn step(&self, steps: &dyn Steps, step: Step) -> Result<(), TuneError> {
        steps.before(step).map_err(|error| self.failed("keeping", error))
    }

    fn failed(&self, what: &str, error: std::io::Error) -> TuneError {
        TuneError::at(what, &self.directory.join(JOURNAL), error)
    }
}
