//! The sentences that warn.

use quaver_analysis::summary::ChaseSummary;
use quaver_instrument::facts::{notes, warnings_of_any};
use quaver_store::manifest::Manifest;
use quaver_view::Cell;

/// What the reader should know before believing the numbers, each with what to do about it.
pub(super) fn of(summary: &ChaseSummary, manifest: &Manifest) -> Vec<String> {
    let mut warnings = warnings_of_any(manifest);
    let counts = manifest.analysis.as_ref().map(|facts| &facts.counts);
    if let Some(lost) = counts.map(|counts| counts.stamps_lost).filter(|lost| *lost > 0) {
        let lost = Cell::Count(lost);
        warnings.push(format!("{lost} kernel stamps overwritten before reading; use a shorter run"));
    }
    if summary.losses.received == 0 {
        warnings.push("no packet received: check the sink's CPU and filters on the stream".to_owned());
    }
    if summary.losses.unaccounted > 0 {
        let missing = Cell::Count(summary.losses.unaccounted);
        warnings.push(format!(
            "{missing} packets missing at an unknown place; more tracing (see `quaver doctor`) would locate them"
        ));
    }
    warnings.extend(notes(manifest));
    warnings
}
