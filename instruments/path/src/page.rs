//! The page that `quaver probe` prints when it is done, and `quaver analyze` of its runs and of Jitlat logs.

use crate::digest::{FlowResults, KnownFlow, PathSummary};
use crate::facts::{AchievedSchedule, ChronyFacts, RollingFigures};
use crate::page_below as path_below;
use quaver_analysis::distribution::Distribution;
use quaver_analysis::path::playout::{Advice, TARGETS_PER_MILLION};
use quaver_analysis::path::voice::CODECS;
use quaver_page::console::{cut_short, heading, percentiles, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{count, duration, duration_f64, percent};

/// What the page is made from.
#[derive(Clone, Copy)]
pub struct PathInput<'a> {
    /// Results.
    pub summary: &'a PathSummary,
    /// Name of the run or of the log.
    pub name: &'a str,
    /// Start, RFC 3339 in UTC; may be empty.
    pub started: &'a str,
    /// Path of the HTML report, where one was written.
    pub report_path: Option<&'a str>,
}

/// The page of a path: packets, delay, variation, loss, order, and how far all of it can be believed.
pub fn page(input: &PathInput<'_>, style: Style) -> String {
    let summary = input.summary;
    let (flows, known): (Vec<&FlowResults>, _) = (summary.flows().collect(), summary.known_flows());
    let mut out = String::new();
    head(&mut out, input, style);
    cut_short(&mut out, summary.complete, style);
    // A test that kept no packets has its own figures.
    if summary.rolling.is_empty() {
        packets(&mut out, &flows, style);
        path_below::segments(&mut out, &known, style);
        delay(&mut out, summary, &flows, style);
        variation(&mut out, &flows, style);
        loss(&mut out, &flows, style);
        order(&mut out, &flows, style);
        advice(&mut out, &flows, style);
    } else {
        rolling(&mut out, summary, style);
        path_below::segments(&mut out, &known, style);
    }
    schedule(&mut out, &known, style);
    path_below::stamps(&mut out, &known, style);
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = input.report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

fn way(results: &FlowResults) -> &'static str {
    results.flow.direction.name()
}

fn head(out: &mut String, input: &PathInput<'_>, style: Style) {
    let summary = input.summary;
    out.push_str(&format!("{} · {}\n", style.bold("quaver probe"), printable(input.name)));
    let mut lines = vec![("peer", format!("{}, by {}", summary.peer, summary.protocol))];
    if !input.started.is_empty() {
        lines.push(("started", input.started.to_owned()));
    }
    let flows = summary.known_flows();
    for KnownFlow { flow, .. } in &flows {
        let text = format!(
            "{} {} of {} octets from {} to {}, one every {} ({}){}",
            count(flow.planned),
            flow.transport,
            flow.payload_bytes,
            flow.source,
            flow.destination,
            duration(i64::try_from(flow.period_ns).unwrap_or(i64::MAX)),
            flow.schedule,
            if flow.dscp == 0 { String::new() } else { format!(", DSCP {}", flow.dscp) }
        );
        lines.push((flow.direction.name(), text));
    }
    let stamps: Vec<String> = flows
        .iter()
        .map(|KnownFlow { flow, .. }| {
            format!(
                "{}: sent by {}, received by {}",
                flow.direction.name(),
                flow.sent_stamped_by,
                flow.received_stamped_by
            )
        })
        .collect();
    lines.push(("stamps", stamps.join("; ")));
    if let Some(clock) = &summary.clock {
        let text = format!(
            "server less client {} ± {}, least round trip {}",
            duration(clock.offset_ns),
            duration(clock.bound_ns),
            duration(clock.min_rtt_ns)
        );
        lines.push(("clocks", text));
    }
    for clock in &summary.clocks {
        let text = match (clock.synchronised, clock.max_error_ns) {
            (true, Some(error)) => {
                format!("{}: disciplined, wrong by {} at most", clock.end, duration(error))
            }
            (true, None) => format!("{}: disciplined", clock.end),
            (false, _) => format!("{}: not disciplined by anything", clock.end),
        };
        lines.push(("", text));
        if let Some(chrony) = &clock.chrony {
            lines.push(("", format!("{}: {}", clock.end, chrony_words(chrony))));
        }
    }
    for (name, text) in lines {
        for (at, line) in wrap(&printable(&text), quaver_page::console::WIDTH - 12).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push_str(&format!("  {}  {line}\n", style.dim(&format!("{name:<8}"))));
        }
    }
}

