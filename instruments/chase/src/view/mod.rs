//! What a person sees of a packet run: how late packets were, what made them late, and what became of each.

mod backlog;
mod charts;
mod event_name;
pub(crate) mod far_source;
mod late;
mod slices;
#[cfg(test)]
mod tests;
mod timeline;

use quaver_analysis::attribution::PacketAnalysis;
use quaver_analysis::model::{Layer, PacketRun};
use quaver_analysis::summary::{ChaseSummary, LimitResult, Losses, ProbeCost};
use quaver_instrument::causes::{certainty, ranked};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::head::{Tracing, head};
use quaver_instrument::percentiles::{PERCENTILES, percentiles};
use quaver_instrument::rtp;
use quaver_view::{Block, Cell, Column, Document, Group, Section, Shown, Table, Text, text};

/// Most worst packets that get a timeline.
const TIMELINES: usize = 20;

/// What the document of a packet run is made from.
#[derive(Clone, Copy, Debug)]
pub struct ChaseInput<'a> {
    /// Results.
    pub analysis: &'a PacketAnalysis,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// Packets and events.
    pub measured: &'a PacketRun,
}

impl<'a> ChaseInput<'a> {
    fn summary(&self) -> &'a ChaseSummary {
        &self.analysis.summary
    }
}

/// The document of a run: a page below 15 MB whatever the length of the run.
pub fn document(input: &ChaseInput<'_>) -> Document {
    let summary = input.summary();
    let tracing =
        Tracing { tier: &summary.tier, reason: summary.tier_reason.as_deref(), blind: &summary.blind };
    let mut document = head(input.run, ("stream", stream_line(input)), Some(tracing));
    document.html_fact(
        "typical path delay, schedule to application",
        Cell::Duration(summary.lateness.typical_path_ns).to_string(),
    );
    document.html_fact("complete", if summary.complete { "yes" } else { "no" });
    document.verdict = verdict(summary);
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    tiles(&mut document, summary);
    document.section(causes(summary));
    if let Some(stages) = stages(summary) {
        document.section(stages);
    }
    charts::add(&mut document, input);
    document.section(layers(summary));
    let worst = late::worst(&input.measured.packets, &input.analysis.late, TIMELINES);
    if !worst.is_empty() {
        document.section(
            Section::new("worst", "Around the worst packets")
                .link("Worst packets")
                .note(
                    "What each CPU did while the packet was in flight. One packet per episode. Shaded: from expected to \
                     actual arrival.",
                )
                .with(Group::one_of("Packet", timeline::timelines(input, &worst))),
        );
    }
    document.section(packets(&summary.losses));
    if let Some(backlog) = &summary.backlog {
        document.section(backlog::section(backlog));
    }
    if let Some(far) = &summary.far_source {
        document.section(far_source::section(far));
    }
    if let Some(rtp) = &summary.rtp {
        document.section(rtp::section(rtp));
    }
    document.section(cost(summary.probe_cost.as_ref()));
    document
}

fn stream_line(input: &ChaseInput<'_>) -> Text {
    let summary = input.summary();
    let mut parts = Vec::new();
    if !input.run.stream.is_empty() {
        parts.push(input.run.stream.clone());
    }
    parts.push(period(summary));
    let skipped = skipped_slots(summary);
    if summary.period_ns > 0.0 {
        let per_s = 1e9 / summary.period_ns - skipped as f64 * 1e9 / summary.duration_ns.max(1) as f64;
        parts.push(Cell::Rate(per_s.max(0.0), "packets").to_string());
    }
    if skipped > 0 {
        parts.push(format!("{} without a packet", Cell::several(skipped, "slot")));
    }
    let faster = summary.pace.iter().flat_map(|pace| &pace.faster).take(MOST_PACES);
    parts.extend(faster.map(|one| {
        format!("one every {} in {} of them", Cell::FineDuration(one.period_ns), Cell::Count(one.packets))
    }));
    parts.push(format!("for {}", Cell::Duration(summary.duration_ns)));
    parts.join(" · ").into()
}

fn skipped_slots(summary: &ChaseSummary) -> u64 {
    summary.pace.as_ref().map_or(0, |pace| pace.skipped_slots)
}

