//! A small hand-made run for the tests of the pages.

use super::RunFacts;
use quaver_analysis::attribution::LatePacket;
use quaver_analysis::distribution::Distribution;
use quaver_analysis::model::Layer;
use quaver_analysis::summary::*;

pub fn distribution(count: u64, p50_ns: i64, max_ns: i64) -> Distribution {
    Distribution {
        count,
        min_ns: p50_ns / 20,
        mean_ns: p50_ns as f64 * 1.002,
        sd_ns: p50_ns as f64 * 0.31,
        p50_ns,
        p90_ns: p50_ns + p50_ns / 20,
        p99_ns: p50_ns + p50_ns / 4,
        p99_9_ns: p50_ns * 3,
        p99_99_ns: p50_ns * 10,
        p99_999_ns: max_ns - max_ns / 5,
        max_ns,
    }
}

/// A late packet of which only these are looked at.
pub fn late(row: u32, lateness_ns: i64, cause: Option<u32>) -> LatePacket {
    let (seq, start_ns, end_ns) = (u64::from(row), 0, lateness_ns);
    LatePacket { row, seq, start_ns, end_ns, lateness_ns, cause, first_piece: 0, end_piece: 0 }
}

pub fn facts() -> RunFacts {
    RunFacts {
        name: "chase-20261120T165800Z-7f3a".into(),
        verb: "chase".into(),
        directory: "runs/chase-20261120T165800Z-7f3a".into(),
        command: "quaver chase --for 10s --period 7.41us".into(),
        started: "2026-11-20T16:58:00Z".into(),
        version: "0.1.0".into(),
        host: "studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)".into(),
        stream: "made here, two network namespaces".into(),
        facts: vec![
            ("clocksource".into(), "tsc".into()),
            ("RT throttling".into(), "950 ms of each 1 s".into()),
        ],
    }
}

fn stage(from: Layer, to: Layer, typical_ns: i64, late_ns: i64, excess_share: f64) -> StageSummary {
    StageSummary {
        from,
        to,
        on_time: distribution(1_349_527, typical_ns, late_ns * 2),
        late: distribution(2_311, late_ns, late_ns * 2),
        excess_ns: (excess_share * 61e6) as i64,
        excess_share,
    }
}

fn cause(source: &str, name: &str, share: f64, packets: u64, worst_ns: i64, remedy: Remedy) -> CauseSummary {
    let time_ns = (share * 61e6) as i64;
    CauseSummary {
        source: source.into(),
        name: name.into(),
        class: SourceClass::NetworkIndependent,
        time_ns,
        entry_exit_ns: time_ns / 40,
        catch_up_ns: time_ns / 12,
        share,
        packets,
        intervals: packets / 20,
        worst_ns,
        example_seq: 481_203,
        remedy,
    }
}

pub fn causes() -> Vec<CauseSummary> {
    vec![
        cause(
            "rt-thread",
            "thread stress (fifo 50)",
            0.612,
            1_480,
            204_310,
            Remedy {
                setting: Some("quaver tune apply pin-threads  (moves it: taskset -pc 0 1234)".into()),
                boot: Some("isolcpus=managed_irq,domain,1".into()),
                known: None,
            },
        ),
        cause(
            "tick",
            "vector local timer",
            0.241,
            611,
            12_450,
            Remedy {
                setting: None,
                boot: Some("nohz_full=1".into()),
                known: Some("the run never saw more than one runnable thread on CPU 1".into()),
            },
        ),
        cause(
            "dev-irq",
            "irq 41 virtio3-<b>rx</b>\u{1b}[2J and a long device name",
            0.095,
            180,
            31_020,
            Remedy { setting: Some("quaver tune apply irq-affinity".into()), ..Remedy::default() },
        ),
    ]
}

pub fn summary() -> ChaseSummary {
    ChaseSummary {
        schema: CHASE_SCHEMA.into(),
        period_ns: 7_410.0,
        period_learned: false,
        duration_ns: 10_000_000_000,
        losses: Losses {
            sent: Some(1_349_527),
            received: 1_349_500,
            duplicates: 0,
            reordered: 2,
            network: Some(0),
            nic_ring: None,
            stack: [("NO_SOCKET".to_owned(), 3)].into(),
            socket_buffer: Some(24),
            ours: 0,
            unaccounted: 0,
        },
        layers: vec![
            LayerSummary { layer: Layer::Source, stamped: 1_349_500, delta_t: distribution(1_349_499, 7_410, 61_200) },
            LayerSummary { layer: Layer::Receive, stamped: 1_349_500, delta_t: distribution(99_999, 7_410, 240_000) },
            LayerSummary {
                layer: Layer::Application,
                stamped: 1_349_500,
                delta_t: distribution(1_349_499, 7_410, 412_000),
            },
        ],
        stages: vec![
            stage(Layer::Schedule, Layer::Source, 90, 210, 0.004),
            stage(Layer::Source, Layer::Receive, 1_800, 2_400, 0.05),
            stage(Layer::Receive, Layer::Application, 900, 48_000, 0.946),
        ],
        lateness: Lateness {
            threshold_ns: 14_820,
            typical_path_ns: 2_700,
            packets: 2_311,
            time_ns: 61_000_000,
            distribution: distribution(1_349_500, 110, 405_000),
        },
        causes: causes(),
        unexplained: Unexplained {
            time_ns: 3_172_000,
            share: 0.052,
            packets: 40,
            worst_ns: 9_800,
            example_seq: Some(99_120),
            note: "Hypervisor or hardware, or a class of event that was not recorded (see \"blind to\").".into(),
        },
        probe_cost: Some(ProbeCost { per_packet_ns: 412.0, interval_ns: (371.5, 455.2), blocks: 20 }),
        far_source: None,
        tier: "tracefs".into(),
        tier_reason: Some("BPF needs CAP_BPF and CAP_PERFMON; run: sudo setcap cap_bpf,cap_perfmon+ep quaver".into()),
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
