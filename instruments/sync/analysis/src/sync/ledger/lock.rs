//! One lock: who waits for it, and what their waiting consists of.

use super::figures::{
    Activity, CallShare, LockFigures, PATTERN_SHARE, PairShare, Pattern, PlaceShare, RootShare, ThreadShare,
};
use super::log::{Doing, Log, Piece, Root};
use super::spending::Spending;
use super::thread::Thread;
use crate::sync::event::ThreadId;
use crate::sync::keys::{AddressMap, ObjectKey};
use crate::sync::results::Sums;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Add;

/// Pairs, places and roots kept of one lock; further ones are in its sums only.
pub(super) const KEPT: usize = 256;
/// Pairs, places and roots that the figures list.
pub(super) const LISTED: usize = 16;
/// A convoy has at least so many owners and waits.
const CONVOY_OWNERS: usize = 3;
const CONVOY_WAITS: u64 = 8;

/// Owners remembered of one wait.
const KEPT_OWNERS: usize = 64;

/// A reader's hold that ended during a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReaderHold {
    /// Slot of the reader.
    pub(super) slot: u32,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) site: ObjectKey,
    /// The reader had given the lock back before in this wait.
    pub(super) again: bool,
}

/// What a wait was for since the latest unlock by a writer.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// In the order of time, without overlap.
    pub(super) parts: Vec<Stretch>,
    /// When the latest of them gave the lock back.
    pub(super) until_ns: Option<u64>,
}

/// A part of a wait that is for readers.
#[derive(Debug)]
pub(super) enum Stretch {
    Hold(ReaderHold),
    Several(Box<Several>),
}

/// Holds of which a later one takes all or none.
#[derive(Debug)]
pub(super) struct Several {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// What they come to, booked as if they were all of the lock.
    pub(super) sums: Lock,
    pub(super) log: Log,
}

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) slot: u32,
    /// Place of its entry among all events.
    pub(super) order: u64,
    /// Since when it waits.
    pub(super) entered_ns: u64,
    /// Who had the lock then, as the lock itself says.
    pub(super) found: Option<ThreadId>,
    /// Until here its wait is booked.
    pub(super) booked_ns: u64,
    /// It waits to read.
    pub(super) reads: bool,
    /// The lock was given back since, or was just then.
    pub(super) released: bool,
    /// Who has given it back since.
    pub(super) owners: Vec<ThreadId>,
    /// Readers that have given it back since `booked_ns`.
    pub(super) readers: Readers,
}

impl Waiter {
    /// Nobody has given the lock back since it began to wait, so that whom it found still has it.
    pub(super) const fn is_untouched(&self) -> bool {
        !self.released && self.booked_ns == self.entered_ns && self.readers.is_empty()
    }

    /// This thread gives the lock back; whether it did so before in this wait, and thus asked again after the waiter.
    pub(super) fn is_passed_again(&mut self, owner: ThreadId) -> bool {
        let again = self.owners.contains(&owner);
        if !again && self.owners.len() < KEPT_OWNERS {
            self.owners.push(owner);
        }
        again
    }
}

/// A thread that has the lock and is known to have got it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) thread: ThreadId,
    pub(super) since_ns: u64,
    /// Place of its entry among all events; none where that is not known.
    pub(super) asked: Option<u64>,
    pub(super) end: HoldEnd,
}

/// What is known of the end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldEnd {
    /// It is recorded in any case: until then the thread has the lock.
    Recorded,
    /// It is recorded if somebody waits then, as is usual for a thread that had to wait itself.
    Usual,
    /// It is recorded if somebody waits then. If nobody did, the thread may have got the lock again unseen.
    Uncertain,
}

/// The latest unlock.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenBack {
    pub(super) by: ThreadId,
    pub(super) returned: bool,
}

/// A stretch of somebody's wait that ends with an owner's hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptOut {
    pub(super) key: ObjectKey,
    pub(super) from_ns: u64,
    /// From here on the owner had it; before, it was on its way to the owner.
    pub(super) got_ns: u64,
    pub(super) to_ns: u64,
    /// Where it was given back; none where the wait ran out before.
    pub(super) site: Option<ObjectKey>,
    /// The owner had asked for it later than who waits.
    pub(super) overtakes: bool,
}

impl KeptOut {
    /// Books it, by the slots of who waits and of the owner.
    pub(super) fn book(
        self,
        lock: &mut Lock,
        threads: &mut [Thread],
        waiter: u32,
        owner: u32,
        needed_ns: u64,
    ) {
        let pieces = self.cut(lock, threads, waiter, owner);
        if let Some(waits) = threads.get_mut(waiter as usize) {
            pieces.into_iter().for_each(|piece| waits.log.push(piece, needed_ns));
        }
    }

