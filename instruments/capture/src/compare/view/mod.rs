//! What a person sees of a comparison of stamps: the timestamping paper's figures 2 to 6 for this machine, and every figure
//! in tables.

mod charts;
mod curves;
mod kernel;
mod losses;

use quaver_capture_analysis::compare::{
    ArmSummary, CompareSummary, Comparison, Conversion, Cost, Interval, Overheads, Paper, PatternSummary,
    Placement, Ratio, Same, Verdict,
};
use quaver_instrument::facts::RunFacts;
use quaver_view::{Block, Cell, Column, Document, Section, Shown, Table, Text, text};

/// The ratio that the verdict is about.
const GENERIC: &str = "inline-clock";
const OURS: &str = "batch";

/// The document.
pub fn document(summary: &CompareSummary, run: &RunFacts) -> Document {
    let mut document = Document::new("quaver capture --compare", &run.name);
    document.version.clone_from(&run.version);
    document.verdict = Some(verdict(&summary.patterns));
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    document.fact("host", &run.host).fact("from", summary.from.as_deref().unwrap_or_default());
    document.fact("CPUs", &summary.cores);
    document.html_fact("run", &run.directory).html_fact("command", Text::default().code(&run.command));
    document.html_fact("started", &run.started);
    for (name, value) in &run.facts {
        document.html_fact(name, value);
    }
    for (at, pattern) in summary.patterns.iter().enumerate() {
        tiles(&mut document, pattern);
        document.section(section(at, pattern));
    }
    document.sections.extend(losses::section(&summary.loss));
    document.sections.extend(losses::peer_section(&summary.peers));
    if !summary.cannot.is_empty() {
        let cannot = summary.cannot.iter().map(Text::from).collect();
        document.section(Section::new("cannot", "Not possible here").with(Block::List(cannot)));
    }
    document
}

/// The comparison that the head of the page is about: with conversion, wherever it is done.
fn main_ratio(pattern: &PatternSummary) -> Option<&Comparison> {
    let ratio = pattern.ratios.iter().find(|ratio| ratio.of == GENERIC && ratio.to == OURS)?;
    ratio.whole.as_ref()
}

fn verdict(patterns: &[PatternSummary]) -> Text {
    let found: Vec<String> = patterns.iter().filter_map(pattern_verdict).collect();
    if found.is_empty() {
        return "No pattern was completed.".into();
    }
    text!(
        "User space, conversion included: the kernel's clock (vDSO) against raw cycles converted in batches. {}",
        found.join(" ")
    )
}

fn pattern_verdict(pattern: &PatternSummary) -> Option<String> {
    let found = main_ratio(pattern)?;
    let name = &pattern.facts.name;
    let (Some(ratio), Some(interval)) = (found.result(), found.interval) else {
        return Some(format!("Pattern {name}: no result ({}).", found.refusals.join("; ")));
    };
    let times = Cell::Figure(ratio);
    let span = Cell::interval(Cell::Figure(interval.low), Cell::Figure(interval.high));
    Some(match found.verdict {
        Verdict::Larger | Verdict::Smaller => {
            format!("Pattern {name}: the clock takes {times}× as long (95 % CI {span}).")
        }
        Verdict::NoDifference | Verdict::Unknown => {
            format!("Pattern {name}: no difference (ratio {times}, 95 % CI {span}).")
        }
    })
}

fn tiles(document: &mut Document, pattern: &PatternSummary) {
    let Some(found) = main_ratio(pattern) else { return };
    let Some(ratio) = found.result() else { return };
    let name = match pattern.facts.name.as_str() {
        name @ ("1" | "2") => format!("pattern {name}"),
        other => other.to_owned(),
    };
    let note = text!("clock / batch, 95 % CI {}", span(found.interval, Cell::Figure));
    document.tile(format!("User space, {name}"), text!("{}×", Cell::Figure(ratio)), note);
}

fn pattern_words(pattern: &PatternSummary) -> Text {
    let facts = &pattern.facts;
    let gap = facts.ifg_bytes.map_or_else(String::new, |gap| format!(" (gap of {} bytes)", Cell::Count(gap)));
    text!(
        "{} bytes every {}{gap}; {} sent, {} missed",
        facts.frame_bytes,
        Cell::FineDuration(facts.period_ns),
        Cell::Count(facts.sent),
        Cell::several(facts.missed, "slot")
    )
}

/// A table under its heading, and what only the page has room to explain.
fn part(section: &mut Section, title: &str, lead: &str, table: Table) {
    section.push(Block::Heading(title.to_owned()));
    section.push(Block::Note(lead.into()).only(Shown::HtmlOnly)).push(table);
}

