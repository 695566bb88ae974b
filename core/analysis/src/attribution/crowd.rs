//! Threads that were runnable on one CPU at the same time, and what of the remedies against the scheduler's tick the run bears
//! out: the kernel stops the tick of a CPU only while one thread is runnable there, and only where `nohz_full` covers it
//! (Documentation/timers/no_hz.rst).

use super::actor::{ActorState, lives};
use super::timeline::{end_of, start_of};
use crate::model::Names;
use crate::summary::CauseSummary;
use quaver_abi::record::{EventKind, EventRecord, Wakeup};
use std::collections::{BTreeMap, BTreeSet};

/// The catalogue's advice that only a crowded CPU bears out.
const ALONE: &str = "leave one runnable thread on <cpu>";
/// The catalogue's boot option that only an uncovered CPU bears out.
const TICKLESS: &str = "nohz_full=<cpu>";
/// Threads that are named one by one.
const NAMED: usize = 3;

/// What the events tell of the threads that were runnable on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// Whether any thread was seen to run there. If not, nothing is known.
    pub seen: bool,
    /// Time at which more than one thread ran there or waited for the CPU, nanoseconds.
    pub crowded_ns: i64,
    /// Time of which the run tells who ran there, nanoseconds. It may begin before the measured window.
    pub seen_ns: i64,
    /// By number, the time that each of them was runnable while another was, nanoseconds.
    pub threads: BTreeMap<u32, i64>,
}

/// What the host tells of `nohz_full`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TicklessHost {
    /// Whether the kernel has it (CONFIG_NO_HZ_FULL); none where nothing tells.
    pub possible: Option<bool>,
    /// CPUs that it covers.
    pub cpus: Vec<u16>,
}

/// Threads that were runnable on a CPU at the same time.
pub fn crowd(events: &[EventRecord], cpu: u16) -> Crowd {
    let thread = |event: &&EventRecord| event.kind == EventKind::Thread as u8 && event.id != 0;
    let here = || events.iter().filter(thread).filter(|event| event.cpu == cpu);
    let (from, to) = (here().map(start_of).min(), here().map(end_of).max());
    let Some((from, to)) = from.zip(to) else { return Crowd::default() };
    let woken = events.iter().filter(|event| event.kind == EventKind::Wakeup as u8);
    let woken = woken.filter(|event| Wakeup::from_aux(event.aux).cpu == cpu).map(|event| event.id);
    let threads: BTreeSet<u32> = here().map(|event| event.id).chain(woken).collect();
    let threads: Vec<u32> = threads.into_iter().collect();

    // Where each begins and ends to be runnable; ends come first, so that a change of threads is no crowd.
    let mut edges: Vec<(i64, bool, u32)> = Vec::new();
    for life in lives(events, &threads) {
        life.spans(from, to, |span| {
            let runnable =
                matches!(span.state, ActorState::Running | ActorState::Preempted | ActorState::Woken);
            if runnable && span.cpu == Some(cpu) && span.end_ns > span.start_ns {
                edges.push((span.start_ns, true, life.thread));
                edges.push((span.end_ns, false, life.thread));
            }
        });
    }
    edges.sort_unstable();
    let mut found = Crowd { seen: true, seen_ns: to - from, ..Crowd::default() };
    let mut runnable: BTreeSet<u32> = BTreeSet::new();
    let mut since_ns = from;
    for (at_ns, begins, thread) in edges {
        if runnable.len() > 1 && at_ns > since_ns {
            found.crowded_ns += at_ns - since_ns;
            for thread in &runnable {
                *found.threads.entry(*thread).or_default() += at_ns - since_ns;
            }
        }
        since_ns = at_ns;
        if begins {
            runnable.insert(thread)
        } else {
            runnable.remove(&thread)
        };
    }
    found
}

