//! What leaves the plugin: the trace, how far it is, and how it ended; and the request to stop, which comes in.
//!
//! ```text
//! control directory  plan.json   what is asked, by the tool, before QEMU starts
//!                    progress    instructions, threads, octets and state: four numbers of 64 bits, little-endian, written over
//!                                each other now and then
//!                    stop        made by the tool: end the trace now
//!                    failure     why the trace is not whole, in a sentence
//! ```

use crate::threads;
use quaver_trace::block::Block;
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
    facts: Facts,
    /// Instructions after which it stops; none goes on to the program's end.
    limit: Option<u64>,
}

/// State of a trace, as the tool reads it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs = 1,
    Whole = 2,
    Failed = 3,
}

struct Output {
    control: PathBuf,
    limit: Option<u64>,
    progress: Option<File>,
    octets: AtomicU64,
    writer: Mutex<Option<TraceWriter<Counted>>>,
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

/// Begins the trace that `control` asks for.
pub(crate) fn begin(control: &Path) -> Result<(), String> {
    let say = |what: &str, error: &dyn std::fmt::Display| format!("{what} {}: {error}", control.display());
    let plan = std::fs::read(control.join("plan.json")).map_err(|e| say("read the plan in", &e))?;
    let plan: Plan = serde_json::from_slice(&plan).map_err(|e| say("read the plan in", &e))?;
    let file = File::create(&plan.trace).map_err(|e| format!("make {}: {e}", plan.trace.display()))?;
    let writer = TraceWriter::new(Counted(BufWriter::new(file)), &plan.facts).map_err(|e| e.to_string())?;
    let output = Output {
        control: control.to_owned(),
        limit: plan.limit,
        progress: File::create(control.join("progress")).ok(),
        octets: AtomicU64::new(0),
        writer: Mutex::new(Some(writer)),
    };
    OUTPUT.set(output).map_err(|_| "the plugin is loaded twice".to_owned())
}

fn writer(output: &Output) -> MutexGuard<'_, Option<TraceWriter<Counted>>> {
    output.writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes in a block; its number. None once nothing is written any more.
pub(crate) fn define(block: Block) -> Option<u32> {
    Some(writer(OUTPUT.get()?).as_mut()?.define(block))
}

/// Appends steps of a thread.
pub(crate) fn add(packed: Result<Option<PackedSteps>, FileError>) {
    let Some(output) = OUTPUT.get() else { return };
    let mut writer = writer(output);
    let added = match (packed, writer.as_mut()) {
        (Ok(Some(packed)), Some(writer)) => writer.add(&packed),
        (Err(error), Some(_)) => Err(error),
        (_, None) | (Ok(None), _) => Ok(()),
    };
    if let Err(error) = added {
        *writer = None;
        drop(writer);
        fail(output, &error);
    }
}

/// Nothing more is written: the trace is as it is.
fn fail(output: &Output, error: &FileError) {
    let _ = std::fs::write(output.control.join("failure"), error.to_string());
    threads::stop();
    tell(output, State::Failed);
}

/// Ends the trace. All threads have been written.
pub(crate) fn finish() {
    let Some(output) = OUTPUT.get() else { return };
    let writer = writer(output).take();
    let Some(writer) = writer else { return };
    match writer
        .finish()
        .and_then(|mut out| out.flush().map_err(|source| FileError::Io { operation: "write", source }))
    {
        Ok(()) => tell(output, State::Whole),
        Err(error) => fail(output, &error),
    }
}

fn tell(output: &Output, state: State) {
    let Some(file) = &output.progress else { return };
    let numbers =
        [threads::instructions(), threads::count(), output.octets.load(Ordering::Relaxed), state as u64];
    let mut octets = [0; 32];
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
        let enough = output.limit.is_some_and(|limit| threads::instructions() >= limit);
        if enough || stop.exists() {
            threads::stop();
            while !threads::take_waiting() {
                std::thread::sleep(Duration::from_millis(1));
            }
            return finish();
        }
        tell(output, State::Runs);
    }
}
