//! How long page faults last. Their end cannot be traced: a fault takes the usual cost of one, or lasts until the next where
//! that follows soon, or as long as samples of its thread show. A program that computes has faults in a row too, so the next
//! ends the one before only if samples do not mostly find something else.
//!
//! A fault's stretch ends where the thread must have left it: at its next fault, at a border of a long system call, or where it
//! leaves the CPU. A sample in a fault says that it lasted until then. Most faults end between two samples, so stretches of one
//! order of length are judged together: they are faults to their ends if most of their samples are.

use super::actor::Life;
use super::timeline::{end_of, start_of};
use crate::model::Names;
use quaver_abi::record::{EventKind, EventRecord, SAMPLE_PERIOD_NS};
use std::collections::BTreeMap;

/// Faults nearer than this many times the usual cost of one follow each other: touching fresh pages in a row.
const SOON: i64 = 4;
/// Fewer samples in faults say nothing of others of that length.
const FEWEST_SAMPLES: u32 = 3;
/// Faults in a row are judged by the samples in all stretches up to this length: the interrupt of a sample makes its stretch
/// longer.
const ROW_NS: i64 = SAMPLE_PERIOD_NS as i64 / 16;
/// Nothing runs longer than this without a sample.
const LONGEST_SILENCE_NS: i64 = SAMPLE_PERIOD_NS as i64 + SAMPLE_PERIOD_NS as i64 / 10;
/// Functions of the kernel, by architecture, below which a thread is in a page fault.
const IN_FAULT: [&str; 4] = ["exc_page_fault", "do_page_fault", "do_mem_abort", "handle_page_fault"];

/// The page faults of the receiver's threads.
#[derive(Default)]
pub(crate) struct Faults {
    by_thread: BTreeMap<u32, Vec<Stretch>>,
}

/// From a page fault, or from the end of a sleep in one, to where the thread must have left it.
#[derive(Clone, Copy)]
struct Stretch {
    start_ns: i64,
    end_ns: i64,
    /// Whether the next fault ends it, and follows soon.
    in_row: bool,
    /// Until when a record or a sample shows the fault, or its usual cost lasts.
    shown_until_ns: i64,
    /// Until when it lasted, by others of that length too.
    fault_until_ns: i64,
    /// Signs of the thread in it come at least this far without a silence.
    heard_until_ns: i64,
    samples: u32,
    in_fault: u32,
}

impl Faults {
    /// Learns from all faults of the receiver's threads.
    pub(crate) fn new(events: &[EventRecord], names: &Names, receiver: &[Life<'_>]) -> Self {
        let cost_ns = usual_cost_ns(receiver);
        let mut marks: BTreeMap<u32, Marks> =
            receiver.iter().map(|life| (life.thread, Marks::default())).collect();
        for event in events {
            let kind = EventKind::from_repr(event.kind);
            let Some(marks) = marks.get_mut(&event.id) else { continue };
            match kind {
                Some(EventKind::SystemCall) => marks.borders_ns.extend([start_of(event), end_of(event)]),
                Some(EventKind::Sample) => marks.samples.push((start_of(event), is_in_fault(event, names))),
                _ => {}
            }
        }
        let mut by_thread: BTreeMap<u32, Vec<Stretch>> = BTreeMap::new();
        for life in receiver {
            let Some(mut marks) = marks.remove(&life.thread) else { continue };
            marks.borders_ns.sort_unstable();
            marks.samples.sort_unstable();
            by_thread.insert(life.thread, stretches(life, &marks, cost_ns));
        }
        let mut faults = Self { by_thread };
        faults.judge_rows();
        faults.judge_by_length();
        faults
    }

    /// Whether the receiver had no page fault at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_thread.values().all(Vec::is_empty)
    }

    /// Lets faults in a row last until the next, unless most samples between find the thread elsewhere.
    fn judge_rows(&mut self) {
        let short = self.by_thread.values().flatten().filter(|stretch| stretch.length_ns() <= ROW_NS);
        let (samples, in_fault) =
            short.fold((0, 0), |(samples, inside), one| (samples + one.samples, inside + one.in_fault));
        if samples >= FEWEST_SAMPLES && in_fault * 2 < samples {
            return;
        }
        for stretch in self.by_thread.values_mut().flatten().filter(|stretch| stretch.in_row) {
            stretch.shown_until_ns = stretch.end_ns;
            stretch.fault_until_ns = stretch.end_ns;
        }
    }

    /// Lets stretches of a length whose samples are mostly in faults be faults to their ends, as far as they were heard.
    fn judge_by_length(&mut self) {
        let mut seen: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for stretch in self.by_thread.values().flatten() {
            let (samples, in_fault) = seen.entry(stretch.order()).or_default();
            *samples += stretch.samples;
            *in_fault += stretch.in_fault;
        }
        for stretch in self.by_thread.values_mut().flatten() {
            let (samples, in_fault) = seen[&stretch.order()];
            if in_fault >= FEWEST_SAMPLES && in_fault * 2 > samples {
                stretch.fault_until_ns = stretch.shown_until_ns.max(stretch.heard_until_ns);
            }
        }
    }

