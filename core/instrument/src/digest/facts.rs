//! Facts of a run in words, and the sentences that warn.

use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::TicklessHost;
use quaver_analysis::summary::ChaseSummary;
use quaver_host::root::HostRoot;
use quaver_page as report;
use quaver_page::RunFacts;
use quaver_page::units::duration;
use quaver_store::manifest::{Manifest, RealtimeStep};
use quaver_store::run::RunDir;
use serde_json::Value;

/// Words for the head of a page.
pub fn run_facts(run: &RunDir, manifest: &Manifest) -> RunFacts {
    let analysis = manifest.analysis.clone().unwrap_or_default();
    let text = |pointer: &str| manifest.host.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push((name.to_owned(), value));
        }
    };
    add("kernel command line", text("/kernel/cmdline"));
    add("clock source", text("/clock/source"));
    add("processor", text("/cpu/model"));
    if let Some(clock) = &manifest.clock {
        let bound = format!("{} ns at most ({} anchors)", clock.error_bound_ns, clock.anchors);
        add("error of converted stamps", Some(bound));
    }
    match &manifest.noise {
        Some(noise) => noise.loops.iter().for_each(|one| add("loop", Some(actor(&one.actor)))),
        // The ends of a path are told with its flows.
        None if manifest.path.is_some() => {}
        None => add("receiver", Some(actor(&analysis.receiver))),
    }
    add("source", analysis.source.as_ref().map(actor));
    if let Some(far) = &analysis.far_source {
        add("source at the other host", Some(format!("{} · {}", far.server, report::far_source::said(far))));
        add("what arrived of its stream", Some(report::far_source::arrived(far)));
    }
    if manifest.path.is_none() {
        add("events lost", Some(manifest.lost.events.to_string()));
    }
    RunFacts {
        name: run.name(),
        verb: manifest.verb.clone(),
        directory: run.path().display().to_string(),
        command: manifest.asked.get("command").and_then(Value::as_str).unwrap_or_default().to_owned(),
        started: manifest.started.clone(),
        version: manifest.tool.version.clone(),
        host: host_line(manifest),
        stream: manifest.asked.get("stream").and_then(Value::as_str).unwrap_or_default().to_owned(),
        facts,
    }
}

fn actor(actor: &quaver_analysis::model::Actor) -> String {
    let threads: Vec<String> = actor.threads.iter().map(u32::to_string).collect();
    let cpu = actor.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let policy = if actor.realtime { "SCHED_FIFO" } else { "normal priority" };
    let wait = if actor.blocking { "sleeps for its packets" } else { "never sleeps" };
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
    let plural = if cpus == 1 { "" } else { "s" };
    format!("Linux {kernel}, {cpus} CPU{plural}{kind}")
}

/// What the reader should know before believing the numbers, each with what to do about it.
pub(super) fn warnings(summary: &ChaseSummary, manifest: &Manifest) -> Vec<String> {
    let mut warnings = warnings_of_any(manifest);
    let counts = manifest.analysis.as_ref().map(|facts| &facts.counts);
    if let Some(lost) = counts.map(|counts| counts.stamps_lost).filter(|lost| *lost > 0) {
        warnings.push(format!(
            "{lost} kernel stamps were overwritten before they were read; measure for a shorter time"
        ));
    }
    if summary.losses.received == 0 {
        warnings.push(
            "not one packet was received, so nothing is known of lateness; see that the sink has a CPU to run on and \
             that nothing filters the stream"
                .to_owned(),
        );
    }
    if summary.losses.unaccounted > 0 {
        warnings.push(format!(
            "{} packets are missing and no counter says where; more tracing (see `quaver doctor`) would tell",
            summary.losses.unaccounted
        ));
    }
    warnings.extend(notes(manifest));
    warnings
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
            "{} events found no room and are missing from the attribution; measure for a shorter time",
            manifest.lost.events
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
        Some(window) => format!("{} into the measured part", duration(step.at_ns - window.start_ns)),
        None => "during the run".to_owned(),
    };
    let sign = if step.step_ns < 0 { "back" } else { "forward" };
    format!(
        "the wall clock was stepped {sign} by {} {when}: lateness is counted in a clock that does not step, but kernel \
         stamps of packets within 0.1 s of the step may be off by as much; see what sets the clock (chronyc tracking, \
         timedatectl)",
        duration(step.step_ns.saturating_abs())
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

/// Whether a run was recorded since this host's last boot, as far as can be told: same kernel, and not before.
pub(super) fn of_this_boot(manifest: &Manifest, root: &HostRoot) -> bool {
    let stat = root.text("proc/stat").unwrap_or_default();
    let boot_seconds = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<i64>().ok());
    let release = root.text("proc/sys/kernel/osrelease");
    let recorded = manifest.host.pointer("/kernel/release").and_then(Value::as_str);
    let same_kernel = release.is_some_and(|release| recorded == Some(release.trim()));
    same_kernel && boot_seconds.is_some_and(|boot| manifest.started_realtime_ns / 1_000_000_000 >= boot)
}

/// The kernel function that an event tells of, if its kind tells of one.
pub(super) fn function_address(event: &EventRecord) -> Option<u64> {
    let tells = matches!(
        EventKind::from_raw(event.kind)?,
        EventKind::Nmi
            | EventKind::Hrtimer
            | EventKind::Timer
            | EventKind::Work
            | EventKind::CrossCall
            | EventKind::IpiSend
    );
    (tells && event.aux != 0).then_some(event.aux)
}

/// The thread that an event tells of, idle excepted.
pub(super) fn thread_of(event: &EventRecord) -> Option<u32> {
    (EventKind::from_raw(event.kind)? == EventKind::Thread && event.id != 0).then_some(event.id)
}
