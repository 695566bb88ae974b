//! Writes a report of a made-up run, for the browser test and for looking at the page without measuring.
//!
//! Usage: `sample_report OUT.html [PACKETS]`. The run is the same each time: a stream of one packet every 7.41 us
//! whose receiver is held up by four sources and by one that is unexplained. Names of threads and devices are
//! hostile on purpose. Prints the facts that the test checks as JSON.

use quaver_abi::record::{EventKind, EventRecord, Vector};
use quaver_analysis::attribution::{
    Certainty, EdgeCap, LatePacket, PacketAnalysis, PacketPosition, Part, Piece,
};
use quaver_analysis::model::{Layer, LayerColumn, Names, PacketRun, PacketTable};
use quaver_analysis::series::delta_t;
use quaver_analysis::summary::*;
use quaver_arrivals::distribution::distribution;
use quaver_chase::view::{ChaseInput, document};
use quaver_instrument::facts::RunFacts;
use quaver_view::write_html;
use std::io::Write;

const PERIOD_NS: i64 = 7_410;
const TYPICAL_NS: i64 = 2_700;
const THRESHOLD_NS: i64 = 2 * PERIOD_NS;
const START_NS: i64 = 5_000_000_000_000;
const HOSTILE: &str = "</script><script>document.title='owned'</script>";
const IMAGE: &str = "virtio3-<img src=x onerror=\"document.title='owned'\">";

/// Something that keeps the receiver (or the network stack before it) from running.
struct Stall {
    start_ns: i64,
    end_ns: i64,
    cause: Option<u32>,
}

/// A small generator (PCG-like step, xorshift output); good enough for a picture.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit.max(1)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: sample_report OUT.html [PACKETS]")?;
    let count: usize = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let stalls = stalls(count);
    let (packets, late, pieces) = receive(count, &stalls);
    let analysis = PacketAnalysis {
        summary: summary(&packets, &late, &pieces),
        late,
        pieces,
        catch_up_cap_ns: 0,
        edge_cap: EdgeCap::default(),
    };
    let measured = PacketRun { packets, events: events(&stalls), names: names(), ..PacketRun::default() };
    let spike_ns =
        stalls.iter().max_by_key(|stall| stall.end_ns - stall.start_ns).map_or(0, |stall| stall.end_ns);
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
    let began = std::time::Instant::now();
    write_html(
        &mut file,
        &document(&ChaseInput { analysis: &analysis, run: &facts(), measured: &measured }),
    )?;
    eprintln!("written in {:.2} s", began.elapsed().as_secs_f64());
    let packets = &measured.packets;
    let row = packets.app_ns.partition_point(|app_ns| *app_ns < spike_ns);
    writeln!(
        std::io::stdout(),
        "{{\"packets\": {count}, \"causes\": {}, \"late\": {}, \"worst_ns\": {}, \"spike_offset_ns\": {}, \"spike_delta_ns\": {}, \"layers\": {}}}",
        analysis.summary.causes.len(),
        analysis.late.len(),
        analysis.late.iter().map(|late| late.lateness_ns).max().unwrap_or(0),
        packets.app_ns[row] - packets.app_ns[0],
        packets.app_ns[row] - packets.app_ns[row - 1],
        packets.layers.len() + 1,
    )?;
    Ok(())
}

