//! Stamps in the kernel, between two of its own tracepoints.

use super::Bench;
use super::plan::{FRAME_OVERHEAD, Pattern, SETTLE};
use super::traffic::Wanted;
use super::user::twice;
use crate::compare::record::{KernelArm, KernelComparison, KernelOutcome, KernelPlan, ReceiverPlan, start};
use quaver_capture_analysis::compare::CompareTable;
use quaver_probe::thread::ThreadSettings;
use std::time::{Duration, Instant};

/// Bytes of an Ethernet header, which the kernel has taken off before the checkpoints.
const ETHERNET_BYTES: u32 = 14;
/// Longest wait for the packets of a block beyond their schedule.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a pattern past the kernel's checkpoints; blocks that were planned.
pub(super) fn measure(
    bench: &Bench<'_>,
    number: u16,
    pattern: &Pattern,
    table: &mut CompareTable,
) -> anyhow::Result<u32> {
    let plan = bench.plan;
    let packet_bytes = pattern.profile.payload_bytes() as u32 + FRAME_OVERHEAD - ETHERNET_BYTES;
    let Some(interface) = bench.place.interface() else {
        anyhow::bail!("the kernel does not report the receiving interface");
    };
    let wanted = KernelPlan { interface: interface.to_owned(), packet_bytes };
    let mut comparison = KernelComparison::start(&wanted)?;
    let stream_id = (plan.seed as u32).wrapping_add(0x4b00 + u32::from(number)) | 1;
    let blocks = twice(KernelArm::ALL.len(), pattern.rounds, plan.seed ^ 1);
    // One may be past the first checkpoint when recording begins, and is counted as sent after that.
    let per_block = pattern.kernel_block + u64::from(SETTLE) + 1;
    let most = pattern.lasting(per_block) + GRACE;
    let wanted = Wanted {
        shape: pattern.shape,
        pace: pattern.pace,
        // Ended when the blocks are done.
        packets: 100_000_000 / pattern.period_ns().max(1_000.0) as u64 * 1_000 + 1_000_000,
        stream_id,
        catch_up: false,
        most: most.saturating_mul(blocks.len() as u32) + GRACE,
    };
    let (socket, source) = bench.meet(wanted)?;
    let receiving = start(socket, drain(bench, pattern, stream_id), bench.clock.reader())?;
    let stream = bench.start(source)?;
    // What another host has sent is told at the end only. What came may have waited for the receiver since before the
    // block, so that the block's time has to pass as well.
    let so_far = || stream.sent().unwrap_or_else(|| receiving.received());
    for (block, arm) in blocks.iter().enumerate() {
        let arm = KernelArm::ALL[usize::from(*arm)];
        comparison.begin(arm)?;
        let (before, began) = (so_far(), Instant::now());
        let least = if stream.sent().is_some() { Duration::ZERO } else { pattern.lasting(per_block) };
        bench.wait(most, || began.elapsed() >= least && so_far() >= before + per_block);
        comparison.end(block as u32, arm)?;
        if bench.stopped() {
            break;
        }
    }
    bench.end(stream);
    receiving.join()?;
    let outcome = comparison.finish();
    if outcome.samples.is_empty() && !bench.stopped() {
        anyhow::bail!(
            "{interface}: no pair of tracepoints encloses the kernel's stamp alone (NAPI driver, not netif_rx)"
        );
    }
    keep(number, &outcome, table);
    Ok(blocks.len() as u32)
}

/// A receiver that only takes packets off the socket.
fn drain(bench: &Bench<'_>, pattern: &Pattern, stream_id: u32) -> ReceiverPlan {
    ReceiverPlan {
        arms: vec![None],
        blocks: vec![0; 1_000],
        packets_per_block: 1_000,
        stream_id,
        header_offset: pattern.profile.header_offset(),
        poll: false,
        thread: ThreadSettings::measuring(Some(bench.plan.cpus.capture), None),
        counter: bench.plan.counter,
    }
}

fn keep(number: u16, outcome: &KernelOutcome, table: &mut CompareTable) {
    for (seq, sample) in outcome.samples.iter().enumerate() {
        let arm = KernelArm::ALL.iter().position(|arm| *arm == sample.arm).unwrap_or_default();
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
