//! Stamps in the kernel: the tables of user space once more, and what each part costs; and all ways to stamp in one table.

use super::{mean_cell, part, ratio_table, series_cells, series_table, span};
use quaver_capture_analysis::compare::{Difference, KernelSummary, Paper, PatternSummary, Verdict, Way};
use quaver_view::{Block, Cell, Column, Section, Shown, Table, Text, text};

/// The checkpoints alone.
const CHECKPOINTS: &str = "off";

/// What lies between the checkpoints, by the names in files.
const ARM_WORDS: &str = "stamping: the kernel's own stamp. second-cycles, second-mono: a whole trace record, in raw cycles \
    or converted to ns. bpf: a BPF program without a stamp. bpf-ktime, bpf-cycles: with one.";

/// What a stock kernel has no way to measure.
const LIMITS: [&str; 4] = [
    "A bare stamp in raw cycles: the kernel has none. The ratios are therefore those of whole trace records (second-mono / \
     second-cycles) and of the kernel's bare stamp to such a record, not the paper's.",
    "The checkpoint cost of a single packet: its spread stays in both variances of a ratio and pulls it towards 1.",
    "The later cost of converting raw cycles.",
    "Packet numbers: times between packets are between first checkpoints, and a lost record lengthens one.",
];

/// Adds the kernel's part to a pattern's section.
pub(super) fn add(section: &mut Section, pattern: &PatternSummary, kernel: &KernelSummary) {
    let overhead = "Time between two of the kernel's own tracepoints, minus the checkpoints' own (the paper's tables I and II). \
                    Variances in ns²: those of stamp and checkpoints together, and the stamp's share of the trimmed one.";
    let ratios = "Kernel time over raw cycles, as far as a stock kernel has both.";
    let paper = pattern.paper.as_ref().filter(|_| pattern.module.is_none());
    add_tables(section, kernel, "In the kernel", [overhead, ratios], paper);
    section.push(ARM_WORDS).push(checkpoint_words(kernel));
    section.push("Not measurable in a stock kernel:");
    section.push(Block::List(LIMITS.map(Text::from).to_vec()));
}

/// Adds the paper's comparison, by our module.
pub(super) fn add_module(section: &mut Section, pattern: &PatternSummary, module: &KernelSummary) {
    let overhead =
        "Time between two bare readings of the counter, interrupts off, minus the checkpoints' own.";
    let ratios =
        "The kernel's clock over raw cycles, the paper's ratio; with conversion: by a thread on another CPU.";
    add_tables(section, module, "By the module", [overhead, ratios], pattern.paper.as_ref());
}

