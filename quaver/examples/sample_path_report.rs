//! Writes the report of a made-up path, for the browser test and for looking at the page without measuring.
//!
//! Usage: `sample_path_report OUT.html [PACKETS [rolling]]`. The test is the same each time: packets go up with losses
//! in bursts, copies and reordering, and come down with single losses only; the clocks are 31 s and 12 ppm apart. Names
//! of hosts are hostile on purpose. Prints the facts that the test checks as JSON.

use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, Singleton};
use quaver_arrivals::path::direction::Direction;
use quaver_instrument::facts::RunFacts;
use quaver_path::digest::{PathDigest, digest};
use quaver_path::facts::*;
use std::io::Write;

const PERIOD_NS: i64 = 250_000;
const START_NS: i64 = 1_763_700_000_000_000_000;
/// Server less client.
const OFFSET_NS: i64 = 31_340_420_000;
const SKEW: f64 = 12e-6;
const HOSTILE: &str = "</script><script>document.title='owned'</script><img src=x>";

/// A small generator (PCG-like step, xorshift output); good enough for a picture.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    /// With an exponential distribution.
    fn wait_ns(&mut self, mean_ns: f64) -> i64 {
        (-(1.0 - self.share()).ln() * mean_ns) as i64
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: sample_path_report OUT.html [PACKETS [rolling]]")?;
    let count: i32 = arguments.next().map_or(Ok(160_000), |text| text.parse())?;
    let mut facts = facts(count);
    let mut packets = vec![up(count), down(count / 2)];
    if arguments.next().is_some() {
        facts.rolling = vec![rolling("up"), rolling("down")];
        packets = vec![Vec::new(), Vec::new()];
    }
    let digest = digest(&facts, &packets, run());
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
    quaver_view::write_html(&mut file, &digest.document())?;
    writeln!(std::io::stdout(), "{}", known(&digest))?;
    Ok(())
}

/// What the browser test checks.
fn known(digest: &PathDigest) -> serde_json::Value {
    let flows: Vec<serde_json::Value> = digest
        .summary
        .flows()
        .map(|results| {
            let delay = results.figures.delay.as_ref();
            let corrected = delay.and_then(|delay| Some((delay.corrected.as_ref()?, &delay.as_measured)));
            serde_json::json!({
                "way": results.flow.direction.name(), "packets": results.figures.packets.unique,
                "lost": results.figures.loss.packets,
                "spike_ns": corrected.map(|(corrected, _)| corrected.max_ns),
                "shift_ns": corrected.map(|(corrected, measured)| corrected.min_ns - measured.min_ns),
            })
        })
        .collect();
    serde_json::json!({ "path": true, "flows": flows })
}

/// The queue of a busy line: it fills for a while now and then, and one spike stands alone.
fn queue_ns(dice: &mut Dice, at: i32, count: i32) -> i64 {
    let busy = ((f64::from(at) / f64::from(count) * 9.0).sin().max(0.0) * 1.8e6).powf(1.0) as i64;
    let spike = if at == count / 3 { 41_000_000 } else { 0 };
    let rare = if dice.share() < 0.002 { dice.wait_ns(2.2e6) } else { 0 };
    dice.wait_ns(90_000.0) + (busy as f64 * dice.share()) as i64 + spike + rare
}

fn up(count: i32) -> Vec<Singleton> {
    let mut dice = Dice(3);
    let mut out: Vec<Singleton> = Vec::new();
    let mut bad = false;
    for at in 0..count {
        bad = if bad { dice.share() > 0.2 } else { dice.share() < 0.000_6 };
        if dice.share() < if bad { 0.7 } else { 0.000_4 } {
            continue;
        }
        let sent_ns = START_NS + i64::from(at) * PERIOD_NS + dice.wait_ns(800.0);
        let drift_ns = (i64::from(at) * PERIOD_NS) as f64 * SKEW;
        let late_ns = if dice.share() < 0.001 { 700_000 + dice.wait_ns(300_000.0) } else { 0 };
        let delay_ns = 4_812_000 + queue_ns(&mut dice, at, count) + late_ns;
        let packet = Singleton {
            tx_real_time_ns: sent_ns,
            tx_seq: at,
            rx_real_time_ns: sent_ns + delay_ns + OFFSET_NS + drift_ns as i64,
            flags: 0,
        };
        out.push(packet);
        for copy in 0..[0, 0, 0, 1, 2][if dice.share() < 0.001 { (dice.share() * 5.0) as usize } else { 0 }] {
            let rx_real_time_ns = packet.rx_real_time_ns + 50_000 * (1 + copy);
            out.push(Singleton { rx_real_time_ns, flags: FLAG_DUPLICATE, ..packet });
        }
    }
    out.sort_by_key(|packet| packet.rx_real_time_ns);
    out
}

