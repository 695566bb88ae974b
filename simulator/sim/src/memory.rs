//! Main memory: when the data of a line come.

use crate::config::{Ddr3Config, MemoryConfig, MemoryLatency};
use crate::network::Server;

/// Femtoseconds in a nanosecond; simulated time is counted in femtoseconds, so that a third of a nanosecond is near enough.
pub const FS_PER_NS: u64 = 1_000_000;

/// Main memory and what keeps it busy.
#[derive(Clone, Debug)]
pub struct Memory {
    kind: Kind,
    /// Lines read.
    pub reads: u64,
    /// Lines written back.
    pub writes: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Fixed { latency_fs: u64 },
    Ddr3(Ddr3),
}

impl Memory {
    /// Idle memory; `cycle_fs` is a cycle of a core at rest.
    pub fn new(config: &MemoryConfig, cycle_fs: u64) -> Self {
        let kind = match config.latency {
            MemoryLatency::Cycles(cycles) => Kind::Fixed { latency_fs: cycles * cycle_fs },
            MemoryLatency::Nanoseconds(ns) => Kind::Fixed { latency_fs: ns * FS_PER_NS },
            MemoryLatency::Ddr3 => Kind::Ddr3(Ddr3::new(&config.ddr3)),
        };
        Self { kind, reads: 0, writes: 0 }
    }

    /// When the line asked for at `at_fs` comes. Nobody asks before `now_fs` any more.
    pub fn read(&mut self, line: u64, at_fs: u64, now_fs: u64) -> u64 {
        self.reads += 1;
        match &mut self.kind {
            Kind::Fixed { latency_fs } => at_fs + *latency_fs,
            Kind::Ddr3(dram) => dram.access(line, at_fs, now_fs),
        }
    }

    /// A line goes back; nobody waits for it, but DRAM is busy with it. Nobody asks before `now_fs` any more.
    pub fn write(&mut self, line: u64, at_fs: u64, now_fs: u64) {
        self.writes += 1;
        if let Kind::Ddr3(dram) = &mut self.kind {
            dram.write(line, at_fs, now_fs);
        }
    }
}

/// Channels, their banks, and when each is busy. Lines next to each other lie in different channels, then banks.
#[derive(Clone, Debug)]
struct Ddr3 {
    config: Ddr3Config,
    banks: Vec<Server>,
    buses: Vec<Server>,
    /// Lines to be written, and when each will be.
    to_write: Vec<(u64, u64)>,
}

impl Ddr3 {
    fn new(config: &Ddr3Config) -> Self {
        Self {
            banks: vec![Server::default(); config.channels * config.banks],
            buses: vec![Server::default(); config.channels],
            to_write: Vec::new(),
            config: config.clone(),
        }
    }

    /// A line that waits to be written is written once, as it is then: cores that pass a line on all the time keep its bank no
    /// busier than it can be.
    fn write(&mut self, line: u64, at_fs: u64, now_fs: u64) {
        self.to_write.retain(|(_, written_fs)| *written_fs > at_fs);
        if self.to_write.iter().all(|(other, _)| *other != line) {
            let written_fs = self.access(line, at_fs, now_fs);
            self.to_write.push((line, written_fs));
        }
    }

    fn access(&mut self, line: u64, at_fs: u64, now_fs: u64) -> u64 {
        let Ddr3Config { channels, banks, controller_ns, access_ns, burst_ns, row_cycle_ns } = self.config;
        let channel = line as usize & (channels - 1);
        let above = line as usize >> channels.trailing_zeros();
        let bank = channel * banks + (above & (banks - 1));
        let there_fs = at_fs + controller_ns * FS_PER_NS / 2;
        let open_fs = self.banks[bank].serve(there_fs, row_cycle_ns * FS_PER_NS, now_fs);
        let (data_fs, burst_fs) = (open_fs + access_ns * FS_PER_NS, burst_ns * FS_PER_NS);
        let end_fs = self.buses[channel].serve(data_fs, burst_fs, now_fs) + burst_fs;
        end_fs + controller_ns * FS_PER_NS / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_bank_is_busy_for_a_row_cycle_and_a_channel_for_a_burst() {
        let mut memory = Memory::new(&Config::default().memory, 0);
        let mut ns = |line| memory.read(line, 0, 0) / FS_PER_NS;
        assert_eq!(ns(0), 20 + 27 + 6 + 20, "an idle bank");
        assert_eq!(ns(1), 73, "the other channel");
        assert_eq!(ns(2), 73 + 6, "another bank of the first channel waits for its data lines");
        assert_eq!(ns(32), 73 + 49, "the same bank waits until its row is closed");
        assert_eq!((memory.reads, memory.writes), (4, 0));
    }

    #[test]
    fn a_line_on_its_way_back_keeps_its_bank_busy_and_a_later_one_finds_it_idle() {
        let mut memory = Memory::new(&Config::default().memory, 0);
        memory.write(0, 0, 0);
        assert_eq!(
            memory.read(16, 0, 0) / FS_PER_NS,
            20 + 49 + 27 + 6 + 20,
            "after the row of the write is closed"
        );
        assert_eq!(memory.read(32, 98 * FS_PER_NS, 0) / FS_PER_NS, 98 + 73, "two row cycles later");
        assert_eq!((memory.reads, memory.writes), (2, 1));
        // A line that is written over and over takes its bank once, until it was written.
        for at_ns in 200..250 {
            memory.write(64, at_ns * FS_PER_NS, 0);
        }
        assert_eq!(
            memory.read(64, 250 * FS_PER_NS, 0) / FS_PER_NS,
            250 + 73,
            "from 220 to 269 its bank wrote"
        );
    }
}
