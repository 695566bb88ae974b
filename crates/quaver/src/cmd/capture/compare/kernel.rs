//! Stamps in the kernel, between two of its own tracepoints.

use super::Bench;
use super::plan::{FRAME_OVERHEAD, Pattern, SETTLE};
use super::stream::Wanted;
use quaver_analysis::compare::CompareTable;
use quaver_analysis::compare::order::shuffled_rounds;
use quaver_measure::probe::thread::ThreadSettings;
use quaver_measure::stamp::compare::{
    KernelArm, KernelComparison, KernelOutcome, KernelPlan, ReceiverPlan, start,
};
use std::time::Duration;

/// Octets of an Ethernet header, which the kernel has taken off before the checkpoints.
const ETHERNET_BYTES: u32 = 14;
/// Longest wait for the packets of a block beyond their schedule.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a pattern past the kernel's checkpoints; names of the arms.
pub(super) fn measure(
    bench: &Bench<'_>,
    number: u16,
    pattern: &Pattern,
    table: &mut CompareTable,
) -> anyhow::Result<Vec<String>> {
    let plan = bench.plan;
    let packet_bytes = pattern.profile.payload_bytes() as u32 + FRAME_OVERHEAD - ETHERNET_BYTES;
    let wanted = KernelPlan { interface: bench.lab.sink.interface.clone(), packet_bytes };
    let mut comparison = KernelComparison::start(&wanted)?;
    let stream_id = (plan.seed as u32).wrapping_add(0x4b00 + u32::from(number)) | 1;
    let socket = bench.receiver()?;
    let address = socket.local_addr()?;
    let blocks = shuffled_rounds(KernelArm::ALL.len() as u16, pattern.rounds, plan.seed ^ 1);
    let receiving = start(socket, drain(bench, pattern, stream_id), bench.clock.reader())?;
    let wanted = Wanted {
        profile: &pattern.profile,
        pace: pattern.pace,
        // Ended when the blocks are done.
        packets: 100_000_000 / pattern.period_ns().max(1_000.0) as u64 * 1_000 + 1_000_000,
        stream_id,
        catch_up: false,
    };
    let stream = bench.send(address, &wanted)?;
    let per_block = pattern.kernel_block + u64::from(SETTLE);
    let most = Duration::from_nanos((per_block as f64 * pattern.period_ns()) as u64) + GRACE;
    for (block, arm) in blocks.iter().enumerate() {
        let arm = KernelArm::ALL[usize::from(*arm)];
        comparison.begin(arm)?;
        let before = stream.sent();
        bench.wait(most, || stream.sent() >= before + per_block);
        comparison.end(block as u32, arm)?;
        if bench.interrupt.requested() {
            break;
        }
    }
    stream.end();
    receiving.join();
    keep(number, &comparison.finish(), table);
    Ok(KernelArm::ALL.map(|arm| arm.name().to_owned()).to_vec())
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
