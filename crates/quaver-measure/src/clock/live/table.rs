//! The published course of the clock: a ring of pieces that one thread writes and any number read without waiting.
//!
//! Together the pieces are one function of the cycles. A piece once published is never changed, and the point at
//! which the next one takes over is announced before any reader can have a reading beyond it. So a reading has the
//! same time whenever it is converted, and within an epoch a later reading never has an earlier time.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Fractional bits of the rates here: 16 more than the kernel's, for readings that are seconds old.
pub(super) const SHIFT: u32 = 48;
/// Pieces kept: 25 s of anchors each 100 ms, so that a writer that converts in batches may lag behind.
pub(super) const PIECES: u64 = 256;

/// Intervals after which a piece that was not replaced is not relied on.
const STALE_INTERVALS: u64 = 10;
/// Looks for an announced piece before a reader takes the kernel's time instead: some microseconds.
const PATIENCE: u32 = 1_000;

/// Bits of [`Piece::flags`].
pub(super) mod flags {
    /// Each conversion reads the kernel's clock itself.
    pub(in crate::clock) const KERNEL_READ: u32 = 1 << 0;
    /// The counter is not the hardware's: kernel time already.
    pub(in crate::clock) const KERNEL_COUNTER: u32 = 1 << 1;
    /// The counter jumped at the beginning: earlier readings cannot be told from later ones.
    pub(in crate::clock) const BARRIER: u32 = 1 << 2;
    /// It has jumped back some time ago: a reading that seems to be of the future is from before.
    pub(in crate::clock) const MAYBE_OLDER: u32 = 1 << 3;
    /// Where conversion is more than arithmetic.
    pub(in crate::clock) const SPECIAL: u32 = KERNEL_READ | MAYBE_OLDER;
}

/// What the clock does from one reading on.
///
/// `monotonic = base + after·Δ + bend·min(Δ, knee)` with Δ the cycles since `from`: up to the knee the remainder of
/// the piece before is slewed in, beyond it the course is that of the anchors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::clock) struct Piece {
    /// First reading that it holds for.
    pub(in crate::clock) from: u64,
    /// CLOCK_MONOTONIC at `from`, nanoseconds.
    pub(in crate::clock) base_ns: i64,
    /// Nanoseconds a cycle beyond the knee, [`SHIFT`] fractional bits.
    pub(in crate::clock) after: u64,
    /// What is added to that rate up to the knee.
    pub(in crate::clock) bend: i64,
    /// Length of the part that slews, cycles.
    pub(in crate::clock) knee: u64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, nanoseconds.
    pub(in crate::clock) offset_ns: i64,
    /// Bound at `from`, without what is still to be slewed in; nanoseconds, `u64::MAX` is unknown.
    pub(in crate::clock) bound_ns: u64,
    /// Growth of the bound, nanoseconds a cycle with [`SHIFT`] fractional bits.
    pub(in crate::clock) drift: u64,
    /// Number of the epoch.
    pub(in crate::clock) epoch: u32,
    /// [`flags`].
    pub(in crate::clock) flags: u32,
}

/// A point on the course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clock) struct Point {
    pub(in crate::clock) monotonic_ns: i64,
    /// `u64::MAX` is unknown.
    pub(in crate::clock) bound_ns: u64,
}

impl Piece {
    const WORDS: usize = 9;

    /// The course at a reading; before `from` the piece is prolonged backwards.
    #[inline]
    pub(in crate::clock) fn at(&self, cycles: u64) -> Point {
        let (delta, signed) = match cycles.checked_sub(self.from) {
            Some(delta) => (delta, i128::from(delta)),
            None => (self.from - cycles, -i128::from(self.from - cycles)),
        };
        let slewed = signed.clamp(0, i128::from(self.knee));
        let moved = (signed * i128::from(self.after) + slewed * i128::from(self.bend)) >> SHIFT;
        let grown = (u128::from(delta) * u128::from(self.drift)) >> SHIFT;
        let left = (u128::from(self.bend.unsigned_abs()) * (self.knee - slewed as u64) as u128) >> SHIFT;
        let bound_ns = u64::try_from(u128::from(self.bound_ns) + grown + left).unwrap_or(u64::MAX);
        Point { monotonic_ns: self.base_ns.wrapping_add(moved as i64), bound_ns }
    }

    /// Whether a reading lies so far beyond that its anchor ought to have been replaced long ago: the anchors' thread got no
    /// CPU, or the machine stood still.
    #[inline]
    pub(in crate::clock) fn is_stale(&self, cycles: u64) -> bool {
        cycles.saturating_sub(self.from) > self.knee.saturating_mul(STALE_INTERVALS)
    }

