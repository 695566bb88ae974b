//! Gaps of noise loops.

use super::scene::{event, thread};
use crate::attribution::{NoiseOptions, Part, analyze_noise};
use crate::model::{Actor, GapTable, NoiseLoop, NoiseRun};
use quaver_abi::record::{EventKind, OffCpu};

fn run() -> NoiseRun {
    NoiseRun {
        threshold_ns: 1_000,
        loops: vec![NoiseLoop {
            cpu: 1,
            actor: Actor { threads: vec![7], cpu: Some(1), ..Actor::default() },
            start_ns: 1_000,
            end_ns: 101_000,
            turns: 5_000,
            shortest_ns: Some(18),
        }],
        gaps: GapTable {
            index: vec![10, 20, 30],
            before_ns: vec![9_900, 29_000, 59_000],
            after_ns: vec![14_200, 41_000, 62_000],
            cpu: vec![1; 3],
        },
        events: vec![
            thread(7, 120, 1, 500, 30_000, OffCpu::Preempted),
            thread(8, 120, 1, 30_000, 40_000, OffCpu::Blocked),
            thread(7, 120, 1, 40_000, 200_000, OffCpu::Unknown),
            event(EventKind::Irq, 1, 10_000, 12_000, 5, 0),
            event(EventKind::Softirq, 1, 12_100, 14_000, 7, 0),
            event(EventKind::Nmi, 1, 13_000, 13_500, 0, 0),
            event(EventKind::Irq, 1, 33_000, 34_000, 5, 0),
            event(EventKind::Irq, 1, 300_000, 301_000, 5, 0),
        ],
        ..NoiseRun::default()
    }
}

#[test]
fn gaps_are_cut_and_counted() {
    let mut run = run();
    run.names.task = [(8, "hog".to_string())].into();
    let analysis = analyze_noise(&run, &NoiseOptions::default());
    let summary = &analysis.summary;
    let times: Vec<_> = summary
        .causes
        .iter()
        .map(|cause| (cause.source.as_str(), cause.time_ns - cause.entry_exit_ns, cause.entry_exit_ns))
        .collect();
    assert_eq!(
        times,
        [
            ("cfs-preempt", 9_000, 1_000),
            ("dev-irq", 3_000, 200),
            ("sched-softirq", 1_400, 200),
            ("nmi-wd", 500, 0),
        ]
    );
    assert_eq!(summary.unexplained.time_ns, 4_000);
    assert_eq!(summary.noise_ns, 19_300);
    assert_eq!(summary.unexplained.packets, 1);
    assert_eq!(analysis.causes.iter().map(|c| c.is_some()).collect::<Vec<_>>(), [true, true, false]);
    for gap in 0..3 {
        let pieces =
            &analysis.pieces[analysis.first_piece[gap] as usize..analysis.first_piece[gap + 1] as usize];
        let mut cursor = run.gaps.before_ns[gap];
        for piece in pieces {
            assert_eq!(piece.start_ns, cursor);
            assert_eq!(piece.cause.is_none(), piece.part == Part::Unexplained);
            cursor = piece.end_ns;
        }
        assert_eq!(cursor, run.gaps.after_ns[gap]);
    }
}

#[test]
fn counts_follow_the_osnoise_rules() {
    let analysis = analyze_noise(&run(), &NoiseOptions::default());
    let cpu = &analysis.summary.cpus[0];
    assert_eq!((cpu.nmi.count, cpu.nmi.net_ns), (1, 500));
    assert_eq!((cpu.irq.count, cpu.irq.net_ns), (2, 3_000), "the one after the loop's end does not count");
    assert_eq!((cpu.softirq.count, cpu.softirq.net_ns), (1, 1_400));
    assert_eq!((cpu.thread.count, cpu.thread.net_ns, cpu.thread.max_ns), (1, 9_000, 9_000));
    assert_eq!((cpu.hardware.count, cpu.hardware.net_ns), (1, 3_000));
    assert_eq!((cpu.gaps, cpu.noise_ns, cpu.gap.max_ns), (3, 19_300, 12_000));
    assert!((cpu.available_share - 0.807).abs() < 1e-12);
}

#[test]
fn deadlines_that_one_stop_made_late_are_blamed_once() {
    let mut run = run();
    run.gaps = GapTable {
        index: vec![3, 4, 5],
        before_ns: vec![30_000, 34_000, 38_000],
        after_ns: vec![40_100, 40_200, 40_300],
        cpu: vec![1; 3],
    };
    let summary = analyze_noise(&run, &NoiseOptions::default()).summary;
    assert_eq!((summary.noise_ns, summary.cpus[0].noise_ns), (10_300, 10_300));
    assert_eq!(summary.causes[0].time_ns - summary.causes[0].entry_exit_ns, 9_000);
    assert_eq!(summary.cpus[0].gap.max_ns, 10_100);
}
