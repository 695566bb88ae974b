//! What leaves the plugin: the trace or library, how far it is, and how it ended; and the request to stop, which comes in.
//!
//! ```text
//! control directory  plan.json   what is asked, by the tool, before QEMU starts
//!                    progress    instructions, threads or epochs, bytes, state, and nanoseconds of a system's trace: numbers
//!                                of 64 bits, little-endian, written over each other now and then
//!                    stop        made by the tool: end the trace now
//!                    failure     why the trace is not whole, in a sentence
//! ```

use quaver_trace::block::Block;
use quaver_trace::epochs::{EpochFacts, EpochWriter, KernelEpoch};
use quaver_trace::file::{Facts, FileError, PackedSteps, TraceWriter};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Time between looks at how far the trace is, and whether it shall stop.
const TICK: Duration = Duration::from_millis(50);

/// What is asked.
#[derive(Debug, Deserialize)]
pub(crate) struct Plan {
    /// Where the trace goes.
    trace: PathBuf,
    /// What it says of itself.
    #[serde(flatten)]
    facts: Which,
    /// Instructions after which it stops; none goes on to the program's end.
    limit: Option<u64>,
}

/// What is traced.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Which {
    /// A program.
    Facts(Facts),
    /// A kernel, in a system.
    SystemFacts(EpochFacts),
}

/// Where it goes to.
enum Writer {
    Trace(TraceWriter<Counted>),
    Epochs(EpochWriter<Counted>),
}

/// State of a trace, as the tool reads it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceState {
    Runs = 1,
    Whole = 2,
    Failed = 3,
}

/// Who makes the steps or epochs that are written.
pub(crate) struct Tracer {
    /// Nothing more is to be traced.
    pub(crate) stop: fn(),
    /// Whether all that was traced until the stop has been written. It may write some of it.
    pub(crate) is_written: fn() -> bool,
    /// How far it is.
    pub(crate) progress: fn() -> Progress,
}

/// How far a trace is.
pub(crate) struct Progress {
    pub(crate) instructions: u64,
    /// Threads or epochs.
    pub(crate) count: u64,
    /// For how long a system has been traced; 0 of a program.
    pub(crate) traced_ns: u64,
}

struct Output {
    control: PathBuf,
    limit: Option<u64>,
    progress: Option<File>,
    octets: AtomicU64,
    writer: Mutex<Option<Writer>>,
    tracer: Tracer,
}

static OUTPUT: OnceLock<Output> = OnceLock::new();

/// Counts what goes to the file.
struct Counted(BufWriter<File>);

