//! The paper's matrix, on made-up stamps.

use super::super::effects::Contrast;
use super::super::figures::Metric;
use super::*;
use quaver_analysis::rounds::Interval;

fn table(softirq: bool) -> StampTable {
    let count = 1_000;
    let sent: Vec<i64> = (0..count).map(|at| 5_000 + at * 7_410 + at % 3 * 100).collect();
    let on = |extra: i64| sent.iter().map(|ns| ns + extra).collect::<Vec<i64>>();
    StampTable {
        key: (0..count as u64).collect(),
        isr_ns: vec![0; count as usize],
        softirq_ns: if softirq { on(300) } else { vec![0; count as usize] },
        stack_ns: on(400),
        queued_ns: on(500),
        application_ns: on(900),
        path: vec![0; count as usize],
        sent_ns: sent,
    }
}

fn planned() -> Vec<PaperArm> {
    let arm = |id: &str, arm: &str| PaperArm {
        id: id.to_owned(),
        arm: Some(arm.to_owned()),
        possible: Possible::Measured,
    };
    vec![arm("generator", "baseline"), arm("baseline", "baseline"), arm("blocking", "blocking")]
}

#[test]
fn every_experiment_of_the_paper_is_told_and_what_was_not_done_has_a_reason() {
    let report = paper_report(
        &planned(),
        7_410.0,
        PaperBeside { dummy: Some(&table(true)), ..PaperBeside::default() },
        |arm| (arm == "baseline").then(|| table(true)),
    );
    assert_eq!(report.figures.len(), EXPERIMENTS.len());
    let of = |figure: &str| report.figures.iter().find(|one| one.figure == figure).unwrap();
    assert_eq!((of("6a, 7a").layer, of("6b, 7b").layer), (StudyLayer::Softirq, Application));
    assert!(of("6b, 7b").code_paths.is_some() && of("6a, 7a").code_paths.is_none());
    assert_eq!(of("5").possible, Possible::NotHere("it was not planned".to_owned()));
    for figure in &report.figures {
        let told = matches!(&figure.possible, Possible::NotHere(reason) if !reason.is_empty());
        assert!(figure.here.is_some() || told, "{figure:?}");
    }
    assert!(report.notes[0].contains("Figure 9"));
    let generator = report.generator.unwrap();
    assert!(generator.as_good && generator.within_1_us == 1.0, "{generator:?}");
    assert_eq!(generator.middle_99_ns, (7_210.0, 7_510.0));
}

#[test]
fn without_tracing_the_interrupt_is_not_measured_and_a_worse_generator_is_told() {
    let report = paper_report(&planned(), 7_410.0, PaperBeside::default(), |_| Some(table(false)));
    let of = |report: &PaperReport, figure: &str| {
        report.figures.iter().find(|one| one.figure == figure).unwrap().clone()
    };
    assert_eq!(of(&report, "6a, 7a").layer, StudyLayer::Stack);
    let bare = StampTable { stack_ns: vec![0; 1_000], ..table(false) };
    let isr =
        of(&paper_report(&planned(), 7_410.0, PaperBeside::default(), |_| Some(bare.clone())), "6a, 7a");
    assert!(matches!(&isr.possible, Possible::NotHere(reason) if reason.contains("BPF")));
    let mut deltas = vec![7_410; 999];
    deltas.push(60_000);
    let judged = generator(&deltas, 7_410.0).unwrap();
    assert!(!judged.as_good && judged.conclusions[0].contains("not as constant"), "{judged:?}");
    assert_eq!(judged.within_1_us, 0.999);
    let drawn = drawing(&deltas, 7_410.0, Some(15_000)).unwrap();
    assert_eq!(drawn.spikes_per_million, Some(1_000.0));
    assert_eq!(drawn.bins.iter().map(|count| u64::from(*count)).sum::<u64>(), 1_000);
    assert_eq!(drawn.series.len(), 1_000);
}

#[test]
fn a_core_that_wakes_up_is_held_against_one_kept_awake_at_their_own_period() {
    let of = |late: i64| {
        let at = |index: i64| 9_000 + index * WAKE_UP_PERIOD_NS;
        let stamps: Vec<i64> =
            (0..1_000).map(|index| at(index) + if index % 10 == 3 { late } else { 0 }).collect();
        StampTable {
            key: (0..1_000).collect(),
            sent_ns: (0..1_000).map(at).collect(),
            application_ns: stamps,
            ..StampTable::default()
        }
    };
    let (idle, awake) = (of(9_000), of(1_000));
    let plan = PaperArm {
        id: WAKE_UP.to_owned(),
        arm: None,
        possible: Possible::Emulated("a longer period".to_owned()),
    };
    let beside = PaperBeside { wake_up: Some((&idle, &awake)), ..PaperBeside::default() };
    let report = paper_report(&[plan], 7_410.0, beside, |_| None);
    let figure = report.figures.iter().find(|one| one.figure == "8").unwrap();
    let here = figure.here.as_ref().unwrap();
    assert_eq!((figure.own_period_ns, figure.layer), (Some(200_000), Application));
    // A spike of 15 us at 7.41 us is 7.59 us above the period.
    assert_eq!(here.spikes_per_million.map(f64::round), Some(100_100.0));
    assert_eq!(figure.sender_spikes_per_million, Some(0.0));
    assert!(!figure.is_the_senders());
    let (words, awake) = figure.beside.as_ref().unwrap();
    assert!(words.contains("awake") && awake.max_ns == 201_000.0 && here.figures.max_ns == 209_000.0);
}