/// Hold-ups in the order of time, none overlapping.
fn stalls(count: usize) -> Vec<Stall> {
    let end_ns = START_NS + count as i64 * PERIOD_NS;
    let mut dice = Dice(7);
    let mut stalls = Vec::new();
    let mut every = |period_ns: i64, spread_ns: i64, length_ns: i64, cause: Option<u32>| {
        let mut at_ns = START_NS + period_ns / 2 + dice.below(period_ns / 3);
        while at_ns < end_ns {
            let length_ns = length_ns + dice.below(length_ns / 3);
            stalls.push(Stall { start_ns: at_ns, end_ns: at_ns + length_ns, cause });
            at_ns += period_ns - spread_ns / 2 + dice.below(spread_ns);
        }
    };
    every(25_000_000, 2, 180_000, Some(0));
    every(4_000_000, 2, 15_000, Some(1));
    every(41_000_000, 30_000_000, 31_000, Some(2));
    every(307_000_000, 90_000_000, 19_000, Some(3));
    every(613_000_000, 200_000_000, 52_000, None);
    let spike_ns = START_NS + (count as i64 * 617 / 1_000) * PERIOD_NS;
    stalls.push(Stall { start_ns: spike_ns, end_ns: spike_ns + 2_345_000, cause: Some(4) });
    stalls.sort_by_key(|stall| stall.start_ns);
    let mut busy_ns = 0;
    stalls.retain(|stall| {
        let free = stall.start_ns > busy_ns + 5_000 || stall.cause == Some(4);
        if free {
            busy_ns = stall.end_ns;
        }
        free
    });
    stalls
}

/// The stream as a receiver with these hold-ups sees it; cause 3 holds up the network stack, not the receiver.
fn receive(count: usize, stalls: &[Stall]) -> (PacketTable, Vec<LatePacket>, Vec<Piece>) {
    let layers =
        [Layer::Schedule, Layer::Source, Layer::Softirq, Layer::Receive, Layer::Enqueued, Layer::Ready];
    let mut packets = PacketTable {
        layers: layers.map(|layer| LayerColumn { layer, before_app_ns: Vec::with_capacity(count) }).into(),
        ..PacketTable::default()
    };
    let (mut late, mut pieces) = (Vec::new(), Vec::new());
    let mut dice = Dice(1);
    let (mut at, mut softirq_free_ns, mut app_free_ns) = (0, 0, 0);
    for seq in 0..count as u64 {
        let due_ns = START_NS + seq as i64 * PERIOD_NS;
        if seq % 400_009 == 400_000 {
            continue;
        }
        let source_ns =
            due_ns + 60 + dice.below(60) + if dice.below(3_000) == 0 { dice.below(9_000) } else { 0 };
        let mut softirq_ns = (source_ns + 700 + dice.below(300)).max(softirq_free_ns);
        while stalls.get(at).is_some_and(|stall| stall.end_ns <= source_ns) {
            at += 1;
        }
        let stall = stalls.get(at).filter(|stall| stall.start_ns <= softirq_ns + 1_000);
        if let Some(stall) = stall.filter(|stall| stall.cause == Some(3)) {
            softirq_ns = softirq_ns.max(stall.end_ns);
        }
        let receive_ns = softirq_ns + 280 + dice.below(90);
        softirq_free_ns = receive_ns;
        let enqueued_ns = receive_ns + 420 + dice.below(120);
        let ready_ns = enqueued_ns + 110 + dice.below(40);
        let mut app_ns = (ready_ns + 700 + dice.below(400)).max(app_free_ns + 310 + dice.below(60));
        if let Some(stall) = stall.filter(|stall| stall.cause != Some(3) && stall.end_ns > app_ns - 800) {
            app_ns = app_ns.max(stall.end_ns + 600);
        }
        app_free_ns = app_ns;
        let lateness_ns = app_ns - due_ns - TYPICAL_NS;
        if lateness_ns > THRESHOLD_NS {
            let cause = stall.or(stalls.get(at.saturating_sub(1))).and_then(|stall| stall.cause);
            let first_piece = pieces.len() as u32;
            lengthen(&mut pieces, app_ns, lateness_ns, stalls, at);
            late.push(LatePacket {
                row: Some(packets.seq.len() as u32),
                seq,
                start_ns: app_ns - lateness_ns,
                end_ns: app_ns,
                lateness_ns,
                cause,
                first_piece,
                end_piece: pieces.len() as u32,
            });
        }
        packets.seq.push(seq);
        packets.app_ns.push(app_ns);
        packets.app_cpu.push(1);
        packets.stack_cpu.push(0);
        let stamps = [due_ns, source_ns, softirq_ns, receive_ns, enqueued_ns, ready_ns];
        for (column, stamp_ns) in packets.layers.iter_mut().zip(stamps) {
            column.before_app_ns.push(app_ns - stamp_ns);
        }
    }
    (packets, late, pieces)
}