/// Leaves of the remedies against the tick only those that the run bears out, for these CPUs: another runnable thread must have
/// been seen there, and `nohz_full` must be possible and not yet so. Without `nohz_full` a thread alone has the tick as well. What
/// is known instead is said.
pub fn bear_out(
    causes: &mut [CauseSummary],
    events: &[EventRecord],
    names: &Names,
    cpus: &[u16],
    host: &TicklessHost,
) {
    let concerned = |cause: &CauseSummary| {
        let has = |text: &Option<String>, part| text.as_ref().is_some_and(|text| text.contains(part));
        has(&cause.remedy.setting, ALONE) || has(&cause.remedy.boot, TICKLESS)
    };
    if !causes.iter().any(concerned) {
        return;
    }
    let crowds: BTreeMap<u16, Crowd> = cpus.iter().map(|cpu| (*cpu, crowd(events, *cpu))).collect();
    for remedy in causes.iter_mut().map(|cause| &mut cause.remedy) {
        let mut known = Vec::new();
        if remedy.setting.as_deref() == Some(ALONE) {
            remedy.setting = match host.possible {
                Some(false) => None,
                _ => alone(&crowds, names, &mut known),
            };
        }
        if let Some(boot) = remedy.boot.take_if(|boot| boot.contains(TICKLESS)) {
            let option = tickless(cpus, host, &mut known);
            let parts = boot.split(' ').filter_map(|part| match part {
                TICKLESS => option.clone(),
                other => Some(other.to_owned()),
            });
            let boot = parts.collect::<Vec<_>>().join(" ");
            remedy.boot = (!boot.is_empty()).then_some(boot);
        }
        if !known.is_empty() {
            remedy.known = Some(known.join("; "));
        }
    }
}

fn alone(crowds: &BTreeMap<u16, Crowd>, names: &Names, known: &mut Vec<String>) -> Option<String> {
    let mut crowded = Vec::new();
    for (cpu, crowd) in crowds {
        if !crowd.seen {
            known.push(format!("the run did not record which threads ran on CPU {cpu}"));
        } else if crowd.crowded_ns == 0 {
            known.push(format!("the run never saw more than one runnable thread on CPU {cpu}"));
        } else {
            crowded.push(format!(
                "leave one runnable thread on CPU {cpu}: {} were runnable beside others for {:.2} % of the recorded time",
                named(&crowd.threads, names),
                crowd.crowded_ns as f64 / crowd.seen_ns as f64 * 100.0
            ));
        }
    }
    if crowds.is_empty() {
        known.push("the measured thread was not pinned to a CPU".to_owned());
    }
    (!crowded.is_empty()).then(|| crowded.join("; "))
}

/// Those that shared the CPU for longest by name.
fn named(threads: &BTreeMap<u32, i64>, names: &Names) -> String {
    let name = |thread: &u32| match names.task.get(thread) {
        Some(name) => format!("{name} ({thread})"),
        None => format!("thread {thread}"),
    };
    let mut longest: Vec<(&u32, &i64)> = threads.iter().collect();
    longest.sort_by_key(|(thread, ns)| (std::cmp::Reverse(**ns), **thread));
    let first: Vec<String> = longest.iter().take(NAMED).map(|(thread, _)| name(thread)).collect();
    match threads.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn tickless(cpus: &[u16], host: &TicklessHost, known: &mut Vec<String>) -> Option<String> {
    let list = |cpus: &[u16]| cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let (covered, open): (Vec<u16>, Vec<u16>) = cpus.iter().partition(|cpu| host.cpus.contains(cpu));
    if !covered.is_empty() {
        known.push(format!("nohz_full covers CPU {} already", list(&covered)));
    }
    if open.is_empty() {
        return None;
    }
    match host.possible {
        Some(false) => known.push("this kernel has no nohz_full (CONFIG_NO_HZ_FULL)".to_owned()),
        None if host.cpus.is_empty() => {
            known.push("the run did not record whether this kernel has nohz_full".to_owned());
        }
        _ => return Some(format!("nohz_full={}", list(&open))),
    }
    None
}
