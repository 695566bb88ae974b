//! What follows from the figures for a call, how delay drifts, and how the sender kept to its schedule.

use super::metrics::{Metric, Metrics, duration, framed, in_frame};
use super::way;
use crate::digest::{FlowResults, KnownFlow};
use crate::facts::AchievedSchedule;
use quaver_arrivals::path::advice::Call;
use quaver_arrivals::path::playout::Advice;
use quaver_arrivals::path::steps::ShiftCause;
use quaver_view::{Block, Cell, Column, Section, Table, text};

/// Most shifts of the minimum delay that are listed for a flow.
const MOST_SHIFTS: usize = 10;

/// De-jitter buffers; none where nothing arrived.
pub(super) fn buffers(flows: &[&FlowResults]) -> Option<Section> {
    let columns = ["buffer", "late", "lost", "max queued"].map(Column::new);
    let (mut table, mut none) = (Table::new(framed(columns)), Vec::new());
    for results in flows {
        for advised in &results.figures.advice.buffers {
            let target = Cell::Share(f64::from(advised.target_per_million) / 1e6);
            let name = format!("{}, {target} late or lost", way(results));
            match advised.advice {
                Advice::Buffer { buffer_ns, playout, .. } => {
                    let counts = [playout.late, playout.lost, playout.most_waiting].map(Cell::Count);
                    let cells = std::iter::once(duration(buffer_ns)).chain(counts);
                    table.row(in_frame(&name, cells, "fixed playout delay, simulated"));
                }
                Advice::Impossible { lost, allowed } => {
                    let (lost, allowed) = (Cell::Count(lost), Cell::Count(allowed));
                    none.push(text!("{name}: none, since {lost} were lost and the target is {allowed}"));
                }
            }
        }
    }
    let mut section = Section::new("advice", "De-jitter buffer").note(
        "Smallest de-jitter buffer that meets the target of late or lost packets, verified on these packets. Its length is \
         the wait of the fastest packet.",
    );
    if !table.rows.is_empty() {
        section.push(table);
    }
    if !none.is_empty() {
        section.push(Block::List(none));
    }
    (!section.blocks.is_empty()).then_some(section)
}

/// How calls would sound; none where nothing arrived.
pub(super) fn voice(flows: &[&FlowResults]) -> Option<Section> {
    let calls = || {
        let of = |results: &&FlowResults| (way(results), results.figures.advice.voice.clone());
        flows.iter().map(of).flat_map(|(way, calls)| calls.into_iter().map(move |call| (way, call)))
    };
    let unsure = calls().any(|(_, call)| mos_interval(&call).is_some());
    let columns = ["MOS"].into_iter().chain(unsure.then_some("clocks' bound"));
    let columns = columns.chain(["R", "buffer", "mouth to ear", "late or lost", "burst ratio"]);
    let mut table = Table::new(framed(columns.map(Column::new)));
    for (way, call) in calls() {
        let rated = &call.rating;
        let mut cells = vec![Cell::Number { value: rated.mos, digits: 2 }];
        cells.extend(unsure.then(|| Cell::from(mos_interval(&call))));
        cells.extend([
            Cell::Number { value: rated.r, digits: 1 },
            duration(call.buffer_ns),
            Cell::FineDuration(rated.delay_ms * 1e6),
            Cell::Share(rated.loss_percent / 100.0),
            Cell::Figure(rated.burst_ratio),
        ]);
        let name = format!("{way}, {}", rated.codec.name);
        table.row(in_frame(&name, cells, "ITU-T G.107, G.113 appendix I"));
    }
    let section = Section::new("voice", "Voice").note(
        "Voice quality behind the fixed buffer that sounds best: MOS (1 to 4.5) and rating factor R (ITU-T G.107). Codecs \
         without ITU values for this loss are omitted.",
    );
    (!table.rows.is_empty()).then(|| section.with(table))
}

/// `4.02 to 4.41`; none where the bound changes no digit that is shown.
pub(super) fn mos_interval(call: &Call) -> Option<String> {
    let [least, most] = call.mos_interval.map(|value| Cell::Number { value, digits: 2 }.to_string());
    (least != most).then(|| format!("{least} to {most}"))
}

/// A number with its sign.
fn signed(value: f64, digits: u8) -> Cell {
    Cell::difference(Cell::Number { value, digits })
}

