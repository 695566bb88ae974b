//! Caches of all cores and the directory between them: MESI.
//!
//! A core's own hits need nobody else. All else is a transaction at the directory, whole at one instant of simulated time;
//! the caller asks for transactions in the order of time.

use crate::cache::{CacheLine, Entry, SetAssociative, State};
use crate::config::Config;
use crate::directory::{Directory, Holders};
use crate::memory::Memory;

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

/// Where a transaction at the directory found the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the own second-level cache after all, with the right that was asked for.
    Here,
    /// In the own cache; others gave up theirs, so that it may be written.
    Upgrade,
    /// In another core's cache.
    Remote,
    /// In memory; here is when it comes.
    Memory {
        /// Simulated time, femtoseconds.
        at_fs: u64,
    },
}

/// Whoever wants to see every movement of a line; the test with data values does.
pub trait Observer {
    /// `from` copied the line to `to`. Memory is no core.
    fn copied(&mut self, line: u64, from: Option<usize>, to: Option<usize>);
    /// `core` holds the line no more.
    fn dropped(&mut self, line: u64, core: usize);
}

impl Observer for () {
    fn copied(&mut self, _: u64, _: Option<usize>, _: Option<usize>) {}
    fn dropped(&mut self, _: u64, _: usize) {}
}

/// The caches of one core. The second level holds all that the first levels hold.
#[derive(Clone, Debug)]
pub struct PrivateCaches {
    instructions: SetAssociative<CacheLine>,
    data: SetAssociative<CacheLine>,
    second: SetAssociative<CacheLine>,
    /// First-level line that instructions came from last, so that a loop needs no look-up; it is the one used last anyhow.
    last_fetched: Option<u64>,
    /// How far to shift a first-level line's number to get the second-level one's.
    shift: u32,
}

impl PrivateCaches {
    fn new(config: &Config) -> Self {
        let first = || SetAssociative::new(config.l1.sets(), config.l1.ways);
        Self {
            instructions: first(),
            data: first(),
            second: SetAssociative::new(config.l2.sets(), config.l2.ways),
            last_fetched: None,
            shift: (config.l2.line_octets / config.l1.line_octets).trailing_zeros(),
        }
    }

    /// Looks for a first-level line (its address by the first level's line size).
    #[inline]
    pub fn look(&mut self, first_line: u64, purpose: Purpose) -> Local {
        match purpose {
            Purpose::Load => self.load(first_line),
            Purpose::Store => self.store(first_line),
            Purpose::Fetch => self.fetch(first_line),
        }
    }

    #[inline]
    fn load(&mut self, first_line: u64) -> Local {
        if self.data.touch(first_line).is_some() {
            return Local::First;
        }
        let Some(&mut line) = self.second.touch(first_line >> self.shift) else { return Local::Ask };
        self.fill_data(first_line, line.state());
        Local::Second
    }

    #[inline]
    fn store(&mut self, first_line: u64) -> Local {
        if let Some(line) = self.data.touch(first_line) {
            match line.state() {
                State::Modified => return Local::First,
                State::Exclusive => {
                    line.set_state(State::Modified);
                    self.modify_second(first_line);
                    return Local::First;
                }
                State::Shared => return Local::Ask,
            }
        }
        let Some(line) = self.second.touch(first_line >> self.shift) else { return Local::Ask };
        if line.state() == State::Shared {
            return Local::Ask;
        }
        line.set_state(State::Modified);
        self.fill_data(first_line, State::Modified);
        Local::Second
    }

    #[inline]
    fn fetch(&mut self, first_line: u64) -> Local {
        if self.last_fetched == Some(first_line) {
            return Local::First;
        }
        let found = if self.instructions.touch(first_line).is_some() {
            Local::First
        } else if self.second.touch(first_line >> self.shift).is_some() {
            self.instructions.insert(CacheLine::new(first_line, State::Shared));
            Local::Second
        } else {
            return Local::Ask;
        };
        self.last_fetched = Some(first_line);
        found
    }

    fn modify_second(&mut self, first_line: u64) {
        match self.second.peek_mut(first_line >> self.shift) {
            Some(line) => line.set_state(State::Modified),
            None => debug_assert!(false, "the second level holds what the first holds"),
        }
    }

