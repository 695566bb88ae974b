//! Turns of a polling loop that took much longer than its others: what is still unexplained inside them.
//!
//! In the loop's own code nothing but an interruption can take long. Where the kernel recorded none, the time was taken
//! from outside this kernel. Inside a system call the kernel itself may be slow, and nothing is said of the hypervisor.

use super::causes::CauseKey;
use super::engine::Draft;
use super::steal::{Stretch, overlap};
use super::timeline::start_of;
use super::{PacketPosition, Part};
use crate::model::Circumstances;
use quaver_abi::record::{EventKind, EventRecord, GapPlace};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// In a guest whose host says what it ran instead: that is known and not in here.
const BESIDE: CauseKey = CauseKey::plain("outside", "host worked for or beside this CPU");
/// Anywhere else.
const OUTSIDE: CauseKey = CauseKey::plain("outside", "taken from outside this kernel");

/// What can interrupt a thread in its own code. Machine-check interrupts are left out: a kernel without their trace points
/// is one without these interrupts.
const INTERRUPTERS: [&str; 9] = [
    "timer interrupts",
    "device interrupts",
    "reschedule interrupts",
    "function-call interrupts",
    "single function-call interrupts",
    "irq_work interrupts",
    "non-maskable interrupts",
    "softirqs",
    "other threads",
];

/// Periods that timers of hosts have, nanoseconds, the longest first.
const PERIODS_NS: [i64; 4] = [10_000_000, 4_000_000, 2_000_000, 1_000_000];
/// A period is named where chance gives such a concentration less often.
const CHANCE: f64 = 1e-6;

/// One long turn.
#[derive(Clone, Copy, Debug)]
struct Gap {
    at: Stretch,
    place: GapPlace,
    /// This kernel may have made it long without an interval of its own: a page fault, an interrupt that this CPU sent.
    own: bool,
}

/// The long turns of a run, by CPU and time.
pub(crate) struct LoopGaps {
    gaps: Vec<Gap>,
    longest_ns: i64,
    name: Option<CauseKey>,
    scratch: Vec<Draft>,
}

impl LoopGaps {
    /// Takes the long turns of `events`.
    pub(crate) fn new(events: &[EventRecord], circumstances: &Circumstances) -> Self {
        let mut gaps: Vec<Gap> = events.iter().filter_map(long_turn).collect();
        gaps.sort_by_key(|gap| (gap.at.cpu, gap.at.start_ns, gap.at.end_ns));
        let longest_ns = gaps.iter().map(|gap| gap.at.length_ns()).max().unwrap_or(0);
        let mut all = Self { gaps, longest_ns, name: name(circumstances), scratch: Vec::new() };
        for event in events {
            let kind = EventKind::from_raw(event.kind);
            if matches!(kind, Some(EventKind::PageFault | EventKind::IpiSend | EventKind::TlbFlush)) {
                let at = start_of(event);
                for index in all.around(event.cpu, at, at.saturating_add(1)) {
                    all.gaps[index].own = true;
                }
            }
        }
        all
    }

