//! A mesh of routers: messages go along their row first, then along a column, and wait for links that are busy.

use super::{Message, Place, Server};
use crate::config::Config;
use serde::Serialize;

/// What went over the mesh so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkCounts {
    /// Messages that left their router.
    pub messages: u64,
    /// Links that they took.
    pub hops: u64,
    /// Time that they waited for busy links, femtoseconds.
    pub waited_fs: u64,
}

/// A router, by column and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Router {
    column: usize,
    row: usize,
}

/// The mesh. Each router has a core and a slice of the directory as long as there are cores; controllers of memory stand at
/// the corners.
#[derive(Clone, Debug)]
pub struct Mesh {
    /// Of each core, and of the slice of the directory beside it.
    routers: Box<[Router]>,
    /// Selects a line's slice where these are a power of two.
    home_mask: Option<u64>,
    columns: usize,
    rows: usize,
    channels: u64,
    hop_fs: u64,
    cycle_fs: u64,
    directory_fs: u64,
    cache_fs: u64,
    line_cycles: u64,
    /// Four of each router: to the left, right, up, down.
    links: Vec<Server>,
    /// Nobody asks before this any more.
    now_fs: u64,
    pub(super) counts: NetworkCounts,
}

impl Mesh {
    /// An idle mesh; `cycle_fs` is its cycle.
    pub fn new(config: &Config, cycle_fs: u64) -> Self {
        let cores = config.chip.cores;
        let columns = (1..=cores).find(|columns| columns * columns >= cores).unwrap_or(1);
        let rows = cores.div_ceil(columns);
        let network = &config.network;
        Self {
            routers: (0..cores).map(|at| Router { column: at % columns, row: at / columns }).collect(),
            home_mask: cores.is_power_of_two().then_some(cores as u64 - 1),
            columns,
            rows,
            channels: config.memory.ddr3.channels as u64,
            hop_fs: network.hop_cycles * cycle_fs,
            cycle_fs,
            directory_fs: network.directory_cycles * cycle_fs,
            cache_fs: config.l2.hit_cycles * cycle_fs,
            // A head, and the line behind it.
            line_cycles: 1 + config.l2.line_octets.div_ceil(network.link_octets),
            links: vec![Server::default(); columns * rows * 4],
            now_fs: 0,
            counts: NetworkCounts::default(),
        }
    }

    #[inline]
    fn router(&self, place: Place) -> Router {
        match (place, self.home_mask) {
            (Place::Core(core), _) => self.routers[core],
            (Place::Home(line), Some(mask)) => self.routers[(line & mask) as usize],
            (Place::Home(line), None) => self.routers[(line % self.routers.len() as u64) as usize],
            (Place::Controller(line), _) => {
                let corner = line % self.channels;
                let column = if corner & 1 == 0 { 0 } else { self.columns - 1 };
                Router { column, row: if corner & 2 == 0 { 0 } else { self.rows - 1 } }
            }
        }
    }

    /// A message leaves at `from_fs`; when all of it is there. Its head takes a time a link, and the rest follows cycle by cycle.
    pub(super) fn send(&mut self, message: Message, from: Place, to: Place, from_fs: u64) -> u64 {
        let (mut at, to) = (self.router(from), self.router(to));
        if at == to {
            return from_fs;
        }
        let cycles = if message == Message::Control { 1 } else { self.line_cycles };
        let busy_fs = cycles * self.cycle_fs;
        let mut head_fs = from_fs;
        self.counts.messages += 1;
        while at != to {
            let link = (at.row * self.columns + at.column) * 4;
            let direction = if at.column != to.column {
                let right = to.column > at.column;
                at.column = if right { at.column + 1 } else { at.column - 1 };
                usize::from(right)
            } else {
                let down = to.row > at.row;
                at.row = if down { at.row + 1 } else { at.row - 1 };
                2 + usize::from(down)
            };
            let start_fs = self.links[link + direction].serve(head_fs, busy_fs, self.now_fs);
            self.counts.hops += 1;
            self.counts.waited_fs += start_fs - head_fs;
            head_fs = start_fs + self.hop_fs;
        }
        head_fs + busy_fs - self.cycle_fs
    }

    pub(super) fn ask(&mut self, core: usize, line: u64, (at_fs, late_fs): (u64, u64)) -> u64 {
        self.now_fs = at_fs;
        self.send(Message::Control, Place::Core(core), Place::Home(line), at_fs + late_fs) + self.directory_fs
    }

    pub(super) fn forward(&mut self, line: u64, (owner, core): (usize, usize), from_fs: u64) -> u64 {
        let there_fs = self.send(Message::Control, Place::Home(line), Place::Core(owner), from_fs);
        self.send(Message::Line, Place::Core(owner), Place::Core(core), there_fs + self.cache_fs)
    }

    pub(super) fn invalidate(
        &mut self,
        line: u64,
        sharers: impl Iterator<Item = usize>,
        core: usize,
        from_fs: u64,
    ) -> u64 {
        let mut done_fs = None;
        for sharer in sharers {
            let there_fs = self.send(Message::Control, Place::Home(line), Place::Core(sharer), from_fs);
            let gone_fs = there_fs + self.cache_fs;
            let told_fs = self.send(Message::Control, Place::Core(sharer), Place::Core(core), gone_fs);
            done_fs = done_fs.max(Some(told_fs));
        }
        done_fs.unwrap_or_else(|| self.send(Message::Control, Place::Home(line), Place::Core(core), from_fs))
    }
}
