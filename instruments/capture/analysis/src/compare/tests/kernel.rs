//! Stamps in the kernel: made-up series of known moments, correlations and densities, and a plain twin.

use super::super::*;
use super::{PERIOD, facts};
use proptest::prelude::*;

const ARMS: [&str; 4] = ["off", "stamping", "second-cycles", "second-mono"];

/// A packet in the kernel at 1 GHz: cycles are nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Packet {
    arm: u16,
    block: u32,
    position: u32,
    cpu: u16,
    before_cycles: u64,
    between_cycles: u64,
}

fn table_of(packets: &[Packet]) -> CompareTable {
    let mut table = CompareTable::default();
    for (at, packet) in packets.iter().enumerate() {
        table.pattern.push(0);
        table.context.push(1);
        table.arm.push(packet.arm);
        table.block.push(packet.block);
        table.position.push(packet.position);
        table.seq.push(at as u64);
        table.cpu.push(packet.cpu);
        table.before_cycles.push(packet.before_cycles);
        table.between_cycles.push(packet.between_cycles);
        table.stamp_ns.push(0);
        table.bound_ns.push(0);
        table.interrupts_off.push(false);
    }
    table
}

fn kernel_facts(settle: u32) -> CompareFacts {
    let mut facts = facts(&[], settle);
    facts.patterns[0].kernel = ARMS.map(str::to_owned).to_vec();
    facts.patterns[0].kernel_blocks = vec![8; 5];
    facts
}

fn kernel_of(packets: &[Packet], settle: u32) -> KernelSummary {
    summarize(&table_of(packets), &kernel_facts(settle)).patterns[0].kernel.clone().unwrap()
}

/// Five starts of one round with the four arms twice, twelve packets a block, of which the first two take ten times as long. Values
/// alternate: 198 and 202 alone, 230 and 250 with a stamp, 298 and 302 with a record, 290 and 310 with one converted.
/// A packet comes as much later than its period as it takes more than the mean of its arm.
fn measured() -> Vec<Packet> {
    let mut packets = Vec::new();
    for block in 0..40u32 {
        let arm = ((block + block / 4) % 4) as u16;
        let (mean, half) = [(200, 2), (240, 10), (300, 2), (300, 10)][usize::from(arm)];
        let mut now = 1_000_000_000 * u64::from(block + 1);
        for position in 0..12u32 {
            let ns = if position % 2 == 0 { mean - half } else { mean + half };
            now += PERIOD as u64 + ns - mean;
            let between_cycles = if position < 2 { 10 * ns } else { ns };
            packets.push(Packet { arm, block, position, cpu: 0, before_cycles: now, between_cycles });
        }
    }
    packets
}

fn exactly(value: f64) -> Option<Interval> {
    Some(Interval { low: value, high: value })
}

#[test]
fn the_arms_are_compared_by_differences() {
    let mut table = table_of(&measured());
    table.interrupts_off[..120].fill(true);
    let kernel = summarize(&table, &kernel_facts(2)).patterns[0].kernel.clone().unwrap();
    let found: Vec<(Option<f64>, Verdict)> =
        kernel.differences.iter().map(|one| (one.ns, one.verdict)).collect();
    assert_eq!(
        found,
        [(Some(40.0), Verdict::Larger), (Some(100.0), Verdict::Larger), (Some(0.0), Verdict::NoDifference)],
        "records that cost the same do not differ"
    );
    assert_eq!((kernel.between.len(), kernel.between[0].1.mean_ns), (4, 200.0));
    assert_eq!(kernel.interrupts_off_share, 0.25);
}

