//! Samples as an HdrHistogram log (version 1.3), which the HdrHistogram packages of many languages read: a line a quantity, with its
//! identifier as tag. The whole run is one interval.

use super::spans;
use crate::material::{Samples, Spans};
use crate::registry::{Analyzed, not_exported};
use anyhow::Context;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use quaver_store::run::RunDir;
use quaver_store::table::Table;
use quaver_view::Unit;
use std::time::{Duration, SystemTime};

/// Significant digits of each value.
const DIGITS: u8 = 3;

/// The log, in nanoseconds: of the kind's quantities, else of its spans.
pub(super) fn log(run: &RunDir, found: &dyn Analyzed, known: &[&'static Table]) -> anyhow::Result<Vec<u8>> {
    let is_time = |one: &Samples| one.unit == Unit::Duration && !one.values.is_empty();
    let mut quantities: Vec<Samples> = found.material().samples.into_iter().filter(is_time).collect();
    if quantities.is_empty() {
        let of_table = |table: Spans| {
            let id = if table.unit == "ns" { table.place } else { format!("{}-{}", table.place, table.unit) };
            Samples::durations(id, "", table.lengths)
        };
        quantities = spans::of_run(run, found, known)?.into_iter().map(of_table).collect();
    }
    if quantities.is_empty() {
        return Err(not_exported(
            "--hdr: these runs keep no samples of a time; --openmetrics has their numbers",
        ));
    }
    let manifest = run.read_manifest()?;
    let started = u64::try_from(manifest.started_realtime_ns).unwrap_or_default();
    let ended = manifest.ended_realtime_ns.and_then(|end| u64::try_from(end).ok()).unwrap_or(started);
    let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(started);
    let (mut out, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(&format!("[Logged with quaver {}]", env!("CARGO_PKG_VERSION")));
    builder.add_comment(&format!("{}, nanoseconds, {DIGITS} significant digits", run.name()));
    builder.with_start_time(start).with_base_time(start).with_max_value_divisor(1.0);
    let mut log = builder.begin_log_with(&mut out, &mut serializer)?;
    for quantity in quantities {
        let mut histogram = Histogram::<u64>::new(DIGITS).context("making a histogram")?;
        let mut negative = 0;
        for value in &quantity.values {
            if *value < 0.0 {
                negative += 1;
            } else {
                histogram.record(*value as u64).context("counting a sample")?;
            }
        }
        if negative > 0 {
            let (id, all) = (&quantity.id, quantity.values.len());
            let words = format!(
                "{id}: {negative} of {all} samples are negative and missing here: a histogram has none"
            );
            crate::tell!("{words}");
            log.write_comment(&words)?;
        }
        let tag = quantity.id.replace([',', ' '], "-");
        let length = Duration::from_nanos(ended.saturating_sub(started));
        log.write_histogram(&histogram, Duration::ZERO, length, Tag::new(&tag))
            .map_err(|error| anyhow::anyhow!("writing the histogram of {tag}: {error:?}"))?;
    }
    drop(log);
    Ok(out)
}
