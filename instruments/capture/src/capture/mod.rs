//! `quaver capture`: packets with every stamp that this machine gives, into a file, a pipe or figures.

mod accounts;
mod breach;
pub mod cores;
mod fates;
mod files;
mod guard;
mod links;
mod memory;
mod order;
mod plan;
mod qos;
mod settings;
mod start;
mod summary;
mod view;
mod write;

use crate::args::CaptureArgs;
use crate::record::{CaptureError, Layers, Reading, TapCounts};
use accounts::Accounts;
use anyhow::Context;
use links::Links;
use plan::Plan;
use quaver_instrument::exit_code::{ExitCode, failure, sentence};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::rights;
use quaver_pcapng::WriteError;
use quaver_view::Cell;
use rustix::time::Timespec;
use settings::Settings;
use start::Session;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use write::{Live, Written};

/// Between looks at limits and signals; a signal ends the wait.
const TICK: Duration = Duration::from_millis(50);
/// The same where nobody waits for packets.
const PATIENT_TICK: Duration = Duration::from_millis(250);
/// How long nothing can be written, after the user asked for the end, until what is left is given up.
const STALLED: Duration = Duration::from_secs(5);
/// Between lines of progress.
const EACH: Duration = Duration::from_secs(1);

/// Captures, writes, tells.
pub(super) fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(args)?;
    let interrupt = Interrupt::catch()?;
    let mut accounts = Accounts::begin(&plan::interfaces(&plan)?);
    let settings = Settings::new();
    accounts.notes.extend(settings.steer(&plan)?);
    let session = Session::open(args, &plan, &mut |change| settings.set(change, &mut accounts.notes))?;
    let put_back = session.put_back();
    guard::guard(&interrupt, put_back.clone(), &settings);
    rights::keep_to_observe();
    if !args.quiet {
        session.tell(&plan, &accounts.notes);
    }
    let (reading, clock, writer, live) = session.start(args, &plan, accounts.first_file())?;
    let writing =
        quaver_waiting::start("quaver-write", move || writer.run()).context("starting the writing thread")?;
    let mut links = Links::of(&reading, args);
    let end = watch(args, &reading, &live, &interrupt, &mut links, || writing.is_finished());
    let notes = [links.into_notes(), thread_notes(&reading)].concat();
    accounts.took = live.started.elapsed();
    let rings = reading.end();
    let mut written = match written(writing, &live, &interrupt, || put_back.now()) {
        Ok(written) => written,
        Err(error) => {
            // The thread that would do so at its end is stuck.
            put_back.now();
            settings.put_back();
            return Err(error);
        }
    };
    let rings = match (rings, &mut written.output) {
        (Ok(rings), _) => rings,
        (Err(error), output) => {
            // What was captured is kept, though it cannot be told what was not.
            let _ = output.as_mut().map(files::Output::flush);
            return Err(fail(error));
        }
    };
    accounts.finish(&rings, &written.fates);
    accounts.notes.extend(written.notes.iter().cloned());
    accounts.notes.extend(settings.put_back());
    accounts.notes.extend(notes);
    accounts.notes.extend(start::clock_notes(&clock));
    conclude(args, &plan, accounts, written, end)
}