fn section(at: usize, pattern: &PatternSummary) -> Section {
    let title = format!("Pattern {}", pattern.facts.name);
    let mut section = Section::new(format!("pattern-{at}"), title).note(pattern_words(pattern));
    if let Some(charts) = charts::of_pattern(at, pattern) {
        section.push(charts);
    }
    let lead = "What a stamp takes on the packet's way, each against its own checkpoints: figures of different checkpoints \
                are no contest. In the kernel a way has all that it needs, such as the call of a BPF program or a record.";
    part(&mut section, "Ways to stamp", lead, kernel::ways_table(&pattern.ways));
    let lead = "Time between two checkpoints around a stamp in user space, minus the checkpoints' own (the paper's tables I \
                and II). Trimmed: without the lowest and the highest 1 %. Variances in ns².";
    part(&mut section, "Overhead", lead, overhead_table(pattern));
    let own = &pattern.checkpoints;
    section.push(text!(
        "Overhead of a stamp in user space, without the checkpoints' own {} (variance {} ns²).",
        Cell::FineDuration(own.trimmed_mean_ns),
        Cell::Figure(own.trimmed_variance_ns2)
    ));
    let lead = "Overhead of the kernel's clock (vDSO) over that of each method. Intervals resample starts of the program and \
                rounds within them. Each method against itself must give 1. The paper measured in the kernel: its ratio \
                stands there.";
    section.push(Block::Heading("Ratios".to_owned()));
    section.push(Block::Note(lead.into()).only(Shown::HtmlOnly));
    ratio_table(&mut section, &pattern.ratios, &pattern.same, None);
    let lead = "Autocorrelation of the overheads, their rank correlation with the time since the previous packet, the \
                trimmed deviation of these times, and what a stamp costs the receiver later.";
    let mut series = series_table();
    series.columns.push(Column::new("deferred cost").note("per stamp"));
    series.columns.push(Column::new("converters").note("per stamp, on other CPUs, without waits"));
    for arm in &pattern.user {
        series.row(
            series_cells(&arm.figures)
                .into_iter()
                .chain([arm.resolve_ns, arm.converter_ns].map(Cell::FineDuration)),
        );
    }
    part(&mut section, "Autocorrelation and inter-arrival time", lead, series);
    for conversion in &pattern.conversions {
        section.push(conversion_words(conversion));
    }
    if let Some(found) = &pattern.kernel {
        kernel::add(&mut section, pattern, found);
    }
    if let Some(found) = &pattern.module {
        kernel::add_module(&mut section, pattern, found);
    }
    section
}

/// An overhead, where it is a result.
fn mean_cell(arm: &Overheads, ns: f64) -> Cell {
    arm.refused.map_or(Cell::FineDuration(ns), Cell::from)
}

fn overhead_table(pattern: &PatternSummary) -> Table {
    let mut table = Table::new([
        Column::new("method"),
        Column::new("stamps"),
        Column::new("mean"),
        Column::new("95 % CI"),
        Column::new("variance").html_only(),
        Column::new("trimmed mean").html_only(),
        Column::new("trimmed var.").note("trimmed variance, ns²"),
        Column::new("p50").html_only(),
        Column::new("p99"),
        Column::new("below 25 ns").html_only(),
    ]);
    for ArmSummary { figures: arm, .. } in &pattern.user {
        let overhead = &arm.overhead;
        table.row([
            arm.name.as_str().into(),
            Cell::Count(overhead.count),
            mean_cell(arm, overhead.mean_ns),
            span(arm.mean_interval, Cell::FineDuration),
            Cell::Figure(overhead.variance_ns2),
            mean_cell(arm, overhead.trimmed_mean_ns),
            Cell::Figure(overhead.trimmed_variance_ns2),
            Cell::FineDuration(overhead.p50_ns),
            Cell::FineDuration(overhead.p99_ns),
            Cell::part(arm.below_25_ns, overhead.count),
        ]);
    }
    table
}

/// Columns that arms in user space and in the kernel have in common, for [`series_cells`].
fn series_table() -> Table {
    Table::new([
        Column::new("method"),
        Column::new("lag 1").note("autocorrelation of the overheads"),
        Column::new("lag 2").note("autocorrelation of the overheads"),
        Column::new("lag 10").note("autocorrelation of the overheads"),
        Column::new("with arrival").note("rank correlation with the time since the previous packet"),
        Column::new("95 % CI").html_only(),
        Column::new("arrival sd").note("of the time since the previous packet, trimmed"),
    ])
}

fn series_cells(arm: &Overheads) -> [Cell; 7] {
    let number = |value: f64| Cell::Number { value, digits: 2 };
    let lag = |lag: usize| Cell::from(arm.autocorrelation.get(lag - 1).copied().map(number));
    let with = arm.with_interarrival.as_ref();
    let sd = arm.interarrival.as_ref().map(|found| found.trimmed_variance_ns2.sqrt());
    [
        arm.name.as_str().into(),
        lag(1),
        lag(2),
        lag(10),
        with.map(|found| number(found.spearman)).into(),
        with.map(|found| {
            Cell::interval(number(found.spearman_interval.0), number(found.spearman_interval.1))
        })
        .into(),
        sd.map(Cell::FineDuration).into(),
    ]
}

