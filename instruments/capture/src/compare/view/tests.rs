use super::*;
use quaver_view::{plain, write_html};

fn shown(summary: &CompareSummary) -> Document {
    let run = RunFacts { name: "capture-compare-x".to_owned(), ..RunFacts::default() };
    let mut document = document(summary, &run);
    document.report_path = Some("runs/x/report.html".to_owned());
    document
}

fn html(document: &Document) -> String {
    let mut out = Vec::new();
    write_html(&mut out, document).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn terminal() {
    insta::assert_snapshot!(plain(&shown(&fixture::summary())));
}

#[test]
fn a_run_without_packets_has_a_document() {
    insta::assert_snapshot!(plain(&shown(&CompareSummary::default())), @"
    quaver capture --compare · capture-compare-x
      This run was cut short; what follows covers what was kept.

      No pattern was completed.

    Report  runs/x/report.html
    ");
}

#[test]
fn page_has_every_table_and_every_chart() {
    let page = html(&shown(&fixture::summary()));
    for title in [
        "Overhead",
        "Ratios",
        "Autocorrelation and inter-arrival time",
        "In the kernel: overhead",
        "In the kernel: ratios",
        "In the kernel: autocorrelation and inter-arrival time",
        "In the kernel: costs",
        "Points",
        "Not measurable in a stock kernel",
        "Not possible here",
        "Overhead density (figures 2 and 4)",
        "Inter-arrival density (figures 3 and 5)",
        "Autocorrelation of the overheads",
        "Overhead density, in the kernel",
        "Inter-arrival density, in the kernel",
        "Autocorrelation of the overheads, in the kernel",
        "Loss by packet size (figure 6a)",
        "Loss by gap (figure 6b)",
        "Pattern 2: the clock takes 3.64× as long",
        "against itself",
        "href=\"#peers\"",
        "192.0.2.9, port 1991",
        "&lt;b&gt;this machine",
    ] {
        assert!(page.contains(title), "{title}");
    }
    assert!(!page.contains("<b>this machine"));
    assert_eq!(page.matches("paper, table II").count(), 1, "beside the ratios of the kernel alone");
    assert!(page.len() < 1 << 20);
}

/// The lines of a chart, by name.
fn lines(document: &Document, id: &str) -> Vec<(String, Vec<f64>)> {
    let charts = document.sections.iter().flat_map(|section| &section.blocks).flat_map(|block| match block {
        Block::Charts(group) => group.charts.as_slice(),
        _ => &[],
    });
    let chart = charts.into_iter().find(|chart| chart.id == id).unwrap();
    let quaver_view::Plot::Xy(plot) = &chart.plot else { panic!("{id}") };
    let line = |series: &quaver_view::Series| match &series.data {
        quaver_view::Data::Line { x, y, .. } => {
            assert_eq!(x.len(), y.len());
            (series.name.clone(), y.to_vec())
        }
        other => panic!("{other:?}"),
    };
    plot.series.iter().map(line).collect()
}

#[test]
fn densities_add_up_to_what_lies_within_their_bins() {
    let summary = fixture::summary();
    let document = shown(&summary);
    let user = lines(&document, "pattern-0-density");
    assert_eq!(
        user.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["inline-clock", "inline-cycles", "batch"]
    );
    for (name, shares) in &user {
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name}");
    }
    let kernel = &summary.patterns[0].kernel.as_ref().unwrap().densities;
    let found = lines(&document, "pattern-0-kernel-density");
    assert_eq!(found.len(), 4, "the checkpoints alone among them");
    for ((name, density), (of, shares)) in kernel.iter().zip(&found) {
        assert_eq!((name, &density.shares), (of, shares));
        assert!((shares.iter().sum::<f64>() + density.below + density.above - 1.0).abs() < 1e-9, "{name}");
    }
    assert_eq!(lines(&document, "pattern-0-kernel-interarrival").len(), 3);
    let lags = lines(&document, "pattern-0-memory").into_iter().map(|(_, lags)| lags);
    let user = summary.patterns[0].user.iter().map(|arm| arm.figures.autocorrelation.clone());
    assert!(lags.eq(user));
}

#[test]
fn curves_join_repetitions_of_a_point() {
    let document = shown(&fixture::summary());
    let (size, gap) = (lines(&document, "loss-size"), lines(&document, "loss-gap"));
    assert_eq!((size.len(), gap.len()), (4, 4), "two placements, two pipelines");
    let together = size.iter().filter(|(name, _)| name.ends_with("one CPU"));
    assert!(together.flat_map(|(_, shares)| shares).all(|share| *share == 0.25));
    assert_eq!((size[0].1.len(), gap[0].1.len()), (3, 1), "the gaps are all alike");
}

#[test]
fn what_costs_less_does_so_within_an_interval_of_the_same_sign() {
    let cost = |ns, low, high, verdict| Cost {
        ns,
        interval: Some(Interval { low, high }),
        verdict,
        refusals: Vec::new(),
    };
    let conversion = Conversion {
        of: "batch".to_owned(),
        to: "threaded".to_owned(),
        hot: cost(-634.0, -679.0, -600.0, Verdict::Smaller),
        whole: cost(12.0, -5.0, 30.0, Verdict::NoDifference),
    };
    let expected = "Result: conversion in batches against handing a stamp to one converter thread: on the hot path it costs \
                    634 ns less (95 % CI 600 ns to 679 ns); including conversion on every CPU and waits of the receiver it does not \
                    differ (95 % CI -5.00 ns to 30.0 ns).";
    assert_eq!(conversion_words(&conversion).to_string(), expected);
    let refusals = vec!["batch against itself: ratio of means 0.80 to 0.90, which excludes 1".to_owned()];
    let differs = Conversion { hot: Cost { refusals, ..conversion.hot.clone() }, ..conversion };
    let said = conversion_words(&differs).to_string();
    assert!(said.contains("on the hot path it has no result (batch against itself: ratio"), "{said}");
}
