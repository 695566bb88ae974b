//! Triggers until the windows that they began end.

use crate::judge::Trigger;
use std::collections::VecDeque;
use std::time::Duration;

/// Windows that have not ended, the oldest first. The first trigger of each began it, and is of its own reason.
#[derive(Debug, Default)]
pub(super) struct Pending {
    windows: VecDeque<Vec<Trigger>>,
    after_ns: u64,
}

impl Pending {
    /// None yet; a window ends `after` the trigger that began it.
    pub(super) fn new(after: Duration) -> Self {
        Self { windows: VecDeque::new(), after_ns: after.as_nanos() as u64 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Takes a trigger into the first window that has not ended before it, or has it begin one. Of each reason a window keeps
    /// one trigger, with the largest amount. A trigger that arrives late moves no window: drops behind unread packets are
    /// known only when these are read.
    pub(super) fn add(&mut self, trigger: Trigger) {
        let after_ns = self.after_ns;
        let end_ns = |window: &Vec<Trigger>| window[0].at_ns.saturating_add(after_ns);
        let Some(window) = self.windows.iter_mut().find(|window| trigger.at_ns <= end_ns(window)) else {
            self.windows.push_back(vec![trigger]);
            return;
        };
        match window.iter_mut().find(|known| known.reason == trigger.reason) {
            Some(known) if known.amount >= trigger.amount => {}
            Some(known) => (known.amount, known.missing) = (trigger.amount, trigger.missing),
            None => window.push(trigger),
        }
    }

    /// When the oldest window ends.
    pub(super) fn end_ns(&self) -> Option<u64> {
        Some(self.windows.front()?[0].at_ns.saturating_add(self.after_ns))
    }

    /// Takes the triggers of the oldest window.
    pub(super) fn take(&mut self) -> Vec<Trigger> {
        self.windows.pop_front().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Reason;

    const fn trigger(reason: Reason, at_ns: u64, amount: u64) -> Trigger {
        Trigger::new(reason, at_ns, amount)
    }

    #[test]
    fn a_window_keeps_the_worst_of_each_reason_and_what_comes_after_it_begins_another() {
        let mut pending = Pending::new(Duration::from_nanos(100));
        assert_eq!((pending.end_ns(), pending.take()), (None, vec![]));
        pending.add(trigger(Reason::Held, 1_000, 100));
        pending.add(trigger(Reason::Held, 1_100, 137));
        pending.add(trigger(Reason::Late, 990, 136));
        // Still to be written when a longer stop ends.
        pending.add(trigger(Reason::Held, 1_101, 4_000));
        pending.add(trigger(Reason::Losses, 900, 5));
        assert_eq!(pending.end_ns(), Some(1_100));
        let first = [
            trigger(Reason::Held, 1_000, 137),
            trigger(Reason::Late, 990, 136),
            trigger(Reason::Losses, 900, 5),
        ];
        assert_eq!(pending.take(), first);
        assert_eq!((pending.end_ns(), pending.is_empty()), (Some(1_201), false));
        assert_eq!(pending.take(), [trigger(Reason::Held, 1_101, 4_000)]);
        assert!(pending.is_empty());
    }
}
