//! Conditions: how often who was woken waited again at once.

use super::figures::ConditionFigures;
use crate::sync::event::SyncEvent;
use crate::sync::keys::{AddressMap, ObjectKey};
use quaver_abi::sync::{SyncKind, SyncOutcome, outcome_flags};
use std::cmp::Reverse;

/// Conditions kept; those that come later are not counted.
const KEPT: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Conditions {
    all: AddressMap<ObjectKey, ConditionFigures>,
}

impl Conditions {
    fn of(&mut self, key: ObjectKey) -> Option<&mut ConditionFigures> {
        let has_room = self.all.len() < KEPT || self.all.contains_key(&key);
        has_room.then(|| self.all.entry(key).or_default())
    }

    /// A wait has returned.
    pub(super) fn returned(&mut self, event: &SyncEvent) {
        let again = event.flags & outcome_flags::AGAIN != 0;
        let woken = event.outcome == SyncOutcome::Ok;
        if let Some(one) = self.of(ObjectKey::of(event.process, event.object)) {
            one.woken += u64::from(woken);
            one.again += u64::from(again);
        }
    }

    /// Somebody wakes its waiters.
    pub(super) fn woken_by(&mut self, key: ObjectKey, kind: SyncKind) {
        let Some(one) = self.of(key) else { return };
        if kind == SyncKind::BroadcastEntry {
            one.broadcasts += 1;
        } else {
            one.signals += 1;
        }
    }

    /// Those with waits again, the most first. `listed`: at most so many.
    pub(super) fn figures(self, listed: usize) -> Vec<ConditionFigures> {
        let again = self.all.into_iter().filter(|(_, one)| one.again > 0);
        let named =
            again.map(|(key, one)| ConditionFigures { process: key.process, address: key.address, ..one });
        let mut all: Vec<_> = named.collect();
        all.sort_unstable_by_key(|one| (Reverse(one.again), one.process, one.address));
        all.truncate(listed);
        all
    }
}