fn down(count: i32) -> Vec<Singleton> {
    let mut dice = Dice(11);
    let mut out = Vec::new();
    let mut last_ns = 0;
    for at in 0..count {
        if dice.share() < 0.000_3 {
            continue;
        }
        let sent_ns =
            START_NS + 60_000_000_000 + OFFSET_NS + i64::from(at) * 2 * PERIOD_NS + dice.wait_ns(600.0);
        let drift_ns = (i64::from(at) * 2 * PERIOD_NS) as f64 * SKEW;
        let delay_ns = 4_602_000 + dice.wait_ns(140_000.0) - drift_ns as i64;
        // One queue: nothing overtakes.
        let rx_real_time_ns = (sent_ns - OFFSET_NS + delay_ns).max(last_ns + 1);
        last_ns = rx_real_time_ns;
        out.push(Singleton { tx_real_time_ns: sent_ns, tx_seq: at, rx_real_time_ns, flags: 0 });
    }
    out
}

fn facts(count: i32) -> PathFacts {
    let ends = ["192.0.2.17:41000".to_owned(), "198.51.100.9:2667".to_owned()];
    let flow = |direction, count: i32, period_ns| FlowFacts {
        direction,
        transport: "UDP".into(),
        source: ends[usize::from(direction == Direction::Down)].clone(),
        destination: ends[usize::from(direction == Direction::Up)].clone(),
        dscp: 46,
        payload_bytes: 80,
        period_ns,
        schedule: "periodic from a random start".into(),
        planned: count as u64,
        sent: Some(count as u64),
        sent_stamped_by: "application".into(),
        received_stamped_by: "kernel".into(),
        own_drops: Some(0),
        foreign: 0,
        achieved: Some(AchievedSchedule {
            sending: None,
            slope_ppm: Some(-0.02),
            error_p50_ns: 560,
            error_p99_ns: 3_900,
            error_max_ns: 61_000,
            missed: 0,
            cpu_per_million_ns: Some(1_720_000_000),
        }),
        departures: None,
        segments: None,
        segments_at_server: None,
        moved: None,
        cut_short: None,
    };
    let trip = |at: i64, wait_ns: i64| {
        let t1_ns = START_NS - 5_000_000_000 + at * 1_000_000_000;
        RoundTrip {
            t1_ns,
            t2_ns: t1_ns + OFFSET_NS + 4_790_000 + wait_ns,
            t3_ns: t1_ns + 9_410_000 + wait_ns,
        }
    };
    let end = |end: &str, synchronised| EndClock {
        end: end.into(),
        synchronised,
        max_error_ns: Some(18_400_000).filter(|_| synchronised),
        estimated_error_ns: Some(310_000).filter(|_| synchronised),
        chrony: None,
    };
    PathFacts {
        answered: None,
        way_unknown: 0,
        peer: format!("198.51.100.9:2666 ({HOSTILE})"),
        protocol: "extension 1".into(),
        flows: vec![
            flow(Direction::Up, count, PERIOD_NS as u64),
            flow(Direction::Down, count / 2, 2 * PERIOD_NS as u64),
        ],
        round_trips: [90_000, 12_000, 0, 410_000, 33_000]
            .into_iter()
            .zip(0..)
            .map(|(ns, at)| trip(at, ns))
            .collect(),
        stated_clock: None,
        clocks: vec![end("client", true), end("server", false)],
        clock_steps: Vec::new(),
        boot_gap_ns: None,
        rolling: Vec::new(),
    }
}

fn rolling(direction: &str) -> RollingFigures {
    RollingFigures {
        direction: direction.into(),
        unique: 345_598_211,
        duplicate: 12,
        reordered: 4_031,
        lost: 1_789,
        beyond_window: 0,
        loss_periods: 611,
        longest_loss_period: 88,
        min_delay_ns: Some(4_811_002),
        mean_delay_ns: Some(4_955_120.3),
        max_delay_ns: Some(61_200_441),
        delay_quantiles_ns: Some([4_901_120, 5_202_118, 6_733_020, 11_881_003]),
        pdv_quantiles_ns: Some([90_118, 391_116, 1_922_018, 7_070_001]),
        interarrival_jitter_ns: Some(101_882.4),
        followed: None,
        corrected: None,
    }
}

fn run() -> RunFacts {
    RunFacts {
        name: "probe-20261121T130000Z-51c2".into(),
        verb: "probe".into(),
        directory: "runs/probe-20261121T130000Z-51c2".into(),
        command: "quaver probe studio-9 -n 160000 -r 250us".into(),
        started: "2026-11-21T13:00:00Z".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        host: "Linux 6.18.5, 2 CPUs, virtual machine (KVM)".into(),
        trigger: String::new(),
        stream: String::new(),
        facts: vec![("clock source".into(), "tsc".into()), ("processor".into(), HOSTILE.into())],
    }
}