    /// Adds it to the lock's sums: what the log of who waits has of it.
    pub(super) fn cut(self, lock: &mut Lock, threads: &[Thread], waiter: u32, owner: u32) -> Vec<Piece> {
        let Self { key, from_ns, got_ns, to_ns, site, overtakes } = self;
        let (Some(waits), Some(owns)) = (threads.get(waiter as usize), threads.get(owner as usize)) else {
            return Vec::new();
        };
        let slice = Slice { waiter: waits.id, waiter_priority: waits.priority, owner: owns.id };
        lock.hand_over(got_ns - from_ns);
        lock.held(slice, site, to_ns - got_ns, overtakes);
        let mut pieces: Vec<Piece> = Piece::on_its_way(key, waits.id, from_ns, got_ns).into_iter().collect();
        // A wait of its own that has not ended is not in its log.
        let waits = owns.call.filter(|call| call.spending == Spending::Lock);
        let unlogged = |piece: &Piece| {
            let waits =
                waits.filter(|call| piece.doing == Doing::Unknown && call.entered_ns <= piece.from_ns);
            waits.map_or(piece.doing, |call| Doing::Waited { object: call.object })
        };
        owns.log.cut(owns.id, got_ns, to_ns, |piece| {
            let now_does = unlogged(&piece);
            let root = Root {
                activity: if now_does == piece.doing { piece.root.activity } else { Activity::Waited },
                ..piece.root
            };
            let root = lock.owner_did(slice, &Piece { doing: now_does, root, ..piece });
            pieces.push(Piece { doing: Doing::Waited { object: key }, root, ..piece });
        });
        pieces
    }
}

/// What one waiter waited for until an unlock.
#[derive(Clone, Copy, Debug)]
struct Slice {
    waiter: ThreadId,
    waiter_priority: Option<i16>,
    owner: ThreadId,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) waiters: Vec<Waiter>,
    /// A thread that waited for it to the end of the run, and whose owner waited for what that thread had.
    pub(super) deadlock: Option<PairShare>,
    pub(super) holder: Option<Holder>,
    pub(super) given_back: Option<GivenBack>,
    /// Of a word: when somebody found it taken for the first time since then.
    pub(super) found_taken_ns: Option<u64>,
    /// Readers that have got it while somebody waited or as a sample, and when.
    pub(super) reading: Vec<(ThreadId, u64)>,
    /// Until here the length of the queue is booked.
    counted_ns: u64,
    longest_held_ns: u64,
    figures: LockFigures,
    preempted_by: BTreeMap<ThreadId, u64>,
    slept_in: BTreeMap<Option<u16>, u64>,
    waited_for: AddressMap<ObjectKey, u64>,
    pairs: BTreeMap<(ThreadId, ThreadId), (u64, u64)>,
    roots: BTreeMap<(ThreadId, Activity), (u8, u64)>,
    owner_sites: AddressMap<ObjectKey, u64>,
    waiter_sites: AddressMap<ObjectKey, u64>,
    inverted_by: BTreeMap<ThreadId, u64>,
}

/// Adds to one of at most [`KEPT`] sums.
macro_rules! add {
    ($map:expr, $key:expr, $ns:expr) => {
        if let Some(sum) = $map.get_mut(&$key) {
            *sum += $ns;
        } else if $map.len() < KEPT {
            $map.insert($key, $ns);
        }
    };
}

impl Lock {
    /// Time for which anybody waited for it or tried to get it.
    pub(super) fn sought_ns(&self) -> u64 {
        self.figures.sought_ns()
    }

    pub(super) fn rows(&self) -> &Sums {
        &self.figures.tried
    }

    /// A row of tries has got it.
    pub(super) fn tried(&mut self, ns: u64, failed: u64) {
        self.figures.tried.add(ns);
        self.figures.failed_tries += failed;
    }

    pub(super) fn waits(&self) -> &Sums {
        &self.figures.wait
    }

    /// Books how many waited until now. To be called before that changes.
    pub(super) fn count_queue(&mut self, now_ns: u64) {
        let since_ns = now_ns - self.counted_ns.min(now_ns);
        self.counted_ns = now_ns;
        match self.waiters.len() {
            0 => {}
            1 => self.figures.queued_ns += since_ns,
            _ => {
                self.figures.queued_ns += since_ns;
                self.figures.crowded_ns += since_ns;
            }
        }
    }