    /// Where the loop did not run.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.gaps.iter().map(|gap| gap.at)
    }

    /// Gives a cause to what is still unexplained in turns that were long in the loop's own code.
    pub(crate) fn carve(&mut self, drafts: &mut Vec<Draft>, mut intern: impl FnMut(CauseKey) -> u32) {
        if self.gaps.is_empty() {
            return;
        }
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        for draft in drafts.iter() {
            if draft.part != Part::Unexplained || draft.place != PacketPosition::Receiver {
                out.push(*draft);
                continue;
            }
            // Turns of one loop are disjoint; should two overlap, the first has the time.
            let mut rest = *draft;
            for index in
                self.around(draft.cpu, draft.start_ns - draft.shift_ns, draft.end_ns - draft.shift_ns)
            {
                let gap = self.gaps[index];
                let own_code = gap.place == GapPlace::UserCode && !gap.own && overlap(&rest, &gap.at) > 0;
                let Some(name) = self.name.filter(|_| own_code) else { continue };
                let start_ns = rest.start_ns.max(gap.at.start_ns.saturating_add(rest.shift_ns));
                let end_ns = rest.end_ns.min(gap.at.end_ns.saturating_add(rest.shift_ns));
                let cause = Some(intern(name));
                out.extend(
                    Some(Draft { end_ns: start_ns, ..rest }).filter(|piece| piece.start_ns < start_ns),
                );
                out.push(Draft { start_ns, end_ns, cause, part: Part::Body, ..rest });
                rest.start_ns = end_ns;
            }
            out.extend(Some(rest).filter(|rest| rest.start_ns < rest.end_ns));
        }
        std::mem::swap(drafts, &mut out);
        self.scratch = out;
    }

    /// How much of the window's unexplained time lies in turns that were long inside a system call, nanoseconds.
    pub(crate) fn in_calls_ns(&self, drafts: &[Draft]) -> i64 {
        let unexplained = drafts
            .iter()
            .filter(|draft| draft.part == Part::Unexplained && draft.place == PacketPosition::Receiver);
        let in_calls = |draft: &Draft| {
            let touching =
                self.around(draft.cpu, draft.start_ns - draft.shift_ns, draft.end_ns - draft.shift_ns);
            let calls = touching.into_iter().filter(|&index| self.gaps[index].place != GapPlace::UserCode);
            calls.map(|index| overlap(draft, &self.gaps[index].at)).sum::<i64>()
        };
        unexplained.map(in_calls).sum()
    }

    /// Numbers of the turns that touch a stretch.
    fn around(&self, cpu: u16, from: i64, to: i64) -> Vec<usize> {
        let earliest = from.saturating_sub(self.longest_ns);
        let first = self.gaps.partition_point(|gap| (gap.at.cpu, gap.at.start_ns) < (cpu, earliest));
        let last = self.gaps.partition_point(|gap| (gap.at.cpu, gap.at.start_ns) < (cpu, to));
        (first..last).filter(|&index| self.gaps[index].at.end_ns > from).collect()
    }

    /// The period, nanoseconds, on which long turns in the loop's own code begin; none where chance could have put them so.
    /// Turns with a recorded interval in them are left out: this kernel's tick has a period too. So are those outside of
    /// `within`, where recording may have been off.
    pub(crate) fn period_ns(&self, events: &[EventRecord], within: RangeInclusive<i64>) -> Option<i64> {
        let mut starts: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
        for event in events.iter().filter(|event| interrupts(event)) {
            starts.entry(event.cpu).or_default().push(start_of(event));
        }
        starts.values_mut().for_each(|starts| starts.sort_unstable());
        let alone = |gap: &&Gap| {
            let Some(starts) = starts.get(&gap.at.cpu) else { return true };
            let next = starts.partition_point(|&start| start < gap.at.start_ns);
            starts.get(next).is_none_or(|&start| start >= gap.at.end_ns)
        };
        let own_code = self.gaps.iter().filter(|gap| gap.place == GapPlace::UserCode && !gap.own);
        let measured =
            own_code.filter(|gap| within.contains(&gap.at.start_ns) && within.contains(&gap.at.end_ns));
        let begins: Vec<i64> = measured.filter(alone).map(|gap| gap.at.start_ns).collect();
        PERIODS_NS.into_iter().find(|&period_ns| chance(&begins, period_ns) < CHANCE)
    }
}

/// How often chance concentrates as many instants as much on one phase of a period: Rayleigh's test, p = exp(-n R²), where R
/// is the length of the mean of the unit vectors at their phases (Mardia and Jupp, Directional Statistics, section 6.3).
fn chance(instants: &[i64], period_ns: i64) -> f64 {
    let (mut along, mut across) = (0.0, 0.0);
    // Turns that follow each other at once have one reason, and are no more evidence than the first of them.
    let mut counted: Vec<i64> = Vec::new();
    for &instant in instants {
        if counted.last().is_none_or(|last| instant.saturating_sub(*last) >= period_ns / 2) {
            counted.push(instant);
        }
    }
    for instant in &counted {
        let phase = instant.rem_euclid(period_ns) as f64 / period_ns as f64 * std::f64::consts::TAU;
        along += phase.cos();
        across += phase.sin();
    }
    if counted.is_empty() { 1.0 } else { (-(along * along + across * across) / counted.len() as f64).exp() }
}

/// Intervals that stop a loop.
fn interrupts(event: &EventRecord) -> bool {
    let kind = EventKind::from_raw(event.kind);
    matches!(
        kind,
        Some(EventKind::Nmi | EventKind::Vector | EventKind::Irq | EventKind::Softirq | EventKind::Thread)
    )
}

/// What unexplained time in the loop's own code is called; none where something that interrupts it was not recorded.
fn name(circumstances: &Circumstances) -> Option<CauseKey> {
    let blind = |class: &str| circumstances.blind.iter().any(|phrase| phrase.starts_with(class));
    if circumstances.traced_cpus.is_empty() || INTERRUPTERS.into_iter().any(blind) {
        return None;
    }
    Some(if circumstances.virtual_machine && !blind("steal") { BESIDE } else { OUTSIDE })
}

fn long_turn(event: &EventRecord) -> Option<Gap> {
    if event.kind != EventKind::LoopGap as u8 {
        return None;
    }
    let start_ns = start_of(event);
    let end_ns = start_ns.saturating_add(i64::try_from(event.aux).ok()?);
    let place = GapPlace::from_raw(event.detail)?;
    Some(Gap { at: Stretch { cpu: event.cpu, start_ns, end_ns }, place, own: false })
}
