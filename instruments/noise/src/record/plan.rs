//! What `quaver noise` is going to do: CPUs, loop, memory; and what the user should know of it beforehand.

use crate::args::NoiseArgs;
use anyhow::Context;
use quaver_host::facts::{FairServer, HostFacts};
use quaver_host::trace::TraceSpec;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::{allowed_cpus, keep_off};
use quaver_probe::noise::NoisePlan;
use quaver_probe::thread::{Setting, ThreadSettings};
use quaver_view::Cell;
use serde_json::{Value, json};

/// Gaps a second and CPU for which there is room, generously: a timer tick and its softirq are 1000 to 2000.
const GAPS_PER_SECOND: f64 = 60_000.0;
/// Most gaps of one CPU that are recorded: 32 bytes each.
const MOST_GAPS: u64 = 1 << 22;
/// Most timestamps of the dummy program: 32 bytes each.
const MOST_TIMESTAMPS: u64 = 1 << 26;
/// Events a second and CPU, generously.
const EVENTS_PER_SECOND: f64 = 60_000.0;
/// Most events held at once for one CPU: 32 bytes each.
const MOST_EVENTS: usize = 1 << 22;

/// CPUs of a noise measurement.
pub(super) struct Cpus {
    /// Those that the loops run on, ascending.
    pub(super) looped: Vec<u16>,
    /// Whether any other is left to us.
    pub(super) housekeeping: bool,
}

impl Cpus {
    /// As asked, else the last allowed. The calling thread moves off them, as far as there are others.
    pub(super) fn choose(args: &NoiseArgs) -> anyhow::Result<Self> {
        let allowed = allowed_cpus().context("reading the CPUs that this process may use")?;
        let last = || allowed.last().copied().into_iter().collect();
        let looped: Vec<u16> = args.cpus.clone().unwrap_or_else(last);
        if let Some(cpu) = looped.iter().find(|cpu| !allowed.contains(cpu)) {
            let message =
                format!("--cpus {cpu}: this process may use CPUs {allowed:?} only (see taskset, cpuset)");
            return Err(failure(ExitCode::Usage, message));
        }
        keep_off(&looped.iter().copied().collect()).context("leaving their CPUs to the loops")?;
        let housekeeping = allowed.iter().any(|cpu| !looped.contains(cpu));
        Ok(Self { looped, housekeeping })
    }
}

/// Settings of the loops' threads. A loop that may move would blame a CPU for what another did, so its CPU is a must.
pub(super) fn threads(args: &NoiseArgs, cpus: &Cpus) -> Vec<ThreadSettings> {
    let settings = |cpu: &u16| ThreadSettings {
        required: vec![Setting::Cpu],
        ..ThreadSettings::measuring(Some(*cpu), args.fifo)
    };
    cpus.looped.iter().map(settings).collect()
}

/// The loop that the options ask for, with room for what it records.
pub(super) fn loop_plan(args: &NoiseArgs) -> anyhow::Result<NoisePlan> {
    let usage = |message: String| failure(ExitCode::Usage, message);
    if !args.dummy {
        let records = (args.duration.as_secs_f64() * GAPS_PER_SECOND) as u64 + 65_536;
        let threshold_ns = args.threshold.as_nanos() as u64;
        return Ok(NoisePlan::Tight {
            threshold_ns,
            duration: args.duration,
            records: records.min(MOST_GAPS),
        });
    }
    let period_ns = args.period.ns().round();
    if (period_ns - args.period.ns()).abs() > 1e-6 {
        return Err(usage("--period: the dummy program wants a whole number of nanoseconds".to_owned()));
    }
    let count = (args.duration.as_nanos() as f64 / period_ns).round() as u64;
    if count > MOST_TIMESTAMPS {
        return Err(usage(format!(
            "--dummy: {} timestamps find no room, {} do; shorten --for or lengthen --period",
            Cell::Count(count),
            Cell::Count(MOST_TIMESTAMPS)
        )));
    }
    Ok(NoisePlan::Paced { period_ns: period_ns as u64, count: count.max(1) })
}

/// What to trace, with memory for the whole run as far as that is sensible; and whether it is for all of it.
pub(super) fn trace_spec(args: &NoiseArgs, cpus: &Cpus, threads: Vec<u32>) -> (TraceSpec, bool) {
    let wanted = (args.duration.as_secs_f64() * EVENTS_PER_SECOND) as usize + 65_536;
    let spec = TraceSpec {
        flow: None,
        threads,
        observed_process: None,
        cpus: cpus.looped.clone(),
        stamp_capacity: 1,
        event_capacity: wanted.min(MOST_EVENTS),
    };
    (spec, wanted < MOST_EVENTS)
}

