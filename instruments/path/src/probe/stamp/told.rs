//! From a session with a STAMP reflector to the facts and packets of two flows.

use crate::facts::{AchievedSchedule, EndClock, FlowFacts, PathFacts, RoundTrip, SendingFacts};
use crate::test_facts::{clock_of, clock_steps, late_policy_name};
use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, FLAG_UNSTAMPED, Singleton};
use quaver_arrivals::path::direction::Direction;
use quaver_path_record::ClockEstimate;
use quaver_path_record::stamp::{Numbered, SenderOptions, StampOutcome, StampPacket, StampReply};
use quaver_view::Cell;
use std::collections::{BTreeSet, HashSet};

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
        if round_trip_ns < 0 {
            return;
        }
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
pub(super) fn notes(outcome: &StampOutcome, times: Times) -> Vec<String> {
    let of = |packets: u64, words: &str| (packets > 0).then(|| format!("{} {words}", Cell::Count(packets)));
    let directions = &outcome.directions;
    let begun_anew = (directions.begun_anew > 0).then(|| {
        format!(
            "the reflector's numbers began anew {}, as they do where it is restarted or our packets reach it from another \
             port: they tell neither the direction of losses nor copies on the way there",
            Cell::several(directions.begun_anew, "time")
        )
    });
    let notes = [
        ways_of_loss(outcome, times),
        times.lack_receipt.then(|| {
            "the reflector does not say when packets reached it: there is no delay on the way there"
                .to_owned()
        }),
        begun_anew,
        of(
            directions.changed,
            "replies came with a number of the reflector that does not fit those beside it, and count by that which does",
        ),
        of(
            times.changed(),
            "replies have times of the reflector that contradict each other: something changed them, or a clock was set meanwhile; their delays are not known",
        ),
        of(
            if times.are_of_two_clocks() { times.contradicting } else { 0 },
            "replies have a time of sending before that of receipt, or too long after it: the reflector takes the two by clocks \
             that differ, so delays there and back do not belong to one clock",
        ),
        of(outcome.not_sent, "packets were refused by the local kernel and count as not sent"),
        of(outcome.late, "replies came after the loss timeout; their packets count as lost"),
        of(
            outcome.short,
            "datagrams of the reflector are too short for replies (RFC 8762, section 4.3); packets without another reply count as lost",
        ),
        of(
            outcome.other_length,
            "replies have another length than the packets they answer (RFC 8762, section 4.3); they count",
        ),
        of(outcome.wrong_hmac, "replies with a wrong HMAC were discarded"),
        of(
            outcome.flagged,
            "replies carry TLVs that are cut, or that the reflector flagged as unknown or altered",
        ),
    ];
    notes.into_iter().flatten().collect()
}

