//! The page of `quaver sim paper`: each table and figure with the paper's beside ours.

mod disturbed;
mod rest;
mod runs;
#[cfg(test)]
pub(super) mod tests;

use quaver_page::table::{Align, Style, Table, sentence, wrap};
use quaver_page::units::count;
use quaver_sim::inject::Spread;
use quaver_sim::paper::{Claim, Kind, PaperSummary, claims};
use quaver_sync_analysis::bench::BenchSummary;

pub(super) use runs::{ALTERNATIVES, GRID, POWER, REACTIVITY};

const WIDTH: usize = 100;

/// A table of a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// Its title; empty where the section's is enough.
    pub(super) title: String,
    /// Heads.
    pub(super) columns: Vec<&'static str>,
    /// Cells.
    pub(super) rows: Vec<Vec<String>>,
}

/// A part of the page: one or several of the paper's tables and figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// By which the page links to it.
    pub(super) id: &'static str,
    /// The paper's names of what it shows; empty: it is shown always.
    pub(super) shows: &'static [&'static str],
    /// Its title.
    pub(super) title: &'static str,
    /// What there is to say.
    pub(super) lead: String,
    /// Tables.
    pub(super) tables: Vec<Rows>,
}

/// All sections that were asked for, in the paper's order.
pub(super) fn sections(summary: &PaperSummary, bench: Option<&BenchSummary>) -> Vec<Section> {
    let mut all = disturbed::sections(summary, bench);
    all.extend(runs::sections(summary));
    all.extend(rest::sections(summary));
    all.retain(|section| section.shows.is_empty() || section.shows.iter().any(|one| summary.wants(one)));
    all
}

/// How it was run, in a line.
pub(super) fn conditions(summary: &PaperSummary) -> String {
    let programs = summary.programs.len();
    let seeds = summary.seeds.len();
    format!(
        "{programs} program{}, {seeds} seed{}, runs of {} us or more without jitter; injection: {}{}",
        if programs == 1 { "" } else { "s" },
        if seeds == 1 { "" } else { "s" },
        count(summary.length_us),
        summary.calibration,
        if summary.complete { "" } else { "; cut short" },
    )
}

/// What became of the paper's statements, in a line.
pub(super) fn verdict(all: &[Claim]) -> String {
    let of = |kind: Kind| {
        let judged = all.iter().filter(move |claim| claim.kind == kind && claim.holds.is_some());
        let hold = judged.clone().filter(|claim| claim.holds == Some(true)).count();
        (hold, judged.count())
    };
    let (laws, shapes) = (of(Kind::Law), of(Kind::Shape));
    let held =
        format!("{} of {} laws hold, and {} of {} shapes of the paper", laws.0, laws.1, shapes.0, shapes.1);
    match all.iter().filter(|claim| claim.is_not_judged()).count() {
        0 => format!("{held}."),
        missing => format!("{held}; {missing} statements are not judged for want of runs."),
    }
}

/// The whole page.
pub fn page(summary: &PaperSummary, bench: Option<&BenchSummary>, report: &str, style: Style) -> String {
    let all = claims(summary);
    let mut out = format!(
        "{}\n{}\n",
        style.bold("The jitter-unit paper's tables and figures, simulated again"),
        conditions(summary)
    );
    wrap(&format!("Kernel activity: {}.", summary.kernel), WIDTH).iter().for_each(|line| {
        out.push_str(&format!("{line}\n"));
    });
    for section in sections(summary, bench) {
        out.push_str(&format!("\n{}\n", style.bold(section.title)));
        wrap(&section.lead, WIDTH).iter().for_each(|line| out.push_str(&format!("{}\n", style.dim(line))));
        for table in &section.tables {
            if !table.title.is_empty() {
                out.push_str(&format!("{}\n", table.title));
            }
            out.push_str(&print(table, style));
        }
    }
    out.push_str(&format!("\n{}\n{}\n", style.bold("What the paper says, judged"), verdict(&all)));
    for claim in all.iter().filter(|claim| claim.holds == Some(false)) {
        let words =
            format!("{}: {} (paper: {}). {}", claim.what, claim.ours, claim.paper, sentence(&claim.why));
        wrap(&words, WIDTH - 2).iter().enumerate().for_each(|(at, line)| {
            let line = if at == 0 { style.caution(line) } else { line.clone() };
            out.push_str(&format!("  {line}\n"));
        });
    }
    out.push_str(&format!("\n{}\n", style.dim(&format!("report: {report}"))));
    out
}

fn print(rows: &Rows, style: Style) -> String {
    let align = |(place, name): (usize, &&'static str)| {
        let words = place == 0 || matches!(*name, "the paper" | "follows" | "trace" | "injection" | "figure");
        (*name, if words { Align::Left } else { Align::Right })
    };
    let columns: Vec<(&str, Align)> = rows.columns.iter().enumerate().map(align).collect();
    let mut table = Table::new(&columns);
    for row in &rows.rows {
        table.row(row.iter().cloned());
    }
    table.render(style)
}

/// A number to three digits or so; of none a dash.
fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".to_owned() };
    match value.abs() {
        large if large >= 99.95 => format!("{value:.0}"),
        middle if middle >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// How far ours is from the paper's, percent of that.
fn distance(ours: Option<f64>, paper: Option<f64>) -> String {
    match ours.zip(paper) {
        Some((ours, paper)) if paper.abs() > 1e-12 => format!("{:+.0} %", (ours / paper - 1.0) * 100.0),
        _ => "-".to_owned(),
    }
}

/// Mean, and from the least to the largest where there are several.
fn spread(of: Option<Spread>) -> String {
    match of {
        None => "-".to_owned(),
        Some(one) if one.runs < 2 => number(Some(one.mean)),
        Some(many) => {
            format!("{} ({} to {})", number(Some(many.mean)), number(Some(many.min)), number(Some(many.max)))
        }
    }
}
