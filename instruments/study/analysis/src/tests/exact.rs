use super::*;

#[test]
fn a_blocks_order_is_a_permutation_and_comes_from_the_seed_alone() {
    let order = block_order(7, 3, 9);
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..9).collect::<Vec<_>>());
    assert_eq!(order, block_order(7, 3, 9));
    assert_ne!(order, block_order(7, 4, 9));
    assert_ne!(order, block_order(8, 3, 9));
    // Each arm comes first about as often as any other: of 7 000 blocks 1 000 each, sd 29.
    let mut firsts = [0i64; 7];
    (0..7_000).for_each(|block| firsts[block_order(1, block, 7)[0]] += 1);
    assert!(firsts.iter().all(|count| (count - 1_000).abs() < 120), "{firsts:?}");
}

#[test]
fn arms_of_one_boot_stand_together_and_boots_come_in_any_order() {
    let boots = [0, 0, 1, 0, 2, 1];
    let (mut firsts, mut arms) = ([0i64; 3], [0i64; 6]);
    for block in 0..6_000 {
        let order = boot_order(3, block, &boots);
        let mut all = order.concat();
        assert!(order.iter().all(|group| group.iter().all(|arm| boots[*arm] == boots[group[0]])));
        firsts[boots[order[0][0]]] += 1;
        arms[order.iter().find(|group| boots[group[0]] == 0).unwrap()[0]] += 1;
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    }
    // 2 000 each, sd 36.5: boots come first as often as each other however many arms they have, and so do arms of a boot.
    assert!(firsts.iter().all(|count| (count - 2_000).abs() < 150), "{firsts:?}");
    assert!([0, 1, 3].iter().all(|arm| (arms[*arm] - 2_000i64).abs() < 150), "{arms:?}");
    assert_eq!(boot_order(7, 3, &[0; 9]), [block_order(7, 3, 9)], "one boot: the order is as it was");
}

#[test]
fn blocks_that_are_needed_grow_with_the_factors() {
    // 2/2^5 = .0625 > .05, 2/2^6 = .031; ten factors want 2·10/2^n <= .05, which 2^9 = 512 is the first to give.
    assert_eq!([1, 2, 6, 10, 25].map(blocks_needed), [6, 7, 8, 9, 10]);
}

#[test]
fn signs_are_flipped_exactly() {
    assert_eq!(sign_flip_p(&[1.0; 5]), 1.0 / 16.0, "two of 32 patterns");
    assert_eq!(sign_flip_p(&[1.0; 9]), 1.0 / 256.0);
    // Sums of ±1 ±2 ±3: 6, 4, 2, 0 and their opposites, 0 twice; as far as 4: four of eight.
    assert_eq!(sign_flip_p(&[-1.0, 2.0, 3.0]), 0.5);
    assert_eq!(sign_flip_p(&[0.0; 6]), 1.0);
    assert_eq!(sign_flip_p(&[]), 1.0);
    assert_eq!(sign_flip_p(&[1.0; 20]), 1.0 / 50_001.0, "none of the patterns that were drawn");
    assert_eq!(sign_flip_p(&[0.1, 0.2, 0.3]), sign_flip_p(&[0.3, 0.1, 0.2]));
}

