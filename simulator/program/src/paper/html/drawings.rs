//! Drawings of the simulated paper: bars in groups, and frequencies over time.

use quaver_sim::inject::Spread;
use quaver_sim::paper::Drawn;
use std::fmt::Write as _;

/// Colours of bars that stand beside each other.
const COLOURS: [&str; 6] = [
    "var(--layer-1)",
    "var(--layer-0)",
    "var(--layer-4)",
    "var(--layer-2)",
    "var(--layer-3)",
    "var(--layer-5)",
];
const LABEL: f64 = 44.0;
const WIDTH: f64 = 940.0;
const HIGH: f64 = 220.0;
/// Room for a program's name.
const NAME: f64 = 100.0;

/// The colour of a bar.
pub(super) fn colour(place: usize) -> &'static str {
    COLOURS[place % COLOURS.len()]
}

/// Bars of a program.
pub(super) struct Group {
    pub(super) name: String,
    /// One a bar; none where nothing was run.
    pub(super) values: Vec<Option<Spread>>,
    /// The paper's for the first bar.
    pub(super) paper: Option<f64>,
}

/// A round number of which at most six make `range`.
fn step(range: f64) -> f64 {
    let rough = (range / 6.0).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// Groups of bars over one scale, with zero drawn.
pub(super) fn groups(all: &[Group], names: &[&str]) -> String {
    let values = || all.iter().flat_map(|group| group.values.iter().flatten());
    let papers = all.iter().filter_map(|group| group.paper);
    let most = values().map(|one| one.max).chain(papers).fold(1.0, f64::max);
    let least = values().map(|one| one.min).fold(0.0, f64::min);
    let each = step(most - least);
    let (top, foot) = ((most / each).ceil() * each, (least / each).floor() * each);
    let y = |value: f64| 8.0 + HIGH * (top - value) / (top - foot);
    let mut inside = String::new();
    let mut at = foot;
    while at <= top + each / 2.0 {
        let heavy = if at.abs() < each / 2.0 { 1.4 } else { 0.6 };
        let _ = write!(
            inside,
            "<line x1=\"{LABEL}\" x2=\"{}\" y1=\"{:.1}\" y2=\"{:.1}\" style=\"stroke:var(--line);stroke-width:{heavy}\"/>\
             <text x=\"{}\" y=\"{:.1}\" class=\"soft\" style=\"text-anchor:end\">{}</text>",
            LABEL + WIDTH,
            y(at),
            y(at),
            LABEL - 6.0,
            y(at) + 4.0,
            tick(at, each)
        );
        at += each;
    }
    let wide = WIDTH / all.len().max(1) as f64;
    for (place, group) in all.iter().enumerate() {
        bars(&mut inside, group, names, (LABEL + wide * place as f64, wide), &y);
        // Names of many groups stand in two rows, else they would run into each other.
        let row = if wide < NAME && place % 2 == 1 { 14.0 } else { 0.0 };
        let _ = write!(
            inside,
            "<text x=\"{:.1}\" y=\"{:.1}\" style=\"text-anchor:middle\">{}</text>",
            LABEL + wide * (place as f64 + 0.5),
            HIGH + 26.0 + row,
            escaped(&group.name)
        );
    }
    framed(&inside, LABEL + WIDTH + NAME / 2.0, HIGH + 34.0 + if wide < NAME { 14.0 } else { 0.0 })
}

fn tick(value: f64, each: f64) -> String {
    let value = if value.abs() < each / 1e6 { 0.0 } else { value };
    if each < 1.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn bars(
    inside: &mut String,
    group: &Group,
    names: &[&str],
    (left, wide): (f64, f64),
    y: &dyn Fn(f64) -> f64,
) {
    let bar = (wide * 0.8 / group.values.len().max(1) as f64).min(34.0);
    let from = left + (wide - bar * group.values.len() as f64) / 2.0;
    for (place, value) in group.values.iter().enumerate() {
        let Some(value) = value else { continue };
        let x = from + bar * place as f64;
        let (high, low) = (y(value.mean.max(0.0)), y(value.mean.min(0.0)));
        let title = format!(
            "{}, {}: {:.2}, from {:.2} to {:.2}",
            group.name,
            names.get(place).copied().unwrap_or_default(),
            value.mean,
            value.min,
            value.max
        );
        let _ = write!(
            inside,
            "<rect x=\"{x:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" style=\"fill:{}\"><title>{}</title></rect>\
             <line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" style=\"stroke:var(--ink);stroke-width:1\"/>",
            (bar - 1.5).max(1.0),
            (low - high).max(0.8),
            colour(place),
            escaped(&title),
            y(value.max),
            y(value.min),
            middle = x + bar / 2.0 - 0.75
        );
        if let (0, Some(paper)) = (place, group.paper) {
            let _ = write!(
                inside,
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" style=\"stroke:var(--ink);stroke-width:3\">\
                 <title>{} in the paper: {paper}</title></line>",
                x - 3.0,
                x + bar + 1.5,
                escaped(&group.name),
                at = y(paper)
            );
        }
    }
}

/// Frequency over rest, subframe by subframe, and below what each lost.
pub(super) fn factors(subframes: &[Drawn]) -> String {
    const WIDE: f64 = 400.0;
    const TALL: f64 = 110.0;
    const LOST: f64 = 40.0;
    let count = subframes.len().max(1) as f64;
    let x = |place: f64| 30.0 + WIDE * place / count;
    let y = |factor: f64| 10.0 + TALL * (1.2 - factor) / 0.4;
    let mut inside = String::new();
    for factor in [0.8, 0.9, 1.0, 1.1, 1.2] {
        let _ = write!(
            inside,
            "<line x1=\"30\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"26\" y=\"{:.1}\" class=\"soft\" style=\"text-anchor:end\">{factor:.1}</text>",
            30.0 + WIDE,
            y(factor) + 4.0,
            at = y(factor)
        );
    }
    let most = subframes.iter().map(|one| one.lost_us).fold(1e-9, f64::max);
    let mut path = String::new();
    for (place, one) in subframes.iter().enumerate() {
        let (from, to) = (x(place as f64), x(place as f64 + 1.0));
        let _ = write!(
            path,
            "{}{from:.1} {at:.1}H{to:.1}",
            if place == 0 { "M" } else { "L" },
            at = y(one.factor)
        );
        let high = LOST * one.lost_us / most;
        let title = format!("until {:.0} us: {:.2}, lost {:.1} us", one.at_us, one.factor, one.lost_us);
        let _ = write!(
            inside,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\" style=\"fill:var(--layer-1);opacity:.75\">\
             <title>{}</title></rect>",
            TALL + 24.0 + LOST - high,
            (to - from - 1.0).max(0.5),
            escaped(&title.replace(" us", " µs"))
        );
    }
    let _ = write!(
        inside,
        "<path d=\"{path}\" style=\"fill:none;stroke:var(--layer-0);stroke-width:2\"/>\
         <text x=\"30\" y=\"{:.1}\" class=\"soft\">lost in each, up to {:.0} µs</text>",
        TALL + LOST + 40.0,
        most
    );
    framed(&inside, 30.0 + WIDE + 4.0, TALL + LOST + 46.0)
}

fn framed(inside: &str, wide: f64, high: f64) -> String {
    format!("<svg viewBox=\"0 0 {wide:.0} {high:.0}\" role=\"img\" aria-hidden=\"true\">{inside}</svg>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(value: f64) -> Option<Spread> {
        Some(Spread { min: value - 1.0, mean: value, max: value + 2.0, runs: 3 })
    }

    #[test]
    fn bars_hang_below_zero_and_whiskers_reach_the_ends() {
        let group = |name: &str, values: Vec<Option<Spread>>| Group {
            name: name.to_owned(),
            values,
            paper: Some(35.6),
        };
        let svg = groups(
            &[group("a<b", vec![spread(30.0), None]), group("c", vec![spread(-4.0), spread(2.0)])],
            &["x", "y"],
        );
        assert!(svg.contains("a&lt;b, x: 30.00, from 29.00 to 32.00") && !svg.contains("a<b"));
        assert_eq!(svg.matches("<rect").count(), 3);
        assert_eq!(svg.matches("in the paper: 35.6").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(!groups(&[], &[]).contains("NaN"));
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(
            [step(40.0), step(7.0), step(0.5)].map(|one| (one * 100.0).round() / 100.0),
            [10.0, 2.0, 0.1]
        );
        assert_eq!((tick(-0.0, 10.0), tick(0.5, 0.5)), ("0".to_owned(), "0.5".to_owned()));
    }

    #[test]
    fn frequencies_are_steps() {
        let drawn = |factor, lost_us| Drawn { at_us: 330.0, factor, lost_us };
        let svg = factors(&[drawn(1.0, 0.0), drawn(1.2, 50.0), drawn(0.95, 3.0)]);
        assert!(svg.contains("d=\"M30.0 65.0H") && svg.contains("lost in each, up to 50 µs"), "{svg}");
        assert!(!factors(&[]).contains("NaN"));
    }
}
