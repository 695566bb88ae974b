//! When the packets of a flow are due.

use super::random::Random;
use std::sync::Arc;

/// Shortest period.
pub const LEAST_PERIOD_NS: u64 = 100;
/// Shortest mean gap of a Poisson schedule: a late sender steps over missed deadlines one by one, and must be faster
/// at that than they come.
pub const LEAST_MEAN_NS: u64 = 1_000;

/// Periods below this are of high rate: packets may go in batches, and stamps of transmission are not asked for.
pub const HIGH_RATE_PERIOD_NS: u64 = 20_000;

/// What a late sender does with the packets whose time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatePolicy {
    /// It skips each slot whose successor is due as well: no two packets are ever closer than due, and some are never
    /// sent.
    Skip,
    /// It sends every slot, late ones of a periodic schedule half a period apart (as far as its wake-ups come so often):
    /// the mean period is the schedule's, and no burst makes up for lost time.
    SendLate,
    /// It sends every slot, all that are due at once: each is as little late as can be.
    Burst,
}

impl LatePolicy {
    /// All policies, in the order of their numbers on the wire, from 1 on.
    pub const ALL: [Self; 3] = [Self::Skip, Self::SendLate, Self::Burst];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::SendLate => "send-late",
            Self::Burst => "burst",
        }
    }

    /// What suits a schedule. A periodic one keeps its mean and its distances ([`Self::SendLate`]). A random or recorded
    /// one is sampled in every slot, as near to its time as can be ([`Self::Burst`]; RFC 2330, 11.1.1): what the sender
    /// leaves out when its host is busy would be missing just there. So is a period below 20 us, which no sender keeps
    /// packet by packet.
    pub const fn usual(schedule: &FlowSchedule) -> Self {
        match schedule {
            FlowSchedule::Periodic { period_ns: HIGH_RATE_PERIOD_NS.., .. } => Self::SendLate,
            _ => Self::Burst,
        }
    }
}

/// When packets are due, in nanoseconds after the start of the flow.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowSchedule {
    /// A packet each period (RFC 3432), the first at a time within the first period that the seed chooses (its
    /// section 4.4); without a seed, at once.
    Periodic {
        /// Nanoseconds between packets.
        period_ns: u64,
        /// Chooses the start.
        random_start: Option<u64>,
    },
    /// Independent exponential gaps (RFC 2330, 11.1.1), the first before the first packet.
    Poisson {
        /// Mean gap, nanoseconds.
        mean_ns: u64,
        /// The same seed gives the same gaps.
        seed: u64,
    },
    /// As recorded: offsets from the start, not decreasing. The flow ends with them, if not before.
    Recorded {
        /// Nanoseconds after the start, a packet each.
        offsets_ns: Arc<[u64]>,
    },
}

impl FlowSchedule {
    /// Each `period_ns`, from the start on.
    pub const fn every(period_ns: u64) -> Self {
        Self::Periodic { period_ns, random_start: None }
    }

    /// Mean nanoseconds between packets; 0 for a recording of fewer than 2.
    pub fn mean_period_ns(&self) -> u64 {
        match self {
            Self::Periodic { period_ns, .. } => *period_ns,
            Self::Poisson { mean_ns, .. } => *mean_ns,
            Self::Recorded { offsets_ns } => match (&**offsets_ns, offsets_ns.len() as u64) {
                ([first, .., last], packets) => (last - first.min(last)) / (packets - 1),
                _ => 0,
            },
        }
    }

    /// Nanoseconds until the last of `packets` is due; of a Poisson schedule with six standard deviations more.
    pub fn expected_duration_ns(&self, packets: u64) -> u64 {
        match self {
            Self::Periodic { period_ns, .. } => period_ns.saturating_mul(packets),
            Self::Poisson { mean_ns, .. } => {
                let spare = (packets as f64).sqrt() * 6.0;
                (*mean_ns as f64 * (packets as f64 + spare)) as u64
            }
            Self::Recorded { offsets_ns } => {
                let most =
                    usize::try_from(packets).map_or(offsets_ns.len(), |most| most.min(offsets_ns.len()));
                offsets_ns[..most].last().copied().unwrap_or(0)
            }
        }
    }

    /// Whether it can be kept.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Periodic { period_ns: 0..LEAST_PERIOD_NS, .. }
            | Self::Poisson { mean_ns: 0..LEAST_PERIOD_NS, .. } => {
                Err("the period is too short: give at least 100 ns, which no sender keeps up with")
            }
            Self::Recorded { offsets_ns } if offsets_ns.is_empty() => Err("the recording has no packets"),
            Self::Recorded { offsets_ns } if !offsets_ns.is_sorted() => {
                Err("the recorded offsets decrease: sort them by time")
            }
            _ => Ok(()),
        }
    }

    /// The due times in their order.
    pub fn offsets(&self) -> Offsets {
        let state = match self {
            Self::Periodic { period_ns, random_start } => {
                let start_ns = random_start.map_or(0, |seed| Random::new(seed).below(*period_ns));
                SchedulePosition::Periodic { next_ns: Some(start_ns), period_ns: *period_ns }
            }
            Self::Poisson { mean_ns, seed } => SchedulePosition::Poisson {
                exact_ns: 0.0,
                mean_ns: *mean_ns as f64,
                random: Random::new(*seed),
            },
            Self::Recorded { offsets_ns } => {
                SchedulePosition::Recorded { offsets_ns: Arc::clone(offsets_ns), next: 0 }
            }
        };
        Offsets(state)
    }
}

/// Due times of a schedule, nanoseconds after the start; see [`FlowSchedule::offsets`].
#[derive(Clone, Debug)]
pub struct Offsets(SchedulePosition);

#[derive(Clone, Debug)]
enum SchedulePosition {
    Periodic { next_ns: Option<u64>, period_ns: u64 },
    Poisson { exact_ns: f64, mean_ns: f64, random: Random },
    Recorded { offsets_ns: Arc<[u64]>, next: usize },
}

impl Offsets {
    /// Nanoseconds between offsets, where they are all the same.
    pub(super) fn period_ns(&self) -> u64 {
        match self.0 {
            SchedulePosition::Periodic { period_ns, .. } => period_ns,
            SchedulePosition::Poisson { .. } | SchedulePosition::Recorded { .. } => 0,
        }
    }

    /// Steps over the offsets below `limit_ns` where that takes no longer for many than for one; how many.
    pub(super) fn skip_below(&mut self, limit_ns: u64) -> u64 {
        let SchedulePosition::Periodic { next_ns: Some(next_ns), period_ns } = &mut self.0 else { return 0 };
        let skipped = limit_ns.saturating_sub(*next_ns).div_ceil(*period_ns);
        let Some(beyond_ns) =
            skipped.checked_mul(*period_ns).and_then(|step_ns| next_ns.checked_add(step_ns))
        else {
            return 0;
        };
        *next_ns = beyond_ns;
        skipped
    }
}

impl Iterator for Offsets {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match &mut self.0 {
            SchedulePosition::Periodic { next_ns, period_ns } => {
                let due_ns = (*next_ns)?;
                *next_ns = due_ns.checked_add(*period_ns);
                Some(due_ns)
            }
            SchedulePosition::Poisson { exact_ns, mean_ns, random } => {
                *exact_ns += random.exponential() * *mean_ns;
                Some(*exact_ns as u64)
            }
            SchedulePosition::Recorded { offsets_ns, next } => {
                let due_ns = offsets_ns.get(*next).copied();
                *next += 1;
                due_ns
            }
        }
    }
}