/// Adds the late window that ends at `app_ns` to the pieces: the hold-up, then catching up.
fn lengthen(pieces: &mut Vec<Piece>, app_ns: i64, lateness_ns: i64, stalls: &[Stall], at: usize) {
    let mut from_ns = pieces.last().map_or(i64::MIN, |piece| piece.end_ns).max(app_ns - lateness_ns);
    let Some(stall) = stalls[..stalls.len().min(at + 1)].iter().rev().find(|stall| stall.start_ns < app_ns)
    else {
        return;
    };
    for (start_ns, end_ns, part) in [
        (stall.start_ns, stall.start_ns + 400, Part::EntryExit),
        (stall.start_ns + 400, stall.end_ns, Part::Body),
        (stall.end_ns, app_ns, Part::CatchUp),
    ] {
        let (start_ns, end_ns) = (start_ns.max(from_ns), end_ns.min(app_ns));
        if start_ns < end_ns {
            let (place, cpu) = (PacketPosition::Receiver, 1);
            let certainty = if part == Part::Body { Certainty::Certain } else { Certainty::Inferred };
            pieces.push(Piece { start_ns, end_ns, cause: stall.cause, part, place, cpu, certainty });
            from_ns = end_ns;
        }
    }
}

fn events(stalls: &[Stall]) -> Vec<EventRecord> {
    let mut events = Vec::new();
    for stall in stalls {
        let (kind, id, aux, cpu) = match stall.cause {
            Some(0) => (EventKind::Thread, 4_242, 49, 1),
            Some(1) => (EventKind::Vector, Vector::LocalTimer as u32, 0, 1),
            Some(2) => (EventKind::Irq, 41, 0, 1),
            Some(3) => (EventKind::Softirq, 9, 0, 0),
            Some(_) => (EventKind::Thread, 0, 120, 1),
            None => continue,
        };
        let (start_ns, end_ns) = (stall.start_ns as u64 + 200, stall.end_ns as u64 - 200);
        let event = EventRecord { start_ns, end_ns, aux, id, cpu, kind: kind as u8, detail: 0 };
        events.push(event);
        if kind == EventKind::Vector {
            let (start_ns, end_ns) = (start_ns + 900, end_ns - 2_000);
            events.push(EventRecord {
                start_ns,
                end_ns,
                aux: 0xff01,
                kind: EventKind::Hrtimer as u8,
                ..event
            });
        }
        if kind == EventKind::Thread {
            let wake = EventRecord { start_ns: start_ns - 600, end_ns: start_ns - 600, ..event };
            events.push(EventRecord { kind: EventKind::Wakeup as u8, ..wake });
        }
    }
    let last_ns = stalls.last().map_or(0, |stall| stall.end_ns as u64);
    let sender = EventRecord {
        start_ns: START_NS as u64,
        end_ns: last_ns,
        id: 4_100,
        kind: 5,
        ..EventRecord::default()
    };
    events.push(sender);
    let poll = |at: u64| EventRecord {
        start_ns: START_NS as u64 + at * PERIOD_NS as u64 + 800,
        end_ns: START_NS as u64 + at * PERIOD_NS as u64 + 2_300,
        id: 3,
        kind: EventKind::Softirq as u8,
        ..EventRecord::default()
    };
    events.extend((0..(last_ns - START_NS as u64) / PERIOD_NS as u64).map(poll));
    events
}

fn cause(
    source: &str,
    name: &str,
    class: SourceClass,
    setting: Option<&str>,
    boot: Option<&str>,
) -> CauseSummary {
    CauseSummary {
        source: source.into(),
        name: name.into(),
        class,
        time_ns: 0,
        entry_exit_ns: 0,
        catch_up_ns: 0,
        share: 0.0,
        packets: 0,
        intervals: 0,
        worst_ns: 0,
        example_seq: 0,
        remedy: Remedy { setting: setting.map(Into::into), boot: boot.map(Into::into), known: None },
        threads: Vec::new(),
        functions: Vec::new(),
        inferred_ns: 0,
        stable_name: None,
    }
}

