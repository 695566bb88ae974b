use super::*;
use crate::digest::{ClassFigures, CureRuns, CureSummary, TimeSlice};
use quaver_sim::cure::{BoostConfig, BoostRule, CureConfig};
use quaver_sim::inject::Spread;
use quaver_view::{plain, write_html};

fn drawn(summary: &SimSummary, speed: Option<SimSpeed>) -> Document {
    let (run, lanes) = (fixture::facts(), fixture::lanes());
    document(&SimInput { summary, run: &run, speed, lanes: &lanes })
}

fn said(summary: &SimSummary) -> String {
    verdict(summary).map(|words| words.to_string()).unwrap_or_default()
}

fn html(summary: &SimSummary) -> String {
    let mut out = Vec::new();
    write_html(&mut out, &drawn(summary, None)).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_terminal_shows_the_stack_first() {
    let speed = SimSpeed { elapsed_ns: 2_000_000_000, instructions: 120_000_000 };
    let report_path = Some("runs/sim-20261121T213000Z-0a1b/report.html".to_owned());
    let page = plain(&Document { report_path, ..drawn(&fixture::summary(), Some(speed)) });
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    let wanted = include_str!("page.txt");
    assert!(page == wanted, "{page}");
}

#[test]
fn a_recording_of_another_program_is_named() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let said = |recorded: &str, traced: &str| {
        recorded::another(&words(recorded), &words(traced)).map(|words| words.to_string())
    };
    assert_eq!(said("./bar 4", "/usr/bin/bar 4"), None);
    assert_eq!(said("./cond 4", "./bar 4").unwrap(), "The recording is of ./cond 4, the trace of ./bar 4.");
    assert_eq!(said("./bar 4", "./bar 8").unwrap(), "The recording is of ./bar 4, the trace of ./bar 8.");
    assert_eq!(recorded::another(&[], &words("./bar")), None, "it is not known");
}

#[test]
fn a_cure_is_not_praised_for_lateness_that_did_not_come() {
    assert_eq!(cure::not_the_cures([10, 10]), None);
    assert_eq!(cure::not_the_cures([9, 10]), None);
    assert_eq!(cure::not_the_cures([0, 0]), None);
    let ms = 1_000_000_000_000;
    let said = cure::not_the_cures([2 * ms, 16 * ms]).unwrap();
    assert!(said.contains("2.00 ms were injected at waits with it and 16.0 ms without it"), "{said}");
    assert!(cure::not_the_cures([16 * ms, 2 * ms]).is_some());
}

fn cured(config: CureConfig, without: f64, with: f64) -> CureSummary {
    let runs = CureRuns {
        config,
        kernel_epochs: Some(117),
        recorded: None,
        ideal: None,
        ideal_in_cache: None,
        seeds: Vec::new(),
        second_level: None,
    };
    let spread = |mean| Some(Spread { min: mean, mean, max: mean, runs: 2 });
    CureSummary { slow_down: spread(with), slow_down_without: spread(without), ..runs.summarize() }
}

#[test]
fn the_head_of_a_cured_run_speaks_of_all_seeds_and_of_no_cure_where_there_is_none() {
    let dvfs = CureConfig { dvfs: Some(Default::default()), ..CureConfig::default() };
    let said = |config: &CureConfig, injected_fs: [u64; 2], timer_fs: [u64; 2]| {
        let summary = CureSummary { injected_fs, timer_fs, ..cured(config.clone(), 0.2, 0.1) };
        cure::verdict(&summary, false)
    };
    assert_eq!(
        said(&dvfs, [0, 1_000_000], [0, 0]),
        "Slow-down by sync jitter: 20.0 % without the cure, 10.0 % with it (means of 2 seeds). 0 ns were injected at waits with it and \
         1.00 ns without it: not all of the difference is the cure's."
    );
    assert!(
        said(&dvfs, [0, 0], [7, 7]).starts_with("Slow-down by timer interrupts: 20.0 % without the cure")
    );
    let cut = |injected_fs| {
        let summary = CureSummary { injected_fs, ..cured(dvfs.clone(), 0.2, 0.1) };
        cure::verdict(&summary, true)
    };
    let of = "of what is whole of a trace that was cut short";
    assert!(cut([5, 5]).starts_with(&format!("Slow-down by sync jitter {of}: 20.0 %")), "{}", cut([5, 5]));
    assert_eq!(
        cut([0, 0]),
        format!("Nothing was injected; the cure alone changes the run time by 10.0 % ({of}).")
    );
    let none = CureConfig::default();
    assert_eq!(
        said(&none, [5, 5], [0, 0]),
        "Slow-down by sync jitter: 20.0 % (means of 2 seeds). There is no cure."
    );
    assert_eq!(said(&none, [0, 0], [0, 0]), "Nothing was injected, and there is no cure.");
    let boost = CureConfig { boost: Some(BoostConfig::new(BoostRule::Sync)), ..CureConfig::default() };
    assert!(said(&boost, [5, 5], [0, 0]).ends_with("10.0 % with it (means of 2 seeds)."));
}

