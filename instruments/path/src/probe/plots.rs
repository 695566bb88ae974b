//! `quaver probe --plots` and `--gnuplot`: Jitlat's plots of each direction.

use crate::args::ProbeArgs;
use crate::digest::{FlowResults, PathDigest};
use crate::plots::{self, DelayPlot, PathPlots, gnuplot};
use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::arrival::{Classified, delays_ns};
use quaver_arrivals::path::histogram::{DEFAULT_BINS, Histogram};
use quaver_arrivals::path::variation::pdv_ns;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results::to_stdout;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Draws below the page and writes for gnuplot, each where it was asked for.
pub(super) fn show(args: &ProbeArgs, digest: &PathDigest) -> anyhow::Result<()> {
    if let Some(directory) = &args.gnuplot {
        for_gnuplot(digest, directory)?;
    }
    if args.plots { each(digest, draw) } else { Ok(()) }
}

/// Writes data and script for gnuplot into `directory/up` and `directory/down`, as far as there are packets.
pub(crate) fn for_gnuplot(digest: &PathDigest, directory: &Path) -> anyhow::Result<()> {
    each(digest, |plots, way| write_gnuplot(&directory.join(way), plots))
}

/// Does something with the plots of each direction, and its name.
fn each(
    digest: &PathDigest,
    mut take: impl FnMut(&PathPlots<'_>, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for results in digest.summary.flows() {
        let mut flows = digest.flows.iter().zip(&digest.timed);
        let flow = flows.find(|((flow, _), _)| flow.direction == results.flow.direction);
        let Some(((_, classified), timed)) = flow else { continue };
        flow_plots(digest, results, classified, timed, &mut take)?;
    }
    Ok(())
}

fn flow_plots(
    digest: &PathDigest,
    results: &FlowResults,
    classified: &Classified,
    timed: &[Arrival],
    take: &mut dyn FnMut(&PathPlots<'_>, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let figures = &results.figures;
    let (flow, name) = (&results.flow, results.flow.direction.name());
    let title = format!("{name}: {} to {}, {}", flow.source, flow.destination, digest.run.name);
    let delays = delays_ns(&classified.arrivals);
    let up_to = |values: &[i64], limit_ns| Histogram::new(values, DEFAULT_BINS, limit_ns);
    let latency = figures.delay.as_ref().and_then(|delay| up_to(&delays, delay.as_measured.p99_ns));
    let by_one_clock = delays_ns(timed);
    let corrected = figures.delay.as_ref().and_then(|delay| delay.corrected.as_ref());
    let corrected = corrected.and_then(|corrected| up_to(&by_one_clock, corrected.p99_ns));
    let pdv = figures.variation.as_ref();
    let pdv = pdv.and_then(|variation| up_to(&pdv_ns(&by_one_clock), variation.pdv.p99_ns));
    let plots = PathPlots {
        title: &title,
        latency: latency.as_ref(),
        corrected: corrected.as_ref(),
        pdv: pdv.as_ref(),
        arrivals: timed,
        line: figures.burstiness,
        loss_lengths: &figures.loss.pattern.period_lengths,
        duplication_lengths: &figures.duplication.lengths,
        density: figures.density.as_ref(),
    };
    take(&plots, name)
}

/// Draws below the page.
fn draw(plots: &PathPlots<'_>, _way: &str) -> anyhow::Result<()> {
    let document = plots::document("probe", plots, &[DelayPlot::Latency, DelayPlot::Pdv]);
    let text = quaver_instrument::terminal::page(&document, plots::style());
    to_stdout(format!("\n{text}").as_bytes())
}

/// Writes data and script into a directory, which is made where it is not there.
fn write_gnuplot(directory: &Path, plots: &PathPlots<'_>) -> anyhow::Result<()> {
    let made = std::fs::create_dir_all(directory).and_then(|()| {
        gnuplot::write_all(plots, |name| File::create(directory.join(name)).map(BufWriter::new))
    });
    // Whatever the system's reason, it is output that could not be written.
    made.map_err(|error| {
        failure(ExitCode::Output, format!("writing plots to {}: {error}", directory.display()))
    })
}
