//! The directory: who has which line.

use crate::config::DirectoryConfig;

/// What the directory knows of a line: which second-level caches hold it, and whether the only one may write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    cores: u32,
    owned: bool,
}

impl Holders {
    /// Only `core` holds the line, and may write it.
    pub fn owner(core: usize) -> Self {
        Self { cores: 1 << core, owned: true }
    }

    /// The cores that hold it, a bit each.
    pub fn cores(self) -> u32 {
        self.cores
    }

    /// The core that may write it; none where it is shared.
    pub fn owning(self) -> Option<usize> {
        self.owned.then_some(self.cores.trailing_zeros() as usize)
    }

    /// One more core reads it; nobody may write it any more.
    pub fn share(&mut self, core: usize) {
        self.cores |= 1 << core;
        self.owned = false;
    }

    /// `core` is the only one, and may write it.
    pub fn own(&mut self, core: usize) {
        self.cores = 1 << core;
        self.owned = true;
    }
}

/// No line has this number: it is that of a free entry.
const FREE: u64 = u64::MAX;

/// A sparse directory with a full map: an entry has a bit for every core, but there are fewer entries than the caches have
/// lines, so that a line may have to leave the caches because its entry is needed. In each set it is the entry that was used
/// least recently that goes.
///
/// Lines, times and holders lie apart, so that a look goes over few bytes of the host's memory.
#[derive(Clone, Debug)]
pub struct Directory {
    lines: Box<[u64]>,
    /// When each entry was used last, by a clock that goes on with each use; 0 where it is free.
    used: Box<[u64]>,
    holders: Box<[Holders]>,
    ways: usize,
    set_mask: u64,
    clock: u64,
    /// The entry that was found last: a transaction looks for its line several times.
    found: usize,
}

impl Directory {
    /// An empty directory. Its sets must be a power of two, which configurations see to.
    pub fn new(config: &DirectoryConfig) -> Self {
        let (entries, ways) = (config.entries as usize, config.ways);
        Self {
            lines: vec![FREE; entries].into(),
            used: vec![0; entries].into(),
            holders: vec![Holders::default(); entries].into(),
            ways,
            set_mask: config.entries / ways as u64 - 1,
            clock: 0,
            found: 0,
        }
    }

    #[inline]
    fn set(&self, line: u64) -> std::ops::Range<usize> {
        let start = (line & self.set_mask) as usize * self.ways;
        start..start + self.ways
    }

    /// Where the line's entry is.
    #[inline]
    fn find(&self, line: u64) -> Option<usize> {
        if self.lines[self.found] == line {
            return Some(self.found);
        }
        let set = self.set(line);
        let start = set.start;
        // All of them are looked at, so that no jump depends on where it is.
        let mut found = usize::MAX;
        for (way, other) in self.lines[set].iter().enumerate() {
            if *other == line {
                found = way;
            }
        }
        (found != usize::MAX).then(|| start + found)
    }

    /// The entry that goes next: a free one, or the one that was used least recently.
    #[inline]
    fn oldest(&self, line: u64) -> usize {
        let set = self.set(line);
        let start = set.start;
        let (mut oldest, mut least) = (0, u64::MAX);
        for (way, used) in self.used[set].iter().enumerate() {
            if *used < least {
                (oldest, least) = (way, *used);
            }
        }
        start + oldest
    }

    #[inline]
    fn at(&self, place: usize) -> Option<(u64, Holders)> {
        (self.used[place] != 0).then(|| (self.lines[place], self.holders[place]))
    }

    #[inline]
    fn use_now(&mut self, place: usize) {
        self.clock += 1;
        self.used[place] = self.clock;
    }

    /// As [`peek`](Self::peek), for who looks for the same line again soon.
    #[inline]
    pub(crate) fn look_up(&mut self, line: u64) -> Option<Holders> {
        self.found = self.find(line)?;
        Some(self.holders[self.found])
    }

