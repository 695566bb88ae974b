//! `quaver sim trace --system`: what the kernel of a guest does.

use super::control::{Control, Progress, TraceState, unfinished};
use crate::emulator;
use crate::trace::args::SimTraceArgs;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress as Line;
use quaver_lab_guests::image::{Image, Supplies};
use quaver_lab_guests::process::{Answer, Guest, Machine};
use quaver_lab_guests::store::LabStore;
use quaver_lab_guests::{GuestError, INTERFACE};
use quaver_launch::recorder;
use quaver_trace::epochs::EpochFacts;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between looks at how far it is.
const TICK: Duration = Duration::from_millis(100);
/// A guest that traced nothing for so long is stuck.
const MOST_BOOT: Duration = Duration::from_secs(300);
/// What the plugin may take to end a library.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it takes where nothing is asked.
const USUAL: Duration = Duration::from_secs(30);
/// The library where no name is given.
const NAME: &str = "kernel.qepochs";
/// What the guest is busy with, for the library's facts.
const WORKLOAD: &str = "futexes, barriers, timers, files in memory, UDP and TCP over loopback, packets through two devices, page \
                        faults, memory running out, processes";

/// Traces a guest's kernel until there is enough.
pub(super) fn run(args: &SimTraceArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let unsupported = |error: &dyn std::fmt::Display| failure(ExitCode::Unsupported, error.to_string());
    let plugin = emulator::plugin(&recorder::installed().map_err(|error| unsupported(&error))?)
        .map_err(|error| unsupported(&error))?;
    let store = LabStore::standard();
    let emulator = store.emulator().map_err(|error| unsupported(&error))?;
    let kernel = store.kernel("kernel").map_err(|error| unsupported(&error))?;
    let output = output(args)?;
    let facts = EpochFacts {
        tool: concat!("quaver ", env!("CARGO_PKG_VERSION")).into(),
        architecture: "x86-64".into(),
        kernel: kernel.release.clone(),
        emulator: format!("QEMU {}", emulator.version),
        processors: u32::from(args.cpus),
        workload: WORKLOAD.into(),
        seed: args.seed,
        changes: Vec::new(),
        regions: None,
    };
    let control = Control::begin_system(&unfinished(&output), &facts, args.entries)?;
    let image = Image::build(&kernel, INTERFACE, b"activity", &Supplies::default())?;
    let machine = Machine {
        cpus: args.cpus,
        interface: INTERFACE,
        words: Vec::new(),
        seed: args.seed,
        plugin: Some((plugin, control.path().to_owned())),
        parallel: args.cpus > 1,
    };
    let guest = Guest::start(&emulator, &kernel, &image, &machine, &["guest"])?;
    let ended = follow(guest, args, &control, &interrupt);
    let told = keep(&control, &output, args.quiet, ended.as_ref().ok().copied());
    let ended = ended?;
    told?;
    Ok(if ended.interrupted { ExitCode::Interrupted } else { ExitCode::Done })
}

/// Where the library goes.
fn output(args: &SimTraceArgs) -> anyhow::Result<PathBuf> {
    let named = args.output.clone().unwrap_or_else(|| NAME.into());
    let refuse = |reason: &str| {
        failure(ExitCode::Output, format!("write the library to {}: {reason}", named.display()))
    };
    if named.is_dir() {
        return Err(refuse("it is a directory; name a file"));
    }
    let path = std::path::absolute(&named).unwrap_or_else(|_| named.clone());
    // Refused now rather than by QEMU, after it was started.
    std::fs::File::create(unfinished(&path)).map_err(|error| refuse(&error.to_string()))?;
    Ok(path)
}

/// How a trace ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// What the guest took until its kernel was traced, and for how long it was.
    boot: Duration,
    traced: Duration,
    interrupted: bool,
}

/// Follows the guest until there is enough, and ends it.
fn follow(
    mut guest: Guest,
    args: &SimTraceArgs,
    control: &Control,
    interrupt: &Interrupt,
) -> anyhow::Result<Ended> {
    let line = Line::timed(Duration::ZERO, args.quiet);
    let begun = Instant::now();
    let longest = args.duration.or(args.entries.is_none().then_some(USUAL));
    let (mut first, mut asked): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        let progress = control.progress();
        if progress.threads > 0 {
            first.get_or_insert_with(Instant::now);
        }
        let traced = progress.traced;
        if matches!(progress.state, TraceState::Whole | TraceState::Failed)
            || asked.is_some_and(|since| since.elapsed() > PATIENCE)
        {
            let boot = first.map_or(begun.elapsed(), |first| first - begun);
            return Ok(Ended { boot, traced, interrupted: interrupt.requested() });
        }
        let enough = first.is_some() && longest.is_some_and(|longest| traced >= longest);
        if asked.is_none() && (enough || interrupt.requested()) {
            control.stop();
            asked = Some(Instant::now());
        }
        line.say(if first.is_none() { "the guest boots".into() } else { told(&progress) });
        match guest.answer(TICK)? {
            // A guest that can do it says nothing.
            Answer::Line(why) => {
                let message = format!("the guest could not do it: {why}");
                return Err(failure(ExitCode::Unsupported, message));
            }
            // Once QEMU is gone the plugin has said all that it will.
            Answer::End if control.progress().state == TraceState::Runs || first.is_none() => {
                return Err(guest.ended_early().into());
            }
            Answer::End | Answer::Nothing => {}
        }
        if first.is_none() && begun.elapsed() > MOST_BOOT {
            let why = format!("no activity of its kernel was seen in {} s", MOST_BOOT.as_secs());
            return Err(GuestError::Ended { why }.into());
        }
    }
}

fn told(progress: &Progress) -> String {
    let (millions, kilo_octets) = (progress.instructions as f64 / 1e6, progress.octets as f64 / 1e3);
    format!("{millions:.1} million entries in {} epochs, {kilo_octets:.0} kB", progress.threads)
}

/// Gives the file its name, and says what became of it.
fn keep(control: &Control, output: &Path, quiet: bool, ended: Option<Ended>) -> anyhow::Result<()> {
    let progress = control.progress();
    let part = unfinished(output);
    if let Some(reason) = control.failure() {
        let _ = std::fs::remove_file(&part);
        return Err(failure(ExitCode::Unsupported, format!("the kernel was not traced: {reason}")));
    }
    if progress.threads == 0 {
        let _ = std::fs::remove_file(&part);
        return Err(failure(ExitCode::Unsupported, "the trace ended before the guest's kernel was seen"));
    }
    std::fs::rename(&part, output)
        .map_err(|error| failure(ExitCode::Output, format!("write {}: {error}", output.display())))?;
    let Some(Ended { boot, traced, .. }) = ended.filter(|_| !quiet) else { return Ok(()) };
    let per_minute = progress.instructions as f64 / 1e6 / traced.as_secs_f64().max(0.001) * 60.0;
    quaver_instrument::tell!(
        "quaver: {}: {} in {:.0} s ({per_minute:.0} million entries a minute) after {:.0} s of boot",
        output.display(),
        told(&progress),
        traced.as_secs_f64(),
        boot.as_secs_f64()
    );
    Ok(())
}
