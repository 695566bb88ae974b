//! A pattern's packets on their way to a receiver that does nothing but take them, in blocks that somebody in the kernel records.

use super::Bench;
use super::plan::{Pattern, SETTLE};
use super::stream::Sent;
use super::traffic::Wanted;
use crate::compare::record::{ReceiverPlan, start};
use quaver_probe::thread::ThreadSettings;
use std::time::{Duration, Instant};

/// Longest wait for the packets of a block beyond their schedule.
const GRACE: Duration = Duration::from_secs(2);

/// Records blocks of packets, each by the arm of that number.
pub(super) trait BlockRecorder {
    /// Begins a block; returns when it is recorded.
    fn begin(&mut self, arm: u16) -> anyhow::Result<()>;
    /// Ends it.
    fn end(&mut self, block: u32, arm: u16) -> anyhow::Result<()>;
}

/// Sends the pattern while the arms of `blocks` record it one after the other; what was sent.
pub(super) fn pass(
    bench: &Bench<'_>,
    pattern: &Pattern,
    stream_id: u32,
    blocks: &[u16],
    recorder: &mut impl BlockRecorder,
) -> anyhow::Result<Sent> {
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
    // The far sender reports its count at the end only. What came may have waited for the receiver since before the
    // block, so that the block's time has to pass as well.
    let so_far = || stream.sent().unwrap_or_else(|| receiving.received());
    let mut recorded = Ok(());
    for (block, arm) in blocks.iter().enumerate() {
        recorded = recorder.begin(*arm);
        if recorded.is_err() {
            break;
        }
        let (before, began) = (so_far(), Instant::now());
        let least = if stream.sent().is_some() { Duration::ZERO } else { pattern.lasting(per_block) };
        bench.wait(most, || began.elapsed() >= least && so_far() >= before + per_block);
        recorded = recorder.end(block as u32, *arm);
        if recorded.is_err() || bench.stopped() {
            break;
        }
    }
    let sent = bench.end(stream);
    receiving.join()?;
    recorded.map(|()| sent)
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
