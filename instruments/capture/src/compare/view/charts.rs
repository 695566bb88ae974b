//! Figures 2 to 6 of the timestamping paper for this machine.

use super::curves::Curve;
use super::placement_words;
use quaver_capture_analysis::compare::{
    Density, KernelSummary, LogDensity, Overheads, PatternSummary, Sweep,
};
use quaver_view::{Axis, Cell, Chart, Colour, Data, Group, Plot, Quantity, Series, Xy, text};

/// Bins of a [`LogDensity`] to a tenfold.
const BINS_PER_DECADE: f64 = 24.0;
const SINCE: &str = "time since the previous packet, minus the period";

/// A series for each name; beyond eight the colours return, dashed.
fn series(at: usize, name: &str, data: Data) -> Series {
    let series = Series::new(name, Colour::Series((at % 8) as u8), data);
    if at >= 8 { series.dashed() } else { series }
}

/// The charts of a pattern; none where nothing was measured.
pub(super) fn of_pattern(at: usize, pattern: &PatternSummary) -> Option<Group> {
    let arms: Vec<&Overheads> = pattern.user.iter().map(|arm| &arm.figures).collect();
    let id = |name: &str| format!("pattern-{at}-{name}");
    let mut charts = Vec::new();
    charts.extend(density(&arms).map(|(plot, note)| {
        Chart::new(id("density"), "Overhead density (figures 2 and 4)", plot).note(note)
    }));
    charts.extend(interarrival(
        &id("interarrival"),
        "Inter-arrival density (figures 3 and 5)",
        &arms,
        "As stamped.",
    ));
    charts.extend(memory(&id("memory"), "Autocorrelation of the overheads", &arms));
    for (place, words, found) in
        [("kernel", "in the kernel", &pattern.kernel), ("module", "by the module", &pattern.module)]
    {
        charts.extend(
            found.iter().flat_map(|found| in_kernel(&|name| id(&format!("{place}-{name}")), words, found)),
        );
    }
    (!charts.is_empty()).then(|| Group::one_of("Plot", charts))
}

fn in_kernel(id: &impl Fn(&str) -> String, place: &str, kernel: &KernelSummary) -> Vec<Chart> {
    let arms: Vec<&Overheads> = kernel.arms.iter().collect();
    let overheads: Vec<(&str, &Density)> =
        kernel.densities.iter().map(|(name, density)| (name.as_str(), density)).collect();
    let label = "overhead, minus the mean of the checkpoints alone (off)";
    let title = format!("Overhead density, {place}");
    let density = level(&id("density"), &title, label, "Share of the stamps", &overheads);
    let title = format!("Inter-arrival density, {place}");
    let between = interarrival(&id("interarrival"), &title, &arms, "Between first checkpoints.");
    let memory = memory(&id("memory"), &format!("Autocorrelation of the overheads, {place}"), &arms);
    [density, between, memory].into_iter().flatten().collect()
}

/// Bins of equal ratio, filled up so that a gap in a density is a gap in the drawing.
fn density(arms: &[&Overheads]) -> Option<(Xy, String)> {
    let number = |low: f64| (low.log10() * BINS_PER_DECADE).round() as i64;
    let used = |density: &LogDensity| density.bins.iter().map(|(low, _)| number(*low)).collect::<Vec<_>>();
    let all: Vec<i64> = arms.iter().flat_map(|arm| used(&arm.density)).collect();
    let (first, last) = (all.iter().min()? - 1, all.iter().max()? + 1);
    let middle = |bin: i64| 10f64.powf((bin as f64 + 0.5) / BINS_PER_DECADE);
    let x: Vec<f64> = (first..=last).map(middle).collect();
    let axis = Axis::log("overhead of a stamp", Quantity::Duration);
    let mut plot = Xy::new(axis, Axis::linear("share of the stamps", Quantity::Share));
    for (at, arm) in arms.iter().enumerate() {
        let mut y = vec![0.0; x.len()];
        for (low, share) in &arm.density.bins {
            y[(number(*low) - first) as usize] = *share;
        }
        plot =
            plot.with(series(at, &arm.name, Data::Line { x: x.clone().into(), y: y.into(), marks: false }));
    }
    let none: Vec<String> = arms
        .iter()
        .filter(|arm| arm.density.not_positive > 0.0)
        .map(|arm| format!("{} {}", arm.name, Cell::Share(arm.density.not_positive)))
        .collect();
    let mut note =
        "Share of the stamps in bins of equal ratio, 24 per decade, without the checkpoints' own time."
            .to_owned();
    if !none.is_empty() {
        note.push_str(&format!(" Not drawn, since nothing remains: {}.", none.join(", ")));
    }
    Some((plot, note))
}

