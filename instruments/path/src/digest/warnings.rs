//! What the reader should know before believing the numbers of a path, each with what to do about it.

use super::{KnownFlow, PathSummary};
use quaver_analysis::path::clocks::ClockWarning;
use quaver_page::units::{count, duration, duration_f64};
use quaver_store::manifest::Manifest;

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
            "the {}'s wall clock jumped by {} about {} after the start: delays before and after it cannot be compared; \
             let the clock settle (chronyc tracking) and measure again",
            step.end,
            duration(step.step_ns),
            duration(step.after_ns)
        ));
    }
    let unsynchronised: Vec<&str> =
        summary.clocks.iter().filter(|clock| !clock.synchronised).map(|clock| clock.end.as_str()).collect();
    if !unsynchronised.is_empty() && summary.peer_is_remote() {
        warnings.push(format!(
            "nothing disciplines the wall clock of the {}: one-way delays are corrected by the round trips only, \
             within their bound; run chrony or PTP on both hosts for better",
            unsynchronised.join(" and the ")
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
    match figures.and_then(|figures| figures.delay.as_ref()?.warning) {
        Some(ClockWarning::NegativeLatency { min_latency_ns }) => warnings.push(format!(
            "{way}: the least delay as measured is {}, below nothing: the clocks of the two ends are apart; \
             believe the corrected values",
            duration(min_latency_ns)
        )),
        Some(ClockWarning::AboveRoundTrip { min_latency_ns, min_rtt_ns }) => warnings.push(format!(
            "{way}: the least delay as measured, {}, is above the least round trip, {}: the clocks of the two ends \
             are apart; believe the corrected values",
            duration(min_latency_ns),
            duration(min_rtt_ns)
        )),
        None => {}
    }
    if let Some(dropped) = flow.own_drops.filter(|dropped| *dropped > 0) {
        warnings.push(format!(
            "{way}: {} packets were dropped by the receiver's own socket, so they are no loss of the path; \
             {REMEDY_OWN_DROPS}",
            count(dropped)
        ));
    }
    if let Some(achieved) = &flow.achieved {
        if achieved.missed > 0 {
            warnings.push(format!(
                "{way}: the sender was late for {} of its slots and left them out, so that no burst was sent; \
                 a longer period or a quieter CPU helps",
                count(achieved.missed)
            ));
        }
        if let Some(slope) = achieved.slope_ppm.filter(|slope| slope.abs() > 100.0) {
            let period_ns = figures.and_then(|figures| figures.periods.sent_ns);
            warnings.push(format!(
                "{way}: the sender drifted from its schedule by {slope:.0} parts in a million; its period was {}",
                duration_f64(period_ns.unwrap_or(flow.period_ns as f64))
            ));
        }
    }
}

/// Warnings that the manifest of a run gives.
pub(super) fn of_run(manifest: &Manifest) -> Vec<String> {
    let mut warnings: Vec<String> = manifest
        .incomplete_reason()
        .map(|reason| format!("the run is incomplete: {reason}"))
        .into_iter()
        .collect();
    warnings.extend(quaver_instrument::digest::facts::notes(manifest));
    warnings
}
