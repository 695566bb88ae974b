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
    pub(crate) const KERNEL_READ: u32 = 1 << 0;
    /// The counter is not the hardware's: kernel time already.
    pub(crate) const KERNEL_COUNTER: u32 = 1 << 1;
    /// The counter jumped at the beginning: earlier readings cannot be told from later ones.
    pub(crate) const BARRIER: u32 = 1 << 2;
    /// It has jumped back some time ago: a reading that seems to be of the future is from before.
    pub(crate) const MAYBE_OLDER: u32 = 1 << 3;
    /// Where conversion is more than arithmetic.
    pub(crate) const SPECIAL: u32 = KERNEL_READ | MAYBE_OLDER;
}

/// Whole nanoseconds, rounded up.
#[inline]
const fn up(fixed: u128) -> u64 {
    ((fixed + ((1 << SHIFT) - 1)) >> SHIFT) as u64
}

/// What the clock does from one reading on.
///
/// `monotonic = base + after·Δ + bend·min(Δ, knee)` with Δ the cycles since `from`: up to the knee the remainder of
/// the piece before is slewed in, beyond it the course is that of the anchors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First reading that it holds for.
    pub(crate) from: u64,
    /// CLOCK_MONOTONIC at `from`, nanoseconds.
    pub(crate) base_ns: i64,
    /// Nanoseconds a cycle beyond the knee, [`SHIFT`] fractional bits.
    pub(crate) after: u64,
    /// What is added to that rate up to the knee.
    pub(crate) bend: i64,
    /// Length of the part that slews, cycles.
    pub(crate) knee: u64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, nanoseconds.
    pub(crate) offset_ns: i64,
    /// Bound at `from`, without what is still to be slewed in; nanoseconds, `u64::MAX` is unknown.
    pub(crate) bound_ns: u64,
    /// Growth of the bound, nanoseconds a cycle with [`SHIFT`] fractional bits.
    pub(crate) drift: u64,
    /// Number of the epoch.
    pub(crate) epoch: u32,
    /// [`flags`].
    pub(crate) flags: u32,
}

/// A point on the course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) monotonic_ns: i64,
    /// `u64::MAX` is unknown.
    pub(crate) bound_ns: u64,
}

impl Piece {
    const WORDS: usize = 9;

    /// The course at a reading; before `from` the piece is prolonged backwards.
    #[inline(always)]
    pub(crate) fn at(&self, cycles: u64) -> Point {
        let Some(delta) = cycles.checked_sub(self.from) else { return self.before(cycles) };
        let slewed = delta.min(self.knee);
        // Rates below 2^15 ns a cycle, and pieces of less than 2^63 cycles: the sums fit.
        let bent = i128::from(slewed.cast_signed()) * i128::from(self.bend);
        let moved = (u128::from(delta) * u128::from(self.after)).cast_signed() + bent;
        let left = u128::from(self.bend.unsigned_abs()) * u128::from(self.knee - slewed);
        let more = up(u128::from(delta) * u128::from(self.drift) + left);
        Point {
            monotonic_ns: self.base_ns.wrapping_add((moved >> SHIFT) as i64),
            bound_ns: self.bound_ns.saturating_add(more),
        }
    }

    #[cold]
    fn before(&self, cycles: u64) -> Point {
        let delta = u128::from(self.from - cycles);
        let moved = (delta * u128::from(self.after)) >> SHIFT;
        let left = u128::from(self.bend.unsigned_abs()) * u128::from(self.knee);
        Point {
            monotonic_ns: self.base_ns.wrapping_sub(moved as i64),
            bound_ns: self.bound_ns.saturating_add(up(delta * u128::from(self.drift) + left)),
        }
    }

    /// Whether a reading lies so far beyond that its anchor ought to have been replaced long ago: the anchors' thread got no
    /// CPU, or the machine stood still.
    #[inline]
    pub(crate) fn is_stale(&self, cycles: u64) -> bool {
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

    #[inline(always)]
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
    slots: Box<[Slot; PIECES as usize]>,
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
        let slots: Vec<Slot> = (0..PIECES).map(|_| slot()).collect();
        let slots = slots.try_into().ok().expect("as many as were made");
        let table = Self { slots, newest: AtomicU64::new(0) };
        table.append(first);
        table
    }

