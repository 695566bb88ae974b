//! The page that `quaver capture --compare` prints when it is done, and the rows that it shares with the HTML report.

use quaver_capture_analysis::compare::{
    ArmSummary, CompareSummary, Conversion, Cost, Interval, LossDifference, LossSummary, Overheads,
    PatternSummary, PeerTotal, Placement, Ratio, Verdict,
};
use quaver_page::RunFacts;
use quaver_page::console::{WIDTH, cut_short, heading, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{count, duration_f64, percent};

/// What the pages of a comparison are made from.
#[derive(Clone, Copy, Debug)]
pub struct CompareInput<'a> {
    /// Results.
    pub summary: &'a CompareSummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// Path of the HTML report, where one was written.
    pub report_path: Option<&'a str>,
}

/// Columns of the overheads.
pub(super) const OVERHEAD_COLUMNS: [&str; 10] = [
    "way to stamp",
    "stamps",
    "mean",
    "95 %",
    "variance",
    "trimmed mean",
    "trimmed variance",
    "p50",
    "p99",
    "below 25 ns",
];

/// One arm's overhead.
pub(super) fn overhead_cells(arm: &ArmSummary) -> [String; 10] {
    let arm = &arm.figures;
    let overhead = &arm.overhead;
    [
        arm.name.clone(),
        count(overhead.count),
        ns(overhead.mean_ns),
        span(arm.mean_interval, ns),
        number(overhead.variance_ns2),
        ns(overhead.trimmed_mean_ns),
        number(overhead.trimmed_variance_ns2),
        ns(overhead.p50_ns),
        ns(overhead.p99_ns),
        percent(arm.below_25_ns as f64 / overhead.count.max(1) as f64),
    ]
}

/// Columns of how overheads go on, for an arm in user space or in the kernel.
pub(super) const SERIES_COLUMNS: [&str; 6] =
    ["way to stamp", "autocorrelation, lag 1", "lag 2", "lag 10", "with inter-arrival", "inter-arrival sd"];

/// Memory and correlation.
pub(super) fn series_cells(arm: &Overheads) -> [String; 6] {
    // Adding zero takes the sign off one that rounds to nothing.
    let lag = |lag: usize| {
        let rounded = arm.autocorrelation.get(lag - 1).map(|r| (r * 100.0).round() / 100.0 + 0.0);
        rounded.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"))
    };
    let with = arm.with_interarrival.as_ref().map_or_else(
        || "-".to_owned(),
        |found| {
            let (low, high) = found.spearman_interval;
            format!("{:.2} ({low:.2} to {high:.2})", found.spearman)
        },
    );
    let sd = arm.interarrival.as_ref().map(|found| found.trimmed_variance_ns2.sqrt());
    [arm.name.clone(), lag(1), lag(2), lag(10), with, sd.map_or_else(|| "-".to_owned(), duration_f64)]
}

/// [`SERIES_COLUMNS`], and what a stamp costs later: known in user space only.
pub(super) fn user_series_columns() -> Vec<&'static str> {
    SERIES_COLUMNS.into_iter().chain(["afterwards, a stamp"]).collect()
}

/// One arm in user space.
pub(super) fn user_series_cells(arm: &ArmSummary) -> Vec<String> {
    series_cells(&arm.figures).into_iter().chain([ns(arm.resolve_ns)]).collect()
}

/// Columns of the ratios.
pub(super) const RATIO_COLUMNS: [&str; 5] = ["", "means", "95 %", "trimmed variances", "95 %"];

/// One ratio.
pub(super) fn ratio_cells(ratio: &Ratio) -> [String; 5] {
    let verdict = |verdict: Verdict, words: String| match verdict {
        Verdict::NoDifference | Verdict::Unknown => format!("{words}: {}", verdict.words()),
        Verdict::Larger | Verdict::Smaller => words,
    };
    [
        format!("{} over {}", ratio.of, ratio.to),
        times(ratio.mean),
        verdict(ratio.verdict, span(ratio.mean_interval, times)),
        times(ratio.trimmed_variance),
        verdict(ratio.variance_verdict, span(ratio.trimmed_variance_interval, times)),
    ]
}

/// The paper's ratios, as a row of the same table.
pub(super) fn paper_cells(pattern: &PatternSummary) -> Option<[String; 5]> {
    let paper = pattern.paper.as_ref()?;
    Some([
        format!("paper, table {}: ktime over raw cycles", paper.table),
        times(paper.mean_ratio()),
        format!("{} and {}", ns(paper.ktime.mean_ns), ns(paper.raw.mean_ns)),
        times(paper.variance_ratio()),
        format!("{} and {}", number(paper.ktime.variance_ns2), number(paper.raw.variance_ns2)),
    ])
}