/// What chronyd says of a clock.
pub(crate) fn chrony_words(chrony: &ChronyFacts) -> String {
    let Some(bound_ns) = chrony.bound_ns() else {
        return "chronyd runs and follows nothing".to_owned();
    };
    format!(
        "by chronyd wrong by {} at most, stratum {}; root delay {}, dispersion {}, last offset {}",
        duration(bound_ns),
        chrony.stratum,
        duration(chrony.root_delay_ns),
        duration(chrony.root_dispersion_ns),
        duration(chrony.last_offset_ns)
    )
}

/// A table with a column for each way.
fn by_way(flows: &[&FlowResults]) -> Table {
    let mut columns = vec![("", Align::Left)];
    columns.extend(flows.iter().map(|results| (way(results), Align::Right)));
    Table::new(&columns)
}

/// One row of [`by_way`].
fn row(table: &mut Table, name: &str, flows: &[&FlowResults], cell: impl Fn(&FlowResults) -> String) {
    let mut cells = vec![name.to_owned()];
    cells.extend(flows.iter().map(|results| cell(results)));
    table.row(cells);
}

/// A count, and which part of the packets sent it is.
fn part(value: u64, sent: u64) -> String {
    if value == 0 || sent == 0 {
        count(value)
    } else {
        format!("{} ({})", count(value), percent(value as f64 / sent as f64))
    }
}

fn packets(out: &mut String, flows: &[&FlowResults], style: Style) {
    heading(out, style, "Packets", "");
    let mut table = by_way(flows);
    row(&mut table, "sent", flows, |results| count(results.figures.packets.sent));
    row(&mut table, "arrived", flows, |results| count(results.figures.packets.unique));
    row(&mut table, "lost", flows, |results| {
        part(results.figures.loss.packets, results.figures.packets.sent)
    });
    row(&mut table, "  of them at the receiver's own socket", flows, |results| {
        results.figures.loss.own_drops.map_or_else(|| "not known".to_owned(), count)
    });
    row(&mut table, "came twice or more", flows, |results| {
        part(results.figures.packets.duplicate, results.figures.packets.sent)
    });
    row(&mut table, "came out of order", flows, |results| {
        part(results.figures.packets.reordered, results.figures.packets.sent)
    });
    row(&mut table, "not as sent", flows, |results| count(results.figures.packets.invalid));
    out.push_str(&table.render(style));
}

/// A table of distributions.
fn spread_table() -> Table {
    let mut columns = vec![("", Align::Left)];
    columns
        .extend(["min", "mean", "p50", "p90", "p99", "p99.9", "max", "sd"].map(|name| (name, Align::Right)));
    Table::new(&columns)
}

fn spread(table: &mut Table, name: String, values: &Distribution) {
    let shown = percentiles(values);
    let any = values.count > 0;
    let known = |text: String| if any { text } else { "-".to_owned() };
    table.row([
        name,
        known(duration(values.min_ns)),
        known(duration_f64(values.mean_ns)),
        shown[0].1.clone(),
        shown[1].1.clone(),
        shown[2].1.clone(),
        shown[3].1.clone(),
        known(duration(values.max_ns)),
        known(duration_f64(values.sd_ns)),
    ]);
}

fn delay(out: &mut String, summary: &PathSummary, flows: &[&FlowResults], style: Style) {
    heading(out, style, "One-way delay", "RFC 7679; corrected: without the estimated offset of the clocks");
    let mut table = spread_table();
    for results in flows {
        let Some(delay) = &results.figures.delay else { continue };
        spread(&mut table, format!("{}, as measured", way(results)), &delay.as_measured);
        if let Some(corrected) = &delay.corrected {
            spread(&mut table, format!("{}, corrected", way(results)), corrected);
        }
        if let Some(delay) = &results.delay_from_departure {
            let from = format!("{}, from the {}'s departure", way(results), delay.stamped_by);
            spread(&mut table, from, &delay.as_measured);
            if let Some(corrected) = &delay.corrected {
                spread(&mut table, "  the same, corrected".to_owned(), corrected);
            }
        }
    }
    if let Some(clock) = &summary.clock {
        let note = format!("  corrected values can be wrong by {} either way", duration(clock.bound_ns));
        table.note(style.dim(&note));
    }
    if flows.iter().all(|results| results.figures.delay.is_none()) {
        out.push_str("  Nothing arrived, so there is no delay.\n");
        return;
    }
    out.push_str(&table.render(style));
    for results in flows {
        let Some(delay) = results.figures.delay.as_ref().filter(|_| results.figures.loss.packets > 0) else {
            continue;
        };
        let shown = |ns: Option<i64>| ns.map_or_else(|| "lost".to_owned(), duration);
        let all = &delay.with_loss;
        out.push_str(&format!(
            "  {}, lost packets as later than any: p50 {}, p90 {}, p99 {}, p99.9 {}\n",
            way(results),
            shown(all.p50_ns),
            shown(all.p90_ns),
            shown(all.p99_ns),
            shown(all.p99_9_ns)
        ));
    }
}

