//! A program traced in QEMU.

use super::control::{Control, Progress, TraceState, unfinished};
use crate::emulator;
use crate::emulator::{Emulated, EmulatorError};
use crate::trace::args::SimTraceArgs;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::progress::Progress as Line;
use quaver_launch::launch::{Launch, LaunchError, Launched, shell_status};
use quaver_launch::program;
use quaver_launch::recorder::{self, PRELOAD_VARIABLE, preload};
use quaver_launch::signals::Signals;
use quaver_trace::file::Facts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between looks at how far it is.
const TICK: Duration = Duration::from_millis(100);
/// What the plugin may take to end a trace, and then QEMU to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Traces it. The answer is the program's status as a shell would show it, or 130 after Ctrl-C.
pub(super) fn run(args: &SimTraceArgs) -> anyhow::Result<u8> {
    let signals = Signals::take().context("holding back signals for the program")?;
    let search = std::env::var_os("PATH");
    let name = &args.program[0];
    let absent = || failure(ExitCode::Usage, LaunchError::NotFound(name.clone()).to_string());
    let path = program::find(name, search.as_deref()).filter(|path| path.is_file()).ok_or_else(absent)?;
    let sentences = emulator::look_at(&program::inspect(&path, search.as_deref())).map_err(unsupported)?;
    let recorder =
        recorder::installed().map_err(|error| failure(ExitCode::Unsupported, error.to_string()))?;
    let plugin = emulator::plugin(&recorder).map_err(unsupported)?;
    let named = std::env::var_os(emulator::VARIABLE);
    let emulator = emulator::find(named.as_deref(), search.as_deref()).map_err(unsupported)?;
    let output = output(args, &path)?;
    let control = Control::begin(&unfinished(&output), &facts(args), args.limit)?;
    let preloaded = preload(&recorder, std::env::var_os(PRELOAD_VARIABLE).as_deref());
    let emulated = Emulated {
        emulator: &emulator,
        plugin: &plugin,
        control: control.path(),
        preload: &preloaded,
        program: &path,
        words: &args.program,
    };
    let words = emulated.words().map_err(unsupported)?;
    if !args.quiet {
        sentences.iter().for_each(|sentence| quaver_instrument::tell!("quaver: {sentence}"));
    }
    let (status, interrupted) = follow(&words, &control, &signals, args.quiet)?;
    drop(signals);
    keep(&control, &output, args.quiet)?;
    Ok(if interrupted { ExitCode::Interrupted as u8 } else { status })
}

fn unsupported(error: EmulatorError) -> anyhow::Error {
    failure(ExitCode::Unsupported, error.to_string())
}

/// Where the trace goes, as a path that does not depend on where the program goes.
fn output(args: &SimTraceArgs, program: &Path) -> anyhow::Result<PathBuf> {
    let named = args.output.clone().unwrap_or_else(|| {
        let mut name = program.file_name().unwrap_or_default().to_owned();
        name.push(".qtrace");
        name.into()
    });
    let refuse =
        |code, reason: &str| failure(code, format!("write the trace to {}: {reason}", named.display()));
    if named.to_str().is_none() {
        return Err(refuse(ExitCode::Usage, "its name is no UTF-8; choose another"));
    }
    if named.is_dir() {
        return Err(refuse(ExitCode::Output, "it is a directory; name a file"));
    }
    let path = std::path::absolute(&named).unwrap_or_else(|_| named.clone());
    // Refused now rather than by QEMU, after it was started.
    std::fs::File::create(unfinished(&path)).map_err(|error| refuse(ExitCode::Output, &error.to_string()))?;
    Ok(path)
}

fn facts(args: &SimTraceArgs) -> Facts {
    Facts {
        program: args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        tool: concat!("quaver ", env!("CARGO_PKG_VERSION")).into(),
        architecture: "x86-64".into(),
        ..Facts::default()
    }
}

/// Runs it to its end, or until somebody asks for the end. Its status, and whether that was so.
fn follow(
    words: &[OsString],
    control: &Control,
    signals: &Signals,
    quiet: bool,
) -> anyhow::Result<(u8, bool)> {
    let launch = Launch { words, preload: None, directory: Path::new("/"), signals: Some(signals) };
    let mut launched =
        Launched::start(&launch).map_err(|error| failure(ExitCode::Output, error.to_string()))?;
    let line = Line::timed(Duration::ZERO, quiet);
    let mut asked: Option<Instant> = None;
    loop {
        let ended = launched.wait(TICK, Some(signals)).context("waiting for QEMU")?;
        while let Some(sent) = signals.next() {
            match sent.number {
                libc::SIGUSR1 | libc::SIGUSR2 if !sent.by_terminal => launched.signal(sent.number),
                libc::SIGUSR1 | libc::SIGUSR2 => {}
                // Again: at once.
                _ if asked.is_some() => launched.signal(libc::SIGKILL),
                _ => {
                    asked = Some(Instant::now());
                    control.stop();
                }
            }
        }
        if let Some(status) = ended {
            return Ok((shell_status(status), asked.is_some()));
        }
        let progress = control.progress();
        line.say(told(&progress));
        if let Some(since) = asked {
            end(&launched, &progress, since.elapsed());
        }
    }
}

/// Ends a program whose trace is whole, or does not become so.
fn end(launched: &Launched, progress: &Progress, elapsed: Duration) {
    if progress.state != TraceState::Runs || elapsed > PATIENCE {
        launched.signal(if elapsed > LAST_WORDS { libc::SIGKILL } else { libc::SIGTERM });
    }
}

fn told(progress: &Progress) -> String {
    let (millions, kilo_octets) = (progress.instructions as f64 / 1e6, progress.octets as f64 / 1e3);
    let (threads, several) = (progress.threads, if progress.threads == 1 { "" } else { "s" });
    format!("{millions:.1} million instructions, {threads} thread{several}, {kilo_octets:.0} kB")
}

/// Gives the file its name, and says what became of it.
fn keep(control: &Control, output: &Path, quiet: bool) -> anyhow::Result<()> {
    let progress = control.progress();
    let part = unfinished(output);
    if progress.state == TraceState::Silent {
        let _ = std::fs::remove_file(&part);
        let message = "QEMU ended before the trace began; what it said stands above";
        return Err(failure(ExitCode::Unsupported, message));
    }
    std::fs::rename(&part, output)
        .map_err(|error| failure(ExitCode::Output, format!("write {}: {error}", output.display())))?;
    if let Some(reason) = control.failure() {
        let message = format!("the trace {} is not whole: {reason}", output.display());
        return Err(failure(ExitCode::Output, message));
    }
    if progress.state != TraceState::Whole {
        quaver_instrument::tell!(
            "quaver: the program was killed: of what its threads did last, the trace {} has nothing",
            output.display()
        );
    } else if !quiet {
        let per_million = progress.octets as f64 / 1e3 / (progress.instructions.max(1) as f64 / 1e6);
        quaver_instrument::tell!(
            "quaver: {}: {}, {per_million:.1} kB a million",
            output.display(),
            told(&progress)
        );
    }
    Ok(())
}
