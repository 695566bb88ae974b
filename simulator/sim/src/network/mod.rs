//! The network between the second-level caches, the slices of the directory and the memory controllers: how long the messages
//! of a transaction take.
//!
//! ```text
//! load that another core holds        core ──ask──> home slice ──forward──> owner ──line──> core
//! load from memory                    core ──ask──> home slice ──read────> controller ──line──> core
//! store to a line that others share   core ──ask──> home slice ──give up──> each sharer ──done──> core
//! ```
//! The order of transactions is not the network's concern: each is whole at the instant of its question ([`crate::machine`]).
//! Messages that nobody waits for (write-backs) keep links busy all the same.

mod mesh;
mod server;

pub use mesh::{Mesh, NetworkCounts};
pub use server::Server;

use crate::config::{Config, NetworkKind};

/// A place that sends and takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A core with its caches.
    Core(usize),
    /// The slice of the directory that a line is at home in.
    Home(u64),
    /// The controller of the memory channel that a line lies in.
    Controller(u64),
}

/// What a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A question, or an answer without data.
    Control,
    /// A line.
    Line,
}

/// How messages travel.
#[derive(Clone, Debug)]
pub enum Network {
    /// A line from another cache takes so long, whatever else is under way; the way to memory is in memory's latency.
    Fixed {
        /// From the question to the line, femtoseconds.
        remote_fs: u64,
    },
    /// Routers in rows and columns.
    Mesh(Box<Mesh>),
}

impl Network {
    /// An idle network; `cycle_fs` is a cycle of a core at rest, which is the network's.
    pub fn new(config: &Config, cycle_fs: u64) -> Self {
        match config.network.kind {
            NetworkKind::Fixed => Self::Fixed { remote_fs: config.chip.remote_cycles * cycle_fs },
            NetworkKind::Mesh => Self::Mesh(Box::new(Mesh::new(config, cycle_fs))),
        }
    }

    /// When the directory has looked up the line that `core` asks for at `at_fs`, in a question that leaves so much later.
    /// Nobody asks earlier any more.
    pub fn ask(&mut self, core: usize, line: u64, (at_fs, late_fs): (u64, u64)) -> u64 {
        match self {
            Self::Fixed { .. } => at_fs + late_fs,
            Self::Mesh(mesh) => mesh.ask(core, line, (at_fs, late_fs)),
        }
    }

    /// When a line that the directory looked up at `from_fs` comes from another core's cache.
    pub fn forward(&mut self, line: u64, (owner, core): (usize, usize), from_fs: u64) -> u64 {
        match self {
            Self::Fixed { remote_fs } => from_fs + *remote_fs,
            Self::Mesh(mesh) => mesh.forward(line, (owner, core), from_fs),
        }
    }

    /// When `core` may write a line that the directory looked up at `from_fs`: all sharers have given it up.
    pub fn invalidate(
        &mut self,
        line: u64,
        sharers: impl Iterator<Item = usize>,
        core: usize,
        from_fs: u64,
    ) -> u64 {
        match self {
            Self::Fixed { remote_fs } => from_fs + *remote_fs,
            Self::Mesh(mesh) => mesh.invalidate(line, sharers, core, from_fs),
        }
    }

    /// When a message that leaves at `from_fs` is there. Only ways from and to memory need this.
    pub fn send(&mut self, message: Message, from: Place, to: Place, from_fs: u64) -> u64 {
        match self {
            Self::Fixed { .. } => from_fs,
            Self::Mesh(mesh) => mesh.send(message, from, to, from_fs),
        }
    }

    /// What went over the mesh; none where there is none.
    pub fn counts(&self) -> Option<NetworkCounts> {
        match self {
            Self::Fixed { .. } => None,
            Self::Mesh(mesh) => Some(mesh.counts),
        }
    }
}
