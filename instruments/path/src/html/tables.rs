//! The tables of a path, from what became of the packets to how far it can be believed.

use super::below_tables::{segments, stamps};
use super::loss_tables::{copies, loss, order};
use super::rows::{Metric, Table};
use crate::digest::{FlowResults, KnownFlow, PathSummary};
use crate::facts::{AchievedSchedule, RollingFigures};
use crate::page::chrony_words;
use quaver_analysis::path::playout::Advice;
use quaver_analysis::path::steps::ShiftCause;
use quaver_page::html::page::micro;
use quaver_page::units::{count, duration, duration_f64, percent};

const NOT_KNOWN: &str = "not known";

/// The tables of a test whose packets were kept.
pub(super) fn of_packets(summary: &PathSummary) -> Vec<Table> {
    let (flows, known): (Vec<&FlowResults>, _) = (summary.flows().collect(), summary.known_flows());
    let all = [
        packets(&flows),
        segments(&known),
        delay(summary, &flows),
        variation(&flows),
        loss(&flows),
        copies(&flows),
        order(&flows),
        buffers(&flows),
        voice(&flows),
        clocks(summary),
        skews(&flows),
        schedule(&known),
        stamps(&known),
    ];
    all.into_iter().filter(|table| !table.is_empty()).collect()
}

/// The tables of a test of which only figures were kept.
pub(super) fn of_rolling(summary: &PathSummary) -> Vec<Table> {
    let flows = summary.known_flows();
    let all =
        [rolling(&summary.rolling), segments(&flows), clocks(summary), schedule(&flows), stamps(&flows)];
    all.into_iter().filter(|table| !table.is_empty()).collect()
}

/// A count, and which part of the packets sent it is.
fn part(value: u64, sent: u64) -> String {
    match (value, sent) {
        (0, _) | (_, 0) => count(value),
        _ => format!("{} ({})", count(value), percent(value as f64 / sent as f64)),
    }
}

fn packets(flows: &[&FlowResults]) -> Table {
    let lead = "What became of each packet: sent = arrived + lost, and all copies and invalid packets are counted apart.";
    let mut table = Table::by_way("packets", "Packets by fate", lead, flows);
    let sent = |results: &FlowResults| results.figures.packets.sent;
    table.each("sent", flows, |r| count(sent(r)), "by the sender's count, or as planned");
    table.each(
        "arrived",
        flows,
        |r| part(r.figures.packets.unique, sent(r)),
        "first copies (RFC 5560, section 2)",
    );
    table.each("lost", flows, |r| part(r.figures.loss.packets, sent(r)), "RFC 7680, section 2");
    table.each(
        "of them at the receiver's own socket",
        flows,
        |r| r.figures.loss.own_drops.map_or_else(|| NOT_KNOWN.to_owned(), count),
        "the kernel's count of the socket",
    );
    table.each(
        "counted as lost after",
        flows,
        |r| r.figures.loss.timeout_ns.map_or_else(|| "the receiver's end".to_owned(), duration),
        "RFC 7680, section 2.8 (Tmax)",
    );
    table.each(
        "copies beyond the first",
        flows,
        |r| part(r.figures.packets.duplicate, sent(r)),
        "RFC 5560, section 5",
    );
    table.each(
        "came out of order",
        flows,
        |r| part(r.figures.packets.reordered, sent(r)),
        "RFC 4737, section 3.3",
    );
    table.each("not as sent", flows, |r| count(r.figures.packets.invalid), "number never sent, or flagged");
    table.each(
        "of others, on the same port",
        flows,
        |r| count(r.flow.foreign),
        "without this test's tag or key",
    );
    table
}

