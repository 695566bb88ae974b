//! From a session with a STAMP reflector to the facts and packets of two flows.

use crate::facts::{AchievedSchedule, EndClock, FlowFacts, PathFacts, RoundTrip, SendingFacts};
use crate::probe::facts::{clock_of, clock_steps, late_policy_name};
use quaver_abi::wire::jitlat::Singleton;
use quaver_analysis::path::direction::Direction;
use quaver_path_record::ClockEstimate;
use quaver_path_record::stamp::{SenderOptions, StampOutcome, StampPacket, StampReply};
use quaver_view::Cell;

/// Round trips that are kept for the estimate of the clocks' offset: those of the fastest packets.
const ROUND_TRIPS: usize = 16;

/// The fastest round trips, fastest first.
#[derive(Debug, Default)]
pub(super) struct Fastest {
    trips: Vec<(i64, RoundTrip)>,
}

impl Fastest {
    /// Takes an answered packet.
    pub(super) fn take(&mut self, packet: &StampPacket) {
        let Some(reply) = &packet.reply else { return };
        let round_trip_ns = reply.round_trip_ns(packet.t1_ns);
        let place = self.trips.partition_point(|(known_ns, _)| *known_ns <= round_trip_ns);
        if place == ROUND_TRIPS {
            return;
        }
        self.trips.truncate(ROUND_TRIPS - 1);
        let t3_ns = packet.t1_ns.saturating_add(round_trip_ns);
        self.trips
            .insert(place, (round_trip_ns, RoundTrip { t1_ns: packet.t1_ns, t2_ns: reply.t2_ns, t3_ns }));
    }

    fn into_trips(self) -> Vec<RoundTrip> {
        self.trips.into_iter().map(|(_, trip)| trip).collect()
    }
}

/// What the reader should know of the session.
pub(super) fn notes(outcome: &StampOutcome) -> Vec<String> {
    let of = |packets: u64, words: &str| (packets > 0).then(|| format!("{} {words}", Cell::Count(packets)));
    let notes = [
        ways_of_loss(outcome),
        of(outcome.not_sent, "packets were refused by the local kernel and count as not sent"),
        of(outcome.late, "replies came after the loss timeout; their packets count as lost"),
        of(
            outcome.short,
            "datagrams of the reflector are too short for replies (RFC 8762, section 4.3), so their packets count as lost",
        ),
        of(
            outcome.other_length,
            "replies have another length than the packets they answer (RFC 8762, section 4.3); they count",
        ),
        of(outcome.wrong_hmac, "replies with a wrong HMAC were discarded"),
        of(outcome.flagged, "replies carry TLVs that the reflector flagged as unknown or altered"),
    ];
    notes.into_iter().flatten().collect()
}

/// Which way packets were lost, as a sentence; none where nothing was lost.
fn ways_of_loss(outcome: &StampOutcome) -> Option<String> {
    let lost = outcome.lost();
    if lost == 0 {
        return None;
    }
    if outcome.answered == 0 {
        let words = "no replies, so the direction of the loss is unknown, and whether a reflector is there at all: both \
                     directions count all packets";
        return (outcome.short == 0).then(|| words.to_owned());
    }
    let directions = &outcome.directions;
    Some(match (directions.forward_lost, directions.backward_lost) {
        (Some(there), Some(back)) => format!(
            "of {} packets without a reply, {} were lost on the way there and {} on the way back by the reflector's own \
             numbers, and {} on one of the two; \"up\" counts all of them",
            Cell::Count(lost),
            Cell::Count(there),
            Cell::Count(back),
            Cell::Count(directions.undecided)
        ),
        _ => format!(
            "stateless reflector: the direction of {} losses is unknown, and both directions count all of them; use a \
             stateful reflector",
            Cell::Count(lost)
        ),
    })
}

/// A record of a packet, whose number keeps its low 32 bits, as on the wire.
pub(super) fn singleton(sequence: u64, sent_ns: i64, received_ns: i64) -> Singleton {
    Singleton {
        tx_real_time_ns: sent_ns,
        tx_seq: (sequence as u32).cast_signed(),
        rx_real_time_ns: received_ns,
        flags: 0,
    }
}

fn answered(packet: &StampPacket) -> Option<(&StampPacket, &StampReply)> {
    Some((packet, packet.reply.as_ref()?))
}

/// The packets of the two directions. A reflector that counts its replies numbers the way back by itself, so what was
/// lost and what came twice on it shows.
pub(super) fn packets(outcome: &StampOutcome) -> [Vec<Singleton>; 2] {
    let up = outcome.packets.iter().filter_map(answered);
    let up = up.map(|(packet, reply)| singleton(packet.sequence, packet.t1_ns, reply.t2_ns)).collect();
    let mut replies: Vec<_> = outcome.packets.iter().chain(&outcome.further).filter_map(answered).collect();
    replies.sort_by_key(|(_, reply)| reply.t4_ns);
    let number = |packet: &StampPacket, reflector_sequence: u32| match outcome.directions.numbered {
        Some(numbered) => u64::from(reflector_sequence.wrapping_sub(numbered.first as u32)),
        None => packet.sequence,
    };
    let down = replies
        .iter()
        .map(|(packet, reply)| singleton(number(packet, reply.reflector_sequence), reply.t3_ns, reply.t4_ns))
        .collect();
    [up, down]
}

