//! A set-associative cache with exact least-recently-used replacement.

/// What is kept of a line.
pub trait Entry: Copy + Default {
    /// The line's number, its address without the bits inside the line. Not asked of a free entry.
    fn line(self) -> u64;
    /// Whether nothing is kept here.
    fn is_free(self) -> bool;
}

/// The sets; in each the entry used last comes first and free ones come last, so that the order is the age.
#[derive(Clone, Debug)]
pub struct SetAssociative<E> {
    entries: Vec<E>,
    ways: usize,
    set_mask: u64,
}

impl<E: Entry> SetAssociative<E> {
    /// An empty cache of `sets` (a power of two) of `ways`.
    pub fn new(sets: u64, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "configurations are checked when read");
        Self { entries: vec![E::default(); sets as usize * ways], ways, set_mask: sets - 1 }
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [E] {
        let start = (line & self.set_mask) as usize * self.ways;
        &mut self.entries[start..start + self.ways]
    }

    /// The line's entry, which becomes the one used last; none if it is not here.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<&mut E> {
        let set = self.set(line);
        if !set[0].is_free() && set[0].line() == line {
            return Some(&mut set[0]);
        }
        let way = set.iter().position(|entry| !entry.is_free() && entry.line() == line)?;
        set[..=way].rotate_right(1);
        Some(&mut set[0])
    }

    /// The line's entry, without a change of ages.
    pub fn peek(&self, line: u64) -> Option<&E> {
        let start = (line & self.set_mask) as usize * self.ways;
        self.entries[start..start + self.ways].iter().find(|entry| !entry.is_free() && entry.line() == line)
    }

    /// As [`peek`](Self::peek), to change what is kept; the line must stay.
    #[inline]
    pub fn peek_mut(&mut self, line: u64) -> Option<&mut E> {
        self.set(line).iter_mut().find(|entry| !entry.is_free() && entry.line() == line)
    }

    /// Takes in a line that is not here, as the one used last. What had to go is given back.
    #[inline]
    pub fn insert(&mut self, entry: E) -> Option<E> {
        let set = self.set(entry.line());
        debug_assert!(
            !set.iter().any(|other| !other.is_free() && other.line() == entry.line()),
            "it is here"
        );
        set.rotate_right(1);
        let gone = std::mem::replace(&mut set[0], entry);
        (!gone.is_free()).then_some(gone)
    }

    /// What [`insert`](Self::insert) of this line would give back.
    pub fn victim(&self, line: u64) -> Option<E> {
        let start = (line & self.set_mask) as usize * self.ways;
        let last = self.entries[start + self.ways - 1];
        (!last.is_free()).then_some(last)
    }

    /// Lets go of a line.
    #[inline]
    pub fn remove(&mut self, line: u64) -> Option<E> {
        let set = self.set(line);
        let way = set.iter().position(|entry| !entry.is_free() && entry.line() == line)?;
        set[way..].rotate_left(1);
        set.last_mut().map(std::mem::take)
    }

    /// All that is here, set by set.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().filter(|entry| !entry.is_free())
    }
}

/// What a cache may do with its line: MESI, in the order of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Others may have it too; it may be read.
    Shared = 1,
    /// Nobody else has it, and memory has the same.
    Exclusive = 2,
    /// Nobody else has it, and memory has an older one.
    Modified = 3,
}
