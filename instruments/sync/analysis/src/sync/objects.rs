//! The wait buffer and the lock buffer, by object: who waits for it, and which signals are on their way.

use super::event::ThreadId;
use super::keys::{AddressMap, ObjectKey};
use super::threads::{Release, Slot};

/// Somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) slot: Slot,
    /// Place of the entry among all events.
    pub(super) order: u64,
}

/// A signal (or post) that nobody has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) release: Release,
    /// Place of its return among all events; none before.
    pub(super) returned: Option<u64>,
}

impl Signal {
    /// Whether it can wake somebody who began to wait at `order`: it had not returned before.
    fn reaches(&self, order: u64) -> bool {
        self.returned.is_none_or(|returned| returned > order)
    }
}

/// What is known of an unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unlock {
    pub(super) release: Release,
    pub(super) returned: Option<u64>,
}

impl Unlock {
    /// Whether it can let in somebody who asked at `order`: it began since, or had not returned then.
    pub(super) fn reaches(&self, order: u64) -> bool {
        self.returned.is_none_or(|returned| returned > order)
    }
}

/// One object that somebody waits for, or that somebody is about to wake others by.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    /// In the order of their entries.
    pub(super) waiters: Vec<Waiter>,
    /// In the order of their entries.
    pub(super) signals: Vec<Signal>,
    /// Broadcasts that have not returned.
    pub(super) broadcasts: Vec<Release>,
    /// The latest unlock, and the latest by somebody who was not seen to hold the lock for reading.
    pub(super) unlock: Option<Unlock>,
    pub(super) write_unlock: Option<Unlock>,
    /// Threads that were seen to get the lock for reading.
    pub(super) readers: Vec<ThreadId>,
}

impl Object {
    fn clear(&mut self) {
        self.waiters.clear();
        self.signals.clear();
        self.broadcasts.clear();
        self.unlock = None;
        self.write_unlock = None;
        self.readers.clear();
    }

    /// Whether nothing needs to be known of it any more.
    fn is_idle(&self) -> bool {
        let open = |unlock: &Option<Unlock>| unlock.is_some_and(|unlock| unlock.returned.is_none());
        self.waiters.is_empty()
            && self.signals.is_empty()
            && self.broadcasts.is_empty()
            && !open(&self.unlock)
            && !open(&self.write_unlock)
    }

    pub(super) fn remove_waiter(&mut self, slot: Slot) -> bool {
        match self.waiters.iter().position(|waiter| waiter.slot == slot) {
            Some(index) => {
                self.waiters.remove(index);
                true
            }
            None => false,
        }
    }

    /// Lets go signals that can wake nobody: they returned before everybody who waits began to. Returns how many.
    pub(super) fn drop_dead_signals(&mut self) -> u64 {
        if self.signals.is_empty() {
            return 0;
        }
        let first = self.waiters.first().map(|waiter| waiter.order);
        let before = self.signals.len();
        self.signals.retain(|signal| match (signal.returned, first) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(first)) => signal.reaches(first),
        });
        (before - self.signals.len()) as u64
    }

    /// The signal or broadcast that ended the wait of a thread that began at `order` and that `mark` woke: the
    /// earliest after the beginning, else the earliest that had not returned then. Takes a signal away.
    pub(super) fn take_signal(&mut self, order: u64, mark: Option<Release>) -> Option<(Release, bool)> {
        let late = |at: u64| at < order;
        let signal = self
            .signals
            .iter()
            .enumerate()
            .filter(|(_, signal)| signal.reaches(order))
            .min_by_key(|(_, signal)| (late(signal.release.order), signal.release.order));
        let rank = |release: &Release| (late(release.order), release.order);
        match (signal, mark) {
            (None, mark) => mark.map(|release| (release, true)),
            (Some((_, signal)), Some(mark)) if rank(&mark) < rank(&signal.release) => Some((mark, true)),
            (Some((index, _)), _) => Some((self.signals.remove(index).release, false)),
        }
    }

    /// The unlock that let in who began to wait at `order`: the latest since, or one that had not returned then.
    pub(super) fn unlock_since(&self, order: u64, reading: bool) -> Option<Release> {
        let since = |unlock: &Option<Unlock>| {
            unlock.filter(|unlock| unlock.reaches(order)).map(|unlock| unlock.release)
        };
        let write = reading.then(|| since(&self.write_unlock)).flatten();
        write.or_else(|| since(&self.unlock))
    }
}

/// Objects in use. Memory of those that are no longer in use is used again.
#[derive(Debug, Default)]
pub(super) struct Objects {
    index: AddressMap<ObjectKey, u32>,
    slab: Vec<Object>,
    free: Vec<u32>,
}

impl Objects {
    pub(super) fn get_mut(&mut self, key: ObjectKey) -> Option<&mut Object> {
        let index = *self.index.get(&key)?;
        Some(&mut self.slab[index as usize])
    }

    pub(super) fn get_or_add(&mut self, key: ObjectKey) -> &mut Object {
        let (slab, free) = (&mut self.slab, &mut self.free);
        let index = *self.index.entry(key).or_insert_with(|| match free.pop() {
            Some(index) => index,
            None => {
                slab.push(Object::default());
                (slab.len() - 1) as u32
            }
        });
        &mut self.slab[index as usize]
    }

    /// Forgets the object where nothing needs to be known of it.
    pub(super) fn settle(&mut self, key: ObjectKey) {
        let Some(&index) = self.index.get(&key) else { return };
        let object = &mut self.slab[index as usize];
        if object.is_idle() {
            object.clear();
            self.free.push(index);
            self.index.remove(&key);
        }
    }
}