    /// It was free so many times when it was asked for.
    pub(super) fn free(&mut self, times: u64) {
        self.figures.free += times;
        self.figures.free_is_estimate |= times > 1;
    }

    /// The owner had the lock since this time, and gives it back now; how long it had it, where that is known.
    pub(super) fn end_hold(&mut self, owner: ThreadId, now_ns: u64) -> Option<Holder> {
        let holder = self.holder.take().filter(|holder| holder.thread == owner)?;
        if holder.end != HoldEnd::Uncertain {
            self.figures.hold.add(now_ns - holder.since_ns.min(now_ns));
        }
        Some(holder)
    }

    /// A thread that had waited has it, so long after it was given back.
    pub(super) fn handed_to_waiter(&mut self, ns: u64) {
        self.figures.hand_over.add(ns);
    }

    /// Somebody waited this long until the next owner had the lock.
    pub(super) fn hand_over(&mut self, ns: u64) {
        self.figures.handed_over_ns += ns;
    }

    /// Nobody knows for whom somebody waited this long.
    pub(super) fn owner_unknown(&mut self, ns: u64) {
        self.figures.owner_unknown_ns += ns;
    }

    /// Somebody waited while this owner had it. `site`: where it was given back, if before the wait ran out.
    fn held(&mut self, slice: Slice, site: Option<ObjectKey>, ns: u64, overtakes: bool) {
        self.figures.held_ns += ns;
        self.longest_held_ns = self.longest_held_ns.max(ns);
        let pair = (slice.waiter, slice.owner);
        if self.pairs.len() < KEPT || self.pairs.contains_key(&pair) {
            let sum = self.pairs.entry(pair).or_default();
            *sum = (sum.0 + 1, sum.1 + ns);
        }
        match site {
            Some(site) => add!(self.owner_sites, site, ns),
            None => self.figures.outlasted_ns += ns,
        }
        if overtakes {
            self.figures.overtaken.add(ns);
        }
    }

    /// What the owner did in a part of that; where the chain ends from the waiter on.
    fn owner_did(&mut self, slice: Slice, piece: &Piece) -> Root {
        let ns = piece.to_ns - piece.from_ns;
        let activity = piece.doing.activity();
        self.figures.owner_ns[activity as usize] += ns;
        match piece.doing {
            Doing::Queued { behind } => add!(self.preempted_by, behind, ns),
            Doing::Throttled => self.figures.quota_ns += ns,
            Doing::Slept { call } => add!(self.slept_in, call, ns),
            Doing::Waited { object } => add!(self.waited_for, object, ns),
            Doing::Ran | Doing::Unknown => {}
        }
        let root = Root { depth: piece.root.depth.saturating_add(1), ..piece.root };
        if let Some(behind) = root.behind.filter(|behind| behind.inverts(slice.waiter_priority)) {
            self.figures.inverted_ns += ns;
            self.figures.inverted_deep_ns += if root.depth > 1 { ns } else { 0 };
            add!(self.inverted_by, behind.thread, ns);
        }
        let key = (root.thread, root.activity);
        if self.roots.len() < KEPT || self.roots.contains_key(&key) {
            let sum = self.roots.entry(key).or_default();
            *sum = (sum.0.max(root.depth), sum.1 + ns);
        }
        root
    }

    /// Adds what was booked elsewhere of its waits.
    pub(super) fn absorb(&mut self, other: Self) {
        let (own, its) = (&mut self.figures, other.figures);
        own.held_ns += its.held_ns;
        own.outlasted_ns += its.outlasted_ns;
        own.handed_over_ns += its.handed_over_ns;
        own.overtaken.merge(&its.overtaken);
        own.owner_ns.iter_mut().zip(its.owner_ns).for_each(|(own, its)| *own += its);
        own.quota_ns += its.quota_ns;
        own.inverted_ns += its.inverted_ns;
        own.inverted_deep_ns += its.inverted_deep_ns;
        self.longest_held_ns = self.longest_held_ns.max(other.longest_held_ns);
        let larger = |one: (u8, u64), more: (u8, u64)| (one.0.max(more.0), one.1 + more.1);
        add_all(&mut self.pairs, other.pairs, |one, more| (one.0 + more.0, one.1 + more.1));
        add_all(&mut self.roots, other.roots, larger);
        add_all(&mut self.preempted_by, other.preempted_by, u64::add);
        add_all(&mut self.slept_in, other.slept_in, u64::add);
        add_all(&mut self.inverted_by, other.inverted_by, u64::add);
        other.waited_for.into_iter().for_each(|(object, ns)| add!(self.waited_for, object, ns));
        other.owner_sites.into_iter().for_each(|(site, ns)| add!(self.owner_sites, site, ns));
    }

