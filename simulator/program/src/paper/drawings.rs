//! Drawings of late operations: by size and by class.

use quaver_page::units::{count, duration, percent};
use quaver_sync_analysis::sync::{Bin, SyncClass};
use std::fmt::Write as _;

const LANE: f64 = 22.0;

/// Symbols of programs may hold what ends text in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(" us", " µs")
}

/// Powers of ten, in nanoseconds, that all bins lie between.
pub(super) fn decades<'a>(bins: impl Iterator<Item = &'a Bin>) -> (f64, f64) {
    let (mut least, mut most) = (f64::MAX, 1.0_f64);
    for bin in bins {
        least = least.min(bin.from_ns.max(1.0));
        most = most.max(bin.to_ns);
    }
    let least = least.min(most).log10().floor();
    (least, most.log10().ceil().max(least + 1.0))
}

/// Operations by size, between two powers of ten; the largest bar is as high as the drawing.
pub(super) fn sizes(bins: &[Bin], (least, most): (f64, f64)) -> String {
    const HIGH: f64 = 110.0;
    const WIDE: f64 = 430.0;
    let x = |ns: f64| WIDE * (ns.max(1.0).log10() - least) / (most - least);
    let largest = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
    let mut inside = String::new();
    for power in least as i32..=most as i32 {
        let ns = 10_i64.pow(power.unsigned_abs());
        let anchor = if power == least as i32 {
            "start"
        } else if power == most as i32 {
            "end"
        } else {
            "middle"
        };
        let _ = write!(
            inside,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{HIGH}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"{at:.1}\" y=\"{}\" style=\"font:11px system-ui,sans-serif;fill:var(--soft);text-anchor:{anchor}\">{}</text>",
            HIGH + 15.0,
            duration(ns).replace(".00", "").replace(".0", "").replace(" us", " µs"),
            at = x(ns as f64)
        );
    }
    for bin in bins {
        let high = (HIGH - 4.0) * bin.count as f64 / largest;
        let (from, to) = (x(bin.from_ns), x(bin.to_ns));
        let _ = write!(
            inside,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\" style=\"fill:var(--layer-0)\"><title>{}</title></rect>",
            HIGH - high,
            (to - from - 0.5).max(0.5),
            escaped(&format!(
                "{} from {} to {}",
                count(bin.count),
                duration(bin.from_ns as i64),
                duration(bin.to_ns as i64)
            ))
        );
    }
    format!("<svg viewBox=\"0 0 {WIDE} {}\" role=\"img\" aria-hidden=\"true\">{inside}</svg>", HIGH + 20.0)
}

/// What part of the jitter is of which class, a bar a program (the paper's figure 9).
pub(super) fn break_down(programs: &[(String, [f64; 6])]) -> String {
    const NAME: f64 = 230.0;
    const WIDE: f64 = 700.0;
    let mut inside = String::new();
    for (row, (name, shares)) in programs.iter().enumerate() {
        let y = LANE * row as f64;
        let _ = write!(inside, "<text x=\"0\" y=\"{:.1}\" class=\"soft\">{}</text>", y + 15.0, escaped(name));
        let mut from = NAME;
        for class in SyncClass::ALL {
            let wide = WIDE * shares[class as usize];
            let title = format!("{}, {} {}", name, class.name(), percent(shares[class as usize]));
            if wide > 0.0 {
                let _ = write!(
                    inside,
                    "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{:.1}\" style=\"fill:{}\"><title>{}</title></rect>",
                    y + 3.0,
                    LANE - 6.0,
                    class_colour(class),
                    escaped(&title)
                );
            }
            from += wide;
        }
    }
    let high = LANE * programs.len() as f64;
    format!("<svg viewBox=\"0 0 {} {high}\" role=\"img\" aria-hidden=\"true\">{inside}</svg>", NAME + WIDE)
}

/// Colour of a class in the break-down and its key.
pub(super) fn class_colour(class: SyncClass) -> &'static str {
    [
        "var(--layer-0)",
        "var(--layer-1)",
        "var(--layer-2)",
        "var(--layer-3)",
        "var(--layer-4)",
        "var(--layer-5)",
    ][class as usize]
}
