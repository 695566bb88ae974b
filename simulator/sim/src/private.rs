//! The caches of one core, with a way back: everything that changes is kept until it is certain.
//!
//! A core runs ahead of the others and may have to go back (see [`crate::machine`]), so each word that changes is put into a
//! log with its old value. All three caches lie in one array:
//!
//! ```text
//! words   first level, instructions │ first level, data │ second level        a word a line: number << 2 | state, 0 if free
//! ```
//! In each set the line used last comes first and free ones come last, so that the order is the age. A second level that is not
//! plain has more behind these ([`second`]).

mod epochs;
mod evict;
mod second;
mod side;

pub use second::{SecondLevel, SecondLevelCounts};
pub use side::Side;

use crate::cache::LineState;
use crate::config::{CacheConfig, Config};
use second::Marked;

/// Why a core looks into its caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Instructions to run.
    Fetch,
    /// Data to read.
    Load,
    /// Data to write.
    Store,
}

/// What a core's own caches gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// A hit in the first level.
    First,
    /// A hit in the second level; the line is in the first now.
    Second,
    /// The directory must be asked.
    Ask,
}

/// Where a cache lies among the words.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: usize,
    ways: usize,
    set_mask: usize,
}

impl Part {
    fn new(start: usize, config: &CacheConfig) -> Self {
        Self { start, ways: config.ways, set_mask: config.sets() as usize - 1 }
    }

    fn end(&self) -> usize {
        self.start + (self.set_mask + 1) * self.ways
    }

    #[inline]
    fn set(&self, line: u64) -> usize {
        self.start + (line as usize & self.set_mask) * self.ways
    }
}

/// A first-level line that came from the second level, and the one that had to go for it.
#[derive(Clone, Copy, Debug)]
struct Fill {
    at_fs: u64,
    set: usize,
    gone: u64,
}

/// No first-level line has this number.
const NO_LINE: u64 = u64::MAX;

/// The caches of one core. The second level holds all that the first levels hold.
#[derive(Clone, Debug)]
pub struct PrivateCaches {
    words: Vec<u64>,
    instructions: Part,
    data: Part,
    second: Part,
    /// First-level line that instructions came from last, so that a loop needs no look-up; it is the one used last anyhow.
    last_fetched: u64,
    /// How far to shift a first-level line's number to get the second-level one's.
    shift: u32,
    /// Whether old values are kept.
    keeps: bool,
    /// Places and old values of words, in the order of changes.
    old: Vec<(u32, u64)>,
    /// See `last_fetched`.
    old_last_fetched: u64,
    fills: Vec<Fill>,
    /// Cycles that the last look beyond the first level took.
    looked_cycles: u64,
    /// What a second level has that is not plain.
    marked: Option<Box<Marked>>,
}

#[inline]
fn word(line: u64, state: LineState) -> u64 {
    line << 2 | state as u64
}

fn state(word: u64) -> LineState {
    match word & 3 {
        3 => LineState::Modified,
        2 => LineState::Exclusive,
        _ => LineState::Shared,
    }
}

/// Whether the word is one of this line, in any state: no free one is.
#[inline]
fn is(word: u64, line: u64) -> bool {
    (word ^ (line << 2)).wrapping_sub(1) < 3
}

impl PrivateCaches {
    pub(crate) fn new(config: &Config) -> Self {
        let instructions = Part::new(0, &config.l1);
        let data = Part::new(instructions.end(), &config.l1);
        let second = Part::new(data.end(), &config.l2);
        Self {
            words: vec![0; second.end()],
            instructions,
            data,
            second,
            last_fetched: NO_LINE,
            shift: (config.l2.line_octets / config.l1.line_octets).trailing_zeros(),
            keeps: false,
            old: Vec::new(),
            old_last_fetched: NO_LINE,
            fills: Vec::new(),
            looked_cycles: config.l2.hit_cycles,
            marked: None,
        }
    }