    /// Who holds the line; its entry becomes the one used last.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<&mut Holders> {
        let place = self.find(line)?;
        self.found = place;
        self.use_now(place);
        Some(&mut self.holders[place])
    }

    /// Who holds the line, without a change of ages.
    #[inline]
    pub fn peek(&self, line: u64) -> Option<Holders> {
        self.find(line).map(|place| self.holders[place])
    }

    /// The line whose entry a new line would push out, and who holds it.
    pub fn victim(&self, line: u64) -> Option<(u64, Holders)> {
        self.at(self.oldest(line))
    }

    /// Takes in a line that nobody held; the one whose entry had to go is given back with its holders, and must leave the caches.
    pub fn insert(&mut self, line: u64, holders: Holders) -> Option<(u64, Holders)> {
        debug_assert!(self.find(line).is_none(), "it is here");
        let place = self.oldest(line);
        let gone = self.at(place);
        self.found = place;
        self.lines[place] = line;
        self.holders[place] = holders;
        self.use_now(place);
        gone
    }

    /// `core` does not hold the line any more.
    pub fn leave(&mut self, line: u64, core: usize) {
        let Some(place) = self.find(line) else {
            debug_assert!(false, "a cache held a line that the directory does not know");
            return;
        };
        let holders = &mut self.holders[place];
        holders.cores &= !(1 << core);
        if holders.cores == 0 {
            self.lines[place] = FREE;
            self.used[place] = 0;
        }
    }

    /// All lines that it knows, and who holds them.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Holders)> {
        (0..self.lines.len()).filter_map(|place| self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of two entries: even and odd lines.
    fn two_ways() -> Directory {
        Directory::new(&DirectoryConfig { entries: 4, ways: 2 })
    }

    #[test]
    fn the_entry_that_was_used_least_recently_goes() {
        let mut directory = two_ways();
        assert_eq!(directory.insert(2, Holders::owner(0)), None);
        assert_eq!(directory.insert(4, Holders::owner(1)), None);
        assert_eq!(directory.victim(6), Some((2, Holders::owner(0))), "it came first");
        assert!(directory.touch(2).is_some());
        assert_eq!(directory.victim(6), Some((4, Holders::owner(1))), "the other one was used since");
        assert_eq!(directory.peek(4), Some(Holders::owner(1)));
        assert_eq!(directory.victim(6), Some((4, Holders::owner(1))), "a peek is no use");
        assert_eq!(directory.insert(6, Holders::owner(2)), Some((4, Holders::owner(1))));
        assert_eq!((directory.peek(4), directory.victim(8)), (None, Some((2, Holders::owner(0)))));
    }

    #[test]
    fn sets_do_not_push_each_other_out() {
        let mut directory = two_ways();
        for line in [2, 4, 3, 5] {
            assert_eq!(directory.insert(line, Holders::owner(0)), None);
        }
        assert_eq!(directory.victim(6).map(|(line, _)| line), Some(2));
        assert_eq!(directory.victim(7).map(|(line, _)| line), Some(3));
        let mut lines: Vec<u64> = directory.iter().map(|(line, _)| line).collect();
        lines.sort_unstable();
        assert_eq!(lines, [2, 3, 4, 5]);
    }

    #[test]
    fn an_entry_is_free_when_its_last_core_leaves() {
        let mut directory = two_ways();
        directory.insert(2, Holders::owner(3));
        directory.insert(4, Holders::owner(1));
        directory.touch(2).unwrap().share(0);
        let holders = directory.peek(2).unwrap();
        assert_eq!((holders.cores(), holders.owning()), (0b1001, None));
        directory.leave(2, 3);
        assert_eq!(directory.peek(2).map(Holders::cores), Some(0b0001));
        directory.leave(2, 0);
        assert_eq!((directory.peek(2), directory.touch(2)), (None, None));
        assert_eq!(directory.victim(6), None, "a free entry comes before the oldest");
        assert_eq!(directory.insert(6, Holders::owner(0)), None);
        let mut owned = Holders::owner(0);
        owned.share(2);
        owned.own(1);
        assert_eq!((owned.cores(), owned.owning()), (0b10, Some(1)));
    }
}
