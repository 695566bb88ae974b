use super::series::{autocorrelation, correlation, ranks};
use super::*;
use proptest::prelude::*;
use quaver_analysis::moments::mean_and_variance;
use quaver_analysis::order::shuffled_rounds;
use quaver_analysis::rounds::{Rounds, interval};

#[test]
fn moments_of_one_to_two_hundred() {
    let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
    let moments = Moments::of(&mut values, 0.5);
    assert_eq!((moments.count, moments.mean_ns, moments.variance_ns2), (200, 100.0, 3_333.25));
    // 3 to 198 are left: 196 whole numbers, whose variance is (196² - 1) / 12.
    assert_eq!((moments.trimmed_mean_ns, moments.trimmed_variance_ns2), (100.0, 38_415.0 / 12.0));
    let quantiles = (moments.min_ns, moments.p50_ns, moments.p99_ns, moments.max_ns);
    assert_eq!(quantiles, (0.5, 99.5, 197.5, 199.5));
    assert_eq!(Moments::of(&mut [], 3.0), Moments::default());
}

#[test]
fn each_round_has_every_arm_once_in_an_order_of_its_own() {
    let blocks = shuffled_rounds(5, 40, 7);
    assert_eq!(blocks.len(), 200);
    for round in blocks.chunks(5) {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
    }
    assert_eq!(blocks, shuffled_rounds(5, 40, 7), "by seed");
    assert_ne!(blocks, shuffled_rounds(5, 40, 8));
    let firsts = blocks.chunks(5).filter(|round| round[0] == 0).count();
    assert!((1..=20).contains(&firsts), "no arm has a fixed place: {firsts}");
}

#[test]
fn autocorrelation_of_known_series() {
    let alternating: Vec<f64> = (0..100).map(|at| if at % 2 == 0 { 1.0 } else { 3.0 }).collect();
    assert_eq!(autocorrelation(&[alternating], 3), [-1.0, 1.0, -1.0]);
    // Two runs are not joined: 1 → 3 from one to the other would be a pair.
    assert_eq!(autocorrelation(&[vec![1.0, 1.0], vec![3.0, 3.0]], 2), [1.0]);
    assert!(autocorrelation(&[vec![5.0; 10]], 3).is_empty(), "nothing varies");
    assert!(autocorrelation(&[], 3).is_empty());
}

#[test]
fn one_interruption_does_not_decide_an_autocorrelation() {
    let mut values: Vec<f64> = (0..200).map(|at| if at % 2 == 0 { 1.0 } else { 3.0 }).collect();
    values[100] = 1e9;
    let found = autocorrelation(&[values], 1);
    assert!((-1.0..-0.95).contains(&found[0]), "{found:?}");
}

#[test]
fn correlations_of_known_pairs() {
    assert_eq!(ranks(&[30.0, 10.0, 20.0, 20.0]), [4.0, 1.0, 2.5, 2.5]);
    let cubes: Vec<(f64, f64)> = (1..=20).map(|x| (f64::from(x), f64::from(x).powi(3))).collect();
    let found = correlation(&cubes).unwrap();
    assert!(
        (found.spearman - 1.0).abs() < 1e-12 && found.pearson < 0.95,
        "monotone, not straight: {found:?}"
    );
    let down: Vec<(f64, f64)> = cubes.iter().map(|(x, y)| (*x, -y)).collect();
    assert!((correlation(&down).unwrap().spearman + 1.0).abs() < 1e-12);
    assert!(correlation(&cubes[..9]).is_none());
    assert!(correlation(&[(1.0, 2.0); 20]).is_none(), "nothing varies");
}

fn rounds_of(means: &[f64]) -> Rounds {
    let values: Vec<(usize, f64)> = means
        .iter()
        .enumerate()
        .flat_map(|(round, mean)| [(round, mean - 1.0), (round, *mean), (round, mean + 1.0)])
        .collect();
    Rounds::of(&values, means.len())
}