    /// A dirty victim of the first level needs no more: the second level's line has been Modified since its first write.
    fn fill_data(&mut self, first_line: u64, state: State) {
        self.data.insert(CacheLine::new(first_line, state));
    }

    fn fill_first(&mut self, first_line: u64, purpose: Purpose, state: State) {
        if purpose == Purpose::Fetch {
            if self.instructions.touch(first_line).is_none() {
                self.instructions.insert(CacheLine::new(first_line, State::Shared));
            }
            self.last_fetched = Some(first_line);
            return;
        }
        match self.data.touch(first_line) {
            Some(line) => line.set_state(state),
            None => self.fill_data(first_line, state),
        }
    }

    fn first_lines(&self, second_line: u64) -> std::ops::Range<u64> {
        second_line << self.shift..(second_line + 1) << self.shift
    }

    /// The line leaves; whether it was dirty.
    fn invalidate(&mut self, second_line: u64) -> bool {
        let gone = self.second.remove(second_line);
        self.forget_first(second_line);
        gone.is_some_and(|line| line.state() == State::Modified)
    }

    fn forget_first(&mut self, second_line: u64) {
        for first in self.first_lines(second_line) {
            self.data.remove(first);
            if self.instructions.remove(first).is_some() && self.last_fetched == Some(first) {
                self.last_fetched = None;
            }
        }
    }

    /// The line may only be read from now on; whether it was dirty.
    fn downgrade(&mut self, second_line: u64) -> bool {
        for first in self.first_lines(second_line) {
            if let Some(line) = self.data.peek_mut(first) {
                line.set_state(State::Shared);
            }
        }
        let line = self.second.peek_mut(second_line);
        line.is_some_and(|line| {
            let dirty = line.state() == State::Modified;
            line.set_state(State::Shared);
            dirty
        })
    }

    /// The state of a second-level line; none if it is not here.
    pub fn state(&self, second_line: u64) -> Option<State> {
        self.second.peek(second_line).map(|line| line.state())
    }

    /// Second-level lines and their states.
    pub fn lines(&self) -> impl Iterator<Item = (u64, State)> {
        self.second.iter().map(|line| (line.line(), line.state()))
    }

    /// First-level data lines and their states.
    pub fn data_lines(&self) -> impl Iterator<Item = (u64, State)> {
        self.data.iter().map(|line| (line.line(), line.state()))
    }
}

/// How often what happened at the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CoherenceCounts {
    /// Lines that had to leave a cache because another core wrote them.
    pub invalidations: u64,
    /// Lines that others may read since, so that their owner may not write them any more.
    pub downgrades: u64,
    /// Lines that left the caches because the directory needed their entry.
    pub recalls: u64,
    /// Dirty lines written to memory.
    pub written_back: u64,
}

/// All caches and the directory.
#[derive(Clone, Debug)]
pub struct Chip<O = ()> {
    /// A core's caches, by core.
    pub cores: Vec<PrivateCaches>,
    directory: Directory,
    /// Main memory.
    pub memory: Memory,
    /// What happened so far.
    pub counts: CoherenceCounts,
    /// Whoever watches.
    pub observer: O,
}

