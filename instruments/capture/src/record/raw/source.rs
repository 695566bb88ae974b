//! Where the kernel writes raw cycles: our module's records; else the BPF program's, and the trace ring where the program cannot
//! read the counter.

use super::Taken;
use super::pairing::Pairing;
use super::trace_ring::TraceRing;
use crate::bpf::raw::{RawProgram, RawRecord, attach};
use crate::bpf::{Records, counter_is_shown};
use crate::record::stamp_device::{StampDevice, StampRecord, StampWay};
use anyhow::anyhow;
use quaver_clock::live::LiveReader;
use quaver_host::trace::TraceError;
use std::collections::BTreeSet;
use std::os::linux::fs::MetadataExt;

/// The kernel's side.
#[derive(Debug)]
pub(super) enum Source {
    /// Our module, where it is loaded; the interfaces whose packets are wanted, none for all.
    Module(StampDevice, BTreeSet<u32>),
    /// BPF, and why it is not the module where that is loaded.
    Program(Box<ProgramSource>, Option<String>),
}

impl Source {
    /// In the first of the ways that works; of the interfaces of these indices and names, none for all.
    pub(super) fn start(
        interfaces: &[(u32, &str)],
        rings_bytes: u64,
        reader: &LiveReader,
    ) -> anyhow::Result<Self> {
        let indices = interfaces.iter().map(|(index, _)| *index).collect();
        let why_not = match StampDevice::open(StampWay::Raw) {
            Ok(device) => return Ok(Self::Module(device, indices)),
            Err(found) => found.why_not(),
        };
        match ProgramSource::start(interfaces, rings_bytes, reader) {
            Ok(program) => Ok(Self::Program(Box::new(program), why_not)),
            Err(error) => Err(anyhow!(with_reason(error, why_not.as_deref()))),
        }
    }

    pub(super) fn way(&self) -> String {
        match self {
            Self::Module(..) => {
                "the processor's counter, read by the module quaver_stamp at netif_receive_skb, interrupts off"
                    .to_owned()
            }
            Self::Program(source, why_not) => with_reason(source.way(), why_not.as_deref()),
        }
    }

    /// Puts at most so many packets' cycles behind `into`, as far as there are any. Fewer than there were records where the trace
    /// ring lost some.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<Taken>) {
        match self {
            Self::Module(device, wanted) => {
                while into.is_empty()
                    && device.read(most, |record| into.extend(wanted_of(record, wanted))) > 0
                {
                }
            }
            Self::Program(source, _) => source.take(most, into),
        }
    }

    pub(super) fn lost(&self) -> u64 {
        match self {
            Self::Module(device, _) => device.lost(),
            Self::Program(source, _) => source.lost(),
        }
    }
}

/// What is said, and why it is not the module.
fn with_reason(said: impl std::fmt::Display, why_not: Option<&str>) -> String {
    match why_not {
        Some(why) => format!("{said}; not by the module: {why}"),
        None => said.to_string(),
    }
}

fn wanted_of(record: &StampRecord, wanted: &BTreeSet<u32>) -> Option<Taken> {
    let StampRecord { stamp, kernel_ns, length, interface, .. } = *record;
    let taken = Taken { kernel_ns, interface, length, cycles: stamp };
    (wanted.is_empty() || wanted.contains(&interface)).then_some(taken)
}

/// The program's records, and the trace ring where it is needed.
pub(super) struct ProgramSource {
    // Dropped in this order, so that no program writes what nobody reads.
    _program: RawProgram,
    records: Records<RawRecord>,
    trace: Option<(TraceRing, Pairing, LiveReader)>,
    /// Records that were taken and wait for the trace ring to be read.
    waiting: Vec<RawRecord>,
}

impl std::fmt::Debug for ProgramSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramSource").field("way", &self.way()).finish_non_exhaustive()
    }
}

impl ProgramSource {
    /// By the program alone where the kernel lets it read the counter, else by the trace ring; of the interfaces of these indices
    /// and names, none for all.
    fn start(interfaces: &[(u32, &str)], rings_bytes: u64, reader: &LiveReader) -> Result<Self, TraceError> {
        let (indices, names): (Vec<u32>, Vec<&str>) = interfaces.iter().copied().unzip();
        let name_space = name_space()?;
        if counter_is_shown()
            && let Ok((program, records)) = attach(&indices, name_space, rings_bytes, true)
        {
            return Ok(Self { _program: program, records, trace: None, waiting: Vec::new() });
        }
        // First: probes of one tracepoint run in the order in which they came.
        let ring = TraceRing::start(&names)?;
        let (program, records) = attach(&indices, name_space, rings_bytes, false)?;
        let trace = Some((ring, Pairing::default(), reader.clone()));
        Ok(Self { _program: program, records, trace, waiting: Vec::new() })
    }

    fn way(&self) -> &'static str {
        match self.trace {
            None => "the processor's counter, read by BPF at netif_receive_skb (bpf_get_cpu_time_counter)",
            Some(_) => {
                "the processor's counter, read by the kernel's trace ring at netif_receive_skb (clock x86-tsc) and joined by \
                 BPF to the packet's CPU, address and time"
            }
        }
    }

    fn take(&mut self, most: usize, into: &mut Vec<Taken>) {
        loop {
            let Self { records, trace, waiting, .. } = self;
            waiting.clear();
            if records.drain(most, |record| waiting.push(*record)) == 0 {
                return;
            }
            if let Some((ring, pairing, reader)) = trace {
                // After the records: what they belong to is in the ring by now.
                ring.drain(pairing, |cycles| reader.convert(cycles).monotonic_ns);
            }
            for record in waiting {
                let cycles = match trace {
                    None => Some(record.cycles),
                    Some((_, pairing, _)) => pairing.take(
                        record.cpu as usize,
                        record.packet,
                        record.traced_length,
                        record.monotonic_ns as i64,
                    ),
                };
                into.extend(cycles.map(|cycles| Taken {
                    kernel_ns: record.kernel_ns,
                    interface: record.interface,
                    length: record.length,
                    cycles,
                }));
            }
            if !into.is_empty() {
                return;
            }
        }
    }

    fn lost(&self) -> u64 {
        self.records.lost() + self.trace.as_ref().map_or(0, |(ring, ..)| ring.lost())
    }
}

/// Inode of the calling thread's network namespace, by which the kernel's programs know it.
fn name_space() -> Result<u32, TraceError> {
    let failed = |source| TraceError::Os { operation: "reading /proc/thread-self/ns/net".to_owned(), source };
    let facts = std::fs::metadata("/proc/thread-self/ns/net").map_err(failed)?;
    u32::try_from(facts.st_ino()).map_err(|error| failed(std::io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_other_interfaces_are_left_out() {
        for (wanted, expected) in [(BTreeSet::from([2, 4]), vec![2, 4]), (BTreeSet::new(), vec![2, 3, 4])] {
            let of = |interface| {
                let record =
                    StampRecord { stamp: 7, kernel_ns: 9, length: 60, interface, ..Default::default() };
                wanted_of(&record, &wanted)
            };
            let taken: Vec<Taken> = [2, 3, 4].into_iter().filter_map(of).collect();
            assert_eq!(taken.iter().map(|one| one.interface).collect::<Vec<_>>(), expected);
            assert!(taken.iter().all(|one| (one.cycles, one.kernel_ns, one.length) == (7, 9, 60)));
        }
    }

    #[test]
    fn the_reason_follows_the_way() {
        assert_eq!(with_reason("by BPF", None), "by BPF");
        assert_eq!(with_reason("by BPF", Some("it is busy")), "by BPF; not by the module: it is busy");
    }
}