#[test]
fn holm_multiplies_and_never_decreases() {
    assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
    assert_eq!(holm(&[0.5, 0.6]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}

#[test]
fn effect_sizes_of_pairs() {
    // Mean 3, sd 1 over 5: 3·(1 − 3/15).
    let found = effect_size(&[2.0, 2.0, 3.0, 4.0, 4.0]).unwrap();
    assert!((found - 2.4).abs() < 1e-12, "{found}");
    assert_eq!(effect_size(&[2.0, 2.0, 2.0]), None);
    assert_eq!(effect_size(&[2.0]), None);
}

#[test]
fn an_interval_holds_its_mean_and_moves_with_it() {
    let values = [1.0, 2.0, 3.0, 4.0, 10.0];
    let found = interval(&values).unwrap();
    assert!(1.0 <= found.low && found.low < 4.0 && 4.0 < found.high && found.high <= 10.0, "{found:?}");
    let moved = interval(&values.map(|value| value + 100.0)).unwrap();
    assert!((moved.low - found.low - 100.0).abs() < 1e-9);
    assert_eq!(interval(&[1.0, 2.0]), None);
    // Of 30 blocks it is as wide as Student's: 1, -1, 1, ... has sd 1.017, so 2.045 · .186.
    let many: Vec<f64> = (0..30).map(|at| f64::from(at % 2 * 2 - 1)).collect();
    let found = interval(&many).unwrap();
    assert!((0.3..0.45).contains(&found.high) && (-0.45..-0.3).contains(&found.low), "{found:?}");
}

#[test]
fn figures_of_a_bunched_stream() {
    // Throttled to one bunch of ten: nine times 100 ns, then 73 200 ns.
    let mut deltas: Vec<i64> = (0..10_000).map(|at| if at % 10 == 9 { 73_200 } else { 100 }).collect();
    let layer = LayerFigures::of(StudyLayer::Application, &mut deltas, 7_410.0, 50_000).unwrap();
    let figures = &layer.figures;
    assert_eq!(
        (figures.count, figures.below_half, figures.above_half, figures.spikes),
        (10_000, 0.9, 0.1, 0.1)
    );
    assert_eq!((figures.p10_ns, figures.p50_ns, figures.p90_ns), (100.0, 100.0, 100.0));
    assert_eq!((figures.p99_ns, figures.p99_99_ns, figures.max_ns), (73_200.0, 73_200.0, 73_200.0));
    assert_eq!(Metric::OffHalf.of(figures), 1.0);
    // log10(100)·48 = 96, log10(73 200)·48 = 233.5.
    assert_eq!(layer.bins, [(96, 9_000), (233, 1_000)]);
    assert_eq!(layer.series.len(), 239, "42 packets a slice");
    assert!(layer.series.iter().all(|&slice| slice == (100, 73_200)));
    assert_eq!(LayerFigures::of(StudyLayer::Isr, &mut [], 1.0, 1), None);
}

#[test]
fn effects_are_taken_within_blocks_and_without_discarded_cells() {
    let facts = facts(6, 1, 1);
    let mut cells = Vec::new();
    for block in 0..6 {
        // The machine gets slower from block to block, which no difference sees.
        let drift = f64::from(block) * 0.1;
        cells.extend(
            [("baseline", 0.1), ("control", 0.1), ("f0", 0.15)]
                .iter()
                .enumerate()
                .map(|(at, (arm, value))| cell(block, at as u32, arm, value + drift)),
        );
    }
    cells[2].layers[0].figures.below_half = 0.9;
    cells[2].discarded = Some("the sender was late".to_owned());
    let summary = summarize(&facts, &cells);
    let effect = &summary.ranking[0];
    assert_eq!(effect.ranked.blocks, 5);
    assert!((effect.ranked.difference - 0.05).abs() < 1e-12);
    assert_eq!(effect.verdict, StudyVerdict::TooFewBlocks, "2/2^5 is above .05");
    assert_eq!((summary.discarded.len(), summary.cells, summary.cells_planned), (1, 18, 18));
    assert_eq!(summary.controls[0].verdict, StudyVerdict::NoDifference);
    assert!(summary.controls[0].ranked.difference.abs() < 1e-12);
    assert_eq!(summary.classes.len(), 1);

    cells[2] = cell(0, 2, "f0", 0.15);
    let summary = summarize(&facts, &cells);
    assert_eq!(
        (summary.ranking[0].verdict, summary.ranking[0].p_corrected),
        (StudyVerdict::Worse, 1.0 / 32.0)
    );
}

#[test]
fn a_pair_that_is_less_than_its_sum() {
    let mut facts = facts(6, 1, 2);
    let of = ["f0".to_owned(), "f1".to_owned()];
    facts.arms.push(Arm {
        id: "f0+f1".into(),
        words: String::new(),
        role: Role::Pair { of, chosen: false },
        boot: Vec::new(),
    });
    // Throttling hides the scheduler: .9 alone, .5 alone, .9 together.
    let values = [("baseline", 0.0), ("f0", 0.9), ("f1", 0.5), ("f0+f1", 0.9)];
    let cells: Vec<Cell> = (0..6)
        .flat_map(|block| {
            let of = move |(at, (arm, value)): (usize, (&str, f64))| cell(block, at as u32, arm, value);
            values.into_iter().enumerate().map(of)
        })
        .collect();
    let summary = summarize(&facts, &cells);
    let found = &summary.interactions[0];
    assert!((found.difference + 0.5).abs() < 1e-12 && (found.sum - 1.4).abs() < 1e-12);
    assert_eq!((found.p_corrected, found.blocks), (1.0 / 32.0, 6));
    assert_eq!(summary.ranking.len(), 2, "a pair is no factor of its own");
}

#[test]
fn leading_pairs_come_from_the_ranking_and_are_judged_by_further_blocks_alone() {
    let mut facts = facts(6, 1, 4);
    let values = [("baseline", 0.1), ("control", 0.1), ("f0", 0.2), ("f1", 0.5), ("f2", 0.1), ("f3", 0.3)];
    let mut cells: Vec<Cell> = (0..6)
        .flat_map(|block| (0..6).map(move |at| (block, at)))
        .map(|(block, at)| cell(block, at as u32, values[at].0, values[at].1))
        .collect();
    let named = |pairs: Vec<[String; 2]>| pairs.iter().map(|pair| pair.join("+")).collect::<Vec<_>>();
    assert_eq!(named(leading_pairs(&facts, &cells, 3, |_| true)), ["f1+f3", "f1+f0", "f3+f0"]);
    let no_f3 = |pair: &[String; 2]| !pair.contains(&"f3".to_owned());
    assert_eq!(named(leading_pairs(&facts, &cells, 2, no_f3)), ["f1+f0", "f1+f2"]);
    let of = ["f1".to_owned(), "f3".to_owned()];
    let role = Role::Pair { of, chosen: true };
    facts.arms.push(Arm { id: "f1+f3".into(), words: String::new(), role, boot: Vec::new() });
    facts.further_blocks = 6;
    assert_eq!(named(leading_pairs(&facts, &cells, 1, |_| true)), ["f1+f0"], "known already");
    assert_eq!((facts.first_arms(), facts.further_arms()), (vec![0, 1, 2, 3, 4, 5], vec![0, 3, 5, 6]));
    assert_eq!(facts.cells_planned(), 6 * 6 + 6 * 4);
    let incomplete = summarize(&facts, &cells);
    assert!(!incomplete.complete && incomplete.interactions.is_empty());
    for block in 6..12 {
        for (at, (arm, value)) in
            [("baseline", 0.1), ("f1", 0.3), ("f3", 0.2), ("f1+f3", 0.4)].into_iter().enumerate()
        {
            cells.push(cell(block, at as u32, arm, value));
        }
    }
    let summary = summarize(&facts, &cells);
    assert!(summary.complete);
    let found = &summary.interactions[0];
    assert_eq!(found.blocks, 6);
    // In the further blocks alone: .3 together, .2 and .1 each.
    assert!((found.both - 0.3).abs() < 1e-12 && found.difference.abs() < 1e-12, "{found:?}");
    assert!(
        (summary.ranking[0].ranked.difference - 0.4).abs() < 1e-12,
        "the ranking goes by the first blocks"
    );
}

#[test]
fn nothing_is_concluded_where_the_sender_is_off_by_more_than_the_effect() {
    let facts = facts(7, 1, 2);
    let mut cells: Vec<Cell> = (0..7)
        .flat_map(|block| {
            let of = move |(at, (arm, value)): (usize, (&str, f64))| cell(block, at as u32, arm, value);
            [("baseline", 0.1), ("f0", 0.2), ("f1", 0.6)].into_iter().enumerate().map(of)
        })
        .collect();
    // The sender of every arm has .3 of its own packets half a period off, but for one cell, which the median leaves out.
    for cell in &mut cells {
        let own = if cell.block == 0 { 0.9 } else { 0.3 };
        cell.sender = Some(Figures { count: 1_000, below_half: own, ..Figures::default() });
    }
    let verdicts = |cells: &[Cell]| {
        let summary = summarize(&facts, cells);
        summary.ranking.iter().map(|one| (one.arm.clone(), one.verdict, one.sender_off)).collect::<Vec<_>>()
    };
    let [f1, f0] = ["f1", "f0"].map(str::to_owned);
    assert_eq!(
        verdicts(&cells),
        [(f1.clone(), StudyVerdict::Worse, Some(0.3)), (f0.clone(), StudyVerdict::Sender, Some(0.3))]
    );
    // What the factor itself does to the sender is its effect.
    for cell in &mut cells {
        let own = if cell.arm == "f1" { 0.7 } else { 0.01 };
        cell.sender = Some(Figures { count: 1_000, below_half: own, ..Figures::default() });
    }
    assert_eq!(
        verdicts(&cells),
        [(f1, StudyVerdict::Worse, Some(0.01)), (f0, StudyVerdict::Worse, Some(0.01))]
    );
    let figures = Figures { p99_ns: 9_000.0, sd_ns: 600.0, ..Figures::default() };
    assert_eq!((Metric::P99.off(&figures, 7_410.0), Metric::Sd.off(&figures, 7_410.0)), (1_590.0, 600.0));
}