/// Ratios, those that are no results without a number, and each arm against itself.
fn ratio_table(section: &mut Section, ratios: &[Ratio], same: &[Same], paper: Option<&Paper>) {
    let later = ratios.iter().any(|ratio| ratio.whole.is_some());
    let mut columns = vec![
        Column::new("ratio"),
        Column::new("means").note("ratio of trimmed means"),
        Column::new("95 % CI"),
    ];
    if later {
        columns.push(Column::new("with conversion").note("wherever it is done: later, on other CPUs"));
        columns.push(Column::new("95 % CI"));
    }
    columns.push(Column::new("variances").note("ratio of trimmed variances"));
    columns.push(Column::new("95 % CI"));
    let mut table = Table::new(columns);
    let cells = |found: &Comparison| {
        let shown = found.result().map_or_else(|| "no result".into(), Cell::Figure);
        [shown, span(found.interval, Cell::Figure)]
    };
    let mut refusals: Vec<Text> = Vec::new();
    for ratio in ratios {
        let name = format!("{} / {}", ratio.of, ratio.to);
        let (mean, whole, variance) =
            (cells(&ratio.mean), ratio.whole.as_ref().map(cells), cells(&ratio.variance));
        let row =
            [name.as_str().into()].into_iter().chain(mean).chain(whole.into_iter().flatten()).chain(variance);
        table.row(row);
        let parts = [
            ("means", Some(&ratio.mean)),
            ("with conversion", ratio.whole.as_ref()),
            ("variances", Some(&ratio.variance)),
        ];
        for (what, found) in parts {
            let said = found.map_or(&[][..], |found| &found.refusals);
            if !said.is_empty() {
                refusals.push(text!("{name}, {what}: {}", said.join("; ")));
            }
        }
    }
    if let Some(paper) = paper {
        let name = format!("paper, table {}: ktime / raw cycles", paper.table);
        let (means, variances) = (Cell::Figure(paper.mean_ratio()), Cell::Figure(paper.variance_ratio()));
        table.row([name.into(), means, Cell::Empty, variances]);
        let (ktime, raw) = (&paper.ktime, &paper.raw);
        table.note(text!(
            "paper: means {} and {}, variances {} and {} ns²",
            Cell::FineDuration(ktime.mean_ns),
            Cell::FineDuration(raw.mean_ns),
            Cell::Figure(ktime.variance_ns2),
            Cell::Figure(raw.variance_ns2)
        ));
    }
    section.push(table).push(same_table(same));
    if !refusals.is_empty() {
        section.push("No result:").push(Block::List(refusals));
    }
}

/// Each arm against itself.
fn same_table(same: &[Same]) -> Table {
    let mut table = Table::new(["against itself", "means", "95 % CI", "", "variances", "95 % CI", ""]);
    let differs = |found: &Comparison| match found.verdict {
        Verdict::Larger | Verdict::Smaller => "differs".into(),
        Verdict::Unknown => "cannot tell".into(),
        Verdict::NoDifference => Cell::Empty,
    };
    for one in same {
        let [mean, variance] = [&one.mean, &one.variance].map(|found| {
            [found.ratio.map(Cell::Figure).into(), span(found.interval, Cell::Figure), differs(found)]
        });
        table.row([one.name.as_str().into()].into_iter().chain(mean).chain(variance));
    }
    table
}

fn span(interval: Option<Interval>, shown: impl Fn(f64) -> Cell) -> Cell {
    interval.map(|found| Cell::interval(shown(found.low), shown(found.high))).into()
}

/// What was found here about where conversion is done.
fn conversion_words(conversion: &Conversion) -> Text {
    let side = |cost: &Cost| {
        if !cost.refusals.is_empty() {
            return format!("has no result ({})", cost.refusals.join("; "));
        }
        let size = Cell::FineDuration(cost.ns.abs());
        // "Less" turns the sign round.
        let less = |found: Interval| Interval { low: -found.high, high: -found.low };
        let shown =
            cost.interval.map(|found| if cost.verdict == Verdict::Smaller { less(found) } else { found });
        let interval = span(shown, Cell::FineDuration);
        match cost.verdict {
            Verdict::Larger => format!("costs {size} more (95 % CI {interval})"),
            Verdict::Smaller => format!("costs {size} less (95 % CI {interval})"),
            Verdict::NoDifference => format!("does not differ (95 % CI {interval})"),
            Verdict::Unknown => "is undecided: too few starts".to_owned(),
        }
    };
    let what = |name: &str| match name {
        "threaded" => "handing a stamp to one converter thread".to_owned(),
        "threaded:2" => "handing a stamp to one of two converter threads".to_owned(),
        "inline-cycles" => "inline conversion".to_owned(),
        "batch" => "conversion in batches".to_owned(),
        other => other.to_owned(),
    };
    text!(
        "Result: {} against {}: on the hot path it {}; including conversion on every CPU and waits of the receiver it {}.",
        what(&conversion.of),
        what(&conversion.to),
        side(&conversion.hot),
        side(&conversion.whole)
    )
}

/// Where softirq and receiver ran.
const fn placement_words(placement: Placement) -> &'static str {
    match placement {
        Placement::Apart => "different CPUs",
        Placement::Together => "one CPU",
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
