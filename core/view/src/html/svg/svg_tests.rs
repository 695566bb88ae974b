use super::*;
use crate::axis::{Axis, Quantity};
use crate::plot::{
    Arrow, BarSeries, Bars, Data, Fill, Guide, Lane, Matrix, Range, Ranges, Series, Span, Timeline, Xy,
};

fn drawn(plot: impl Into<Plot>) -> String {
    let out = draw(&plot.into(), 540.0).as_str().to_owned();
    assert!(!out.contains("NaN") && !out.contains("inf"), "{out}");
    out
}

fn counts(label: &str) -> Axis {
    Axis::linear(label, Quantity::Count)
}

#[test]
fn a_line_with_a_gap_a_guide_and_marks() {
    let (x, y) = (vec![0.0, 1.0, 2.0, 3.0].into(), vec![0.0, 10.0, f64::NAN, 5.0].into());
    let series = Series::new("a<b", Colour::Series(1), Data::Line { x, y, marks: true }).dashed();
    let plot = Xy::new(counts("x"), counts("y & z").range(0.0, 10.0))
        .with(series)
        .guide_y(5.0, "bound")
        .guide_x(9.0, "beyond");
    let out = drawn(plot);
    let wanted = [
        "<svg viewBox=\"0 0 540 316\" style=\"max-width:540px;min-width:378px\">",
        "<text x=\"0\" y=\"12\">y &amp; z</text>",
        // Left of the axis stand the widest words, here two characters.
        "<path d=\"M27.4 274L192.93 24M524 149\" style=\"fill:none;stroke:var(--c1);stroke-width:1.8;stroke-dasharray:6 4\"/>",
        "<path transform=\"translate(192.93 24) scale(3.2)\" d=\"M-.9 -.9h1.8v1.8h-1.8Z\" style=\"fill:var(--c1)\"><title>a&lt;b: 10 at 1</title></path>",
        "<path class=\"guide\" d=\"M27.4 149L524 149\"/><text x=\"520\" y=\"144\" text-anchor=\"end\" class=\"haloed\">bound</text>",
    ];
    for part in wanted {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(!out.contains("beyond"), "{out}");
}

#[test]
fn a_band_of_few_values_has_marks_and_names_of_places() {
    let plot = |count: u32| {
        let x: Vec<f64> = (0..count).map(f64::from).collect();
        let names = (0..count).map(|at| format!("n{at}"));
        let (y, low, high) = (vec![1.0; x.len()], vec![0.996; x.len()], vec![1.25; x.len()]);
        let data = Data::Spread { x: x.into(), y: y.into(), low: low.into(), high: high.into() };
        let axis = Axis::linear("f", Quantity::Ratio);
        Xy::new(Axis::named("x", names), axis).with(Series::new("lu", Colour::Series(0), data))
    };
    let out = drawn(plot(3));
    assert_eq!(out.matches("<path transform").count(), 3, "{out}");
    assert!(out.contains("<title>lu: 1.000, from 0.996 to 1.250 at n2</title>"), "{out}");
    assert_eq!(drawn(plot(33)).matches("<path transform").count(), 0);
}

#[test]
fn slices_keep_every_spike() {
    let mut high = vec![2.0; 100_000];
    high[50_000] = 10.0;
    let low = vec![1.0; 100_000].into();
    let data = Data::Slices { start: 0.0, step: 1.0, low, high: high.into() };
    let plot = Xy::new(counts(""), counts("").range(0.0, 10.0)).with(Series::new("", Colour::Muted, data));
    let out = drawn(plot);
    assert_eq!(out.matches("h1v").count(), 497, "one column a pixel");
    // From the top to the least value, at the middle.
    assert!(out.contains("M275.4 24h1v225h-1Z"), "{out}");
}

#[test]
fn lines_of_many_points_keep_their_extremes() {
    let y: Vec<f64> = (0..50_000).map(|at| if at == 777 { 9.0 } else { 1.0 }).collect();
    let x = (0..50_000).map(f64::from).collect();
    let plot = Xy::new(counts(""), counts("").range(0.0, 10.0)).with(Series::new(
        "",
        Colour::Muted,
        Data::Line { x, y: y.into(), marks: false },
    ));
    let out = drawn(plot);
    assert!(out.contains(" 49L"), "{out}");
    assert!(out.len() < 80_000, "{}", out.len());
}

#[test]
fn many_marks_are_one_cloud() {
    let plot = |count: i32| {
        let (x, y) = ((0..count).collect(), (0..count).map(|at| f64::from(at % 7)).collect());
        Xy::new(counts(""), counts("").range(0.0, 10.0)).with(Series::new(
            "",
            Colour::Series(3),
            Data::Points { x, y },
        ))
    };
    assert_eq!(drawn(plot(400)).matches("<path transform").count(), 400);
    let out = drawn(plot(60_000));
    assert_eq!(
        (out.matches("<path transform").count(), out.matches("stroke:var(--c3);stroke-width:3\"").count()),
        (0, 1)
    );
    // Seven full rows, each one run of cells.
    assert_eq!(out.matches(".5h498").count(), 7, "{out}");
}

#[test]
fn bars_lie_in_a_row_and_stand_on_zero() {
    let series = |name: &str, at, values: [f64; 2]| BarSeries::new(name, Colour::Series(at), values.to_vec());
    let value = Axis::linear("part", Quantity::Share).range(0.0, 1.0);
    let stacked = Bars {
        value: value.clone(),
        categories: vec!["a".into(), "b".into()],
        series: vec![series("one", 0, [0.25, 0.5]), series("two", 1, [0.5, f64::NAN])],
        stacked: true,
        horizontal: true,
    };
    let out = drawn(stacked);
    // 19.7 px of name, then 508.3 px for the whole.
    let wanted = "<rect x=\"146.78\" y=\"3\" width=\"254.15\" height=\"17.5\" style=\"fill:var(--c1)\"><title>a, two: 50.0 %</title></rect>";
    assert!(out.contains(wanted), "{out}");
    assert_eq!(out.matches("<rect").count(), 3, "{out}");
    let mut below = series("", 2, [-0.5, 1.0]);
    below.whiskers = vec![Some((-0.75, -0.25)), None];
    below.targets = vec![None, Some(0.5)];
    let standing = Bars {
        value: value.range(-1.0, 1.0),
        categories: vec!["a".into(), "b".into()],
        series: vec![below],
        stacked: false,
        horizontal: false,
    };
    let out = drawn(standing);
    assert!(out.contains("y=\"139\" width=\"36.5\" height=\"57.5\""), "hangs below zero\n{out}");
    assert!(
        out.contains("a: -50.0 %, from -75.0 % to -25.0 %") && out.contains("b: 100 %; to compare: 50.0 %"),
        "{out}"
    );
    assert!(out.contains("class=\"whisker\"") && out.contains("class=\"target\""), "{out}");
}

#[test]
fn ranges_have_intervals_and_a_zero() {
    let row = |name: &str, at, interval| Range {
        name: name.into(),
        at,
        interval,
        colour: Colour::Ink,
        words: "w<".into(),
    };
    let value = Axis::linear("change", Quantity::Duration).range(-1_000.0, 1_000.0);
    let out = drawn(Ranges {
        value,
        rows: vec![row("pin", -500.0, Some((-800.0, -200.0))), row("no", 0.0, None)],
        zero: Some(0.0),
    });
    assert_eq!(out.matches("<rect").count(), 1, "{out}");
    assert!(
        out.contains("<title>pin: -500 ns</title>")
            && out.contains(">w&lt;</text>")
            && out.contains("class=\"axis\""),
        "{out}"
    );
}

#[test]
fn cells_of_a_map_are_as_strong_as_their_values() {
    let map = |values: [f64; 4]| Matrix {
        row_label: "r".into(),
        column_label: "c".into(),
        rows: vec!["1".into(), "2".into()],
        columns: vec!["x".into(), "y".into()],
        quantity: Quantity::Share,
        log: false,
        values: values.to_vec().into(),
    };
    let out = drawn(map([0.0, 1.0, f64::NAN, 0.5]));
    assert_eq!(out.matches("<rect").count(), 3, "{out}");
    for part in [
        "fill-opacity:0.08\"><title>r 1, c x: 0 %",
        "fill-opacity:0.7\"><title>r 1, c y: 100 %",
        "fill-opacity:0.39\"><title>r 2, c y: 50.0 %",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    // What reads the same looks the same.
    assert_eq!(drawn(map([0.5, 0.5, 0.500_001, 0.5])).matches("fill-opacity:0.08").count(), 4);
}

#[test]
fn lanes_have_intervals_instants_fills_and_arrows() {
    let span =
        |start, end, depth| Span { start, end, label: "irq <41>".into(), depth, colour: Colour::Series(1) };
    let fill = |shares: [f64; 2]| Fill { colour: Colour::Series(0), shares: shares.to_vec().into() };
    let lanes = vec![
        Lane {
            name: "CPU 0".into(),
            detail: "d".into(),
            spans: vec![span(0.0, 500.0, 0), span(400.0, 400.0, 1)],
            fills: vec![],
        },
        Lane { name: "t".into(), fills: vec![fill([0.5, f64::NAN]), fill([0.75, 0.0])], ..Lane::default() },
    ];
    let plot = Timeline {
        span: (0.0, 1_000.0),
        origin: Some((200.0, "due".into())),
        zone: Some((200.0, 900.0)),
        lanes,
        arrows: vec![Arrow { from: (100.0, 0), to: (600.0, 1) }, Arrow { from: (0.0, 0), to: (0.0, 7) }],
        keys: vec![],
    };
    let out = drawn(plot);
    assert!(
        out.contains("<title>irq &lt;41&gt;: 500 ns</title>")
            && out.contains("<title>irq &lt;41&gt;</title>"),
        "{out}"
    );
    assert!(
        out.contains(">due</text>") && out.contains(">+500 ns</text>") && out.contains("class=\"zone\""),
        "{out}"
    );
    assert_eq!(out.matches("class=\"arrow\"").count(), 3, "one arrow; the other has no lane\n{out}");
    // The second fill stands on the first and ends with the lane.
    assert_eq!((out.matches("v-10h").count(), out.matches("v-20h").count()), (2, 0), "{out}");
}

#[test]
fn many_thin_spans_are_one_line_a_row_and_colour() {
    let span =
        |start: f64, end: f64| Span { start, end, label: "tick".into(), depth: 0, colour: Colour::Muted };
    let plot = |thin: u32| {
        let thin = (0..thin).map(|at| span(f64::from(at) * 10.0, f64::from(at) * 10.0 + 0.5));
        let spans = std::iter::once(span(0.0, 500_000.0)).chain(thin).collect();
        let lanes = vec![Lane { name: "CPU 0".into(), spans, ..Lane::default() }];
        Timeline { span: (0.0, 1_000_000.0), lanes, ..Timeline::default() }
    };
    let out = drawn(plot(40));
    assert_eq!(out.matches("<title>tick: ").count(), 41, "{out}");
    let out = drawn(plot(60_000));
    assert_eq!(out.matches("<title>tick: ").count(), 1, "the long one");
    assert_eq!(out.matches("stroke:var(--muted);stroke-width:18\"").count(), 1, "{out}");
    assert!(out.len() < 4_000, "neighbours are joined: {}", out.len());
}

#[test]
fn level_and_upright_parts_of_a_line_are_one_stroke_each() {
    // Down, back up and further down in one place: the upright part keeps its turns.
    let y = [1.0, 1.0, 1.0, 5.0, 5.0, 2.0, 9.0, 9.0];
    let x = [0.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0];
    let data = Data::Line { x: x.to_vec().into(), y: y.to_vec().into(), marks: false };
    let out = drawn(Xy::default().with(Series::new("", Colour::Ink, data)));
    let path = out.split("<path d=\"M").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let turns: String = path.chars().filter(char::is_ascii_uppercase).collect();
    assert_eq!(turns, "HVHVVH", "{path}");
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let gaps = Data::Line { x: vec![1.0].into(), y: vec![f64::NAN].into(), marks: true };
    for plot in [
        Plot::Xy(Xy::default()),
        Plot::Xy(Xy::default().with(Series::new("", Colour::Ink, gaps))),
        Plot::Bars(Bars::default()),
        Plot::Ranges(Ranges::default()),
        Plot::Matrix(Matrix::default()),
        Plot::Timeline(Timeline::default()),
    ] {
        assert_eq!(drawn(plot), "");
    }
}

#[test]
fn a_single_value_and_extreme_ones_are_drawn() {
    for values in
        [vec![5.0], vec![0.0, 0.0], vec![1e-300, 1e300], vec![f64::INFINITY, 1.0], vec![-1.0, f64::MIN]]
    {
        for log in [false, true] {
            let axis = Axis { log, ..counts("") };
            let (x, y) = (values.clone().into(), values.clone().into());
            let guides = vec![Guide { at: f64::NAN, label: "g".into(), upright: true }];
            let series = vec![Series::new("", Colour::Ink, Data::Points { x, y })];
            drawn(Xy { x: axis.clone(), y: axis, series, guides });
        }
    }
}

#[test]
fn words_stay_within_their_room() {
    // Advances of DejaVu Sans at 12 px, pixels, of words that others' programs and symbols may have.
    for (words, advance) in [("wake-up [heap]+0x4060 m…", 177.0), ("WWWWmmmm@%", 117.6), ("0123456789", 76.3)]
    {
        assert!((advance..advance * 1.1).contains(&room_of(words)), "{words}: {}", room_of(words));
    }
    for room in 20..300 {
        let cut = cut_to("wake-up [heap]+0x4060 mutex of WWWW", f64::from(room));
        assert!(room_of(&cut) <= f64::from(room).max(room_of("w…")), "{room}: {cut}");
    }
    assert_eq!(cut_to("lock", 40.0), "lock");
    assert_eq!(cut_to("lock", 0.0), "l…");
}
