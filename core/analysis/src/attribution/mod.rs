//! Attribution: which source made each late packet (or each gap of a noise loop) late, and by how much.
//!
//! A packet is late when it reaches the application more than a threshold after its expected instant. Its *late
//! window* runs from that instant, or from the packet read before it, to its own reading, so windows are
//! disjoint and each microsecond is blamed once. Each window is cut by place (source, network stack, receiver),
//! and within a place by what held that place's CPU: NMI before interrupt before softirq before thread, and of
//! one level what started last. What nothing recorded covers is unexplained: the set complement, never a
//! difference of sums.
//!
//! Deleting a class of events turns its time into unexplained time, or into that of a recorded interval of the
//! same CPU that truly encloses it (the thread that an interrupt interrupted), with exceptions that are bounded
//! and on purpose: untraced entry and exit code beside another interruption (at most the entry-exit cap on each
//! side), the receiver's own reading that it pushed behind itself (at most the catch-up cap), and places that
//! stamps alone prove (`source-late`, `arrival-late`), which keep the time.
//! Events that only name another one (timer callbacks, cross calls, sent interrupts) make a name more precise
//! and never move time between mechanisms that were recorded.

mod actor;
mod asleep;
mod causes;
mod crowd;
mod edges;
mod engine;
mod expected;
mod faults;
mod grid;
mod late;
mod naming;
mod noise;
mod outside;
mod own;
mod packets;
mod settling;
mod stack_signs;
mod stages;
mod steal;
mod stretched;
mod timeline;
mod waiting;

#[cfg(test)]
mod tests;

use crate::model::Circumstances;
pub use crowd::{Crowd, TicklessHost, bear_out, crowd};
pub use edges::learn_edge_cost;
pub use late::LatePacket;
pub use noise::{NoiseAnalysis, NoiseOptions, analyze_noise};
pub use outside::NO_TRACING;
pub use packets::{PacketAnalysis, analyze_packets};

/// What attribution assumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttributionOptions {
    /// Lateness from which on a packet is late, nanoseconds. None: half a period, at least 5 µs and at most
    /// 100 µs.
    pub threshold_ns: Option<i64>,
    /// Most untraced time on each side of an interruption that belongs to it. None: what was measured on the
    /// receiver's CPU ([`crate::model::EdgeCost`]); where nothing was, 500 ns, under a hypervisor 1500 ns
    /// (interrupts leave the guest).
    pub entry_exit_cap_ns: Option<i64>,
    /// Most catching-up time per packet that had queued up. None: learned, twice the median time between
    /// readings of packets that were waiting, at least 500 ns.
    pub catch_up_cap_ns: Option<i64>,
}

impl AttributionOptions {
    fn edge_cap(&self, circumstances: &Circumstances) -> EdgeCap {
        let both = |cap_ns: i64| EdgeCap { entry_ns: cap_ns.max(0), exit_ns: cap_ns.max(0) };
        match (self.entry_exit_cap_ns, circumstances.edge_cost) {
            (Some(cap_ns), _) => both(cap_ns),
            (None, Some(cost)) => EdgeCap { entry_ns: cost.entry_ns.max(0), exit_ns: cost.exit_ns.max(0) },
            (None, None) => both(if circumstances.virtual_machine { 1_500 } else { 500 }),
        }
    }

    fn threshold(&self, period_ns: f64) -> i64 {
        self.threshold_ns.unwrap_or(((period_ns / 2.0) as i64).clamp(5_000, 100_000)).max(0)
    }
}

/// Most untraced time before and after an interruption that belongs to it, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCap {
    /// Before its first trace point.
    pub entry_ns: i64,
    /// After its last.
    pub exit_ns: i64,
}

/// What a piece of a late window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Inside recorded intervals of the cause.
    Body,
    /// Untraced code beside such an interval.
    EntryExit,
    /// The receiver reading packets that had queued up behind the cause.
    CatchUp,
    /// Nothing recorded explains it.
    Unexplained,
}

impl Part {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::EntryExit => "entry-exit",
            Self::CatchUp => "catch-up",
            Self::Unexplained => "unexplained",
        }
    }
}

/// Where the packet was meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketPosition {
    /// Not yet sent.
    Source,
    /// Between send call and socket.
    Stack,
    /// In the socket.
    Receiver,
}

impl PacketPosition {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Stack => "stack",
            Self::Receiver => "receiver",
        }
    }
}

/// How a piece of a late window is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certainty {
    /// Records show that the cause had the time.
    Certain,
    /// It is learned or concluded: entry and exit, the catching up, a cause that no record or sample of the window shows.
    Inferred,
    /// It has no cause.
    Unknown,
}

impl Certainty {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Inferred => "inferred",
            Self::Unknown => "unknown",
        }
    }
}

/// A piece of a late window. Pieces of one window are in time order and cover it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First instant, CLOCK_MONOTONIC. In the source's and stack's places this is the instant at which the
    /// application feels it: later than the events by the typical rest of the path.
    pub start_ns: i64,
    /// First instant after it.
    pub end_ns: i64,
    /// Index in the summary's ranked causes; none is unexplained.
    pub cause: Option<u32>,
    /// What it is.
    pub part: Part,
    /// Where the packet was.
    pub place: PacketPosition,
    /// CPU that was looked at, [`crate::model::NO_CPU`] where that is unknown.
    pub cpu: u16,
    /// How it is known.
    pub certainty: Certainty,
}