/// How delay grows with time; none where too few packets arrived.
pub(super) fn skew(flows: &[&FlowResults]) -> Option<Section> {
    if flows.iter().all(|results| results.figures.burstiness.is_none()) {
        return None;
    }
    let mut metrics = Metrics::new(flows, |results| way(results));
    metrics
        .row("drift of the least delay, ppm", "lower edge, as measured (Moon et al. 1999)", |r| {
            r.figures
                .skew
                .as_ref()
                .map(|edge| if edge.drifts { signed(edge.ppm, 3) } else { "none seen".into() })
        })
        .row("of parts of the test, ppm", "least and largest slope of the lower edge", |r| {
            let edge = r.figures.skew.as_ref().filter(|edge| edge.drifts)?;
            Some(Cell::from(format!("{:+.3} to {:+.3}", edge.least_ppm, edge.most_ppm)))
        })
        .row("slope, least squares, ppm", "by one clock; Jitlat, section 1 (burstiness plot)", |r| {
            r.figures.burstiness.map(|line| signed(line.slope * 1e6, 3))
        })
        .row("correlation", "Jitlat, section 1 (Pearson's r)", |r| {
            r.figures.burstiness.and_then(|line| line.correlation).map(|value| signed(value, 3))
        })
        .row("level shifts of the minimum delay", "windows of 100 packets, 1 ms or more", |r| {
            Cell::Count(r.figures.level_shifts.len() as u64)
        });
    for results in flows {
        for shift in results.figures.level_shifts.iter().take(MOST_SHIFTS) {
            let cause = match shift.cause {
                ShiftCause::SenderClock => "the sender's clock stepped; taken out",
                ShiftCause::ReceiverClock => "the receiver's clock stepped; taken out",
                ShiftCause::Path => "the path changed; no clock stepped",
                ShiftCause::ReceiverClockOrPath => "the receiver's clock stepped, or the path changed",
                ShiftCause::Unknown => "a clock stepped, or the path changed",
            };
            let (size, first) = (Cell::Duration(shift.size_ns), Cell::Sequence(shift.sequence));
            metrics.table.note(text!("{}: {size} from packet {first} on: {cause}", way(results)));
        }
        if let Some(ppm) = results.figures.skew.as_ref().and_then(|edge| edge.growth_ppm) {
            metrics.table.note(text!(
                "{}: the least delay grows by {ppm:+.0} ppm, faster than clocks drift: a queue, and left in the delays",
                way(results)
            ));
        }
    }
    let section = Section::new("skew", "Skew and drift").note(
        "Growth of the least delay over time. Packets without queueing lie on the lower edge, so its slope is the receiver's \
         skew against the sender. The least-squares line follows the queues.",
    );
    Some(section.with(metrics.table))
}

/// What became of late packets and went in trains, where the sender tells.
fn sending<'a>(metrics: &mut Metrics<'a, KnownFlow<'a>>, flows: &[KnownFlow<'_>]) {
    let said = |known: &KnownFlow<'_>| known.flow.achieved.and_then(|achieved| achieved.sending);
    if flows.iter().all(|known| said(known).is_none()) {
        return;
    }
    metrics
        .row("policy for late packets", "--late", |known| Some(Cell::from(said(known)?.late_policy.name())))
        .row("packets sent late", "when the next one was due too", |known| {
            Some(Cell::Count(said(known)?.late))
        })
        .row("packets not sent in time", "due, not sent when the test ended", |known| {
            Some(Cell::Count(said(known)?.unsent))
        });
    if flows
        .iter()
        .any(|known| said(known).is_some_and(|said| said.longest_train + said.received_in_trains > 0))
    {
        metrics
            .row("longest train, packets", "one call, cut apart by the kernel", |known| {
                Some(Cell::Count(said(known)?.longest_train))
            })
            .row("packets sent in trains", "one sending time each train", |known| {
                Some(Cell::Count(said(known)?.train_packets))
            })
            .row("packets received in trains", "one stamp each train", |known| {
                Some(Cell::Count(said(known)?.received_in_trains))
            });
    }
}

/// How the sender kept to its deadlines.
pub(super) fn schedule(flows: &[KnownFlow<'_>]) -> Section {
    let mut metrics = Metrics::new(flows, |known| known.flow.direction.name());
    metrics.row("target period", "as requested", |known| duration(known.flow.period_ns));
    // Of a test that kept no packets nobody knows these.
    if flows.iter().any(|known| known.results.is_some()) {
        let periods = |known: &KnownFlow<'_>| known.results.map(|results| results.figures.periods.clone());
        metrics
            .row("mean period sent", "stamps of packets that arrived", |known| {
                periods(known)?.sent_ns.map(Cell::FineDuration)
            })
            .row("mean period received", "stamps of arrival", |known| {
                periods(known)?.received_ns.map(Cell::FineDuration)
            });
    }
    const LATENESS: &str = "sender: sending time less deadline";
    let rows: [(&str, Metric<AchievedSchedule>); 6] = [
        (LATENESS, ("lateness p50", |achieved| Some(Cell::Duration(achieved.error_p50_ns)))),
        (LATENESS, ("lateness p99", |achieved| Some(Cell::Duration(achieved.error_p99_ns)))),
        (LATENESS, ("lateness max", |achieved| Some(Cell::Duration(achieved.error_max_ns)))),
        (
            "sender: deadlines without a packet",
            ("slots skipped", |achieved| Some(Cell::Count(achieved.missed))),
        ),
        (
            "sender: change of lateness over time (least squares)",
            ("drift from the schedule, ppm", |achieved| achieved.slope_ppm.map(|ppm| signed(ppm, 2))),
        ),
        (
            "sender: CPU time of its thread",
            ("sender's CPU per million packets", |achieved| achieved.cpu_per_million_ns.map(duration)),
        ),
    ];
    for (definition, (name, cell)) in rows {
        metrics.row(name, definition, |known| {
            known.flow.achieved.as_ref().and_then(cell).unwrap_or(Cell::Unknown)
        });
    }
    sending(&mut metrics, flows);
    Section::new("schedule", "Schedule")
        .note("mean periods, and the sender's lateness (RFC 3432; Poisson: RFC 2330, section 11.1)")
        .with(metrics.table)
}
