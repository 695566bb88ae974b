use super::super::calibration::Occasions;
use super::super::summary::{ArmSummary, HowRun, OfSeed};
use super::*;
use crate::cure::{ActivityCounts, Refills};
use crate::inject::Spread;
use quaver_sync_analysis::sync::Bin;

/// Seeds of these slow-downs and powers, percent.
fn seeds(slow_downs: [f64; 3], power_percent: Option<f64>) -> Vec<OfSeed> {
    let of = |(slow_down, seed)| OfSeed { seed, slow_down_percent: Some(slow_down), power_percent };
    slow_downs.into_iter().zip(1..).map(of).collect()
}

fn arm(arm: Arm, slow_down: f64) -> ArmSummary {
    let controlled = arm.changes_frequency() && arm.injects();
    let of = |value: f64| Spread { min: value, mean: value, max: value, runs: 1 };
    ArmSummary {
        arm,
        runs: 100,
        duration_us: 1_000.0,
        slow_down_percent: Some(of(slow_down)),
        own_slow_down_percent: Some(of(slow_down)),
        power_percent: if controlled { vec![of(20.0)] } else { Vec::new() },
        mean_factor: 1.0,
        changes: 0.0,
        kernel_lines: 0.0,
        refills: Default::default(),
        beyond_slack_percent: 0.0,
        path_us: None,
        by_seed: if arm.injects() { seeds([slow_down; 3], controlled.then_some(20.0)) } else { Vec::new() },
        least_ratio: controlled.then_some(0.9),
    }
}

fn summary() -> PaperSummary {
    let slow = |one: Arm, unified: f64| match one {
        Arm::Unified => unified,
        Arm::UnifiedDvfs => 2.0,
        Arm::UnifiedDvfs2 => 3.0,
        Arm::UnifiedDvfs4 => 4.0,
        Arm::Pinned => unified + 1.0,
        Arm::Prefetch => unified + 0.4,
        Arm::OsCache => unified - 2.0,
        _ => 0.0,
    };
    let of_paper = |paper: &PaperProgram| {
        let shape = SHAPE_PERCENT.iter().find(|(name, ..)| *name == paper.program);
        let slow_down_percent = shape.map_or(30.0, |(_, low, high)| (low + high) / 2.0);
        let signals = BY_SIGNALS.contains(&paper.program);
        ProgramSummary {
            program: paper.program.to_owned(),
            suite: paper.suite,
            held_out: false,
            how: HowRun { fitted: true, ideal_us: 10_000.0, threads: 16, ..HowRun::default() },
            row: Some(Shown {
                events_per_ms: paper.events_per_ms,
                mean_us: paper.mean_us,
                slow_down_percent,
            }),
            late_us_per_ms: Some(1_750.0),
            sync_share: Some(0.97),
            distribution: vec![Bin { from_ns: 1e4, to_ns: 2e4, count: 10_000 }],
            class_shares: Some(match signals {
                true => [0.9, 0.0, 0.05, 0.05, 0.0, 0.0],
                false => [0.0, 0.0, 0.9, 0.05, 0.05, 0.0],
            }),
            arms: Arm::ALL.into_iter().map(|one| arm(one, slow(one, slow_down_percent))).collect(),
            drawn: Vec::new(),
            units: None,
            subframes: (0, 0),
            packets: Default::default(),
        }
    };
    PaperSummary {
        schema: PaperSummary::SCHEMA.to_owned(),
        complete: true,
        seeds: vec![1, 2, 3],
        length_us: 10_000,
        kernel: String::new(),
        calibration: String::new(),
        programs: PROGRAMS.iter().map(of_paper).collect(),
        not_run: Vec::new(),
        only: Vec::new(),
    }
}

fn program<'a>(summary: &'a mut PaperSummary, name: &str) -> &'a mut ProgramSummary {
    summary.programs.iter_mut().find(|program| program.program == name).unwrap()
}

fn arm_of<'a>(summary: &'a mut PaperSummary, name: &str, arm: Arm) -> &'a mut ArmSummary {
    program(summary, name).arms.iter_mut().find(|one| one.arm == arm).unwrap()
}

