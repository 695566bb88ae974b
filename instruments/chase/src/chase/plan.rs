//! What every origin of a stream has in common: CPUs, memory for the tracer, the head of the manifest.

use crate::args::{ChaseArgs, ReceiveMode};
use anyhow::Context;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentWriter;
use quaver_host::trace::{Flow, TraceSpec};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::{allowed_cpus, keep_off};
use quaver_instrument::recording::{Recording, command_line};
use quaver_probe::sink::Sink;
use serde_json::{Value, json};
use std::time::Duration;

/// Stream before the measured part: caches, branch predictors and the clock's slope settle.
pub(super) const WARM_UP: Duration = Duration::from_millis(300);
/// Most packets whose kernel stamps are held at once: 96 bytes each.
const MOST_STAMPS: usize = 1 << 22;
/// Most events held at once for one CPU: 32 bytes each.
const MOST_EVENTS: usize = 1 << 22;
/// Events a second on a CPU that no stream causes, generously.
const OTHER_EVENTS_PER_SECOND: f64 = 60_000.0;

/// Most long turns of the sink that are kept: 32 bytes each.
const MOST_LONG_TURNS: u64 = 1 << 17;

/// Makes a polling sink record its long turns beside its packets.
pub(super) fn record_turns(args: &ChaseArgs, recording: &Recording, sink: &mut Sink) -> anyhow::Result<()> {
    if args.receive == ReceiveMode::Poll {
        let turns = SegmentWriter::create(&recording.run.turns_segment(), MOST_LONG_TURNS);
        sink.record_turns(turns.context("allocating memory for long turns")?);
    }
    Ok(())
}

/// CPUs of a chase.
pub(super) struct Cpus {
    pub(super) allowed: Vec<u16>,
    pub(super) sink: u16,
    pub(super) source: u16,
}

impl Cpus {
    /// As asked, else the last allowed for the sink and the first for the source. The calling thread moves off the
    /// sink's CPU.
    pub(super) fn choose(args: &ChaseArgs) -> anyhow::Result<Self> {
        let allowed = allowed_cpus().context("reading the CPUs that this process may use")?;
        let check = |asked: Option<u16>, option: &str| match asked {
            Some(cpu) if !allowed.contains(&cpu) => Err(failure(
                ExitCode::Usage,
                format!("--{option} {cpu}: this process may use CPUs {allowed:?} only (see taskset, cpuset)"),
            )),
            asked => Ok(asked),
        };
        let sink = check(args.sink_cpu, "sink-cpu")?.or(allowed.last().copied()).unwrap_or(0);
        let source = check(args.source_cpu, "source-cpu")?.or(allowed.first().copied()).unwrap_or(0);
        keep_off(&[sink].into()).context("moving other threads off the sink's CPU")?;
        Ok(Self { allowed, sink, source })
    }

    /// Whether a CPU is left for housekeeping beside `busy` ones.
    pub(super) fn housekeeping_left(&self, busy: &[u16]) -> bool {
        self.allowed.iter().any(|cpu| !busy.contains(cpu))
    }
}

/// What to trace, with memory for the whole of `length` as far as that is sensible.
pub(super) fn trace_spec(
    flow: Flow,
    threads: Vec<u32>,
    cpus: Vec<u16>,
    period_ns: f64,
    length: Duration,
) -> TraceSpec {
    let seconds = length.as_secs_f64();
    let packets = seconds * 1e9 / period_ns;
    // Each packet brings one or two intervals (its softirq, a wake-up) on the CPU that processes it.
    let events = packets * 3.0 + seconds * OTHER_EVENTS_PER_SECOND;
    TraceSpec {
        flow: Some(flow),
        threads,
        observed_process: None,
        cpus,
        stamp_capacity: ((packets * 1.05) as usize + 65_536).min(MOST_STAMPS),
        event_capacity: (events as usize + 65_536).min(MOST_EVENTS),
    }
}

/// Whether the tracer's memory, as planned, holds the whole run, so that nobody need empty it meanwhile.
pub(super) fn holds_all(spec: &TraceSpec) -> bool {
    spec.stamp_capacity < MOST_STAMPS && spec.event_capacity < MOST_EVENTS
}

/// Options as they are kept in the manifest.
pub(super) fn asked(args: &ChaseArgs, stream: &str, notes: &[String]) -> Value {
    json!({
        "command": command_line(),
        "stream": stream,
        "for_ns": args.duration.as_nanos() as u64,
        "late_ns": args.late.map(|late| late.as_nanos() as u64),
        "receive": format!("{:?}", args.receive).to_lowercase(),
        "fifo": args.fifo,
        "notes": notes,
    })
}

/// Starts recording, with the facts of this host.
pub(super) fn begin(
    args: &ChaseArgs,
    stream: &str,
    notes: &[String],
) -> anyhow::Result<(Recording, HostFacts)> {
    let host = HostFacts::read(&HostRoot::system());
    let recording = Recording::begin(
        &args.output.output,
        "chase",
        asked(args, stream, notes),
        serde_json::to_value(&host)?,
    )?;
    Ok((recording, host))
}

/// What the kernel refused to a measuring thread, as sentences.
pub(super) fn refusals(name: &str, thread: &quaver_probe::thread::PreparedThread) -> Vec<String> {
    thread.refused.iter().map(|refused| format!("{name}: {refused}")).collect()
}

/// Least receive buffer that is not warned of. The kernel counts about 2.3 kB for a packet of the paper's stream, so that
/// this holds 3 ms of it.
const SMALL_BUFFER_BYTES: usize = 1 << 20;

/// A sentence for a sink that got only a small receive buffer.
pub(super) fn small_buffer(bytes: usize) -> Option<String> {
    (bytes < SMALL_BUFFER_BYTES).then(|| {
        format!(
            "the sink's receive buffer has only {bytes} bytes, so a short stop of the sink loses packets: run as root, or \
             raise net.core.rmem_max"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_clock::Counter;
    use quaver_probe::sink::{Sink, SinkOptions};

    #[test]
    fn a_small_receive_buffer_is_warned_of_as_the_kernel_gave_it() {
        let got = |asked: usize| {
            let mut options = SinkOptions::new(([127, 0, 0, 1], 0).into(), Counter::MonotonicClock);
            options.receive_buffer_bytes = asked;
            Sink::open(options).expect("a socket of loopback").receive_buffer_bytes()
        };
        // The default of net.core.rmem_max, which is what a user without rights gets.
        let bytes = got(212_992);
        assert_eq!(bytes, 2 * 212_992, "the kernel counts its own overhead as much again");
        let warned = small_buffer(bytes).expect("it is small");
        assert!(warned.contains("425984 bytes") && warned.contains("net.core.rmem_max"), "{warned}");
        assert_eq!(small_buffer(SMALL_BUFFER_BYTES), None);
    }
}
