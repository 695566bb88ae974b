//! Facts of a run in words, and the warnings of a run of any kind.

use quaver_analysis::attribution::TicklessHost;
use quaver_analysis::model::Actor;
use quaver_store::manifest::{Manifest, RealtimeStep};
use quaver_store::run::RunDir;
use quaver_store::utc::rfc3339_utc_ms;
use quaver_view::Cell;
use serde_json::Value;

/// Facts of a run that head its pages, already in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// Name of the run (`chase-20261120T165800Z-7f3a`).
    pub name: String,
    /// Verb that made it (`chase`, `sink`).
    pub verb: String,
    /// Path of the run directory.
    pub directory: String,
    /// Command line that made it.
    pub command: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// Version of the tool.
    pub version: String,
    /// Host in one line: name, kernel, CPUs, whether it is a virtual machine.
    pub host: String,
    /// What made an incident, and when; empty for other runs.
    pub trigger: String,
    /// Where the stream came from, in a few words (`made here, two network namespaces`).
    pub stream: String,
    /// Further facts about host and clock, as name and value, for the report.
    pub facts: Vec<(String, String)>,
}

/// Words for the head of a page, of what every kind of run knows.
pub fn run_facts(run: &RunDir, manifest: &Manifest) -> RunFacts {
    let host = |pointer: &str| manifest.host.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let asked = |key: &str| manifest.asked.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let clock_error = manifest
        .clock
        .as_ref()
        .map(|clock| format!("at most {} ({} anchors)", Cell::Duration(clock.error_bound_ns), clock.anchors));
    let facts = [
        ("kernel command line", host("/kernel/cmdline")),
        ("clock source", host("/clock/source")),
        ("processor", host("/cpu/model")),
        ("error of converted stamps", clock_error),
        (
            "scrubbed",
            manifest.scrubbed.is_some().then(|| "name-1, name-2 and so on stand for names".to_owned()),
        ),
        ("events lost", manifest.path.is_none().then(|| manifest.lost.events.to_string())),
    ];
    RunFacts {
        name: run.name(),
        verb: manifest.verb.clone(),
        // Where a copy was made is nobody else's business.
        directory: match manifest.scrubbed {
            Some(_) => run.name(),
            None => run.path().display().to_string(),
        },
        command: asked("command"),
        started: manifest.started.clone(),
        version: manifest.tool.version.clone(),
        host: host_line(manifest),
        trigger: trigger(&manifest.asked),
        stream: asked("stream"),
        facts: facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
    }
}

/// `2026-11-20T16:58:00.123Z: a packet waited 20.1 ms in this host`.
fn trigger(asked: &Value) -> String {
    let when = asked.get("trigger_realtime_ns").and_then(Value::as_i64).map(rfc3339_utc_ms);
    let words = asked.get("trigger").and_then(Value::as_str).unwrap_or_default();
    when.into_iter().map(|when| format!("{when}: {words}")).collect()
}

/// A measuring thread in words: where it ran, with which priority, and how it waits.
pub fn actor_words(actor: &Actor) -> String {
    let threads: Vec<String> = actor.threads.iter().map(u32::to_string).collect();
    let cpu = actor.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let policy = if actor.realtime { "SCHED_FIFO" } else { "normal priority" };
    let wait = if actor.blocking { "blocks" } else { "polls" };
    format!("thread {} on {cpu}, {policy}, {wait}", threads.join(", "))
}

fn host_line(manifest: &Manifest) -> String {
    let text = |pointer: &str| manifest.host.pointer(pointer).and_then(Value::as_str);
    let kernel = text("/kernel/release").unwrap_or("kernel not known");
    let cpus = manifest.host.pointer("/cpu/online").and_then(Value::as_array).map_or(0, Vec::len);
    let virtual_machine = manifest.host.pointer("/hypervisor/present").and_then(Value::as_bool) == Some(true);
    let kind = match (virtual_machine, text("/hypervisor/name")) {
        (true, Some(name)) => format!(", virtual machine ({name})"),
        (true, None) => ", virtual machine".to_owned(),
        (false, _) => String::new(),
    };
    format!("Linux {kernel}, {}{kind}", Cell::several(cpus as u64, "CPU"))
}

/// What was noted while the run was prepared.
pub fn notes(manifest: &Manifest) -> Vec<String> {
    let notes = manifest.asked.get("notes").and_then(Value::as_array);
    notes.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Warnings of a run of any verb.
pub fn warnings_of_any(manifest: &Manifest) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(reason) = manifest.incomplete_reason() {
        warnings.push(format!("the run is incomplete: {reason}"));
    }
    let steps = manifest.clock.iter().flat_map(|clock| &clock.realtime_steps);
    warnings.extend(steps.map(|step| step_of_the_wall_clock(step, manifest)));
    if manifest.lost.events > 0 {
        warnings.push(format!(
            "{} events dropped (buffer full), missing from the attribution; measure for a shorter time",
            Cell::Count(manifest.lost.events)
        ));
    }
    warnings
}

/// A step of the wall clock in words. Lateness is counted in CLOCK_MONOTONIC, which does not step; only stamps that the
/// kernel gives in wall-clock time pass through the step.
fn step_of_the_wall_clock(step: &RealtimeStep, manifest: &Manifest) -> String {
    let window = manifest.analysis.as_ref().and_then(|facts| facts.window);
    let when = match window {
        Some(window) if step.at_ns < window.start_ns => "before the measured part".to_owned(),
        Some(window) if step.at_ns > window.end_ns => "after the measured part".to_owned(),
        Some(window) => format!("{} into the measured part", Cell::Duration(step.at_ns - window.start_ns)),
        None => "during the run".to_owned(),
    };
    let sign = if step.step_ns < 0 { "back" } else { "forward" };
    format!(
        "the wall clock was stepped {sign} by {} {when}: lateness uses a monotonic clock, but kernel stamps of packets \
         within 0.1 s of the step may be off by as much; check what sets the clock (chronyc tracking, timedatectl)",
        Cell::Duration(step.step_ns.saturating_abs())
    )
}

/// What the host told of `nohz_full` when the run was recorded.
pub fn tickless_host(manifest: &Manifest) -> TicklessHost {
    let cpus = manifest.host.pointer("/cpu/nohz_full").and_then(Value::as_array);
    let number = |cpu: &Value| u16::try_from(cpu.as_u64()?).ok();
    TicklessHost {
        possible: manifest.host.pointer("/cpu/nohz_full_possible").and_then(Value::as_bool),
        cpus: cpus.into_iter().flatten().filter_map(number).collect(),
    }
}
