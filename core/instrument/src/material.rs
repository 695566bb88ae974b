//! What an instrument gives to comparisons.

use quaver_analysis::attribution::Piece;
use quaver_analysis::summary::CauseSummary;
use quaver_view::Unit;

/// A run's time is cut into so many slices, which say how steadily a cause acted.
const SLICES: usize = 512;

/// What a comparison takes of a run.
#[derive(Clone, Debug, Default)]
pub struct Material {
    /// Quantities, the one that matters most first.
    pub samples: Vec<Samples>,
    /// Quantities of which another program stated figures and kept no samples.
    pub stated: Vec<Stated>,
    /// Causes by their time.
    pub causes: Vec<CauseTime>,
}

/// What another program stated about a quantity. Without samples in their order of time, nothing says how certain it is.
#[derive(Clone, Debug)]
pub struct Stated {
    /// Identifier, the same in every run and file.
    pub id: String,
    /// What it is, for people.
    pub name: String,
    /// What the numbers count.
    pub unit: Unit,
    /// The mean, where it is known.
    pub mean: Option<f64>,
    /// Percentiles by share of the samples, as far as they are known: (0.5, median), (0.99, …).
    pub percentiles: Vec<(f64, f64)>,
}

impl Stated {
    /// One share of a whole run.
    pub fn share(id: impl Into<String>, name: impl Into<String>, share: f64) -> Self {
        let (mean, percentiles) = (Some(share), Vec::new());
        Self { id: id.into(), name: name.into(), unit: Unit::Share, mean, percentiles }
    }
}

/// Samples of a quantity in their order of time.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Identifier, the same in every run: `delay`, `application.delta_t`.
    pub id: String,
    /// What it is, for people: `schedule to application`.
    pub name: String,
    /// What the numbers count.
    pub unit: Unit,
    /// The samples.
    pub values: Vec<f64>,
}

impl Samples {
    /// Durations in nanoseconds.
    pub fn durations(
        id: impl Into<String>,
        name: impl Into<String>,
        values_ns: impl IntoIterator<Item = i64>,
    ) -> Self {
        let values = values_ns.into_iter().map(|ns| ns as f64).collect();
        Self { id: id.into(), name: name.into(), unit: Unit::Duration, values }
    }
}

/// How much of the measured time a cause took.
#[derive(Clone, Debug)]
pub struct CauseTime {
    /// Identifier in the catalogue of sources.
    pub source: String,
    /// What it is in any run.
    pub name: String,
    /// Its part of each slice of the run, 0 to 1.
    pub shares: Vec<f64>,
}

/// Times of causes by the pieces that they took of the run from `span.0` to `span.1`.
pub fn cause_times<'a>(
    causes: &[CauseSummary],
    pieces: impl IntoIterator<Item = &'a Piece>,
    span: (i64, i64),
) -> Vec<CauseTime> {
    let whole = (span.1 - span.0).max(1) as f64;
    let mut times: Vec<CauseTime> = causes
        .iter()
        .map(|cause| CauseTime {
            source: cause.source.clone(),
            name: cause.stable_name().to_owned(),
            shares: vec![0.0; SLICES],
        })
        .collect();
    for piece in pieces {
        let Some(cause) = piece.cause.and_then(|cause| times.get_mut(cause as usize)) else { continue };
        let at = |ns: i64| ((ns - span.0) as f64 / whole * SLICES as f64).clamp(0.0, SLICES as f64);
        let (start, end) = (at(piece.start_ns), at(piece.end_ns));
        for slice in start as usize..(end.ceil() as usize).min(SLICES) {
            cause.shares[slice] += (end.min(slice as f64 + 1.0) - start.max(slice as f64)).max(0.0);
        }
    }
    times
}

/// Pieces of time of one kind, such as the rows of a table: for timelines and histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// What they are: the place of the table in the run, `late-lock.recorded`.
    pub place: String,
    /// What the numbers count: `ns`, `cycles`. Simulated time is in nanoseconds.
    pub unit: &'static str,
    /// When each began, by a clock that all spans of the run share; empty where nothing says when.
    pub starts: Vec<i64>,
    /// How long each was.
    pub lengths: Vec<i64>,
}
