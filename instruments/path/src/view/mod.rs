//! What a person sees of a path: packets by fate, delay and its variation, loss, order, advice, and how far all of it can
//! be believed.

mod below;
mod charts;
mod clocks;
mod grid;
mod loss;
mod metrics;
mod quality;
mod rolling;

use crate::digest::{FlowResults, PathSummary, RoundTripLoss};
use crate::facts::FlowFacts;
use metrics::{Fates, duration, spread_group, spreads};
use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::arrival::Classified;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::playout::Advice;
use quaver_arrivals::path::summary::Delay;
use quaver_instrument::facts::RunFacts;
use quaver_view::{Block, Cell, Document, Section, Shown, Table, Text, text};

/// What the document of a path is made from.
#[derive(Clone, Copy)]
pub struct PathInput<'a> {
    /// Results.
    pub summary: &'a PathSummary,
    /// The packets of each flow, sorted into arrivals and others.
    pub flows: &'a [(FlowFacts, Classified)],
    /// The arrivals of each flow by one clock.
    pub timed: &'a [Vec<Arrival>],
    /// Facts of the run or of the log.
    pub run: &'a RunFacts,
}

/// The document of a path measurement.
pub fn document(input: &PathInput<'_>) -> Document {
    let (summary, run) = (input.summary, input.run);
    let (flows, known): (Vec<&FlowResults>, _) = (summary.flows().collect(), summary.known_flows());
    let mut document = Document::new(format!("quaver {}", run.verb), &run.name);
    document.version.clone_from(&run.version);
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    head(&mut document, input);
    let mut sections = vec![below::segments(&known), clocks::section(summary)];
    // A test that kept no packets has its own figures.
    if summary.rolling.is_empty() {
        let round_trip = summary.round_trip_loss.as_ref();
        document.verdict = Some(verdict(&flows, &summary.rolling_flows, round_trip));
        tiles(&mut document, summary, &flows);
        document.sections.extend(charts::section(input));
        document.section(packets(&flows, round_trip));
        document.sections.extend(sections.remove(0));
        document.sections.extend(variation(&flows));
        document.section(delay(&flows));
        document.section(loss::pattern(&flows)).section(loss::copies(&flows));
        document.section(loss::order(&flows));
        document.sections.extend(quality::buffers(&flows));
        document.sections.extend(quality::voice(&flows));
        document.sections.extend(sections.remove(0));
        document.sections.extend(quality::skew(&flows));
    } else {
        document.verdict = Some(rolling::verdict(&summary.rolling));
        rolling::tiles(&mut document, &summary.rolling);
        document.sections.extend(rolling::sections(&summary.rolling));
        document.sections.extend(sections.into_iter().flatten());
    }
    document.section(quality::schedule(&known)).section(below::stamps(&known));
    document
}

/// Name of a flow's direction.
fn way(results: &FlowResults) -> &'static str {
    results.flow.direction.name()
}