/// Which way packets were lost, as a sentence; none where nothing was lost.
fn ways_of_loss(outcome: &StampOutcome, times: Times) -> Option<String> {
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
        (Some(there), Some(back)) => {
            let doubtful = WayThere::of(outcome, times).doubtful;
            let counts = match (
                outcome.packets.is_empty() || directions.numbered.is_none(),
                directions.undecided,
                doubtful,
            ) {
                (true, ..) => "; \"up\" counts all of them".to_owned(),
                (false, 0, 0) => String::new(),
                (false, 0, doubtful) => {
                    format!("; which of {} was which is not known", Cell::Count(doubtful))
                }
                (false, _, _) => "; \"up\" counts these too".to_owned(),
            };
            format!(
                "of {} packets without a reply, {} were lost on the way there and {} on the way back by the reflector's own \
                 numbers, and {} on one of the two{counts}",
                Cell::Count(lost),
                Cell::Count(there),
                Cell::Count(back),
                Cell::Count(directions.undecided)
            )
        }
        _ => {
            let lost = Cell::Count(lost);
            format!(
                "the reflector's numbers do not tell what reached it: the direction of {lost} losses is unknown, and both \
                 directions count all of them"
            )
        }
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

/// The reflector's times of its replies.
#[derive(Clone, Copy, Default)]
pub(super) struct Times {
    replies: u64,
    /// Replies whose two times contradict each other.
    contradicting: u64,
    /// The times of receipt stand still, and those of sending go on.
    lack_receipt: bool,
    /// Least time between two readings of the reflector's clock, nanoseconds: both times may be off by it.
    tick_ns: i64,
}

impl Times {
    pub(super) fn of(outcome: &StampOutcome) -> Self {
        Self::among(outcome.packets.iter().chain(&outcome.further).filter_map(answered))
    }

    fn among<'a>(replies: impl Iterator<Item = (&'a StampPacket, &'a StampReply)> + Clone) -> Self {
        let sorted = |mut times: Vec<i64>| {
            times.sort_unstable();
            times
        };
        let received = sorted(replies.clone().map(|(_, reply)| reply.t2_ns).collect());
        let sent = sorted(replies.clone().map(|(_, reply)| reply.t3_ns).collect());
        // The middle half, since some may have been changed.
        let stand_still = |times: &[i64]| times[times.len() / 4] == times[times.len() - 1 - times.len() / 4];
        let readings = sorted([&received[..], &sent].concat());
        let apart = readings.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let tick_ns = apart.filter(|apart_ns| *apart_ns > 0).min().unwrap_or(0);
        let contradicting = replies.filter(|(packet, reply)| reply.contradicts_itself(packet.t1_ns, tick_ns));
        Self {
            replies: received.len() as u64,
            contradicting: contradicting.count() as u64,
            lack_receipt: received.len() > 2 && stand_still(&received) && !stand_still(&sent),
            tick_ns,
        }
    }

    /// What most replies do is the reflector's way, and no change on the path.
    fn are_of_two_clocks(self) -> bool {
        2 * self.contradicting > self.replies && !self.lack_receipt
    }

    /// Replies with times that something changed.
    fn changed(self) -> u64 {
        if 2 * self.contradicting > self.replies { 0 } else { self.contradicting }
    }

    /// The flag of a reply whose times are not to be believed.
    fn flag(self, packet: &StampPacket, reply: &StampReply) -> i32 {
        let changed = self.changed() > 0 && reply.contradicts_itself(packet.t1_ns, self.tick_ns);
        if changed { FLAG_UNSTAMPED } else { 0 }
    }
}

/// The packets of the two directions. A reflector that counts its replies numbers the way back by itself, so what was
/// lost and what came twice on it shows.
pub(super) fn packets(outcome: &StampOutcome, times: Times) -> [Vec<Singleton>; 2] {
    let mut replies: Vec<_> = outcome.packets.iter().chain(&outcome.further).filter_map(answered).collect();
    replies.sort_by_key(|(_, reply)| reply.t4_ns);
    let number = |packet: &StampPacket, reflector_sequence: u32| match outcome.directions.numbered {
        Some(numbered) => u64::from(reflector_sequence.wrapping_sub(numbered.first as u32)),
        None => packet.sequence,
    };
    let back = |(packet, reply): &(&StampPacket, &StampReply)| Singleton {
        flags: times.flag(packet, reply),
        ..singleton(number(packet, reply.reflector_sequence), reply.t3_ns, reply.t4_ns)
    };
    [WayThere::of(outcome, times).packets, replies.iter().map(back).collect()]
}

/// What reached the reflector.
struct WayThere {
    /// In the order of arrival there, copies too. A packet whose reply was lost has no stamp.
    packets: Vec<Singleton>,
    /// Packets that were lost on either way between the same two replies, so that only their number on each is known.
    doubtful: u64,
}

impl WayThere {
    fn of(outcome: &StampOutcome, times: Times) -> Self {
        match outcome.directions.numbered {
            Some(numbered) => Self::by_numbers(&outcome.packets, &outcome.further, numbered, times),
            None => Self::by_stamps(outcome, times),
        }
    }

