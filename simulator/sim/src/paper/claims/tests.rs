use super::super::calibration::Shown;
use super::super::summary::{ArmSummary, HowRun};
use super::*;
use crate::inject::Spread;

fn arm(arm: Arm, slow_down: f64) -> ArmSummary {
    let of = |value: f64| Spread { min: value, mean: value, max: value, runs: 1 };
    ArmSummary {
        arm,
        runs: 1,
        duration_us: 1_000.0,
        slow_down_percent: Some(of(slow_down)),
        own_slow_down_percent: Some(of(slow_down)),
        power_percent: if arm.controller().is_some() && arm.injects() { vec![of(20.0)] } else { Vec::new() },
        mean_factor: 1.0,
        changes: 0.0,
        kernel_lines: 0.0,
        least_ratio: (arm.controller().is_some() && arm.injects()).then_some(0.9),
    }
}

fn summary() -> PaperSummary {
    let slow = |one: Arm| match one {
        Arm::Unified => 30.0,
        Arm::UnifiedDvfs => 10.0,
        Arm::UnifiedDvfs2 => 11.0,
        Arm::UnifiedDvfs4 => 12.0,
        Arm::Pinned => 31.0,
        Arm::Prefetch => 30.4,
        Arm::OsCache => 28.0,
        _ => 0.0,
    };
    let program = ProgramSummary {
        program: "ocean".to_owned(),
        suite: Suite::Splash2,
        held_out: false,
        how: HowRun { fitted: true, ideal_us: 10_000.0, threads: 16, ..HowRun::default() },
        row: Some(Shown { events_per_ms: 12.6, mean_us: 139.0, slow_down_percent: 30.0 }),
        late_us_per_ms: Some(1_750.0),
        sync_share: Some(0.97),
        distribution: Vec::new(),
        class_shares: Some([0.0, 0.0, 0.9, 0.05, 0.05, 0.0]),
        arms: Arm::ALL.into_iter().map(|one| arm(one, slow(one))).collect(),
        drawn: Vec::new(),
        units: None,
        subframes: (0, 0),
        packets: Default::default(),
    };
    PaperSummary {
        schema: PaperSummary::SCHEMA.to_owned(),
        complete: true,
        seeds: vec![1],
        length_us: 10_000,
        kernel: String::new(),
        calibration: String::new(),
        programs: vec![program],
        not_run: Vec::new(),
        only: Vec::new(),
    }
}

fn of<'a>(claims: &'a [Claim], what: &str) -> &'a Claim {
    claims.iter().find(|claim| claim.what.contains(what)).unwrap_or_else(|| panic!("{what}"))
}

#[test]
fn what_holds_holds_and_has_no_excuse() {
    let claims = claims(&summary());
    for claim in &claims {
        assert_ne!(claim.holds, Some(false), "{claim:?}");
        assert_eq!(claim.why, "", "{claim:?}");
    }
    assert!(claims.iter().filter(|claim| claim.kind == Kind::Law).count() >= 8, "{}", claims.len());
    assert!(claims.iter().filter(|claim| claim.kind == Kind::Told).all(|claim| claim.holds.is_none()));
    assert_eq!(of(&claims, "k = 1 no slower").ours, "10.00, 11.00, 12.00 %");
}

#[test]
fn what_does_not_hold_says_so_and_why() {
    let mut wrong = summary();
    let program = &mut wrong.programs[0];
    program.row = Some(Shown { events_per_ms: 20.0, mean_us: 20.0, slow_down_percent: 50.0 });
    program.class_shares = Some([0.9, 0.0, 0.1, 0.0, 0.0, 0.0]);
    for one in &mut program.arms {
        let Some(slow) = &mut one.slow_down_percent else { continue };
        match one.arm {
            Arm::IdealWatched => (one.duration_us, one.changes) = (1_002.0, 3.0),
            Arm::UnifiedDvfs => {
                (one.least_ratio, slow.mean) = (Some(0.8), 99.0);
                one.power_percent[0].max = 73.0;
            }
            Arm::Pinned => slow.mean = 20.0,
            Arm::Prefetch => slow.mean = 20.0,
            Arm::OsCache => slow.mean = 40.0,
            _ => {}
        }
    }
    let claims = claims(&wrong);
    for what in [
        "units, subframes and controllers",
        "the controller rests",
        "never below",
        "under every model",
        "slow-down of ocean",
        "events a millisecond of ocean",
        "dominate in ocean",
        "k = 1 no slower",
        "selective pinning",
        "prefetching",
        "where the OS cache loses",
    ] {
        let claim = of(&claims, what);
        assert_eq!(claim.holds, Some(false), "{claim:?}");
        assert!(!claim.why.is_empty(), "{claim:?}");
    }
    assert_eq!(of(&claims, "OS cache without sharing").holds, Some(true));
}

#[test]
fn held_out_programs_are_judged_and_say_that_they_were_predicted() {
    let mut held = summary();
    held.programs[0].program = "fmm".to_owned();
    held.programs[0].held_out = true;
    let claims = claims(&held);
    let claim = of(&claims, "slow-down of fmm (held out)");
    assert_eq!(claim.holds, Some(false));
    assert!(claim.why.starts_with("held out") && claim.why.contains("paper 43"), "{}", claim.why);
}

#[test]
fn without_runs_only_arithmetic_is_judged() {
    let mut none = summary();
    none.programs.clear();
    let claims = claims(&none);
    assert_eq!(claims.len(), 3);
    assert!(claims.iter().all(|claim| claim.holds == Some(true)));
}