fn head(document: &mut Document, input: &PathInput<'_>) {
    let (summary, run) = (input.summary, input.run);
    document.fact("host", &run.host);
    document.fact("peer", text!("{}, by {}", summary.peer, summary.protocol));
    document.fact("started", &run.started).fact("trigger", &run.trigger);
    for known in summary.known_flows() {
        let flow = known.flow;
        let dscp = if flow.dscp == 0 { String::new() } else { format!(", DSCP {}", flow.dscp) };
        let words = text!(
            "{} {} of {} bytes from {} to {}, one every {} ({}){dscp}",
            Cell::Count(flow.planned),
            flow.transport,
            flow.payload_bytes,
            flow.source,
            flow.destination,
            duration(flow.period_ns),
            flow.schedule
        );
        document.fact(flow.direction.name(), words);
    }
    document.html_fact("run", &run.directory);
    document.html_fact("command", Text::default().code(&run.command));
    for (name, value) in &run.facts {
        document.html_fact(name, value);
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What became of a direction's packets: `Up: loss 0.10 %; PDV p99 2.00 ms.` `pdv` is that of `arrived` packets, by name.
fn outcome(way: &str, arrived: u64, lost_share: f64, no_loss: &str, pdv: Option<(&str, i64)>) -> String {
    let way = capital(way);
    let pdv = pdv.map_or_else(String::new, |(name, ns)| format!("; PDV {name} {}", Cell::Duration(ns)));
    match (arrived, lost_share) {
        (0, _) => format!("{way}: no packet arrived."),
        (_, 0.0) => format!("{way}: {no_loss}{pdv}."),
        _ => format!("{way}: loss {}{pdv}.", Cell::Share(lost_share)),
    }
}

/// Part of a flow's packets that is known to be lost on this way. Losses of an unknown way count in its figures.
fn known_lost_share(results: &FlowResults, unknown: Option<&RoundTripLoss>) -> f64 {
    let loss = &results.figures.loss;
    let share = loss.share.unwrap_or(0.0);
    match unknown {
        Some(all) if results.flow.direction == Direction::Up || all.way_unknown == all.lost => {
            share * loss.packets.saturating_sub(all.way_unknown) as f64 / loss.packets.max(1) as f64
        }
        _ => share,
    }
}

/// `unheard`: of them the receiver said nothing.
fn verdict(flows: &[&FlowResults], unheard: &[FlowFacts], round_trip: Option<&RoundTripLoss>) -> Text {
    let unknown = round_trip.filter(|loss| loss.way_unknown > 0);
    if unheard.is_empty() && flows.iter().all(|results| results.figures.packets.unique == 0) {
        return "No packet arrived.".into();
    }
    let said: Vec<String> = flows
        .iter()
        .map(|results| {
            let figures = &results.figures;
            let pdv = figures.variation.as_ref().map(|variation| &variation.pdv);
            // Fewer packets have no 99th percentile but the largest of them.
            let pdv = pdv.map(|pdv| if pdv.count < 100 { ("max", pdv.max_ns) } else { ("p99", pdv.p99_ns) });
            let no_loss = if unknown.is_some() { "no known loss" } else { "no loss" };
            let lost_share = known_lost_share(results, unknown);
            outcome(way(results), figures.packets.unique, lost_share, no_loss, pdv)
        })
        .collect();
    let unknown = unknown.map(|loss| {
        let (lost, share) = (Cell::Count(loss.lost), Cell::from(loss.share.map(Cell::Share)));
        let of_them = match loss.way_unknown {
            all if all == loss.lost => "whether they were lost there or back is not known".to_owned(),
            some => format!("of {} it is not known whether they were lost there or back", Cell::Count(some)),
        };
        format!("No reply to {lost} packets ({share}); {of_them}.")
    });
    let unheard = unheard
        .iter()
        .map(|flow| format!("{}: the receiver did not say what arrived.", capital(flow.direction.name())));
    unknown.into_iter().chain(unheard).chain(said).collect::<Vec<_>>().join(" ").into()
}

/// Adds a key figure: the worst direction's large, each in the note. `rank` is higher for worse values.
fn tile<T>(
    document: &mut Document,
    name: &str,
    values: &[(&str, Option<T>)],
    rank: impl Fn(&T) -> f64,
    cell: impl Fn(&T) -> Cell,
    about: &str,
) {
    let known = values.iter().filter_map(|(_, value)| value.as_ref());
    let worst = known.max_by(|one, other| rank(one).total_cmp(&rank(other))).map(&cell);
    let each = values.iter().map(|(way, value)| format!("{way} {}", Cell::from(value.as_ref().map(&cell))));
    let mut notes = if values.len() > 1 { vec![each.collect::<Vec<_>>().join(", ")] } else { Vec::new() };
    notes.extend((!about.is_empty()).then(|| about.to_owned()));
    document.tile(name, worst, notes.join("; "));
}

fn tiles(document: &mut Document, summary: &PathSummary, flows: &[&FlowResults]) {
    fn of<T>(
        flows: &[&FlowResults],
        value: impl Fn(&FlowResults) -> Option<T>,
    ) -> Vec<(&'static str, Option<T>)> {
        flows.iter().map(|results| (way(results), value(results))).collect()
    }
    let ns = |value: &i64| *value as f64;
    let time = |value: &i64| Cell::Duration(*value);
    let share = |value: &f64| Cell::Share(*value);
    let bound = summary.clock.as_ref().and_then(|clock| clock.bound_ns);
    let bound = bound.map(|bound_ns| format!("± {}", Cell::Duration(bound_ns)));
    let about_delay = bound.unwrap_or_else(|| "the clocks' offset is not known".to_owned());
    tile(document, "Loss", &of(flows, |results| results.figures.loss.share), |share| *share, share, "");
    let pdv = of(flows, |results| Some(results.figures.variation.as_ref()?.pdv.p99_ns));
    tile(document, "PDV p99", &pdv, ns, time, "above the minimum delay");
    tile(document, "One-way delay p50", &of(flows, delay_p50_ns), ns, time, &about_delay);
    let reordered = of(flows, |results| results.figures.reordering.ratio);
    tile(document, "Reordered", &reordered, |share| *share, share, "");
    tile(document, "De-jitter buffer", &of(flows, buffer_ns), ns, time, "for 1 % late or lost");
    let calls = of(flows, |results| results.figures.advice.voice.first().copied());
    let worst = calls.iter().filter_map(|(_, call)| call.as_ref());
    let worst = worst.min_by(|one, other| one.rating.mos.total_cmp(&other.rating.mos));
    let interval = worst.and_then(quality::mos_interval);
    let interval = interval.map_or_else(String::new, |words| format!(", {words} within the clocks' bound"));
    tile(
        document,
        "Call, MOS",
        &calls,
        |call| -call.rating.mos,
        |call| Cell::Number { value: call.rating.mos, digits: 2 },
        &format!("G.711, of 4.5{interval}"),
    );
}

/// Median delay, where the clocks' bound leaves anything of it.
fn delay_p50_ns(results: &FlowResults) -> Option<i64> {
    let delay = results.figures.delay.as_ref()?;
    delay.corrected.as_ref().filter(|_| delay.is_known()).map(|corrected| corrected.p50_ns)
}

/// The buffer for the laxest target.
fn buffer_ns(results: &FlowResults) -> Option<i64> {
    match results.figures.advice.buffers.last()?.advice {
        Advice::Buffer { buffer_ns, .. } => i64::try_from(buffer_ns).ok(),
        Advice::Impossible { .. } => None,
    }
}

fn packets(flows: &[&FlowResults], round_trip: Option<&RoundTripLoss>) -> Section {
    let mut fates = Fates::new(flows.iter().map(|results| (way(results), results.figures.packets.sent)));
    let each = |count: fn(&FlowResults) -> u64| flows.iter().map(move |results| count(results));
    fates.aside("sent", "sender's count, or planned", each(|r| r.figures.packets.sent).map(Some));
    fates.row("arrived", "first copies (RFC 5560, section 2)", each(|r| r.figures.packets.unique));
    fates.row("lost", "RFC 7680, section 2", each(|r| r.figures.loss.packets));
    let own_drops = flows.iter().map(|results| results.figures.loss.own_drops);
    fates.aside("of these at the receiver's socket", "kernel's drop counter", own_drops);
    fates.row("duplicates", "extra copies (RFC 5560, section 5)", each(|r| r.figures.packets.duplicate));
    fates.row("reordered", "RFC 4737, section 3.3", each(|r| r.figures.packets.reordered));
    let invalid = each(|r| r.figures.packets.invalid).map(Some);
    fates.aside("invalid", "unknown number, or flagged", invalid);
    let foreign = each(|r| r.flow.foreign).map(Some);
    fates.aside("foreign packets on the port", "without this test's tag or key", foreign);
    let waited = flows.iter().find_map(|results| results.figures.loss.timeout_ns);
    let waited = match waited {
        Some(timeout_ns) => text!("after {}", Cell::Duration(timeout_ns)),
        None => "at the end of reception".into(),
    };
    let without_reply = round_trip.filter(|found| found.lost > 0).map(|found| {
        let unknown = match found.way_unknown {
            0 => String::new(),
            some => format!(" Of {} the way is not known, and they count as lost up.", Cell::Count(some)),
        };
        text!(
            "No reply: {} of {}, {} (RFC 6673).{unknown}",
            Cell::Count(found.lost),
            Cell::several(found.sent, "packet"),
            Cell::from(found.share.map(Cell::Share))
        )
    });
    let section = Section::new("packets", "Packets")
        .note(text!(
            "Sent = arrived + lost. Duplicates and invalid packets are counted separately. A packet counts as lost {waited} \
             (RFC 7680, section 2.8)."
        ))
        .with(fates.table);
    without_reply.into_iter().fold(section, |section, words| section.with(Block::Note(words)))
}

fn delay(flows: &[&FlowResults]) -> Section {
    let section = Section::new("delay", "One-way delay").note(
        "From sending to arrival (RFC 7679), by one clock: without the clocks' offset, drift and steps. Percentiles: RFC \
         2330, section 11.3. A dash: too few packets.",
    );
    let arrived: Vec<_> =
        flows.iter().filter_map(|results| Some((*results, results.figures.delay.as_ref()?))).collect();
    if arrived.is_empty() {
        return section.with("Nothing arrived, so there is no delay.");
    }
    let mut table = spreads();
    let told: Vec<_> = arrived.iter().filter(|(_, delay)| delay.is_known()).collect();
    for flows in told.chunk_by(|one, other| one.1.bound_ns == other.1.bound_ns) {
        let bound = Cell::from(flows[0].1.bound_ns.map(Cell::Duration));
        let rows = flows.iter().filter_map(|(results, delay)| {
            Some((way(results), delay.corrected.as_ref()?, "RFC 7679, section 3; by one clock"))
        });
        spread_group(&mut table, &format!("corrected, ± {bound}"), &rows.collect::<Vec<_>>());
    }
    for by in ["kernel", "hardware"] {
        let departed = || {
            let all = arrived.iter().filter(|(_, delay)| delay.is_known());
            let all =
                all.filter_map(|(results, _)| Some((way(results), results.delay_from_departure.as_ref()?)));
            all.filter(|(_, delay)| delay.stamped_by == by)
        };
        let definition = if by == "hardware" { "from the NIC's stamp" } else { "from the kernel's stamp" };
        let rows = departed().filter_map(|(way, delay)| Some((way, delay.corrected.as_ref()?, definition)));
        spread_group(&mut table, &format!("from {by} departure, corrected"), &rows.collect::<Vec<_>>());
    }
    let lost = arrived.iter().filter(|(results, delay)| results.figures.loss.packets > 0 && delay.is_known());
    let lost = lost.map(|(results, delay)| {
        let all = &delay.with_loss;
        let [p50, p90, p99, p99_9] = [all.p50_ns, all.p90_ns, all.p99_ns, all.p99_9_ns]
            .map(|ns| ns.map_or_else(|| "lost".into(), Cell::Duration));
        let way = way(results);
        text!(
            "{way}, counting losses as infinite delay (RFC 7679, section 5.1): p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p99_9}"
        )
    });
    let section = if table.rows.is_empty() { section } else { section.with(table) };
    let section = lost.fold(section, |section, words| section.with(Block::Note(words)));
    let hidden = arrived
        .iter()
        .filter(|(_, delay)| !delay.is_known())
        .map(|(results, delay)| why_not_told(results, delay));
    let section = hidden.fold(section, |section, words| section.with(Block::Note(words)));
    section.with(Block::Only(Shown::HtmlOnly, Box::new(as_measured(&arrived).into())))
}

/// Why the delays of a flow are no rows of the table.
fn why_not_told(results: &FlowResults, delay: &Delay) -> Text {
    let way = way(results);
    match delay.corrected.as_ref().zip(delay.bound_ns) {
        None => no_offset(way),
        Some((corrected, bound_ns)) => drowned(way, bound_ns, corrected.p50_ns, corrected.min_ns),
    }
}

fn no_offset(way: &str) -> Text {
    text!("{way}: nothing tells the clocks' offset, so there is no delay by one clock. PDV needs no offset.")
}

fn drowned(way: &str, bound_ns: i64, p50_ns: i64, min_ns: i64) -> Text {
    text!(
        "{way}: the clocks are known within ± {}, more than the delay itself (p50 {}, min {}). PDV needs no offset.",
        Cell::Duration(bound_ns),
        Cell::Duration(p50_ns),
        Cell::Duration(min_ns)
    )
}

/// Delays with the clocks' offset in them.
fn as_measured(arrived: &[(&FlowResults, &Delay)]) -> Table {
    let mut table = spreads();
    let rows =
        arrived.iter().map(|(results, delay)| (way(results), &delay.as_measured, "RFC 7679, section 3"));
    spread_group(&mut table, "as measured, with the clocks' offset", &rows.collect::<Vec<_>>());
    for (results, _) in arrived {
        if let Some(delay) = &results.delay_from_departure {
            let heading = format!("from {} departure, as measured", delay.stamped_by);
            let definition = if delay.stamped_by == "hardware" {
                "from the NIC's stamp"
            } else {
                "from the kernel's stamp"
            };
            spread_group(&mut table, &heading, &[(way(results), &delay.as_measured, definition)]);
        }
    }
    table
}

fn variation(flows: &[&FlowResults]) -> Option<Section> {
    let known: Vec<_> = flows
        .iter()
        .filter_map(|results| Some((way(results), results.figures.variation.as_ref()?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let mut table = spreads();
    let rows = known.iter().map(|(way, found)| (*way, &found.pdv, "RFC 5481, section 4.2"));
    let bound_ns = known.iter().map(|(_, found)| found.bound_ns).max().filter(|bound_ns| *bound_ns > 0);
    let drift =
        bound_ns.map_or_else(String::new, |ns| format!(", ± {} (drift of the clocks)", Cell::Duration(ns)));
    spread_group(&mut table, &format!("PDV{drift}"), &rows.collect::<Vec<_>>());
    let rows = known.iter().map(|(way, found)| (*way, &found.ipdv, "RFC 5481, section 4.1; RFC 3393"));
    spread_group(&mut table, "IPDV", &rows.collect::<Vec<_>>());
    let interarrival = known.iter().map(|(way, found)| {
        let [last, most] = [found.interarrival_jitter_ns, found.largest_interarrival_jitter_ns];
        let [last, most] = [last, most].map(Cell::FineDuration);
        text!("{way}, interarrival jitter (RFC 3550, section 6.4.1): final {last}, max {most}")
    });
    let section = Section::new("variation", "Delay variation").note(
        "PDV: delay above the minimum. IPDV: delay minus that of the previous packet, signed (RFC 5481). Neither contains \
         the clocks' offset; their drift and steps are taken out.",
    );
    Some(interarrival.fold(section.with(table), |section, words| section.with(Block::Note(words))))
}

#[cfg(test)]
pub(crate) mod tests;