fn interarrival(id: &str, title: &str, arms: &[&Overheads], words: &str) -> Option<Chart> {
    let densities: Vec<(&str, &Density)> =
        arms.iter().map(|arm| (arm.name.as_str(), &arm.interarrival_density)).collect();
    level(id, title, SINCE, &format!("{words} Share of the packets"), &densities)
}

/// Bins of equal width, common to all methods.
fn level(id: &str, title: &str, label: &str, words: &str, arms: &[(&str, &Density)]) -> Option<Chart> {
    let known: Vec<&(&str, &Density)> =
        arms.iter().filter(|(_, density)| !density.shares.is_empty()).collect();
    let mut plot = Xy::new(Axis::linear(label, Quantity::Duration), Axis::linear("share", Quantity::Share));
    for (at, (name, density)) in known.iter().enumerate() {
        let x: Vec<f64> = (0..density.shares.len())
            .map(|bin| density.from_ns + (bin as f64 + 0.5) * density.bin_ns)
            .collect();
        let y = density.shares.clone().into();
        plot = plot.with(series(at, name, Data::Line { x: x.into(), y, marks: false }));
    }
    let beyond: Vec<String> = known
        .iter()
        .map(|(name, density)| format!("{name} {}", Cell::Share(density.below + density.above)))
        .collect();
    let note = text!(
        "{words} in bins of equal width over the middle 99 % of all methods together. Beyond them: {}.",
        beyond.join(", ")
    );
    (!known.is_empty()).then(|| Chart::new(id, title, plot).note(note))
}

fn memory(id: &str, title: &str, arms: &[&Overheads]) -> Option<Chart> {
    let mut plot = Xy::new(
        Axis::linear("lag, packets", Quantity::Count),
        Axis::linear("autocorrelation", Quantity::Number),
    );
    for (at, arm) in arms.iter().filter(|arm| !arm.autocorrelation.is_empty()).enumerate() {
        let x = (1..=arm.autocorrelation.len() as u32).collect();
        let y = arm.autocorrelation.clone().into();
        plot = plot.with(series(at, &arm.name, Data::Line { x, y, marks: true }));
    }
    let note = "Within blocks; values beyond the 1st and 99th percentile are moved to these. The paper reads a high \
                autocorrelation as stability.";
    (!plot.series.is_empty()).then(|| Chart::new(id, title, plot).note(note))
}

/// Loss over packet sizes and over gaps.
pub(super) fn of_loss(curves: &[Curve]) -> Group {
    let chart = |id: &str, title: &str, label: &str, sweep: Sweep| {
        let mut plot = Xy::new(Axis::linear(label, Quantity::Count), Axis::linear("lost", Quantity::Share));
        for (at, curve) in curves.iter().filter(|curve| curve.sweep == sweep).enumerate() {
            let x: Vec<f64> = curve.points.keys().map(|bytes| *bytes as f64).collect();
            let y: Vec<f64> = curve.points.values().map(|sum| sum.share()).collect();
            let name = format!("{}, {}", curve.arm, placement_words(curve.placement));
            plot = plot.with(series(at, &name, Data::Line { x: x.into(), y: y.into(), marks: true }));
        }
        let words = "Share of the packets sent that the receiver did not get, all repetitions together.";
        (!plot.series.is_empty()).then(|| Chart::new(id, title, Plot::from(plot)).note(words))
    };
    let size = chart("loss-size", "Loss by packet size (figure 6a)", "packet size, bytes", Sweep::Size);
    let gap = "gap between packets, bytes at 1 Gbit/s as requested";
    let gap = chart("loss-gap", "Loss by gap (figure 6b)", gap, Sweep::Gap);
    Group::beside([size, gap].into_iter().flatten())
}
