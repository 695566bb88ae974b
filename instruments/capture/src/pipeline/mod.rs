//! Pipelines: who turns what the hot path read into time, and when.
//!
//! The hot path calls [`Stamper::stamp`] once a packet (or a block) and keeps the [`RawStamp`]. Whoever writes
//! packets out hands the raw stamps to the [`Resolver`], in the order in which they were taken, and gets
//! [`LayerStamp`]s. Both halves may live on one thread or on two.
//!
//! ```text
//! kind          hot path                      elsewhere
//! inline-clock  clock_gettime                 nothing
//! inline-cycles cycles, multiply              nothing
//! threaded      cycles ─> ring ─────────────> converter thread ─> ring ─> Resolver (the paper's)
//! batch         cycles                        Resolver multiplies (the default)
//! ```
//!
//! A stamp never waits and never calls the kernel. Where the paper's ring has no room, the stamp is not handed
//! over: the Resolver converts it itself and both halves count it. The same happens where a converter thread
//! has ended, so that no stamp is ever lost.

mod converter;
mod read;
mod resolver;
mod stamper;

pub use read::cycles_unordered;
pub use resolver::{Resolved, Resolver};
pub use stamper::{RawStamp, Stamp, StampWith, Stamper};

use quaver_abi::stamp::{LayerStamp, StampClock};
use quaver_clock::Counter;
use quaver_clock::live::LiveReader;
use quaver_probe::thread::{SettingRefused, ThreadSettings};
use std::str::FromStr;

/// Who converts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PipelineKind {
    /// The hot path asks the kernel's clock (CLOCK_REALTIME through the vDSO).
    InlineClock,
    /// The hot path reads cycles and converts them.
    InlineCycles,
    /// The hot path reads cycles and hands them to threads on other CPUs, which send the instants back: the
    /// paper's method.
    Threaded {
        /// Converter threads, 1 to [`MAX_CONVERTERS`].
        converters: u8,
    },
    /// The hot path reads cycles; whoever writes the packets converts many at once.
    #[default]
    Batch,
}

/// Most converter threads of [`PipelineKind::Threaded`].
pub const MAX_CONVERTERS: u8 = 16;

impl PipelineKind {
    /// One of each, the paper's with one converter.
    pub const ALL: [Self; 4] =
        [Self::InlineClock, Self::InlineCycles, Self::Threaded { converters: 1 }, Self::Batch];

    /// Its name, without the count of converters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InlineClock => "inline-clock",
            Self::InlineCycles => "inline-cycles",
            Self::Threaded { .. } => "threaded",
            Self::Batch => "batch",
        }
    }
}

impl std::fmt::Display for PipelineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Threaded { converters } if *converters > 1 => write!(f, "threaded:{converters}"),
            kind => f.write_str(kind.name()),
        }
    }
}

/// No pipeline has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "pipeline {0:?}: use inline-clock, inline-cycles, batch, threaded, or threaded:N with 1 to {MAX_CONVERTERS}"
)]
pub struct UnknownPipeline(pub String);

impl FromStr for PipelineKind {
    type Err = UnknownPipeline;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if let Some(count) = name.strip_prefix("threaded:") {
            return match count.parse() {
                Ok(converters @ 1..=MAX_CONVERTERS) => Ok(Self::Threaded { converters }),
                _ => Err(UnknownPipeline(name.to_owned())),
            };
        }
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownPipeline(name.to_owned()))
    }
}

/// Turns cycles into time. Cheap to clone: each converter thread has its own.
pub trait Convert: Clone + Send + 'static {
    /// The instant of a cycle reading and its bound.
    fn layer_stamp(&self, cycles: u64) -> LayerStamp;
}

/// An epoch of the live clock as stamps have it: 0 is none.
fn epoch(number: u32) -> u16 {
    (number % u32::from(u16::MAX)) as u16 + 1
}

impl Convert for LiveReader {
    #[inline]
    fn layer_stamp(&self, cycles: u64) -> LayerStamp {
        let instant = self.convert(cycles);
        let clock = if instant.fallback { StampClock::Realtime } else { StampClock::Cycles };
        LayerStamp {
            clock,
            time_ns: instant.realtime_ns,
            bound_ns: instant.bound_ns,
            epoch: epoch(instant.epoch),
        }
    }
}

/// How a pipeline is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineSettings {
    /// Who converts.
    pub kind: PipelineKind,
    /// What raw stamps are read from.
    pub counter: Counter,
    /// Slots of each ring to and from a converter thread.
    pub ring_slots: usize,
    /// Thread settings of each converter, in turn (the first for the first); the default for those beyond.
    pub converters: Vec<ThreadSettings>,
}

impl PipelineSettings {
    /// Of that kind: 16,384 slots, converters wherever the scheduler puts them.
    pub fn new(kind: PipelineKind, counter: Counter) -> Self {
        Self { kind, counter, ring_slots: 16_384, converters: Vec::new() }
    }
}

/// A pipeline could not be started.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A setting that a converter thread requires.
    #[error("converter thread: {0}")]
    Thread(#[from] SettingRefused),
    /// No thread.
    #[error("start converter thread: {0}; raise the limit of threads (ulimit -u), or use --pipeline batch")]
    Spawn(#[source] std::io::Error),
    /// A count out of range.
    #[error("{0} converter threads: give 1 to {MAX_CONVERTERS}")]
    Converters(u8),
}

/// Starts a pipeline: its two halves. Converter threads end when the [`Resolver`] is dropped, or when the
/// [`Stamper`] is and nothing is left to convert.
///
/// # Errors
/// When a converter thread cannot be started or is refused what it requires.
pub fn start<C: Convert>(
    settings: &PipelineSettings,
    convert: C,
) -> Result<(Stamper<C>, Resolver<C>), PipelineError> {
    let mut lanes_out = Vec::new();
    let mut lanes_back = Vec::new();
    if let PipelineKind::Threaded { converters } = settings.kind {
        if !(1..=MAX_CONVERTERS).contains(&converters) {
            return Err(PipelineError::Converters(converters));
        }
        for index in 0..usize::from(converters) {
            let thread = settings.converters.get(index).cloned().unwrap_or_default();
            let (out, back) = converter::spawn(
                index,
                settings.ring_slots.max(1),
                thread,
                settings.counter,
                convert.clone(),
            )?;
            lanes_out.push(out);
            lanes_back.push(back);
        }
    }
    let stamper = Stamper::new(settings.kind, settings.counter, convert.clone(), lanes_out);
    Ok((stamper, Resolver::new(convert, lanes_back)))
}

#[cfg(test)]
mod tests;
