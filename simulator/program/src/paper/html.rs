//! The HTML report of `quaver sim paper`. Drawings are made here, so that they need no scripts.

mod drawings;

use super::drawings::{break_down, class_colour, decades, sizes};
use crate::paper::page as words;
use crate::paper::page::{ALTERNATIVES, GRID, POWER, REACTIVITY, Rows, Section};
use drawings::{Group, factors, groups};
use quaver_page::RunFacts;
use quaver_page::html::ReportError;
use quaver_page::html::drawn::{Frame, write_drawn};
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::table::{Table, Titled};
use quaver_sim::paper::{Arm, Claim, Kind, PaperSummary, ProgramSummary, claims};
use quaver_sync_analysis::bench::BenchSummary;
use quaver_sync_analysis::bench::paper::Suite;
use quaver_sync_analysis::sync::SyncClass;
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../../core/page/assets/report/sim_paper.html");

/// Writes the report.
pub fn write_html(
    out: &mut dyn Write,
    summary: &PaperSummary,
    bench: Option<&BenchSummary>,
    run: &RunFacts,
) -> Result<(), ReportError> {
    write_drawn(out, PAGE, &Page::of(summary, bench, run))
}

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    frame: Frame,
    claims: Vec<Judged>,
    sections: Vec<Shown>,
}

/// Statements of a kind.
#[derive(Serialize)]
struct Judged {
    title: &'static str,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    what: String,
    paper: String,
    ours: String,
    word: &'static str,
    colour: &'static str,
    why: String,
}

#[derive(Serialize)]
struct Shown {
    id: &'static str,
    title: &'static str,
    short: &'static str,
    lead: String,
    drawings: Vec<Drawn>,
    keys: Vec<(String, String)>,
    tables: Vec<Titled>,
}

#[derive(Serialize)]
struct Drawn {
    words: String,
    svg: String,
    /// Half as wide as the page.
    small: bool,
}

impl Page {
    fn of(summary: &PaperSummary, bench: Option<&BenchSummary>, run: &RunFacts) -> Self {
        let all = claims(summary);
        Self {
            frame: Frame::of("sim paper", run, facts(summary)).saying(
                words::verdict(&all),
                summary.complete,
                tiles(summary),
                &warnings(summary),
            ),
            claims: [
                (Kind::Law, "Laws"),
                (Kind::Shape, "Shapes of the paper"),
                (Kind::Told, "Told, without a bar"),
            ]
            .into_iter()
            .map(|(kind, title)| judged(&all, kind, title))
            .filter(|one| !one.rows.is_empty())
            .collect(),
            sections: words::sections(summary, bench).into_iter().map(|one| shown(one, summary)).collect(),
        }
    }
}

fn judged(all: &[Claim], kind: Kind, title: &'static str) -> Judged {
    let row = |claim: &Claim| {
        let (word, colour) = match claim.holds {
            Some(true) => ("holds", "var(--cause-2)"),
            Some(false) => ("does not hold", "var(--alarm)"),
            None if claim.is_not_judged() => ("not judged", "inherit"),
            None => ("", "inherit"),
        };
        Row {
            what: micro(claim.what.clone()),
            paper: micro(claim.paper.clone()),
            ours: micro(claim.ours.clone()),
            word,
            colour,
            why: micro(quaver_page::table::sentence(&claim.why)),
        }
    };
    Judged { title, rows: all.iter().filter(|claim| claim.kind == kind).map(row).collect() }
}

/// What the navigation calls a section.
fn short(id: &str) -> &'static str {
    match id {
        "shares" => "Share of all jitter",
        "table-6" => "Table 6",
        "table-7" => "Table 7",
        "table-8" => "Table 8",
        "sizes" => "Sizes",
        "classes" => "Classes",
        "units" => "Units",
        "subframes" => "Subframes",
        "grid" => "Slow-down",
        "frequencies" => "Frequency",
        "power" => "Power",
        "os-cache" => "OS cache",
        "reactivity" => "Reactivity",
        "alternatives" => "Alternatives",
        "area" => "Area",
        "learning" => "Learning",
        "packets" => "Deadlines",
        "programs" => "Injection",
        "slips" => "Slips",
        _ => "More",
    }
}

fn shown(section: Section, summary: &PaperSummary) -> Shown {
    let table = |rows: &Rows| Titled {
        title: micro(rows.title.clone()),
        table: Table::new(&rows.columns, rows.rows.iter().cloned()),
    };
    let (drawings, keys) = drawn(section.id, summary);
    Shown {
        id: section.id,
        title: section.title,
        short: short(section.id),
        lead: micro(section.lead.clone()),
        drawings,
        keys,
        tables: section.tables.iter().filter(|rows| !rows.rows.is_empty()).map(table).collect(),
    }
}

type Keyed = (Vec<Drawn>, Vec<(String, String)>);

/// The drawings of a section, and the key of their colours.
fn drawn(id: &str, summary: &PaperSummary) -> Keyed {
    match id {
        "sizes" => (distributions(summary), Vec::new()),
        "classes" => by_class(summary),
        "grid" => bars(summary, &GRID, true, "slow-down, percent"),
        "reactivity" => bars(summary, &REACTIVITY, false, "slow-down, percent"),
        "alternatives" => bars(summary, &ALTERNATIVES, false, "slow-down, percent"),
        "power" => bars(summary, &POWER, false, "power, percent"),
        "frequencies" => (frequencies(summary), Vec::new()),
        _ => (Vec::new(), Vec::new()),
    }
}