/// Adds the four tables of one place; `leads` are the sentences above overheads and ratios.
fn add_tables(
    section: &mut Section,
    kernel: &KernelSummary,
    place: &str,
    leads: [&'static str; 2],
    paper: Option<&Paper>,
) {
    part(section, &format!("{place}: overhead"), leads[0], overhead_table(kernel));
    section.push(Block::Heading(format!("{place}: ratios")));
    section.push(Block::Note(leads[1].into()).only(Shown::HtmlOnly));
    ratio_table(section, &kernel.ratios, &kernel.same, paper);
    let lead = "Autocorrelation of the overheads, their rank correlation with the time since the previous packet (between \
                first checkpoints), and the trimmed deviation of these times.";
    let mut series = series_table();
    kernel.arms.iter().for_each(|arm| {
        series.row(series_cells(arm));
    });
    part(section, &format!("{place}: autocorrelation and inter-arrival time"), lead, series);
    part(section, &format!("{place}: costs"), "Differences of trimmed means.", cost_table(kernel));
}

/// Ways to stamp beside each other.
pub(super) fn ways_table(ways: &[Way]) -> Table {
    let mut table = Table::new([
        Column::new("where"),
        Column::new("way to stamp"),
        Column::new("cost").note("trimmed mean on the packet's way"),
        Column::new("95 % CI"),
        Column::new("converted later").note("per stamp, elsewhere; empty where it was not measured"),
        Column::new("variance").note("trimmed, ns², checkpoints included"),
        Column::new(""),
    ]);
    for way in ways {
        table.row([
            way.place.into(),
            way.what.into(),
            way.ns.map(Cell::FineDuration).into(),
            span(way.interval, Cell::FineDuration),
            way.later_ns.map(Cell::FineDuration).into(),
            way.variance_ns2.map(Cell::Figure).into(),
            way.absent.as_ref().map(|why| Cell::from(reason(way, why))).into(),
        ]);
    }
    table
}

/// A way that was measured and has no result is another thing than one that the host lacks.
fn reason(way: &Way, why: &str) -> String {
    let what = if way.variance_ns2.is_some() { "no result" } else { "not available" };
    format!("{what}: {why}")
}

fn cost_table(kernel: &KernelSummary) -> Table {
    let mut costs = Table::new(["difference", "cost", "95 % CI", ""]);
    for difference in &kernel.differences {
        costs.row([
            difference.what.into(),
            (difference.ns.filter(|_| difference.refusals.is_empty()))
                .map_or_else(|| "no result".into(), Cell::FineDuration),
            span(difference.interval, Cell::FineDuration),
            cost_words(difference).into(),
        ]);
    }
    costs
}

/// What the interval of a cost says.
fn cost_words(difference: &Difference) -> String {
    match (difference.verdict, difference.ns) {
        _ if !difference.refusals.is_empty() => difference.refusals.join("; "),
        (Verdict::NoDifference, _) => "not distinguishable from nothing".to_owned(),
        (_, None) => "negative: impossible".to_owned(),
        (Verdict::Unknown, _) => "too few starts".to_owned(),
        _ => String::new(),
    }
}

fn overhead_table(kernel: &KernelSummary) -> Table {
    let mut table = Table::new([
        Column::new("method"),
        Column::new("stamps"),
        Column::new("mean"),
        Column::new("95 % CI"),
        Column::new("trimmed mean").html_only(),
        Column::new("variance").html_only(),
        Column::new("trimmed var.").note("trimmed variance, ns²"),
        Column::new("own share").note("the stamp's own share of the trimmed variance, ns²"),
        Column::new("95 % CI").html_only(),
        Column::new("below 25 ns").html_only(),
    ]);
    for arm in &kernel.arms {
        let overhead = &arm.overhead;
        table.row([
            arm.name.as_str().into(),
            Cell::Count(overhead.count),
            mean_cell(arm, overhead.mean_ns),
            span(arm.mean_interval, Cell::FineDuration),
            mean_cell(arm, overhead.trimmed_mean_ns),
            Cell::Figure(overhead.variance_ns2),
            Cell::Figure(overhead.trimmed_variance_ns2),
            arm.added_variance_ns2.map(Cell::Figure).into(),
            span(arm.added_variance_interval, Cell::Figure),
            Cell::part(arm.below_25_ns, overhead.count),
        ]);
    }
    table
}

/// What the checkpoints of the kernel found, and what is subtracted.
fn checkpoint_words(kernel: &KernelSummary) -> Text {
    let packets: u64 = kernel.between.iter().map(|(_, moments)| moments.count).sum();
    let own = kernel.between.iter().find(|(name, moments)| name == CHECKPOINTS && moments.count > 0);
    let own = own.map_or_else(
        || "The cost of the checkpoints themselves is unknown: nothing is subtracted.".to_owned(),
        |(_, own)| {
            format!(
                "The checkpoints themselves take {} (subtracted), trimmed variance {} ns².",
                Cell::FineDuration(own.trimmed_mean_ns),
                Cell::Figure(own.trimmed_variance_ns2)
            )
        },
    );
    text!(
        "{} packets between net:netif_rx_entry and net:netif_rx, trace clock x86-tsc. {own} The stamp's share is the trimmed \
         variance minus theirs, if the two are independent. Interrupts were off at {} of them.",
        Cell::Count(packets),
        Cell::Share(kernel.interrupts_off_share)
    )
}
