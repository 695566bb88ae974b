//! Raw cycles of each packet, read in the kernel at `netif_receive_skb`, and their way through a pipeline.
//!
//! ```text
//! kernel, for each packet                 writing thread                           converter threads
//! counter ──> program's record ────────>  take ──> Stamper ──> Resolver ──> table   (--pipeline threaded)
//!         └─> trace ring (x86-tsc) ──────>  pair by CPU, address and time
//! ```
//!
//! Nothing is converted in the kernel. The packet of the ring has the same kernel stamp as its record: that is the key.

#[cfg(feature = "bpf")]
mod pairing;
#[cfg(feature = "bpf")]
mod source;
#[cfg(not(feature = "bpf"))]
#[path = "without.rs"]
mod source;
#[cfg(feature = "bpf")]
mod trace_ring;

use super::frame::{Frame, LinkKind, PacketKind};
use super::join::{JoinTable, Joined};
use super::socket::TapInterface;
use crate::pipeline::{self, PipelineSettings, RawStamp, Resolved, Resolver, Stamper};
use anyhow::Context;
use quaver_abi::stamp::LayerStamp;
use quaver_clock::live::LiveReader;
use quaver_host::route::{RouteSocket, VlanLink};
use source::Source;
use std::collections::BTreeSet;

/// Records that are handed to the pipeline before the first of them is asked for.
const BATCH: usize = 256;

/// A packet's cycles, and what they were converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawCycles {
    /// The processor's counter at `netif_receive_skb`.
    pub(super) cycles: u64,
    /// The same as time.
    pub(super) stamp: LayerStamp,
}

/// A packet's cycles as the kernel wrote them.
#[derive(Clone, Copy, Debug)]
struct Taken {
    kernel_ns: u64,
    interface: u32,
    length: u32,
    cycles: u64,
}

impl Taken {
    /// Lets them wait for the packet, and for the same packet on captured interfaces of VLANs above.
    fn await_packets(self, stamp: LayerStamp, vlans: &[VlanLink], table: &mut JoinTable<Keyed>) {
        let Self { kernel_ns, interface, length, cycles } = self;
        let above = vlans.iter().filter(|vlan| vlan.below == interface).map(|vlan| vlan.index);
        for interface in above.chain([interface]) {
            table.put(Keyed { kernel_ns, interface, length, found: Some(RawCycles { cycles, stamp }) });
        }
    }
}

/// A packet's cycles that wait for the packet.
#[derive(Clone, Copy, Debug, Default)]
struct Keyed {
    kernel_ns: u64,
    interface: u32,
    length: u32,
    found: Option<RawCycles>,
}

impl Joined for Keyed {
    fn kernel_ns(&self) -> u64 {
        self.kernel_ns
    }

    fn is_of(&self, interface: u32, length: Option<u32>) -> bool {
        // The tracepoint still has tags of VLANs, of 4 bytes each, that the packet brought along.
        let tags = |length| self.length.checked_sub(length).is_some_and(|more| [0, 4, 8].contains(&more));
        self.interface == interface && length.is_none_or(tags)
    }

    fn order(&self) -> u64 {
        self.found.map_or(0, |found| found.cycles)
    }
}

/// What became of records of raw cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCounts {
    /// Packets that were received and have no cycles: a record was lost, or the tracepoint was not passed.
    pub missing: u64,
    /// Records for which the kernel had no room.
    pub lost: u64,
    /// Who converted.
    pub converted: Resolved,
}

/// Takes raw cycles for as long as it lives.
pub struct RawStamps {
    source: Source,
    stamper: Stamper<LiveReader>,
    resolver: Resolver<LiveReader>,
    table: JoinTable<Keyed>,
    /// Captured interfaces of VLANs: their packets pass the tracepoint on the interface below alone.
    vlans: Vec<VlanLink>,
    taken: Vec<Taken>,
    stamped: Vec<RawStamp>,
    missing: u64,
    /// Whether a packet asked since room was last made.
    asked: bool,
}

impl std::fmt::Debug for RawStamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawStamps").field("source", &self.source).finish_non_exhaustive()
    }
}

