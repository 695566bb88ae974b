//! The part of the page about stamps in the kernel, and its rows, which the HTML report shows as well.

use super::{
    RATIO_COLUMNS, SERIES_COLUMNS, ns, number, paper_cells, paragraph, ratio_cells, series_cells, span,
    titled,
};
use quaver_capture_analysis::compare::{Difference, KernelSummary, Overheads, PatternSummary, Verdict};
use quaver_page::table::Style;
use quaver_page::units::{count, percent};

/// The checkpoints alone.
const CHECKPOINTS: &str = "off";

/// Columns of the overheads in the kernel.
pub(crate) const KERNEL_COLUMNS: [&str; 10] = [
    "in the kernel",
    "stamps",
    "mean",
    "95 %",
    "trimmed mean",
    "variance",
    "trimmed variance",
    "the stamp's part",
    "95 %",
    "below 25 ns",
];

/// One arm's overhead in the kernel.
pub(crate) fn overhead_cells(arm: &Overheads) -> [String; 10] {
    let overhead = &arm.overhead;
    [
        arm.name.clone(),
        count(overhead.count),
        ns(overhead.mean_ns),
        span(arm.mean_interval, ns),
        ns(overhead.trimmed_mean_ns),
        number(overhead.variance_ns2),
        number(overhead.trimmed_variance_ns2),
        arm.added_variance_ns2.map_or_else(|| "-".to_owned(), number),
        span(arm.added_variance_interval, number),
        percent(arm.below_25_ns as f64 / overhead.count.max(1) as f64),
    ]
}

/// What lies between the checkpoints, by the names in files.
pub(crate) const ARM_WORDS: &str = "stamping: the kernel's own stamp. second-cycles and second-mono: a whole \
    trace record, in raw cycles and converted to nanoseconds.";

/// Ratios of the kernel's arms, and the paper's.
pub(crate) fn ratio_rows(pattern: &PatternSummary, kernel: &KernelSummary) -> Vec<[String; 5]> {
    kernel.ratios.iter().map(ratio_cells).chain(paper_cells(pattern)).collect()
}

/// Columns of [`difference_cells`].
pub(crate) const DIFFERENCE_COLUMNS: [&str; 4] = ["difference of trimmed means", "costs", "95 %", ""];

/// One cost in the kernel.
pub(crate) fn difference_cells(difference: &Difference) -> [String; 4] {
    [
        difference.what.to_owned(),
        ns(difference.ns),
        span(difference.interval, ns),
        match difference.verdict {
            Verdict::NoDifference | Verdict::Unknown => difference.verdict.words().to_owned(),
            Verdict::Larger | Verdict::Smaller => String::new(),
        },
    ]
}

/// What the checkpoints of the kernel found, and what is taken off.
pub(crate) fn checkpoint_words(kernel: &KernelSummary) -> String {
    let packets: u64 = kernel.between.iter().map(|(_, moments)| moments.count).sum();
    let own = kernel.between.iter().find(|(name, moments)| name == CHECKPOINTS && moments.count > 0);
    let own = own.map_or_else(
        || "an unknown time: nothing is taken off".to_owned(),
        |(_, own)| {
            let variance = number(own.trimmed_variance_ns2);
            format!("{} (taken off), with a trimmed variance of {variance}", ns(own.trimmed_mean_ns))
        },
    );
    format!(
        "{} packets between net:netif_rx_entry and net:netif_rx, trace clock x86-tsc. The checkpoints themselves take \
         {own}. The stamp's part is the trimmed variance less theirs, as far as the two do not depend on each other. \
         Interrupts were off at {} of them.",
        count(packets),
        percent(kernel.interrupts_off_share)
    )
}

/// What cannot be measured in a stock kernel.
pub(crate) const LIMITS: &str = "Not measurable in a stock kernel: a bare stamp in raw cycles, for it has \
    none, so that the ratios are those of whole trace records (second-mono over second-cycles: the same record, converted \
    or not) and of the kernel's bare stamp over such a record, not the paper's of two bare stamps; what the checkpoints of \
    a single packet took, so that their spread stays in both variances of a ratio and draws it towards 1; what converting \
    raw cycles costs later. Records have no packet numbers: times between packets are those between first checkpoints, and a \
    record that was lost makes one longer.";

/// Below the tables of user space.
pub(super) fn section(out: &mut String, pattern: &PatternSummary, kernel: &KernelSummary, style: Style) {
    let mut tables = vec![(&KERNEL_COLUMNS[..], rows(kernel.arms.iter().map(overhead_cells)))];
    tables.push((&RATIO_COLUMNS[..], rows(ratio_rows(pattern, kernel))));
    tables.push((&SERIES_COLUMNS[..], rows(kernel.arms.iter().map(series_cells))));
    tables.push((&DIFFERENCE_COLUMNS[..], rows(kernel.differences.iter().map(difference_cells))));
    for (columns, rows) in tables.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        out.push('\n');
        let mut table = titled(columns);
        rows.into_iter().for_each(|cells| {
            table.row(cells);
        });
        out.push_str(&table.render(style));
    }
    paragraph(out, ARM_WORDS);
    paragraph(out, &checkpoint_words(kernel));
    paragraph(out, LIMITS);
}

fn rows(rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>) -> Vec<Vec<String>> {
    rows.into_iter().map(|cells| cells.into_iter().collect()).collect()
}