fn causes() -> Vec<CauseSummary> {
    use SourceClass::{NetworkIndependent, NetworkStack};
    let fifo = format!("thread {HOSTILE} (fifo 50)");
    vec![
        cause(
            "rt-thread",
            &fifo,
            NetworkIndependent,
            Some("taskset -pc 0 4242"),
            Some("isolcpus=managed_irq,domain,1"),
        ),
        cause("tick", "vector local timer", NetworkIndependent, None, Some("nohz_full=1")),
        cause(
            "dev-irq",
            &format!("irq 41 {IMAGE}"),
            NetworkIndependent,
            Some("echo 0 > /proc/irq/41/smp_affinity_list"),
            None,
        ),
        cause("rcu-cb", "softirq RCU", NetworkStack, None, Some("rcu_nocbs=0-1 rcu_nocb_poll")),
        cause(
            "rt-throttle",
            "RT throttling",
            NetworkIndependent,
            Some("kernel.sched_rt_runtime_us=-1"),
            None,
        ),
    ]
}

/// Sums the pieces and late packets by cause; also the late time of all together.
fn totals(late: &[LatePacket], pieces: &[Piece]) -> (Vec<CauseSummary>, Unexplained, i64) {
    let mut causes = causes();
    let mut unexplained = Unexplained {
        note: "Hypervisor or hardware, or a class of event that could not be recorded here.".into(),
        ..Unexplained::default()
    };
    let total_ns: i64 = pieces.iter().map(|piece| piece.end_ns - piece.start_ns).sum();
    for piece in pieces {
        let length_ns = piece.end_ns - piece.start_ns;
        let Some(cause) = piece.cause.and_then(|at| causes.get_mut(at as usize)) else {
            unexplained.time_ns += length_ns;
            continue;
        };
        cause.time_ns += length_ns;
        match piece.part {
            Part::EntryExit => cause.entry_exit_ns += length_ns,
            Part::CatchUp => cause.catch_up_ns += length_ns,
            Part::Body | Part::Unexplained => cause.intervals += 1,
        }
    }
    for packet in late {
        let seq = packet.seq;
        match packet.cause.and_then(|at| causes.get_mut(at as usize)) {
            Some(cause) => {
                cause.packets += 1;
                if packet.lateness_ns > cause.worst_ns {
                    (cause.worst_ns, cause.example_seq) = (packet.lateness_ns, seq);
                }
            }
            None => {
                unexplained.packets += 1;
                if packet.lateness_ns > unexplained.worst_ns {
                    (unexplained.worst_ns, unexplained.example_seq) = (packet.lateness_ns, Some(seq));
                }
            }
        }
    }
    let share = |time_ns: i64| time_ns as f64 / total_ns.max(1) as f64;
    causes.iter_mut().for_each(|cause| cause.share = share(cause.time_ns));
    unexplained.share = share(unexplained.time_ns);
    (causes, unexplained, total_ns)
}

