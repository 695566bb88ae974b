use super::*;
use crate::sweep::digest::{Label, SCHEMA, SweepAxis, SweepRow};
use quaver_view::{Block, Plot, plain, write_html};
use serde_json::{Map, Value};

/// Two traces, sizes and schemes, two seeds.
pub(super) fn summary(axes: usize) -> SweepSummary {
    let sizes = SweepAxis { name: "l2.kib".into(), values: vec![Label::Integer(128), Label::Integer(512)] };
    let schemes = SweepAxis {
        name: "scheme".into(),
        values: vec![Label::Text("plain".into()), Label::Text("<os>".into())],
    };
    let axes: Vec<SweepAxis> = [sizes, schemes].into_iter().take(axes).collect();
    let mut points = Vec::new();
    let combinations = 1 << axes.len();
    for trace in 0..2_usize {
        for combination in 0..combinations {
            for seed in 1..=2 {
                let values: Vec<usize> = (0..axes.len()).map(|axis| combination >> axis & 1).collect();
                let value = (trace * 100 + combination * 10) as f64 + f64::from(seed);
                points.push(SweepRow {
                    point: points.len(),
                    id: format!("{:016x}", points.len()),
                    trace,
                    values,
                    seed: Some(seed as u64),
                    figures: Map::from_iter([
                        ("duration_fs".to_owned(), Value::from((value * 1e12) as u64)),
                        ("slow_down".to_owned(), Value::from(value / 1000.0)),
                        ("overflows".to_owned(), Value::from(0)),
                    ]),
                });
            }
        }
    }
    SweepSummary {
        schema: SCHEMA.to_owned(),
        complete: true,
        name: "sizes".to_owned(),
        id: "0123456789abcdef".to_owned(),
        version: "1.2.3".to_owned(),
        traces: vec!["ocean".to_owned(), "lu".to_owned()],
        axes,
        ideal: "same-cache".to_owned(),
        missing: 0,
        points,
        warnings: Vec::new(),
    }
}

fn drawn(summary: &SweepSummary) -> Document {
    document(summary, &RunFacts { directory: "runs/sweep-sizes".to_owned(), ..RunFacts::default() })
}

fn charts(summary: &SweepSummary) -> Vec<Plot> {
    let document = drawn(summary);
    let section =
        document.sections.into_iter().find(|section| section.id == "figures").expect("always there");
    let charts = section.blocks.into_iter().filter_map(|block| match block {
        Block::Charts(group) => Some(group.charts),
        _ => None,
    });
    charts.flatten().map(|chart| chart.plot).collect()
}

#[test]
fn a_row_a_combination_with_the_seeds_together() {
    let mut one = summary(1);
    one.missing = 2;
    let wanted = "\
quaver sim sweep · runs/sweep-sizes
  points    8 of 10 points: 2 traces, l2.kib varied

  8 of 10 points of the sweep are done.

Points  mean over seeds; slow-down also min to max
  trace  l2.kib  seeds     time  slow-down  slow-down, min to max
  ocean     128      2  1.50 ms     0.15 %       0.10 % to 0.20 %
  ocean     512      2  11.5 ms      1.1 %         1.1 % to 1.2 %
  lu        128      2   102 ms     10.2 %       10.1 % to 10.2 %
  lu        512      2   112 ms     11.2 %       11.1 % to 11.2 %

  Slow-down is relative to the run without jitter and controller, same caches.

Warnings
  ! 2 of 10 points are missing (20.0 %).
";
    let found = plain(&drawn(&one));
    assert!(found == wanted, "{found}");
}

#[test]
fn one_axis_is_drawn_as_lines_and_two_as_maps() {
    let lines = charts(&summary(1));
    assert_eq!(lines.len(), 2, "time and slow-down");
    for plot in &lines {
        let Plot::Xy(plot) = plot else { panic!("{plot:?}") };
        assert_eq!(
            (plot.series.len(), plot.x.names.as_slice()),
            (2, &["128".to_owned(), "512".to_owned()][..])
        );
    }
    let maps = charts(&summary(2));
    assert_eq!(maps.len(), 2 * 2, "two figures, two traces");
    for plot in &maps {
        let Plot::Matrix(plot) = plot else { panic!("{plot:?}") };
        assert_eq!(
            (plot.values.len(), plot.columns.as_slice()),
            (4, &["plain".to_owned(), "<os>".to_owned()][..])
        );
        assert!(plot.values.iter().all(|value| value.is_finite()));
    }
    // The mean of seeds 1 and 2 of lu with 512 KiB and <os>.
    let Plot::Matrix(last) = &maps[3] else { panic!("{maps:?}") };
    assert!((last.values[3] - 0.1315).abs() < 1e-9, "{last:?}");
    assert_eq!(charts(&summary(0)), []);
}

#[test]
fn names_are_escaped_and_missing_figures_are_gaps() {
    let mut two = summary(2);
    two.points.iter_mut().filter(|row| row.trace == 1).for_each(|row| drop(row.figures.remove("slow_down")));
    let mut page = Vec::new();
    write_html(&mut page, &drawn(&two)).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("&lt;os&gt;") && !page.contains("<os>"), "{page}");
    assert!(
        plain(&drawn(&two)).contains("lu        512  <os>        2   132 ms          -"),
        "{}",
        plain(&drawn(&two))
    );
}