    /// A sleep of its owner was in this system call.
    pub(super) fn name_sleep(&mut self, call: u16, ns: u64) {
        if let Some(unnamed) = self.slept_in.get_mut(&None) {
            *unnamed = unnamed.saturating_sub(ns);
            add!(self.slept_in, Some(call), ns);
        }
    }

    /// A wait has ended.
    pub(super) fn waited(&mut self, site: ObjectKey, ns: u64, got: bool) {
        self.figures.wait.add(ns);
        self.figures.contended += u64::from(got);
        add!(self.waiter_sites, site, ns);
    }

    fn patterns(&self) -> Vec<Pattern> {
        let one = &self.figures;
        let reaches = |ns: u64, of_ns: u64| of_ns > 0 && ns as f64 >= PATTERN_SHARE * of_ns as f64;
        let mut found = Vec::new();
        if one.overtaken.count > 1 && reaches(one.overtaken.total_ns, one.wait.total_ns) {
            found.push(Pattern::Barging);
        }
        let mut owners: Vec<ThreadId> = self.pairs.keys().map(|(_, owner)| *owner).collect();
        owners.sort_unstable();
        owners.dedup();
        let nearly_always = one.crowded_ns > 0 && 2 * one.crowded_ns >= one.queued_ns;
        let none_long = 4 * self.longest_held_ns <= one.queued_ns;
        if nearly_always && none_long && owners.len() >= CONVOY_OWNERS && one.wait.count >= CONVOY_WAITS {
            found.push(Pattern::Convoy);
        }
        if reaches(one.inverted_ns, one.wait.total_ns) {
            found.push(Pattern::PriorityInversion);
        }
        if self.deadlock.is_some() {
            found.push(Pattern::Deadlock);
        }
        found
    }

    pub(super) fn figures(self, key: ObjectKey) -> LockFigures {
        let patterns = self.patterns();
        let pairs = self.pairs.into_iter().map(|((waiter, owner), (holds, total_ns))| PairShare {
            waiter,
            owner,
            holds,
            total_ns,
        });
        let roots = self.roots.into_iter().map(|((thread, activity), (depth, total_ns))| RootShare {
            thread,
            activity,
            depth,
            total_ns,
        });
        let calls = self.slept_in.into_iter().map(|(call, total_ns)| CallShare { call, total_ns });
        LockFigures {
            process: key.process,
            address: key.address,
            preempted_by: threads(self.preempted_by),
            slept_in: ranked(calls, |one| one.total_ns),
            waited_for: places(self.waited_for),
            pairs: ranked(pairs, |one| one.total_ns),
            roots: ranked(roots, |one| one.total_ns),
            owner_sites: places(self.owner_sites),
            waiter_sites: places(self.waiter_sites),
            inverted_by: threads(self.inverted_by),
            deadlock: self.deadlock,
            patterns,
            ..self.figures
        }
    }
}

/// Adds sums to at most [`KEPT`] of one kind.
fn add_all<K: Ord, V: Copy>(to: &mut BTreeMap<K, V>, from: BTreeMap<K, V>, sum: impl Fn(V, V) -> V) {
    for (key, more) in from {
        if let Some(own) = to.get_mut(&key) {
            *own = sum(*own, more);
        } else if to.len() < KEPT {
            to.insert(key, more);
        }
    }
}

/// The largest first; of equal ones in their order.
pub(super) fn ranked<T>(all: impl Iterator<Item = T>, ns: impl Fn(&T) -> u64) -> Vec<T> {
    let mut all: Vec<T> = all.filter(|one| ns(one) > 0).collect();
    all.sort_by_key(|one| Reverse(ns(one)));
    all.truncate(LISTED);
    all
}

fn threads(all: BTreeMap<ThreadId, u64>) -> Vec<ThreadShare> {
    ranked(all.into_iter().map(|(thread, total_ns)| ThreadShare { thread, total_ns }), |one| one.total_ns)
}

pub(super) fn places(all: AddressMap<ObjectKey, u64>) -> Vec<PlaceShare> {
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_unstable();
    let places = all.into_iter().map(|(key, total_ns)| PlaceShare {
        process: key.process,
        address: key.address,
        total_ns,
    });
    ranked(places, |one| one.total_ns)
}
