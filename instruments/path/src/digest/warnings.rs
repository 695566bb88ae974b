//! What the reader should know before believing the numbers of a path, each with what to do about it.

use super::{KnownFlow, PathSummary};
use crate::facts::SendingFacts;
use quaver_arrivals::path::clocks::ClockWarning;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::offset::OffsetSource;
use quaver_arrivals::path::summary::Delay;
use quaver_store::manifest::Manifest;
use quaver_view::Cell;

/// A receiver whose kernel dropped packets measured itself.
const REMEDY_OWN_DROPS: &str =
    "raise net.core.rmem_max at the receiver, or run it with CAP_NET_ADMIN, so that its buffer may grow";

/// Warnings that the results themselves give.
pub(super) fn of(summary: &PathSummary) -> Vec<String> {
    let mut warnings = Vec::new();
    let same_clock = summary.clock.as_ref().is_some_and(|clock| clock.source == OffsetSource::SameClock);
    let by_reflector = matches!(summary.protocol.as_str(), "stamp" | "twamp");
    for known in summary.known_flows() {
        of_flow(&known, same_clock, by_reflector, &mut warnings);
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
    if same_clock {
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

fn of_flow(known: &KnownFlow<'_>, same_clock: bool, by_reflector: bool, warnings: &mut Vec<String>) {
    let (flow, figures) = (known.flow, known.results.map(|results| &results.figures));
    let way = flow.direction.name();
    if let Some(why) = &flow.cut_short {
        warnings.push(format!("{way}: {why}"));
    }
    if let Some(moved) = &flow.moved {
        warnings.push(format!(
            "{way}: the client's datagrams came from another port than at first, at last from {}: something on the way, as a NAT \
             does, gave it {}; \
             {} until the server followed count as lost",
            moved.to,
            Cell::several(moved.times.into(), "new port"),
            match flow.direction {
                Direction::Up => format!("{} that came from there", Cell::several(moved.uncounted, "packet")),
                Direction::Down => "those that went to the old port".to_owned(),
            }
        ));
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
        // Both bear a delay that no clock makes.
        Some(ClockWarning::AboveRoundTrip { min_rtt_ns, min_latency_ns })
            if same_clock || corrected.is_some_and(|(min_ns, bound_ns)| min_ns - bound_ns > min_rtt_ns) =>
        {
            let min_ns = if same_clock {
                min_latency_ns
            } else {
                corrected.map_or(min_latency_ns, |(min_ns, _)| min_ns)
            };
            warnings.push(format!(
                "{way}: each test packet took {} or longer, and the control connection there and back {}: something delays test \
                 packets alone (another queue, class or route, or a program at either end)",
                Cell::Duration(min_ns),
                Cell::Duration(min_rtt_ns)
            ));
        }
        Some(ClockWarning::AboveRoundTrip { min_latency_ns, min_rtt_ns }) => warnings.push(format!(
            "{way}: minimum measured delay {} exceeds the minimum RTT {}: the clocks differ; {use_what}",
            Cell::Duration(min_latency_ns),
            Cell::Duration(min_rtt_ns)
        )),
        None => {}
    }
    of_changed(known, by_reflector, warnings);
    let in_trains = flow.achieved.and_then(|achieved| achieved.sending);
    let in_trains = in_trains.filter(|sending| sending.received_in_trains > 0);
    let lost = || flow.sent.unwrap_or(flow.planned).saturating_sub(known.unique);
    let dropped = match known.results {
        Some(results) => results.figures.loss.own_drops,
        None => flow.own_drops.map(|dropped| dropped.min(lost())),
    };
    if let Some(dropped) = dropped.filter(|dropped| *dropped > 0) {
        let what = in_trains.map_or_else(
            || "packets".to_owned(),
            |sending| format!("trains of up to {} packets", sending.longest_train),
        );
        warnings.push(format!(
            "{way}: up to {} of the lost {what} were dropped by the receiver's own socket and not on the path; {REMEDY_OWN_DROPS}",
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
        of_period(known, warnings);
    }
}

/// Packets that did not arrive as they were sent.
fn of_changed(known: &KnownFlow<'_>, by_reflector: bool, warnings: &mut Vec<String>) {
    let (flow, way) = (known.flow, known.flow.direction.name());
    let Some(figures) = known.results.map(|results| &results.figures) else { return };
    let packets = &figures.packets;
    if packets.invalid > 0 {
        warnings.push(format!(
            "{way}: {} arrived with a length or a number that was not sent: something between the two programs changed them; those of which no other copy came count as lost",
            Cell::several(packets.invalid, "packet")
        ));
    }
    if flow.foreign > 0 && packets.sent > packets.unique {
        warnings.push(format!(
            "{way}: {} came to the receiver's port and are not of this test, by their address, session or length; packets that \
             something cut or sent on from another address would be among them, and count as lost",
            Cell::several(flow.foreign, "datagram")
        ));
    }
    let stamped = figures.delay.as_ref().map_or(0, |delay| delay.as_measured.count);
    let without_time = packets.unique.saturating_sub(stamped);
    // A reflector's stamp is lost with its reply.
    if without_time > 0 && !by_reflector {
        warnings.push(format!(
            "{way}: {} arrived with another time than was sent: something between the two programs changed them; their delays are not known",
            Cell::several(without_time, "packet")
        ));
    }
}

/// Parts of a flow's packets that may leave late without a word.
const LATE_ACCEPTED: f64 = 0.01;

/// A period that was not the one asked for. A sender that sends every slot has no other mean; it may be late.
fn of_period(known: &KnownFlow<'_>, warnings: &mut Vec<String>) {
    let (flow, way) = (known.flow, known.flow.direction.name());
    let Some(achieved) = &flow.achieved else { return };
    if let Some(sending) = &achieved.sending {
        if sending.longest_train <= 1 && sending.late as f64 > LATE_ACCEPTED * flow.planned as f64 {
            warnings.push(format!(
                "{way}: {} of {} packets left later than planned, by up to {}: delays are counted \
                 from when each left",
                Cell::Count(sending.late),
                Cell::Count(flow.planned),
                Cell::Duration(achieved.error_max_ns)
            ));
        }
        return;
    }
    let sent_ns = known.results.and_then(|results| results.figures.periods.sent_ns);
    if let Some(sent_ns) = sent_ns.filter(|sent_ns| (sent_ns / flow.period_ns as f64 - 1.0).abs() > 100e-6) {
        warnings.push(format!(
            "{way}: the mean time between packets was {}, not {}",
            Cell::FineDuration(sent_ns),
            Cell::FineDuration(flow.period_ns as f64)
        ));
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

#[cfg(test)]
mod tests {
    use crate::digest::digest;
    use crate::facts::{
        AchievedSchedule, FlowFacts, LatePolicyName, MoveFacts, PathFacts, RoundTrip, SendingFacts,
    };
    use crate::view::tests::{flow_facts, run};
    use quaver_abi::wire::jitlat::Singleton;
    use quaver_arrivals::path::direction::Direction;

    const MS: i64 = 1_000_000;

    /// A packet each millisecond, which takes 2 ms.
    fn packets() -> Vec<Singleton> {
        let packet = |number: i32| {
            let tx_real_time_ns = 1_000 * MS + i64::from(number) * MS;
            Singleton { tx_real_time_ns, tx_seq: number, rx_real_time_ns: tx_real_time_ns + 2 * MS, flags: 0 }
        };
        (0..100).map(packet).collect()
    }

    /// Warnings of a flow to a server whose answer came back 200 µs after the question, and was stamped `t2_ns` after it.
    fn warned(flow: FlowFacts, packets: Vec<Singleton>, t2_ns: i64) -> String {
        let round_trips = vec![RoundTrip { t1_ns: 0, t2_ns, t3_ns: 200_000 }];
        let facts =
            PathFacts { peer: "192.0.2.2".into(), flows: vec![flow], round_trips, ..PathFacts::default() };
        digest(&facts, &[packets], run()).summary.warnings.join("\n")
    }

    fn flow() -> FlowFacts {
        flow_facts(Direction::Up, 100)
    }

    #[test]
    fn clocks_are_blamed_for_a_long_delay_only_where_their_offset_makes_it() {
        let apart = warned(flow(), packets(), 100_000 + 1_900_000);
        assert!(apart.contains("exceeds the minimum RTT 200 µs: the clocks differ"), "{apart}");
        let slow = warned(flow(), packets(), 100_000);
        assert!(slow.contains("each test packet took 2.00 ms or longer"), "{slow}");
        assert!(slow.contains("there and back 200 µs: something delays test packets alone"), "{slow}");
        assert!(!slow.contains("the clocks differ"), "{slow}");
    }

    #[test]
    fn a_packet_that_came_changed_is_told() {
        let mut list = packets();
        assert!(!warned(flow(), list.clone(), 100_000).contains("changed"));
        list[40].tx_real_time_ns ^= 1 << 40;
        let told = warned(flow(), list, 100_000);
        assert!(told.contains("1 packet arrived with another time than was sent"), "{told}");
        let mut list = packets();
        list[40].tx_seq ^= 1 << 5;
        let told = warned(flow(), list, 100_000);
        assert!(told.contains("1 packet arrived with a length or a number that was not sent"), "{told}");
    }

    #[test]
    fn a_client_that_a_nat_moved_is_told_with_what_was_lost_by_it() {
        let moved = MoveFacts { times: 1, uncounted: 2, to: "192.0.2.1:7".into() };
        let told = warned(FlowFacts { moved: Some(moved.clone()), ..flow() }, packets(), 100_000);
        assert!(
            told.contains(
                "at last from 192.0.2.1:7: something on the way, as a NAT does, gave it 1 new port; 2 packets"
            ),
            "{told}"
        );
        let flow = FlowFacts { moved: Some(moved), ..flow_facts(Direction::Down, 100) };
        let told = warned(flow, packets(), 100_000);
        assert!(
            told.contains("those that went to the old port until the server followed count as lost"),
            "{told}"
        );
    }

    #[test]
    fn others_at_the_port_are_told_where_packets_lack() {
        let others = |foreign| FlowFacts { foreign, ..flow() };
        assert!(!warned(others(3), packets(), 100_000).contains("not of this test"));
        let list: Vec<Singleton> = packets().into_iter().filter(|packet| packet.tx_seq != 40).collect();
        assert!(!warned(others(0), list.clone(), 100_000).contains("not of this test"));
        let told = warned(others(3), list, 100_000);
        assert!(told.contains("3 datagrams came to the receiver's port and are not of this test"), "{told}");
    }

    #[test]
    fn a_sender_that_sends_every_slot_is_late_and_does_not_drift() {
        let late = |late: u64, late_policy| {
            let sending = SendingFacts {
                late_policy,
                late,
                unsent: 0,
                train_packets: 0,
                longest_train: 0,
                received_in_trains: 0,
            };
            let achieved = AchievedSchedule {
                slope_ppm: Some(1_253.0),
                error_max_ns: 18 * MS,
                sending: Some(sending),
                ..AchievedSchedule::default()
            };
            warned(FlowFacts { achieved: Some(achieved), ..flow() }, packets(), 100_000)
        };
        let told = late(12, LatePolicyName::SendLate);
        assert!(told.contains("12 of 100 packets left later than planned, by up to 18.0 ms"), "{told}");
        assert!(!late(1, LatePolicyName::SendLate).contains("left later"));
        // A peer that tells no more than its packets do.
        let achieved = Some(AchievedSchedule::default());
        let slower = packets().into_iter().map(|packet| Singleton { tx_seq: packet.tx_seq * 2, ..packet });
        let told =
            warned(FlowFacts { achieved, ..flow_facts(Direction::Up, 200) }, slower.collect(), 100_000);
        assert!(told.contains("the mean time between packets was 500 µs, not 1.00 ms"), "{told}");
    }
}
