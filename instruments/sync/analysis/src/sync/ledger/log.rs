//! What a thread did lately, for those who waited for it meanwhile.

use super::figures::Activity;
use crate::sync::event::ThreadId;
use crate::sync::keys::ObjectKey;
use std::collections::VecDeque;

/// Pieces kept of one thread; what is older is not known.
pub(super) const KEPT: usize = 16_384;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Ran,
    /// Runnable behind this thread.
    Queued {
        behind: ThreadId,
    },
    /// Kept from its CPU by a quota.
    Throttled,
    /// Asleep, in this system call.
    Slept {
        call: Option<u16>,
    },
    Waited {
        object: ObjectKey,
    },
    Unknown,
}

impl Doing {
    pub(super) const fn activity(self) -> Activity {
        match self {
            Self::Ran => Activity::Ran,
            Self::Queued { .. } | Self::Throttled => Activity::RunQueue,
            Self::Slept { .. } => Activity::Slept,
            Self::Waited { .. } => Activity::Waited,
            Self::Unknown => Activity::Unknown,
        }
    }
}

/// Where a chain of waits ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) thread: ThreadId,
    pub(super) activity: Activity,
    /// Locks on the way.
    pub(super) depth: u8,
    /// Whom it waited for to get its CPU.
    pub(super) behind: Option<Behind>,
}

/// Who had the CPU that a thread could have used. Priorities are those of the kernel: the smaller, the more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) thread: ThreadId,
    pub(super) priority: Option<i16>,
    /// Of the thread that was kept from its CPU.
    pub(super) own: Option<i16>,
}

impl Behind {
    /// Whether a waiter of this urgency waits in vain: both are less urgent. A thread as urgent as the waiter would gain nothing by
    /// the waiter's priority.
    pub(super) fn inverts(self, waits_at: Option<i16>) -> bool {
        let is_less = |other: Option<i16>| waits_at.zip(other).is_some_and(|(own, its)| its > own);
        is_less(self.priority) && is_less(self.own) && self.thread != ThreadId(0)
    }
}

/// A stretch of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) doing: Doing,
    pub(super) root: Root,
}

impl Piece {
    /// Of a thread that waits for a lock which was given back, and is on its way to the next owner. None of no time.
    pub(super) fn on_its_way(object: ObjectKey, waiter: ThreadId, from_ns: u64, to_ns: u64) -> Option<Self> {
        let root = Root { thread: waiter, activity: Activity::Waited, depth: 0, behind: None };
        (to_ns > from_ns).then_some(Self { from_ns, to_ns, doing: Doing::Waited { object }, root })
    }
}

/// Pieces in the order of time, without overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(VecDeque<Piece>);

impl Log {
    /// Appends a piece, and forgets what ended before `needed_ns`.
    pub(super) fn push(&mut self, piece: Piece, needed_ns: u64) {
        if piece.to_ns <= piece.from_ns {
            return;
        }
        while self.0.front().is_some_and(|first| first.to_ns <= needed_ns) || self.0.len() >= KEPT {
            self.0.pop_front();
        }
        match self.0.back_mut() {
            Some(last)
                if last.to_ns == piece.from_ns && last.doing == piece.doing && last.root == piece.root =>
            {
                last.to_ns = piece.to_ns;
            }
            _ => self.0.push_back(piece),
        }
    }

    /// The pieces.
    pub(super) fn into_pieces(self) -> VecDeque<Piece> {
        self.0
    }

    /// Forgets all but the latest so many; how many there are.
    pub(super) fn keep_latest(&mut self, most: usize) -> usize {
        self.0.drain(..self.0.len().saturating_sub(most));
        self.0.len()
    }

    /// The sleep since `from_ns` was in this system call.
    pub(super) fn slept_in(&mut self, call: u16, from_ns: u64) {
        for piece in self.0.iter_mut().rev().take_while(|piece| piece.to_ns > from_ns) {
            if let Doing::Slept { call: told @ None } = &mut piece.doing {
                *told = Some(call);
            }
        }
    }

    /// Cuts a stretch of the thread's time into its pieces; what no piece covers is not known.
    pub(super) fn cut(&self, thread: ThreadId, from_ns: u64, to_ns: u64, mut each: impl FnMut(Piece)) {
        let unknown = |from_ns, to_ns| Piece {
            from_ns,
            to_ns,
            doing: Doing::Unknown,
            root: Root { thread, activity: Activity::Unknown, depth: 0, behind: None },
        };
        let mut at_ns = from_ns;
        let first = self.0.partition_point(|piece| piece.to_ns <= from_ns);
        for piece in self.0.iter().skip(first).take_while(|piece| piece.from_ns < to_ns) {
            if piece.from_ns > at_ns {
                each(unknown(at_ns, piece.from_ns));
            }
            let (from_ns, to_ns) = (piece.from_ns.max(at_ns), piece.to_ns.min(to_ns));
            // Nothing is left of a piece that those before reach beyond, as in a damaged recording.
            if from_ns < to_ns {
                each(Piece { from_ns, to_ns, ..*piece });
                at_ns = to_ns;
            }
        }
        if at_ns < to_ns {
            each(unknown(at_ns, to_ns));
        }
    }
}