impl RawStamps {
    /// Begins on these interfaces of the calling thread's namespace, with room for the records of all packets in rings of so
    /// many bytes, in the best way that the kernel has.
    ///
    /// # Errors
    /// The kernel has no way, or this process may not use it.
    pub fn start(
        interfaces: &[TapInterface],
        rings_bytes: u64,
        reader: &LiveReader,
        settings: &PipelineSettings,
    ) -> anyhow::Result<Self> {
        let all = interfaces.iter().any(|interface| interface.index == 0);
        let is_wanted = |index| all || interfaces.iter().any(|interface| interface.index == index);
        let mut vlans = RouteSocket::open()
            .and_then(|mut route| route.vlans())
            .context("--stamp raw: listing interfaces of VLANs")?;
        vlans.retain(|vlan| is_wanted(vlan.index));
        let below = vlans.iter().map(|vlan| (vlan.below, vlan.below_name.as_str()));
        let given = interfaces.iter().map(|interface| (interface.index, interface.name.as_str()));
        let recorded: BTreeSet<(u32, &str)> = given.chain(below).filter(|_| !all).collect();
        let recorded: Vec<(u32, &str)> = recorded.into_iter().collect();
        let source = Source::start(&recorded, rings_bytes, reader)?;
        let (stamper, resolver) = pipeline::start(settings, reader.clone())?;
        let (taken, stamped) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Ok(Self {
            source,
            stamper,
            resolver,
            table: JoinTable::new(),
            vlans,
            taken,
            stamped,
            missing: 0,
            asked: false,
        })
    }

    /// How the cycles are read, and why not by the module where that is loaded.
    pub fn way(&self) -> String {
        self.source.way()
    }

    /// What became of the records so far.
    pub fn counts(&self) -> RawCounts {
        RawCounts { missing: self.missing, lost: self.source.lost(), converted: self.resolver.counts() }
    }

    /// Takes what the kernel wrote, so that it has room: when there is no block of packets, or none of the last asked.
    pub(super) fn make_room(&mut self, idle: bool) {
        if idle || !self.asked {
            while self.take() {}
        }
        self.asked = false;
    }

    /// The cycles of a packet, if it passed the tracepoint.
    pub(super) fn of(&mut self, frame: &Frame<'_>, link: LinkKind) -> Option<RawCycles> {
        if frame.kind == PacketKind::Outgoing {
            return None;
        }
        self.asked = true;
        let length = (link != LinkKind::Cooked).then_some(frame.kernel_length);
        loop {
            if let Some(keyed) = self.table.take(frame.time_ns as u64, frame.interface, length) {
                return keyed.found;
            }
            // The record was written before the packet came to the ring.
            if !self.take() {
                self.missing += 1;
                return None;
            }
        }
    }

    /// Sends some records through the pipeline, in the order in which they came; whether there were any.
    fn take(&mut self) -> bool {
        let Self { source, stamper, resolver, table, vlans, taken, stamped, .. } = self;
        taken.clear();
        source.take(BATCH, taken);
        // All of them are handed over before the first is waited for: converter threads work meanwhile.
        stamped.clear();
        stamped.extend(taken.iter().map(|taken| stamper.stamp_of(taken.cycles)));
        for (taken, raw) in taken.iter().zip(stamped) {
            taken.await_packets(resolver.resolve(*raw), vlans, table);
        }
        !taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::stamp::StampClock;

    #[test]
    fn a_call_on_the_interface_below_is_that_of_the_vlans_packet_too_whose_tags_are_gone() {
        let vlan = |index| VlanLink { index, below: 2, below_name: "eth0".to_owned() };
        let vlans = [vlan(4), vlan(5), VlanLink { below: 3, ..vlan(6) }];
        let mut table = JoinTable::new();
        let stamp = LayerStamp { clock: StampClock::Cycles, time_ns: 70, bound_ns: 1, epoch: 1 };
        let taken = |kernel_ns, length| Taken { kernel_ns, interface: 2, length, cycles: 7 };
        taken(9, 64).await_packets(stamp, &vlans, &mut table);
        // With its tag beside the data, with one and with two in them.
        for length in [64, 60, 56] {
            taken(u64::from(length), 64).await_packets(stamp, &vlans, &mut table);
            assert!(table.take(length.into(), 5, Some(length)).is_some(), "{length}");
        }
        for length in [65, 62, 52] {
            assert!(table.take(9, 4, Some(length)).is_none(), "{length}");
        }
        assert!(table.take(9, 6, Some(60)).is_none(), "it is above another interface");
        for interface in [2, 4, 5] {
            let found = table.take(9, interface, Some(60)).unwrap().found.unwrap();
            assert_eq!((found.cycles, found.stamp), (7, stamp));
            assert!(table.take(9, interface, Some(60)).is_none());
        }
    }
}
