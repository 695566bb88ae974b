//! Rules of counting that hold between two conditions, as those of a queue do.
//!
//! Who takes from a queue waits while it is empty: while as many have been taken as were put in. If each wait on a condition began
//! with the same difference of the two conditions' signals, and no signal ever came at less, that is such a rule. A faster thread
//! is held to it where it did not have to wait in the run.

use super::Rule;
use std::collections::{BTreeMap, BTreeSet};

/// Signals of a condition that a rule rests upon, at least.
const LEAST_SIGNALS: usize = 8;
/// Signals may be given after the mutex, so that waits see one or two fewer than there are.
const SLACK: i64 = 2;
/// Conditions that are compared with each other: those that are signalled most.
const MOST_CONDITIONS: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Entry {
    Signal(u32),
    Wait(u32),
}

/// Signals of and waits on conditions, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<Entry>,
    /// Conditions that were waited on.
    waited: BTreeSet<u32>,
}

impl Log {
    pub(super) fn signals(&mut self, condition: u32) {
        self.entries.push(Entry::Signal(condition));
    }

    pub(super) fn waits(&mut self, condition: u32) {
        self.entries.push(Entry::Wait(condition));
        self.waited.insert(condition);
    }

    /// The rules that held throughout.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let mut signals: BTreeMap<u32, usize> = BTreeMap::new();
        for entry in &self.entries {
            if let Entry::Signal(condition) = entry {
                *signals.entry(*condition).or_default() += 1;
            }
        }
        let mut often: Vec<(usize, u32)> =
            signals.into_iter().map(|(condition, count)| (count, condition)).collect();
        often.retain(|(count, _)| *count >= LEAST_SIGNALS);
        often.sort_unstable_by_key(|(count, condition)| (std::cmp::Reverse(*count), *condition));
        often.truncate(MOST_CONDITIONS);
        let waited: BTreeSet<u32> =
            self.waited.iter().copied().filter(|one| often.iter().any(|(_, other)| other == one)).collect();
        let pairs = waited.iter().flat_map(|needs| often.iter().map(|(_, condition)| (*condition, *needs)));
        let rule = |(condition, needs): (u32, u32)| {
            let ahead = self.least_ahead(condition, needs)?;
            Some(Rule { condition, needs, ahead })
        };
        pairs.filter(|(condition, needs)| condition != needs).filter_map(rule).collect()
    }

    /// By how much `needs` was ahead of `condition` whenever that was signalled, at least; none where waits on `needs` say otherwise.
    fn least_ahead(&self, condition: u32, needs: u32) -> Option<i64> {
        let (mut ahead, mut signals) = (0_i64, 0);
        let mut at_waits: Option<(i64, i64)> = None;
        let mut at_signals = i64::MAX;
        for entry in &self.entries {
            match *entry {
                Entry::Signal(one) if one == needs => ahead += 1,
                Entry::Signal(one) if one == condition => {
                    at_signals = at_signals.min(ahead);
                    ahead -= 1;
                    signals += 1;
                }
                Entry::Wait(one) if one == needs => {
                    let (least, most) = at_waits.unwrap_or((ahead, ahead));
                    at_waits = Some((least.min(ahead), most.max(ahead)));
                }
                _ => {}
            }
        }
        let (least, most) = at_waits?;
        (signals >= LEAST_SIGNALS && most - least <= SLACK && at_signals > least).then_some(least + 1)
    }
}
