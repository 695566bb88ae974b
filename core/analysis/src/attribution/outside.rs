//! Turns of a polling loop that took much longer than its others: what is still unexplained inside them.
//!
//! In the loop's own code nothing but an interruption can take long. Where the kernel recorded none, the time was taken
//! from outside this kernel. Inside a system call the kernel itself may be slow: nothing is said of the hypervisor, unless
//! the call became long on the very grid on which the loop's own code is stopped. The grid stops interrupts and softirqs
//! too (`stretched.rs`).

use super::causes::{CauseKey, Detail};
use super::engine::Draft;
use super::grid::{Begins, Grid};
use super::steal::{Stretch, overlap};
use super::stretched::{Stops, stops};
use super::timeline::start_of;
use super::{PacketPosition, Part};
use crate::model::Circumstances;
use quaver_abi::record::{EventKind, EventRecord, GapPlace};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Identifier in the catalogue.
const SOURCE: &str = "outside";
/// In a guest whose host says what it ran instead: that is known and not in here.
const BESIDE: &str = "host worked for or beside this CPU";
/// Anywhere else.
const OUTSIDE: &str = "taken from outside this kernel";

/// What can interrupt a thread in its own code. Machine-check interrupts are left out: a kernel without their trace points
/// is one without these interrupts.
const INTERRUPTERS: [&str; 10] = [
    "timer interrupts",
    "device interrupts",
    "reschedule interrupts",
    "function-call interrupts",
    "single function-call interrupts",
    "irq_work interrupts",
    "non-maskable interrupts",
    "softirqs",
    "other threads",
    "page faults",
];

/// How a run that no tier traced begins to say what it was blind to.
pub const NO_TRACING: &str = "every cause in the kernel";

/// One long turn.
#[derive(Clone, Copy, Debug)]
struct Gap {
    at: Stretch,
    place: GapPlace,
    /// This kernel may have made it long without an interval of its own: a page fault, an interrupt that this CPU sent.
    own: bool,
    /// It began on the grid.
    on_grid: bool,
}

impl Gap {
    /// Whether the late time of a place can lie in it.
    fn is_of(&self, place: PacketPosition) -> bool {
        match self.place {
            GapPlace::UserCode | GapPlace::Call | GapPlace::EmptyPoll => place == PacketPosition::Receiver,
            GapPlace::Send => place == PacketPosition::Stack,
        }
    }
}

/// The long turns of a run, by CPU and time.
pub(crate) struct LoopGaps {
    gaps: Vec<Gap>,
    longest_ns: i64,
    name: Option<&'static str>,
    grid: Option<Grid>,
    /// Where the grid stopped recorded intervals.
    stops: Stops,
    scratch: Vec<Draft>,
}

impl LoopGaps {
    /// Takes the long turns of `events`. Those outside of `within`, where recording may have been off, show no grid.
    pub(crate) fn new(
        events: &[EventRecord],
        circumstances: &Circumstances,
        within: RangeInclusive<i64>,
    ) -> Self {
        let mut gaps: Vec<Gap> = events.iter().filter_map(long_turn).collect();
        gaps.sort_by_key(|gap| (gap.at.cpu, gap.at.start_ns, gap.at.end_ns));
        let longest_ns = gaps.iter().map(|gap| gap.at.length_ns()).max().unwrap_or(0);
        let mut all = Self {
            gaps,
            longest_ns,
            name: name(circumstances),
            grid: None,
            stops: Stops::new(),
            scratch: Vec::new(),
        };
        for event in events {
            let kind = EventKind::from_repr(event.kind);
            if matches!(kind, Some(EventKind::PageFault | EventKind::IpiSend | EventKind::TlbFlush)) {
                let at = start_of(event);
                for index in all.around(event.cpu, at, at.saturating_add(1)) {
                    all.gaps[index].own = true;
                }
            }
        }
        all.grid = Grid::find(&all.begins(events, within));
        if let Some(grid) = &all.grid {
            all.gaps.iter_mut().for_each(|gap| gap.on_grid = grid.holds(gap.at.start_ns));
            all.stops = stops(events, grid);
        }
        all
    }

    /// When turns of the receiver began that hold no recorded interval: this kernel's tick has a period too.
    fn begins(&self, events: &[EventRecord], within: RangeInclusive<i64>) -> Begins {
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
        let measured = self
            .gaps
            .iter()
            .filter(|gap| gap.place != GapPlace::Send && !gap.own)
            .filter(|gap| within.contains(&gap.at.start_ns) && within.contains(&gap.at.end_ns));
        let mut begins = Begins { own_code: Vec::new(), all: Vec::new() };
        for gap in measured.filter(alone) {
            begins.all.push(gap.at.start_ns);
            if gap.place == GapPlace::UserCode {
                begins.own_code.push(gap.at.start_ns);
            }
        }
        begins.all.sort_unstable();
        begins.own_code.sort_unstable();
        begins
    }

