//! Stamps in the kernel, between two of its own tracepoints.

use super::Bench;
use super::passing::{BlockRecorder, pass};
use super::plan::{FRAME_OVERHEAD, Pattern};
use super::stream::Sent;
use super::user::twice;
use crate::compare::record::{KernelArm, KernelComparison, KernelOutcome, KernelPlan};
use quaver_capture_analysis::compare::CompareTable;
use std::collections::BTreeMap;

/// Bytes of an Ethernet header, which the kernel has taken off before the checkpoints.
const ETHERNET_BYTES: u32 = 14;

/// What a pattern left in the kernel.
pub(super) struct InKernel {
    /// Arms that took part.
    pub(super) arms: Vec<KernelArm>,
    /// Blocks that were planned.
    pub(super) blocks: u32,
    /// Why others did not, by name.
    pub(super) absent: BTreeMap<String, String>,
    /// What the source did.
    pub(super) sent: Sent,
}

struct Tracing {
    comparison: KernelComparison,
    arms: Vec<KernelArm>,
}

impl BlockRecorder for Tracing {
    fn begin(&mut self, arm: u16) -> anyhow::Result<()> {
        Ok(self.comparison.begin(self.arms[usize::from(arm)])?)
    }

    fn end(&mut self, block: u32, arm: u16) -> anyhow::Result<()> {
        self.comparison.end(block, self.arms[usize::from(arm)])?;
        Ok(())
    }
}

/// Runs a pattern past the kernel's checkpoints.
pub(super) fn measure(
    bench: &Bench<'_>,
    number: u16,
    pattern: &Pattern,
    table: &mut CompareTable,
) -> anyhow::Result<InKernel> {
    let plan = bench.plan;
    let packet_bytes = pattern.profile.payload_bytes() as u32 + FRAME_OVERHEAD - ETHERNET_BYTES;
    let Some(interface) = bench.place.interface() else {
        anyhow::bail!("the kernel does not report the receiving interface");
    };
    let wanted = KernelPlan { interface: interface.to_owned(), packet_bytes };
    let comparison = KernelComparison::start(&wanted)?;
    let (mut arms, mut absent) = (Vec::new(), BTreeMap::new());
    for arm in KernelArm::ALL {
        match comparison.has(arm) {
            Ok(()) => arms.push(arm),
            Err(why) => drop(absent.insert(arm.name().to_owned(), why)),
        }
    }
    let stream_id = (plan.seed as u32).wrapping_add(0x4b00 + u32::from(number)) | 1;
    let blocks = twice(arms.len(), pattern.rounds, plan.seed ^ 1);
    let mut tracing = Tracing { comparison, arms };
    let sent = pass(bench, pattern, stream_id, &blocks, &mut tracing)?;
    let Tracing { comparison, arms } = tracing;
    let outcome = comparison.finish();
    if outcome.samples.is_empty() && !bench.stopped() {
        anyhow::bail!(
            "{interface}: no pair of tracepoints encloses the kernel's stamp alone (NAPI driver, not netif_rx)"
        );
    }
    keep(number, &arms, &outcome, table);
    Ok(InKernel { arms, blocks: blocks.len() as u32, absent, sent })
}

fn keep(number: u16, arms: &[KernelArm], outcome: &KernelOutcome, table: &mut CompareTable) {
    for (seq, sample) in outcome.samples.iter().enumerate() {
        let arm = arms.iter().position(|arm| *arm == sample.arm).unwrap_or_default();
        table.pattern.push(number);
        table.context.push(1);
        table.arm.push(arm as u16);
        table.block.push(sample.block);
        table.position.push(sample.position);
        table.seq.push(seq as u64);
        table.cpu.push(sample.cpu);
        table.before_cycles.push(sample.before_cycles);
        table.between_cycles.push(sample.between_cycles);
        table.stamp_ns.push(0);
        table.bound_ns.push(0);
        table.interrupts_off.push(sample.interrupts_off);
    }
}
