//! Where packets are written: one file, standard output, or files in turn.

use quaver_store::pcapng::{
    InterfaceFacts, InterfaceStatistics, PacketRecord, PcapngWriter, SectionFacts, WriteError,
};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When another file begins, and how many are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rotation {
    /// After so many octets.
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

type Writer = PcapngWriter<Box<dyn Write + Send>>;

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
    /// Packets in this file, of each interface.
    packets: Vec<u64>,
    kept: VecDeque<PathBuf>,
    /// Octets of the files before.
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
            packets: vec![0; interfaces.len()],
            section,
            interfaces,
            facts,
            rotation,
            begun: Instant::now(),
            number: 1,
            kept: kept.into_iter().collect(),
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

    /// Writes a packet; into another file where this one is full.
    pub(super) fn packet(&mut self, interface: u32, packet: &PacketRecord<'_>) -> Result<(), WriteError> {
        if self.rotation.size.is_some_and(|most| self.writer.octets() >= most) {
            self.rotate()?;
        }
        self.packets[interface as usize] += 1;
        self.writer.packet(interface, packet)
    }

    /// Begins another file if this one is old enough.
    pub(super) fn rotate_by_time(&mut self) -> Result<(), WriteError> {
        match self.rotation.time {
            Some(most) if self.begun.elapsed() >= most => self.rotate(),
            _ => Ok(()),
        }
    }

    /// A file that is closed before the capture ends knows its own packets only: what was dropped stands in the last.
    fn rotate(&mut self) -> Result<(), WriteError> {
        let taken_ns = now_ns();
        for (interface, packets) in self.packets.iter().enumerate() {
            let counted = InterfaceStatistics {
                taken_ns,
                delivered: Some(*packets),
                comment: Some("packets of this file; what was dropped stands in the last file".to_owned()),
                ..InterfaceStatistics::default()
            };
            self.writer.statistics(interface as u32, &counted)?;
        }
        self.writer.flush()?;
        self.before += self.writer.octets();
        self.number += 1;
        let (target, path) = open(&self.base, self.rotation, self.number)?;
        self.kept.extend(path);
        self.writer = PcapngWriter::new(target, &self.section)?;
        self.packets.fill(0);
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

    /// Hands over what is in memory, in whole blocks.
    pub(super) fn flush(&mut self) -> Result<(), WriteError> {
        self.writer.flush()
    }

    /// Octets of all files so far.
    pub(super) fn octets(&self) -> u64 {
        self.before + self.writer.octets()
    }

    /// Files that are there; none for standard output.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.kept.iter().cloned().collect()
    }

    /// Writes the counts of each interface, with the facts of the run beside the first, and closes.
    pub(super) fn finish(mut self, counted: &[InterfaceStatistics]) -> Result<Vec<PathBuf>, WriteError> {
        for (interface, counted) in counted.iter().enumerate() {
            let run_facts = (interface == 0).then(|| self.facts.clone());
            let counted = InterfaceStatistics { run_facts, ..counted.clone() };
            self.writer.statistics(interface as u32, &counted)?;
        }
        let files = self.files();
        self.writer.finish()?;
        Ok(files)
    }
}

/// Somebody may have moved the file away, or deleted it.
fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path).or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// CLOCK_REALTIME in nanoseconds.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn open(
    base: &Path,
    rotation: Rotation,
    number: u32,
) -> io::Result<(Box<dyn Write + Send>, Option<PathBuf>)> {
    if base == Path::new("-") {
        // Past the standard library's buffer, which looks for ends of lines.
        return Ok((Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)), None));
    }
    let path = if rotation.rotates() { numbered(base, number) } else { base.to_owned() };
    Ok((Box::new(File::create(&path)?), Some(path)))
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
    fn a_file_that_was_moved_away_does_not_end_the_capture() {
        let folder = tempfile::tempdir().unwrap();
        let rotation = Rotation { size: Some(1), time: None, files: Some(2) };
        let path = folder.path().join("out.pcapng");
        let mut output =
            Output::open(&path, SectionFacts::default(), Vec::new(), Value::Null, rotation).unwrap();
        for _ in 0..2 {
            std::fs::remove_file(&output.files()[0]).unwrap();
            output.rotate().unwrap();
            output.rotate().unwrap();
        }
        assert_eq!((output.files().len(), output.number), (2, 5));
        assert!(output.files().iter().all(|file| file.exists()));
    }
}
