use super::*;
use quaver_dvfs::power::MODELS;
use quaver_sim::paper::{ArmSummary, HowRun, Packets, Shown as Row, SubframePoint, UnitWork};
use quaver_sync_analysis::sync::Bin;

fn of(value: f64) -> Spread {
    Spread { min: value - 1.0, mean: value, max: value + 1.0, runs: 3 }
}

fn program(name: &str, held_out: bool) -> ProgramSummary {
    let arm = |(place, arm): (usize, Arm)| {
        let controlled = arm.injects() && arm.changes_frequency();
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
            refills: Default::default(),
            beyond_slack_percent: 0.5,
            path_us: Some([4_000.0 + place as f64, 900.0, 100.0]),
            by_seed: Vec::new(),
            least_ratio: controlled.then_some(0.95),
        }
    };
    ProgramSummary {
        program: name.to_owned(),
        suite: Suite::Splash2,
        held_out,
        how: HowRun { trace: "x".to_owned(), threads: 16, rounds: 9, ideal_us: 6_000.0, ..HowRun::default() },
        row: Some(Row { events_per_ms: 10.0, mean_us: 20.0, slow_down_percent: 6.0 }),
        late_us_per_ms: Some(200.0),
        sync_share: Some(0.99),
        distribution: vec![Bin { from_ns: 10_000.0, to_ns: 12_589.0, count: 5 }],
        class_shares: Some([0.0, 0.0, 0.5, 0.1, 0.3, 0.1]),
        arms: Arm::ALL.into_iter().enumerate().map(arm).collect(),
        drawn: vec![
            SubframePoint { at_us: 330.0, factor: 1.0, lost_us: 12.0 },
            SubframePoint { at_us: 660.0, factor: 1.2, lost_us: 0.0 },
        ],
        units: Some(UnitWork { transactions: 77, ..UnitWork::default() }),
        subframes: (100, 32),
        packets: [Packets { packets: 8, missed: 2, mean_slack_us: 40.0, least_slack_us: -1.0 }; 3],
    }
}

fn summary() -> PaperSummary {
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

fn page(summary: &PaperSummary) -> String {
    quaver_view::plain(&document(
        summary,
        None,
        &RunFacts { name: "sim-paper-1".into(), ..RunFacts::default() },
    ))
}

#[test]
fn every_exhibit_has_its_section_and_only_what_was_asked_for_is_shown() {
    let whole = summary();
    let mut all = lateness::exhibits(&whole, None);
    all.extend(cures::exhibits(&whole));
    all.extend(rest::exhibits(&whole));
    for exhibit in &quaver_sim::paper::EXHIBITS {
        assert!(all.iter().any(|(shows, _)| shows.contains(&exhibit.name)), "{}", exhibit.name);
    }
    for (_, section) in &all {
        assert!(!section.note.is_empty() && section.link.is_some(), "{}", section.id);
    }
    let only = PaperSummary { only: vec!["figure 18".to_owned()], ..whole };
    let ids: Vec<String> = sections(&only, None).map(|section| section.id).collect();
    assert_eq!(ids, ["reactivity", "programs"]);
}

#[test]
fn the_page_has_both_and_the_difference() {
    let page = page(&summary());
    for line in [
        "2 programs, 3 seeds, runs of 6.00 ms or more without jitter",
        "fmm (held out)",
        "simulated              10.00  20.0 µs           200 µs      6.0 %",
        "difference, %            -87       +2              -87         +9",
        "16 times 0.975 mm2 are 15.6 mm2",
        "not traced: <no> QEMU",
        "Claims of the paper",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    assert!(!page.contains("NaN"), "{page}");
}

#[test]
fn the_headline_says_why_claims_are_not_judged_and_the_terminal_what_chance_could_decide() {
    let mut one = summary();
    one.programs.truncate(1);
    let said = page(&one);
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("claims are not judged (38 not run, 2 chance could decide)."), "{said}");
    assert!(flat.contains("The injection of 0 of the 1 programs is fitted, to table 6."), "{said}");
    assert!(flat.contains("not judged slow-down of barnes: 6.00 % (paper: 2 to 8 %"), "{said}");
    assert!(flat.contains("0 seeds cannot be told from chance."), "{said}");
    one.programs[0].row.as_mut().unwrap().events_per_ms = 0.0;
    let said = page(&one);
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!flat.contains("chance could decide") && flat.contains("3 nothing late"), "{said}");
}

#[test]
fn a_trace_that_was_cut_short_is_said_to_be() {
    assert!(!page(&summary()).contains("cut short"));
    let mut cut = summary();
    cut.programs[1].how.cut_short = true;
    assert!(page(&cut).contains("fmm: the trace was cut short, so steps are missing."), "{}", page(&cut));
}

#[test]
fn each_program_has_its_bound_and_what_the_largest_debt_overcompensates() {
    let page = page(&summary());
    let section = page.split("Debt where threads meet").nth(1).unwrap();
    let row = section.lines().find(|line| line.trim_start().starts_with("barnes")).unwrap();
    // Work of the unified cache, the eighth arm: 4,000 us and its place.
    let path = section.lines().find(|line| line.contains("barnes") && line.contains("no DVFS")).unwrap();
    let words: Vec<&str> = path.split_whitespace().collect();
    assert_eq!(words[3..], ["4.01", "ms", "900", "µs", "100", "µs", "5.01", "ms"], "{path}");
    // Slow-downs of the fixture are the places of the arms; 7 % without DVFS: (1 + 0.07) / 1.2 - 1.
    let words: Vec<&str> = row.split_whitespace().collect();
    assert!(words.contains(&"-10.83") && words.contains(&"0.50"), "{row}");
    assert!(words[1] == "7.00" && row.contains("11.00") && row.contains("8.00"), "{row}");
}

#[test]
fn the_html_is_whole_and_what_others_wrote_is_escaped() {
    let run = RunFacts { name: "sim-paper-1".to_owned(), version: "0".to_owned(), ..RunFacts::default() };
    let mut out = Vec::new();
    quaver_view::write_html(&mut out, &document(&summary(), None, &run)).unwrap();
    let page = String::from_utf8(out).unwrap();
    for id in ["claims", "grid", "power", "frequencies", "reactivity", "alternatives", "slips", "facts"] {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    assert_eq!(page.matches("<figure id=").count(), 2 + 1 + 5 + 2 * 2, "sizes, classes, arms, frequencies");
    assert!(page.contains("not traced: &lt;no&gt; QEMU") && !page.contains("<no>"));
    assert!(page.contains("<td>8.00 (7.00 to 9.00)</td>"), "{page}");
    assert!(page.contains("fmm, unified: 7.0 %, from 6.0 % to 8.0 %; to compare: 13.4 %"), "{page}");
    let markup = page.split("<script").next().unwrap_or_default();
    assert!(!markup.contains("NaN"), "{markup}");
}

#[test]
fn differences_are_in_percent_of_the_papers() {
    let written = [
        difference(Some(5.0), Some(4.0)),
        difference(Some(1.0), Some(0.0)),
        difference(None, Some(1.0)),
        spread(Some(of(5.0))),
    ];
    assert_eq!(written.map(|cell| cell.to_string()), ["+25", "-", "-", "5.00 (4.00 to 6.00)"]);
    assert_eq!([sentence("why not"), sentence("10 us."), sentence("")], ["Why not.", "10 µs.", ""]);
}
