//! Which packets of a schedule are to be sent now, and which are missed.

use super::schedule::Offsets;
use std::collections::VecDeque;

/// Most packets that may be late at once and still be sent.
const MOST_LATE: usize = 4_096;

/// Walks through a schedule as time passes.
///
/// A packet is *due* from its deadline on. Of the packets due, those of the latest deadline are sent, and with a
/// slack those no later than that; the others are missed for good, so that nothing is ever caught up with.
pub(super) struct Pacing {
    offsets: Offsets,
    /// First deadline that is not due yet.
    coming_ns: Option<u64>,
    slack_ns: u64,
    due: VecDeque<u64>,
    pub(super) misses: u64,
}

impl Pacing {
    pub(super) fn new(mut offsets: Offsets, slack_ns: u64) -> Self {
        let coming_ns = offsets.next();
        let due = VecDeque::with_capacity(MOST_LATE + 1);
        Self { offsets, coming_ns, slack_ns, due, misses: 0 }
    }

    /// Nanoseconds after the start at which there is something to send; none at the end of the schedule.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.due.front().copied().or(self.coming_ns)
    }

    /// Deadlines of what is to be sent at `now_ns` after the start, up to `most`, into `deadlines`.
    pub(super) fn take(&mut self, now_ns: u64, most: usize, deadlines: &mut Vec<u64>) {
        deadlines.clear();
        self.gather(now_ns);
        let count = most.min(self.due.len());
        deadlines.extend(self.due.drain(..count));
    }

    fn gather(&mut self, now_ns: u64) {
        let excused_ns = now_ns.saturating_sub(self.slack_ns);
        while let Some(next_ns) = self.coming_ns.filter(|next_ns| *next_ns <= now_ns) {
            self.due.push_back(next_ns);
            self.drop_missed(excused_ns, next_ns);
            // What is below is later than excused, and not the last that is due, as one more step shows.
            let least_ns = excused_ns.min(now_ns.saturating_sub(self.offsets.period_ns()));
            self.misses += self.offsets.skip_below(least_ns);
            self.coming_ns = self.offsets.next();
        }
        if let Some(latest_ns) = self.due.back().copied() {
            self.drop_missed(excused_ns, latest_ns);
        }
    }

    /// Drops what is later than excused, but the packets of the latest deadline.
    fn drop_missed(&mut self, excused_ns: u64, latest_ns: u64) {
        while self.due.len() > MOST_LATE
            || self.due.front().is_some_and(|due_ns| *due_ns < excused_ns && *due_ns < latest_ns)
        {
            self.due.pop_front();
            self.misses += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::FlowSchedule;
    use super::*;

    fn taken(pacing: &mut Pacing, now_ns: u64, most: usize) -> Vec<u64> {
        let mut deadlines = Vec::new();
        pacing.take(now_ns, most, &mut deadlines);
        deadlines
    }

    #[test]
    fn on_time_each_packet_goes_alone() {
        let mut pacing = Pacing::new(FlowSchedule::every(100).offsets(), 0);
        for deadline in (0..1_000).step_by(100) {
            assert_eq!(pacing.next_ns(), Some(deadline));
            assert_eq!(taken(&mut pacing, deadline + 99, 64), [deadline]);
        }
        assert_eq!(pacing.misses, 0);
        assert_eq!(taken(&mut pacing, 999, 64), [0u64; 0], "nothing is due before its time");
    }

    #[test]
    fn without_slack_a_late_sender_misses_and_never_bunches() {
        let mut pacing = Pacing::new(FlowSchedule::every(100).offsets(), 0);
        assert_eq!(taken(&mut pacing, 0, 64), [0]);
        assert_eq!(taken(&mut pacing, 550, 64), [500], "100 to 400 are missed");
        assert_eq!(pacing.misses, 4);
        assert_eq!(pacing.next_ns(), Some(600));
    }

    #[test]
    fn slack_excuses_what_is_no_later() {
        let mut pacing = Pacing::new(FlowSchedule::every(100).offsets(), 250);
        assert_eq!(taken(&mut pacing, 550, 2), [300, 400], "0 to 200 are missed");
        assert_eq!(pacing.misses, 3);
        assert_eq!(pacing.next_ns(), Some(500), "the rest of them is due at once");
        assert_eq!(taken(&mut pacing, 551, 2), [500]);
        assert_eq!(taken(&mut pacing, 600, 2), [600]);
        assert_eq!(pacing.misses, 3);
    }

    #[test]
    fn packets_of_one_deadline_go_together() {
        let offsets_ns = [10, 10, 10, 20, 20].as_slice().into();
        let mut pacing = Pacing::new(FlowSchedule::Recorded { offsets_ns }.offsets(), 0);
        assert_eq!(taken(&mut pacing, 19, 64), [10, 10, 10]);
        assert_eq!(
            taken(&mut pacing, 1_000_000, 64),
            [20, 20],
            "nothing came after them, so they are not missed"
        );
        assert_eq!((pacing.next_ns(), pacing.misses), (None, 0));
    }

    #[test]
    fn a_long_pause_is_not_caught_up_with() {
        let mut pacing = Pacing::new(FlowSchedule::every(5_000).offsets(), u64::MAX);
        assert_eq!(taken(&mut pacing, 10_000_000_000, usize::MAX).len(), MOST_LATE);
        assert_eq!(pacing.misses, 2_000_001 - MOST_LATE as u64);
    }

    /// Everything due is sent or missed, whatever the hours at which the sender looks.
    #[test]
    fn nothing_is_lost_between_sent_and_missed() {
        for seed in 0..50 {
            let schedule = FlowSchedule::Poisson { mean_ns: 1_000, seed };
            let mut pacing = Pacing::new(schedule.offsets(), seed % 3 * 1_500);
            let (mut now_ns, mut sent) = (0, 0u64);
            for turn in 0..2_000 {
                now_ns += (turn * 7_919 + seed * 104_729) % 4_000;
                let deadlines = taken(&mut pacing, now_ns, 3);
                assert!(deadlines.iter().all(|deadline| *deadline <= now_ns));
                sent += deadlines.len() as u64;
            }
            let due = schedule.offsets().take_while(|offset| *offset <= now_ns).count() as u64;
            assert_eq!(sent + pacing.misses + pacing.due.len() as u64, due, "seed {seed}");
        }
    }
}
