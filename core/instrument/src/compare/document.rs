//! A comparison as a person sees it.

use super::result::{CauseChange, Compared, Comparison};
use super::side::Side;
use crate::run_list::unit_of;
use quaver_analysis::compare::{Basis, Change, LEVELS};
use quaver_analysis::rounds::Interval;
use quaver_store::manifest::Manifest;
use quaver_view::{
    Axis, Block, Cell, Chart, Colour, Data, Document, Numbers, Quantity, Range, Ranges, Section, Series,
    Shown, Table, Text, Tone, Unit, Xy, text,
};

/// Rows of tables before the reader asks for more.
const FIRST: usize = 12;

/// The document.
pub(super) fn document(found: &Comparison) -> Document {
    let mut document =
        Document::new("quaver compare", format!("{} with {}", words(&found.a), words(&found.b)));
    document.version = env!("CARGO_PKG_VERSION").into();
    document.verdict = verdict(found);
    document.warnings = warnings(found);
    document.fact("kind", &found.kind);
    for (name, side) in [("A", &found.a), ("B", &found.b)] {
        let names: Vec<&str> = side.runs.iter().map(|run| run.name.as_str()).collect();
        document.fact(name, names.join(", "));
    }
    if found.sides().all(|run| run.manifest.is_some()) {
        document.section(settings(found));
    }
    if let Some(first) = found.quantities.first() {
        document.section(percentiles(first, &found.quantities));
    }
    document.sections.extend(stages(&found.quantities));
    if !found.causes.is_empty() {
        document.section(causes(&found.causes));
    }
    document.section(figures(found));
    document
}

fn words(side: &Side) -> String {
    match side.runs.as_slice() {
        [one] => one.name.clone(),
        several => format!("{} runs", several.len()),
    }
}

/// The level as people write it: `p99.9`.
fn level_name(name: &str) -> String {
    name.replace('_', ".")
}

/// What came of it: of the quantity, and which causes came or went. None where no interval is known.
pub(super) fn verdict(found: &Comparison) -> Option<Text> {
    let mut words = of_quantity(found)?;
    for (whole, mean) in wholes(&found.quantities).filter(|(_, mean)| mean.found) {
        let interval = mean.difference.map(|one| range_of(whole.unit, one)).unwrap_or_default();
        words = text!("{words} The {} is {} in B ({interval}).", whole.name, larger(mean));
    }
    for (fate, head) in [("went", "Gone"), ("came", "New")] {
        let names: Vec<&str> = found
            .causes
            .iter()
            .filter(|cause| cause.fate() == fate)
            .map(|cause| &*cause.name)
            .take(2)
            .collect();
        if !names.is_empty() {
            words = text!("{words} {head}: {}.", names.join(" and "));
        }
    }
    Some(words)
}

/// From the changes that are judged.
fn of_quantity(found: &Comparison) -> Option<Text> {
    let judged = found.judged();
    let Some(first) = found.quantities.first().filter(|_| !judged.is_empty()) else {
        let (path, change) = &found.figures[found.headline?];
        let interval = change.relative?;
        return Some(match change.found {
            true => text!("{path} is {} in B ({}).", larger(change), range(interval)),
            false => text!("No change of {path} was found ({}).", range(interval)),
        });
    };
    let known: Vec<_> = judged.iter().filter(|(_, change)| change.difference.is_some()).collect();
    let largest = known
        .iter()
        .filter(|(_, change)| change.found)
        .max_by(|(_, one), (_, other)| size(one).total_cmp(&size(other)));
    let scope = match known.first()?.1.basis {
        Basis::Blocks => " between these two runs",
        _ => "",
    };
    if let Some((level, change)) = largest {
        let interval = change.relative.map_or_else(
            || change.difference.map(|one| range_of(first.unit, one)).unwrap_or_default(),
            range,
        );
        let name = level_name(level);
        return Some(text!("{name} of {} is {} in B{scope} ({interval}).", first.name, larger(change)));
    }
    let each: Vec<String> = known
        .iter()
        .filter_map(|(level, change)| Some(format!("{} {}", level_name(level), range(change.relative?))))
        .collect();
    let excludes_zero = |change: &Change| change.relative.is_some_and(|one| one.low > 0.0 || one.high < 0.0);
    // A reader would take such an interval for a change.
    let widened = match known.iter().any(|(_, change)| excludes_zero(change)) {
        true => " After widening for the number of comparisons, every interval includes zero.",
        false => "",
    };
    Some(text!("No change of {} was found{scope}: {}.{widened}", first.name, each.join(", ")))
}

fn size(change: &Change) -> f64 {
    change.share().map_or((change.b - change.a).abs(), |share| (1.0 + share).max(1e-9).ln().abs())
}

