//! What each method and each program lost.

use super::curves::{Curve, curves};
use super::{charts, placement_words, span};
use quaver_capture_analysis::compare::{LossDifference, LossSummary, PeerTotal, Sweep, Verdict};
use quaver_view::{Block, Cell, Column, Section, Shown, Table, Text, text};
use std::collections::BTreeSet;

/// What the captures' figures are.
const PEER_WORDS: &str = "Streams of 200,000 packets/s, captured to a file by Quaver and other programs in turn. Counts are \
    each program's own. Each keeps 128 bytes per packet, stamped by the kernel alone. The libpcap program counts packets \
    with their stamps and writes no file. CPU time is that of the last nine tenths of each stream; start-up stands apart. `quaver again` is Quaver once more.";

/// Loss over packet sizes and gaps; none where it was not measured.
pub(super) fn section(loss: &LossSummary) -> Option<Section> {
    if loss.totals.is_empty() {
        return None;
    }
    let mut table = Table::new([
        "softirq, receiver",
        "method",
        "sent",
        "lost",
        "share",
        "socket buffer full",
        "backlog full",
        "other",
    ]);
    for total in &loss.totals {
        table.row([
            placement_words(total.placement).into(),
            total.arm.as_str().into(),
            Cell::Count(total.sent),
            Cell::Count(total.lost),
            Cell::part(total.lost, total.sent),
            Cell::Count(total.at_socket),
            Cell::Count(total.at_backlog),
            Cell::Number { value: total.unaccounted as f64, digits: 0 },
        ]);
    }
    let curves = curves(&loss.points);
    let lead = "Bursts through each method, over all sizes and gaps of figure 6. Losses add up to the places that counted them.";
    let mut section = Section::new("loss", "Loss").note(lead);
    section.push(charts::of_loss(&curves)).push(table);
    for difference in &loss.differences {
        section.push(difference_words(difference));
    }
    section.push(Block::from(point_table(&curves)).only(Shown::HtmlOnly));
    Some(section)
}

fn difference_words(difference: &LossDifference) -> Text {
    let points = |share: f64| Cell::difference(Cell::Share(share));
    let (of, to) = (&difference.of, &difference.to);
    let what = match difference.verdict {
        Verdict::Larger => format!("{of} loses more than {to}"),
        Verdict::Smaller => format!("{of} loses less than {to}"),
        Verdict::NoDifference => format!("no difference between {of} and {to}"),
        Verdict::Unknown => format!("too few points to distinguish {of} from {to}"),
    };
    text!(
        "softirq and receiver on {}: {what} ({}, 95 % CI {})",
        placement_words(difference.placement),
        points(difference.share),
        span(difference.interval, points)
    )
}

/// Every point of the curves, with the rate that the source reached.
fn point_table(curves: &[Curve]) -> Table {
    let columns = ["sweep", "softirq, receiver", "method", "bytes", "sent", "lost", "share", "one every"];
    let mut table = Table::new(columns).title("Points").first_rows(10);
    for curve in curves {
        let sweep = match curve.sweep {
            Sweep::Size => "packet size",
            Sweep::Gap => "gap",
        };
        for (bytes, sum) in &curve.points {
            table.row([
                sweep.into(),
                placement_words(curve.placement).into(),
                curve.arm.as_str().into(),
                Cell::Count(*bytes),
                Cell::Count(sum.sent),
                Cell::Count(sum.lost()),
                Cell::Share(sum.share()),
                Cell::FineDuration(sum.spacing_ns()),
            ]);
        }
    }
    table
}

/// Whole captures beside other programs; none where there were none.
pub(super) fn peer_section(peers: &[PeerTotal]) -> Option<Section> {
    let mut table = Table::new([
        Column::new("placement"),
        Column::new("program"),
        Column::new("sent"),
        Column::new("captured"),
        Column::new("dropped"),
        Column::new("unaccounted"),
        Column::new("CPU").note("time per packet"),
        Column::new("of single streams").html_only(),
        Column::new("/ Quaver").note("over Quaver's, stream by stream"),
        Column::new("95 % CI"),
        Column::new("start-up"),
    ]);
    let mut refusals = BTreeSet::new();
    for total in peers {
        let found = total.to_quaver.as_ref();
        refusals.extend(found.iter().flat_map(|found| found.refusals.iter().cloned()));
        let ratio = found.map(|found| found.result().map_or_else(|| "no result".into(), Cell::Figure));
        table.row([
            placement_words(total.placement).into(),
            total.program.as_str().into(),
            Cell::Count(total.sent),
            Cell::Count(total.captured),
            Cell::Count(total.dropped),
            Cell::Number { value: total.unaccounted as f64, digits: 0 },
            total.cpu_ns_per_packet.map(Cell::FineDuration).into(),
            (total.cpu_range_ns)
                .map(|(low, high)| Cell::interval(Cell::FineDuration(low), Cell::FineDuration(high)))
                .into(),
            ratio.into(),
            span(found.and_then(|found| found.interval), Cell::Figure),
            Cell::FineDuration(total.startup_cpu_ns),
        ]);
    }
    if peers.is_empty() {
        return None;
    }
    let mut section = Section::new("peers", "Whole captures").note("beside other programs").with(table);
    if !refusals.is_empty() {
        let refusals = refusals.into_iter().collect::<Vec<_>>().join("; ");
        section.push(text!("No result over Quaver's: {refusals}."));
    }
    Some(section.with(PEER_WORDS))
}