/// The stream's period, and how well it is known.
fn period(summary: &ChaseSummary) -> String {
    let period = Cell::FineDuration(summary.period_ns);
    match &summary.pace {
        Some(pace) if !pace.steady => {
            let usual =
                pace.usual_delta_ns.map(|ns| format!(" most often {} apart,", Cell::FineDuration(ns)));
            format!(
                "no steady period (the best one fits {} of the packets), packets{} {period} on average",
                Cell::Share(pace.on_schedule_share),
                usual.unwrap_or_default()
            )
        }
        Some(pace) => format!(
            "one {} every {period} ± {} (learned from the stream)",
            if skipped_slots(summary) > 0 { "slot" } else { "packet" },
            Cell::FineDuration(pace.uncertainty_ns)
        ),
        None if summary.period_learned => format!("one packet every {period} (learned from the stream)"),
        None => format!("one packet every {period}"),
    }
}

/// Periods of stretches that are told, at most.
const MOST_PACES: usize = 3;

/// What lateness is in a stream without a period.
const NO_PERIOD: &str = "The stream keeps to no steady period, so nothing tells when a packet is due. Lateness is what \
                         this host adds to the typical way from a packet's arrival to the application.";

/// What came of it: limits, losses, then lateness. None where no packet was received.
fn verdict(summary: &ChaseSummary) -> Option<Text> {
    let sentences = summary.limits.iter().map(limit).chain(loss(&summary.losses));
    let lateness = lateness(summary)?;
    Some(sentences.chain([lateness]).reduce(|before, next| text!("{before} {next}")).expect("one at least"))
}

fn limit(limit: &LimitResult) -> Text {
    let word = match limit.kept {
        Some(true) => "PASS",
        Some(false) => "FAIL",
        None => "Not judged",
    };
    match (limit.late_ns, limit.sender) {
        (Some(late_ns), _) => text!("{word}: at most {} late, no loss.", Cell::Duration(late_ns)),
        (None, Some(sender)) => text!("{word}: ST 2110-21, type {}.", sender.letters()),
        (None, None) => text!("{word}."),
    }
}

/// How many packets were lost, and where most of them; none where no place counted one. Those that only our record lacks are not
/// lost.
fn loss(losses: &Losses) -> Option<Text> {
    let places = places(&Losses { ours: 0, ..losses.clone() }).into_iter();
    let places: Vec<_> = places.filter_map(|(place, lost)| Some((place, lost.filter(|n| *n > 0)?))).collect();
    let lost: u64 = places.iter().map(|(_, lost)| lost).sum();
    let all = losses.sent.unwrap_or(lost + losses.received.saturating_sub(losses.duplicates));
    let (place, most) = places.iter().max_by_key(|(_, lost)| *lost)?;
    let place = place.trim_start_matches("lost").trim_start_matches([',', ' ']);
    let of_them = match (most * 2 > lost, *most == lost) {
        (_, true) => format!(": {place}"),
        (true, false) => format!(", {} of them {place}", Cell::Count(*most)),
        (false, false) => format!(" at {} places", places.len()),
    };
    let [share, lost, all] = [Cell::part(lost, all), Cell::Count(lost), Cell::Count(all)];
    Some(text!("{lost} of {all} packets ({share}) were lost{of_them}."))
}

/// How many packets were late and why; none where no packet was received.
fn lateness(summary: &ChaseSummary) -> Option<Text> {
    let late = &summary.lateness;
    if let Some(backlog) = &summary.backlog {
        return Some(backlog::verdict(backlog));
    }
    if let Some(unread) = summary.unread.filter(|_| summary.losses.received == 0) {
        return Some(text!(
            "The receiver read none of the {} that came in {}.{}",
            Cell::several(unread.packets, "packet"),
            Cell::Duration(unread.until_ns - unread.since_ns),
            summary
                .causes
                .first()
                .map_or_else(String::new, |cause| format!(" Largest cause: {}.", cause.name))
        ));
    }
    if summary.losses.received == 0 {
        return None;
    }
    if late.packets == 0 {
        return Some(text!("No packet was delayed by more than {}.", Cell::Duration(late.threshold_ns)));
    }
    let share = Cell::part(late.packets, summary.losses.received);
    let head = format!("{} ({share}) {} late.", Cell::several(late.packets, "packet"), were(late.packets));
    let unexplained = summary.unexplained.share;
    Some(match summary.causes.first().filter(|cause| cause.share >= unexplained) {
        Some(cause) => {
            text!("{head} Largest cause: {}, {} of the late time.", cause.name, Cell::Share(cause.share))
        }
        None => text!("{head} Most of the late time ({}) is unexplained.", Cell::Share(unexplained)),
    })
}

fn were(packets: u64) -> &'static str {
    if packets == 1 { "was" } else { "were" }
}