    /// How many cycles the last look beyond the first level took, to the data or to knowing that the directory must be asked.
    #[inline]
    pub(crate) fn looked_cycles(&self) -> u64 {
        self.looked_cycles
    }

    /// The second-level line that a first-level line lies in.
    #[inline]
    pub(crate) fn second_line(&self, first_line: u64) -> u64 {
        first_line >> self.shift
    }

    /// From now on old values are kept, back to here.
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.keeps = true;
        self.old.clear();
        self.fills.clear();
        self.old_last_fetched = self.last_fetched;
    }

    /// Everything is as it was at the last [`keep`](Self::keep).
    pub(crate) fn go_back(&mut self) {
        while let Some((place, old)) = self.old.pop() {
            self.words[place as usize] = old;
        }
        self.fills.clear();
        self.last_fetched = self.old_last_fetched;
    }

    #[inline]
    fn put(&mut self, place: usize, word: u64) {
        if self.keeps {
            self.old.push((place as u32, self.words[place]));
        }
        self.words[place] = word;
    }

    /// Finds a line beyond its set's first place and makes it the one used last.
    fn touch_older(&mut self, set: usize, ways: usize, line: u64) -> bool {
        let Some(way) = (1..ways).find(|way| is(self.words[set + way], line)) else { return false };
        let found = self.words[set + way];
        for place in (set + 1..=set + way).rev() {
            self.put(place, self.words[place - 1]);
        }
        self.put(set, found);
        true
    }

    /// Whether the line is here; it becomes the one used last, at the place given back.
    #[inline(always)]
    fn touch(&mut self, part: Part, line: u64) -> Option<usize> {
        let set = part.set(line);
        let first = self.words[set];
        if is(first, line) {
            return Some(set);
        }
        if part.ways != 2 {
            return self.touch_older(set, part.ways, line).then_some(set);
        }
        let second = self.words[set + 1];
        if !is(second, line) {
            return None;
        }
        self.put(set + 1, first);
        self.put(set, second);
        Some(set)
    }

    /// The place of a line, without a change of ages.
    #[inline]
    fn find(&self, part: Part, line: u64) -> Option<usize> {
        let set = part.set(line);
        (set..set + part.ways).find(|place| is(self.words[*place], line))
    }

    /// Takes in a line that is not here, as the one used last. The word that had to go is given back, 0 if none had.
    fn insert(&mut self, part: Part, line: u64, state: LineState) -> u64 {
        let set = part.set(line);
        debug_assert!(self.find(part, line).is_none(), "it is here");
        let gone = self.words[set + part.ways - 1];
        for place in (set + 1..set + part.ways).rev() {
            self.put(place, self.words[place - 1]);
        }
        self.put(set, word(line, state));
        gone
    }

    /// Lets go of a line. Its word is given back, 0 if it was not here.
    fn remove(&mut self, part: Part, line: u64) -> u64 {
        let Some(place) = self.find(part, line) else { return 0 };
        let gone = self.words[place];
        let last = part.set(line) + part.ways - 1;
        for place in place..last {
            self.put(place, self.words[place + 1]);
        }
        self.put(last, 0);
        gone
    }

    /// Looks for a first-level line (its address by the first level's line size) at `now_fs`, for the application.
    #[inline]
    pub fn look(&mut self, first_line: u64, purpose: Purpose, now_fs: u64) -> Local {
        self.look_as(first_line, purpose, now_fs, false)
    }

    /// As [`look`](Self::look), for the kernel where `supervisor` says so.
    #[inline]
    pub fn look_as(&mut self, first_line: u64, purpose: Purpose, now_fs: u64, supervisor: bool) -> Local {
        let hit = match purpose {
            Purpose::Load => self.hits_load(first_line),
            Purpose::Store => self.hits_store(first_line),
            Purpose::Fetch => self.hits_fetch(first_line),
        };
        if hit { Local::First } else { self.look_further(first_line, purpose, now_fs, supervisor) }
    }

    /// Whether a load hits the first level.
    #[inline]
    pub(crate) fn hits_load(&mut self, first_line: u64) -> bool {
        self.touch(self.data, first_line).is_some()
    }

    /// Whether a store hits the first level with the right to write; it has written then.
    #[inline]
    pub(crate) fn hits_store(&mut self, first_line: u64) -> bool {
        let Some(place) = self.touch(self.data, first_line) else { return false };
        match self.words[place] & 3 {
            3 => true,
            2 => {
                self.put(place, self.words[place] | 3);
                match self.find_second(first_line >> self.shift) {
                    Some(place) => self.put(place, self.words[place] | 3),
                    None => debug_assert!(false, "the second level holds what the first holds"),
                }
                true
            }
            _ => false,
        }
    }

    /// Whether instructions are in the first level.
    #[inline]
    pub(crate) fn hits_fetch(&mut self, first_line: u64) -> bool {
        if self.last_fetched == first_line {
            return true;
        }
        if self.touch(self.instructions, first_line).is_none() {
            return false;
        }
        self.last_fetched = first_line;
        true
    }

    /// Looks beyond the first level, which does not have the line, or not with the right to write.
    pub(crate) fn look_further(
        &mut self,
        first_line: u64,
        purpose: Purpose,
        now_fs: u64,
        supervisor: bool,
    ) -> Local {
        if self.marked.is_some() {
            return self.look_marked(first_line, purpose, now_fs, supervisor);
        }
        if purpose == Purpose::Store && self.find(self.data, first_line).is_some() {
            return Local::Ask;
        }
        let Some(place) = self.touch(self.second, first_line >> self.shift) else { return Local::Ask };
        self.let_in(first_line, purpose, place, now_fs)
    }

    /// The first level takes in a line that the second has at this place; unless it may not be written, and is to be.
    #[inline]
    fn let_in(&mut self, first_line: u64, purpose: Purpose, place: usize, now_fs: u64) -> Local {
        let part = match purpose {
            Purpose::Store if self.words[place] & 3 == LineState::Shared as u64 => return Local::Ask,
            Purpose::Store => {
                self.put(place, self.words[place] | 3);
                self.data
            }
            Purpose::Load => self.data,
            Purpose::Fetch => {
                self.last_fetched = first_line;
                self.instructions
            }
        };
        let state = if purpose == Purpose::Fetch { LineState::Shared } else { state(self.words[place]) };
        let gone = self.insert(part, first_line, state);
        if self.keeps {
            self.fills.push(Fill { at_fs: now_fs, set: part.set(first_line), gone: gone >> 2 });
        }
        Local::Second
    }

    /// Where a second-level line lies, in whichever cache.
    #[inline]
    fn find_second(&self, line: u64) -> Option<usize> {
        self.find(self.second, line).or_else(|| self.find_in_os(line))
    }

    /// The directory let this core have a line; the second level has it already.
    pub(crate) fn fill_first(&mut self, first_line: u64, purpose: Purpose, state: LineState) {
        let fetch = purpose == Purpose::Fetch;
        let (part, state) = if fetch { (self.instructions, LineState::Shared) } else { (self.data, state) };
        match self.touch(part, first_line) {
            Some(place) => self.put(place, word(first_line, state)),
            None => {
                // A dirty victim needs no more: the second level's line has been Modified since its first write.
                self.insert(part, first_line, state);
            }
        }
        if fetch {
            self.last_fetched = first_line;
        }
    }

    fn first_lines(&self, second_line: u64) -> std::ops::Range<u64> {
        second_line << self.shift..(second_line + 1) << self.shift
    }

    /// The line leaves; whether it was dirty.
    pub(crate) fn invalidate(&mut self, second_line: u64) -> bool {
        let gone = match self.marked {
            Some(_) => self.remove_marked(second_line),
            None => self.remove(self.second, second_line),
        };
        self.forget_first(second_line);
        gone & 3 == LineState::Modified as u64
    }

    fn forget_first(&mut self, second_line: u64) {
        for first in self.first_lines(second_line) {
            self.remove(self.data, first);
            if self.remove(self.instructions, first) != 0 && self.last_fetched == first {
                self.last_fetched = NO_LINE;
            }
        }
    }

    /// The line may only be read from now on; whether it was dirty.
    pub(crate) fn downgrade(&mut self, second_line: u64) -> bool {
        for first in self.first_lines(second_line) {
            if let Some(place) = self.find(self.data, first) {
                self.put(place, word(first, LineState::Shared));
            }
        }
        let Some(place) = self.find_second(second_line) else { return false };
        let dirty = self.words[place] & 3 == LineState::Modified as u64;
        self.put(place, word(second_line, LineState::Shared));
        dirty
    }

    /// The state of a second-level line; none if it is not here.
    pub fn state(&self, second_line: u64) -> Option<LineState> {
        self.find_second(second_line).map(|place| state(self.words[place]))
    }

    /// The second level has this line now, used last; the line that had to go with its state, and the first levels forgot.
    pub(crate) fn fill_second(&mut self, second_line: u64, new: LineState) -> Option<(u64, LineState)> {
        if self.marked.is_some() {
            return self.fill_marked(second_line, new);
        }
        let gone = self.insert(self.second, second_line, new);
        if gone == 0 {
            return None;
        }
        self.forget_first(gone >> 2);
        Some((gone >> 2, state(gone)))
    }

    /// The second level's line is used, and has at least this state, which is given back.
    pub(crate) fn raise_second(&mut self, second_line: u64, least: LineState) -> LineState {
        if self.marked.is_some() {
            return self.raise_marked(second_line, least);
        }
        let Some(place) = self.touch(self.second, second_line) else { return least };
        let now = state(self.words[place]).max(least);
        if self.words[place] != word(second_line, now) {
            self.put(place, word(second_line, now));
        }
        now
    }

    /// Whether what ran from `since_fs` on might have gone otherwise, had this line left at that time; looks only at what is
    /// here and what came. Accesses are looked at by the caller where `None` is said.
    pub(crate) fn may_matter(&self, second_line: u64, since_fs: u64) -> Option<bool> {
        // Beside an OS cache a store that must ask asks sooner where the line lies in the first place that is looked at.
        let os_cache = self.marked.as_ref().is_some_and(|marked| marked.layout.os.is_some());
        let mut here = os_cache && self.find_second(second_line).is_some();
        for first in self.first_lines(second_line) {
            for part in [self.data, self.instructions] {
                let found = self.find(part, first).is_some();
                here |= found;
                let set = part.set(first);
                let fills = self.fills.iter().rev().take_while(|fill| fill.at_fs >= since_fs);
                for fill in fills {
                    if fill.gone == first || (found && fill.set == set) {
                        return Some(true);
                    }
                }
            }
        }
        if here { None } else { Some(false) }
    }

    /// Second-level lines and their states, those of an OS cache too.
    pub fn lines(&self) -> impl Iterator<Item = (u64, LineState)> {
        let os = self.marked.as_ref().and_then(|marked| marked.layout.os);
        self.all(self.second).chain(os.into_iter().flat_map(move |os| self.all(os)))
    }

    /// First-level data lines and their states.
    pub fn data_lines(&self) -> impl Iterator<Item = (u64, LineState)> {
        self.all(self.data)
    }

    fn all(&self, part: Part) -> impl Iterator<Item = (u64, LineState)> {
        let words = self.words[part.start..part.end()].iter().filter(|word| **word != 0);
        words.map(|word| (word >> 2, state(*word)))
    }
}

#[cfg(test)]
mod tests;