fn variation(out: &mut String, flows: &[&FlowResults], style: Style) {
    if flows.iter().all(|results| results.figures.variation.is_none()) {
        return;
    }
    heading(
        out,
        style,
        "Delay variation",
        "PDV: above the least delay; IPDV: against the packet sent before (RFC 5481)",
    );
    let mut table = spread_table();
    for results in flows {
        let Some(variation) = &results.figures.variation else { continue };
        spread(&mut table, format!("{}, PDV", way(results)), &variation.pdv);
        spread(&mut table, format!("{}, IPDV", way(results)), &variation.ipdv);
    }
    out.push_str(&table.render(style));
    for results in flows {
        let Some(variation) = &results.figures.variation else { continue };
        out.push_str(&format!(
            "  {}, interarrival jitter (RFC 3550): {} at the end, {} at most\n",
            way(results),
            duration_f64(variation.interarrival_jitter_ns),
            duration_f64(variation.largest_interarrival_jitter_ns)
        ));
    }
}

fn loss(out: &mut String, flows: &[&FlowResults], style: Style) {
    if flows.iter().all(|results| results.figures.loss.packets == 0) {
        return;
    }
    heading(out, style, "Loss", "RFC 3357 (runs of lost packets), RFC 3611 (bursts of them)");
    let mut table = by_way(flows);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
    row(&mut table, "runs", flows, |results| count(results.figures.loss.pattern.periods));
    row(&mut table, "longest run", flows, |results| {
        let lengths = &results.figures.loss.pattern.period_lengths;
        lengths.last_key_value().map_or_else(|| "-".to_owned(), |(length, _)| count(*length))
    });
    row(&mut table, "mean run", flows, |results| number(results.figures.loss.pattern.mean_period_length()));
    row(&mut table, "burst ratio", flows, |results| number(results.figures.loss.pattern.burst_ratio()));
    row(&mut table, "bursts", flows, |results| {
        results.figures.loss.bursts.as_ref().map_or_else(|| "-".to_owned(), |bursts| count(bursts.bursts))
    });
    row(&mut table, "loss within bursts", flows, |results| {
        share(results.figures.loss.bursts.as_ref().and_then(|bursts| bursts.burst_density))
    });
    row(&mut table, "loss between bursts", flows, |results| {
        share(results.figures.loss.bursts.as_ref().and_then(|bursts| bursts.gap_density))
    });
    out.push_str(&table.render(style));
}

fn order(out: &mut String, flows: &[&FlowResults], style: Style) {
    if flows.iter().all(|results| results.figures.packets.reordered == 0) {
        return;
    }
    heading(out, style, "Order", "RFC 4737");
    let mut table = by_way(flows);
    let largest = |map: &std::collections::BTreeMap<u64, u64>| {
        map.last_key_value().map_or_else(|| "-".to_owned(), |(value, _)| count(*value))
    };
    row(&mut table, "largest extent, packets", flows, |results| largest(&results.figures.reordering.extents));
    row(&mut table, "largest n-reordering", flows, |results| {
        largest(&results.figures.reordering.n_reordering)
    });
    row(&mut table, "latest", flows, |results| {
        let late_ns = results.figures.reordering.max_late_time_ns;
        late_ns.map_or_else(|| "-".to_owned(), |ns| duration(i64::try_from(ns).unwrap_or(i64::MAX)))
    });
    out.push_str(&table.render(style));
}