fn tiles(document: &mut Document, summary: &ChaseSummary) {
    let losses = &summary.losses;
    let known: Vec<Option<u64>> = places(losses).into_iter().map(|(_, lost)| lost).collect();
    let unknown = known.iter().filter(|lost| lost.is_none()).count();
    let late = &summary.lateness;
    document.tile(
        "Packets received",
        Cell::Count(losses.received),
        losses.sent.map_or("sent: unknown".into(), |sent| text!("of {} sent", Cell::Count(sent))),
    );
    document.tile(
        "Packets lost",
        Cell::Count(known.iter().flatten().sum()),
        match unknown {
            0 => "every place counted".into(),
            unknown => text!("{unknown} of {} places unknown", known.len()),
        },
    );
    document.tile(
        "Late packets",
        Cell::Count(late.packets),
        text!(
            "late time {} of the run; threshold {}",
            late_share(summary),
            Cell::Duration(late.threshold_ns)
        ),
    );
    document.tile("Worst lateness", worst(summary), "at the application");
    if let Some(layer) = summary.layers.iter().find(|layer| layer.layer == Layer::Application) {
        let [.., p99_99, _, max, _] = percentiles(&layer.delta_t);
        let (name, value) = match p99_99 {
            Cell::Missing => ("ΔT maximum, application", max),
            value => ("ΔT p99.99, application", value),
        };
        let period = match &summary.pace {
            Some(pace) if !pace.steady => "no steady period".into(),
            _ => text!("period {}", Cell::FineDuration(summary.period_ns)),
        };
        document.tile(name, value, period);
    }
    let cost = summary.probe_cost.as_ref();
    document.tile(
        "Cost of the probes",
        cost.map(|cost| Cell::FineDuration(cost.per_packet_ns)),
        cost.map_or("not measured".into(), |cost| text!("per packet; 95 % CI {}", interval(cost))),
    );
}

/// Late time as a part of the run.
fn late_share(summary: &ChaseSummary) -> Cell {
    Cell::Share(summary.lateness.time_ns as f64 / summary.duration_ns.max(1) as f64)
}

fn worst(summary: &ChaseSummary) -> Cell {
    let lateness = &summary.lateness.distribution;
    Cell::Duration(lateness.max_ns).only_if(lateness.count > 0)
}

fn causes(summary: &ChaseSummary) -> Section {
    let section = Section::new("causes", "Causes of lateness").link("Causes");
    let late = &summary.lateness;
    let threshold = Cell::Duration(late.threshold_ns);
    let section = match &summary.pace {
        Some(pace) if !pace.steady => section.with(Block::Note(NO_PERIOD.into())),
        _ => section,
    };
    if late.packets == 0 && late.distribution.count == 0 {
        return section.with(text!("Not known: no packet was measured."));
    }
    if late.packets == 0 {
        return section.with(text!("None: no packet was more than {threshold} late."));
    }
    let received = summary.losses.received;
    let sentence = text!(
        "{} of {} ({}) {} delayed by more than {threshold}. Total late time {} ({} of the run). Worst \
         lateness: {}.",
        Cell::Count(late.packets),
        Cell::several(received, "packet"),
        Cell::part(late.packets, received.max(1)),
        were(late.packets),
        Cell::Duration(late.time_ns),
        late_share(summary),
        worst(summary)
    );
    let example = |_, seq| Cell::Sequence(seq);
    let sentence = match certainty("late time", &summary.causes, &summary.unexplained) {
        Some(certainty) => text!("{sentence} {certainty}"),
        None => sentence,
    };
    section
        .note("ranked by share of the late time; each late packet counts for its largest cause")
        .with(sentence)
        .with(ranked(&summary.causes, &summary.unexplained, "late packets", example))
        .with(
            Block::Note(text!(
                "A packet is late if it is delayed by more than {threshold} beyond its expected instant. Late time that no \
                 recorded event covers is unexplained."
            ))
            .only(Shown::HtmlOnly),
        )
}

/// `receive → enqueued`.
fn stage_name(from: Layer, to: Layer) -> String {
    format!("{} → {}", from.name(), to.name())
}

