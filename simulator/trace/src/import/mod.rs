//! Traces of other tools, made into traces of ours. Streamed: what is read is written, and little of it is kept.
//!
//! | format | what it lacks |
//! |---|---|
//! | DynamoRIO's drmemtrace | synchronisation; registers and classes of instructions |
//! | ChampSim | synchronisation, threads; sizes of accesses; what instructions compute |
//! | SynchroTrace's events | program counters, registers; which signal ended a wait |
//! | Valgrind's lackey | synchronisation, threads; registers and classes of instructions |
//!
//! What a trace lacks is in its [facts](crate::file::Facts::lacks), so that nobody takes a choice of ours for a measurement.

mod champsim;
mod drmemtrace;
mod lackey;
mod stitch;
mod synchrotrace;
mod text;
mod unpack;

use crate::file::{Facts, FileError};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use thiserror::Error;

/// Most threads of an imported trace: each needs some memory while the trace is written.
const MOST_THREADS: usize = 4096;

/// Whose trace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// DynamoRIO's drmemtrace, post-processed: entries of 12 bytes, a file for each thread or one for all.
    Drmemtrace,
    /// ChampSim: records of 64 bytes, a file for each core.
    Champsim,
    /// SynchroTrace's events as text: `sigil.events.out-N` for thread N, and `sigil.pthread.out`.
    Synchrotrace,
    /// What Valgrind's lackey prints with `--trace-mem=yes`.
    Lackey,
}

/// One of the files that make up a trace. It may be packed by gzip or zstd, or be a zip archive.
pub struct Input<'a> {
    /// Its name, for errors; of SynchroTrace it tells the thread.
    pub name: String,
    /// What is in it.
    pub octets: Box<dyn Read + 'a>,
}

impl<'a> Input<'a> {
    /// Bytes of this name.
    pub fn new(name: impl Into<String>, octets: impl Read + 'a) -> Self {
        Self { name: name.into(), octets: Box::new(octets) }
    }
}

/// Where something is in an input once it is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputPosition {
    /// So many bytes from its start.
    Octet(u64),
    /// In this line, the first of which is 1.
    Line(u64),
}

impl fmt::Display for InputPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Octet(octet) => write!(f, "byte {octet}"),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// A trace that cannot be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// What was read cannot be true.
    #[error("{input}, {place}: {reason}")]
    Damaged {
        /// Which input.
        input: String,
        /// Where in it.
        place: InputPosition,
        /// What is wrong there.
        reason: String,
    },
    /// An input cannot be read.
    #[error("read {input}: {source}")]
    Read {
        /// Which input.
        input: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The inputs make up no trace.
    #[error("{0}")]
    Inputs(String),
    /// Our trace cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Threads.
    pub threads: u32,
    /// Instructions that they ran.
    pub instructions: u64,
    /// Reads and writes of memory.
    pub accesses: u64,
    /// Steps of synchronisation, those that start threads included.
    pub syncs: u64,
    /// What was in the inputs and has no place in our trace, by name.
    pub left_out: BTreeMap<&'static str, u64>,
    /// What the trace cannot say; its facts have the same.
    pub lacks: Vec<String>,
}

impl Imported {
    fn leave_out(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }
}

/// Makes a trace of ours of `inputs` and writes it to `out`, which is given back.
///
/// # Errors
/// When an input cannot be read, or what it says cannot be true, or `out` cannot be written.
pub fn import<W: Write>(
    format: Format,
    inputs: Vec<Input<'_>>,
    out: W,
) -> Result<(W, Imported), ImportError> {
    if inputs.is_empty() {
        return Err(ImportError::Inputs("there is nothing to import".into()));
    }
    let mut sources = Vec::with_capacity(inputs.len());
    for input in inputs {
        sources.push(Source::new(input)?);
    }
    match format {
        Format::Drmemtrace => drmemtrace::import(sources, out),
        Format::Champsim => champsim::import(sources, out),
        Format::Synchrotrace => synchrotrace::import(sources, out),
        Format::Lackey => lackey::import(sources, out),
    }
}

/// An input, unpacked.
struct Source<'a> {
    name: String,
    octets: Box<dyn io::BufRead + 'a>,
}

impl<'a> Source<'a> {
    fn new(input: Input<'a>) -> Result<Self, ImportError> {
        let Input { name, octets } = input;
        match unpack::unpacked(octets) {
            Ok(octets) => Ok(Self { name, octets }),
            Err(error) => Err(failed(&name, InputPosition::Octet(0), error)),
        }
    }

    fn damaged(&self, place: InputPosition, reason: impl Into<String>) -> ImportError {
        ImportError::Damaged { input: self.name.clone(), place, reason: reason.into() }
    }

    /// Fills `buffer`, or finds the input at its end and gives false.
    fn fill(&mut self, buffer: &mut [u8], at: u64) -> Result<bool, ImportError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.octets.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => {
                    return Err(self.damaged(InputPosition::Octet(at), "it ends in the middle of a record"));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.name, InputPosition::Octet(at), error)),
            }
        }
        Ok(true)
    }
}

/// What reading ended with: the system's word, or that of an unpacker, which means that the input is damaged.
fn failed(input: &str, place: InputPosition, error: io::Error) -> ImportError {
    let input = input.to_owned();
    let unpacker = error.raw_os_error().is_none()
        && matches!(
            error.kind(),
            io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::Other
        );
    if unpacker {
        ImportError::Damaged { input, place, reason: error.to_string() }
    } else {
        ImportError::Read { input, source: error }
    }
}

/// The facts of an imported trace.
fn facts(source: &str, from: &str, architecture: &str, lacks: &[String]) -> Facts {
    Facts {
        program: vec![source.to_owned()],
        tool: format!("quaver {}, from {from}", env!("CARGO_PKG_VERSION")),
        architecture: architecture.to_owned(),
        lacks: lacks.to_vec(),
    }
}