/// Sets the slow-down of an arm in all seeds.
fn set(summary: &mut PaperSummary, name: &str, arm: Arm, slow_down: f64) {
    set_seeds(summary, name, arm, [slow_down; 3]);
}

/// Sets the slow-down of the unified cache, and with it those of the others that have no controller.
fn set_unified(summary: &mut PaperSummary, name: &str, slow_down: f64) {
    let before = program(summary, name).slow_down(Arm::Unified).unwrap();
    for arm in [Arm::Unified, Arm::Pinned, Arm::Prefetch, Arm::OsCache] {
        let own = program(summary, name).slow_down(arm).unwrap();
        set(summary, name, arm, own - before + slow_down);
    }
}

fn set_seeds(summary: &mut PaperSummary, name: &str, arm: Arm, slow_downs: [f64; 3]) {
    let own = arm_of(summary, name, arm);
    own.by_seed = seeds(slow_downs, own.power_percent.first().map(|power| power.mean));
    let spread = Spread::of(&slow_downs);
    own.slow_down_percent = spread;
    if arm == Arm::Unified {
        program(summary, name).row.as_mut().unwrap().slow_down_percent = spread.unwrap().mean;
    }
}

fn set_power(summary: &mut PaperSummary, name: &str, percent: f64) {
    let own = arm_of(summary, name, Arm::UnifiedDvfs);
    own.power_percent[0].mean = percent;
    own.by_seed.iter_mut().for_each(|seed| seed.power_percent = Some(percent));
}

fn of<'a>(claims: &'a [Claim], what: &str) -> &'a Claim {
    claims.iter().find(|claim| claim.what.contains(what)).unwrap_or_else(|| panic!("{what}"))
}

/// Judged by laws and shapes, in order: 5 and 41.
fn counts(claims: &[Claim], holds: Option<bool>) -> (usize, usize) {
    let of = |kind| claims.iter().filter(|claim| claim.kind == kind && claim.holds == holds).count();
    (of(Kind::Law), of(Kind::Shape))
}

#[test]
fn what_holds_holds_and_has_no_excuse() {
    let claims = claims(&summary());
    assert_eq!(counts(&claims, Some(true)), (4, 41));
    for claim in claims.iter().filter(|claim| claim.kind != Kind::Told) {
        assert_eq!((claim.holds, claim.why.as_str()), (Some(true), ""), "{claim:?}");
    }
    assert!(claims.iter().filter(|claim| claim.kind == Kind::Told).all(|claim| claim.holds.is_none()));
    assert_eq!(of(&claims, "k = 1 no slower").ours, "2.00, 3.00, 4.00 %");
    assert_eq!(of(&claims, "the controller rests").ours, "1.0 in 17 of 17 programs");
}