    /// What of `from..to` a thread spent in page faults, in order, and whether only others of that length say so.
    pub(crate) fn within(&self, thread: u32, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, bool)> {
        let all = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|stretch| stretch.end_ns <= from);
        let inside = all[first..].iter().take_while(move |stretch| stretch.start_ns < to);
        let parts = inside.flat_map(|stretch| {
            let Stretch { start_ns, shown_until_ns, fault_until_ns, .. } = *stretch;
            [(start_ns, shown_until_ns, false), (shown_until_ns, fault_until_ns, true)]
        });
        parts
            .map(move |(start_ns, end_ns, inferred)| (start_ns.max(from), end_ns.min(to), inferred))
            .filter(|(from, to, _)| from < to)
    }
}

impl Stretch {
    fn length_ns(&self) -> i64 {
        self.end_ns - self.start_ns
    }

    /// Order of length: powers of two.
    fn order(&self) -> u32 {
        u64::try_from(self.length_ns()).unwrap_or(0).checked_ilog2().unwrap_or(0)
    }
}

/// What a thread did beside its faults.
#[derive(Default)]
struct Marks {
    /// Where its long system calls begin and end.
    borders_ns: Vec<i64>,
    /// Instant, and whether it was in a page fault.
    samples: Vec<(i64, bool)>,
}

fn stretches(life: &Life<'_>, marks: &Marks, cost_ns: i64) -> Vec<Stretch> {
    let faults: Vec<i64> = life.faults_from(i64::MIN).collect();
    let mut starts: Vec<(i64, i64)> = faults.iter().map(|&at| (at, at.saturating_add(cost_ns))).collect();
    // A thread that slept in a fault comes back into it.
    starts.extend(life.back_in_fault().map(|at| (at, at)));
    starts.sort_unstable();
    let mut stretches = Vec::with_capacity(starts.len());
    for (at, &(start_ns, usual_end_ns)) in starts.iter().enumerate() {
        let next = starts.get(at + 1).map_or(i64::MAX, |next| next.0);
        let border = marks.borders_ns.partition_point(|&border| border <= start_ns);
        let border = marks.borders_ns.get(border).copied().unwrap_or(i64::MAX);
        // Where nothing is recorded of it, nobody knows how long it ran.
        let left = life.left_after(start_ns).unwrap_or(usual_end_ns);
        let end_ns = next.min(border).min(left.max(usual_end_ns)).max(start_ns);
        let shown_until_ns = usual_end_ns.min(end_ns);
        let stretch = Stretch {
            start_ns,
            end_ns,
            in_row: next == end_ns && next - start_ns <= SOON * cost_ns && usual_end_ns > start_ns,
            shown_until_ns,
            fault_until_ns: shown_until_ns,
            heard_until_ns: start_ns,
            samples: 0,
            in_fault: 0,
        };
        stretches.push(heard(stretch, &marks.samples));
    }
    stretches
}

/// A stretch with what samples tell of it.
fn heard(mut stretch: Stretch, samples: &[(i64, bool)]) -> Stretch {
    let first = samples.partition_point(|sample| sample.0 < stretch.start_ns);
    let mut silent = false;
    for &(at, in_fault) in samples[first..].iter().take_while(|sample| sample.0 < stretch.end_ns) {
        silent |= at - stretch.heard_until_ns > LONGEST_SILENCE_NS;
        stretch.samples += 1;
        stretch.in_fault += u32::from(in_fault);
        if !silent {
            stretch.heard_until_ns = at;
            if in_fault {
                stretch.shown_until_ns = stretch.shown_until_ns.max(at);
            }
        }
    }
    if !silent && stretch.end_ns - stretch.heard_until_ns <= LONGEST_SILENCE_NS {
        stretch.heard_until_ns = stretch.end_ns;
    }
    stretch.fault_until_ns = stretch.shown_until_ns;
    stretch
}

/// Whether a sample found its thread in a page fault.
fn is_in_fault(sample: &EventRecord, names: &Names) -> bool {
    let kernel = names.stack.get(&(sample.aux as u32));
    kernel.into_iter().flatten().any(|name| IN_FAULT.contains(&name.as_str()))
}

/// Usual cost of one page fault, learned: the 10th percentile of the distances of successive faults nearer than 20 µs, since a
/// program that computes between its faults makes most of them longer; 1 µs where there are no such faults.
fn usual_cost_ns(lives: &[Life<'_>]) -> i64 {
    let mut gaps: Vec<i64> = Vec::new();
    for life in lives {
        let mut previous: Option<i64> = None;
        for instant in life.faults_from(i64::MIN) {
            gaps.extend(previous.map(|before| instant - before).filter(|gap| (1..20_000).contains(gap)));
            previous = Some(instant);
        }
    }
    gaps.sort_unstable();
    gaps.get(gaps.len() / 10).copied().unwrap_or(1_000)
}
