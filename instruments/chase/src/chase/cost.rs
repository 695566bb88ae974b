//! Our own cost per packet, from alternating blocks with all probes on and off within the running stream.

use quaver_abi::cycles::CycleScale;
use quaver_abi::record::{AnchorRecord, SendRecord};
use quaver_analysis::probe_cost::{Block, probe_cost};
use quaver_analysis::summary::ProbeCost;
use quaver_clock::monotonic_ns;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::recording::Recording;
use quaver_store::run::RunDir;
use quaver_store::segments::{SegmentReader, read_all};
use std::time::Duration;

/// Pairs of blocks.
const PAIRS: u32 = 8;
/// Length of a block.
const BLOCK: Duration = Duration::from_millis(120);
/// Left out after each change: attaching interrupts every CPU.
const SETTLE: Duration = Duration::from_millis(15);

/// When a block ran, CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockTime {
    on: bool,
    start_ns: i64,
    end_ns: i64,
}

/// Time that the blocks take, about.
pub(super) fn length() -> Duration {
    (BLOCK + SETTLE + Duration::from_millis(40)) * 2 * PAIRS
}

/// Runs the blocks; leaves the probes on. The first of each pair alternates, so that a drift does not count.
pub(super) fn run_blocks(recording: &mut Recording, interrupt: &Interrupt) -> anyhow::Result<Vec<BlockTime>> {
    let mut blocks = Vec::new();
    for pair in 0..PAIRS {
        for on in if pair % 2 == 0 { [false, true] } else { [true, false] } {
            if interrupt.requested() {
                break;
            }
            let Some(tracer) = recording.tracer() else { return Ok(blocks) };
            tracer.set_recording(on)?;
            recording.keep_house(SETTLE, interrupt, || false, |_| {})?;
            let start_ns = monotonic_ns();
            recording.keep_house(BLOCK, interrupt, || false, |_| {})?;
            blocks.push(BlockTime { on, start_ns, end_ns: monotonic_ns() });
        }
    }
    if let Some(tracer) = recording.tracer() {
        tracer.set_recording(true)?;
    }
    Ok(blocks)
}

/// The cost: what a send call, in which the whole stack runs, takes more with probes than without.
pub(super) fn evaluate(run: &RunDir, blocks: &[BlockTime]) -> anyhow::Result<Option<ProbeCost>> {
    let anchors: Vec<AnchorRecord> = read_all(&run.anchors_segment())?;
    let (Some(first), Some(last)) = (anchors.first(), anchors.last()) else { return Ok(None) };
    let Some(scale) = CycleScale::between(first, last) else { return Ok(None) };
    let mut samples: Vec<Block> =
        blocks.iter().map(|block| Block { on: block.on, samples_ns: Vec::new() }).collect();
    let mut at = 0;
    for send in SegmentReader::<SendRecord>::open(&run.sends_segment())? {
        let send = send?;
        while at < blocks.len() && send.deadline_ns >= blocks[at].end_ns {
            at += 1;
        }
        let Some(block) = blocks.get(at) else { break };
        if send.deadline_ns >= block.start_ns && send.after_cycles != 0 {
            samples[at]
                .samples_ns
                .push(scale.ns(send.after_cycles.saturating_sub(send.before_cycles)) as i64);
        }
    }
    Ok(probe_cost(&mut samples))
}
