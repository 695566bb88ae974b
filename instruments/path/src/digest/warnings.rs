//! What the reader should know before believing the numbers of a path, each with what to do about it.

use super::{KnownFlow, PathSummary};
use crate::facts::SendingFacts;
use quaver_analysis::path::clocks::ClockWarning;
use quaver_analysis::path::offset::OffsetSource;
use quaver_analysis::path::summary::Delay;
use quaver_store::manifest::Manifest;
use quaver_view::Cell;

/// A receiver whose kernel dropped packets measured itself.
const REMEDY_OWN_DROPS: &str =
    "raise net.core.rmem_max at the receiver, or run it with CAP_NET_ADMIN, so that its buffer may grow";

/// Warnings that the results themselves give.
pub(super) fn of(summary: &PathSummary) -> Vec<String> {
    let mut warnings = Vec::new();
    for known in summary.known_flows() {
        of_flow(&known, &mut warnings);
    }
    for step in &summary.clock_steps {
        warnings.push(format!(
            "the {}'s wall clock stepped by {} about {} after the start: delays before and after it are not comparable; \
             wait until the clock is stable (chronyc tracking) and measure again",
            step.end,
            Cell::Duration(step.step_ns),
            Cell::Duration(step.after_ns)
        ));
    }
    if summary.clock.as_ref().is_some_and(|clock| clock.source == OffsetSource::SameClock) {
        return warnings;
    }
    let unsynchronised: Vec<&str> =
        summary.clocks.iter().filter(|clock| !clock.synchronised).map(|clock| clock.end.as_str()).collect();
    if !unsynchronised.is_empty() && summary.peer_is_remote() {
        let clocks = if unsynchronised.len() == 1 { "clock is" } else { "clocks are" };
        warnings.push(format!(
            "the {} wall {clocks} not synchronized: one-way delays are right only within the bound of the offset; run chrony or PTP on both hosts",
            unsynchronised.join("'s and the ") + "'s"
        ));
    }
    warnings
}

fn of_flow(known: &KnownFlow<'_>, warnings: &mut Vec<String>) {
    let (flow, figures) = (known.flow, known.results.map(|results| &results.figures));
    let way = flow.direction.name();
    if let Some(why) = &flow.cut_short {
        warnings.push(format!("{way}: {why}"));
    }
    let delay = figures.and_then(|figures| figures.delay.as_ref());
    let corrected = delay.and_then(|delay| Some((delay.corrected.as_ref()?.min_ns, delay.bound_ns?)));
    if let Some((min_ns, bound_ns)) = corrected.filter(|(min_ns, _)| *min_ns < 0) {
        warnings.push(format!(
            "{way}: minimum corrected delay {} is negative: the clocks' offset is known within ± {} only; use PDV",
            Cell::Duration(min_ns),
            Cell::Duration(bound_ns)
        ));
    }
    let use_what = if delay.is_some_and(Delay::is_known) { "use the corrected values" } else { "use PDV" };
    match delay.and_then(|delay| delay.warning) {
        Some(ClockWarning::NegativeLatency { min_latency_ns }) => warnings.push(format!(
            "{way}: minimum measured delay {} is negative: the clocks differ; {use_what}",
            Cell::Duration(min_latency_ns)
        )),
        Some(ClockWarning::AboveRoundTrip { min_latency_ns, min_rtt_ns }) => warnings.push(format!(
            "{way}: minimum measured delay {} exceeds the minimum RTT {}: the clocks differ; {use_what}",
            Cell::Duration(min_latency_ns),
            Cell::Duration(min_rtt_ns)
        )),
        None => {}
    }
    let in_trains = flow.achieved.and_then(|achieved| achieved.sending);
    let in_trains = in_trains.filter(|sending| sending.received_in_trains > 0);
    if let Some(dropped) = flow.own_drops.filter(|dropped| *dropped > 0) {
        let what = in_trains.map_or_else(
            || "packets".to_owned(),
            |sending| format!("trains of up to {} packets", sending.longest_train),
        );
        warnings.push(format!(
            "{way}: {} {what} were dropped by the receiver's own socket and not lost on the path; {REMEDY_OWN_DROPS}",
            Cell::Count(dropped)
        ));
    }
    if let Some(achieved) = &flow.achieved {
        if achieved.missed > 0 {
            warnings.push(format!(
                "{way}: the sender skipped {} that it was late for; use a longer period or a quieter CPU",
                Cell::several(achieved.missed, "slot")
            ));
        }
        if let Some(sending) = &achieved.sending {
            of_sending(way, flow.planned, sending, warnings);
        }
        let period_ns = figures.and_then(|figures| figures.periods.sent_ns);
        // One that was late at the start and caught up kept its mean all the same.
        let kept = period_ns.is_some_and(|sent_ns| (sent_ns / flow.period_ns as f64 - 1.0).abs() <= 100e-6);
        if let Some(slope) = achieved.slope_ppm.filter(|slope| slope.abs() > 100.0 && !kept) {
            warnings.push(format!(
                "{way}: the sender drifted by {slope:.0} ppm; its period was {}",
                Cell::FineDuration(period_ns.unwrap_or(flow.period_ns as f64))
            ));
        }
    }
}

fn of_sending(way: &str, planned: u64, sending: &SendingFacts, warnings: &mut Vec<String>) {
    if sending.unsent > 0 {
        warnings.push(format!(
            "{way}: {} of {} packets had not been sent when the test was over: the sender did not keep up; use a lower \
             rate or a quieter CPU",
            Cell::Count(sending.unsent),
            Cell::Count(planned)
        ));
    }
    if sending.longest_train > 1 {
        warnings.push(format!(
            "{way}: packets went in trains of up to {}: a train has one sending time, so delays within it are not those of \
             single packets",
            Cell::Count(sending.longest_train)
        ));
    }
}

/// Warnings that the manifest of a run gives.
pub(super) fn of_run(manifest: &Manifest) -> Vec<String> {
    let mut warnings: Vec<String> = manifest
        .incomplete_reason()
        .map(|reason| format!("the run is incomplete: {reason}"))
        .into_iter()
        .collect();
    warnings.extend(quaver_instrument::facts::notes(manifest));
    warnings
}
