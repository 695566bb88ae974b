//! How debt passes from thread to thread where they meet.
//!
//! A thread that is late makes those late that wait for it. If it alone owed, it would win back what the others lose in the
//! meantime, and then wait for them. So whoever was waited for hands on what it owes (4.1.4: threads join with a barrier, and take
//! the maximum).

use serde::{Deserialize, Serialize};

/// The rule by which a thread's debt follows the critical path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CriticalPath {
    /// A thread that joins another owes the larger of both debts; wake-ups pass nothing on.
    Join,
    /// All that meet at a barrier owe the largest of their debts, a woken thread the larger of its own and its waker's.
    #[default]
    Max,
    /// As `Max`, but at barriers and joins a thread that waited owes no more than it owed plus its wait, nor more than the thread
    /// that it waited for.
    Slack,
}

/// A thread that meets others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// What it owed when it came, femtoseconds; negative where more was given back than lost.
    pub owed_fs: i64,
    /// How long it has waited for the others since, femtoseconds; 0 of the last one.
    pub waited_fs: u64,
}

impl Arrival {
    /// What it owes if the thread that came last owes `last_fs`: it is late only as far as its wait was not slack.
    fn by_slack(self, last_fs: i64) -> i64 {
        last_fs.min(self.owed_fs.saturating_add_unsigned(self.waited_fs))
    }
}

impl CriticalPath {
    /// What rules there are.
    pub const ALL: [Self; 3] = [Self::Join, Self::Max, Self::Slack];

    /// As it is written in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Max => "max",
            Self::Slack => "slack",
        }
    }

    /// What a thread owes whose waker gave back a lock, signalled or broadcast while owing `waker_fs`.
    pub fn woken(self, own_fs: i64, waker_fs: i64) -> i64 {
        match self {
            Self::Join => own_fs,
            Self::Max | Self::Slack => own_fs.max(waker_fs),
        }
    }

    /// What a thread owes after a barrier. The last to come owed `last_fs`, and the one that owed most of all `most_fs`.
    pub fn met(self, own: Arrival, last_fs: i64, most_fs: i64) -> i64 {
        match self {
            Self::Join => own.owed_fs,
            Self::Max => most_fs,
            Self::Slack => own.by_slack(last_fs),
        }
    }

    /// What a thread owes after it has joined one that owed `ended_fs` at its end.
    pub fn joined(self, own: Arrival, ended_fs: i64) -> i64 {
        match self {
            Self::Join | Self::Max => own.owed_fs.max(ended_fs),
            Self::Slack if own.waited_fs == 0 => own.owed_fs,
            Self::Slack => own.by_slack(ended_fs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [CriticalPath; 3] = CriticalPath::ALL;

    fn came(owed_fs: i64, waited_fs: u64) -> Arrival {
        Arrival { owed_fs, waited_fs }
    }

    #[test]
    fn a_woken_thread_owes_the_larger_debt_unless_only_joins_count() {
        assert_eq!(ALL.map(|rule| rule.woken(3, 7)), [3, 7, 7]);
        assert_eq!(ALL.map(|rule| rule.woken(7, 3)), [7, 7, 7]);
        assert_eq!(ALL.map(|rule| rule.woken(-7, -3)), [-7, -3, -3]);
    }

    #[test]
    fn at_a_barrier_slack_hands_on_no_more_than_was_waited_for() {
        // The last owes 100; one waited for 40 and owed nothing; a third owes most, 250, and still waited for 5.
        assert_eq!(ALL.map(|rule| rule.met(came(0, 40), 100, 250)), [0, 250, 40]);
        assert_eq!(ALL.map(|rule| rule.met(came(0, 400), 100, 250)), [0, 250, 100]);
        assert_eq!(
            ALL.map(|rule| rule.met(came(250, 5), 100, 250)),
            [250, 250, 100],
            "it waited all the same"
        );
        assert_eq!(
            ALL.map(|rule| rule.met(came(100, 0), 100, 250)),
            [100, 250, 100],
            "the last keeps its own"
        );
    }

    #[test]
    fn who_joins_a_thread_that_has_ended_before_was_not_held_up_by_it() {
        assert_eq!(ALL.map(|rule| rule.joined(came(0, 0), 100)), [100, 100, 0]);
        assert_eq!(ALL.map(|rule| rule.joined(came(0, 60), 100)), [100, 100, 60]);
        assert_eq!(ALL.map(|rule| rule.joined(came(300, 60), 100)), [300, 300, 100]);
    }

    #[test]
    fn nobody_owes_where_nobody_owed_unless_it_waited_for_slack() {
        for rule in ALL {
            assert_eq!((rule.woken(0, 0), rule.met(came(0, 9), 0, 0), rule.joined(came(0, 9), 0)), (0, 0, 0));
        }
    }
}