fn summary(packets: &PacketTable, late: &[LatePacket], pieces: &[Piece]) -> ChaseSummary {
    let (causes, unexplained, total_ns) = totals(late, pieces);
    let mut lateness: Vec<i64> = (0..packets.len())
        .map(|row| packets.app_ns[row] - START_NS - packets.seq[row] as i64 * PERIOD_NS - TYPICAL_NS)
        .collect();
    ChaseSummary {
        schema: CHASE_SCHEMA.into(),
        period_ns: PERIOD_NS as f64,
        period_learned: false,
        pace: None,
        duration_ns: packets.app_ns.last().zip(packets.app_ns.first()).map_or(0, |(end, start)| end - start),
        losses: Losses {
            sent: packets.seq.last().map(|seq| seq + 1),
            received: packets.len() as u64,
            network: Some(0),
            socket_buffer: packets.seq.last().map(|seq| seq + 1 - packets.len() as u64),
            ..Losses::default()
        },
        layers: layers(packets),
        stages: stages(packets, late),
        lateness: Lateness {
            threshold_ns: THRESHOLD_NS,
            typical_path_ns: TYPICAL_NS,
            packets: late.len() as u64,
            time_ns: total_ns,
            distribution: distribution(&mut lateness),
        },
        limits: Vec::new(),
        causes,
        unexplained,
        probe_cost: Some(ProbeCost { per_packet_ns: 412.0, interval_ns: (371.5, 455.2), blocks: 20 }),
        unread: None,
        backlog: None,
            far_source: None,
        tier: "bpf".into(),
        tier_reason: None,
        blind: vec!["NMI (no hardware counters in this virtual machine)".into()],
        warnings: vec![
            "RT throttling is on: a busy SCHED_FIFO receiver is stopped for 50 ms of each second. Turn it off with: \
             quaver tune apply rt-throttle"
                .into(),
        ],
        rtp: None,
        complete: true,
    }
}

fn layers(packets: &PacketTable) -> Vec<LayerSummary> {
    let mut deltas = Vec::new();
    let measured = packets.layers.iter().map(|column| column.layer).chain([Layer::Application]);
    measured
        .map(|layer| {
            let stamped = delta_t(packets, layer, &mut deltas);
            LayerSummary { layer, stamped, delta_t: distribution(&mut deltas) }
        })
        .collect()
}

fn stages(packets: &PacketTable, late: &[LatePacket]) -> Vec<StageSummary> {
    let mut layers: Vec<Layer> = packets.layers.iter().map(|column| column.layer).collect();
    layers.push(Layer::Application);
    let time = |row: usize, from, to| {
        packets.stamp_ns(row, to).zip(packets.stamp_ns(row, from)).map_or(0, |(end, start)| end - start)
    };
    let mut stages: Vec<StageSummary> = layers
        .windows(2)
        .map(|pair| {
            let all = distribution(
                &mut (0..packets.len()).map(|row| time(row, pair[0], pair[1])).collect::<Vec<_>>(),
            );
            let mut of_late: Vec<i64> =
                late.iter().filter_map(LatePacket::row).map(|row| time(row, pair[0], pair[1])).collect();
            let excess_ns = of_late.iter().map(|ns| (ns - all.p50_ns).max(0)).sum();
            StageSummary {
                from: pair[0],
                to: pair[1],
                on_time: all,
                late: distribution(&mut of_late),
                excess_ns,
                excess_share: 0.0,
            }
        })
        .collect();
    let total_ns: i64 = stages.iter().map(|stage| stage.excess_ns).sum();
    stages.iter_mut().for_each(|stage| stage.excess_share = stage.excess_ns as f64 / total_ns.max(1) as f64);
    stages
}

fn names() -> Names {
    Names {
        irq: [(41, IMAGE.to_owned())].into(),
        task: [(4_242, HOSTILE.to_owned()), (4_100, "quaver-source".to_owned())].into(),
        symbol: [(0xff01, "tick_nohz_handler".to_owned())].into(),
        ..Names::default()
    }
}

fn facts() -> RunFacts {
    RunFacts {
        name: "chase-20261120T165800Z-7f3a".into(),
        verb: "chase".into(),
        directory: "runs/chase-20261120T165800Z-7f3a".into(),
        command: "quaver chase --for 15s --period 7.41us".into(),
        started: "2026-11-20T16:58:00Z".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        host: "studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)".into(),
        trigger: String::new(),
        stream: "made here, two network namespaces".into(),
        facts: vec![
            ("Clock source".into(), "tsc".into()),
            ("Kernel command line".into(), "root=/dev/vda1 console=ttyS0 quiet".into()),
            ("Clock calibration".into(), "2.600 GHz, error below 34 ns".into()),
        ],
    }
}