    fn words(&self) -> [u64; Self::WORDS] {
        [
            self.from,
            self.base_ns.cast_unsigned(),
            self.after,
            self.bend.cast_unsigned(),
            self.knee,
            self.offset_ns.cast_unsigned(),
            self.bound_ns,
            self.drift,
            u64::from(self.epoch) << 32 | u64::from(self.flags),
        ]
    }

    fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [from, base_ns, after, bend, knee, offset_ns, bound_ns, drift, last] = words;
        Self {
            from,
            base_ns: base_ns.cast_signed(),
            after,
            bend: bend.cast_signed(),
            knee,
            offset_ns: offset_ns.cast_signed(),
            bound_ns,
            drift,
            epoch: (last >> 32) as u32,
            flags: last as u32,
        }
    }
}

/// A place in the ring.
#[repr(align(128))]
struct Slot {
    /// Number of the piece, from 1; 0 while it is written.
    number: AtomicU64,
    words: [AtomicU64; Piece::WORDS],
    /// The piece ends here; `u64::MAX` as long as nobody knows.
    until: AtomicU64,
}

/// The ring. One thread calls [`Table::publish`], any thread [`Table::find`].
pub(super) struct Table {
    slots: Box<[Slot]>,
    /// Number of the newest piece.
    newest: AtomicU64,
}

impl Table {
    /// A course that begins with `first`.
    pub(super) fn new(first: &Piece) -> Self {
        let slot = || Slot {
            number: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            until: AtomicU64::new(u64::MAX),
        };
        let table = Self { slots: (0..PIECES).map(|_| slot()).collect(), newest: AtomicU64::new(0) };
        table.append(first);
        table
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % PIECES) as usize]
    }

    /// The newest piece, whatever readings it holds for.
    pub(super) fn newest(&self) -> Piece {
        loop {
            if let Some(piece) = self.read(self.newest.load(Ordering::Acquire)) {
                return piece;
            }
        }
    }

    /// Publishes a piece that goes on smoothly, made for the reading from which it is to hold. `now` reads the counter;
    /// `margin` is how many cycles ahead it takes over.
    pub(super) fn publish(
        &self,
        mut now: impl FnMut() -> u64,
        margin: u64,
        make: impl Fn(&Piece, u64) -> Piece,
    ) {
        let old = self.newest();
        let until = &self.slot(self.newest.load(Ordering::Relaxed)).until;
        loop {
            let from = now().max(old.from).saturating_add(margin.max(2));
            until.store(from, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // A reader that did not see `until` has an older reading than the one taken here. Half the margin is for
            // loads that a processor makes ahead of its reading of the counter.
            if now().saturating_add(margin / 2) < from {
                return self.append(&make(&old, from));
            }
        }
    }

    /// Publishes a piece of a new epoch, which may begin in the past and replaces what was there.
    pub(super) fn append(&self, piece: &Piece) {
        let number = self.newest.load(Ordering::Relaxed) + 1;
        let slot = self.slot(number);
        slot.number.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, word) in slot.words.iter().zip(piece.words()) {
            to.store(word, Ordering::Relaxed);
        }
        slot.until.store(u64::MAX, Ordering::Relaxed);
        slot.number.store(number, Ordering::Release);
        self.newest.store(number, Ordering::Release);
    }

    /// That piece, unless it was overwritten.
    #[inline]
    fn read(&self, number: u64) -> Option<Piece> {
        let slot = self.slot(number);
        if slot.number.load(Ordering::Acquire) != number {
            return None;
        }
        let words = std::array::from_fn(|at| slot.words[at].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (slot.number.load(Ordering::Relaxed) == number).then(|| Piece::from_words(words))
    }

    /// The piece that holds for a reading. Without one that reaches back so far: none, or the first one ever, prolonged
    /// backwards.
    #[inline]
    pub(super) fn find(&self, cycles: u64) -> Option<Piece> {
        let mut looks = 0;
        loop {
            let newest = self.newest.load(Ordering::Acquire);
            let Some(piece) = self.read(newest) else { continue };
            if cycles < piece.from {
                return self.find_before(newest, piece, cycles);
            }
            if cycles < self.slot(newest).until.load(Ordering::Acquire) {
                return Some(piece);
            }
            // Its successor is being published. Should that thread have lost its CPU, perhaps to this one: not wait for it.
            looks += 1;
            if looks == PATIENCE {
                return Some(Piece { flags: piece.flags | flags::KERNEL_READ, ..piece });
            }
            std::hint::spin_loop();
        }
    }

    #[cold]
    fn find_before(&self, newest: u64, mut piece: Piece, cycles: u64) -> Option<Piece> {
        let mut number = newest;
        while cycles < piece.from {
            if piece.flags & flags::BARRIER != 0 {
                return None;
            }
            number -= 1;
            if number == 0 {
                return Some(piece);
            }
            piece = self.read(number)?;
        }
        Some(piece)
    }
}
