use super::super::fixture;
use super::*;
use crate::table::width;

fn page(summary: &ChaseSummary) -> String {
    let run = fixture::facts();
    chase(&PageInput { summary, run: &run, report_path: Some("runs/chase-x/report.html") }, Style::PLAIN)
}

#[test]
fn page_of_a_run_with_late_packets() {
    insta::assert_snapshot!(page(&fixture::summary()));
}

#[test]
fn page_of_a_clean_run_that_knows_little() {
    let mut summary = fixture::summary();
    summary.losses = Losses { received: 9_000, ..Losses::default() };
    summary.lateness.packets = 0;
    summary.causes.clear();
    summary.stages.clear();
    summary.layers.truncate(1);
    summary.layers[0].delta_t.count = 8_999;
    summary.probe_cost = None;
    summary.tier = "user".into();
    summary.complete = false;
    summary.period_learned = true;
    insta::assert_snapshot!(page(&summary));
}

#[test]
fn no_line_is_wider_than_the_page_and_none_drives_the_terminal() {
    let mut summary = fixture::summary();
    for n in 0..40 {
        let mut more = summary.causes[2].clone();
        more.name = format!("thread {n} {}", "x".repeat(200));
        more.share = 0.000_1;
        summary.causes.push(more);
    }
    let page = page(&summary);
    for line in page.lines() {
        assert!(width(line) <= WIDTH, "{} wide: {line}", width(line));
    }
    assert!(!page.contains('\u{1b}'));
    assert!(page.contains("40 smaller sources"));
}

#[test]
fn a_percentile_that_the_sample_cannot_tell_is_a_dash() {
    let cells = percentiles(&fixture::distribution(99_999, 7_410, 50_000));
    assert_eq!(cells[5], ("p99.999", "-".to_owned()));
    assert_eq!(cells[4], ("p99.99", "74.1 us".to_owned()));
    assert!(percentiles(&Distribution::default()).iter().all(|(_, cell)| cell == "-"));
}

#[test]
fn unknown_is_not_zero() {
    let shown: Vec<_> = places(&Losses { network: Some(0), ..Losses::default() });
    assert_eq!(shown[0], ("in the network".to_owned(), Some(0)));
    assert_eq!(shown[1], ("in the NIC ring".to_owned(), None));
}