/// Leading cause of a window (none: unexplained) by summed time, ties to the lower number; none for an empty window.
fn leading(totals: &[(Option<u32>, i64)]) -> Option<Option<u32>> {
    totals
        .iter()
        .copied()
        .max_by_key(|&(cause, time)| (time, std::cmp::Reverse(cause.map_or(u32::MAX, |cause| cause))))
        .map(|(cause, _)| cause)
}

/// Sums the pieces of one window by cause into `totals`, which is emptied first.
fn total_up(drafts: &[engine::Draft], totals: &mut Vec<(Option<u32>, i64)>) {
    totals.clear();
    for draft in drafts {
        let time = draft.end_ns - draft.start_ns;
        match totals.iter_mut().find(|(cause, _)| *cause == draft.cause) {
            Some((_, sum)) => *sum += time,
            None => totals.push((draft.cause, time)),
        }
    }
}

/// Collects finished windows: books their pieces and keeps them for timelines.
#[derive(Default)]
struct Books {
    pieces: Vec<Piece>,
    totals: Vec<(Option<u32>, i64)>,
    late_ns: i64,
    unexplained: crate::summary::Unexplained,
}

impl Books {
    /// Books a window and returns its leading cause; none for an empty window.
    fn book(
        &mut self,
        drafts: &[engine::Draft],
        causes: &mut causes::CauseTable,
        seq: u64,
    ) -> Option<Option<u32>> {
        use causes::Account;
        for draft in drafts {
            let time = draft.end_ns - draft.start_ns;
            self.late_ns += time;
            match (draft.cause, draft.part) {
                (Some(cause), Part::Body) => {
                    let account = if draft.inferred { Account::InferredBody } else { Account::Body };
                    causes.book(cause, account, time, draft.event);
                }
                (Some(cause), Part::EntryExit) => causes.book(cause, Account::EntryExit, time, draft.event),
                (Some(cause), Part::CatchUp) => causes.book(cause, Account::CatchUp, time, draft.event),
                _ => self.unexplained.time_ns += time,
            }
            self.pieces.push(Piece {
                start_ns: draft.start_ns,
                end_ns: draft.end_ns,
                cause: draft.cause,
                part: draft.part,
                place: draft.place,
                cpu: draft.cpu,
                certainty: draft.certainty(),
            });
        }
        total_up(drafts, &mut self.totals);
        for &(cause, time) in &self.totals {
            match cause {
                Some(cause) => causes.stay(cause, time, seq),
                None if time > self.unexplained.worst_ns => {
                    self.unexplained.worst_ns = time;
                    self.unexplained.example_seq = Some(seq);
                }
                None => {}
            }
        }
        leading(&self.totals)
    }

    /// Counts a late sample for the cause that leads it.
    fn lead(&mut self, cause: Option<u32>, causes: &mut causes::CauseTable) {
        match cause {
            Some(cause) => causes.lead(cause),
            None => self.unexplained.packets += 1,
        }
    }
}

/// Parts below a hundredth of the unexplained time are not worth a word.
const LEAST_PART: i64 = 100;

/// What unexplained time can be on this host, given how much of it is what.
fn unexplained_note(
    circumstances: &Circumstances,
    unexplained: &crate::summary::Unexplained,
    grid_is_named: bool,
    foreign_receiver: bool,
) -> String {
    let mut note = String::from(if circumstances.virtual_machine {
        "hypervisor or hardware, or work of the receiver itself"
    } else {
        "hardware or firmware, or work of the receiver itself"
    });
    if circumstances.virtual_machine && circumstances.steal_ns > 0 {
        note.push_str(&format!("; the host counted {} ms of steal", circumstances.steal_ns / 1_000_000));
    }
    let mut part = |part_ns: i64, what: &str| {
        if part_ns.saturating_mul(LEAST_PART) >= unexplained.time_ns && part_ns > 0 {
            let us = part_ns as f64 / 1e3;
            let time = if us < 1e3 { format!("{us:.1} µs") } else { format!("{:.1} ms", us / 1e3) };
            note.push_str(&format!("; {time} of the unexplained time {what}"));
        }
    };
    part(unexplained.unplaced_steal_ns, "may be steal, whose place between two readings is not known");
    let in_calls = if foreign_receiver {
        "lies in system calls of the receiver, where no sample shows that they ran"
    } else {
        "lies in long receive or send calls"
    };
    part(unexplained.in_call_ns, in_calls);
    if let Some(period_ns) = unexplained.gap_period_ns.filter(|_| !grid_is_named) {
        note.push_str(&format!(
            "; turns of the receiver's loop that nothing recorded explains begin on a grid of {} ms",
            period_ns / 1_000_000
        ));
    }
    if !circumstances.holes.is_empty() {
        note.push_str("; or a cause whose records were lost");
    }
    if !circumstances.blind.is_empty() {
        note.push_str("; or one of the causes that this run was blind to");
    }
    note
}
