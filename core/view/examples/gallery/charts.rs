//! One drawing of every kind.

use quaver_view::{
    Arrow, Axis, BarSeries, Bars, Binned, Block, Cell, Chart, Colour, Data, Distribution, DistributionView,
    Fill, Group, Lane, Matrix, Quantity, Range, Ranges, Section, Series, Span, Timeline, Xy, text,
};

/// Made-up values, the same on each run: 0 to 1.
struct Values(u64);

impl Iterator for Values {
    type Item = f64;
    fn next(&mut self) -> Option<f64> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((self.0 >> 40) as f64 / f64::from(1 << 24))
    }
}

const SLICES: usize = 20_000;
const SECOND: f64 = 1e9;

fn over_time(id: &str, layer: &str, seed: u64) -> Chart {
    let mut values = Values(seed);
    let mut value = || values.next().unwrap_or(0.0);
    let low: Vec<f64> = (0..SLICES).map(|_| (7_000.0 - 900.0 * value()).round()).collect();
    let spike = |at: usize, share: f64| if at % 1_913 == 7 { 160_000.0 } else { 900.0 / (share + 0.02) };
    let high: Vec<f64> = (0..SLICES).map(|at| (7_500.0 + spike(at, value())).round()).collect();
    let mut plot = Xy::new(
        Axis::linear("time since the first packet", Quantity::Instant),
        Axis::log("ΔT", Quantity::Duration),
    );
    let data =
        Data::Slices { start: 0.0, step: 10.0 * SECOND / SLICES as f64, low: low.into(), high: high.into() };
    plot = plot.with(Series::new(layer, Colour::Muted, data)).guide_y(7_410.0, "the period");
    for (rank, name) in
        [Some("thread stress (fifo 50)"), Some("vector local timer"), Some("irq 41 <b>rx</b>"), None]
            .into_iter()
            .enumerate()
    {
        let mut x: Vec<f64> = (0..160 / (rank + 1)).map(|_| value() * 10.0 * SECOND).collect();
        x.sort_by(f64::total_cmp);
        let y: Vec<f64> = x.iter().map(|_| 15_000.0 / (value() + 0.03)).collect();
        let colour = Colour::of_cause(name.map(|_| rank));
        plot = plot.with(Series::new(
            name.unwrap_or("unexplained"),
            colour,
            Data::Points { x: x.into(), y: y.into() },
        ));
    }
    let note = text!("Marks are packets more than {} late, by leading source.", Cell::Duration(14_800));
    Chart::new(id, format!("ΔT at {layer}"), plot).note(note).linked("time")
}

fn binned(name: &str, colour: Colour, centre: f64, width: f64) -> Binned {
    let edges: Vec<f64> = (0..=160).map(|at| 2_f64.powf(10.0 + at as f64 / 16.0)).collect();
    let count = |edge: &f64| {
        let from = (edge / centre).log2() / width;
        (1e5 * (-from * from).exp() + if *edge > centre { 40.0 * centre / edge } else { 0.0 }).round()
    };
    let counts: Vec<f64> = edges[..160].iter().map(count).collect();
    Binned { name: name.into(), colour, edges: edges.into(), counts: counts.into(), below: 12.0, above: 3.0 }
}

fn distribution(id: &str, title: &str, views: &[DistributionView]) -> Chart {
    let layers = [("source", 7_000.0, 0.06), ("receive", 7_400.0, 0.2), ("application", 7_800.0, 0.6)];
    let series = layers.into_iter().enumerate();
    let plot = Distribution {
        x: Axis::log("ΔT", Quantity::Duration),
        of: "packets".into(),
        views: views.to_vec(),
        series: series
            .map(|(at, (name, centre, width))| binned(name, Colour::Series(at as u8), centre, width))
            .collect(),
        guides: vec![],
    };
    Chart::new(id, title, plot).linked("delta")
}

