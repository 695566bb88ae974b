//! Time that the hypervisor took from a CPU: where it lies for certain, and what it is taken from.
//!
//! A record says that `amount` nanoseconds were taken somewhere between two looks at the hypervisor's count. Nothing of
//! this kernel ran meanwhile, so the time belongs to none of the intervals that the trace points drew over it: a tick, a
//! softirq or a thread only lasted longer. Two rules place it:
//!
//! - Where exactly one observed gap between the two looks can hold the amount, it lies in that gap.
//! - Of what is left, a window gets the part that fits nowhere else: the amount less the time outside the window.
//!
//! The rest is of unknown place and is booked to no cause. No record books more than its amount.

use super::causes::{CauseKey, CauseTable};
use super::engine::Draft;
use super::timeline::{end_of, start_of};
use super::{PacketPosition, Part};
use crate::model::Names;
use quaver_abi::record::{EventKind, EventRecord};

/// What the host's scheduler withheld from the CPU.
const TAKEN: CauseKey = CauseKey::plain("steal", "host ran something else");

/// Waits that a clock or somebody else ends: what is taken from the CPU meanwhile does not lengthen them.
const TIMED: [&str; 12] = [
    "rt-throttle",
    "dl-budget",
    "quota",
    "own-sleep",
    "stopped",
    "frozen",
    "traced",
    "lock",
    "thread-end",
    "peer-wait",
    "disk",
    "kernel-wait",
];

/// A stretch of time on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) cpu: u16,
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
}

/// Time taken between two instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    at: Stretch,
    amount_ns: i64,
    /// Not yet booked, and not yet counted as of unknown place.
    unbooked_ns: i64,
    uncounted_ns: i64,
}

/// All that was taken, by CPU and time.
pub(crate) struct Steal {
    taken: Vec<Taken>,
    /// The longest stretch of any record: how far before a window one may begin that reaches into it.
    longest_ns: i64,
    /// Pieces of the record at hand.
    cuts: Vec<(usize, i64, i64)>,
    scratch: Vec<Draft>,
}

impl Steal {
    /// Takes the records of `events`. `gaps` are stretches in which a polling loop was seen not to run, in any order.
    pub(crate) fn new(events: &[EventRecord], gaps: impl IntoIterator<Item = Stretch>) -> Self {
        let records = events.iter().filter(|event| event.kind == EventKind::Steal as u8);
        let mut taken: Vec<Taken> = records.filter_map(record).collect();
        taken.sort_by_key(|one| (one.at.cpu, one.at.start_ns, one.at.end_ns, one.amount_ns));
        if !taken.is_empty() {
            let mut gaps: Vec<Stretch> = gaps.into_iter().collect();
            gaps.sort_by_key(|gap| (gap.cpu, gap.start_ns, gap.end_ns));
            let longest_ns =
                gaps.iter().map(|gap| gap.end_ns.saturating_sub(gap.start_ns)).max().unwrap_or(0);
            taken.iter_mut().for_each(|one| one.narrow(&gaps, longest_ns));
            taken.sort_by_key(|one| (one.at.cpu, one.at.start_ns, one.at.end_ns, one.amount_ns));
        }
        let longest_ns = taken.iter().map(|one| one.at.length_ns()).max().unwrap_or(0);
        Self { taken, longest_ns, cuts: Vec::new(), scratch: Vec::new() }
    }

    /// Gives what certainly was taken within a window's pieces a cause of its own: of what is unexplained first, then of
    /// entry and exit code, then of intervals. Waits that a clock ends keep their time.
    pub(crate) fn carve(&mut self, drafts: &mut Vec<Draft>, causes: &mut CauseTable, names: &Names) {
        for index in self.around(drafts) {
            let one = self.taken[index];
            let timed = |draft: &Draft| draft.cause.is_some_and(|cause| TIMED.contains(&causes.id(cause)));
            let lengthened = drafts.iter().filter(|draft| !timed(draft));
            let within: i64 = lengthened.map(|draft| overlap(draft, &one.at)).sum();
            let outside = (one.at.length_ns() - within).max(0);
            let certain = (one.amount_ns - outside).min(one.unbooked_ns);
            if certain > 0 {
                let booked = self.cut_out(drafts, &one.at, certain, causes, names);
                self.taken[index].unbooked_ns -= booked;
                self.taken[index].uncounted_ns = (one.uncounted_ns - booked).max(0);
            }
        }
    }

    /// How much of the window's unexplained time may have been taken, nanoseconds: no more than what is booked nowhere.
    pub(crate) fn unplaced_ns(&mut self, drafts: &[Draft]) -> i64 {
        let mut all = 0;
        for index in self.around(drafts) {
            let one = &mut self.taken[index];
            let unexplained = drafts.iter().filter(|draft| draft.part == Part::Unexplained);
            let within: i64 = unexplained.map(|draft| overlap(draft, &one.at)).sum();
            let counted = within.min(one.uncounted_ns);
            one.uncounted_ns -= counted;
            all += counted;
        }
        all
    }