/// Waits until all is written. A reader that does not read, or a disk that does not answer, holds the writing thread up for as
/// long as it likes; then the user's second thought counts.
fn written(
    writing: JoinHandle<(Written, Layers)>,
    live: &Live,
    interrupt: &Interrupt,
    put_back: impl Fn(),
) -> anyhow::Result<Written> {
    let (mut captured, mut moved) = (0, Instant::now());
    while !writing.is_finished() {
        let now = live.captured.load(Ordering::Relaxed);
        if now != captured || !interrupt.requested() {
            (captured, moved) = (now, Instant::now());
        }
        if moved.elapsed() >= STALLED {
            let message =
                "interrupted, and the output takes no more: what it took before is there, the rest is lost";
            return Err(failure(ExitCode::Interrupted, message));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let (written, _layers) = writing.join().unwrap_or_else(|panic| {
        // That thread had no right to take the programs out.
        put_back();
        std::panic::resume_unwind(panic)
    });
    Ok(written)
}

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The user asked for it.
    Interrupted,
    /// The time is over.
    Time,
    /// The writing thread ended it: a limit, a reader that went away, or a failure.
    Writer,
    /// No interface is left.
    InterfaceGone,
}

/// Waits until something ends the capture, and shows how it goes.
fn watch(
    args: &CaptureArgs,
    reading: &Reading,
    live: &Arc<Live>,
    interrupt: &Interrupt,
    links: &mut Links,
    writer_ended: impl Fn() -> bool,
) -> End {
    let progress = Progress::timed(args.duration.unwrap_or(EACH), args.quiet || args.qos);
    let tick = if plan::is_awaited(args) { TICK } else { PATIENT_TICK };
    let mut shown = Shown { at: Instant::now(), captured: 0, dropped: 0, qos: 0 };
    loop {
        if interrupt.requested() {
            return End::Interrupted;
        }
        // It ends by itself only where it panicked, which would else be seen at the end of the capture.
        if live.ended.load(Ordering::Acquire) || writer_ended() {
            return End::Writer;
        }
        let left = args.duration.map(|length| length.saturating_sub(live.started.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return End::Time;
        }
        if links.all_gone(live.started.elapsed()) {
            return End::InterfaceGone;
        }
        if shown.at.elapsed() >= EACH {
            shown.show(args, reading, live, &progress);
        }
        // Unlike the standard library's, this sleep ends when a signal comes.
        let wait = left.unwrap_or(tick).min(tick);
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let _ = rustix::thread::nanosleep(&wait);
    }
}

/// What was last shown.
struct Shown {
    at: Instant,
    captured: u64,
    dropped: u64,
    qos: u64,
}

impl Shown {
    fn show(&mut self, args: &CaptureArgs, reading: &Reading, live: &Live, progress: &Progress) {
        let seconds = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        let captured = live.captured.load(Ordering::Relaxed);
        let dropped = reading.taps().iter().filter_map(|tap| tap.statistics().ok());
        let dropped: u64 = dropped.map(|counted| counted.dropped).sum();
        let rate = (captured - self.captured) as f64 / seconds;
        let words = format!(
            "{}, {}/s, {} dropped (ring full){}",
            Cell::several(captured, "packet"),
            Cell::Count(rate.round() as u64),
            Cell::Count(dropped),
            if dropped > self.dropped { " (now)" } else { "" }
        );
        (self.captured, self.dropped) = (captured, dropped);
        match args.duration {
            Some(_) => progress.show(live.started.elapsed(), words),
            None => progress.say(words),
        }
        if args.qos && !args.quiet && !args.json {
            self.qos = qos::show(&live.figures, self.qos);
        }
    }
}

fn thread_notes(reading: &Reading) -> Vec<String> {
    let refused = reading.refused().iter().map(|refused| format!("capture thread: {refused}"));
    let mut taps: Vec<String> = reading.taps().iter().flat_map(|tap| tap.notes().to_vec()).collect();
    taps.dedup();
    taps.into_iter().chain(refused).collect()
}

/// Writes the counts, closes the file, prints the summary, and finds the status.
fn conclude(
    args: &CaptureArgs,
    plan: &Plan,
    mut accounts: Accounts,
    mut written: Written,
    end: End,
) -> anyhow::Result<ExitCode> {
    let output = written.output.take();
    let failed = written.failed.take();
    let pipe_gone = failed.as_ref().is_some_and(|error| error.is_broken_pipe());
    let files = output.as_ref().map(files::Output::files).unwrap_or_default();
    let target = files.last().map_or("standard output".to_owned(), |file| file.display().to_string());
    let refused = |error: WriteError| sentence(&anyhow::Error::new(error).context(format!("write {target}")));
    if let Some(output) = output {
        let closed = match &failed {
            None => output.finish(&accounts.statistics(&written.told), &accounts.notes),
            Some(_) => Ok(files),
        };
        match closed {
            Ok(files) => accounts.files = files,
            Err(error) if error.is_broken_pipe() => {}
            Err(error) => return Err(failure(ExitCode::Output, refused(error))),
        }
    }
    let failed = failed.filter(|_| !pipe_gone);
    let status = if failed.is_some() { ExitCode::Output } else { status(args, end) };
    summary::print(args, plan, &accounts, &written, end, status)?;
    if let Some(error) = failed {
        return Err(failure(
            ExitCode::Output,
            format!(
                "{}; the file is readable up to there, {} later packets were lost",
                refused(error),
                accounts.unwritten()
            ),
        ));
    }
    Ok(status)
}

fn status(args: &CaptureArgs, end: End) -> ExitCode {
    let limited = args.duration.is_some() || args.count.is_some() || args.size_limit.is_some();
    match end {
        End::Interrupted if limited => ExitCode::Interrupted,
        End::InterfaceGone => ExitCode::Output,
        _ => ExitCode::Done,
    }
}

/// An error of the engine with its status.
fn fail(error: CaptureError) -> anyhow::Error {
    let code = match &error {
        CaptureError::NotPermitted { .. } | CaptureError::NotSupported { .. } => ExitCode::Unsupported,
        CaptureError::NoInterface { .. } | CaptureError::Filter { .. } | CaptureError::Options(_) => {
            ExitCode::Usage
        }
        CaptureError::Os { .. } => ExitCode::Output,
    };
    failure(code, sentence(&anyhow::Error::new(error)))
}

/// What the kernel counted of one tap, for the accounts.
type Rings = [TapCounts];
