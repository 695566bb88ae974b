//! A comparison that was made up, for tests of pages.

use quaver_capture_analysis::compare::{
    CompareFacts, CompareSummary, CompareTable, LossPoint, PatternFacts, PeerPoint, Placement, Sweep,
    UserArmFacts, summarize,
};

const ARMS: [&str; 4] = ["checkpoints", "inline-clock", "inline-cycles", "batch"];
const KERNEL: [&str; 4] = ["off", "stamping", "second-cycles", "second-mono"];
const MODULE: [&str; 3] = ["off", "module-clock", "module-raw"];
const PERIOD: i64 = 1_367_992;

/// Five starts of one round in user space and in the kernel, and losses of two pipelines.
pub(crate) fn summary() -> CompareSummary {
    let mut table = CompareTable::default();
    for (context, arms) in [(0u16, 4u32), (1, 4), (2, 3)] {
        for block in 0..10 * arms {
            for position in 0..24u32 {
                let arm = ((block / arms + block) % arms) as u16;
                let odd = u64::from(position % 2);
                let user = [15, 45 + 20 * odd, 40 + 20 * odd, 25 + 2 * odd][usize::from(arm)];
                let kernel = [200, 240, 310, 310][usize::from(arm)] + odd;
                let module = [30, 70, 50][usize::from(arm.min(2))] + odd;
                let seq = table.len() as u64;
                table.pattern.push(0);
                table.context.push(context);
                table.arm.push(arm);
                table.block.push(block);
                table.position.push(position);
                table.seq.push(seq);
                table.cpu.push(1);
                table.before_cycles.push(seq * PERIOD as u64);
                table.between_cycles.push([user, kernel, module][usize::from(context)]);
                let stamped = context == 0 && arm > 0;
                table.stamp_ns.push(if stamped { (seq as i64 + 1) * PERIOD + user as i64 } else { 0 });
                table.bound_ns.push(20);
                table.interrupts_off.push(false);
            }
        }
    }
    let mut summary = summarize(&table, &facts());
    summary.warnings.push("<b>this machine was not quiet</b>".to_owned());
    summary
}

fn facts() -> CompareFacts {
    CompareFacts {
        cycles_per_second: 1e9,
        seed: 7,
        cores: "source and softirq 0, capture 1, converters 0".to_owned(),
        from: Some("192.0.2.9, port 1991".to_owned()),
        patterns: vec![PatternFacts {
            name: "2".to_owned(),
            frame_bytes: 1_368,
            period_ns: PERIOD as f64,
            ifg_bytes: Some(169_631),
            sent: 1_960,
            missed: 3,
            socket_drops: Some(0),
            settle: 4,
            user: ARMS.map(|name| UserArmFacts { name: name.to_owned(), ..UserArmFacts::default() }).to_vec(),
            kernel: KERNEL.map(str::to_owned).to_vec(),
            user_blocks: vec![8; 5],
            kernel_blocks: vec![8; 5],
            module_arms: MODULE
                .map(|name| UserArmFacts {
                    name: name.to_owned(),
                    later_ns: vec![7.0; 5],
                    ..UserArmFacts::default()
                })
                .to_vec(),
            module_blocks: vec![6; 5],
        }],
        loss: [64, 512, 1_368].into_iter().flat_map(points).collect(),
        peers: vec![PeerPoint {
            program: "dumpcap".to_owned(),
            placement: Placement::Apart,
            round: 0,
            frame_bytes: 76,
            sent: 40_000,
            captured: 39_000,
            dropped: 990,
            startup_cpu_ns: 40_000_000,
            steady_sent: 36_000,
            steady_cpu_ns: 36_000_000,
        }],
        cannot: vec!["Interrupts were not disabled around stamps.".to_owned()],
        absent: ["bpf-ktime", "bpf-cycles"].map(|arm| (arm.to_owned(), "no right".to_owned())).into(),
    }
}

fn points(frame_bytes: u32) -> Vec<LossPoint> {
    let point = |arm: &str, placement, sweep| LossPoint {
        sweep,
        placement,
        arm: arm.to_owned(),
        round: 0,
        frame_bytes,
        gap_bytes: 12,
        achieved_ns: 3_000.0,
        sent: 20_000,
        received: if placement == Placement::Together { 15_000 } else { 20_000 },
        socket_drops: Some(if placement == Placement::Together { 4_990 } else { 0 }),
        backlog_drops: Some(0),
    };
    let both = [Placement::Apart, Placement::Together];
    let sweeps = [Sweep::Size, Sweep::Gap];
    both.into_iter()
        .flat_map(|placement| sweeps.map(|sweep| (placement, sweep)))
        .flat_map(|(placement, sweep)| ["inline-clock", "batch"].map(|arm| point(arm, placement, sweep)))
        .collect()
}