fn delay(summary: &PathSummary, flows: &[&FlowResults]) -> Table {
    let lead = "From sending to arrival, as the two clocks show it, and without the clocks' estimated offset. Percentiles \
                are the smallest sample that at least that share does not exceed (RFC 2330, section 11.3); a dash: too few packets for it.";
    let mut table = Table::of_spreads("delay", "One-way delay", lead);
    for results in flows {
        let Some(delay) = &results.figures.delay else { continue };
        let way = results.flow.direction.name();
        table.spread(format!("{way}, as measured"), &delay.as_measured, "RFC 7679, section 3");
        if let Some(corrected) = &delay.corrected {
            table.spread(format!("{way}, corrected"), corrected, "RFC 7679; less the clocks' offset");
        }
        if let Some(delay) = &results.delay_from_departure {
            let definition = match delay.stamped_by.as_str() {
                "hardware" => "from the interface's stamp",
                _ => "from the kernel's stamp",
            };
            table.spread(format!("{way}, from departure"), &delay.as_measured, definition);
            if let Some(corrected) = &delay.corrected {
                table.spread(format!("{way}, the same, corrected"), corrected, "less the clocks' offset");
            }
        }
        if results.figures.loss.packets > 0 {
            let all = &delay.with_loss;
            let mut cells = vec![String::new(); 8];
            let shown = [all.p50_ns, all.p90_ns, all.p99_ns, all.p99_9_ns]
                .map(|ns| ns.map_or_else(|| "lost".to_owned(), duration));
            cells[2..6].clone_from_slice(&shown);
            table.row(format!("{way}, lost ones latest"), cells, "RFC 7679, section 5.1 (loss is infinite)");
        }
    }
    if let Some(clock) = summary.clock.filter(|_| !table.is_empty()) {
        table.notes.push(micro(format!(
            "Corrected values can be wrong by {} either way: half the least round trip.",
            duration(clock.bound_ns)
        )));
    }
    table
}

fn variation(flows: &[&FlowResults]) -> Table {
    let lead = "PDV is the delay above the least one; IPDV the delay less that of the packet sent before, signed. Both are \
                free of the clocks' offset.";
    let mut table = Table::of_spreads("variation", "Delay variation", lead);
    for results in flows {
        let Some(variation) = &results.figures.variation else { continue };
        let way = results.flow.direction.name();
        table.spread(format!("{way}, PDV"), &variation.pdv, "RFC 5481, section 4.2");
        table.spread(format!("{way}, IPDV"), &variation.ipdv, "RFC 5481, section 4.1; RFC 3393");
        table.notes.push(micro(format!(
            "{way}: interarrival jitter (RFC 3550, section 6.4.1) {} at the end, {} at most.",
            duration_f64(variation.interarrival_jitter_ns),
            duration_f64(variation.largest_interarrival_jitter_ns)
        )));
    }
    table
}

fn buffers(flows: &[&FlowResults]) -> Table {
    let lead = "The smallest de-jitter buffer with which no more than the target is late or lost, verified by playing these \
                very packets out. The buffer is how long the quickest packet waits.";
    let columns = ["buffer", "late", "lost", "most waiting"].map(str::to_owned).into();
    let mut table = Table::new("advice", "De-jitter buffer", lead, columns);
    for results in flows {
        for advised in &results.figures.advice.buffers {
            let target = percent(f64::from(advised.target_per_million) / 1e6);
            let name = format!("{}, {target} late or lost", results.flow.direction.name());
            let cells = match advised.advice {
                Advice::Buffer { buffer_ns, playout, .. } => vec![
                    duration(i64::try_from(buffer_ns).unwrap_or(i64::MAX)),
                    count(playout.late),
                    count(playout.lost),
                    count(playout.most_waiting),
                ],
                Advice::Impossible { lost, allowed } => vec![
                    format!("none: only {} may be", count(allowed)),
                    String::new(),
                    count(lost),
                    String::new(),
                ],
            };
            table.row(name, cells, "fixed playout delay, simulated");
        }
    }
    table
}

fn voice(flows: &[&FlowResults]) -> Table {
    let lead = "How a call would sound behind the buffer for 1 % late or lost: mean opinion score, 1 to 4.5, and the rating R \
                behind it. Codecs for which the ITU has published no values for this loss are left out.";
    let columns = ["MOS", "R", "mouth to ear", "late or lost", "burst ratio"].map(str::to_owned).into();
    let mut table = Table::new("voice", "Voice", lead, columns);
    for results in flows {
        for rated in &results.figures.advice.voice {
            let cells = vec![
                format!("{:.2}", rated.mos),
                format!("{:.1}", rated.r),
                duration_f64(rated.delay_ms * 1e6),
                percent(rated.loss_percent / 100.0),
                format!("{:.2}", rated.burst_ratio),
            ];
            let name = format!("{}, {}", results.flow.direction.name(), rated.codec.name);
            table.row(name, cells, "ITU-T G.107, G.113 appendix I");
        }
    }
    table
}

