//! Stamps in the kernel: the tables of user space once more, and what each part costs.

use super::{mean_cell, part, ratio_table, series_cells, series_table, span};
use quaver_capture_analysis::compare::{Difference, KernelSummary, PatternSummary, Verdict};
use quaver_view::{Block, Cell, Column, Section, Shown, Table, Text, text};

/// The checkpoints alone.
const CHECKPOINTS: &str = "off";

/// What lies between the checkpoints, by the names in files.
const ARM_WORDS: &str = "stamping: the kernel's own stamp. second-cycles, second-mono: a whole trace record, in raw cycles \
    or converted to ns.";

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
    let lead = "Time between two of the kernel's own tracepoints, minus the checkpoints' own (the paper's tables I and II). \
                Variances in ns²: those of stamp and checkpoints together, and the stamp's share of the trimmed one.";
    part(section, "In the kernel: overhead", lead, overhead_table(kernel));
    let lead = "Kernel time over raw cycles, as far as a stock kernel has both.";
    section.push(Block::Heading("In the kernel: ratios".to_owned()));
    section.push(Block::Note(lead.into()).only(Shown::HtmlOnly));
    ratio_table(section, &kernel.ratios, &kernel.same, pattern.paper.as_ref());
    let lead = "Autocorrelation of the overheads, their rank correlation with the time since the previous packet (between \
                first checkpoints), and the trimmed deviation of these times.";
    let mut series = series_table();
    kernel.arms.iter().for_each(|arm| {
        series.row(series_cells(arm));
    });
    part(section, "In the kernel: autocorrelation and inter-arrival time", lead, series);
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
    part(section, "In the kernel: costs", "Differences of trimmed means.", costs);
    section.push(ARM_WORDS).push(checkpoint_words(kernel));
    section.push("Not measurable in a stock kernel:");
    section.push(Block::List(LIMITS.map(Text::from).to_vec()));
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