#[test]
fn means_and_variances_are_exact_with_the_checkpoints_taken_off() {
    let kernel = kernel_of(&measured(), 2);
    let names: Vec<&str> = kernel.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["stamping", "second-cycles", "second-mono"]);
    let stamping = &kernel.arms[0];
    assert_eq!((stamping.overhead.count, stamping.overhead.mean_ns), (100, 40.0), "100 of 120 have settled");
    assert_eq!((stamping.overhead.variance_ns2, stamping.overhead.trimmed_variance_ns2), (100.0, 100.0));
    assert_eq!((stamping.mean_interval, stamping.trimmed_mean_interval), (exactly(40.0), exactly(40.0)));
    assert_eq!(stamping.variance_interval, exactly(100.0));
    assert_eq!(stamping.trimmed_variance_interval, exactly(100.0));
    // 100 ns² with the stamp, 4 ns² without.
    assert_eq!((stamping.added_variance_ns2, stamping.added_variance_interval), (Some(96.0), exactly(96.0)));
    assert_eq!((stamping.below_25_ns, kernel.arms[1].added_variance_ns2), (0, Some(0.0)));
    let mono = &kernel.ratios[0];
    assert_eq!((mono.of.as_str(), mono.to.as_str()), ("second-mono", "second-cycles"));
    assert_eq!((mono.mean.result(), mono.mean.verdict), (Some(1.0), Verdict::NoDifference));
    assert_eq!((mono.variance.result(), mono.variance.verdict), (Some(25.0), Verdict::Larger));
    assert!(mono.whole.is_none(), "the kernel's later conversion is not measured");
    assert_eq!(kernel.same.iter().map(|one| one.mean.ratio).collect::<Vec<_>>(), [Some(1.0); 4]);
    let bare = &kernel.ratios[1];
    assert_eq!(
        (bare.of.as_str(), bare.mean.result(), bare.mean.verdict),
        ("stamping", Some(0.4), Verdict::Smaller)
    );
    assert_eq!(bare.mean.interval, exactly(0.4));
}

#[test]
fn overheads_go_on_and_go_with_arrivals_as_made() {
    let kernel = kernel_of(&measured(), 2);
    for arm in &kernel.arms {
        assert_eq!(arm.autocorrelation.len(), 9, "ten packets of a block have settled: {}", arm.name);
        for (at, r) in arm.autocorrelation.iter().enumerate() {
            assert_eq!(*r, if at % 2 == 0 { -1.0 } else { 1.0 }, "{} lag {}", arm.name, at + 1);
        }
        let with = arm.with_interarrival.as_ref().unwrap();
        assert_eq!(with.pairs, 100, "the first that settled has one before it");
        assert!((with.pearson - 1.0).abs() < 1e-9 && (with.spearman - 1.0).abs() < 1e-9, "{with:?}");
    }
    let between = kernel.arms[0].interarrival.as_ref().unwrap();
    assert_eq!((between.count, between.mean_ns, between.min_ns, between.max_ns), (100, 0.0, -10.0, 10.0));
}

#[test]
fn densities_stand_on_common_bins_and_hold_every_packet() {
    let kernel = kernel_of(&measured(), 2);
    let names: Vec<&str> = kernel.densities.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ARMS);
    for (name, density) in &kernel.densities {
        let total = density.below + density.above + density.shares.iter().sum::<f64>();
        assert!((total - 1.0).abs() < 1e-9, "{name}: {total}");
        assert_eq!((density.from_ns, density.bin_ns), (-2.0, 1.12), "-2 to 110 in a hundred bins");
    }
    let off = &kernel.densities[0].1;
    assert!((off.shares[0] - 0.5).abs() < 1e-9 && (off.shares[3] - 0.5).abs() < 1e-9, "-2 and 2");
    let bins: f64 = kernel.arms[0].density.bins.iter().map(|(_, share)| share).sum();
    assert!((bins - 1.0).abs() < 1e-9, "30 and 50 lie above nothing");
}

/// The kernel's ring of one CPU is read after that of another; packets are in order all the same, and a CPU's first ones
/// do not cut the series of the others.
#[test]
fn packets_of_two_cpus_are_put_in_the_order_in_which_they_came() {
    let one = measured();
    let mut two = one.clone();
    for packet in &mut two {
        packet.cpu = (packet.position % 2) as u16;
        packet.position /= 2;
    }
    two.sort_by_key(|packet| (packet.block, packet.cpu));
    let (one, two) = (kernel_of(&one, 2), kernel_of(&two, 1));
    assert_eq!(one.arms, two.arms);
    assert_eq!(one.densities, two.densities);
}

