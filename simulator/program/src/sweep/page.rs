//! The page of a sweep: a row for each combination of the axes, seeds taken together.

use crate::page::{figure, simulated};
use crate::sweep::digest::{SeedSpread, SweepGroup, SweepSummary};
use quaver_page::RunFacts;
use quaver_page::console::{WIDTH, heading, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{count, percent};

/// Rows on the page; table and report have more.
const ROWS: usize = 60;

/// A figure that pages show.
#[derive(Clone, Copy)]
pub struct Shown {
    /// Name of its column.
    pub column: &'static str,
    /// Head of its column on pages.
    pub head: &'static str,
    /// What it is, in a sentence.
    pub meaning: &'static str,
    /// As people read it.
    pub text: fn(f64) -> String,
}

/// Figures that pages show, where points have them.
pub const SHOWN: [Shown; 8] = [
    Shown {
        column: "duration_fs",
        head: "time",
        meaning: "simulated time of the run",
        text: |fs| simulated(fs.round() as u64),
    },
    Shown { column: "cpi", head: "CPI", meaning: "cycles an instruction while a thread ran", text: figure },
    Shown {
        column: "l2_misses_per_1000",
        head: "L2 MPKI",
        meaning: "looks that the own second level did not answer, in 1000 instructions",
        text: figure,
    },
    Shown {
        column: "late_per_ms",
        head: "late a ms",
        meaning: "late operations of the six classes in a millisecond, as the units found them",
        text: figure,
    },
    Shown {
        column: "slow_down",
        head: "slow-down",
        meaning: "how much longer the same instructions took than without jitter, after the warm-up",
        text: signed_percent,
    },
    Shown {
        column: "mean_factor",
        head: "frequency",
        meaning: "mean frequency of cores with a thread, times that at rest",
        text: |factor| format!("{factor:.3}"),
    },
    Shown {
        column: "power",
        head: "power",
        meaning: "mean power of the cores, times that of busy ones at rest",
        text: |power| format!("{power:.3}"),
    },
    Shown {
        column: "overflows",
        head: "overflows",
        meaning: "waits that were not measured, for a unit's buffer was full",
        text: |number| count(number.round() as u64),
    },
];

fn signed_percent(share: f64) -> String {
    let per_cent = share * 100.0;
    if per_cent.abs() < 1_000.0 { format!("{per_cent:+.2} %") } else { format!("{per_cent:+.0} %") }
}

/// Figures that some of these points have; overflows only where there were any.
pub fn shown(groups: &[SweepGroup<'_>]) -> Vec<Shown> {
    let has = |one: &Shown| {
        let spreads = || groups.iter().filter_map(|group| group.spread(one.column));
        if one.column == "overflows" {
            spreads().any(|spread| spread.max > 0.0)
        } else {
            spreads().next().is_some()
        }
    };
    SHOWN.into_iter().filter(has).collect()
}

/// A figure over the seeds: its mean, and from where to where it goes.
pub fn spread_text(one: &Shown, spread: SeedSpread) -> String {
    let mean = (one.text)(spread.mean);
    range_text(one, spread).map_or(mean.clone(), |range| format!("{mean} ({range})"))
}

/// From where to where a figure goes over the seeds; none where they agree.
pub fn range_text(one: &Shown, spread: SeedSpread) -> Option<String> {
    let (low, high) = ((one.text)(spread.min), (one.text)(spread.max));
    (low != high).then(|| format!("{low} to {high}"))
}

/// Columns of the table of combinations.
pub fn columns(summary: &SweepSummary, shown: &[Shown]) -> Vec<String> {
    let mut columns = vec!["trace".to_owned()];
    columns.extend(summary.axes.iter().map(|axis| axis.name.clone()));
    columns.push("seeds".to_owned());
    columns.extend(shown.iter().map(|one| one.head.to_owned()));
    columns
}

/// The figure of which a page always says from where to where it goes.
const RANGED: &str = "slow_down";

/// Which combination a row is about: trace, values of the axes, number of seeds.
pub fn names(summary: &SweepSummary, group: &SweepGroup<'_>) -> Vec<String> {
    let mut cells = vec![summary.traces[group.trace].clone()];
    cells.extend(group.values.iter().enumerate().map(|(axis, value)| summary.label(axis, *value)));
    cells.push(group.seeds().to_string());
    cells
}

/// Cells of a row; only slow-downs with their least and largest value.
fn cells(summary: &SweepSummary, group: &SweepGroup<'_>, shown: &[Shown]) -> Vec<String> {
    let mut cells = names(summary, group);
    let text = |one: &Shown| {
        let spread = group.spread(one.column);
        spread.map_or("-".to_owned(), |spread| match one.column == RANGED {
            true => spread_text(one, spread),
            false => (one.text)(spread.mean),
        })
    };
    cells.extend(shown.iter().map(text));
    cells
}

/// What was done, in a line.
pub fn verdict(summary: &SweepSummary) -> String {
    let all = summary.points.len() + summary.missing;
    let traces = if summary.traces.len() == 1 {
        "1 trace".to_owned()
    } else {
        format!("{} traces", summary.traces.len())
    };
    let axes = match summary.axes.len() {
        0 => "nothing varied".to_owned(),
        1 => format!("{} varied", summary.axes[0].name),
        more => format!("{more} axes"),
    };
    if summary.missing > 0 {
        return format!(
            "{} of {} points: {traces}, {axes}.",
            count(summary.points.len() as u64),
            count(all as u64)
        );
    }
    format!("{} points: {traces}, {axes}.", count(all as u64))
}

/// What is said of slow-downs, where there are any.
pub fn compared_with(summary: &SweepSummary) -> Option<&'static str> {
    match summary.ideal.as_str() {
        "same-cache" => {
            Some("Slow-downs are against the same run without jitter and controller, with the same caches.")
        }
        "unified" => {
            Some("Slow-downs are against the run without jitter and controller, with a unified second level.")
        }
        _ => None,
    }
}

/// The page.
pub fn page(summary: &SweepSummary, run: &RunFacts, report_path: Option<&str>, style: Style) -> String {
    let mut out = format!("{} · {}\n", style.bold("quaver sim sweep"), printable(&run.directory));
    out.push_str(&format!("  {}\n", verdict(summary)));
    let groups = summary.groups();
    let shown = shown(&groups);
    heading(&mut out, style, "Points", "mean over the seeds; slow-downs also from the least to the largest");
    let columns = columns(summary, &shown);
    let named: Vec<(&str, Align)> = columns
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), if at == 0 { Align::Left } else { Align::Right }))
        .collect();
    let mut table = Table::new(&named);
    groups.iter().take(ROWS).for_each(|group| {
        table.row(cells(summary, group, &shown));
    });
    out.push_str(&table.render(style));
    if groups.len() > ROWS {
        let more = format!("and {} more (see the report, or points.parquet)", groups.len() - ROWS);
        out.push_str(&format!("  {}\n", style.dim(&more)));
    }
    let has_slow_down = shown.iter().any(|one| one.column == "slow_down");
    for line in
        compared_with(summary).filter(|_| has_slow_down).iter().flat_map(|words| wrap(words, WIDTH - 2))
    {
        out.push_str(&format!("  {}\n", style.dim(&line)));
    }
    if summary.missing > 0 {
        let all = summary.points.len() + summary.missing;
        let share = percent(summary.missing as f64 / all as f64);
        out.push_str(&format!(
            "  {}\n",
            style.alarm(&format!("{} of {all} points are missing ({share}).", summary.missing))
        ));
    }
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sweep::digest::{Label, SCHEMA, SweepAxis, SweepRow};
    use serde_json::{Map, Value};

    /// Two traces, sizes and schemes, two seeds.
    pub(crate) fn summary(axes: usize) -> SweepSummary {
        let sizes =
            SweepAxis { name: "l2.kib".into(), values: vec![Label::Integer(128), Label::Integer(512)] };
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

    #[test]
    fn a_row_a_combination_with_the_seeds_together() {
        let summary = summary(2);
        let run = RunFacts { directory: "runs/sweep-sizes".to_owned(), ..RunFacts::default() };
        let page = page(&summary, &run, Some("runs/sweep-sizes/report.html"), Style::PLAIN);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[0], "quaver sim sweep · runs/sweep-sizes");
        assert_eq!(lines[1], "  16 points: 2 traces, 2 axes.");
        let row =
            lines.iter().find(|line| line.trim_start().starts_with("lu") && line.contains("<os>")).unwrap();
        assert!(row.contains("+12.15 % (+12.10 % to +12.20 %)") && row.contains(" 2 "), "{row}");
        assert!(!page.contains("overflows"), "none were there");
        assert!(page.contains("with the same caches"), "{page}");
        let mut partial = summary;
        partial.missing = 2;
        assert_eq!(verdict(&partial), "16 of 18 points: 2 traces, 2 axes.");
        assert!(
            super::page(&partial, &run, None, Style::PLAIN).contains("2 of 18 points are missing (11.1 %)")
        );
    }
}
