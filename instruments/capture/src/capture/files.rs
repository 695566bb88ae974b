//! Where packets are written: one file, standard output, or files in turn.

use quaver_pcapng::{
    InterfaceFacts, InterfaceStatistics, PacketRecord, PcapngWriter, SectionFacts, UnwrittenPacket,
    WriteError,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// When another file begins, and how many are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rotation {
    /// After so many bytes.
    pub(super) size: Option<u64>,
    /// After so long.
    pub(super) time: Option<Duration>,
    /// Files kept.
    pub(super) files: Option<usize>,
}

impl Rotation {
    fn rotates(&self) -> bool {
        self.size.is_some() || self.time.is_some()
    }
}

/// Between two looks for the reader of a pipe.
const LOOK: Duration = Duration::from_millis(20);
/// Rings of files that breaches may keep.
const MOST_SAVED: usize = 10;

type Writer = PcapngWriter<File>;

/// The files of a capture.
pub(super) struct Output {
    base: PathBuf,
    section: SectionFacts,
    interfaces: Vec<InterfaceFacts>,
    facts: Value,
    rotation: Rotation,
    writer: Writer,
    begun: Instant,
    number: u32,
    kept: VecDeque<PathBuf>,
    /// Files that are not removed, and how many of the next that end shall not be.
    saved: Vec<PathBuf>,
    saving: usize,
    /// Bytes of the files before.
    before: u64,
}

impl Output {
    /// Opens the first file, and writes what stands before the packets.
    pub(super) fn open(
        path: &Path,
        section: SectionFacts,
        interfaces: Vec<InterfaceFacts>,
        facts: Value,
        rotation: Rotation,
    ) -> Result<Self, WriteError> {
        let (target, kept) = open(path, rotation, 1)?;
        let mut output = Self {
            base: path.to_owned(),
            writer: PcapngWriter::new(target, &section)?,
            section,
            interfaces,
            facts,
            rotation,
            begun: Instant::now(),
            number: 1,
            kept: kept.into_iter().collect(),
            saved: Vec::new(),
            saving: 0,
            before: 0,
        };
        output.head()?;
        Ok(output)
    }

    fn head(&mut self) -> Result<(), WriteError> {
        for interface in &self.interfaces {
            self.writer.interface(interface)?;
        }
        self.writer.flush()
    }

    /// Writes a packet.
    pub(super) fn packet(&mut self, interface: u32, packet: &PacketRecord<'_>) -> Result<(), WriteError> {
        self.writer.packet(interface, packet)
    }

    /// Whether this file is large enough, and the next packet belongs into another.
    pub(super) fn is_full(&self) -> bool {
        self.rotation.size.is_some_and(|most| self.writer.octets() >= most)
    }

    /// Whether this file is old enough.
    pub(super) fn is_old(&self) -> bool {
        self.rotation.time.is_some_and(|most| self.begun.elapsed() >= most)
    }

