use super::*;
use quaver_dvfs::power::MODELS;
use quaver_sim::paper::{Arm, ArmSummary, Drawn, HowRun, Packets, ProgramSummary, Shown, UnitWork};
use quaver_sync_analysis::bench::paper::Suite;
use quaver_sync_analysis::sync::Bin;

fn of(value: f64) -> Spread {
    Spread { min: value - 1.0, mean: value, max: value + 1.0, runs: 3 }
}

fn program(name: &str, held_out: bool) -> ProgramSummary {
    let arm = |(place, arm): (usize, Arm)| {
        let controlled = arm.injects() && arm.controller().is_some();
        ArmSummary {
            arm,
            runs: 3,
            duration_us: 6_000.0,
            slow_down_percent: (arm != Arm::Plain).then(|| of(place as f64)),
            own_slow_down_percent: (arm != Arm::Plain).then(|| of(place as f64)),
            power_percent: if controlled { vec![of(12.0); MODELS.len()] } else { Vec::new() },
            mean_factor: 1.0,
            changes: 0.0,
            kernel_lines: 1_234.0,
            least_ratio: controlled.then_some(0.95),
        }
    };
    ProgramSummary {
        program: name.to_owned(),
        suite: Suite::Splash2,
        held_out,
        how: HowRun { trace: "x".to_owned(), threads: 16, rounds: 9, ideal_us: 6_000.0, ..HowRun::default() },
        row: Some(Shown { events_per_ms: 10.0, mean_us: 20.0, slow_down_percent: 6.0 }),
        late_us_per_ms: Some(200.0),
        sync_share: Some(0.99),
        distribution: vec![Bin { from_ns: 10_000.0, to_ns: 12_589.0, count: 5 }],
        class_shares: Some([0.0, 0.0, 0.5, 0.1, 0.3, 0.1]),
        arms: Arm::ALL.into_iter().enumerate().map(arm).collect(),
        drawn: vec![
            Drawn { at_us: 330.0, factor: 1.0, lost_us: 12.0 },
            Drawn { at_us: 660.0, factor: 1.2, lost_us: 0.0 },
        ],
        units: Some(UnitWork { transactions: 77, ..UnitWork::default() }),
        subframes: (100, 32),
        packets: [Packets { packets: 8, missed: 2, mean_slack_us: 40.0, least_slack_us: -1.0 }; 3],
    }
}

pub(crate) fn summary() -> PaperSummary {
    PaperSummary {
        schema: PaperSummary::SCHEMA.to_owned(),
        complete: true,
        seeds: vec![1, 2, 3],
        length_us: 6_000,
        kernel: "made up".to_owned(),
        calibration: "the one that comes with Quaver".to_owned(),
        programs: vec![program("barnes", false), program("fmm", true)],
        not_run: vec![("vips".to_owned(), "not traced: <no> QEMU".to_owned())],
        only: Vec::new(),
    }
}

#[test]
fn every_exhibit_has_its_section_and_only_what_was_asked_for_is_shown() {
    let whole = summary();
    let all = sections(&whole, None);
    for exhibit in &quaver_sim::paper::EXHIBITS {
        assert!(all.iter().any(|section| section.shows.contains(&exhibit.name)), "{}", exhibit.name);
    }
    for section in &all {
        assert!(!section.lead.is_empty(), "{}", section.id);
        for table in &section.tables {
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}: {row:?}", section.id);
            }
        }
    }
    let only = PaperSummary { only: vec!["figure 18".to_owned()], ..whole };
    let ids: Vec<&str> = sections(&only, None).iter().map(|section| section.id).collect();
    assert_eq!(ids, ["reactivity", "programs"]);
}

#[test]
fn the_page_prints_both_and_the_distance() {
    let page = page(&summary(), None, "runs/x/report.html", Style::PLAIN);
    for line in [
        "2 programs, 3 seeds, runs of 6,000 us or more without jitter",
        "fmm (held out)",
        "simulated       10.0     20.0    200         6.00",
        "distance       -87 %     +2 %  -87 %         +9 %",
        "16 times 0.975 mm2 are 15.6 mm2",
        "not traced: <no> QEMU",
        "What the paper says, judged",
        "report: runs/x/report.html",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    assert!(!page.contains("NaN"), "{page}");
}

#[test]
fn numbers_are_told_as_people_read_them() {
    assert_eq!(
        [number(Some(123.4)), number(Some(12.34)), number(Some(1.234)), number(None)],
        ["123", "12.3", "1.23", "-"]
    );
    assert_eq!(
        [distance(Some(5.0), Some(4.0)), distance(Some(1.0), Some(0.0)), distance(None, Some(1.0))],
        ["+25 %", "-", "-"]
    );
    assert_eq!(spread(Some(of(5.0))), "5.00 (4.00 to 6.00)");
}