    #[inline(always)]
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
    #[inline(always)]
    fn read(&self, number: u64) -> Option<Piece> {
        let slot = self.slot(number);
        if slot.number.load(Ordering::Acquire) != number {
            return None;
        }
        let words = std::array::from_fn(|at| slot.words[at].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (slot.number.load(Ordering::Relaxed) == number).then(|| Piece::from_words(words))
    }

    /// The newest piece, if it holds for a reading and conversion by it is plain arithmetic: nearly always. Else ask
    /// [`Table::find`]; that this does not call it keeps the piece in registers.
    #[inline(always)]
    pub(super) fn plain(&self, cycles: u64) -> Option<Piece> {
        let newest = self.newest.load(Ordering::Acquire);
        let piece = self.read(newest)?;
        let ends = self.slot(newest).until.load(Ordering::Acquire);
        let plain = piece.flags & flags::SPECIAL == 0 && !piece.is_stale(cycles);
        (cycles >= piece.from && cycles < ends && plain).then_some(piece)
    }

    /// The piece that holds for a reading. Without one that reaches back so far: none, or the first one ever, prolonged
    /// backwards.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const ONE: u64 = 1 << SHIFT;

    fn piece(from: u64, base_ns: i64) -> Piece {
        Piece { from, base_ns, after: ONE, knee: 1_000, ..Piece::default() }
    }

    #[test]
    fn a_piece_slews_up_to_its_knee_and_its_bound_shrinks_on_the_way() {
        let piece =
            Piece { bend: (ONE / 100) as i64, bound_ns: 50, drift: ONE / 1_000, ..piece(10_000, 500) };
        let at = |cycles| (piece.at(cycles).monotonic_ns, piece.at(cycles).bound_ns);
        // 10 ns over 1000 cycles; a nanosecond of drift each 1000.
        assert_eq!((at(10_000).0, at(10_500).0, at(11_000).0, at(12_000).0), (500, 1_004, 1_509, 2_509));
        assert_eq!((at(10_000).1, at(11_000).1, at(13_000).1), (60, 51, 53));
        assert_eq!(at(9_000), (-500, 61), "prolonged backwards without the bend");
    }

    #[test]
    fn a_reading_keeps_its_piece_until_the_ring_is_full() {
        let table = Table::new(&piece(1_000, 0));
        for number in 1..PIECES + 10 {
            table.append(&Piece { epoch: number as u32, ..piece(1_000 + number * 100, number as i64) });
        }
        let newest = PIECES + 9;
        for number in newest + 1 - PIECES..=newest {
            assert_eq!(table.find(1_050 + number * 100).unwrap().epoch, number as u32);
        }
        assert_eq!(table.find(1_050 + (newest - PIECES) * 100), None, "overwritten");
        assert_eq!(table.newest().epoch, newest as u32);
    }

    #[test]
    fn before_the_first_piece_it_is_prolonged_and_behind_a_barrier_nothing_is_known() {
        let table = Table::new(&piece(1_000, 0));
        assert_eq!(table.find(10).unwrap().from, 1_000);
        table.append(&Piece { flags: flags::BARRIER, ..piece(500, 9) });
        assert_eq!((table.find(499), table.find(500).unwrap().base_ns), (None, 9));
    }

    #[test]
    fn a_publisher_that_comes_too_late_takes_a_later_point() {
        let table = Table::new(&piece(0, 0));
        // The second look at the counter is behind the point that was announced.
        let mut looks = [1_000, 1_800, 5_000, 5_001].into_iter();
        table.publish(|| looks.next().unwrap(), 500, |old, from| piece(from, old.at(from).monotonic_ns));
        assert_eq!(table.newest().from, 5_500);
        assert_eq!((table.find(5_499).unwrap().from, table.find(5_500).unwrap().from), (0, 5_500));
    }

    #[test]
    fn a_successor_that_is_announced_and_does_not_come_is_not_waited_for() {
        let table = Table::new(&piece(0, 0));
        table.slots[1].until.store(700, Ordering::SeqCst);
        assert_eq!(table.find(699).unwrap().flags, 0);
        assert_eq!(table.find(700).unwrap().flags, flags::KERNEL_READ);
    }

    /// Pieces come as fast as they can, with their rate bent to and fro; the time of day is the number of readings taken.
    #[test]
    fn readers_see_one_rising_course_while_pieces_come() {
        let table = Table::new(&piece(0, 0));
        let (clock, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let read = || {
                let (mut last, mut count) = (i64::MIN, 0_u64);
                while !stop.load(Ordering::Relaxed) || count < 100_000 {
                    let cycles = clock.fetch_add(1, Ordering::SeqCst);
                    // None for a reader that lost its CPU for more pieces than are kept.
                    if let Some(piece) = table.find(cycles)
                        && piece.flags & flags::KERNEL_READ == 0
                    {
                        let now = piece.at(cycles).monotonic_ns;
                        assert!(now >= last, "{now} after {last}: {piece:?}");
                        last = now;
                    }
                    count += 1;
                }
            };
            let readers = [scope.spawn(read), scope.spawn(read)];
            for number in 0..20_000_i64 {
                let bend = (number % 3 - 1) * (ONE / 2) as i64;
                let make =
                    |old: &Piece, from| Piece { bend, knee: 50, ..piece(from, old.at(from).monotonic_ns) };
                table.publish(|| clock.fetch_add(1, Ordering::SeqCst), 20, make);
            }
            stop.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().expect("the course rises");
            }
        });
    }
}