fn timeline(id: &str, number: u64) -> Chart {
    let mut values = Values(number);
    let mut spans = |row: usize, colour: Colour| -> Vec<Span> {
        let mut at = 0.0;
        let mut all = Vec::new();
        while at < 90_000.0 {
            let start = at + 9_000.0 * values.next().unwrap_or(0.0);
            let end = start + 26_000.0 * values.next().unwrap_or(0.0).powi(2);
            let label = ["thread stress (fifo 50)", "irq 41 virtio3-<b>rx</b>", "softirq NET_RX"]
                [(row + all.len()) % 3];
            all.push(Span { start, end, label: label.into(), depth: (all.len() % 2) as u8, colour });
            all.push(Span { start: end, end, label: "wake-up".into(), depth: 0, colour });
            at = end;
        }
        all
    };
    let lane = |name: &str, detail: &str, spans| Lane {
        name: name.into(),
        detail: detail.into(),
        spans,
        fills: vec![],
    };
    let stage = Span {
        start: 14_000.0,
        end: 70_000.0,
        label: "schedule → application".into(),
        depth: 0,
        colour: Colour::Muted,
    };
    let cause = Span {
        start: 22_000.0,
        end: 64_000.0,
        label: "thread stress (fifo 50)".into(),
        depth: 0,
        colour: Colour::Series(0),
    };
    let idle =
        Span { start: 2_000.0, end: 60_000.0, label: "idle (C1)".into(), depth: 0, colour: Colour::Faint };
    // Wide letters up to the edge.
    let edge = Span {
        start: 62_000.0,
        end: 100_000.0,
        label: "wake-up [heap]+0x4060 mmmm WWWW of a mutex with a long name".into(),
        depth: 0,
        colour: Colour::Series(2),
    };
    let plot = Timeline {
        span: (0.0, 100_000.0),
        origin: Some((20_000.0, "due".into())),
        zone: Some((20_000.0, 70_000.0)),
        lanes: vec![
            lane("packet", "", vec![stage]),
            lane("late because", "", vec![cause]),
            lane("CPU 0", "interrupt, stack", spans(0, Colour::Series(1))),
            lane("CPU 1", "receiver", spans(1, Colour::Series(6))),
            lane("CPU 2", "", vec![idle, edge]),
        ],
        arrows: vec![Arrow { from: (62_000.0, 3), to: (70_000.0, 0) }],
        keys: vec![
            ("the packet".into(), Colour::Muted),
            ("thread stress (fifo 50)".into(), Colour::Series(0)),
            ("idle".into(), Colour::Faint),
        ],
    };
    Chart::new(id, format!("#{number} · {} late", Cell::Duration(50_000 + number as i64)), plot)
        .note("The shaded part runs from when the packet was due to when it came.")
}

fn threads() -> Chart {
    let mut values = Values(3);
    let mut fill = |colour, most: f64| Fill {
        colour,
        shares: (0..240).map(|_| values.next().unwrap_or(0.0) * most).collect(),
    };
    let lanes = (0..5).map(|at| Lane {
        name: format!("thread {}", 4_000 + at),
        fills: vec![fill(Colour::Series(0), 0.4), fill(Colour::Series(1), 0.3), fill(Colour::Series(2), 0.3)],
        ..Lane::default()
    });
    let plot = Timeline {
        span: (0.0, 2e9),
        lanes: lanes.collect(),
        arrows: vec![Arrow { from: (0.4e9, 1), to: (0.5e9, 3) }, Arrow { from: (1.4e9, 4), to: (1.45e9, 0) }],
        keys: vec![
            ("lock".into(), Colour::Series(0)),
            ("barrier".into(), Colour::Series(1)),
            ("queue".into(), Colour::Series(2)),
        ],
        ..Timeline::default()
    };
    Chart::new("threads", "What each thread waited for", plot)
        .note("How far a column is filled is how much of it the thread waited.")
}