    /// Of a reflector that counts nothing, only its stamps tell the order.
    fn by_stamps(outcome: &StampOutcome, times: Times) -> Self {
        let mut first: Vec<_> = outcome.packets.iter().filter_map(answered).collect();
        first.sort_by_key(|(_, reply)| reply.t2_ns);
        let packets = first.iter().map(|(packet, reply)| row(packet, reply, times)).collect();
        Self { packets, doubtful: 0 }
    }

    /// A number between two replies that no reply has is that of a packet that reached the reflector. It is one of the packets
    /// between theirs.
    fn by_numbers(sent: &[StampPacket], further: &[StampPacket], numbered: Numbered, times: Times) -> Self {
        let place =
            |reply: &StampReply| u64::from(reply.reflector_sequence.wrapping_sub(numbered.first as u32));
        let all = sent.iter().chain(further).filter_map(answered);
        let mut replies: Vec<_> = all.filter(|(_, reply)| place(reply) < numbered.replies).collect();
        replies.sort_by_key(|(_, reply)| place(reply));
        // The same reply again.
        replies.dedup_by_key(|(packet, reply)| (packet.sequence, place(reply)));
        let mut unanswered: BTreeSet<u64> =
            sent.iter().filter(|packet| packet.reply.is_none()).map(|packet| packet.sequence).collect();
        let (mut there, mut known, mut next) = (Self { packets: Vec::new(), doubtful: 0 }, HashSet::new(), 0);
        // Numbers that no packet has yet, and packets that have none: they may have overtaken each other.
        let (mut free, mut left, mut overtaken) = (0, Vec::new(), false);
        let reached = |sequence: u64| Singleton {
            flags: FLAG_UNSTAMPED,
            ..singleton(sequence, sent[sequence as usize].t1_ns, 0)
        };
        for (packet, reply) in replies {
            free += usize::try_from(place(reply).saturating_sub(next)).unwrap_or(usize::MAX);
            next = place(reply) + 1;
            let later = unanswered.split_off(&packet.sequence);
            let between: Vec<u64> = std::mem::replace(&mut unanswered, later).into_iter().collect();
            if (1..between.len()).contains(&free) {
                there.doubtful += between.len() as u64;
            }
            let (with, without) = between.split_at(free.min(between.len()));
            free -= with.len();
            overtaken |= free > 0;
            left.extend_from_slice(without);
            there.packets.extend(with.iter().copied().map(reached));
            let copy = if known.insert(packet.sequence) { 0 } else { FLAG_DUPLICATE };
            let row = row(packet, reply, times);
            there.packets.push(Singleton { flags: row.flags | copy, ..row });
        }
        if overtaken && !left.is_empty() {
            there.doubtful += left.len() as u64 + 1;
        }
        there.packets.extend(left.into_iter().rev().take(free).map(reached));
        there
    }
}

/// A packet on the way there.
fn row(packet: &StampPacket, reply: &StampReply, times: Times) -> Singleton {
    let flags = if times.lack_receipt { FLAG_UNSTAMPED } else { times.flag(packet, reply) };
    Singleton { flags, ..singleton(packet.sequence, packet.t1_ns, reply.t2_ns) }
}