fn distributions(summary: &PaperSummary) -> Vec<Drawn> {
    let with = || summary.programs.iter().filter(|one| !one.distribution.is_empty());
    let scale = decades(with().flat_map(|one| &one.distribution));
    let of_paper = |one: &ProgramSummary| match one.program.as_str() {
        "fmm" => ", the paper's figure 7",
        "bodytrack" => ", the paper's figure 8",
        _ => "",
    };
    with()
        .map(|one| {
            let words = format!("{}{}", one.program, of_paper(one));
            Drawn { words, svg: sizes(&one.distribution, scale), small: true }
        })
        .collect()
}

fn by_class(summary: &PaperSummary) -> Keyed {
    let shares: Vec<(String, [f64; 6])> =
        summary.programs.iter().filter_map(|one| Some((one.program.clone(), one.class_shares?))).collect();
    if shares.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let keys = SyncClass::ALL.map(|class| {
        let words = format!("{} ({})", class.name(), class.short());
        (words, format!("background:{}", class_colour(class)))
    });
    let svg = break_down(&shares);
    (vec![Drawn { words: "Part of the jitter of each class".to_owned(), svg, small: false }], keys.to_vec())
}

/// Bars of arms beside each other, a group a program; the line is from the least to the largest of the seeds.
fn bars(summary: &PaperSummary, arms: &[(Arm, &'static str)], with_paper: bool, unit: &str) -> Keyed {
    let power = unit.starts_with("power");
    let group = |one: &ProgramSummary| {
        let values = arms.iter().map(|(arm, _)| {
            let arm = one.arm(*arm)?;
            if power { arm.power_percent.first().copied() } else { arm.slow_down_percent }
        });
        let paper = one.of_paper().filter(|_| with_paper).map(|paper| paper.slowdown_percent);
        Group { name: one.program.clone(), values: values.collect(), paper }
    };
    let all: Vec<Group> = summary.programs.iter().map(group).collect();
    if all.iter().all(|group| group.values.iter().all(Option::is_none)) {
        return (Vec::new(), Vec::new());
    }
    let names: Vec<&str> = arms.iter().map(|(_, name)| *name).collect();
    let mut keys: Vec<(String, String)> = names
        .iter()
        .enumerate()
        .map(|(place, name)| ((*name).to_owned(), format!("background:{}", drawings::colour(place))))
        .collect();
    if with_paper {
        keys.push(("the paper's unified cache".to_owned(), "background:var(--ink);height:3px".to_owned()));
    }
    let words = format!("Mean {unit}; the thin line goes from the least to the largest of the seeds");
    (vec![Drawn { words, svg: groups(&all, &names), small: false }], keys)
}

fn frequencies(summary: &PaperSummary) -> Vec<Drawn> {
    let of_paper = |one: &ProgramSummary| match one.program.as_str() {
        "water-spatial" => ", the paper's figure 11",
        "facesim" => ", the paper's figure 12",
        _ => "",
    };
    let with = summary.programs.iter().filter(|one| !one.drawn.is_empty());
    with.map(|one| Drawn {
        words: format!("{}{}", one.program, of_paper(one)),
        svg: factors(&one.drawn),
        small: true,
    })
    .collect()
}

fn tiles(summary: &PaperSummary) -> Vec<Tile> {
    let mut tiles = vec![Tile {
        name: "Programs",
        value: summary.programs.len().to_string(),
        note: format!("{} of the paper's 17 not run", summary.not_run.len()),
    }];
    let percent = |value: f64| format!("{value:.1} %");
    for (suite, paper) in Suite::ALL.into_iter().zip(quaver_sim::paper::UNIFIED_PERCENT) {
        if let Some(mean) = summary.mean(suite, Arm::Unified) {
            let name = if suite == Suite::Splash2 { "Slow-down, Splash-2" } else { "Slow-down, Parsec" };
            tiles.push(Tile {
                name,
                value: percent(mean),
                note: format!("mean, unified cache; paper {paper} %"),
            });
        }
    }
    if let Some(mean) = summary.mean(Suite::Splash2, Arm::OsCacheDvfs) {
        let paper = quaver_sim::paper::OVERHEAD_WITH_BOTH_PERCENT[0];
        let note = format!("Splash-2, mean; paper {paper} %");
        tiles.push(Tile { name: "With DVFS and OS cache", value: percent(mean), note });
    }
    tiles
}

fn warnings(summary: &PaperSummary) -> Vec<String> {
    let mut all = Vec::new();
    let short: Vec<&str> = summary
        .programs
        .iter()
        .filter(|one| one.how.ideal_us < 10_000.0)
        .map(|one| one.program.as_str())
        .collect();
    if !short.is_empty() {
        all.push(format!(
            "Runs shorter than 10 ms meet no timer interrupt but for their jitter: {}.",
            short.join(", ")
        ));
    }
    for one in &summary.programs {
        if let Some(reason) = &one.how.only_once {
            all.push(format!("{} was done only once: {reason}.", one.program));
        }
    }
    all
}

fn facts(summary: &PaperSummary) -> [(&'static str, String); 2] {
    [("How", words::conditions(summary)), ("Kernel activity", summary.kernel.clone())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_what_others_wrote_is_escaped() {
        let summary = crate::paper::page::tests::summary();
        let run = RunFacts { name: "sim-paper-1".to_owned(), version: "0".to_owned(), ..RunFacts::default() };
        let mut out = Vec::new();
        write_html(&mut out, &summary, None, &run).unwrap();
        let page = String::from_utf8(out).unwrap();
        for id in ["claims", "grid", "power", "frequencies", "reactivity", "alternatives", "slips", "facts"] {
            assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
        }
        assert!(page.matches("<svg").count() >= 9, "{}", page.matches("<svg").count());
        assert!(page.contains("not traced: &lt;no&gt; QEMU") && !page.contains("<no>"));
        assert!(!page.contains("NaN"));
    }
}
