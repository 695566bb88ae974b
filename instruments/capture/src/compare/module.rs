//! Stamps of our module in the kernel, the paper's comparison: its checkpoints enclose them, interrupts off, and raw cycles are
//! converted by a thread on another CPU.

use super::Bench;
use super::passing::{BlockRecorder, pass};
use super::plan::Pattern;
use super::stream::Sent;
use super::user::twice;
use crate::pipeline::{self, PipelineKind, RawStamp, Resolver, Stamper};
use crate::record::TapInterface;
use crate::record::stamp_device::{StampDevice, StampRecord, StampWay};
use anyhow::{Context, anyhow};
use quaver_abi::stamp::LayerStamp;
use quaver_capture_analysis::compare::{CompareTable, UserArmFacts};
use quaver_clock::live::LiveReader;
use quaver_clock::{CycleCounter, nominal_scale};

/// Arms, and how the module stamps in each.
const ARMS: [(&str, StampWay); 3] =
    [("off", StampWay::None), ("module-clock", StampWay::Clock), ("module-raw", StampWay::Raw)];
/// Records that are asked for at once.
const AT_ONCE: usize = 256;

/// Names of the arms that stamp.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ARMS[1..].iter().map(|(name, _)| *name)
}

/// What a pattern left.
pub(super) struct ByModule {
    pub(super) arms: Vec<UserArmFacts>,
    /// Blocks that were planned.
    pub(super) blocks: u32,
    /// What the source did.
    pub(super) sent: Sent,
}

/// Why the module cannot be read where packets arrive; none where it can.
pub(super) fn why_not(bench: &Bench<'_>) -> anyhow::Result<Option<String>> {
    let opened = bench.place.within(|| StampDevice::open(StampWay::Raw).map(drop))?;
    let absent = || "the module quaver_stamp is not loaded (kmod/README.md)".to_owned();
    Ok(opened.err().map(|found| found.why_not().unwrap_or_else(absent)))
}

/// Runs a pattern past the module.
pub(super) fn measure(
    bench: &Bench<'_>,
    number: u16,
    pattern: &Pattern,
    table: &mut CompareTable,
) -> anyhow::Result<ByModule> {
    let plan = bench.plan;
    let interface = bench.place.interface().context("the kernel does not report the receiving interface")?;
    let interface = bench.place.within(|| TapInterface::find(interface).map(|found| found.index))??;
    let settings = bench.pipeline(PipelineKind::Threaded { converters: 1 }, pattern.per_block);
    let (stamper, resolver) = pipeline::start(&settings, bench.clock.reader())?;
    let mut recording = Recording {
        bench,
        wanted: (interface, pattern.frame_bytes()),
        open: None,
        records: Vec::new(),
        raws: Vec::new(),
        converted: Vec::new(),
        stamper,
        resolver,
        resolve_cycles: 0,
        stamps: [0; ARMS.len()],
        lost: [0; ARMS.len()],
        number,
        table,
    };
    let stream_id = (plan.seed as u32).wrapping_add(0x6d00 + u32::from(number)) | 1;
    let blocks = twice(ARMS.len(), pattern.rounds, plan.seed ^ 2);
    let sent = pass(bench, pattern, stream_id, &blocks, &mut recording)?;
    if recording.stamps.iter().sum::<u64>() == 0 && !bench.stopped() {
        anyhow::bail!("the module stamped no packet of the stream");
    }
    Ok(ByModule { arms: recording.facts(), blocks: blocks.len() as u32, sent })
}

struct Recording<'a> {
    bench: &'a Bench<'a>,
    /// Interface and length of the stream's packets.
    wanted: (u32, u32),
    open: Option<StampDevice>,
    /// Of a block.
    records: Vec<StampRecord>,
    raws: Vec<RawStamp>,
    converted: Vec<LayerStamp>,
    stamper: Stamper<LiveReader>,
    resolver: Resolver<LiveReader>,
    resolve_cycles: u64,
    stamps: [u64; ARMS.len()],
    /// Packets for which the module had no room.
    lost: [u64; ARMS.len()],
    number: u16,
    table: &'a mut CompareTable,
}