#[test]
fn spikes_that_the_sender_makes_itself_are_told_to_be_its_own() {
    let mut late = table(true);
    for index in [100, 300, 500] {
        for stamps in [&mut late.sent_ns, &mut late.softirq_ns, &mut late.stack_ns, &mut late.application_ns]
        {
            stamps[index] += 20_000;
        }
    }
    let report = paper_report(&planned(), 7_410.0, PaperBeside::default(), |_| Some(late.clone()));
    let of = |figure: &str| report.figures.iter().find(|one| one.figure == figure).unwrap();
    assert!(of("6b, 7b").is_the_senders());
    late.sent_ns = table(true).sent_ns;
    let report = paper_report(&planned(), 7_410.0, PaperBeside::default(), |_| Some(late.clone()));
    assert!(report.figures.iter().all(|figure| !figure.is_the_senders()));
}

#[test]
fn the_generator_is_judged_by_what_was_sent_before_all_else() {
    let mut worse = table(true);
    worse.sent_ns[500] += 100_000;
    let beside = PaperBeside { generator: Some(&worse), ..PaperBeside::default() };
    let judged = paper_report(&planned(), 7_410.0, beside, |_| Some(table(true))).generator.unwrap();
    assert!(judged.first && !judged.as_good);
    let judged = paper_report(&planned(), 7_410.0, PaperBeside::default(), |_| Some(table(true)));
    assert!(judged.generator.is_some_and(|found| !found.first && found.as_good));
}

#[test]
fn spikes_are_as_far_above_a_longer_period() {
    assert_eq!(as_far_above(15_000, 7_410), 15_000, "the paper's own");
    assert_eq!(as_far_above(15_000, 200_000), 207_590);
}

fn control(verdict: StudyVerdict, difference: f64, p: f64, blocks: u32) -> Effect {
    let ranked = Contrast {
        layer: Application,
        metric: Metric::P99,
        blocks,
        baseline: 8_000.0,
        arm: 8_000.0 + difference,
        difference,
        interval: Some(Interval { low: difference - 500.0, high: difference + 500.0 }),
        effect_size: None,
        p,
    };
    Effect {
        arm: "baseline-again".to_owned(),
        words: String::new(),
        class: None,
        p_corrected: p,
        verdict,
        sender_off: None,
        ranked,
        contrasts: Vec::new(),
    }
}

/// What is said of differences between arms.
fn said(controls: &[Effect]) -> String {
    let beside = PaperBeside { controls, ..PaperBeside::default() };
    let report = paper_report(&planned(), 7_410.0, beside, |_| Some(table(true)));
    report.generator.unwrap().conclusions.pop().unwrap()
}

#[test]
fn differences_are_concluded_from_only_beside_quiet_controls() {
    let quiet = control(StudyVerdict::NoDifference, 120.0, 0.4, 6);
    assert_eq!(
        said(std::slice::from_ref(&quiet)),
        "Differences between arms can be concluded from: the baseline against itself shows none (p99 differs by +0.12 us \
         (95 %: -0.38 us to +0.62 us), p 0.400, 6 blocks), and one generator feeds all arms in random order."
    );
    let worse = control(StudyVerdict::Worse, 2_500.0, 0.031, 6);
    let words = "Differences between arms are not judged: the baseline against itself came out as worse (p99 differs by +2.50 us \
                 (95 %: +2.00 us to +3.00 us), p 0.031, 6 blocks).";
    assert_eq!(said(std::slice::from_ref(&worse)), words);
    assert_eq!(said(&[quiet, worse]), words, "one that is not quiet is enough");
    for (verdict, came_out) in [
        (StudyVerdict::Better, "better"),
        (StudyVerdict::TooFewBlocks, "too few blocks to tell"),
        (StudyVerdict::Sender, "not concluded: the sender itself is off by more"),
    ] {
        let said = said(&[control(verdict, -2_500.0, 0.5, 1)]);
        let words = format!(
            "are not judged: the baseline against itself came out as {came_out} (p99 differs by -2.50 us"
        );
        assert!(said.contains(&words) && said.ends_with("p 0.500, 1 block)."), "{said}");
    }
}

#[test]
fn without_a_control_nothing_is_concluded_and_before_any_arm_nothing_is_said() {
    assert_eq!(
        said(&[]),
        "Differences between arms are not judged: no block holds the baseline against itself."
    );
    let alone = generator(&table(true).sender_deltas(), 7_410.0).unwrap();
    assert!(alone.conclusions.iter().all(|sentence| !sentence.contains("between arms")), "{alone:?}");
    assert!(alone.conclusions[0].contains("its own largest, 7.51 us"), "{alone:?}");
}
