//! Stamps in user space: each pipeline's overhead beside real packets.

use super::Bench;
use super::plan::{Pattern, SETTLE, arms};
use super::stream::Sent;
use super::traffic::Wanted;
use crate::compare::record::{Received, ReceiverPlan, start};
use crate::pipeline::{PipelineKind, PipelineSettings};
use quaver_analysis::order::shuffled_rounds;
use quaver_capture_analysis::compare::{CompareTable, PatternFacts, UserArmFacts};
use quaver_clock::nominal_scale;
use quaver_probe::thread::ThreadSettings;
use std::net::UdpSocket;
use std::time::Duration;

/// Packets beyond those that are needed, should some be lost.
const SPARE: u64 = 2_000;
/// A stream may take so much longer than its schedule.
const SLACK: Duration = Duration::from_secs(20);
/// Bytes of the receiver's buffer.
const BUFFER_BYTES: usize = 8 << 20;

/// So many rounds with each of the arms twice, in random order.
pub(super) fn twice(arms: usize, rounds: u32, seed: u64) -> Vec<u16> {
    let arms = arms as u16;
    shuffled_rounds(2 * arms, rounds, seed).into_iter().map(|one| one % arms).collect()
}

/// Runs a pattern through all arms.
pub(super) fn measure(
    bench: &Bench<'_>,
    number: u16,
    (pattern, stage): (&Pattern, &str),
    table: &mut CompareTable,
) -> anyhow::Result<PatternFacts> {
    let plan = bench.plan;
    let stream_id = (plan.seed as u32).wrapping_add(u32::from(number)) | 1;
    let arms = arms();
    let blocks = twice(arms.len(), pattern.rounds, plan.seed);
    let number_of_blocks = blocks.len() as u32;
    let packets = blocks.len() as u64 * u64::from(pattern.per_block) + SPARE;
    let receiver = ReceiverPlan {
        arms: arms.iter().map(|(_, kind)| kind.map(|kind| bench.pipeline(kind, pattern.per_block))).collect(),
        blocks,
        packets_per_block: pattern.per_block,
        stream_id,
        header_offset: pattern.profile.header_offset(),
        poll: false,
        thread: ThreadSettings::measuring(Some(plan.cpus.capture), None),
        counter: plan.counter,
    };
    let wanted = Wanted {
        shape: pattern.shape,
        pace: pattern.pace,
        packets,
        stream_id,
        catch_up: false,
        most: pattern.lasting(packets) + SLACK,
    };
    let (socket, source) = bench.meet(wanted)?;
    enlarge(&socket)?;
    let receiving = start(socket, receiver, bench.clock.reader())?;
    let mut stream = bench.start(source)?;
    bench.wait(Duration::MAX, || {
        bench.progress.show(
            Duration::from_nanos((receiving.received() as f64 * pattern.period_ns()) as u64),
            format!("{stage}: {} packets stamped", receiving.received()),
        );
        receiving.is_finished() || stream.is_finished()
    });
    let sent = bench.end(stream);
    let received = receiving.join()?;
    keep(number, plan.cpus.capture, &received, table);
    Ok(PatternFacts { user_blocks: vec![number_of_blocks], ..facts(bench, pattern, sent, &received) })
}

impl Bench<'_> {
    /// A pipeline whose rings have room for a block.
    pub(super) fn pipeline(&self, kind: PipelineKind, per_block: u32) -> PipelineSettings {
        let cpus = self.plan.cpus.convert.iter().cycle();
        let converters = cpus.map(|cpu| ThreadSettings { cpu: Some(*cpu), ..ThreadSettings::default() });
        PipelineSettings {
            ring_slots: (per_block as usize).next_power_of_two().max(1_024),
            converters: converters.take(16).collect(),
            ..PipelineSettings::new(kind, self.plan.counter)
        }
    }
}

fn keep(number: u16, cpu: u16, received: &Received, table: &mut CompareTable) {
    for sample in &received.samples {
        table.pattern.push(number);
        table.context.push(0);
        table.arm.push(sample.arm);
        table.block.push(sample.block);
        table.position.push(sample.position);
        table.seq.push(sample.seq);
        table.cpu.push(cpu);
        table.before_cycles.push(sample.before_cycles);
        table.between_cycles.push(sample.between_cycles);
        table.stamp_ns.push(sample.stamp.map_or(0, |stamp| stamp.time_ns));
        table.bound_ns.push(sample.stamp.map_or(0, |stamp| stamp.bound_ns));
        table.interrupts_off.push(false);
    }
}

fn facts(bench: &Bench<'_>, pattern: &Pattern, sent: Sent, received: &Received) -> PatternFacts {
    let scale = nominal_scale(bench.plan.counter);
    let user = arms().into_iter().zip(&received.costs).map(|((name, _), cost)| {
        let per_stamp = |cycles: u64| scale.ns(cycles) as f64 / cost.stamps.max(1) as f64;
        let (resolve_ns, converter_ns) = (per_stamp(cost.resolve_cycles), per_stamp(cost.converter_cycles));
        UserArmFacts {
            name,
            stamps: cost.stamps,
            resolve_ns,
            converter_ns,
            later_ns: vec![resolve_ns + converter_ns],
            ring_full: cost.ring_full,
        }
    });
    PatternFacts {
        name: pattern.name.to_owned(),
        frame_bytes: pattern.frame_bytes(),
        period_ns: pattern.period_ns(),
        ifg_bytes: pattern.ifg_bytes,
        sent: sent.sent,
        missed: sent.missed,
        socket_drops: received.socket_drops.map(u64::from),
        settle: SETTLE,
        user: user.collect(),
        ..PatternFacts::default()
    }
}

/// Makes the receive buffer large: a block is resolved while packets come.
fn enlarge(socket: &UdpSocket) -> std::io::Result<()> {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
    set_socket_recv_buffer_size_force(socket, BUFFER_BYTES)
        .or_else(|_| set_socket_recv_buffer_size(socket, BUFFER_BYTES))?;
    Ok(())
}