impl Write for Counted {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.0.write(octets)?;
        if let Some(output) = OUTPUT.get() {
            output.octets.fetch_add(written as u64, Ordering::Relaxed);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Begins the trace that `control` asks for. Whether it is one of a system.
pub(crate) fn begin(control: &Path, tracer: Tracer) -> Result<bool, String> {
    let say = |what: &str, error: &dyn std::fmt::Display| format!("{what} {}: {error}", control.display());
    let plan = std::fs::read(control.join("plan.json")).map_err(|e| say("read the plan in", &e))?;
    let plan: Plan = serde_json::from_slice(&plan).map_err(|e| say("read the plan in", &e))?;
    let file = File::create(&plan.trace).map_err(|e| format!("make {}: {e}", plan.trace.display()))?;
    let file = Counted(BufWriter::new(file));
    let system = matches!(plan.facts, Which::SystemFacts(_));
    let writer = match &plan.facts {
        Which::Facts(facts) => TraceWriter::new(file, facts).map(Writer::Trace),
        Which::SystemFacts(facts) => EpochWriter::new(file, facts).map(Writer::Epochs),
    };
    let writer = writer.map_err(|e| e.to_string())?;
    let output = Output {
        control: control.to_owned(),
        limit: plan.limit,
        progress: File::create(control.join("progress")).ok(),
        octets: AtomicU64::new(0),
        writer: Mutex::new(Some(writer)),
        tracer,
    };
    OUTPUT.set(output).map_err(|_| "the plugin is loaded twice".to_owned())?;
    Ok(system)
}

fn writer(output: &Output) -> MutexGuard<'_, Option<Writer>> {
    output.writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes in a block; its number. None once nothing is written any more.
pub(crate) fn define(block: Block) -> Option<u32> {
    Some(match writer(OUTPUT.get()?).as_mut()? {
        Writer::Trace(writer) => writer.define(block),
        Writer::Epochs(writer) => writer.define(block),
    })
}

/// Appends steps of a thread.
pub(crate) fn add(packed: Result<Option<PackedSteps>, FileError>) {
    let Some(output) = OUTPUT.get() else { return };
    put(output, |writer| match (packed, writer) {
        (Ok(Some(packed)), Writer::Trace(writer)) => writer.add(&packed),
        (Err(error), _) => Err(error),
        _ => Ok(()),
    });
}

/// Appends an epoch of kernel activity.
pub(crate) fn add_epoch(epoch: &KernelEpoch) {
    let Some(output) = OUTPUT.get() else { return };
    put(output, |writer| match writer {
        Writer::Epochs(writer) => writer.add(&epoch.about, epoch.steps()),
        Writer::Trace(_) => Ok(()),
    });
}

fn put(output: &Output, does: impl FnOnce(&mut Writer) -> Result<(), FileError>) {
    let mut writer = writer(output);
    let Some(open) = writer.as_mut() else { return };
    if let Err(error) = does(open) {
        *writer = None;
        drop(writer);
        fail(output, &error);
    }
}

/// The system cannot be traced: nothing more is written.
pub(crate) fn give_up(reason: &str) {
    let Some(output) = OUTPUT.get() else { return };
    *writer(output) = None;
    fail(output, &reason);
}

/// Nothing more is written: the trace is as it is.
fn fail(output: &Output, error: &dyn std::fmt::Display) {
    let _ = std::fs::write(output.control.join("failure"), error.to_string());
    (output.tracer.stop)();
    tell(output, TraceState::Failed);
}

/// Ends the trace. All threads have been written.
pub(crate) fn finish() {
    let Some(output) = OUTPUT.get() else { return };
    let writer = writer(output).take();
    let Some(writer) = writer else { return };
    let finished = match writer {
        Writer::Trace(writer) => writer.finish(),
        Writer::Epochs(writer) => writer.finish(),
    };
    match finished
        .and_then(|mut out| out.flush().map_err(|source| FileError::Io { operation: "write", source }))
    {
        Ok(()) => tell(output, TraceState::Whole),
        Err(error) => fail(output, &error),
    }
}

fn tell(output: &Output, state: TraceState) {
    let Some(file) = &output.progress else { return };
    let Progress { instructions, count, traced_ns } = (output.tracer.progress)();
    let octets = output.octets.load(Ordering::Relaxed);
    let numbers = [instructions, count, octets, state as u64, traced_ns];
    let mut octets = [0; 40];
    for (place, number) in octets.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    // Whoever looks at the file sees an older state; nothing else is lost.
    let _ = file.write_all_at(&octets, 0);
}

/// Looks now and then at how far the trace is, and stops it when that is asked for. Runs in a thread of its own.
pub(crate) fn watch() {
    let Some(output) = OUTPUT.get() else { return };
    let stop = output.control.join("stop");
    loop {
        std::thread::sleep(TICK);
        if writer(output).is_none() {
            return;
        }
        let enough = output.limit.is_some_and(|limit| (output.tracer.progress)().instructions >= limit);
        if enough || stop.exists() {
            (output.tracer.stop)();
            while !(output.tracer.is_written)() {
                std::thread::sleep(Duration::from_millis(1));
            }
            return finish();
        }
        tell(output, TraceState::Runs);
    }
}
