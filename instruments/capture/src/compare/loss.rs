//! Loss against packet size and gap: bursts of packets through each pipeline, softirq and receiver apart and together.

use super::Bench;
use super::far::refusal;
use super::plan::{FRAME_OVERHEAD, LossPlan, OCTET_NS};
use super::traffic::Wanted;
use crate::compare::record::{ReceiverPlan, start};
use crate::pipeline::PipelineKind;
use quaver_analysis::order::shuffled_rounds;
use quaver_capture_analysis::compare::{LossPoint, Placement, Sweep};
use quaver_host::counters::PathCounters;
use quaver_host::root::HostRoot;
use quaver_path_record::StreamShape;
use quaver_probe::source::Pace;
use quaver_probe::thread::ThreadSettings;
use std::time::Duration;

/// Pipelines that are compared; the first is what the others are held against.
const KINDS: [PipelineKind; 4] = [
    PipelineKind::InlineClock,
    PipelineKind::InlineCycles,
    PipelineKind::Threaded { converters: 1 },
    PipelineKind::Batch,
];
/// Time that packets in flight get to arrive.
const DRAIN: Duration = Duration::from_millis(60);
/// A burst takes no longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Size of the packets while the gap varies, as in the paper's second pattern.
const GAP_FRAME_BYTES: u32 = 1_368;
/// Gap while the size varies: the least that Ethernet allows.
const SIZE_GAP_BYTES: u64 = 12;

/// One burst.
struct Burst {
    sweep: Sweep,
    placement: Placement,
    kind: PipelineKind,
    round: u32,
    frame_bytes: u32,
    gap_bytes: u64,
}

/// Runs all bursts, and sentences on what could not be run. Pipelines alternate at each point, in an order of their own.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<(Vec<LossPoint>, Vec<String>)> {
    let (mut found, mut cannot) = (Vec::new(), Vec::new());
    let Some(plan) = &bench.plan.loss else { return Ok((found, cannot)) };
    let sizes = plan.sizes.iter().map(|size| (Sweep::Size, *size, SIZE_GAP_BYTES));
    let gaps = plan.gaps.iter().map(|gap| (Sweep::Gap, GAP_FRAME_BYTES, *gap));
    let points: Vec<_> = sizes.chain(gaps).collect();
    let mut seed = bench.plan.seed ^ 2;
    for &placement in bench.plan.cpus.placements() {
        if let Err(why) = bench.place.share_cpu(placement == Placement::Together, &bench.plan.cpus)? {
            cannot.push(why);
            if placement == Placement::Together {
                continue;
            }
        }
        for round in 0..plan.rounds {
            for (sweep, frame_bytes, gap_bytes) in &points {
                seed = seed.wrapping_add(1);
                for at in shuffled_rounds(KINDS.len() as u16, 1, seed) {
                    if bench.stopped() {
                        return Ok((found, cannot));
                    }
                    let (sweep, frame_bytes, gap_bytes) = (*sweep, *frame_bytes, *gap_bytes);
                    let kind = KINDS[usize::from(at)];
                    bench.progress.say(format!("loss: {frame_bytes} bytes, gap {gap_bytes}, {kind}"));
                    let burst = Burst { sweep, placement, kind, round, frame_bytes, gap_bytes };
                    match burst.send(bench, plan, seed as u32 | 1) {
                        Ok(point) => found.push(point),
                        Err(error) => {
                            // So would it be through every other pipeline.
                            cannot.push(refused(&burst, error)?);
                            break;
                        }
                    }
                }
            }
        }
    }
    cannot.extend(bench.place.share_cpu(false, &bench.plan.cpus)?.err());
    cannot.sort();
    cannot.dedup();
    Ok((found, cannot))
}

/// The sentence for a burst that another host does not send; any other error goes on.
fn refused(burst: &Burst, error: anyhow::Error) -> anyhow::Result<String> {
    let why = refusal(&error).ok_or(error)?;
    let (frame_bytes, gap_bytes) = (burst.frame_bytes, burst.gap_bytes);
    Ok(format!(
        "Loss at {frame_bytes} bytes with a gap of {gap_bytes} was not measured: the other host refused: {why}."
    ))
}

impl Burst {
    fn send(&self, bench: &Bench<'_>, plan: &LossPlan, stream_id: u32) -> anyhow::Result<LossPoint> {
        let period_ns = (u64::from(self.frame_bytes) + self.gap_bytes) * OCTET_NS;
        let wanted = Wanted {
            shape: StreamShape::Plain {
                payload_bytes: self.frame_bytes - FRAME_OVERHEAD,
                period: (period_ns, 1),
            },
            pace: Pace::Spin,
            packets: plan.packets,
            stream_id,
            catch_up: true,
            most: LONGEST,
        };
        let (socket, source) = bench.meet(wanted)?;
        let receiver = ReceiverPlan {
            arms: vec![Some(bench.pipeline(self.kind, plan.packets as u32))],
            blocks: vec![0],
            packets_per_block: plan.packets as u32,
            stream_id,
            header_offset: 0,
            poll: false,
            thread: ThreadSettings::measuring(Some(bench.plan.cpus.capture), None),
            counter: bench.plan.counter,
        };
        let receiving = start(socket, receiver, bench.clock.reader())?;
        let counters = || bench.place.within(|| PathCounters::read(&HostRoot::system()));
        let before = counters()?;
        let mut stream = bench.start(source)?;
        bench.wait(LONGEST, || stream.is_finished());
        let sent = bench.end(stream);
        bench.wait(DRAIN, || receiving.is_finished());
        let received = receiving.join()?;
        let since = counters()?.since(&before);
        Ok(LossPoint {
            sweep: self.sweep,
            placement: self.placement,
            arm: self.kind.to_string(),
            round: self.round,
            frame_bytes: self.frame_bytes,
            gap_bytes: self.gap_bytes,
            achieved_ns: sent.spacing_ns,
            sent: sent.sent,
            received: received.samples.len() as u64,
            socket_drops: received.socket_drops.map(u64::from),
            backlog_drops: since.softnet.map(|softnet| softnet.dropped),
        })
    }
}