#[test]
fn without_checkpoints_nothing_is_taken_off_and_added_variance_is_unknown() {
    let stamping: Vec<Packet> = measured().into_iter().filter(|packet| packet.arm == 1).collect();
    let kernel = kernel_of(&stamping, 2);
    let arm = &kernel.arms[0];
    assert_eq!(
        (arm.overhead.mean_ns, arm.added_variance_ns2, arm.added_variance_interval),
        (240.0, None, None)
    );
    assert!(kernel.ratios.is_empty() && kernel.differences.is_empty());
    let none = &kernel.arms[1];
    assert_eq!((none.overhead.count, none.variance_interval, none.mean_interval), (0, None, None));
}

#[test]
fn a_cost_below_zero_is_refused() {
    let mut packets = measured();
    // The stamp takes 70 ns less than no stamp.
    packets.iter_mut().filter(|one| one.arm == 1).for_each(|one| one.between_cycles -= 110);
    let kernel = kernel_of(&packets, 2);
    let stamp = &kernel.differences[0];
    assert_eq!((stamp.ns, stamp.verdict), (None, Verdict::Smaller));
    assert!(kernel.arms[0].refused.is_some() && kernel.arms[1].refused.is_none());
    assert_eq!(kernel.differences[1].ns, Some(100.0), "others stay");
}

#[test]
fn user_space_packets_are_no_part_of_it() {
    let mut table = table_of(&measured());
    table.context[..48].fill(0);
    let kernel = summarize(&table, &kernel_facts(2)).patterns[0].kernel.clone().unwrap();
    assert_eq!(kernel.arms.iter().map(|arm| arm.overhead.count).sum::<u64>(), 3 * 90);
}

/// Our module's arms: 200 ns alone, 240 with the clock, 220 with raw cycles, in five starts of a round; converting takes 30 ns more.
fn by_module() -> (CompareTable, CompareFacts) {
    let mut packets = Vec::new();
    for block in 0..30u32 {
        let arm = ((block + block / 3) % 3) as u16;
        for position in 0..12u32 {
            let between_cycles = [200, 240, 220][usize::from(arm)] + u64::from(position % 2);
            let before_cycles = 1_000_000 * u64::from(12 * block + position);
            packets.push(Packet { arm, block, position, cpu: 0, before_cycles, between_cycles });
        }
    }
    let mut table = table_of(&packets);
    table.context.fill(2);
    table.interrupts_off.fill(true);
    let mut facts = facts(&[], 2);
    let arm = |(name, ns): (&str, f64)| UserArmFacts {
        name: name.to_owned(),
        converter_ns: ns,
        later_ns: vec![ns; 5],
        ..UserArmFacts::default()
    };
    facts.patterns[0].module_arms =
        [("off", 0.0), ("module-clock", 0.0), ("module-raw", 30.0)].map(arm).into();
    facts.patterns[0].module_blocks = vec![6; 5];
    facts.absent.insert("stamping".to_owned(), "no right".to_owned());
    (table, facts)
}

#[test]
fn the_modules_arms_are_the_papers_two_and_conversion_counts() {
    let (table, facts) = by_module();
    let pattern = &summarize(&table, &facts).patterns[0];
    assert!(pattern.kernel.is_none(), "nothing was between tracepoints");
    let module = pattern.module.as_ref().unwrap();
    assert_eq!(module.interrupts_off_share, 1.0);
    let ratio = &module.ratios[0];
    assert_eq!((ratio.of.as_str(), ratio.to.as_str()), ("module-clock", "module-raw"));
    assert_eq!((ratio.mean.result(), ratio.mean.interval), (Some(2.0), exactly(2.0)));
    let whole = ratio.whole.as_ref().unwrap();
    assert_eq!((whole.result(), whole.verdict), (Some(0.8), Verdict::Smaller), "40 over 20 and 30");
    let costs: Vec<Option<f64>> = module.differences.iter().map(|one| one.ns).collect();
    assert_eq!(costs, [Some(40.0), Some(20.0), Some(20.0)]);
    assert_eq!(module.same.iter().map(|one| one.mean.ratio).collect::<Vec<_>>(), [Some(1.0); 3]);
}