fn larger(change: &Change) -> String {
    match change.share() {
        Some(share) if share >= 1.0 => format!("{} times as large", Cell::Figure(1.0 + share)),
        Some(share) if share >= 0.0 => format!("{} larger", Cell::Share(share)),
        Some(share) => format!("{} smaller", Cell::Share(-share)),
        None if change.b > change.a => "larger".to_owned(),
        None => "smaller".to_owned(),
    }
}

/// A relative change, always with its sign. What rounds to nothing keeps its sign as well: `+0.00 %`.
fn percent(share: f64) -> String {
    match share.abs() * 100.0 {
        tiny if tiny > 0.0 && tiny < 0.01 => format!("{}0.00 %", if share > 0.0 { '+' } else { '-' }),
        _ => format!("{}{}", if share > 0.0 { "+" } else { "" }, Cell::Share(share)),
    }
}

fn range(interval: Interval) -> String {
    format!("{} to {}", percent(interval.low), percent(interval.high))
}

fn range_of(unit: Unit, interval: Interval) -> String {
    format!("{} to {}", Cell::difference(unit.cell(interval.low)), Cell::difference(unit.cell(interval.high)))
}

/// What the reader should know first.
pub(super) fn warnings(found: &Comparison) -> Vec<Text> {
    let mut warnings = Vec::new();
    let hosts: Vec<&str> =
        found.differences.iter().filter(|one| one.of_host()).map(|one| one.path.as_str()).collect();
    if !hosts.is_empty() {
        warnings.push(text!("the hosts differ ({}): the change may be theirs", hosts.join(", ")));
    }
    match (found.a.runs.len(), found.b.runs.len()) {
        (1, 1) => warnings.push(
            "one run a side: the spread between runs cannot be seen, so other runs may differ by more; compare several".into(),
        ),
        (1, _) | (_, 1) => {
            warnings.push("one side has a single run: it is taken to spread as the runs of the other side do".into());
        }
        _ => {}
    }
    for run in found.sides() {
        if let Some(reason) = run.manifest.as_ref().and_then(Manifest::incomplete_reason) {
            warnings.push(text!("{} is incomplete: {reason}", run.name));
        }
        warnings.extend(run.notes.iter().map(|note| text!("{}: {note}", run.name)));
    }
    if found.sides().any(|run| run.manifest.is_none()) {
        let words = "files of other tools do not state the host's settings: what else differs is unknown";
        warnings.push(words.into());
    }
    let blind: Vec<&str> =
        found.sides().filter(|run| run.causes.is_none()).map(|run| run.name.as_str()).collect();
    let unlike = |path: &str| found.differences.iter().any(|one| one.path == path);
    if found.sides().all(|run| run.manifest.is_some()) && !blind.is_empty() {
        warnings.push(text!("causes are not compared, since none were recorded: {}", blind.join(", ")));
    } else if unlike("tracing") || unlike("blind") {
        warnings.push(
            "the runs were not traced alike: a cause that came or went may have been there, unseen".into(),
        );
    }
    let shared: Vec<&str> = found.a.runs.iter().map(|run| run.origin.as_str()).collect();
    for run in found.b.runs.iter().filter(|run| shared.contains(&run.origin.as_str())) {
        warnings.push(text!("{} stands on both sides", run.name));
    }
    warnings
}

fn settings(found: &Comparison) -> Section {
    let mut table = Table::new(["what", "A", "B"])
        .empty("nothing that the manifests hold of settings, options and hosts differs");
    for difference in &found.differences {
        let tone = if difference.of_host() { Tone::Caution } else { Tone::Plain };
        let [a, b] = &difference.values;
        table.toned(
            tone,
            [difference.path.clone(), a.join(" | "), b.join(" | ")].map(Text::from).map(Cell::Text),
        );
    }
    Section::new("settings", "What was not the same")
        .note("options, settings, kernel and hardware, as the manifests have them")
        .with(table.first_rows(FIRST).terminal_first(FIRST))
}

const COLUMNS: [&str; 6] = ["", "A", "B", "change", "95 % interval", ""];

fn cells(name: impl Into<Text>, unit: Unit, change: &Change) -> [Cell; 6] {
    let relative = change.share().map(|share| Cell::Text(percent(share).into()));
    let interval = match (change.relative, change.difference) {
        (Some(interval), _) => Cell::Text(range(interval).into()),
        (None, Some(interval)) => Cell::Text(range_of(unit, interval).into()),
        _ => Cell::Missing,
    };
    let difference = || Cell::difference(unit.cell(change.b - change.a));
    let mark = if change.found { "changed" } else { "" };
    [
        Cell::Text(name.into()),
        unit.cell(change.a),
        unit.cell(change.b),
        relative.unwrap_or_else(difference),
        interval,
        Cell::Text(mark.into()),
    ]
}