#[test]
fn intervals_come_from_whole_rounds() {
    let steady = rounds_of(&[10.0; 8]);
    let mean = |sums: &[quaver_analysis::rounds::Sums]| sums[0].mean();
    assert_eq!(interval(&[&steady.all], mean), Some(Interval { low: 10.0, high: 10.0 }));
    assert_eq!(interval(&[&steady.all[..3]], mean), None, "three rounds tell nothing");
    let drifting = rounds_of(&[1.0, 5.0, 9.0, 13.0, 17.0, 21.0]);
    let found = interval(&[&drifting.all], mean).unwrap();
    assert!(found.low < 8.0 && found.high > 14.0, "rounds that differ widen it: {found:?}");
    let ratio = |sums: &[quaver_analysis::rounds::Sums]| sums[0].mean() / sums[1].mean();
    let doubled = rounds_of(&[2.0, 10.0, 18.0, 26.0, 34.0, 42.0]);
    let found = interval(&[&doubled.all, &drifting.all], ratio).unwrap();
    assert_eq!((found.low, found.high), (2.0, 2.0), "rounds are drawn together");
    assert_eq!(Verdict::of(Some(found), 1.0), Verdict::Larger);
    assert_eq!(Verdict::of(Some(Interval { low: 0.9, high: 1.2 }), 1.0), Verdict::NoDifference);
    assert_eq!(Verdict::of(Some(Interval { low: 0.2, high: 0.9 }), 1.0), Verdict::Smaller);
    assert_eq!(Verdict::of(None, 1.0), Verdict::Unknown);
}