/// What was found here about where conversion is done.
pub(super) fn conversion_words(conversion: &Conversion) -> String {
    let side = |cost: &Cost| {
        let size = ns(cost.ns.abs());
        // "Less" turns the sign round.
        let less = |found: Interval| Interval { low: -found.high, high: -found.low };
        let shown =
            cost.interval.map(|found| if cost.verdict == Verdict::Smaller { less(found) } else { found });
        let interval = span(shown, ns);
        match cost.verdict {
            Verdict::Larger => format!("costs {size} more (95 %: {interval})"),
            Verdict::Smaller => format!("costs {size} less (95 %: {interval})"),
            Verdict::NoDifference => format!("does not differ (95 %: {interval})"),
            Verdict::Unknown => "cannot be told from so few rounds".to_owned(),
        }
    };
    let what = |name: &str| match name {
        "threaded" => "handing a stamp to a converter thread".to_owned(),
        "threaded:2" => "handing a stamp to one of two converter threads".to_owned(),
        "inline-cycles" => "inline conversion".to_owned(),
        "batch" => "conversion in batches".to_owned(),
        other => other.to_owned(),
    };
    format!(
        "Found here: {} against {}: on the hot path it {}; with what the receiver does afterwards, waits included, it {}.",
        what(&conversion.of),
        what(&conversion.to),
        side(&conversion.hot),
        side(&conversion.whole)
    )
}

/// Where softirq and receiver ran.
pub(super) const fn placement_words(placement: Placement) -> &'static str {
    match placement {
        Placement::Apart => "softirq and receiver apart",
        Placement::Together => "softirq and receiver on one CPU",
    }
}

/// Losses of each pipeline.
pub(super) fn loss_rows(loss: &LossSummary) -> Vec<[String; 7]> {
    let rows = loss.totals.iter().map(|total| {
        [
            placement_words(total.placement).to_owned(),
            total.arm.clone(),
            count(total.sent),
            count(total.lost),
            percent(total.lost as f64 / total.sent.max(1) as f64),
            count(total.at_socket),
            format!("{} and {}", count(total.at_backlog), total.unaccounted),
        ]
    });
    rows.collect()
}

/// Columns of [`loss_rows`].
pub(super) const LOSS_COLUMNS: [&str; 7] =
    ["", "way to stamp", "sent", "lost", "share", "at the full buffer", "full backlog and elsewhere"];

/// Columns of [`peer_cells`].
pub(super) const PEER_COLUMNS: [&str; 7] =
    ["", "program", "sent", "captured", "dropped", "not accounted for", "CPU, a packet"];

/// One program's captures.
pub(super) fn peer_cells(total: &PeerTotal) -> [String; 7] {
    [
        placement_words(total.placement).to_owned(),
        total.program.clone(),
        count(total.sent),
        count(total.captured),
        count(total.dropped),
        total.unaccounted.to_string(),
        total.cpu_ns_per_packet.map_or_else(|| "-".to_owned(), ns),
    ]
}

/// What the captures' figures are.
pub(super) const PEER_WORDS: &str = "Streams of 200,000 packets a second captured to a file, by our own program and by \
    others in turn, as each counts itself; 128 octets of each packet, stamped by the kernel alone. The libpcap program \
    only takes and counts packets with their stamps, and writes no file. CPU time includes starting and ending the program.";

/// What the losses say.
pub(super) fn loss_words(difference: &LossDifference) -> String {
    let points = |share: f64| format!("{:+.2}", share * 100.0);
    let interval = span(difference.interval, points);
    let what = match difference.verdict {
        Verdict::Larger => format!("{} loses more than {}", difference.of, difference.to),
        Verdict::Smaller => format!("{} loses less than {}", difference.of, difference.to),
        Verdict::NoDifference => format!("no difference between {} and {}", difference.of, difference.to),
        Verdict::Unknown => format!("too few points to tell {} from {}", difference.of, difference.to),
    };
    format!(
        "{}: {what} ({} percentage points, 95 %: {interval})",
        placement_words(difference.placement),
        points(difference.share)
    )
}

/// A pattern in words.
pub(super) fn pattern_words(pattern: &PatternSummary) -> String {
    let facts = &pattern.facts;
    let gap = facts.ifg_bytes.map_or_else(String::new, |gap| format!(" (gap of {} octets)", count(gap)));
    let sent = format!("{} sent, {} slots missed", count(facts.sent), count(facts.missed));
    format!("{} octets each {}{gap}; {sent}", facts.frame_bytes, duration_f64(facts.period_ns))
}

