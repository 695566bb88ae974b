use super::*;
use crate::axis::{Colour, Quantity};
use crate::plot::{BarSeries, DistributionView, Series};

fn sizes() -> Plot {
    let binned = Binned {
        name: "x".into(),
        colour: Colour::Muted,
        edges: vec![0.0, 1_000.0, 2_000.0, 3_000.0, 4_000.0].into(),
        counts: vec![0.0, 20.0, 60.0, 0.0].into(),
        below: 10.0,
        above: 10.0,
    };
    let views = vec![DistributionView::Histogram];
    Plot::Distribution(Distribution {
        x: Axis::linear("delay", Quantity::Duration),
        of: "packets".into(),
        views,
        series: vec![binned],
        guides: vec![],
    })
}

fn lengths() -> Plot {
    let (value, series) = (
        Axis::linear("losses", Quantity::Count),
        BarSeries::new("losses", Colour::Muted, vec![5.0, 1.0, f64::NAN]),
    );
    Plot::Bars(Bars {
        value,
        categories: ["1", "2\x1b", "7"].map(String::from).into(),
        series: vec![series],
        ..Bars::default()
    })
}

fn delays() -> Plot {
    let (x, y): (Vec<f64>, Vec<f64>) =
        (0..400).map(|at| (f64::from(at) * 1e7, 1e6 + f64::from(at * 37 % 100) * 1e4)).unzip();
    let plot = Xy::new(Axis::linear("time", Quantity::Duration), Axis::linear("delay", Quantity::Duration));
    Plot::Xy(plot.with(Series::new("packets", Colour::Muted, Data::Points { x: x.into(), y: y.into() })))
}

#[test]
fn what_is_drawn() {
    let style = Style { width: 40, ..Style::PLAIN };
    let wanted = "  1.50 µs  █████▋             20  30.0 %
  2.50 µs  █████████████████  60  90.0 %
  10 more at 4.00 µs or above
";
    assert_eq!(draw(&sizes(), style), wanted, "{}", draw(&sizes(), style));
    let wanted = "   1  #############################  5\n  2�  ######                         1\n";
    assert_eq!(draw(&lengths(), Style { ascii: true, ..style }), wanted);
    let drawn = draw(&delays(), Style { ascii: true, ..style });
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(lines.len(), DOT_ROWS + 2, "{drawn}");
    assert!(lines[0].starts_with("  1.99 ms |") && lines[13].starts_with("  1.00 ms |"), "{drawn}");
    assert_eq!(lines[15], "           0 ns                  3.99 s", "{drawn}");
}

#[test]
fn every_drawing_keeps_to_its_width() {
    for (width, ascii, colour) in
        [(40, true, false), (80, false, false), (160, false, true), (3, true, false)]
    {
        let style = Style { width, ascii, colour };
        for plot in [sizes(), delays()] {
            let text = draw(&plot, style);
            let widest = draw(&plot, Style { colour: false, ..style }).lines().map(crate::text::width).max();
            assert!(widest.is_some_and(|widest| widest <= width.max(40)), "{width}: {widest:?}\n{text}");
            assert_eq!(text.contains("\x1b[32m"), colour);
            assert!(!ascii || text.replace('µ', "u").is_ascii(), "{text}");
        }
    }
}

#[test]
fn one_point_and_none() {
    let plot = |x: Vec<f64>| {
        let y = x.clone().into();
        let axis = || Axis::linear("", Quantity::Count);
        Plot::Xy(Xy::new(axis(), axis()).with(Series::new(
            "",
            Colour::Muted,
            Data::Points { x: x.into(), y },
        )))
    };
    let dots = |text: String| text.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
    assert_eq!(dots(draw(&plot(vec![5.0]), Style::PLAIN)), 1);
    assert_eq!(draw(&plot(vec![]), Style::PLAIN), "");
    assert_eq!(draw(&Plot::Bars(Bars::default()), Style::PLAIN), "");
}
