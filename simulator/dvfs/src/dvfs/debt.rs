//! How debt passes from thread to thread where they meet.
//!
//! A thread that is late makes those late that wait for it. If it alone owed, it would win back what the others lose in the
//! meantime, and then wait for them. So whoever was waited for hands on what it owes (4.1.4: threads join with a barrier, and take
//! the maximum).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rule by which a thread's debt follows the critical path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CriticalPath {
    /// A thread that joins another owes the larger of both debts; wake-ups pass nothing on.
    Join,
    /// All that meet at a barrier owe the largest of their debts. A woken thread owes its waker's if that is larger than its own, but
    /// no more than it owed plus its wait.
    #[default]
    Max,
    /// As `Max`, but all that meet at a barrier owe the least of their debts plus waits: so much later than in time the barrier
    /// opened. Who joins another owes no more than it owed plus its wait, nor more than the other.
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
    /// What it owes at most after its wait: so much if nobody would have kept it waiting in time, femtoseconds.
    pub fn most_fs(self) -> i64 {
        self.owed_fs.saturating_add_unsigned(self.waited_fs)
    }

    /// What it owes if the thread that came last owes `last_fs`: it is late only as far as its wait was not slack.
    fn by_slack(self, last_fs: i64) -> i64 {
        last_fs.min(self.most_fs())
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
    ///
    /// The waker made it late by its wait at most. A wait that it would have had in time as well makes up for what it owed; but if it
    /// would have come first in time, it lost the wait too. Nothing says which, so that it keeps what it owed.
    pub fn woken(self, own: Arrival, waker_fs: i64) -> i64 {
        match self {
            Self::Join => own.owed_fs,
            Self::Max | Self::Slack => own.owed_fs.max(own.by_slack(waker_fs)),
        }
    }

    /// What a thread that owed `own_fs` owes after a barrier. Of all that met, `most_fs` is the largest debt, and `least_fs` the
    /// smallest debt plus wait.
    ///
    /// In time each would have come earlier by its debt, and the barrier would have opened when the last of *then* came. That is
    /// earlier by the smallest debt plus wait of all.
    pub fn met(self, own_fs: i64, most_fs: i64, least_fs: i64) -> i64 {
        match self {
            Self::Join => own_fs,
            Self::Max => most_fs,
            Self::Slack => least_fs,
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
    fn a_woken_thread_owes_the_larger_debt_but_no_more_than_it_waited_longer() {
        assert_eq!(ALL.map(|rule| rule.woken(came(3, 9), 7)), [3, 7, 7]);
        assert_eq!(ALL.map(|rule| rule.woken(came(3, 2), 7)), [3, 5, 5]);
        assert_eq!(ALL.map(|rule| rule.woken(came(7, 9), 3)), [7, 7, 7]);
        assert_eq!(ALL.map(|rule| rule.woken(came(-7, 9), -3)), [-7, -3, -3]);
    }

    /// A turn of a thread: when it asked for the lock, got it and gave it back.
    #[derive(Clone, Copy, Debug)]
    struct Turn {
        asked: u64,
        got: u64,
        left: u64,
    }

    /// Two threads, one lock: each works, asks for the lock, holds it, and again. Who asks first has it first. Turns by thread, and whose
    /// they were in the order of the lock.
    fn turns(work: &[[(u64, u64); 2]], late: impl Fn(usize, usize) -> u64) -> ([Vec<Turn>; 2], Vec<usize>) {
        let (mut threads, mut order) = ([Vec::new(), Vec::new()], Vec::new());
        let (mut asks, mut free) = ([work[0][0].0, work[0][1].0], 0);
        while threads.iter().any(|turns| turns.len() < work.len()) {
            let waits = |thread: &usize| (asks[*thread], *thread);
            let thread = (0..2).filter(|own| threads[*own].len() < work.len()).min_by_key(waits).unwrap();
            let round = threads[thread].len();
            let got = asks[thread].max(free);
            free = got + work[round][thread].1 + late(round, thread);
            threads[thread].push(Turn { asked: asks[thread], got, left: free });
            asks[thread] = free + work.get(round + 1).map_or(0, |next| next[thread].0);
            order.push(thread);
        }
        (threads, order)
    }

    #[test]
    fn by_a_lock_a_thread_owes_what_it_is_later_than_in_time() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut kept, mut swapped, mut too_much) = (0, 0, [0, 0]);
        for _ in 0..400 {
            let work: Vec<[(u64, u64); 2]> =
                (0..30).map(|_| [0, 1].map(|_| (1 + random(40), 5 + random(20)))).collect();
            let lateness: Vec<[u64; 2]> =
                (0..30).map(|_| [0, 1].map(|_| if random(15) == 0 { random(30) } else { 0 })).collect();
            let (ideal, ideal_order) = turns(&work, |_, _| 0);
            let (real, order) = turns(&work, |round, thread| lateness[round][thread]);
            let mut rounds = [0, 0];
            for (place, &thread) in order.iter().enumerate() {
                let (round, other) = (rounds[thread], 1 - thread);
                rounds[thread] += 1;
                let (was, is) = (ideal[thread][round], real[thread][round]);
                if is.got == is.asked || rounds[other] == 0 {
                    continue;
                }
                let waker = rounds[other] - 1;
                let waker = real[other][waker].left as i64 - ideal[other][waker].left as i64;
                let own = came(is.asked as i64 - was.asked as i64, is.got - is.asked);
                let truth = is.got as i64 - was.got as i64;
                let told = CriticalPath::Max.woken(own, waker);
                let most = own.owed_fs + own.waited_fs as i64;
                assert!(truth <= most && told <= most, "nobody is later than it was, and by its wait");
                if order[..=place] == ideal_order[..=place] {
                    kept += 1;
                    assert_eq!(truth, own.by_slack(waker), "{own:?} {waker}");
                    assert_eq!(told, truth.max(own.owed_fs));
                    too_much[0] += own.owed_fs.max(waker) - truth;
                    too_much[1] += told - truth;
                } else {
                    swapped += 1;
                }
            }
        }
        println!(
            "order kept {kept}, swapped {swapped}; too much by the larger debt and by the rule: {too_much:?}"
        );
        assert!(kept > 500 && swapped > 500);
        assert!(too_much[0] > too_much[1], "{too_much:?}");
    }

    #[test]
    fn after_a_barrier_all_owe_what_it_opened_later_than_in_time() {
        let mut state = 11_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut others_last, mut largest) = (0, 0);
        for _ in 0..200 {
            let (mut opened, mut in_time) = (0_u64, 0_u64);
            let mut owed_fs = [0_i64; 4];
            for _ in 0..20 {
                let work: [u64; 4] = [0; 4].map(|_| 50 + random(60));
                let late: [u64; 4] = [0; 4].map(|_| if random(6) == 0 { random(80) } else { 0 });
                let came: [u64; 4] = std::array::from_fn(|own| opened + work[own] + late[own]);
                in_time += work.iter().max().unwrap();
                opened = *came.iter().max().unwrap();
                let arrivals: [Arrival; 4] = std::array::from_fn(|own| Arrival {
                    owed_fs: owed_fs[own] + late[own] as i64,
                    waited_fs: opened - came[own],
                });
                let most_fs = arrivals.iter().map(|own| own.owed_fs).max().unwrap();
                let least_fs = arrivals.iter().map(|own| own.most_fs()).min().unwrap();
                let truth = opened as i64 - in_time as i64;
                owed_fs = arrivals.map(|own| CriticalPath::Slack.met(own.owed_fs, most_fs, least_fs));
                assert_eq!(owed_fs, [truth; 4]);
                assert_eq!(
                    arrivals.map(|own| CriticalPath::Max.met(own.owed_fs, most_fs, least_fs)),
                    [most_fs; 4]
                );
                assert_eq!(
                    CriticalPath::Join.met(arrivals[0].owed_fs, most_fs, least_fs),
                    arrivals[0].owed_fs
                );
                let last = arrivals.iter().find(|own| own.waited_fs == 0).unwrap();
                others_last += u64::from(last.owed_fs > truth);
                largest += u64::from(most_fs > truth);
            }
        }
        assert!(others_last > 500 && largest > others_last, "{others_last} {largest}");
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
            assert_eq!((rule.woken(came(0, 9), 0), rule.met(0, 0, 0), rule.joined(came(0, 9), 0)), (0, 0, 0));
        }
    }
}