/// The page.
pub fn page(input: &CompareInput<'_>, style: Style) -> String {
    let summary = input.summary;
    let mut out = format!("{} · {}\n", style.bold("quaver capture --compare"), printable(&input.run.name));
    let from = summary.from.as_deref().unwrap_or_default();
    for (name, text) in [("host", input.run.host.as_str()), ("from", from), ("CPUs", summary.cores.as_str())]
    {
        if !text.is_empty() {
            out.push_str(&format!("  {}  {}\n", style.dim(name), printable(text)));
        }
    }
    cut_short(&mut out, summary.complete, style);
    for pattern in &summary.patterns {
        pattern_section(&mut out, pattern, style);
    }
    loss_section(&mut out, &summary.loss, style);
    peer_section(&mut out, &summary.peers, style);
    if !summary.cannot.is_empty() {
        heading(&mut out, style, "Not possible here", "");
        for sentence in &summary.cannot {
            paragraph(&mut out, sentence);
        }
    }
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = input.report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

fn pattern_section(out: &mut String, pattern: &PatternSummary, style: Style) {
    heading(out, style, &format!("Pattern {}", pattern.facts.name), &pattern_words(pattern));
    let mut table = titled(&OVERHEAD_COLUMNS);
    pattern.user.iter().for_each(|arm| {
        table.row(overhead_cells(arm));
    });
    out.push_str(&table.render(style));
    let own = &pattern.checkpoints;
    paragraph(
        out,
        &format!(
            "Overhead of a stamp in user space. The checkpoints' own {} (variance {}) are taken off.",
            ns(own.trimmed_mean_ns),
            number(own.trimmed_variance_ns2)
        ),
    );
    out.push('\n');
    let mut table = titled(&RATIO_COLUMNS);
    pattern.ratios.iter().for_each(|ratio| {
        table.row(ratio_cells(ratio));
    });
    if let Some(cells) = paper_cells(pattern) {
        table.row(cells);
    }
    out.push_str(&table.render(style));
    out.push('\n');
    let mut table = titled(&user_series_columns());
    pattern.user.iter().for_each(|arm| {
        table.row(user_series_cells(arm));
    });
    out.push_str(&table.render(style));
    for conversion in &pattern.conversions {
        paragraph(out, &conversion_words(conversion));
    }
    if let Some(kernel) = &pattern.kernel {
        kernel::section(out, pattern, kernel, style);
    }
}

fn loss_section(out: &mut String, loss: &LossSummary, style: Style) {
    if loss.totals.is_empty() {
        return;
    }
    heading(out, style, "Loss", "bursts over packet sizes and gaps");
    let mut table = titled(&LOSS_COLUMNS);
    loss_rows(loss).into_iter().for_each(|cells| {
        table.row(cells);
    });
    out.push_str(&table.render(style));
    for difference in &loss.differences {
        paragraph(out, &loss_words(difference));
    }
}

fn peer_section(out: &mut String, peers: &[PeerTotal], style: Style) {
    if peers.is_empty() {
        return;
    }
    heading(out, style, "Whole captures", "beside other programs");
    let mut table = titled(&PEER_COLUMNS);
    peers.iter().for_each(|total| {
        table.row(peer_cells(total));
    });
    out.push_str(&table.render(style));
    paragraph(out, PEER_WORDS);
}

fn titled(columns: &[&str]) -> Table {
    let columns: Vec<(&str, Align)> = columns
        .iter()
        .enumerate()
        .map(|(at, name)| {
            (
                *name,
                if at == 0 || ["way to stamp", "program"].contains(name) {
                    Align::Left
                } else {
                    Align::Right
                },
            )
        })
        .collect();
    Table::new(&columns)
}

fn paragraph(out: &mut String, text: &str) {
    for line in wrap(text, WIDTH - 2) {
        out.push_str(&format!("  {}\n", printable(&line)));
    }
}

/// Nanoseconds with a fraction.
fn ns(value: f64) -> String {
    duration_f64(value)
}

/// A variance or another plain number.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".to_owned(),
        size if size >= 999.5 => {
            format!("{}{}", if value < 0.0 { "-" } else { "" }, count(size.round() as u64))
        }
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A ratio.
pub(super) fn times(value: f64) -> String {
    if value.is_finite() { format!("{}×", number(value)) } else { "-".to_owned() }
}

fn span(interval: Option<Interval>, shown: impl Fn(f64) -> String) -> String {
    interval.map_or_else(|| "-".to_owned(), |found| format!("{} to {}", shown(found.low), shown(found.high)))
}

pub(super) mod kernel;

#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
mod tests;
