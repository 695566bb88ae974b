//! The directory: who has which line.

use crate::cache::{Entry, SetAssociative};
use crate::config::DirectoryConfig;

/// What the directory knows of a line: which second-level caches hold it, and whether the only one may write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    line: u64,
    cores: u32,
    owned: bool,
}

impl Holders {
    /// Only `core` holds the line, and may write it.
    pub fn owner(line: u64, core: usize) -> Self {
        Self { line, cores: 1 << core, owned: true }
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

impl Entry for Holders {
    fn line(self) -> u64 {
        self.line
    }

    fn is_free(self) -> bool {
        self.cores == 0
    }
}

/// A sparse directory with a full map: an entry has a bit for every core, but there are fewer entries than the caches have
/// lines, so that a line may have to leave the caches because its entry is needed.
#[derive(Clone, Debug)]
pub struct Directory {
    entries: SetAssociative<Holders>,
}

impl Directory {
    /// An empty directory.
    pub fn new(config: &DirectoryConfig) -> Self {
        Self { entries: SetAssociative::new(config.entries / config.ways as u64, config.ways) }
    }

    /// Who holds the line; its entry becomes the one used last.
    pub fn touch(&mut self, line: u64) -> Option<&mut Holders> {
        self.entries.touch(line)
    }

    /// Who holds the line, without a change of ages.
    pub fn peek(&self, line: u64) -> Option<Holders> {
        self.entries.peek(line).copied()
    }

    /// The entry that a new line would push out.
    pub fn victim(&self, line: u64) -> Option<Holders> {
        self.entries.victim(line)
    }

    /// Takes in a line that nobody held; the entry that had to go is given back and its line must leave the caches.
    pub fn insert(&mut self, holders: Holders) -> Option<Holders> {
        self.entries.insert(holders)
    }

    /// `core` does not hold the line any more.
    pub fn leave(&mut self, line: u64, core: usize) {
        let Some(holders) = self.entries.peek_mut(line) else {
            debug_assert!(false, "a cache held a line that the directory does not know");
            return;
        };
        if holders.cores == 1 << core {
            self.entries.remove(line);
        } else {
            holders.cores &= !(1 << core);
        }
    }

    /// Everything that it knows.
    pub fn iter(&self) -> impl Iterator<Item = &Holders> {
        self.entries.iter()
    }
}

impl Holders {
    /// The line's number.
    pub fn number(self) -> u64 {
        self.line
    }
}