fn bars() -> Vec<Chart> {
    let programs = [
        "lu",
        "ocean",
        "radix",
        "raytrace",
        "a program with quite a long name",
        "water-nsquared",
        "fft",
        "barnes",
    ];
    let mut values = Values(9);
    let mut series = |name: &str, at: u8, most: f64| {
        BarSeries::new(
            name,
            Colour::Series(at),
            programs.map(|_| values.next().unwrap_or(0.0) * most).to_vec(),
        )
    };
    let parts = vec![
        series("lock", 0, 0.3),
        series("barrier", 1, 0.3),
        series("queue", 2, 0.2),
        series("other", 3, 0.2),
    ];
    let mut compared = vec![series("ours", 1, 12.0), series("theirs", 0, 9.0)];
    compared[0].whiskers = compared[0].values.iter().map(|value| Some((value * 0.8, value * 1.2))).collect();
    compared[0].targets = compared[0].values.iter().map(|value| Some(value * 0.7 - 1.0)).collect();
    compared[1].values = compared[1].values.iter().map(|value| value - 4.0).collect();
    let categories: Vec<String> = programs.map(str::to_owned).to_vec();
    let stacked = Bars {
        value: Axis::linear("part of the time", Quantity::Share),
        categories: categories.clone(),
        series: parts,
        stacked: true,
        horizontal: true,
    };
    let grouped = Bars {
        value: Axis::linear("gain, percentage points", Quantity::Number),
        categories,
        series: compared,
        stacked: false,
        horizontal: false,
    };
    let lengths = Bars {
        value: Axis::linear("losses", Quantity::Count),
        categories: ["1", "2", "7"].map(str::to_owned).to_vec(),
        series: vec![BarSeries::new("losses", Colour::Series(1), vec![5.0, 1.0, 1.0])],
        stacked: false,
        horizontal: true,
    };
    vec![
        Chart::new("stacked", "Stacked, lying", stacked),
        Chart::new("grouped", "Grouped, standing, with whiskers and targets", grouped),
        Chart::new("lengths", "Loss length, by packets lost in a row", lengths).on_terminal(),
    ]
}

fn lines() -> Chart {
    let x: Vec<f64> = [64.0, 128.0, 256.0, 512.0, 1_024.0, 1_500.0].to_vec();
    let mean: Vec<f64> = x.iter().map(|x| 0.6 / x.sqrt()).collect();
    let spread = Data::Spread {
        low: mean.iter().map(|y| y * 0.7).collect(),
        high: mean.iter().map(|y| y * 1.4).collect(),
        x: x.clone().into(),
        y: mean.clone().into(),
    };
    let other: Vec<f64> =
        mean.iter().enumerate().map(|(at, y)| if at == 3 { f64::NAN } else { y * 1.8 }).collect();
    let plot = Xy::new(Axis::linear("packet size", Quantity::Bytes), Axis::linear("loss", Quantity::Share))
        .with(Series::new("socket, with its spread", Colour::Series(1), spread))
        .with(Series::new(
            "ring",
            Colour::Series(0),
            Data::Line { x: x.clone().into(), y: other.into(), marks: true },
        ))
        .with(
            Series::new(
                "bound",
                Colour::Ink,
                Data::Line { x: x.into(), y: mean.iter().map(|y| y * 2.4).collect(), marks: false },
            )
            .dashed(),
        );
    Chart::new("lines", "Loss over packet size", plot)
}

fn columns() -> Chart {
    let x: Vec<f64> = (-4..=6).map(f64::from).collect();
    let y = x.iter().map(|x| (0.5 - x.abs() / 9.0).max(0.0)).collect();
    let plot = Xy::new(
        Axis::linear("displacement, packets", Quantity::Number),
        Axis::linear("packets", Quantity::Share),
    )
    .with(Series::new(
        "reorder density",
        Colour::Series(1),
        Data::Columns { x: x.into(), y, width: 0.8 },
    ));
    Chart::new("columns", "Reorder density (RFC 5236)", plot)
}

