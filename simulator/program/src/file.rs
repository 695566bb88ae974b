//! Trace files, opened: whatever reads traces from the system goes through here.

use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_trace::armour;
use quaver_trace::epochs::EpochReader;
use quaver_trace::file::{FileError, ReadAt, TraceReader};
use quaver_trace::meetings::Meetings;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A trace file, of which any part is read when it is needed. Counts what was read, which tells how far a simulation is.
#[derive(Debug)]
pub(super) struct TraceFile {
    source: Source,
    length: u64,
    read: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Source {
    File(File),
    /// Of a trace as text, which is small.
    Octets(Vec<u8>),
}

/// A trace as text is taken in whole, so it must not be longer.
const LONGEST_TEXT: u64 = 1 << 26;
/// As much of a file as tells that it is text.
const START: usize = 64;

/// A trace that was opened.
#[derive(Debug)]
pub(super) struct Trace {
    /// What is in it.
    pub(super) reader: TraceReader<TraceFile>,
    read: Arc<AtomicU64>,
    /// Barriers in it that are conditions, once somebody has looked.
    meetings: OnceLock<Arc<Meetings>>,
}

impl Trace {
    /// Bytes of the file that were read so far.
    pub(super) fn octets_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Barriers that the program made of a mutex and a condition. All steps are read for it, once; none where `goes_on` ends that.
    pub(super) fn meetings(&self, goes_on: &mut dyn FnMut() -> bool) -> Arc<Meetings> {
        Arc::clone(self.meetings.get_or_init(|| Arc::new(Meetings::of(&self.reader, goes_on))))
    }

    /// The same file, of which these are known.
    pub(super) fn with_meetings(mut self, meetings: Arc<Meetings>) -> Self {
        self.meetings = OnceLock::from(meetings);
        self
    }
}

impl ReadAt for TraceFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.source {
            Source::File(file) => file.read_exact_at(buffer, offset)?,
            Source::Octets(octets) => octets.read_at(offset, buffer)?,
        }
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Opens a trace. Its steps are not read yet.
///
/// # Errors
/// It is not there, or no trace, or damaged (status 5), or may not be read (status 3).
pub(super) fn open(path: &Path) -> anyhow::Result<Trace> {
    let source = source_of(path)?;
    let read = Arc::clone(&source.read);
    let reader = TraceReader::open(source).map_err(|error| refused(path, &error))?;
    Ok(Trace { reader, read, meetings: OnceLock::new() })
}

/// Opens a file of which parts are read when they are needed; one as text is taken in whole.
///
/// # Errors
/// As [`open`], of the file.
pub(super) fn source_of(path: &Path) -> anyhow::Result<TraceFile> {
    let said = |error: &io::Error| {
        let (code, remedy) = match error.kind() {
            io::ErrorKind::PermissionDenied => (ExitCode::Unsupported, "; check who owns it"),
            io::ErrorKind::NotFound => (ExitCode::BadInput, "; check the path"),
            _ => (ExitCode::BadInput, ""),
        };
        failure(code, format!("open the trace {}: {error}{remedy}", path.display()))
    };
    let file = File::open(path).map_err(|error| said(&error))?;
    let metadata = file.metadata().map_err(|error| said(&error))?;
    if !metadata.is_file() {
        let message = format!(
            "open the trace {}: it is no file; name the one that `quaver sim trace` wrote",
            path.display()
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let read = Arc::new(AtomicU64::new(0));
    let source = source(path, file, metadata.len()).map_err(|error| said(&error))?;
    let length = match &source {
        Source::File(_) => metadata.len(),
        Source::Octets(octets) => octets.len() as u64,
    };
    Ok(TraceFile { source, length, read })
}

/// Whether the file is a library of kernel activity.
///
/// # Errors
/// As [`open`], of the file.
pub(super) fn is_library(path: &Path) -> anyhow::Result<bool> {
    let source = source_of(path)?;
    let mut start = vec![0; START.min(source.length as usize)];
    Ok(source.read_at(0, &mut start).is_ok() && quaver_trace::epochs::is_library(&start))
}

/// Opens a library of kernel activity. Its epochs are not read yet.
///
/// # Errors
/// As [`open`].
pub(super) fn open_library(path: &Path) -> anyhow::Result<EpochReader<TraceFile>> {
    EpochReader::open(source_of(path)?).map_err(|error| refused(path, &error))
}

/// The file, or what it says where it is text.
fn source(path: &Path, file: File, length: u64) -> io::Result<Source> {
    let mut start = vec![0; START.min(length as usize)];
    file.read_exact_at(&mut start, 0)?;
    if !armour::is_armour(&start) {
        return Ok(Source::File(file));
    }
    let invalid = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
    if length > LONGEST_TEXT {
        let words = "it is text, and long: make a file of it first, by quaver sim trace --armour";
        return Err(invalid(words.to_owned()));
    }
    armour::decode(&std::fs::read(path)?).map(Source::Octets).map_err(invalid)
}

/// A trace that cannot be read, in a sentence with its place.
pub(super) fn refused(path: &Path, error: &FileError) -> anyhow::Error {
    failure(ExitCode::BadInput, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_instrument::exit_code::status_of;
    use quaver_trace::file::{Facts, TraceWriter};
    use quaver_trace::step::Steps;

    #[test]
    fn a_trace_is_opened_and_what_is_none_refused_with_its_name() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.qtrace");
        let mut writer = TraceWriter::new(File::create(&path).unwrap(), &Facts::default()).unwrap();
        writer.end(0);
        writer.finish().unwrap();
        let trace = open(&path).unwrap();
        assert_eq!(trace.reader.threads().collect::<Vec<_>>(), [0]);
        let before = trace.octets_read();
        trace.reader.steps(0).step(&mut Vec::new()).unwrap();
        assert!(trace.octets_read() > before, "steps are read when they are asked for");
        let text = place.path().join("a.qtrace.txt");
        std::fs::write(&text, armour::encode(&std::fs::read(&path).unwrap())).unwrap();
        assert_eq!(open(&text).unwrap().reader.threads().collect::<Vec<_>>(), [0]);
        std::fs::write(&text, "quaver trace in base64 (RFC 4648)\nUVR!\n").unwrap();
        let error = open(&text).unwrap_err();
        assert_eq!(status_of(&error, &[]), ExitCode::BadInput);
        assert!(error.to_string().contains("line 2"), "{error}");
        let other = place.path().join("b.txt");
        std::fs::write(&other, "no trace at all").unwrap();
        for (path, said) in [
            (other.as_path(), "b.txt: this is no trace that can be read here"),
            (place.path(), "it is no file"),
            (Path::new("/nowhere/c.qtrace"), "open the trace /nowhere/c.qtrace: No such file"),
        ] {
            let error = open(path).unwrap_err();
            assert_eq!(status_of(&error, &[]), ExitCode::BadInput);
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
