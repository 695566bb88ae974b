//! What a person sees of `quaver sim paper`: each table and figure with the paper's beside ours, and its claims judged.

mod charts;
mod cures;
mod lateness;
mod rest;

use crate::head;
use quaver_instrument::facts::RunFacts;
use quaver_sim::inject::Spread;
use quaver_sim::paper::{Arm, Claim, Kind, PaperSummary, ProgramSummary, UNIFIED_PERCENT, Undecided, claims};
use quaver_sync_analysis::bench::BenchSummary;
use quaver_sync_analysis::bench::paper::Suite;
use quaver_view::{Block, Cell, Document, Finding, Section, Shown, Table, Text, Tone, text};

/// A section with the paper's names of what it shows; without any it is always shown.
type Exhibit = (&'static [&'static str], Section);

/// The document.
pub fn document(summary: &PaperSummary, bench: Option<&BenchSummary>, run: &RunFacts) -> Document {
    let all = claims(summary);
    let mut document = head::document("quaver sim paper", run);
    document.incomplete = !summary.complete;
    document.verdict = Some(verdict(&all));
    document.fact("runs", conditions(summary)).fact("kernel activity", &summary.kernel);
    tiles(&mut document, summary);
    warnings(&mut document, summary);
    document.section(judged(&all, summary));
    document.sections.extend(sections(summary, bench));
    document
}

/// All sections that were asked for, in the paper's order.
fn sections(summary: &PaperSummary, bench: Option<&BenchSummary>) -> impl Iterator<Item = Section> {
    let mut all = lateness::exhibits(summary, bench);
    all.extend(cures::exhibits(summary));
    all.extend(rest::exhibits(summary));
    all.retain(|(shows, _)| shows.is_empty() || shows.iter().any(|one| summary.wants(one)));
    all.into_iter().map(|(_, section)| section)
}

/// How it was run, in a line.
fn conditions(summary: &PaperSummary) -> Text {
    let many = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    text!(
        "{}, {}, runs of {} or more without jitter; injection: {}",
        many(summary.programs.len(), "program"),
        many(summary.seeds.len(), "seed"),
        Cell::FineDuration(summary.length_us as f64 * 1e3),
        summary.calibration
    )
}

/// What became of the paper's claims.
fn verdict(all: &[Claim]) -> Text {
    let of = |kind: Kind| {
        let judged = all.iter().filter(move |claim| claim.kind == kind && claim.holds.is_some());
        let hold = judged.clone().filter(|claim| claim.holds == Some(true)).count();
        (hold, judged.count())
    };
    let (laws, shapes) = (of(Kind::Law), of(Kind::Shape));
    let held =
        format!("{} of {} laws hold, and {} of {} shapes of the paper", laws.0, laws.1, shapes.0, shapes.1);
    match all.iter().filter(|claim| claim.is_not_judged()).count() {
        0 => text!("{held}."),
        missing => text!("{held}; {missing} claims are not judged ({}).", undecided(all)),
    }
}

/// Why claims are not judged, with how many each: `35 not run, 2 chance could decide`.
fn undecided(all: &[Claim]) -> String {
    let count = |why: Undecided| all.iter().filter(|claim| claim.undecided == Some(why)).count();
    let there = Undecided::ALL.into_iter().filter(|why| count(*why) > 0);
    there.map(|why| format!("{} {}", count(why), why.words())).collect::<Vec<_>>().join(", ")
}

/// The simulator writes its claims with units of ASCII.
fn units(words: &str) -> String {
    words.replace(" us", " µs")
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase).collect::<String>();
    if first.is_empty() {
        first
    } else {
        format!("{first}{}.", units(letters.as_str().trim_end_matches('.')))
    }
}

