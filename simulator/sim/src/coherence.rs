//! Caches of all cores and the directory between them: MESI.
//!
//! A core's own hits need nobody else. All else is a transaction at the directory, whole at one instant of simulated time;
//! the caller asks for transactions in the order of time.

use crate::cache::LineState;
use crate::config::Config;
use crate::directory::{Directory, Holders};
use crate::memory::Memory;
use crate::network::{Message, Network, Place};
pub use crate::private::{Local, PrivateCaches, Purpose, SecondLevel, SecondLevelCounts};

/// Where a transaction at the directory found the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the own second-level cache after all, with the right that was asked for.
    Here,
    /// In the own cache; others gave up theirs, so that it may be written.
    Upgrade,
    /// In another core's cache.
    Remote,
    /// In memory.
    Memory,
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

/// What a transaction does to the caches of other cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing.
    None,
    /// These cores, a bit each, lose this second-level line.
    Loses {
        /// The line.
        line: u64,
        /// The cores.
        cores: u32,
    },
    /// This core may not write this second-level line any more.
    Shares {
        /// The line.
        line: u64,
        /// The core.
        core: usize,
    },
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
    /// What lies between.
    pub network: Network,
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
            network: Network::new(config, cycle_fs),
            counts: CoherenceCounts::default(),
            observer,
        }
    }

    /// With this second level in each core; the caches must be empty still.
    pub fn with_second_level(mut self, level: &SecondLevel, config: &Config) -> Self {
        self.cores.iter_mut().for_each(|caches| caches.set_second_level(level, config));
        self
    }

    /// The directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The second-level line that a first-level line lies in.
    pub fn second_line(&self, first_line: u64) -> u64 {
        self.cores[0].second_line(first_line)
    }

    /// What [`transact`](Self::transact) will do to the caches of others.
    pub fn disturbance(&mut self, core: usize, line: u64, purpose: Purpose) -> Disturbance {
        let Some(holders) = self.directory.look_up(line) else {
            return self.directory.victim(line).map_or(Disturbance::None, |(line, holders)| {
                Disturbance::Loses { line, cores: holders.cores() }
            });
        };
        let others = holders.cores() & !(1 << core);
        match (others, purpose, holders.owning()) {
            (0, ..) => Disturbance::None,
            (cores, Purpose::Store, _) => Disturbance::Loses { line, cores },
            (_, _, Some(owner)) => Disturbance::Shares { line, core: owner },
            (_, _, None) => Disturbance::None,
        }
    }

    /// A core asks the directory for a line, at `at_fs`. Afterwards it has the line with the right that it needs; where it was
    /// found, and when it comes.
    pub fn transact(&mut self, core: usize, first_line: u64, purpose: Purpose, at_fs: u64) -> (Found, u64) {
        self.transact_late(core, first_line, purpose, (at_fs, 0))
    }

    /// The same at `at_fs` for the caches, while the question leaves the core so much later.
    pub(crate) fn transact_late(
        &mut self,
        core: usize,
        first_line: u64,
        purpose: Purpose,
        (at_fs, late_fs): (u64, u64),
    ) -> (Found, u64) {
        let line = self.cores[core].second_line(first_line);
        let here = self.cores[core].state(line);
        let write = purpose == Purpose::Store;
        let found = match here {
            Some(LineState::Shared) if write => {
                let from_fs = self.network.ask(core, line, (at_fs, late_fs));
                (Found::Upgrade, self.invalidate_others(line, (core, None), from_fs))
            }
            Some(_) => (Found::Here, at_fs + late_fs),
            None => self.bring(core, line, write, (at_fs, late_fs)),
        };
        let state = self.settle(core, line, write, here.is_none(), at_fs);
        self.cores[core].fill_first(first_line, purpose, state);
        found
    }

    /// Makes others give up or share the line, without placing it in the asking core's cache yet.
    fn bring(&mut self, core: usize, line: u64, write: bool, (at_fs, late_fs): (u64, u64)) -> (Found, u64) {
        let from_fs = self.network.ask(core, line, (at_fs, late_fs));
        let Some(holders) = self.directory.touch(line).copied() else {
            self.enter(core, line, at_fs);
            self.observer.copied(line, None, Some(core));
            return (Found::Memory, self.read(core, line, from_fs, at_fs));
        };
        let from = holders.owning().unwrap_or(holders.cores().trailing_zeros() as usize);
        self.observer.copied(line, Some(from), Some(core));
        let mut done_fs = self.network.forward(line, (from, core), from_fs);
        if write {
            done_fs = done_fs.max(self.invalidate_others(line, (core, Some(from)), from_fs));
        } else if holders.owning().is_some() {
            self.counts.downgrades += 1;
            if self.cores[from].downgrade(line) {
                self.write_back(line, from, at_fs);
            }
        }
        if let (false, Some(holders)) = (write, self.directory.touch(line)) {
            holders.share(core);
        }
        (Found::Remote, done_fs)
    }

    /// When a line comes from memory that the directory looked up at `from_fs`, asked for at `at_fs`.
    fn read(&mut self, core: usize, line: u64, from_fs: u64, at_fs: u64) -> u64 {
        let (home, controller) = (Place::Home(line), Place::Controller(line));
        let there_fs = self.network.send(Message::Control, home, controller, from_fs);
        let read_fs = self.memory.read(line, there_fs, at_fs);
        self.network.send(Message::Line, controller, Place::Core(core), read_fs)
    }

    /// A line that nobody held gets an entry, which may cost another line its place in the caches.
    fn enter(&mut self, core: usize, line: u64, at_fs: u64) {
        let Some((gone, holders)) = self.directory.insert(line, Holders::owner(core)) else { return };
        self.counts.recalls += 1;
        for holder in bits(holders.cores()) {
            self.drop_line(gone, holder, at_fs);
        }
    }

    /// Only `core` has the line from now on; when it may write it, if the directory looked it up at `from_fs`. The one that
    /// sends the line need not be told.
    fn invalidate_others(&mut self, line: u64, (core, sends): (usize, Option<usize>), from_fs: u64) -> u64 {
        let Some(holders) = self.directory.touch(line) else {
            debug_assert!(false, "a shared line is in the directory");
            return from_fs;
        };
        let others = holders.cores() & !(1 << core);
        holders.own(core);
        for other in bits(others) {
            self.counts.invalidations += 1;
            // What a Modified line held has gone to the new owner, who will write it back some day.
            self.cores[other].invalidate(line);
            self.observer.dropped(line, other);
        }
        let told = others & !sends.map_or(0, |sends| 1 << sends);
        if told == 0 && sends.is_some() {
            return from_fs;
        }
        self.network.invalidate(line, bits(told), core, from_fs)
    }

    /// Puts the line into the asking core's second level, or gives it the right to write there. Its state is given back.
    fn settle(&mut self, core: usize, line: u64, write: bool, absent: bool, at_fs: u64) -> LineState {
        let owned = self.directory.peek(line).is_some_and(|holders| holders.owning() == Some(core));
        let state = match (write, owned) {
            (true, _) => LineState::Modified,
            (false, true) => LineState::Exclusive,
            (false, false) => LineState::Shared,
        };
        if !absent {
            return self.cores[core].raise_second(line, state);
        }
        let gone = self.cores[core].fill_second(line, state);
        if let Some(copied) = self.cores[core].take_copied() {
            self.write_back(copied, core, at_fs);
        }
        if let Some((gone, state)) = gone {
            self.evicted(core, gone, state, at_fs);
        }
        state
    }

    /// A line that a core does not have comes into its second level alone, to be read; when. A prefetcher asks for it.
    pub fn bring_back(&mut self, core: usize, line: u64, at_fs: u64) -> u64 {
        let (_, done_fs) = self.bring(core, line, false, (at_fs, 0));
        self.settle(core, line, false, true, at_fs);
        done_fs
    }

    /// Another application runs on a core: its OS cache is emptied.
    pub fn flush(&mut self, core: usize, at_fs: u64) {
        for (gone, state) in self.cores[core].flush() {
            self.evicted(core, gone, state, at_fs);
        }
    }

    fn evicted(&mut self, core: usize, line: u64, state: LineState, at_fs: u64) {
        if state == LineState::Modified {
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
        let there_fs = self.network.send(Message::Line, Place::Core(from), Place::Controller(line), at_fs);
        self.memory.write(line, there_fs, at_fs);
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