/// What the manifest tells of the session.
pub(super) fn facts(
    outcome: &StampOutcome,
    options: &SenderOptions,
    fastest: Fastest,
    protocol: &str,
) -> PathFacts {
    PathFacts {
        peer: outcome.target.to_string(),
        protocol: protocol.to_owned(),
        flows: vec![flow(outcome, options, Direction::Up), flow(outcome, options, Direction::Down)],
        round_trips: fastest.into_trips(),
        clocks: clocks(outcome),
        clock_steps: clock_steps(
            &outcome.clock_steps,
            outcome.clock_pairs.first().map_or(0, |pair| pair.realtime_ns),
        ),
        ..PathFacts::default()
    }
}

/// What is known of both wall clocks: of ours by its kernel, of the reflector's by its own word (RFC 4656, 4.1.2).
fn clocks(outcome: &StampOutcome) -> Vec<EndClock> {
    let here = ClockEstimate::now().map(|estimate| clock_of("client", estimate));
    let there = outcome.reflector_error.map(|error| {
        let said_ns = error.error_ns().and_then(|ns| i64::try_from(ns).ok());
        EndClock {
            end: "server".to_owned(),
            synchronised: error.synchronized,
            max_error_ns: said_ns.filter(|_| error.synchronized),
            estimated_error_ns: None,
            chrony: None,
        }
    });
    here.into_iter().chain(there).collect()
}

/// Packets that were sent in a direction. Of the way back only the reflector's own numbers tell.
pub(super) fn sent(outcome: &StampOutcome, direction: Direction) -> u64 {
    match (direction, outcome.directions.numbered) {
        (Direction::Down, Some(numbered)) => numbered.replies,
        _ => outcome.sent,
    }
}

/// How our sender kept its schedule.
fn achieved(outcome: &StampOutcome, options: &SenderOptions) -> AchievedSchedule {
    let held = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    AchievedSchedule {
        slope_ppm: None,
        error_p50_ns: held(outcome.lateness.quantiles_ns[0]),
        error_p99_ns: held(outcome.lateness.quantiles_ns[2]),
        error_max_ns: held(outcome.lateness.largest_ns),
        missed: outcome.skipped,
        cpu_per_million_ns: None,
        sending: Some(SendingFacts {
            late_policy: late_policy_name(options.late),
            late: outcome.sent_late,
            unsent: outcome.unsent,
            train_packets: 0,
            longest_train: 0,
            received_in_trains: 0,
        }),
    }
}

fn flow(outcome: &StampOutcome, options: &SenderOptions, direction: Direction) -> FlowFacts {
    let up = direction == Direction::Up;
    let (source, destination) =
        if up { (outcome.local, outcome.target) } else { (outcome.target, outcome.local) };
    FlowFacts {
        direction,
        transport: "UDP".to_owned(),
        source: source.to_string(),
        destination: destination.to_string(),
        dscp: options.dscp,
        payload_bytes: outcome.packet_bytes as u32,
        period_ns: options.period_ns,
        schedule: "periodic".to_owned(),
        planned: options.count.unwrap_or(outcome.sent),
        sent: Some(sent(outcome, direction)),
        sent_stamped_by: if up { "application".to_owned() } else { "the reflector".to_owned() },
        received_stamped_by: if up { "the reflector".to_owned() } else { "kernel".to_owned() },
        own_drops: None,
        foreign: outcome.foreign,
        achieved: up.then(|| achieved(outcome, options)),
        departures: None,
        segments: None,
        segments_at_server: None,
        cut_short: (!outcome.complete).then(|| "interrupted by the user".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_path_flow::StampSource;

    fn packet(sequence: u64, round_trip_ns: i64) -> StampPacket {
        let t1_ns = 1_000_000 * sequence as i64;
        let reply = StampReply {
            t2_ns: t1_ns + 70,
            t3_ns: t1_ns + 90,
            t4_ns: t1_ns + 20 + round_trip_ns,
            t4_by: StampSource::Kernel,
            reflector_sequence: sequence as u32,
            forward_ttl: 64,
            backward_ttl: None,
            backward_dscp: 0,
            backward_ecn: 0,
            class_of_service: None,
            direct_measurement: None,
            follow_up: None,
        };
        StampPacket { sequence, t1_ns, reply: Some(reply) }
    }

    #[test]
    fn the_fastest_round_trips_are_those_of_a_sorted_list() {
        let packets: Vec<StampPacket> =
            (0..500).map(|number| packet(number, 1_000 + (number as i64 * 7_919) % 3_001)).collect();
        let mut fastest = Fastest::default();
        packets.iter().for_each(|packet| fastest.take(packet));
        fastest.take(&StampPacket { reply: None, ..packets[0] });
        let mut sorted: Vec<(i64, i64)> = packets
            .iter()
            .map(|packet| (packet.reply.unwrap().round_trip_ns(packet.t1_ns), packet.t1_ns))
            .collect();
        sorted.sort_by_key(|(round_trip_ns, _)| *round_trip_ns);
        let trips = fastest.into_trips();
        assert_eq!(trips.len(), ROUND_TRIPS);
        for (trip, (round_trip_ns, t1_ns)) in trips.iter().zip(sorted) {
            assert_eq!((trip.t1_ns, trip.t3_ns - trip.t1_ns), (t1_ns, round_trip_ns));
        }
    }
}
