//! `quaver jitlat`: Jitlat itself (DRDC Ottawa TM 2011-047), client, server and re-analysis of logs.

pub mod args;
pub mod digest;
pub mod page;

mod live;
pub mod log;

use crate::jitlat::args::JitlatArgs;
use crate::jitlat::digest::{classified, page_figures};
use crate::jitlat::page::{JitlatPage, Origin, body, log_head};
use crate::jitlat_log::{LogHeader, read_log};
use crate::plots::{self, DelayPlot, PathPlots, gnuplot};
use anyhow::Context;
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::path::arrival::Classified;
use quaver_arrivals::path::clocks::ClockWarning;
use quaver_arrivals::path::density::{DISPLACEMENT_THRESHOLD, reorder_density};
use quaver_arrivals::path::duplication::duplication;
use quaver_arrivals::path::jitlat_figures::{JitlatFigures, PageVersion};
use quaver_arrivals::path::loss_pattern::{loss_pattern, loss_runs};
use quaver_host::confinement::{Files, SERVER};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::results::to_stdout;
use quaver_instrument::rights;
use quaver_path_record::{ServerOptions, serve};
use quaver_view::Cell;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// A client where there is a host, a reader where there is a file, else a server.
pub fn run(args: &JitlatArgs) -> anyhow::Result<ExitCode> {
    match (&args.file, &args.host) {
        (Some(file), _) => again(args, file),
        (None, Some(host)) => live::run(args, host),
        (None, None) => be_the_server(args),
    }
}

fn version(args: &JitlatArgs) -> PageVersion {
    if args.v1 { PageVersion::One } else { PageVersion::Two }
}

/// `-f`.
fn again(args: &JitlatArgs, file: &Path) -> anyhow::Result<ExitCode> {
    let plots: Vec<&Path> = args.gnuplot.iter().map(|place| rights::ground_of(place)).collect();
    rights::keep(&[file], &plots);
    let (header, packets) = read_log(file)?;
    let head = log_head(&header, version(args));
    show(args, &header, &packets, Origin::Log, &head)?;
    Ok(ExitCode::Done)
}

/// Serves until it is told to end.
fn be_the_server(args: &JitlatArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let mut options = ServerOptions {
        control_port: args.control_port,
        test_port: args.dst_port,
        legacy: true,
        ..ServerOptions::default()
    };
    if let Some(address) = args.bind {
        options.listen = vec![address];
    }
    let mut say = |event: quaver_path_record::ServerEvent| {
        let now = quaver_store::utc::rfc3339_utc(quaver_clock::realtime_ns());
        quaver_instrument::tell!("{now} {event}");
    };
    // Its ports are those that clients name.
    let read = [Path::new("/proc"), Path::new("/sys")];
    rights::say(SERVER.keep(Some(Files { read: &read, ..Files::default() })));
    serve(options, interrupt.flag(), &mut say).context("serving")?;
    Ok(ExitCode::Done)
}

/// Prints the page below its head, and the plots that were asked for.
fn show(
    args: &JitlatArgs,
    header: &LogHeader,
    packets: &[Singleton],
    origin: Origin,
    head: &str,
) -> anyhow::Result<()> {
    let classified = classified(header, packets);
    let figures = page_figures(header, &classified, version(args), args.bins);
    let page = JitlatPage {
        figures: &figures,
        header,
        origin,
        corrected: args.corrected,
        latency_plot: args.latency_plot,
    };
    to_stdout(format!("{head}{}", body(&page)).as_bytes())?;
    warn(args, &figures);
    if args.plots || args.latency_plot || args.gnuplot.is_some() {
        plot(args, header, &classified, &figures)?;
    }
    Ok(())
}

/// What the page cannot say without being another page, on standard error.
fn warn(args: &JitlatArgs, figures: &JitlatFigures) {
    if (args.corrected || args.latency_plot) && figures.clock_error_ns.is_none() {
        quaver_instrument::tell!("quaver: no clock error estimate (version one log): not corrected");
    }
    let Some(delays) = &figures.delays else { return };
    let (warning, what, why) = match args.corrected {
        true => {
            (delays.corrected_warning, "corrected latency", "the estimate of the clocks' offset is wrong")
        }
        false => (delays.warning, "latency", "the clocks differ; see -C"),
    };
    match warning {
        Some(ClockWarning::NegativeLatency { min_latency_ns }) => quaver_instrument::tell!(
            "quaver: minimum {what} {} is negative: {why}",
            Cell::Duration(min_latency_ns)
        ),
        Some(ClockWarning::AboveRoundTrip { min_latency_ns, min_rtt_ns }) => quaver_instrument::tell!(
            "quaver: minimum {what} {} exceeds the round trip {}: {why}",
            Cell::Duration(min_latency_ns),
            Cell::Duration(min_rtt_ns)
        ),
        None => {}
    }
}

/// Draws below the page and writes for gnuplot, each where it was asked for.
fn plot(
    args: &JitlatArgs,
    header: &LogHeader,
    classified: &Classified,
    figures: &JitlatFigures,
) -> anyhow::Result<()> {
    let sequences: Vec<u64> = classified.arrivals.iter().map(|arrival| arrival.sequence).collect();
    let losses = loss_runs(sequences.iter().copied(), classified.counts.sent);
    let losses = loss_pattern(&losses, classified.counts.sent);
    let copies = duplication(&classified.copies);
    let density =
        (classified.counts.out_of_sequence > 0).then(|| reorder_density(&sequences, DISPLACEMENT_THRESHOLD));
    let delays = figures.delays.as_ref();
    let corrected = delays.and_then(|delays| delays.corrected_latency.as_ref());
    let title = format!(
        "{} packets from {} to {}, {}",
        header.npkts,
        header.source(),
        header.destination(),
        header.created
    );
    let plots = PathPlots {
        title: &title,
        latency: delays.map(|delays| &delays.latency.histogram),
        corrected: corrected.map(|corrected| &corrected.histogram),
        pdv: delays.map(|delays| &delays.pdv.histogram),
        arrivals: &classified.arrivals,
        line: figures.burstiness,
        loss_lengths: &losses.period_lengths,
        duplication_lengths: &copies.lengths,
        density: density.as_ref(),
    };
    if let Some(directory) = &args.gnuplot {
        write_gnuplot(directory, &plots)?;
    }
    let wanted: &[DelayPlot] = match (args.latency_plot, args.plots) {
        (true, _) if corrected.is_some() => &[DelayPlot::Corrected],
        (true, _) => &[DelayPlot::Latency],
        (false, true) => &[DelayPlot::Latency, DelayPlot::Pdv],
        (false, false) => return Ok(()),
    };
    let document = plots::document("jitlat", &plots, wanted);
    to_stdout(quaver_instrument::terminal::page(&document, plots::style()).as_bytes())
}

/// Writes data and script into a directory, which is made where it is not there.
fn write_gnuplot(directory: &Path, plots: &PathPlots<'_>) -> anyhow::Result<()> {
    let what = || format!("writing plots to {}", directory.display());
    // Without a path that cannot be written this is for output, whatever the system's reason.
    let made = std::fs::create_dir_all(directory).and_then(|()| {
        gnuplot::write_all(plots, |name| File::create(directory.join(name)).map(BufWriter::new))
    });
    made.map_err(|error| failure(ExitCode::Output, format!("{}: {error}", what())))
}