fn tone(change: &Change) -> Tone {
    match (change.found, change.b > change.a) {
        (false, _) => Tone::Plain,
        (true, true) => Tone::Bad,
        (true, false) => Tone::Good,
    }
}

/// Whether more is better is not known of any number.
fn noted(change: &Change) -> Tone {
    if change.found { Tone::Caution } else { Tone::Plain }
}

/// The quantities after the first of which a run has one figure, such as the share of packets lost.
fn wholes(all: &[Compared]) -> impl Iterator<Item = (&Compared, &Change)> {
    let whole = |one: &&Compared| one.levels.iter().all(Option::is_none);
    all.iter().skip(1).filter(whole).filter_map(|one| Some((one, one.mean.as_ref()?)))
}

fn percentiles(first: &Compared, all: &[Compared]) -> Section {
    let mut table = Table::new(COLUMNS);
    let mut rows = Vec::new();
    for ((name, _), change) in LEVELS.iter().zip(&first.levels) {
        let Some(change) = change else { continue };
        table.toned(tone(change), cells(level_name(name), first.unit, change));
        if let Some(share) = change.share() {
            rows.push(Range {
                name: level_name(name),
                at: share,
                interval: change.relative.map(|one| (one.low, one.high)),
                colour: if change.found { Colour::Series(1) } else { Colour::Muted },
                words: percent(share),
            });
        }
    }
    if let Some(mean) = &first.mean {
        table.toned(Tone::Quiet, cells("mean", first.unit, mean));
    }
    for (whole, mean) in wholes(all) {
        table.toned(noted(mean), cells(&*whole.name, whole.unit, mean));
    }
    let mut section = Section::new("percentiles", format!("Change of {}", first.name))
        .note("B against A; an interval holds the true change in 95 of 100 cases")
        .link("Percentiles")
        .with(table);
    if !rows.is_empty() {
        let value = Axis::linear("change from A to B", Quantity::Share);
        let chart = Chart::new("shift", "Shift of each percentile", Ranges { value, rows, zero: Some(0.0) });
        section.push(chart.note("left of zero B is smaller, right of it larger").on_terminal());
    }
    let quantity = if first.unit == Unit::Duration { Quantity::Duration } else { Quantity::Number };
    let log = first.curves.iter().flatten().all(|(_, value)| *value > 0.0);
    let y = if log { Axis::log(&first.name, quantity) } else { Axis::linear(&first.name, quantity) };
    // From rare to common, since values along an axis ascend.
    let series = [("A", Colour::Series(0)), ("B", Colour::Series(1))].into_iter().zip(&first.curves);
    let plot = series.fold(
        Xy::new(Axis::log("share of samples beyond", Quantity::Share), y),
        |plot, ((name, colour), curve)| {
            let (x, y): (Vec<f64>, Vec<f64>) = curve.iter().rev().copied().unzip();
            plot.with(Series::new(name, colour, Data::Line { x: Numbers(x), y: Numbers(y), marks: false }))
        },
    );
    let chart = Chart::new("tails", "All percentiles", plot)
        .note("the value that a share of the samples exceeds: rare ones left");
    section.push(Block::from(chart).only(Shown::HtmlOnly));
    section
}

/// The quantities after the first that have percentiles; none where there are none.
fn stages(all: &[Compared]) -> Option<Section> {
    let known = |stage: &&Compared| stage.levels[0].is_some() && stage.levels[2].is_some();
    all.iter().skip(1).find(known)?;
    let mut table = Table::new([
        "stage",
        "p50 of A",
        "p50 of B",
        "change",
        "p99 of A",
        "p99 of B",
        "change",
        "95 % interval",
    ]);
    for stage in &all[1..] {
        let (Some(p50), Some(p99)) = (&stage.levels[0], &stage.levels[2]) else { continue };
        let [_, a, b, change, ..] = cells("", stage.unit, p50);
        let [_, a99, b99, change99, interval, _] = cells("", stage.unit, p99);
        table
            .toned(tone(p99), [Cell::Text((&stage.name).into()), a, b, change, a99, b99, change99, interval]);
    }
    Some(Section::new("stages", "By stage").note("where the change was made").with(table))
}