/// The loop in words, for the head of the page.
pub(super) fn words(args: &NoiseArgs, plan: &NoisePlan) -> String {
    let policy = args.fifo.map_or(String::new(), |priority| format!(", SCHED_FIFO {priority}"));
    match plan {
        NoisePlan::Tight { threshold_ns, .. } => {
            format!("busy loop, gaps of {} and more{policy}", Cell::Duration(*threshold_ns as i64))
        }
        NoisePlan::Paced { period_ns, count } => format!(
            "the paper's dummy program: {} timestamps, one every {}{policy}",
            Cell::Count(*count),
            Cell::Duration(*period_ns as i64)
        ),
    }
}

/// Options as they are kept in the manifest.
pub(super) fn asked(args: &NoiseArgs, words: &str, notes: &[String]) -> Value {
    json!({
        "command": quaver_instrument::recording::command_line(),
        "stream": words,
        "for_ns": args.duration.as_nanos() as u64,
        "dummy": args.dummy,
        "fifo": args.fifo,
        "notes": notes,
    })
}

/// What real-time loops meet on this host; an error where they would leave the machine to no one.
pub(super) fn realtime_notes(args: &NoiseArgs, cpus: &Cpus, host: &HostFacts) -> anyhow::Result<Vec<String>> {
    if args.fifo.is_none() {
        return Ok(Vec::new());
    }
    let scheduling = &host.scheduling;
    let throttled = scheduling.rt_throttling();
    let served = match scheduling.fair_server {
        FairServer::Absent => false,
        FairServer::Present => true,
        FairServer::Share { runtime_ns, .. } => runtime_ns > 0,
    };
    if !cpus.housekeeping && !throttled && !served {
        return Err(failure(
            ExitCode::Usage,
            "--fifo on every CPU would stop all else until the end, since the kernel limits real-time threads here by \
             nothing; leave a CPU out with --cpus",
        ));
    }
    let mut notes = Vec::new();
    if throttled {
        let runtime_us = scheduling.rt_runtime_us.unwrap_or(0);
        let period_us = scheduling.rt_period_us.unwrap_or(0);
        notes.push(format!(
            "the kernel stops SCHED_FIFO loops for {} of each {} (real-time throttling), which shows as noise; without: \
             sysctl kernel.sched_rt_runtime_us=-1",
            Cell::Duration((period_us - runtime_us) * 1_000),
            Cell::Duration(period_us * 1_000)
        ));
    }
    if served {
        notes.push(
            "the kernel's fair server takes the CPU from SCHED_FIFO loops for up to 50 ms of each second when ordinary \
             threads wait for it, which shows as noise; without: echo 0 into \
             /sys/kernel/debug/sched/fair_server/cpu*/runtime"
                .to_owned(),
        );
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_instrument::args::parse;

    fn args(words: &[&str]) -> NoiseArgs {
        parse(["noise"].iter().chain(words)).expect("the options are known")
    }

    #[test]
    fn the_dummy_program_makes_the_papers_million_in_its_time() {
        let plan = loop_plan(&args(&["--dummy", "--for", "7.41s"])).unwrap();
        assert_eq!(plan, NoisePlan::PAPER);
        assert!(words(&args(&[]), &plan).contains("1,000,000 timestamps, one every 7.41 µs"));
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        for words in [&["--dummy", "--for", "1h"][..], &["--dummy", "--period", "1000.5ns"]] {
            let error = loop_plan(&args(words)).unwrap_err();
            assert_eq!(
                quaver_instrument::exit_code::status_of(&error, &[]),
                ExitCode::Usage,
                "{words:?}: {error}"
            );
        }
    }

    #[test]
    fn memory_is_bounded_and_says_whether_it_suffices() {
        let cpus = Cpus { looped: vec![1], housekeeping: true };
        let (spec, all) = trace_spec(&args(&["--for", "10s"]), &cpus, vec![7]);
        assert!(all && spec.event_capacity > 600_000 && spec.flow.is_none());
        let (spec, all) = trace_spec(&args(&["--for", "1h"]), &cpus, vec![7]);
        assert!(!all && spec.event_capacity == MOST_EVENTS);
    }

    #[test]
    fn real_time_loops_are_told_what_stops_them_and_never_stop_the_machine() {
        let fifo = args(&["--fifo", "50"]);
        let free = Cpus { looped: vec![1], housekeeping: true };
        let none = Cpus { looped: vec![0, 1], housekeeping: false };
        let mut host = HostFacts::default();
        host.scheduling.rt_runtime_us = Some(950_000);
        host.scheduling.rt_period_us = Some(1_000_000);
        let notes = realtime_notes(&fifo, &none, &host).unwrap();
        assert!(
            notes[0].contains("50.0 ms of each 1.00 s") && notes[0].contains("sched_rt_runtime_us=-1"),
            "{notes:?}"
        );
        host.scheduling.rt_runtime_us = Some(-1);
        assert_eq!(realtime_notes(&fifo, &free, &host).unwrap(), Vec::<String>::new());
        assert!(realtime_notes(&fifo, &none, &host).is_err());
        assert!(realtime_notes(&args(&[]), &none, &host).unwrap().is_empty());
        host.scheduling.fair_server = FairServer::Present;
        assert!(realtime_notes(&fifo, &none, &host).unwrap()[0].contains("fair server"));
    }
}