impl BlockRecorder for Recording<'_> {
    fn begin(&mut self, arm: u16) -> anyhow::Result<()> {
        let way = ARMS[usize::from(arm)].1;
        let opened = self.bench.place.within(|| StampDevice::open(way))?;
        let lost = |found: quaver_host::stamp_module::StampModule| {
            anyhow!(
                "{}",
                found.why_not().unwrap_or_else(|| "the module quaver_stamp was unloaded".to_owned())
            )
        };
        self.open = Some(opened.map_err(lost)?);
        Ok(())
    }

    fn end(&mut self, block: u32, arm: u16) -> anyhow::Result<()> {
        let Some(mut device) = self.open.take() else { return Ok(()) };
        self.records.clear();
        let (wanted, records) = (self.wanted, &mut self.records);
        let mut keep = |record: &StampRecord| {
            if (record.interface, record.length) == wanted {
                records.push(*record);
            }
        };
        while device.read(AT_ONCE, &mut keep) > 0 {}
        self.lost[usize::from(arm)] += device.lost();
        drop(device);
        // The rings are read one CPU after the other.
        self.records.sort_by_key(|record| record.before_cycles);
        if ARMS[usize::from(arm)].1 == StampWay::Raw {
            self.convert();
        }
        self.stamps[usize::from(arm)] += self.records.len() as u64;
        self.keep(block, arm);
        Ok(())
    }
}

impl Recording<'_> {
    /// Hands the block's cycles to the converter and takes the times back.
    fn convert(&mut self) {
        let counter = self.bench.plan.counter;
        let before = counter.read();
        self.raws.clear();
        self.raws.extend(self.records.iter().map(|record| self.stamper.stamp_of(record.stamp)));
        self.resolver.resolve_all(&self.raws, &mut self.converted);
        self.resolve_cycles += counter.read().saturating_sub(before);
    }

    fn keep(&mut self, block: u32, arm: u16) {
        let way = ARMS[usize::from(arm)].1;
        for (position, record) in self.records.iter().enumerate() {
            let (stamp_ns, bound_ns) = match way {
                StampWay::None => (0, 0),
                StampWay::Clock => (record.stamp as i64, 0),
                StampWay::Raw => (self.converted[position].time_ns, self.converted[position].bound_ns),
            };
            let table = &mut *self.table;
            table.pattern.push(self.number);
            table.context.push(2);
            table.arm.push(arm);
            table.block.push(block);
            table.position.push(position as u32);
            table.seq.push(table.seq.len() as u64);
            table.cpu.push(record.cpu as u16);
            table.before_cycles.push(record.before_cycles);
            table.between_cycles.push(record.between_cycles.into());
            table.stamp_ns.push(stamp_ns);
            table.bound_ns.push(bound_ns);
            table.interrupts_off.push(true);
        }
    }

    /// Of each arm; only raw cycles are converted later.
    fn facts(&self) -> Vec<UserArmFacts> {
        let scale = nominal_scale(self.bench.plan.counter);
        let counts = self.stamps.into_iter().zip(self.lost);
        let arms = ARMS.iter().zip(counts).map(|((name, way), (stamps, lost))| {
            let raw = *way == StampWay::Raw;
            let per_stamp =
                |cycles: u64| if raw { scale.ns(cycles) as f64 / stamps.max(1) as f64 } else { 0.0 };
            let resolve_ns = per_stamp(self.resolve_cycles);
            let converter_ns = per_stamp(self.resolver.converter_cycles());
            UserArmFacts {
                name: (*name).to_owned(),
                stamps,
                resolve_ns,
                converter_ns,
                later_ns: vec![resolve_ns + converter_ns],
                ring_full: lost + if raw { self.stamper.ring_full() } else { 0 },
            }
        });
        arms.collect()
    }
}