    /// Numbers of the records that reach into the pieces of a window.
    fn around(&self, drafts: &[Draft]) -> Vec<usize> {
        let mut found = Vec::new();
        if self.taken.is_empty() {
            return found;
        }
        let mut cpus: Vec<u16> = drafts.iter().map(|draft| draft.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        for cpu in cpus {
            let here = || drafts.iter().filter(|draft| draft.cpu == cpu).map(in_event_time);
            let from = here().map(|(start_ns, _)| start_ns).min().unwrap_or(0);
            let to = here().map(|(_, end_ns)| end_ns).max().unwrap_or(0);
            let earliest = from.saturating_sub(self.longest_ns);
            let first = self.taken.partition_point(|one| (one.at.cpu, one.at.start_ns) < (cpu, earliest));
            let last = self.taken.partition_point(|one| (one.at.cpu, one.at.start_ns) < (cpu, to));
            found.extend((first..last).filter(|&index| self.taken[index].at.end_ns > from));
        }
        found
    }

    /// Cuts `amount_ns` out of the pieces that lie in `at`, each from the end of what lies there. Returns how much it was.
    fn cut_out(
        &mut self,
        drafts: &mut Vec<Draft>,
        at: &Stretch,
        amount_ns: i64,
        causes: &mut CauseTable,
        names: &Names,
    ) -> i64 {
        let mut left = amount_ns;
        self.cuts.clear();
        for part in [Part::Unexplained, Part::EntryExit, Part::Body] {
            for (index, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.part == part) {
                let length = overlap(draft, at).min(left);
                let timed = draft.cause.is_some_and(|cause| TIMED.contains(&causes.id(cause)));
                if length > 0 && !draft.taken && !timed {
                    let end_ns = draft.end_ns.min(at.end_ns.saturating_add(draft.shift_ns));
                    self.cuts.push((index, end_ns - length, end_ns));
                    left -= length;
                }
            }
        }
        self.cuts.sort_unstable();
        self.scratch.clear();
        let mut cuts = self.cuts.iter().peekable();
        for (index, draft) in drafts.iter().enumerate() {
            let Some(&(_, start_ns, end_ns)) = cuts.next_if(|cut| cut.0 == index) else {
                self.scratch.push(*draft);
                continue;
            };
            let behind_source = draft.place == PacketPosition::Source;
            let cause = Some(causes.intern(CauseKey { behind_source, ..TAKEN }, names));
            let before = Draft { end_ns: start_ns, ..*draft };
            let taken = Draft {
                start_ns,
                end_ns,
                cause,
                part: Part::Body,
                event: u32::MAX,
                edges: false,
                taken: true,
                inferred: false,
                ..*draft
            };
            let after = Draft { start_ns: end_ns, ..*draft };
            self.scratch
                .extend([before, taken, after].into_iter().filter(|piece| piece.start_ns < piece.end_ns));
        }
        std::mem::swap(drafts, &mut self.scratch);
        amount_ns - left
    }
}

impl Stretch {
    pub(crate) fn length_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

impl Taken {
    /// Narrows the stretch to the one gap in it that can hold the amount, if there is exactly one.
    fn narrow(&mut self, gaps: &[Stretch], longest_ns: i64) {
        let earliest = self.at.start_ns.saturating_sub(longest_ns);
        let first = gaps.partition_point(|gap| (gap.cpu, gap.start_ns) < (self.at.cpu, earliest));
        let mut holding = gaps[first..]
            .iter()
            .take_while(|gap| (gap.cpu, gap.start_ns) < (self.at.cpu, self.at.end_ns))
            .map(|gap| Stretch {
                start_ns: gap.start_ns.max(self.at.start_ns),
                end_ns: gap.end_ns.min(self.at.end_ns),
                ..*gap
            })
            .filter(|gap| gap.length_ns() >= self.amount_ns);
        if let (Some(only), None) = (holding.next(), holding.next()) {
            self.at = only;
        }
    }
}

/// A record that can be believed: no more was taken than time passed.
fn record(event: &EventRecord) -> Option<Taken> {
    let at = Stretch { cpu: event.cpu, start_ns: start_of(event), end_ns: end_of(event) };
    let amount_ns = i64::try_from(event.aux).ok().filter(|&amount| amount > 0 && amount <= at.length_ns())?;
    Some(Taken { at, amount_ns, unbooked_ns: amount_ns, uncounted_ns: amount_ns })
}

fn in_event_time(draft: &Draft) -> (i64, i64) {
    (draft.start_ns.saturating_sub(draft.shift_ns), draft.end_ns.saturating_sub(draft.shift_ns))
}

/// Time that a piece and a stretch have in common.
pub(crate) fn overlap(draft: &Draft, at: &Stretch) -> i64 {
    if draft.cpu != at.cpu {
        return 0;
    }
    let (start_ns, end_ns) = in_event_time(draft);
    end_ns.min(at.end_ns).saturating_sub(start_ns.max(at.start_ns)).max(0)
}
