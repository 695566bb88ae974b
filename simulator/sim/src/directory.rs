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
/// Lines, times and holders lie apart, so that a look goes over few octets of the host's memory.
#[derive(Clone, Debug)]
pub struct Directory {
    lines: Box<[u64]>,
    /// When each entry was used last, by a clock that goes on with each use; 0 where it is free.
    used: Box<[u64]>,
    holders: Box<[Holders]>,
    ways: usize,
    set_mask: u64,
    clock: u64,
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

    /// Who holds the line; its entry becomes the one used last.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<&mut Holders> {
        let place = self.find(line)?;
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