fn clocks(summary: &PathSummary) -> Table {
    let lead = "How far the two ends' wall clocks are apart, and what each kernel says of its own.";
    let mut table = Table::new("clocks", "Clocks", lead, vec!["found".to_owned()]).of_words();
    if let Some(clock) = &summary.clock {
        let by = "probe of the least round trip; bound: half of it";
        let offset = format!("{} ± {}", duration(clock.offset_ns), duration(clock.bound_ns));
        table.row("server less client", vec![offset], by);
        table.row(
            "relative clock error",
            vec![duration(clock.jitlat_error_ns)],
            "Jitlat: median of the probes",
        );
        let probes = if clock.probes == 0 {
            "as a log states".to_owned()
        } else {
            format!("{} probes", count(clock.probes as u64))
        };
        let least = format!("{}, {probes}", duration(clock.min_rtt_ns));
        table.row("least round trip", vec![least], "control connection (RFC 2681, section 2)");
    }
    for clock in &summary.clocks {
        let error = |name: &str, ns: Option<i64>| {
            ns.map_or_else(String::new, |ns| format!(", {name} {}", duration(ns)))
        };
        let state = if clock.synchronised { "disciplined" } else { "not disciplined by anything" };
        let text = format!(
            "{state}{}{}",
            error("wrong by at most", clock.max_error_ns),
            error("estimated error", clock.estimated_error_ns)
        );
        table.row(format!("{}'s clock", clock.end), vec![text], "adjtimex: maxerror, esterror");
        if let Some(chrony) = &clock.chrony {
            let by = "chronyd: |correction| + root dispersion + root delay / 2";
            table.row(format!("{}'s clock, chrony", clock.end), vec![chrony_words(chrony)], by);
        }
    }
    for step in &summary.clock_steps {
        let text = format!("{} about {} after the start", duration(step.step_ns), duration(step.after_ns));
        table.row(format!("the {}'s clock stepped by", step.end), vec![text], "wall against monotonic clock");
    }
    if summary.clock_steps.is_empty() && !table.is_empty() {
        table.row("steps of a wall clock", vec!["none seen".to_owned()], "wall against monotonic clock");
    }
    table
}

fn skews(flows: &[&FlowResults]) -> Table {
    let lead = "How delay grows with time. The lower line touches the packets that met no queue, so its slope is the skew of \
                the receiver's clock against the sender's; the least-squares line follows the queues too.";
    let mut table = Table::by_way("skew", "Skew and drift", lead, flows);
    if flows.iter().all(|results| results.figures.burstiness.is_none()) {
        return table;
    }
    let none = || "-".to_owned();
    table.each(
        "skew, lower line",
        flows,
        |r| r.figures.skew.map_or_else(none, |line| format!("{:+.3} ppm", line.ppm())),
        "Moon et al. 1999 (lower convex hull)",
    );
    table.each(
        "slope, least squares",
        flows,
        |r| r.figures.burstiness.map_or_else(none, |line| format!("{:+.3} ppm", line.slope * 1e6)),
        "Jitlat, section 1 (burstiness plot)",
    );
    table.each(
        "correlation",
        flows,
        |r| {
            r.figures
                .burstiness
                .and_then(|line| line.correlation)
                .map_or_else(none, |value| format!("{value:+.3}"))
        },
        "Jitlat, section 1 (Pearson's r)",
    );
    table.each(
        "lasting shifts of the least delay",
        flows,
        |r| count(r.figures.level_shifts.len() as u64),
        "windows of 100 packets, 1 ms or more",
    );
    for results in flows {
        for shift in results.figures.level_shifts.iter().take(10) {
            let cause = match shift.cause {
                ShiftCause::SenderClock => "the sender's clock stepped",
                ShiftCause::ReceiverClockOrPath => "the receiver's clock stepped, or the path changed",
                ShiftCause::Unknown => "a clock stepped, or the path changed",
            };
            let (way, size) = (results.flow.direction.name(), duration(shift.size_ns));
            table
                .notes
                .push(micro(format!("{way}: {size} from packet {} on: {cause}.", count(shift.sequence))));
        }
    }
    table
}