    /// Ends this file with what each interface counted since it began, and begins another.
    pub(super) fn rotate(&mut self, counted: &[InterfaceStatistics]) -> Result<(), WriteError> {
        self.tell(counted)?;
        self.writer.flush()?;
        self.before += self.writer.octets();
        self.number += 1;
        let (target, path) = open(&self.base, self.rotation, self.number)?;
        if self.saving > 0 {
            self.saving -= 1;
            self.saved.extend(self.kept.pop_back());
        }
        self.kept.extend(path);
        self.writer = PcapngWriter::new(target, &self.section)?;
        self.begun = Instant::now();
        self.head()?;
        if let Some(files) = self.rotation.files {
            while self.kept.len() > files {
                if let Some(oldest) = self.kept.pop_front() {
                    remove(&oldest)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the files that are there now, and the next one, for good; whether there is room for them.
    pub(super) fn keep_around(&mut self) -> bool {
        if self.saved.len() >= MOST_SAVED * self.rotation.files.unwrap_or(0) {
            return false;
        }
        let current = self.kept.pop_back();
        self.saved.extend(self.kept.drain(..));
        self.kept.extend(current);
        self.saving = 2;
        true
    }

    /// Hands over what is in memory, in whole blocks.
    pub(super) fn flush(&mut self) -> Result<(), WriteError> {
        self.writer.flush()
    }

    /// After a failure: ends the file behind the last packet that is whole, and tells the packets that are not in it.
    pub(super) fn give_up(&mut self) -> Vec<UnwrittenPacket> {
        if self.base != Path::new("-") {
            // A file that keeps the begin of a packet is readable too: readers say that it was cut short.
            let _ = self.writer.get_ref().set_len(self.writer.whole_octets());
        }
        self.writer.unwritten().collect()
    }

    /// Whether it is a pipe whose reader went away, which a write would tell; but there may be nothing to write for long.
    pub(super) fn has_no_reader(&self) -> bool {
        let mut watched = [PollFd::new(self.writer.get_ref(), PollFlags::empty())];
        // Of a file nothing is said.
        rustix::event::poll(&mut watched, Some(&Timespec::default())).is_ok()
            && watched[0].revents().contains(PollFlags::ERR)
    }

    /// Bytes of all files so far.
    pub(super) fn octets(&self) -> u64 {
        self.before + self.writer.octets()
    }

    /// Files that are there; none for standard output.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.saved.iter().chain(&self.kept).cloned().collect()
    }

    /// Ends the last file in the same way, with what is to be known of the capture, and closes.
    pub(super) fn finish(
        mut self,
        counted: &[InterfaceStatistics],
        notes: &[String],
    ) -> Result<Vec<PathBuf>, WriteError> {
        if !notes.is_empty() {
            self.facts["notes"] = notes.into();
        }
        self.tell(counted)?;
        let files = self.files();
        self.writer.finish()?;
        Ok(files)
    }

    /// Writes the counts of each interface, with the facts of the run beside the first.
    fn tell(&mut self, counted: &[InterfaceStatistics]) -> Result<(), WriteError> {
        for (interface, counted) in counted.iter().enumerate() {
            let run_facts = (interface == 0).then(|| self.facts.clone());
            let counted = InterfaceStatistics { run_facts, ..counted.clone() };
            self.writer.statistics(interface as u32, &counted)?;
        }
        Ok(())
    }
}

/// Somebody may have moved the file away, or deleted it.
fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path).or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

fn open(base: &Path, rotation: Rotation, number: u32) -> io::Result<(File, Option<PathBuf>)> {
    if base == Path::new("-") {
        // Past the standard library's buffer, which looks for ends of lines.
        return Ok((File::from(io::stdout().as_fd().try_clone_to_owned()?), None));
    }
    let path = if rotation.rotates() { numbered(base, number) } else { base.to_owned() };
    Ok((create(&path)?, Some(path)))
}

/// Makes the file. Of a pipe it waits for a reader, and hears Ctrl-C meanwhile.
fn create(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        return File::create(path);
    }
    let mut without_waiting = File::options();
    without_waiting.write(true).custom_flags(libc::O_NONBLOCK);
    loop {
        match without_waiting.open(path) {
            Ok(pipe) => {
                rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
                return Ok(pipe);
            }
            Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
            Err(_) if quaver_waiting::asked_to_end() => {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted before anybody read it"));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// `out.pcapng` becomes `out_00001_20261120165800.pcapng`: number, and time of its beginning in UTC.
fn numbered(base: &Path, number: u32) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let stem = base.file_stem().unwrap_or_default().to_string_lossy();
    let extension = base.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    base.with_file_name(format!("{stem}_{number:05}_{digits}{}", extension.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_turn_have_numbers_and_times() {
        let name = numbered(Path::new("/x/out.pcapng"), 7);
        let name = name.to_str().unwrap();
        assert!(name.starts_with("/x/out_00007_20") && name.ends_with(".pcapng"), "{name}");
        assert_eq!(name.len(), "/x/out_00007_20261120165800.pcapng".len());
        assert!(!numbered(Path::new("out"), 1).to_str().unwrap().contains('.'));
    }

    #[test]
    fn files_around_a_breach_are_never_removed_and_breaches_do_not_fill_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let rotation = Rotation { size: Some(1), time: None, files: Some(2) };
        let path = folder.path().join("out.pcapng");
        let mut output =
            Output::open(&path, SectionFacts::default(), Vec::new(), Value::Null, rotation).unwrap();
        let numbers = |output: &Output| -> Vec<u32> {
            let number = |file: &PathBuf| file.file_name()?.to_str()?.get(4..9)?.parse().ok();
            output.files().iter().map(|file| number(file).unwrap()).collect()
        };
        (0..3).for_each(|_| output.rotate(&[]).unwrap());
        assert_eq!(numbers(&output), [3, 4]);
        assert!(output.keep_around());
        (0..5).for_each(|_| output.rotate(&[]).unwrap());
        assert_eq!(numbers(&output), [3, 4, 5, 8, 9]);
        assert!(output.files().iter().all(|file| file.exists()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
        while output.keep_around() {
            (0..3).for_each(|_| output.rotate(&[]).unwrap());
        }
        assert!((20..24).contains(&output.saved.len()), "{}", output.saved.len());
    }

    #[test]
    fn a_pipe_is_waited_for_and_its_reader_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        let (opened, by) = (path.clone(), Rotation::default());
        let writer = std::thread::spawn(move || {
            Output::open(&opened, SectionFacts::default(), Vec::new(), Value::Null, by).unwrap()
        });
        let reader = File::open(&path).unwrap();
        let output = writer.join().unwrap();
        assert!(!output.has_no_reader());
        // Without the flag that its opening took, a full pipe is waited for.
        let flags = rustix::fs::fcntl_getfl(output.writer.get_ref()).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        drop(reader);
        assert!(output.has_no_reader());
        let file = folder.path().join("file");
        let output = Output::open(&file, SectionFacts::default(), Vec::new(), Value::Null, by).unwrap();
        assert!(!output.has_no_reader());
    }

    #[test]
    fn a_file_that_was_moved_away_does_not_end_the_capture() {
        let folder = tempfile::tempdir().unwrap();
        let rotation = Rotation { size: Some(1), time: None, files: Some(2) };
        let path = folder.path().join("out.pcapng");
        let mut output =
            Output::open(&path, SectionFacts::default(), Vec::new(), Value::Null, rotation).unwrap();
        for _ in 0..2 {
            std::fs::remove_file(&output.files()[0]).unwrap();
            output.rotate(&[]).unwrap();
            output.rotate(&[]).unwrap();
        }
        assert_eq!((output.files().len(), output.number), (2, 5));
        assert!(output.files().iter().all(|file| file.exists()));
    }
}