fn scatter() -> Chart {
    let mut values = Values(77);
    let (x, y): (Vec<f64>, Vec<f64>) =
        (0..400).map(|at| (f64::from(at) * 1e7, 1e6 + 3e5 * values.next().unwrap_or(0.0))).unzip();
    let plot = Xy::new(
        Axis::linear("time of arrival", Quantity::Duration),
        Axis::linear("delay", Quantity::Duration),
    )
    .with(Series::new("packets", Colour::Series(1), Data::Points { x: x.into(), y: y.into() }))
    .with(Series::new(
        "lost",
        Colour::Series(0),
        Data::Rug { x: vec![4e8, 1.5e9, 1.52e9, 3.1e9].into() },
    ));
    Chart::new("scatter", "Burstiness: delay over time of arrival", plot).on_terminal()
}

fn effects() -> Chart {
    let rows = [
        ("pin threads", -4_200.0, 900.0),
        ("irq affinity", -2_100.0, 1_900.0),
        ("no HZ", 300.0, 700.0),
        ("control", 20.0, 150.0),
    ];
    let row = |(at, (name, value, half)): (usize, (&str, f64, f64))| Range {
        name: name.into(),
        at: value,
        interval: Some((value - half, value + half)),
        colour: if at < 2 { Colour::Series(1) } else { Colour::Muted },
        words: format!(
            "{} ({})",
            Cell::difference(Cell::FineDuration(value)),
            if at < 2 { "better" } else { "no difference" }
        ),
    };
    let rows = rows.into_iter().enumerate().map(row).collect();
    Chart::new(
        "effects",
        "Effects on p99, with their 95 % intervals",
        Ranges { value: Axis::linear("change of p99", Quantity::Duration), rows, zero: Some(0.0) },
    )
}

fn map() -> Chart {
    let plot = Matrix {
        row_label: "reactivity".into(),
        column_label: "L2, KiB".into(),
        rows: ["1", "2", "4"].map(str::to_owned).to_vec(),
        columns: ["128", "256", "512", "1024"].map(str::to_owned).to_vec(),
        quantity: Quantity::Share,
        log: false,
        values: vec![0.01, 0.05, 0.12, 0.2, 0.1, f64::NAN, 0.3, 0.35, 0.2, 0.3, 0.5, 0.92].into(),
    };
    Chart::new("map", "Gain by reactivity and cache", plot).still()
}

fn sweep() -> Chart {
    let line = |name: &str, at: u8, y: [f64; 4]| {
        let x = (0..4).map(f64::from).collect();
        Series::new(name, Colour::Series(at), Data::Line { x, y: y.to_vec().into(), marks: true })
    };
    let plot = Xy::new(
        Axis::named("placement", ["same core", "neighbour", "other socket", "anywhere"]),
        Axis::linear("overhead", Quantity::Duration),
    )
    .with(line("rdtsc", 1, [12.0, 14.5, 18.0, 16.0]))
    .with(line("vDSO", 0, [31.0, 32.0, 39.5, 35.0]));
    Chart::new("sweep", "Overhead by placement", plot)
}

/// The sections with drawings.
pub(super) fn sections() -> Vec<Section> {
    let layers = [("source", 5), ("receive", 6), ("application", 7)];
    let times =
        layers.into_iter().rev().map(|(layer, seed)| over_time(&format!("time-{layer}"), layer, seed));
    use DistributionView::{Cdf, Histogram, Tail};
    let pair = [
        distribution("histogram", "Histogram of ΔT", &[Histogram]).on_terminal(),
        distribution("tail", "Tail of ΔT", &[Tail, Cdf]).note("One in 10,000 is 0.01 %."),
    ];
    let worst = [481_203, 481_777, 502_001].map(|number| timeline(&format!("worst-{number}"), number));
    vec![
        Section::new("time", "ΔT over time").with(Group::one_of("Layer", times)),
        Section::new("distribution", "Distribution of ΔT").with(Group::beside(pair)),
        Section::new("worst", "Around the worst packets").with(Group::one_of("Packet", worst)),
        Section::new("threads-over-time", "Threads over time").with(threads().still()),
        Section::new("bars", "Bars").with(Block::Charts(Group::beside(bars()))),
        Section::new("series", "Series").with(Group::beside([
            lines(),
            columns(),
            scatter(),
            effects(),
            map(),
            sweep(),
        ])),
    ]
}