fn schedule(flows: &[KnownFlow<'_>]) -> Table {
    let lead = "Mean periods, and how the sender kept to its deadlines.";
    let mut table = Table::by_way("schedule", "Schedule", lead, flows);
    table.each(
        "schedule",
        flows,
        |known| known.flow.schedule.clone(),
        "RFC 3432 (periodic), RFC 2330, section 11.1 (Poisson)",
    );
    table.each("target period", flows, |known| duration_f64(known.flow.period_ns as f64), "as asked for");
    if flows.iter().any(|known| known.results.is_some()) {
        let period = |known: &KnownFlow<'_>, of: fn(&FlowResults) -> Option<f64>| {
            known.results.and_then(of).map_or_else(|| "-".to_owned(), duration_f64)
        };
        let (sent, received) = ("stamps of packets that arrived", "stamps of arrival");
        table.each("mean period sent", flows, |known| period(known, |r| r.figures.periods.sent_ns), sent);
        table.each(
            "mean period received",
            flows,
            |known| period(known, |r| r.figures.periods.received_ns),
            received,
        );
    }
    let rows: [Metric<AchievedSchedule>; 6] = [
        ("sent late, p50", |achieved| duration(achieved.error_p50_ns)),
        ("sent late, p99", |achieved| duration(achieved.error_p99_ns)),
        ("sent late, most", |achieved| duration(achieved.error_max_ns)),
        ("slots left out", |achieved| count(achieved.missed)),
        ("slope off 1", |achieved| {
            achieved.slope_ppm.map_or_else(|| NOT_KNOWN.to_owned(), |ppm| format!("{ppm:+.2} ppm"))
        }),
        ("sender's CPU, a million packets", |achieved| {
            achieved
                .cpu_per_million_ns
                .map_or_else(|| NOT_KNOWN.to_owned(), |ns| duration(i64::try_from(ns).unwrap_or(i64::MAX)))
        }),
    ];
    for (name, cell) in rows {
        let cell =
            |known: &KnownFlow<'_>| known.flow.achieved.as_ref().map_or_else(|| NOT_KNOWN.to_owned(), cell);
        table.each(name, flows, cell, "sender: sending time less deadline");
    }
    table
}

fn rolling(rolling: &[RollingFigures]) -> Table {
    let lead = "Figures kept in constant memory while the test ran; its packets were not kept, so there are no plots. \
                Quantiles are right to 0.1 % of their value.";
    let ways = rolling.iter().map(|figures| figures.direction.clone()).collect();
    let mut table = Table::new("rolling", "Figures of the whole test", lead, ways);
    let mut row = |name: &str, cell: &dyn Fn(&RollingFigures) -> String, definition| {
        table.row(name, rolling.iter().map(cell).collect(), definition);
    };
    let sent = |figures: &RollingFigures| figures.unique.saturating_add(figures.lost);
    let time = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), duration);
    let mean = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), duration_f64);
    row("arrived", &|f| part(f.unique, sent(f)), "first copies (RFC 5560, section 2)");
    row("lost", &|f| part(f.lost, sent(f)), "RFC 7680, section 2");
    row("copies beyond the first", &|f| part(f.duplicate, sent(f)), "RFC 5560, section 5");
    row("came out of order", &|f| part(f.reordered, sent(f)), "RFC 4737, section 3.3");
    row("later than the window", &|f| count(f.beyond_window), "counted as lost, or copies");
    row("loss periods", &|f| count(f.loss_periods), "RFC 3357, section 6.2");
    row("longest loss period, packets", &|f| count(f.longest_loss_period), "RFC 3357, section 6.3");
    row("delay, least", &|f| time(f.min_delay_ns), "RFC 7679, section 5.3");
    row("delay, mean", &|f| mean(f.mean_delay_ns), "RFC 7679, as measured");
    row("delay, largest", &|f| time(f.max_delay_ns), "RFC 7679, as measured");
    for (at, name) in ["p50", "p90", "p99", "p99.9"].into_iter().enumerate() {
        row(
            &format!("delay, {name}"),
            &|f| time(f.delay_quantiles_ns.map(|all| all[at])),
            "RFC 7679, section 5.1, as measured",
        );
    }
    for (at, name) in ["p50", "p90", "p99", "p99.9"].into_iter().enumerate() {
        row(
            &format!("PDV, {name}"),
            &|f| time(f.pdv_quantiles_ns.map(|all| all[at])),
            "RFC 5481, section 4.2",
        );
    }
    row("interarrival jitter at the end", &|f| mean(f.interarrival_jitter_ns), "RFC 3550, section 6.4.1");
    table
}