fn judged(all: &[Claim], summary: &PaperSummary) -> Section {
    let fitted = summary.programs.iter().filter(|one| one.how.fitted).count();
    let mut section = Section::new("claims", "Claims of the paper").link("Claims").note(text!(
        "Laws follow from arithmetic or the model and must hold. Shapes are properties of the paper's runs; a miss states its \
         reason, as far as the runs show it. A mean over seeds decides where its 95 % interval does. The injection of {fitted} \
         of the {} programs is fitted, to table 6.",
        summary.programs.len()
    ));
    let failed = all.iter().filter(|claim| claim.holds == Some(false)).map(|claim| {
        let what = units(&format!("{}: {} (paper: {})", claim.what, claim.ours, claim.paper));
        Finding::new(Tone::Bad, "fails", what).detail(sentence(&claim.why))
    });
    let open = all.iter().filter(|claim| claim.undecided == Some(Undecided::Chance));
    let open = open.map(|claim| {
        let what = units(&format!("{}: {} (paper: {})", claim.what, claim.ours, claim.paper));
        Finding::new(Tone::Quiet, "not judged", what).detail(sentence(&claim.why))
    });
    section.push(Block::Findings(failed.chain(open).collect()).only(Shown::TerminalOnly));
    for (kind, title) in
        [(Kind::Law, "Laws"), (Kind::Shape, "Shapes of the paper"), (Kind::Told, "Reported, not judged")]
    {
        let mut table = Table::new(["claim", "paper", "here", ""]).title(title);
        for claim in all.iter().filter(|claim| claim.kind == kind) {
            let (tone, word) = match claim.holds {
                Some(true) => (Tone::Good, "holds"),
                Some(false) => (Tone::Bad, "fails"),
                None if claim.is_not_judged() => (Tone::Quiet, "not judged"),
                None => (Tone::Plain, ""),
            };
            let cells = [&claim.what, &claim.paper, &claim.ours].map(|words| Cell::from(units(words)));
            table.toned(tone, cells.into_iter().chain([word.into()]));
            if !claim.why.is_empty() {
                table.note(sentence(&claim.why));
            }
        }
        if !table.rows.is_empty() {
            section.push(Block::from(table).only(Shown::HtmlOnly));
        }
    }
    section
}

fn tiles(document: &mut Document, summary: &PaperSummary) {
    let not_run = text!("{} of the paper's 17 not run", summary.not_run.len());
    document.tile("Programs", Cell::Count(summary.programs.len() as u64), not_run);
    for (suite, paper) in Suite::ALL.into_iter().zip(UNIFIED_PERCENT) {
        if let Some(mean) = summary.mean(suite, Arm::Unified) {
            let note = if summary.covers(suite) {
                text!("mean, unified cache; paper: {}", percent(Some(paper)))
            } else {
                "mean, unified cache".into()
            };
            document.tile(format!("Slow-down, {}", summary.coverage(suite)), percent(Some(mean)), note);
        }
    }
    let covered = Some(Suite::Splash2).filter(|suite| summary.covers(*suite));
    if let Some(mean) = covered.and_then(|suite| summary.mean(suite, Arm::OsCacheDvfs)) {
        let paper = percent(Some(quaver_sim::paper::OVERHEAD_WITH_BOTH_PERCENT[0]));
        document.tile("With DVFS and OS cache", percent(Some(mean)), text!("Splash-2, mean; paper: {paper}"));
    }
}

fn warnings(document: &mut Document, summary: &PaperSummary) {
    let short = summary.programs.iter().filter(|one| one.how.ideal_us < 10_000.0);
    let short: Vec<&str> = short.map(|one| one.program.as_str()).collect();
    if !short.is_empty() {
        let names = short.join(", ");
        document.warn(text!("Runs below 10 ms meet a timer interrupt only through their jitter: {names}."));
    }
    for one in &summary.programs {
        if one.how.cut_short {
            document.warn(text!("{}: the trace was cut short, so steps are missing.", one.program));
        }
        if let Some(reason) = &one.how.only_once {
            document.warn(text!("{} ran one round only: {reason}.", one.program));
        }
    }
}

/// What a program is called in a table.
fn called(program: &ProgramSummary) -> Cell {
    let held_out = if program.held_out { " (held out)" } else { "" };
    format!("{}{held_out}", program.program).into()
}

fn number(value: Option<f64>) -> Cell {
    value.map(Cell::Figure).into()
}

fn percent(value: Option<f64>) -> Cell {
    value.map(|percent| Cell::Share(percent / 100.0)).into()
}

fn microseconds(value: Option<f64>) -> Cell {
    value.map(|us| Cell::FineDuration(us * 1e3)).into()
}

/// How far ours is from the paper's, percent of that.
fn difference(ours: Option<f64>, paper: Option<f64>) -> Cell {
    match ours.zip(paper) {
        Some((ours, paper)) if paper.abs() > 1e-12 && ours.is_finite() => {
            Cell::difference(Cell::Number { value: (ours / paper - 1.0) * 100.0, digits: 0 })
        }
        _ => Cell::Missing,
    }
}

/// Mean, and from the smallest to the largest where there are several.
fn spread(of: Option<Spread>) -> Cell {
    match of {
        None => Cell::Missing,
        Some(one) if one.runs < 2 => number(Some(one.mean)),
        Some(many) => {
            let [mean, min, max] = [many.mean, many.min, many.max].map(Cell::Figure);
            text!("{mean} ({})", Cell::interval(min, max)).into()
        }
    }
}

#[cfg(test)]
mod tests;