#[test]
fn a_page_says_who_has_the_power_budget_and_draws_nothing_where_no_subframe_ended() {
    let boost = CureConfig {
        boost: Some(BoostConfig::new(BoostRule::Sync)),
        injection: Some(Default::default()),
        ..CureConfig::default()
    };
    let slice = |end_fs, subframes, lost_fs| TimeSlice {
        end_fs,
        subframes,
        lost_fs,
        most_lost_fs: lost_fs,
        factor: 1.0,
    };
    let over_time = vec![slice(1_000_000_000, 0, 0), slice(2_000_000_000, 2, 6_000_000)];
    let mut summary = fixture::summary();
    let class = ClassFigures {
        class: "broadcast-wait".to_owned(),
        drawn: 100,
        injected: 1,
        injected_fs: 50_000_000_000,
        found: 0,
        found_ns: 0,
    };
    summary.cure = Some(CureSummary { over_time, classes: vec![class], ..cured(boost, 0.2, 0.1) });
    summary
        .time
        .iter_mut()
        .filter(|part| part.part == "kernel")
        .for_each(|part| part.time_fs = 20_000_000_000);
    let page = plain(&drawn(&summary, None));
    assert!(page.contains("a power budget of 4 cores by Booster's SYNC, unified L2; 0 seeds"), "{page}");
    assert!(page.contains("The kernel was active for 20.0 µs, 40.0 % of what was drawn."), "{page}");
    assert!(page.contains("runs traced kernel code (a library of 117 epochs)"), "{page}");
    let document = drawn(&summary, None);
    let chart = format!("{:?}", document.sections.iter().find(|section| section.id == "cure"));
    assert!(chart.contains("x: Numbers([0.0, 2000.0]), y: Numbers([3.0, 3.0])"), "{chart}");
}

#[test]
fn the_verdict_follows_the_time() {
    let mut summary = fixture::summary();
    assert_eq!(said(&summary), "Base CPI is 43.2 % of busy time; the largest stall is DRAM (42.6 %).");
    let shift = |summary: &mut SimSummary, from: usize, to: usize| {
        let fs = summary.time[from].time_fs;
        summary.time[from].time_fs = 0;
        summary.time[to].time_fs += fs;
        summary.time[to].share += summary.time[from].share;
    };
    shift(&mut summary, 0, 6);
    assert_eq!(said(&summary), "Base CPI is 0 % of busy time; the largest stall is DRAM (85.8 %).");
    shift(&mut summary, 13, 12);
    assert!(
        said(&summary).starts_with("Cores idled, waiting for other threads, for 59.5 % of the time. Base"),
        "{}",
        said(&summary)
    );
    summary.time.iter_mut().for_each(|part| part.time_fs = 0);
    assert_eq!(verdict(&summary), None);
}

#[test]
fn simulated_times_have_fractions_of_nanoseconds() {
    let written = [0, 333_333, 1_500_000_000].map(|fs| simulated(fs).to_string());
    assert_eq!(written, ["0 ns", "0.33 ns", "1.50 µs"]);
}

#[test]
fn the_page_has_every_drawing_and_nobody_elses_markup() {
    let mut summary = fixture::summary();
    summary.facts.program = vec!["\x1b[2J</script><script>alert(1)</script>".to_owned()];
    summary.warnings = vec!["\x1b[2J<i>".to_owned()];
    summary.complete = false;
    let page = plain(&drawn(&summary, None));
    assert!(!page.contains('\x1b') && page.contains("This run was cut short"), "{page}");
    let html = html(&summary);
    let markup = html.split("<script").next().unwrap_or_default();
    assert!(
        !html.contains("<script>alert") && !markup.contains("<i>") && !markup.contains("NaN"),
        "{markup}"
    );
    for id in ["core-time", "cpi", "l1-data", "l1-instructions", "traffic", "threads-over-time"] {
        assert!(html.contains(&format!("<figure id=\"{id}\"")), "{id}");
    }
    for part in [
        "core 0, DRAM: 40.0 %",
        "core 1, DRAM: 0.44",
        "core 0, cache-to-cache: 2.00",
        "<td>512</td><td>256</td>",
        "Longest waits",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
}