    /// Where the loop did not run.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.gaps.iter().map(|gap| gap.at)
    }

    /// Gives a cause to what is still unexplained in turns that were long in the loop's own code, or that are on the grid.
    pub(crate) fn carve(&mut self, drafts: &mut Vec<Draft>, mut intern: impl FnMut(CauseKey) -> u32) {
        if self.gaps.is_empty() {
            return;
        }
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        for draft in drafts.iter() {
            if draft.part != Part::Unexplained {
                self.carve_stop(*draft, &mut out, &mut intern);
                continue;
            }
            // Turns of one loop are disjoint; should two overlap, the first has the time.
            let mut rest = *draft;
            for index in
                self.around(draft.cpu, draft.start_ns - draft.shift_ns, draft.end_ns - draft.shift_ns)
            {
                let gap = self.gaps[index];
                if !gap.is_of(rest.place) || overlap(&rest, &gap.at) <= 0 {
                    continue;
                }
                let Some(key) = self.cause(&gap) else { continue };
                let start_ns = rest.start_ns.max(gap.at.start_ns.saturating_add(rest.shift_ns));
                let end_ns = rest.end_ns.min(gap.at.end_ns.saturating_add(rest.shift_ns));
                let cause = Some(intern(key));
                out.extend(
                    Some(Draft { end_ns: start_ns, ..rest }).filter(|piece| piece.start_ns < start_ns),
                );
                // No record shows itself that something outside had the time.
                out.push(Draft { start_ns, end_ns, cause, part: Part::Body, inferred: true, ..rest });
                rest.start_ns = end_ns;
            }
            out.extend(Some(rest).filter(|rest| rest.start_ns < rest.end_ns));
        }
        std::mem::swap(drafts, &mut out);
        self.scratch = out;
    }

    /// Gives the part of a recorded interval that the grid took to what stopped it.
    fn carve_stop(&self, draft: Draft, out: &mut Vec<Draft>, intern: &mut impl FnMut(CauseKey) -> u32) {
        let stop = self.stops.get(&draft.event).filter(|_| draft.part == Part::Body && !draft.taken);
        let (Some(stop), Some(grid), Some(name)) = (stop, &self.grid, self.name) else {
            return out.push(draft);
        };
        let start_ns = draft.start_ns.max(stop.start.saturating_add(draft.shift_ns));
        let end_ns = draft.end_ns.min(stop.end.saturating_add(draft.shift_ns));
        if start_ns >= end_ns {
            return out.push(draft);
        }
        let cause = Some(intern(CauseKey::new(SOURCE, Detail::Periodic(name, grid.period_ns()))));
        let parts = [
            Draft { end_ns: start_ns, ..draft },
            Draft { start_ns, end_ns, cause, event: u32::MAX, inferred: true, ..draft },
            Draft { start_ns: end_ns, ..draft },
        ];
        out.extend(parts.into_iter().filter(|part| part.start_ns < part.end_ns));
    }

    /// What stopped the loop in this turn; none where that is not known.
    fn cause(&self, gap: &Gap) -> Option<CauseKey> {
        let name = self.name?;
        match &self.grid {
            Some(grid) if gap.on_grid => {
                Some(CauseKey::new(SOURCE, Detail::Periodic(name, grid.period_ns())))
            }
            _ if gap.place == GapPlace::UserCode && !gap.own => Some(CauseKey::plain(SOURCE, name)),
            _ => None,
        }
    }

    /// Whether turns that nothing recorded explains have a cause in this run.
    pub(crate) const fn are_named(&self) -> bool {
        self.name.is_some()
    }

    /// How much of the window's unexplained time lies in turns that were long inside a system call, nanoseconds.
    pub(crate) fn in_calls_ns(&self, drafts: &[Draft]) -> i64 {
        let unexplained = drafts.iter().filter(|draft| draft.part == Part::Unexplained);
        let in_calls = |draft: &Draft| {
            let touching =
                self.around(draft.cpu, draft.start_ns - draft.shift_ns, draft.end_ns - draft.shift_ns);
            let calls = touching.into_iter().filter(|&index| {
                self.gaps[index].place != GapPlace::UserCode && self.gaps[index].is_of(draft.place)
            });
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
    pub(crate) fn period_ns(&self) -> Option<i64> {
        self.grid.as_ref().map(Grid::period_ns)
    }
}

/// Intervals that stop a loop.
fn interrupts(event: &EventRecord) -> bool {
    let kind = EventKind::from_repr(event.kind);
    matches!(
        kind,
        Some(EventKind::Nmi | EventKind::Vector | EventKind::Irq | EventKind::Softirq | EventKind::Thread)
    )
}

/// What unexplained time in the loop's own code is called; none where something that interrupts it was not recorded.
fn name(circumstances: &Circumstances) -> Option<&'static str> {
    let blind = |class: &str| circumstances.blind.iter().any(|phrase| phrase.starts_with(class));
    if circumstances.traced_cpus.is_empty() || blind(NO_TRACING) || INTERRUPTERS.into_iter().any(blind) {
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
    let place = GapPlace::from_repr(event.detail)?;
    Some(Gap { at: Stretch { cpu: event.cpu, start_ns, end_ns }, place, own: false, on_grid: false })
}