fn causes(all: &[CauseChange]) -> Section {
    let mut table = Table::new(["cause", "A", "B", "difference", "95 % interval", ""]);
    for cause in all {
        let change = &cause.change;
        let interval =
            change.difference.map_or(Cell::Missing, |one| Cell::Text(range_of(Unit::Share, one).into()));
        let difference = Cell::difference(Cell::Share(change.b - change.a));
        table.toned(
            tone(change),
            [
                Cell::Text((&cause.name).into()),
                Cell::Share(change.a),
                Cell::Share(change.b),
                difference,
                interval,
                Cell::Text(cause.fate().into()),
            ],
        );
    }
    Section::new("causes", "Causes that came, went or changed")
        .note("part of the measured time that each took; the largest difference first")
        .link("Causes")
        .with(table.first_rows(FIRST).terminal_first(6))
}

fn figures(found: &Comparison) -> Section {
    let mut table = Table::new(COLUMNS).empty("no number of the summaries differs");
    for (path, change) in found.figures.iter().filter(|(_, change)| change.a != change.b) {
        table.toned(noted(change), cells(Text::default().code(path), unit_of(path), change));
    }
    let shown = if found.quantities.is_empty() { Shown::Everywhere } else { Shown::HtmlOnly };
    Section::new("figures", "All numbers that differ")
        .note("by their paths in summary.json; intervals need several runs a side")
        .shown(shown)
        .with(table.first_rows(40).terminal_first(20))
}

/// A table for a pull request.
pub(super) fn markdown(found: &Comparison) -> String {
    let safe =
        |words: &str| quaver_view::safe(words).replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
    let mut out = format!(
        "**quaver compare**: {}\n\n",
        safe(&verdict(found).map_or_else(|| "no verdict".to_owned(), |one| one.to_string()))
    );
    for warning in warnings(found) {
        out.push_str(&format!("> {}\n", safe(&warning.to_string())));
    }
    out.push_str("\n| | A | B | change | 95 % interval |\n|---|---:|---:|---:|---:|\n");
    let mut row = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| safe(cell)).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    };
    let line = |name: String, unit: Unit, change: &Change| {
        cells(name, unit, change).iter().take(5).map(ToString::to_string).collect::<Vec<_>>()
    };
    for quantity in found.quantities.iter().take(1) {
        for ((name, _), change) in LEVELS.iter().zip(&quantity.levels) {
            if let Some(change) = change {
                row(line(format!("{} of {}", level_name(name), quantity.name), quantity.unit, change));
            }
        }
    }
    for (whole, mean) in wholes(&found.quantities) {
        row(line(whole.name.clone(), whole.unit, mean));
    }
    if let Some((path, change)) = found.headline.map(|at| &found.figures[at]) {
        row(line(path.clone(), unit_of(path), change));
    }
    for cause in found.causes.iter().take(6) {
        let interval = cause.change.difference.map_or("-".to_owned(), |one| range_of(Unit::Share, one));
        let difference = Cell::difference(Cell::Share(cause.change.b - cause.change.a)).to_string();
        let name = format!("{}: {}", cause.name, cause.fate());
        row(vec![
            name,
            Cell::Share(cause.change.a).to_string(),
            Cell::Share(cause.change.b).to_string(),
            difference,
            interval,
        ]);
    }
    for difference in &found.differences {
        let [a, b] = &difference.values;
        row(vec![difference.path.clone(), a.join(", "), b.join(", "), String::new(), String::new()]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_zero_that_is_no_find_is_explained() {
        let change = |low: f64, found: bool| {
            let interval = Interval { low, high: 0.5 };
            let basis = Basis::Runs;
            Some(Change {
                a: 1.0,
                b: 1.25,
                difference: Some(interval),
                relative: Some(interval),
                basis,
                found,
            })
        };
        let of = |p50: Option<Change>| {
            let levels = [p50, change(-0.5, false), None, None, None, None];
            let (id, name, curves) = ("delay".to_owned(), "ΔT".to_owned(), [Vec::new(), Vec::new()]);
            let quantities = vec![Compared { id, name, unit: Unit::Duration, mean: None, levels, curves }];
            let (kind, a, b) = ("chase".to_owned(), Side::default(), Side::default());
            let (differences, causes, figures) = (Vec::new(), Vec::new(), Vec::new());
            let all = Comparison { kind, a, b, differences, quantities, causes, figures, headline: None };
            verdict(&all).expect("intervals are known").to_string()
        };
        let none = "No change of ΔT was found: p50 -20.0 % to +50.0 %, p90 -50.0 % to +50.0 %.";
        assert_eq!(of(change(-0.2, false)), none);
        let widened = " After widening for the number of comparisons, every interval includes zero.";
        assert_eq!(of(change(0.1, false)), none.replace("-20.0 %", "+10.0 %") + widened);
        assert_eq!(of(change(0.1, true)), "p50 of ΔT is 25.0 % larger in B (+10.0 % to +50.0 %).");
    }
}