fn advice(out: &mut String, flows: &[&FlowResults], style: Style) {
    if flows.iter().all(|results| results.figures.advice.buffers.is_empty()) {
        return;
    }
    heading(
        out,
        style,
        "Advice",
        "smallest de-jitter buffers, played out with these packets; calls by ITU-T G.107",
    );
    let mut table = by_way(flows);
    for (at, target) in TARGETS_PER_MILLION.into_iter().enumerate() {
        let name = format!("buffer for {} late or lost", percent(f64::from(target) / 1e6));
        row(&mut table, &name, flows, |results| {
            match results.figures.advice.buffers.get(at).map(|one| one.advice) {
                Some(Advice::Buffer { buffer_ns, playout, .. }) => {
                    format!("{} ({} packets)", duration(buffer_ns.cast_signed()), count(playout.most_waiting))
                }
                Some(Advice::Impossible { .. }) => "none: too much is lost".to_owned(),
                None => "-".to_owned(),
            }
        });
    }
    for codec in CODECS {
        row(&mut table, &format!("MOS of a call, {}", codec.name), flows, |results| {
            let rated = results.figures.advice.voice.iter().find(|rating| rating.codec.name == codec.name);
            rated.map_or_else(|| "-".to_owned(), |rating| format!("{:.2}", rating.mos))
        });
    }
    out.push_str(&table.render(style));
}

/// Figures of a test that kept no packets.
fn rolling(out: &mut String, summary: &PathSummary, style: Style) {
    heading(out, style, "Rolling figures", "no packets were kept; quantiles are right to 0.1 %");
    let mut columns = vec![("", Align::Left)];
    columns.extend(summary.rolling.iter().map(|way| (way.direction.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, cell: &dyn Fn(&RollingFigures) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(summary.rolling.iter().map(cell));
        table.row(cells);
    };
    let time = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), duration);
    let mean = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), duration_f64);
    row("arrived", &|way| count(way.unique));
    row("lost", &|way| part(way.lost, way.unique + way.lost));
    row("  runs, longest", &|way| format!("{}, {}", count(way.loss_periods), count(way.longest_loss_period)));
    row("came twice or more", &|way| count(way.duplicate));
    row("came out of order", &|way| count(way.reordered));
    row("came too late to be told from copies", &|way| count(way.beyond_window));
    row("delay as measured, min", &|way| time(way.min_delay_ns));
    row("  mean", &|way| mean(way.mean_delay_ns));
    for (at, name) in ["  p50", "  p90", "  p99", "  p99.9"].into_iter().enumerate() {
        row(name, &|way| time(way.delay_quantiles_ns.map(|all| all[at])));
    }
    row("  max", &|way| time(way.max_delay_ns));
    for (at, name) in ["PDV, p50", "  p90", "  p99", "  p99.9"].into_iter().enumerate() {
        row(name, &|way| time(way.pdv_quantiles_ns.map(|all| all[at])));
    }
    row("interarrival jitter (RFC 3550)", &|way| mean(way.interarrival_jitter_ns));
    out.push_str(&table.render(style));
}

fn schedule(out: &mut String, flows: &[KnownFlow<'_>], style: Style) {
    heading(out, style, "Schedule", "mean periods, and how the sender kept to its deadlines");
    let mut columns = vec![("", Align::Left)];
    columns.extend(flows.iter().map(|known| (known.flow.direction.name(), Align::Right)));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, cell: &dyn Fn(&KnownFlow<'_>) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(flows.iter().map(cell));
        table.row(cells);
    };
    row("target", &|known| duration_f64(known.flow.period_ns as f64));
    // Of a test that kept no packets nobody knows these.
    if flows.iter().any(|known| known.results.is_some()) {
        let period = |known: &KnownFlow<'_>, of: fn(&FlowResults) -> Option<f64>| {
            known.results.and_then(of).map_or_else(|| "-".to_owned(), duration_f64)
        };
        row("sent", &|known| period(known, |results| results.figures.periods.sent_ns));
        row("received", &|known| period(known, |results| results.figures.periods.received_ns));
    }
    let achieved = |known: &KnownFlow<'_>, tell: fn(&AchievedSchedule) -> String| {
        known.flow.achieved.as_ref().map_or_else(|| "not known".to_owned(), tell)
    };
    row("late, p50", &|known| achieved(known, |achieved| duration(achieved.error_p50_ns)));
    row("late, p99", &|known| achieved(known, |achieved| duration(achieved.error_p99_ns)));
    row("late, most", &|known| achieved(known, |achieved| duration(achieved.error_max_ns)));
    row("slots left out", &|known| achieved(known, |achieved| count(achieved.missed)));
    if flows.iter().any(|known| known.results.is_some()) {
        row("burstiness slope", &|known| {
            let line = known.results.and_then(|results| results.figures.burstiness);
            line.map_or_else(|| "-".to_owned(), |line| format!("{:+.2e}", line.slope))
        });
    }
    out.push_str(&table.render(style));
}