#[test]
fn each_fault_of_a_run_fails_its_own_statement_and_no_other() {
    type Fault = fn(&mut PaperSummary);
    let faults: [(Fault, &str); 13] = [
        (|of| arm_of(of, "fmm", Arm::IdealWatched).duration_us = 1_002.0, "units, subframes and controllers"),
        (|of| arm_of(of, "fmm", Arm::IdealOsCacheAlone).duration_us = 998.0, "OS cache without sharing"),
        (|of| arm_of(of, "fmm", Arm::IdealWatched).changes = 1.0, "the controller rests"),
        (|of| arm_of(of, "fmm", Arm::UnifiedDvfs4).power_percent[0].max = 72.8, "under every model"),
        (|of| set_power(of, "fmm", 0.9), "figure 13"),
        (|of| set_power(of, "fmm", 41.1), "figure 13"),
        (|of| set_unified(of, "fmm", 7.9), "slow-down of fmm"),
        (|of| program(of, "fmm").row.as_mut().unwrap().events_per_ms = 4.9, "events a millisecond of fmm"),
        (|of| program(of, "fmm").class_shares = Some([0.6, 0.0, 0.4, 0.0, 0.0, 0.0]), "dominate in fmm"),
        (|of| program(of, "vips").class_shares = Some([0.4, 0.0, 0.6, 0.0, 0.0, 0.0]), "dominates in vips"),
        (|of| set(of, "fmm", Arm::Pinned, 12.9), "pinning"),
        (|of| set(of, "fmm", Arm::Prefetch, 11.9), "prefetching"),
        (|of| set(of, "fmm", Arm::OsCache, 15.1), "OS cache loses"),
    ];
    for (fault, what) in faults {
        let mut wrong = summary();
        fault(&mut wrong);
        let claims = claims(&wrong);
        let missed: Vec<&Claim> = claims.iter().filter(|claim| claim.holds == Some(false)).collect();
        assert!(matches!(&missed[..], [one] if one.what.contains(what)), "{what}: {missed:#?}");
        assert!(!missed[0].why.is_empty() && missed[0].why.chars().any(|letter| letter.is_ascii_digit()));
    }
    let mut wrong = summary();
    set(&mut wrong, "fmm", Arm::UnifiedDvfs2, -19.0);
    let claims = claims(&wrong);
    assert_eq!(counts(&claims, Some(false)), (0, 1));
    let claim = of(&claims, "than 4, mean of Splash-2");
    assert_eq!((claim.holds, claim.ours.as_str()), (Some(false), "2.00, 0.25, 4.00 %"));
}

/// The reason of a statement after a change of the run.
fn why(what: &str, change: impl FnOnce(&mut PaperSummary)) -> String {
    let mut wrong = summary();
    change(&mut wrong);
    let claims = claims(&wrong);
    let claim = of(&claims, what);
    assert_eq!(claim.holds, Some(false), "{claim:?}");
    claim.why.clone()
}

#[test]
fn reasons_are_figures_of_the_run() {
    assert_eq!(
        why("units, subframes", |of| {
            let arm = arm_of(of, "lu", Arm::IdealWatched);
            (arm.duration_us, arm.changes) = (1_002.5, 3.0);
        }),
        "lu takes 1002.50 us with \u{201c}no jitter, all units and controllers on\u{201d}, 1000.00 us with \
         \u{201c}no jitter, no units\u{201d}; its frequencies change 3.0 times a run"
    );
    let below = |changes: f64| {
        let mut summary = summary();
        let arm = arm_of(&mut summary, "lu", Arm::UnifiedDvfs);
        (arm.least_ratio, arm.changes, arm.mean_factor) = (Some(0.8), changes, 1.125);
        let claims = claims(&summary);
        let claim = of(&claims, "least time with DVFS");
        assert_eq!((claim.kind, claim.holds), (Kind::Told, None));
        claim.why.clone()
    };
    assert_ne!(below(3.0), below(4.0));
    assert!(
        below(3.0).starts_with(
            "lu with \u{201c}unified cache, DVFS k = 1\u{201d}: mean frequency 1.125 of rest, 3.0 changes a run; slow-down \
             2.00 % with DVFS and 0.75 % without"
        ),
        "{}",
        below(3.0)
    );
    let power = |percent: f64| why("figure 13", |of| set_power(of, "lu", percent));
    assert!(power(0.5).starts_with("0.5 %: lu with"));
    assert!(power(41.5).starts_with("41.5 %: lu with"));
    assert!(
        power(41.5)
            .ends_with("1750.0 us of lateness a millisecond, slow-down 2.00 % with DVFS and 0.75 % without")
    );
}