/// What the manifest tells of the session.
pub(super) fn facts(
    outcome: &StampOutcome,
    options: &SenderOptions,
    fastest: Fastest,
    times: Times,
    protocol: &str,
) -> PathFacts {
    PathFacts {
        peer: outcome.target.to_string(),
        protocol: protocol.to_owned(),
        flows: vec![flow(outcome, options, Direction::Up), flow(outcome, options, Direction::Down)],
        round_trips: if times.lack_receipt { Vec::new() } else { fastest.into_trips() },
        answered: Some(outcome.answered),
        way_unknown: match outcome.directions.forward_lost {
            Some(_) => outcome.directions.undecided,
            None => outcome.lost(),
        },
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
        // Only the port of replies is ours.
        own_drops: outcome.own_drops.filter(|_| !up),
        foreign: if up { 0 } else { outcome.foreign },
        achieved: up.then(|| achieved(outcome, options)),
        departures: None,
        segments: None,
        segments_at_server: None,
        moved: None,
        cut_short: (!outcome.complete).then(|| "interrupted by the user".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaver_arrivals::path::arrival::{Classified, Numbering, classify};
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

    /// A packet's way: how many copies of it reach the reflector, after how many others, and which of the replies come back.
    type Fate = (u32, u32, bool);

    /// What a sender has after that, its further replies, and the true order at the reflector.
    fn session(fates: &[Fate]) -> (Vec<StampPacket>, Vec<StampPacket>, Vec<u64>) {
        let mut arrivals: Vec<(u64, u64, bool)> = Vec::new();
        for (sequence, (copies, held, back)) in (0u64..).zip(fates) {
            arrivals.extend((0..*copies).map(|copy| (sequence + u64::from(held + copy), sequence, *back)));
        }
        arrivals.sort_unstable_by_key(|(place, sequence, _)| (*place, *sequence));
        let mut sent: Vec<StampPacket> = (0..fates.len() as u64)
            .map(|sequence| StampPacket { reply: None, ..packet(sequence, 1_000) })
            .collect();
        let mut further = Vec::new();
        for (number, (_, sequence, back)) in (0u32..).zip(&arrivals) {
            if !back {
                continue;
            }
            let one = packet(*sequence, 1_000);
            let reply = one.reply.map(|reply| StampReply { reflector_sequence: number, ..reply });
            match sent[*sequence as usize].reply {
                None => sent[*sequence as usize].reply = reply,
                Some(_) => further.push(StampPacket { reply, ..one }),
            }
        }
        (sent, further, arrivals.iter().map(|(_, sequence, _)| *sequence).collect())
    }

    fn there(fates: &[Fate]) -> (Classified, u64) {
        let (sent, further, order) = session(fates);
        let all = sent.iter().chain(&further);
        let replies =
            all.filter_map(|packet| packet.reply).map(|reply| u64::from(reply.reflector_sequence) + 1).max();
        let numbered = Numbered { first: 0, replies: replies.unwrap_or(0) };
        let found = WayThere::by_numbers(&sent, &further, numbered, Times::default());
        assert!(order.len() >= found.packets.len());
        let end = fates.len() as u64;
        (classify(&found.packets, Numbering::Full, Some(end)), found.doubtful)
    }

    #[test]
    fn what_is_lost_on_the_way_back_is_no_loss_there() {
        let mut fates: Vec<Fate> = vec![(1, 0, true); 200];
        for at in [10, 11, 12, 50, 100] {
            fates[at] = (1, 0, false);
        }
        for at in [20, 60, 61] {
            fates[at] = (0, 0, true);
        }
        let (up, doubtful) = there(&fates);
        assert_eq!((up.counts.lost, up.counts.unique, doubtful), (3, 197, 0));
        assert_eq!(up.unstamped, [10, 11, 12, 50, 100]);
        // Three between the same two replies: two there, one back.
        fates[59] = (1, 0, false);
        let (up, doubtful) = there(&fates);
        assert_eq!((up.counts.lost, doubtful), (3, 3));
    }

    #[test]
    fn copies_and_order_on_the_way_there_are_those_of_the_reflectors_numbers() {
        let mut fates: Vec<Fate> = vec![(1, 0, true); 200];
        fates[30].0 = 3;
        fates[77].0 = 2;
        fates[120].1 = 4;
        let (up, _) = there(&fates);
        let counts = up.counts;
        assert_eq!((counts.duplicate, counts.out_of_sequence, counts.lost), (3, 1, 0));
    }

    #[test]
    fn times_that_were_changed_are_those_of_no_packet() {
        let (mut sent, further, _) = session(&[(1, 0, true); 50]);
        sent.iter_mut().for_each(|packet| packet.reply.as_mut().unwrap().t4_ns += 1_000);
        let reply =
            |packet: &mut StampPacket, change: fn(&mut StampReply)| change(packet.reply.as_mut().unwrap());
        reply(&mut sent[7], |reply| reply.t2_ns += 1 << 44);
        reply(&mut sent[20], |reply| reply.t3_ns += 1 << 44);
        let of = |sent: &[StampPacket]| Times::among(sent.iter().filter_map(answered));
        let times = of(&sent);
        assert_eq!((times.changed(), times.lack_receipt), (2, false));
        let there = WayThere::by_numbers(&sent, &further, Numbered { first: 0, replies: 50 }, times);
        let up = classify(&there.packets, Numbering::Full, Some(50));
        assert_eq!((up.counts.lost, up.unstamped), (0, vec![7, 20]));
        // A reflector that takes one of the times by another clock does so in every reply.
        sent.iter_mut().for_each(|packet| {
            reply(packet, |reply| {
                reply.t3_ns = reply.t2_ns - 100_000 - i64::from(reply.reflector_sequence);
            })
        });
        let times = of(&sent);
        let there = WayThere::by_numbers(&sent, &further, Numbered { first: 0, replies: 50 }, times);
        assert!(times.are_of_two_clocks() && there.packets.iter().all(|row| row.flags == 0));
    }

    #[test]
    fn a_coarse_clock_contradicts_nothing_and_one_that_stands_still_stamps_no_receipt() {
        let each = |change: fn(i64) -> (i64, i64)| -> Times {
            let (mut sent, further, _) = session(&[(1, 0, true); 200]);
            for packet in &mut sent {
                let reply = packet.reply.as_mut().unwrap();
                (reply.t2_ns, reply.t3_ns) = change(packet.t1_ns + 30);
            }
            Times::among(sent.iter().chain(&further).filter_map(answered))
        };
        // Packets come each millisecond, and are answered 50 ns later, here behind a tick of 4 ms.
        let coarse =
            each(|at_ns| (at_ns / 4_000_000 * 4_000_000, (at_ns + 1_000_000) / 4_000_000 * 4_000_000));
        assert_eq!((coarse.contradicting, coarse.lack_receipt, coarse.tick_ns), (0, false, 4_000_000));
        let unstamped = each(|at_ns| (0, at_ns));
        assert!(unstamped.lack_receipt && unstamped.changed() == 0 && !unstamped.are_of_two_clocks());
        // A clock that does not tick during the session tells nothing of either.
        assert!(!each(|_| (7, 7)).lack_receipt);
    }

    #[test]
    fn packets_without_a_reply_that_overtook_others_reached_the_reflector() {
        let mut fates: Vec<Fate> = vec![(1, 0, true); 100];
        // 11 is held until after 13, whose reply is lost. 40 is held, and its own reply is lost.
        (fates[11].1, fates[13].2, fates[40]) = (3, false, (1, 6, false));
        fates[70].0 = 0;
        let (up, doubtful) = there(&fates);
        assert_eq!((up.counts.lost, up.unstamped.len(), doubtful), (1, 2, 2));
    }

    proptest! {
        #[test]
        fn losses_there_are_exact_up_to_the_last_reply(
            fates in prop::collection::vec((0u32..=1, prop::bool::weighted(0.8)), 1..80),
        ) {
            let mut fates: Vec<Fate> = fates.into_iter().map(|(copies, back)| (copies, 0, back)).collect();
            fates.push((1, 0, true));
            let lost = fates.iter().filter(|fate| fate.0 == 0).count() as u64;
            prop_assert_eq!(there(&fates).0.counts.lost, lost);
        }
    }
}
