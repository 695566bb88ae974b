//! Drawings of the paper's figures: sizes and classes of late operations, slow-downs, power and frequencies.

use quaver_sim::inject::Spread;
use quaver_sim::paper::{Arm, PaperSummary, ProgramSummary};
use quaver_sync_analysis::sync::SyncClass;
use quaver_view::{
    Axis, BarSeries, Bars, Binned, Chart, Colour, Data, Distribution, DistributionView, Group, Numbers,
    Quantity, Series, Xy,
};

/// Length of a subframe, nanoseconds.
const SUBFRAME_NS: f64 = 330_000.0;

fn named(one: &ProgramSummary, figures: [(&str, &str); 2]) -> String {
    let figure = figures.iter().find(|(name, _)| *name == one.program);
    figure.map_or_else(|| one.program.clone(), |(name, figure)| format!("{name} (paper: {figure})"))
}

/// Late operations of each program by size.
pub(super) fn sizes(summary: &PaperSummary) -> Group {
    let with = || summary.programs.iter().filter(|one| !one.distribution.is_empty());
    let bins = || with().flat_map(|one| &one.distribution);
    let low = bins().map(|bin| bin.from_ns.max(1.0)).fold(f64::MAX, f64::min);
    let high = bins().map(|bin| bin.to_ns).fold(1.0, f64::max);
    Group::beside(with().map(|one| {
        let bins = one.distribution.iter().map(|bin| (bin.from_ns, bin.to_ns, bin.count));
        let binned = Binned::logarithmic(one.program.clone(), Colour::Series(0), bins);
        let plot = Distribution {
            x: Axis::log("lateness", Quantity::Duration).range(low, high),
            of: "late operations".to_owned(),
            views: vec![DistributionView::Histogram, DistributionView::Tail, DistributionView::Cdf],
            series: vec![binned],
            guides: Vec::new(),
        };
        let title = named(one, [("fmm", "figure 7"), ("bodytrack", "figure 8")]);
        Chart::new(format!("sizes-{}", one.program), title, plot).linked("sizes")
    }))
}

/// Which part of the jitter is of which class, a bar a program.
pub(super) fn classes(summary: &PaperSummary) -> Chart {
    let with: Vec<(&str, [f64; 6])> =
        summary.programs.iter().filter_map(|one| Some((one.program.as_str(), one.class_shares?))).collect();
    let series = SyncClass::ALL.map(|class| {
        let shares = with.iter().map(|(_, shares)| shares[class as usize]).collect::<Vec<f64>>();
        let name = format!("{} ({})", class.name(), class.short());
        BarSeries::new(name, Colour::Series(class as u8), shares)
    });
    let bars = Bars {
        value: Axis::linear("share of the jitter", Quantity::Share).range(0.0, 1.0),
        categories: with.iter().map(|(name, _)| (*name).to_owned()).collect(),
        series: series.to_vec(),
        stacked: true,
        horizontal: true,
    };
    Chart::new("by-class", "Share of jitter by class", bars)
}

/// Bars of arms beside each other, a group a program, with whiskers over the seeds and the paper's beside the first arm.
pub(super) fn arms(
    id: &str,
    axis: &str,
    summary: &PaperSummary,
    arms: &[(Arm, &'static str)],
    of: fn(&ProgramSummary, Arm) -> Option<Spread>,
) -> Option<Chart> {
    let programs: Vec<&ProgramSummary> =
        summary.programs.iter().filter(|one| arms.iter().any(|(arm, _)| of(one, *arm).is_some())).collect();
    let series = arms.iter().zip(0..).map(|((arm, name), at)| {
        let spreads: Vec<Option<Spread>> = programs.iter().map(|one| of(one, *arm)).collect();
        let mean = |spread: &Option<Spread>| spread.map_or(f64::NAN, |one| one.mean / 100.0);
        let mut series =
            BarSeries::new(*name, Colour::Series(at), spreads.iter().map(mean).collect::<Vec<f64>>());
        series.whiskers =
            spreads.iter().map(|spread| spread.map(|one| (one.min / 100.0, one.max / 100.0))).collect();
        series
    });
    let mut series: Vec<BarSeries> = series.collect();
    let with_paper = id == "grid";
    if let Some(first) = series.first_mut().filter(|_| with_paper) {
        let paper = |one: &&ProgramSummary| Some(one.of_paper()?.slowdown_percent / 100.0);
        first.targets = programs.iter().map(paper).collect();
    }
    let bars = Bars {
        value: Axis::linear(axis, Quantity::Share),
        categories: programs.iter().map(|one| one.program.clone()).collect(),
        series,
        stacked: false,
        horizontal: false,
    };
    let paper = if with_paper { "; thick line: the paper's unified cache" } else { "" };
    let note = format!("Mean; thin line: min to max over seeds{paper}.");
    (!programs.is_empty())
        .then(|| Chart::new(format!("{id}-bars"), format!("{axis} by program"), bars).note(note))
}

/// Frequency of the subframes of each program, and what each subframe lost.
pub(super) fn frequencies(summary: &PaperSummary) -> Group {
    let with = summary.programs.iter().filter(|one| !one.drawn.is_empty());
    Group::beside(with.flat_map(|one| {
        let ends = one.drawn.iter().map(|subframe| subframe.at_us * 1e3);
        let start = one.drawn.first().map_or(0.0, |first| (first.at_us * 1e3 - SUBFRAME_NS).max(0.0));
        let x: Numbers = std::iter::once(start).chain(ends).map(f64::round).collect();
        let steps = |name: &str, colour, y: Vec<f64>| {
            let last = y.last().copied();
            let y: Numbers = y.into_iter().chain(last).collect();
            Series::new(name, Colour::Series(colour), Data::Steps { x: x.clone(), y })
        };
        let time = || Axis::linear("simulated time", Quantity::Duration);
        let frequency = Xy::new(time(), Axis::linear("f/f0", Quantity::Ratio).range(0.78, 1.22)).with(steps(
            "f/f0",
            0,
            one.drawn.iter().map(|subframe| subframe.factor).collect(),
        ));
        let lost = Xy::new(time(), Axis::linear("lost per subframe", Quantity::Duration)).with(steps(
            "lost",
            1,
            one.drawn.iter().map(|subframe| (subframe.lost_us * 1e3).round()).collect(),
        ));
        let title = named(one, [("water-spatial", "figure 11"), ("facesim", "figure 12")]);
        let link = format!("frequency-{}", one.program);
        [
            Chart::new(link.clone(), format!("{title}: frequency"), frequency).linked(link.clone()),
            Chart::new(format!("lost-{}", one.program), format!("{title}: loss"), lost).linked(link),
        ]
    }))
}