#[test]
fn a_class_that_is_missed_is_told_with_the_shares_of_this_run() {
    let of_shares = |shares| why("dominate in lu", |of| program(of, "lu").class_shares = Some(shares));
    let name = |class: SyncClass| class.name();
    assert_eq!(
        of_shares([0.75, 0.1042, 0.1458, 0.0, 0.0, 0.0]),
        format!(
            "its lateness is {} 75.0 %, {} 14.6 %, {} 10.4 %",
            name(SyncClass::ALL[0]),
            name(SyncClass::ALL[2]),
            name(SyncClass::ALL[1])
        )
    );
    assert_eq!(
        of_shares([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        format!("its lateness is {} 100.0 %", name(SyncClass::ALL[0]))
    );
}

#[test]
fn a_rate_is_judged_only_where_chance_cannot_make_the_judgement() {
    // lu: 0.69 events a millisecond, 10 ms a run: 6.9 events, ± 76 %.
    let lu = |events_per_ms: f64, runs: usize| {
        let mut wrong = summary();
        program(&mut wrong, "lu").row.as_mut().unwrap().events_per_ms = events_per_ms;
        arm_of(&mut wrong, "lu", Arm::Unified).runs = runs;
        of(&claims(&wrong), "millisecond of lu").clone()
    };
    for events_per_ms in [0.46, 0.69, 0.79] {
        let one = lu(events_per_ms, 1);
        assert!(one.is_not_judged(), "neither met nor missed: {one:?}");
        assert_eq!(one.why, "7 events are expected in 1 run: chance moves their rate by \u{b1} 76 %");
    }
    assert_eq!(lu(6.9, 1).holds, Some(false), "ten times as many are no chance");
    assert_eq!((lu(0.69, 25).holds, lu(0.69, 26).holds), (None, Some(true)), "177.8 events are enough");
    let off = lu(0.46, 100);
    assert_eq!(off.holds, Some(false));
    assert!(off.why.ends_with("chance moves their rate by \u{b1} 8 %, less than it is off"), "{}", off.why);
    // 0.46 of 0.69 at a mean of 239.92 us: 0.46 × 249.92 / 16 / 10 percent of each thread.
    let gives = "gives 0.67 of the paper's events and a mean of 240 us (paper 240); late events take 0.7 %";
    assert!(off.why.contains(gives), "{}", off.why);
}

#[test]
fn runs_without_a_late_operation_decide_nothing_but_the_laws_of_rest() {
    let mut quiet = summary();
    for program in &mut quiet.programs {
        let row = program.row.as_mut().unwrap();
        (row.events_per_ms, row.mean_us, row.slow_down_percent) = (0.0, 0.0, 0.0);
        program.class_shares = None;
        program.arms.iter_mut().for_each(|arm| arm.runs = 2);
    }
    let judged = claims(&quiet);
    assert_eq!((counts(&judged, Some(true)), counts(&judged, Some(false))), ((3, 0), (0, 0)));
    assert_eq!(counts(&judged, None), (1, 41));
    for claim in judged.iter().filter(|claim| claim.is_not_judged()) {
        assert!(!claim.why.is_empty() && claim.ours == "-", "{claim:?}");
    }
    assert_eq!(of(&judged, "slow-down of lu").why, "no operation of lu was late in 2 runs of 10.00 ms");
    assert_eq!(of(&judged, "millisecond of lu").why, of(&judged, "slow-down of lu").why);
}

#[test]
fn what_dvfs_leaves_is_told_beside_what_the_clock_allows() {
    let mut splash = summary();
    for name in ["ocean", "lu", "fmm", "radix"] {
        set(&mut splash, name, Arm::UnifiedDvfs, 2.6);
    }
    let judged = claims(&splash);
    let claim = of(&judged, "in Splash-2 programs");
    assert_eq!((claim.holds, claim.ours.as_str()), (Some(false), "4 of 8, mean 2.30 %"));
    assert!(claim.why.contains("ocean 2.60 % of 32.50 % (bound 10.42 %)"), "{}", claim.why);
    // Table 6: 35.61, 33.2 and 30.15 % can fall to 13.0, 11.0 and 8.5 %; the others to 0.
    let told = of(&judged, "paper's own slow-downs, Splash-2");
    assert_eq!(
        told.ours,
        "ocean 13.0 %, water-spatial 11.0 %, water-nsquared 8.5 %: with none below 0, a mean of 4.06 %"
    );
}

#[test]
fn what_cannot_be_predicted_or_is_of_a_part_of_a_program_decides_nothing() {
    let suite = |change: fn(&mut HowRun)| {
        let mut of = summary();
        change(&mut program(&mut of, "fmm").how);
        // It alone would decide against them.
        set(&mut of, "fmm", Arm::UnifiedDvfs, 90.0);
        set(&mut of, "fmm", Arm::Pinned, -20.0);
        set_power(&mut of, "fmm", 60.0);
        program(&mut of, "fmm").class_shares = Some([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let claims = claims(&of);
        let all =
            ["than 4, mean of Splash-2", "pinning", "figure 13", "in Splash-2 programs", "dominate in fmm"];
        all.map(|what| self::of(&claims, what).clone())
    };
    assert!(suite(|_| {})[..3].iter().all(|one| one.holds == Some(false)));
    type Part = (fn(&mut HowRun), Undecided, &'static str);
    let parts: [Part; 2] = [
        (
            |how| (how.fitted, how.missed_by) = (false, Some(3.9)),
            Undecided::NotPredicted,
            "16 of 17 programs can decide it; the others: 1 lateness neither fitted nor predictable",
        ),
        (
            |how| how.cut_short = true,
            Undecided::CutShort,
            "16 of 17 programs can decide it; the others: 1 trace cut short",
        ),
    ];
    for (change, undecided, why) in parts {
        let all = suite(change);
        assert!(all.iter().all(|one| (one.holds, one.undecided) == (None, Some(undecided))), "{all:#?}");
        assert_eq!((all[1].why.as_str(), all[2].why.as_str()), (why, why));
    }
}

#[test]
fn what_cannot_be_predicted_is_not_judged() {
    let with = |fitted: bool, missed_by: Option<f64>| {
        let mut of = summary();
        let how = &mut program(&mut of, "fmm").how;
        (how.fitted, how.missed_by) = (fitted, missed_by);
        let claims = claims(&of);
        ["slow-down of fmm", "jitter events a millisecond of fmm"]
            .map(|what| claims.iter().find(|one| one.what.starts_with(what)).unwrap().clone())
    };
    for one in with(false, Some(3.9)) {
        assert_eq!(one.holds, None);
        assert!(
            one.why.starts_with("its lateness cannot be predicted") && one.why.contains("factor of 3.9"),
            "{}",
            one.why
        );
        assert_ne!(one.ours, "-", "what came of it is there");
    }
    for (fitted, missed_by) in [(false, Some(1.5)), (false, None), (true, None)] {
        assert!(with(fitted, missed_by).iter().all(|one| one.holds == Some(true)));
    }
}

#[test]
fn a_fit_of_a_trace_that_synchronises_otherwise_is_none() {
    let ocean = |here: f64, there: f64| {
        let mut of = summary();
        let how = &mut program(&mut of, "ocean").how;
        how.occasions.waits_per_ms = here;
        how.fitted_at = Some(Occasions { waits_per_ms: there, ..Occasions::default() });
        self::of(&claims(&of), "slow-down of ocean").clone()
    };
    assert_eq!((ocean(40.0, 21.0).holds, ocean(0.1, 0.9).holds), (Some(true), Some(true)));
    for (here, there) in [(50.0, 20.0), (20.0, 50.0)] {
        let one = ocean(here, there);
        assert_eq!(one.undecided, Some(Undecided::NotPredicted));
        let words = "its fit is of another trace: there waits were ended";
        assert_eq!(
            one.why,
            format!("{words} {there} times a millisecond and locks contended 0 times, here {here} and 0")
        );
    }
}

#[test]
fn a_slow_down_that_is_missed_says_where_its_injection_is_from() {
    let of = |change: fn(&mut ProgramSummary)| {
        why("slow-down of fmm", |of| {
            set(of, "fmm", Arm::Unified, 7.0);
            change(program(of, "fmm"));
        })
    };
    assert!(
        of(|_| {}).starts_with("the fit (a wait is late with probability 2.00e-2) gives 1.00 of"),
        "{}",
        of(|_| {})
    );
    assert!(of(|one| one.held_out = true).starts_with("held out: the injection, predicted"));
    assert!(of(|one| one.how.fitted = false).starts_with("its injection was not fitted"));
    let always = of(|one| {
        one.how.knobs.probability = 1.0;
        one.how.occasions.waits_per_ms = 12.0;
    });
    assert!(
        always.contains("waits are ended 12 times a millisecond, and locks contended 0 times"),
        "{always}"
    );
    let seeds = why("slow-down of fmm", |of| set_seeds(of, "fmm", Arm::Unified, [6.9, 7.0, 7.1]));
    assert!(seeds.ends_with("3 seeds lie between 6.90 and 7.10 %"), "{seeds}");
}

#[test]
fn what_chance_could_decide_is_not_judged() {
    let judged = |what: &str, change: &dyn Fn(&mut PaperSummary)| {
        let mut of = summary();
        change(&mut of);
        self::of(&claims(&of), what).clone()
    };
    let chance = |claim: &Claim| (claim.holds, claim.undecided) == (None, Some(Undecided::Chance));
    // The mean of both is 7; 8 is the border.
    let slow = |seeds| judged("slow-down of fmm", &|of| set_seeds(of, "fmm", Arm::Unified, seeds));
    assert_eq!(slow([6.9, 7.0, 7.1]).holds, Some(false));
    assert!(chance(&slow([4.0, 7.0, 10.0])), "{:?}", slow([4.0, 7.0, 10.0]));
    let two = judged("slow-down of fmm", &|of| {
        arm_of(of, "fmm", Arm::Unified).by_seed.truncate(2);
    });
    assert!(chance(&two) && two.ours == "13.00 %", "{two:?}");
    assert_eq!(two.why, "2 seeds cannot be told from chance");
    // One program scatters: its share of the suite's mean is an eighth.
    let of_k =
        |seeds| judged("than 4, mean of Splash-2", &|of| set_seeds(of, "fmm", Arm::UnifiedDvfs, seeds));
    assert_eq!(of_k([2.0, 2.0, 4.0]).holds, Some(true));
    assert!(chance(&of_k([-20.0, 2.0, 24.0])), "{:?}", of_k([-20.0, 2.0, 24.0]));
    let pinned = judged("pinning", &|of| set_seeds(of, "fmm", Arm::Pinned, [10.0, 14.0, 18.0]));
    assert!(chance(&pinned) && pinned.why.starts_with("fmm: the mean of 3 seeds lies between"), "{pinned:?}");
    let cured = |below: usize| {
        judged("in Splash-2 programs", &|of| {
            for (at, name) in ["ocean", "lu", "fmm", "radix"].into_iter().enumerate() {
                set_seeds(
                    of,
                    name,
                    Arm::UnifiedDvfs,
                    [2.0, 2.0 + 4.0 * f64::from(u8::from(at >= below)), 2.0],
                );
            }
        })
    };
    assert_eq!(cured(1).holds, Some(true), "five are below for sure");
    assert!(chance(&cured(0)) && cured(0).why.starts_with("4 are below for sure, and chance decides 4"));
}

#[test]
fn one_late_operation_makes_no_share() {
    let lu = |late: u64| {
        let mut of = summary();
        program(&mut of, "lu").distribution[0].count = late;
        program(&mut of, "lu").class_shares = Some([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        self::of(&claims(&of), "dominate in lu").clone()
    };
    assert_eq!((lu(1).holds, lu(1).undecided), (None, Some(Undecided::Chance)));
    assert_eq!(lu(1).why, "1 late operations: chance moves a share of them by \u{b1} 100 points");
    assert_eq!((lu(4).holds, lu(5).holds), (None, Some(true)));
}

#[test]
fn alternatives_that_are_missed_are_told_for_each_program() {
    let better = why("pinning", |of| {
        for (name, slow) in [("lu", 0.5), ("fmm", 12.0)] {
            set(of, name, Arm::Unified, slow + if name == "lu" { 0.25 } else { 1.0 });
            set(of, name, Arm::Pinned, slow);
            arm_of(of, name, Arm::Pinned).kernel_lines = 7.0;
        }
        // Only for lu is it known what events cost: 100 fs, of which 50 could go, and 90.
        let kernel =
            |total_fs| ActivityCounts { events: 1, total_fs, memory_fs: 50, ..ActivityCounts::default() };
        let refills = |total_fs| Refills { kernel: kernel(total_fs), program_fs: 0 };
        arm_of(of, "lu", Arm::Unified).refills = refills(100);
        arm_of(of, "lu", Arm::Pinned).refills = refills(90);
    });
    let of = |name: &str, slow: &str, unified: &str| {
        format!(
            "{name}: slow-down {slow} % ({slow} to {slow} %) and {unified} % ({unified} to {unified} %) with the unified cache; \
             kernel activity brings in 7 lines a run, and 0 there"
        )
    };
    let lu = of("lu", "0.50", "0.75") + "; 10.0 % of what an event costs went, 50.0 % could";
    assert_eq!(better, [of("fmm", "12.00", "13.00"), lu].join("; "));
}

#[test]
fn held_out_programs_are_judged_and_say_that_they_were_predicted() {
    let mut held = summary();
    program(&mut held, "fmm").held_out = true;
    set(&mut held, "fmm", Arm::Unified, 30.0);
    let claims = claims(&held);
    let claim = of(&claims, "slow-down of fmm (held out)");
    assert_eq!(claim.holds, Some(false));
    assert!(claim.why.starts_with("held out") && claim.why.contains("paper 43"), "{}", claim.why);
}

#[test]
fn without_runs_nothing_is_judged_and_all_that_is_to_be_judged_is_listed() {
    let mut none = summary();
    none.programs.clear();
    none.not_run = vec![("vips".to_owned(), "not traced".to_owned())];
    let claims = claims(&none);
    assert_eq!(counts(&claims, None), (4, 41));
    assert_eq!(claims.len(), 48);
    let barred = claims.iter().filter(|claim| claim.kind != Kind::Told);
    assert!(barred.clone().all(|claim| claim.is_not_judged() && !claim.why.is_empty() && claim.ours == "-"));
    assert_eq!(barred.count(), 45, "and the clock's bound, and arithmetic of the paper's own figures");
    assert_eq!(of(&claims, "dominates in vips").why, "vips was not run: not traced");
    assert_eq!(of(&claims, "dominates in dedup").why, "dedup was not run");
}

#[test]
fn some_programs_decide_against_a_statement_about_all_but_not_for_it() {
    let mut some = summary();
    some.programs.truncate(3);
    let judged = claims(&some);
    for what in ["figure 13", "pinning", "prefetching", "OS cache loses"] {
        let claim = of(&judged, what);
        assert!(claim.is_not_judged(), "{claim:?}");
        assert_eq!(claim.why, "3 of 17 programs can decide it; the others: 14 not run");
    }
    assert_eq!(
        of(&judged, "than 4, mean of Splash-2").why,
        "3 of 8 programs of Splash-2 can decide it; the others: 5 not run"
    );
    // A law is met or not by each program for itself; how many there were stands beside it.
    assert_eq!(of(&judged, "the controller rests").ours, "1.0 in 3 of 17 programs");
    let name = some.programs[0].program.clone();
    set(&mut some, &name, Arm::Pinned, -20.0);
    assert_eq!(of(&claims(&some), "pinning").holds, Some(false));
}

#[test]
fn arms_that_were_not_run_leave_their_statements_not_judged() {
    let mut some = summary();
    for program in &mut some.programs {
        program.arms.retain(|one| one.arm == Arm::Unified);
        program.class_shares = None;
    }
    let judged = claims(&some);
    assert_eq!(counts(&judged, None), (4, 1 + 17 + 4 + 3));
    assert_eq!(
        of(&judged, "the controller rests").why,
        "no program has runs of \u{201c}no jitter, all units and controllers on\u{201d}"
    );
    assert_eq!(of(&judged, "dominate in lu").why, "no synchronisation of lu was late");
}