fn stages(summary: &ChaseSummary) -> Option<Section> {
    if summary.stages.is_empty() || summary.lateness.packets == 0 {
        return None;
    }
    let medians = summary.stages.iter().flat_map(|stage| [stage.on_time.p50_ns, stage.late.p50_ns]);
    let longest_ns = medians.max().unwrap_or(0).max(1) as f64;
    let mut table = Table::new([
        "stage".into(),
        "share".into(),
        "".into(),
        "on time".into(),
        "late p50".into(),
        Column::new("late p99").html_only(),
        "late max".into(),
        Column::new("medians").note("on time, and late below it").html_only(),
    ]);
    for stage in &summary.stages {
        let length = |ns: i64| (ns as f64 / longest_ns).clamp(0.0, 1.0);
        let [late_p50, _, late_p99, .., late_max, _] = percentiles(&stage.late);
        table.row([
            stage_name(stage.from, stage.to).into(),
            Cell::Share(stage.excess_share),
            Cell::Bars(vec![stage.excess_share]),
            Cell::Duration(stage.on_time.p50_ns).only_if(stage.on_time.count > 0),
            late_p50,
            late_p99,
            late_max,
            Cell::Bars(vec![length(stage.on_time.p50_ns), length(stage.late.p50_ns)]),
        ]);
    }
    Some(
        Section::new("stages", "Where late packets wait")
            .link("Stages")
            .note("extra time per stage, compared with packets on time")
            .with(table),
    )
}

fn layers(summary: &ChaseSummary) -> Section {
    let packets = Column::new("packets").html_only();
    let headings = ["layer".into(), packets].into_iter().chain(PERCENTILES.map(Column::from));
    let mut table = Table::new(headings).empty("No two successive packets were received, so there is no ΔT.");
    for layer in &summary.layers {
        let first = [layer.layer.name().into(), Cell::Count(layer.stamped)];
        table.row(first.into_iter().chain(percentiles(&layer.delta_t)));
    }
    let section = Section::new("layers", "ΔT at each layer")
        .link("Layers")
        .note("time between successive packets at each stamped layer")
        .with(table);
    if summary.layers.is_empty() {
        return section;
    }
    let words = "A dash: too few packets. Percentiles: RFC 2330, section 11.3.";
    section.with(Block::Note(words.into()).only(Shown::HtmlOnly))
}

/// Places where a packet can be lost, in the packet's order, with the count where it is known.
fn places(losses: &Losses) -> Vec<(String, Option<u64>)> {
    let mut places = vec![
        ("lost in the network".to_owned(), losses.network),
        ("lost in the NIC ring".to_owned(), losses.nic_ring),
    ];
    let stack = losses.stack.iter();
    places.extend(stack.map(|(reason, lost)| (format!("lost in the stack ({reason})"), Some(*lost))));
    if losses.stack.is_empty() {
        // A run that saw every packet at the stack's entry saw the stack drop them too.
        places.push(("lost in the stack".to_owned(), losses.network.map(|_| 0)));
    }
    places.push(("lost at the socket buffer".to_owned(), losses.socket_buffer));
    let elsewhere = Some(losses.elsewhere).filter(|read| *read > 0);
    places.extend(elsewhere.map(|read| ("read by another process".to_owned(), Some(read))));
    places.push(("lost in Quaver".to_owned(), Some(losses.ours)));
    places.push(("lost, place unknown".to_owned(), Some(losses.unaccounted)));
    places
}

fn packets(losses: &Losses) -> Section {
    let mut table = Table::bare(3);
    let share = |value: Option<u64>| match (value, losses.sent) {
        (Some(value), Some(sent)) if sent > 0 && value > 0 => Cell::part(value, sent),
        _ => Cell::Empty,
    };
    let known = |value: Option<u64>| value.map_or(Cell::Unknown, Cell::Count);
    table.row(["sent".into(), known(losses.sent)]);
    table.row(["received".into(), Cell::Count(losses.received), share(Some(losses.received))]);
    table.row(["  of these duplicates".into(), Cell::Count(losses.duplicates)]);
    table.row(["  of these reordered".into(), Cell::Count(losses.reordered)]);
    for (place, lost) in places(losses) {
        table.row([place.into(), known(lost), share(lost)]);
    }
    Section::new("packets", "Packets").with(table)
}

fn interval(cost: &ProbeCost) -> Cell {
    let (low, high) = cost.interval_ns;
    Cell::interval(Cell::FineDuration(low), Cell::FineDuration(high))
}

fn cost(cost: Option<&ProbeCost>) -> Section {
    let sentence = cost.map_or("not measured in this run".into(), |cost| {
        text!(
            "{} per packet (95 % CI {}), from {blocks} blocks with and {blocks} without probes",
            Cell::FineDuration(cost.per_packet_ns),
            interval(cost),
            blocks = cost.blocks
        )
    });
    Section::new("cost", "Cost of the probes").with(sentence)
}