#[test]
fn each_way_has_a_figure_or_the_reason_why_not() {
    let (table, facts) = by_module();
    let pattern = &summarize(&table, &facts).patterns[0];
    let of = |arm: &str| pattern.ways.iter().find(|way| way.arm == arm).unwrap();
    let raw = of("module-raw");
    assert_eq!((raw.place, raw.ns, raw.later_ns, &raw.absent), ("kernel", Some(20.0), Some(30.0), &None));
    assert_eq!((of("module-clock").ns, of("module-clock").later_ns), (Some(40.0), Some(0.0)));
    for (arm, why) in
        [("stamping", "no right"), ("bpf-ktime", "not measured"), ("inline-clock", "not measured")]
    {
        let way = of(arm);
        assert_eq!((way.ns, way.later_ns, way.absent.as_deref()), (None, None, Some(why)), "{arm}");
    }
    // One that is measured and may be nothing has no figure either.
    let (mut table, facts) = by_module();
    let raw = (0..table.len()).filter(|row| table.arm[*row] == 2).collect::<Vec<_>>();
    raw.iter().for_each(|row| table.between_cycles[*row] -= 30);
    let refused = &summarize(&table, &facts).patterns[0].ways[7];
    assert!(refused.ns.is_none() && refused.absent.as_ref().unwrap().contains("impossible"), "{refused:?}");
    assert_eq!(pattern.ways.len(), 8);
}

/// Plainly: the values of an arm, packet by packet, in the order of arrival in each block.
fn plain_blocks(packets: &[Packet], arm: u16) -> Vec<Vec<Packet>> {
    let mut blocks = Vec::new();
    for block in 0..40 {
        let mut found: Vec<Packet> =
            packets.iter().copied().filter(|one| one.block == block && one.arm == arm).collect();
        found.sort_by_key(|one| one.before_cycles);
        blocks.push(found);
    }
    blocks
}

fn plain_mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn plain_variance(values: &[f64]) -> f64 {
    let mean = plain_mean(values);
    plain_mean(&values.iter().map(|value| (value - mean) * (value - mean)).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Below a hundred packets an arm nothing is trimmed, so that plain sums have to agree.
    #[test]
    fn a_plain_twin_agrees(made in prop::collection::vec((100u64..5_000, 1u64..3_000_000), 40 * 8)) {
        let mut packets = measured();
        packets.retain(|packet| packet.position < 8);
        let mut now = 0;
        for (packet, (between, gap)) in packets.iter_mut().zip(&made) {
            now += gap;
            (packet.between_cycles, packet.before_cycles) = (*between, now);
        }
        let kernel = kernel_of(&packets, 0);
        let values = |arm: u16| -> Vec<f64> {
            plain_blocks(&packets, arm).iter().flatten().map(|one| one.between_cycles as f64).collect()
        };
        let off = values(0);
        for (at, arm) in kernel.arms.iter().enumerate() {
            let (number, near) = (at as u16 + 1, |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0));
            let all = values(number);
            prop_assert!(near(arm.overhead.mean_ns, plain_mean(&all) - plain_mean(&off)));
            prop_assert!(near(arm.overhead.variance_ns2, plain_variance(&all)));
            prop_assert!(near(arm.added_variance_ns2.unwrap(), plain_variance(&all) - plain_variance(&off)));
            let (mean, variance) = (plain_mean(&all), plain_variance(&all));
            let mut products = Vec::new();
            let (mut overheads, mut gaps) = (Vec::new(), Vec::new());
            for pair in plain_blocks(&packets, number).iter().flat_map(|block| block.windows(2)) {
                let [first, second] = [pair[0], pair[1]].map(|one| one.between_cycles as f64);
                products.push((first - mean) * (second - mean));
                overheads.push(second);
                gaps.push((pair[1].before_cycles - pair[0].before_cycles) as f64 - PERIOD as f64);
            }
            prop_assert!(near(arm.autocorrelation[0], plain_mean(&products) / variance));
            let (over, gap) = (plain_mean(&overheads), plain_mean(&gaps));
            let both = overheads.iter().zip(&gaps).map(|(a, b)| (a - over) * (b - gap));
            let pearson = plain_mean(&both.collect::<Vec<_>>())
                / (plain_variance(&overheads) * plain_variance(&gaps)).sqrt();
            prop_assert!(near(arm.with_interarrival.as_ref().unwrap().pearson, pearson));
            prop_assert!(near(arm.interarrival.as_ref().unwrap().mean_ns, gap));
        }
    }
}