impl<O: Observer> Chip<O> {
    /// Empty caches; `cycle_fs` is a cycle of a core at rest.
    pub fn new(config: &Config, cycle_fs: u64, observer: O) -> Self {
        Self {
            cores: vec![PrivateCaches::new(config); config.chip.cores],
            directory: Directory::new(&config.directory),
            memory: Memory::new(&config.memory, cycle_fs),
            counts: CoherenceCounts::default(),
            observer,
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The second-level line that a first-level line lies in.
    pub fn second_line(&self, first_line: u64) -> u64 {
        first_line >> self.cores[0].shift
    }

    /// Cores whose caches [`transact`](Self::transact) may change besides the asking one's, a bit each.
    pub fn touched_by(&self, second_line: u64) -> u32 {
        match self.directory.peek(second_line) {
            Some(holders) => holders.cores(),
            None => self.directory.victim(second_line).map_or(0, Holders::cores),
        }
    }

    /// A core asks the directory for a line, at `at_fs`. Afterwards it has the line with the right that it needs.
    pub fn transact(&mut self, core: usize, first_line: u64, purpose: Purpose, at_fs: u64) -> Found {
        let line = first_line >> self.cores[core].shift;
        let here = self.cores[core].state(line);
        let write = purpose == Purpose::Store;
        let found = match here {
            Some(State::Shared) if write => {
                self.invalidate_others(line, core);
                Found::Upgrade
            }
            Some(_) => Found::Here,
            None => self.bring(core, line, write, at_fs),
        };
        let state = self.settle(core, line, write, here.is_none(), at_fs);
        self.cores[core].fill_first(first_line, purpose, state);
        found
    }

    /// Makes others give up or share the line, without placing it in the asking core's cache yet.
    fn bring(&mut self, core: usize, line: u64, write: bool, at_fs: u64) -> Found {
        let Some(holders) = self.directory.touch(line).copied() else {
            self.enter(core, line, at_fs);
            let at_fs = self.memory.read(line, at_fs);
            self.observer.copied(line, None, Some(core));
            return Found::Memory { at_fs };
        };
        let from = holders.owning().unwrap_or(holders.cores().trailing_zeros() as usize);
        self.observer.copied(line, Some(from), Some(core));
        if write {
            self.invalidate_others(line, core);
        } else if holders.owning().is_some() {
            self.counts.downgrades += 1;
            if self.cores[from].downgrade(line) {
                self.write_back(line, from, at_fs);
            }
        }
        if let (false, Some(holders)) = (write, self.directory.touch(line)) {
            holders.share(core);
        }
        Found::Remote
    }

    /// A line that nobody held gets an entry, which may cost another line its place in the caches.
    fn enter(&mut self, core: usize, line: u64, at_fs: u64) {
        let Some(gone) = self.directory.insert(Holders::owner(line, core)) else { return };
        self.counts.recalls += 1;
        for holder in bits(gone.cores()) {
            self.drop_line(gone.number(), holder, at_fs);
        }
    }

    fn invalidate_others(&mut self, line: u64, core: usize) {
        let Some(holders) = self.directory.touch(line) else {
            debug_assert!(false, "a shared line is in the directory");
            return;
        };
        let others = holders.cores() & !(1 << core);
        holders.own(core);
        for other in bits(others) {
            self.counts.invalidations += 1;
            // What a Modified line held has gone to the new owner, who will write it back some day.
            self.cores[other].invalidate(line);
            self.observer.dropped(line, other);
        }
    }

    /// Puts the line into the asking core's second level, or gives it the right to write there. Its state is given back.
    fn settle(&mut self, core: usize, line: u64, write: bool, absent: bool, at_fs: u64) -> State {
        let owned = self.directory.peek(line).is_some_and(|holders| holders.owning() == Some(core));
        let state = match (write, owned) {
            (true, _) => State::Modified,
            (false, true) => State::Exclusive,
            (false, false) => State::Shared,
        };
        if absent {
            if let Some(victim) = self.cores[core].second.insert(CacheLine::new(line, state)) {
                self.evicted(core, victim, at_fs);
            }
            return state;
        }
        match self.cores[core].second.touch(line) {
            Some(entry) => {
                if write || entry.state() < state {
                    entry.set_state(state.max(entry.state()));
                }
                entry.state()
            }
            None => state,
        }
    }

    fn evicted(&mut self, core: usize, victim: CacheLine, at_fs: u64) {
        let line = victim.line();
        self.cores[core].forget_first(line);
        if victim.state() == State::Modified {
            self.write_back(line, core, at_fs);
        }
        self.observer.dropped(line, core);
        self.directory.leave(line, core);
    }

    fn drop_line(&mut self, line: u64, core: usize, at_fs: u64) {
        if self.cores[core].invalidate(line) {
            self.write_back(line, core, at_fs);
        }
        self.observer.dropped(line, core);
    }

    fn write_back(&mut self, line: u64, from: usize, at_fs: u64) {
        self.counts.written_back += 1;
        self.memory.write(line, at_fs);
        self.observer.copied(line, Some(from), None);
    }
}

/// The numbers of the bits that are set, least first.
pub fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(next)
    })
}
