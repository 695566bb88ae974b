//! Which packets of a schedule are to be sent now, which are late, and which are never sent.

use super::schedule::{LatePolicy, Offsets};
use std::collections::VecDeque;

/// Walks through a schedule as time passes. Times are nanoseconds after its start.
///
/// A packet is *due* from its deadline on. What becomes of packets that are due together is the [`LatePolicy`]'s
/// choice. The clock and the sleeper are the caller's, so that a test can bring its own.
pub struct Pacing {
    offsets: Offsets,
    /// First deadline that has neither been taken nor missed; none at the end of the schedule.
    coming_ns: Option<u64>,
    late: LatePolicy,
    /// No slot from here on is of this flow.
    end_ns: u64,
    /// When the sender gives up what it has not sent.
    give_up_ns: u64,
    /// [`LatePolicy::SendLate`]: when packets were sent last, whether more were due then, and until when these wait.
    sent_ns: u64,
    behind: bool,
    not_before_ns: u64,
    /// How long packets gather beyond their deadline so that they go in one call.
    pub(super) gather_ns: u64,
    /// Packets of a train; 1 without.
    pub(super) train: usize,
    /// Most packets in one call.
    pub most_at_once: usize,
    /// [`LatePolicy::Skip`]: packets of the latest deadline that is due.
    due: VecDeque<u64>,
    /// What became of the slots so far.
    pub counts: PacingCounts,
}

/// What became of the slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacingCounts {
    /// Slots skipped.
    pub misses: u64,
    /// Packets sent when the next one was due as well.
    pub late: u64,
    /// Slots within the flow's time that were not sent when it was over.
    pub unsent: u64,
}

/// Least and most time that a sender takes after the end of its flow's time for what is late, nanoseconds; in between,
/// one period.
const GRACE_NS: (u64, u64) = (5_000_000, 100_000_000);

impl Pacing {
    /// At the start of the schedule. With `lasting_ns` no slot from that time on belongs to the flow.
    pub fn new(mut offsets: Offsets, late: LatePolicy, lasting_ns: Option<u64>) -> Self {
        let grace_ns = offsets.period_ns().clamp(GRACE_NS.0, GRACE_NS.1);
        let coming_ns = offsets.next();
        Self {
            coming_ns,
            offsets,
            late,
            end_ns: lasting_ns.unwrap_or(u64::MAX),
            give_up_ns: lasting_ns.map_or(u64::MAX, |end_ns| end_ns.saturating_add(grace_ns)),
            sent_ns: 0,
            behind: false,
            not_before_ns: 0,
            gather_ns: 0,
            train: 1,
            most_at_once: 1,
            due: VecDeque::new(),
            counts: PacingCounts::default(),
        }
    }

    /// Walks through the schedule: `wait` waits until an instant and gives the one at which it ended, none where it was
    /// stopped; `send` sends the packets of these deadlines, and says whether to go on. Gives whether the schedule, its
    /// packets or its time came to their end.
    pub(super) fn walk(
        &mut self,
        most_packets: u64,
        mut wait: impl FnMut(u64) -> Option<u64>,
        mut send: impl FnMut(&mut Self, &[u64]) -> bool,
    ) -> bool {
        let (mut used, mut deadlines) = (0, Vec::new());
        while used < most_packets {
            let Some(next_ns) = self.next_ns() else { break };
            let Some(now_ns) = wait(next_ns) else { return false };
            if self.gives_up(now_ns, most_packets - used) {
                break;
            }
            let most = usize::try_from(most_packets - used).unwrap_or(usize::MAX);
            self.take(now_ns, most.min(self.most_at_once), &mut deadlines);
            used += deadlines.len() as u64;
            if !send(self, &deadlines) {
                return false;
            }
        }
        true
    }

    /// Whether the flow's time is over; what is left of its packets, up to `most`, then counts as unsent.
    pub fn gives_up(&mut self, now_ns: u64, most: u64) -> bool {
        let over = now_ns >= self.give_up_ns;
        if over {
            self.counts.unsent = self.rest(most);
        }
        over
    }

    /// Nanoseconds after the start at which there is something to send; none at the end of the schedule.
    pub fn next_ns(&self) -> Option<u64> {
        let next_ns = self.due.front().copied().or(self.coming())?;
        Some(next_ns.saturating_add(self.gather_ns).max(self.not_before_ns))
    }

    fn coming(&self) -> Option<u64> {
        self.coming_ns.filter(|coming_ns| *coming_ns < self.end_ns)
    }

    /// Deadlines of what is to be sent at `now_ns`, up to `most`, into `deadlines`.
    #[inline]
    pub fn take(&mut self, now_ns: u64, most: usize, deadlines: &mut Vec<u64>) {
        deadlines.clear();
        match self.late {
            LatePolicy::Skip => {
                self.skip_to(now_ns);
                let count = most.min(self.due.len());
                deadlines.extend(self.due.drain(..count));
            }
            LatePolicy::SendLate => {
                let train = self.train as u64;
                let apart_ns = (self.offsets.period_ns().saturating_mul(train) / 2).max(1);
                // Where even the wake-ups of a late sender come further apart, it sends what it owes for that time.
                let owed = if self.behind { now_ns.saturating_sub(self.sent_ns) / apart_ns } else { 1 };
                self.take_due(now_ns, most.min((owed.max(1) * train) as usize), deadlines);
                self.sent_ns = now_ns;
                self.behind = self.coming().is_some_and(|due_ns| due_ns <= now_ns);
                self.not_before_ns = now_ns.saturating_add(apart_ns);
            }
            LatePolicy::Burst => self.take_due(now_ns, most, deadlines),
        }
    }

    #[inline]
    fn take_due(&mut self, now_ns: u64, most: usize, deadlines: &mut Vec<u64>) {
        let excused_ns = now_ns.saturating_sub(self.gather_ns);
        while deadlines.len() < most
            && let Some(due_ns) = self.coming().filter(|due_ns| *due_ns <= now_ns)
        {
            deadlines.push(due_ns);
            self.coming_ns = self.offsets.next();
            let overtaken = self.coming_ns.is_some_and(|next_ns| next_ns > due_ns && next_ns <= excused_ns);
            self.counts.late += u64::from(overtaken);
        }
    }

    /// Keeps what is due of the latest deadline, and counts what was before it as missed.
    fn skip_to(&mut self, now_ns: u64) {
        while let Some(next_ns) = self.coming().filter(|next_ns| *next_ns <= now_ns) {
            if self.due.back().is_some_and(|due_ns| *due_ns < next_ns) {
                self.counts.misses += self.due.len() as u64;
                self.due.clear();
            }
            self.due.push_back(next_ns);
            // What is below is not the last that is due, as one more step shows.
            let limit_ns = now_ns.min(self.end_ns - 1).saturating_sub(self.offsets.period_ns());
            self.counts.misses += self.offsets.skip_below(limit_ns);
            self.coming_ns = self.offsets.next();
        }
    }

    /// Slots that are left of the flow's time, as far as the flow has packets for them.
    fn rest(&mut self, most: u64) -> u64 {
        let left = self.due.len() as u64 + u64::from(self.coming().is_some());
        if left > 0 && self.coming().is_some() {
            let skipped = self.offsets.skip_below(self.end_ns);
            let end_ns = self.end_ns;
            let walked = self.offsets.by_ref().take(usize::try_from(most).unwrap_or(usize::MAX));
            return (left + skipped + walked.take_while(|due_ns| *due_ns < end_ns).count() as u64).min(most);
        }
        left.min(most)
    }
}

#[cfg(test)]
mod tests;