#[test]
fn densities_hold_every_value_once() {
    let density = LogDensity::of(&[-1.0, 0.0, 1.0, 1.05, 10.0, 1_000.0]);
    let total: f64 = density.not_positive + density.bins.iter().map(|(_, share)| share).sum::<f64>();
    assert!((total - 1.0).abs() < 1e-12);
    assert_eq!((density.not_positive, density.bins.len()), (2.0 / 6.0, 3), "1 and 1.05 share a bin");
    assert_eq!((density.bins[0], density.bins[2].0), ((1.0, 2.0 / 6.0), 1_000.0));
    let sets = [(0..1_000).map(f64::from).collect::<Vec<_>>(), vec![-5_000.0, 500.0, 5_000.0]];
    let densities = Density::of_all(&sets);
    for density in &densities {
        let total = density.below + density.above + density.shares.iter().sum::<f64>();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
    }
    assert_eq!(densities[0].from_ns, densities[1].from_ns);
    assert!((densities[1].below - 1.0 / 3.0).abs() < 1e-12 && (densities[1].above - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn the_papers_ratios() {
    let ratio = |pattern: &str| {
        let paper = Paper::of(pattern).unwrap();
        (format!("{:.2}", paper.mean_ratio()), format!("{:.1}", paper.variance_ratio()))
    };
    assert_eq!(ratio("1"), ("2.66".to_owned(), "46.4".to_owned()));
    assert_eq!(ratio("2"), ("2.45".to_owned(), "21.6".to_owned()));
    assert_eq!(Paper::of("100kpps"), None);
}

const PERIOD: i64 = 1_367_992;

/// A row in user space at 1 GHz: cycles are nanoseconds.
fn row(table: &mut CompareTable, arm: u16, block: u32, position: u32, between: u64) {
    let seq = table.len() as u64;
    table.pattern.push(0);
    table.context.push(0);
    table.arm.push(arm);
    table.block.push(block);
    table.position.push(position);
    table.seq.push(seq);
    table.cpu.push(1);
    table.before_cycles.push(seq * PERIOD as u64);
    table.between_cycles.push(between);
    // Late by what the stamp took.
    table.stamp_ns.push(if arm == 0 { 0 } else { (seq as i64 + 1) * PERIOD + between as i64 });
    table.bound_ns.push(20);
    table.interrupts_off.push(false);
}

fn facts(arms: &[&str], settle: u32) -> CompareFacts {
    let user = arms.iter().map(|name| UserArmFacts { name: (*name).to_owned(), ..Default::default() });
    CompareFacts {
        cycles_per_second: 1e9,
        patterns: vec![PatternFacts {
            name: "2".to_owned(),
            period_ns: PERIOD as f64,
            settle,
            user: user.collect(),
            ..PatternFacts::default()
        }],
        ..CompareFacts::default()
    }
}

/// Blocks of 12 packets, five starts of two rounds, each arm twice in each: checkpoints 15 ns; the clock 45 and 65 in turn;
/// batch 25 and 27 in turn. The first two packets of a block take ten times as long.
fn measured() -> (CompareTable, CompareFacts) {
    made(|_, arm, odd| [15, 45 + 20 * odd, 25 + 2 * odd][arm])
}

/// As [`measured`], of these nanoseconds by (block, arm, 1 at odd places).
fn made(ns: impl Fn(u32, usize, u64) -> u64) -> (CompareTable, CompareFacts) {
    let mut table = CompareTable::default();
    for block in 0..60u32 {
        let arm = (block + block / 6) % 3;
        for position in 0..12 {
            let ns = ns(block, arm as usize, u64::from(position % 2));
            row(&mut table, arm as u16, block, position, if position < 2 { 10 * ns } else { ns });
        }
    }
    let mut facts = facts(&["checkpoints", "inline-clock", "batch"], 2);
    facts.patterns[0].user_blocks = vec![12; 5];
    (table, facts)
}

fn ratio_of(table: &CompareTable, facts: &CompareFacts) -> Ratio {
    summarize(table, facts).patterns[0].ratios[0].clone()
}

#[test]
fn a_comparison_in_user_space_is_exact() {
    let (table, facts) = measured();
    let summary = summarize(&table, &facts);
    let pattern = &summary.patterns[0];
    assert_eq!((pattern.checkpoints.count, pattern.checkpoints.mean_ns), (200, 15.0));
    let names: Vec<&str> = pattern.user.iter().map(|arm| arm.figures.name.as_str()).collect();
    assert_eq!(names, ["inline-clock", "batch"]);
    let batch = &pattern.user[1].figures;
    assert_eq!((batch.overhead.count, batch.overhead.mean_ns, batch.overhead.variance_ns2), (200, 11.0, 1.0));
    assert_eq!((batch.below_25_ns, pattern.user[0].figures.below_25_ns), (200, 0));
    assert_eq!((pattern.user[1].bound_p50_ns, batch.refused), (Some(20), None));
    assert_eq!(batch.mean_interval, Some(Interval { low: 11.0, high: 11.0 }));
    assert_eq!(&batch.autocorrelation[..3], [-1.0, 1.0, -1.0]);
    // Each stamp is late by its own overhead, so the time since the one before goes with it exactly.
    let correlation = batch.with_interarrival.as_ref().unwrap();
    assert_eq!((correlation.pairs, correlation.spearman > 0.8), (200, true));
    assert_eq!(batch.interarrival.as_ref().unwrap().count, 200);
    let ratio = &pattern.ratios[0];
    assert_eq!((ratio.of.as_str(), ratio.to.as_str()), ("inline-clock", "batch"));
    assert_eq!((ratio.mean.result(), ratio.variance.result()), (Some(40.0 / 11.0), Some(100.0)));
    assert_eq!((ratio.mean.verdict, ratio.variance.verdict), (Verdict::Larger, Verdict::Larger));
    let same: Vec<Option<f64>> = pattern.same.iter().map(|one| one.mean.ratio).collect();
    assert_eq!(same, [Some(1.0); 3], "every arm against itself, the checkpoints too");
    assert_eq!(pattern.paper.map(|paper| paper.table), Some("II"));
    assert!(pattern.kernel.is_none());
}

#[test]
fn conversion_counts_wherever_it_is_done() {
    let (table, mut facts) = measured();
    facts.patterns[0].user[1].later_ns = vec![0.0; 5];
    facts.patterns[0].user[2].later_ns = vec![29.0; 5];
    let ratio = ratio_of(&table, &facts);
    assert_eq!((ratio.mean.result(), ratio.whole.unwrap().result()), (Some(40.0 / 11.0), Some(1.0)));
    // A cost that differs from start to start widens the interval.
    facts.patterns[0].user[2].later_ns = vec![0.0, 0.0, 29.0, 100.0, 200.0];
    let whole = ratio_of(&table, &facts).whole.unwrap();
    assert!(whole.result().is_none() && whole.refusals[0].contains("factor of two"), "{whole:?}");
}

#[test]
fn ways_to_convert_are_compared_with_what_they_cost_later() {
    let (table, mut facts) = measured();
    let pattern = &mut facts.patterns[0];
    for (arm, (name, later_ns)) in
        pattern.user.iter_mut().zip([("checkpoints", 0.0), ("inline-cycles", 1.0), ("batch", 6.0)])
    {
        (arm.name, arm.later_ns) = (name.to_owned(), vec![later_ns; 5]);
    }
    let found = &summarize(&table, &facts).patterns[0].conversions;
    assert_eq!(found.len(), 1, "an arm that took no part is left out");
    assert_eq!((found[0].hot.ns, found[0].whole.ns), (-29.0, -24.0));
    assert_eq!((found[0].hot.verdict, found[0].whole.verdict), (Verdict::Smaller, Verdict::Smaller));
    facts.patterns[0].user[2].later_ns = vec![60.0; 5];
    let found = &summarize(&table, &facts).patterns[0].conversions[0];
    assert_eq!((found.hot.verdict, found.whole.verdict), (Verdict::Smaller, Verdict::Larger));
}

#[test]
fn four_starts_or_starts_that_disagree_give_no_result() {
    let (table, mut facts) = measured();
    facts.patterns[0].user_blocks = vec![12, 12, 12, 24];
    let ratio = ratio_of(&table, &facts);
    assert_eq!((ratio.mean.interval, ratio.mean.result()), (None, None));
    assert_eq!(ratio.mean.refusals, ["4 of at least 5 starts of the program"]);
    // The clock takes 45, 65, 85, 105 and 125 ns: rounds within a start agree to the nanosecond.
    let (table, facts) = made(|block, arm, _| [15, 45 + 20 * u64::from(block / 12), 26][arm]);
    let ratio = ratio_of(&table, &facts);
    let interval = ratio.mean.interval.unwrap();
    assert!(interval.low < 4.0 && interval.high > 9.0, "{interval:?}");
    assert!(
        ratio.mean.refusals.iter().any(|said| said.contains("factor of two")),
        "{:?}",
        ratio.mean.refusals
    );
}

/// The halves of an arm take turns at going first, so that its second block in even rounds and its first in odd ones
/// belong together.
fn in_second_half(block: u32) -> bool {
    (block % 6 >= 3) != (block / 6 % 2 == 1)
}

#[test]
fn an_arm_that_differs_from_itself_takes_its_ratios_away() {
    for broken in 0..3 {
        let (table, facts) = made(|block, arm, odd| {
            let more = if arm == broken && in_second_half(block) { 20 } else { 0 };
            [15, 85 + odd, 55 + odd][arm] + more
        });
        let summary = summarize(&table, &facts);
        let pattern = &summary.patterns[0];
        let refusals = &pattern.ratios[0].mean.refusals;
        let name = ["checkpoints", "inline-clock", "batch"][broken];
        assert!(
            refusals.iter().any(|said| said.starts_with(&format!("{name} against itself"))),
            "{refusals:?}"
        );
        assert_eq!(pattern.same[broken].mean.verdict, Verdict::Smaller, "{name}");
    }
    // What changes with a round's age alone hits both halves alike.
    let (table, facts) = made(|block, arm, odd| [15, 85 + odd, 55 + odd][arm] + u64::from(block % 6 >= 3));
    assert_eq!(ratio_of(&table, &facts).mean.refusals, Vec::<String>::new());
}

#[test]
fn a_stamp_that_takes_less_than_nothing_is_refused() {
    let (table, facts) = made(|_, arm, odd| [200, 300 + odd, 30 + odd][arm]);
    let pattern = &summarize(&table, &facts).patterns[0];
    assert_eq!(pattern.user[1].figures.refused, Some("less than the checkpoints alone: impossible"));
    let mean = &pattern.ratios[0].mean;
    assert_eq!((mean.ratio, mean.result()), (None, None));
    assert!(mean.refusals.iter().any(|said| said.starts_with("overhead of batch")), "{:?}", mean.refusals);
    // Both halves are as far below the checkpoints, yet no stamp has a ratio of two negative costs.
    let same = &pattern.same[2].mean;
    assert_eq!((same.ratio, same.interval, same.verdict), (None, None, Verdict::Unknown));
    assert!(mean.refusals.iter().any(|said| said == "batch could not be compared with itself"));
    assert_eq!(pattern.same[1].mean.verdict, Verdict::NoDifference, "the other is as before");
}

#[test]
fn an_arm_whose_overhead_may_be_nothing_cannot_be_compared_with_itself() {
    // 5 ns above the checkpoints in two starts, 5 ns below in three.
    let (table, facts) = made(|block, arm, odd| [20, 85 + odd, if block < 24 { 25 } else { 15 } + odd][arm]);
    let same = &summarize(&table, &facts).patterns[0].same;
    assert_eq!((same[2].mean.interval, same[2].mean.verdict), (None, Verdict::Unknown));
    assert_eq!(same[0].mean.verdict, Verdict::NoDifference);
    assert_eq!(same[1].mean.verdict, Verdict::NoDifference);
}

#[test]
fn starts_are_numbered_one_behind_the_other() {
    let (mut table, mut facts) = (CompareTable::default(), CompareFacts::default());
    let (all, whole) = measured();
    for start in 0..5u32 {
        let mut part = CompareTable::default();
        for row in (0..all.len()).filter(|row| all.block[*row] / 12 == start) {
            self::row(
                &mut part,
                all.arm[row],
                all.block[row] % 12,
                all.position[row],
                all.between_cycles[row],
            );
        }
        let mut its = self::facts(&["checkpoints", "inline-clock", "batch"], 2);
        its.patterns[0].user_blocks = vec![12];
        for (at, arm) in its.patterns[0].user.iter_mut().enumerate() {
            (arm.stamps, arm.resolve_ns, arm.later_ns) =
                (100, f64::from(start) + at as f64, vec![f64::from(start)]);
        }
        facts.join(&mut table, its, part);
    }
    assert_eq!((&table.block, &table.between_cycles), (&all.block, &all.between_cycles));
    let pattern = &facts.patterns[0];
    assert_eq!((&pattern.user_blocks, facts.patterns.len()), (&whole.patterns[0].user_blocks, 1));
    let clock = &pattern.user[1];
    assert_eq!((clock.stamps, clock.resolve_ns), (500, 3.0));
    assert_eq!(clock.later_ns, [0.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_lost_packet_makes_no_time_between_two() {
    let (mut table, facts) = measured();
    let batch = |table: &CompareTable| {
        summarize(table, &facts).patterns[0].user[1].figures.with_interarrival.as_ref().unwrap().pairs
    };
    let row = (0..table.len()).find(|row| table.arm[*row] == 2 && table.position[*row] == 6).unwrap();
    table.seq[row..].iter_mut().for_each(|seq| *seq += 1);
    assert_eq!(batch(&table), 199);
}

fn point(arm: &str, frame_bytes: u32, round: u32, received: u64) -> LossPoint {
    LossPoint {
        sweep: Sweep::Size,
        placement: Placement::Together,
        arm: arm.to_owned(),
        round,
        frame_bytes,
        gap_bytes: 12,
        achieved_ns: 2_000.0,
        sent: 1_000,
        received,
        socket_drops: Some(990 - received),
        backlog_drops: Some(8),
    }
}

#[test]
fn losses_add_up_and_the_same_loss_is_no_difference() {
    let mut points = Vec::new();
    for (at, size) in [64, 512, 1_500].into_iter().enumerate() {
        for round in 0..3 {
            let received = 900 - 10 * at as u64 - u64::from(round);
            points.push(point("batch", size, round, received));
            points.push(point("inline-clock", size, round, received));
            points.push(point("threaded", size, round, received - 100));
        }
    }
    let summary = LossSummary::of(&points);
    let clock = &summary.totals[0];
    assert_eq!(clock.arm, "inline-clock", "whichever came first");
    assert_eq!((clock.sent, clock.lost, clock.at_socket, clock.at_backlog), (9_000, 999, 909, 72));
    assert_eq!(clock.unaccounted, 18);
    let found: Vec<(&str, Verdict)> =
        summary.differences.iter().map(|one| (one.to.as_str(), one.verdict)).collect();
    assert_eq!(found, [("batch", Verdict::NoDifference), ("threaded", Verdict::Smaller)]);
    assert!((summary.differences[1].share + 0.1).abs() < 1e-12);
}

#[test]
fn nothing_recorded_is_no_failure() {
    let summary = summarize(&CompareTable::default(), &facts(&["checkpoints", "inline-clock"], 4));
    assert_eq!(summary.patterns[0].user[0].figures.overhead, Moments::default());
    assert!(summarize(&CompareTable::default(), &CompareFacts::default()).patterns.is_empty());
}

proptest! {
    /// Sums by rounds give what the values give.
    #[test]
    fn rounds_agree_with_their_values(values in prop::collection::vec((0usize..6, 0.0f64..1_000.0), 6..200)) {
        let rounds = Rounds::of(&values, 6);
        let total = quaver_analysis::rounds::Sums::total(&rounds.all);
        let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let (mean, variance) = mean_and_variance(&plain);
        prop_assert!((total.mean() - mean).abs() < 1e-6);
        prop_assert!((total.variance() - variance).abs() < 1e-3);
    }
}

mod kernel;
