//! The newest packets of a session that keeps none, for a stretch of it as an outcome of its own.

use super::directions::DirectionCounter;
use super::numbers::Pair;
use super::outcome::{StampOutcome, StampPacket, StampProgress};
use super::sender::blank;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Packets whose fate is known, by number. It holds what it heard since the latest [`StampMemory::forget_before`].
#[derive(Debug, Default)]
pub struct StampMemory {
    /// This end, the reflector, and the bytes of a packet's payload.
    session: Option<(SocketAddr, SocketAddr, usize)>,
    packets: BTreeMap<u64, StampPacket>,
    /// Replies beyond the first, in order of arrival.
    further: Vec<StampPacket>,
}

impl StampMemory {
    /// Takes an event of the session. A new session clears the memory.
    pub fn hear(&mut self, progress: &StampProgress<'_>) {
        match *progress {
            StampProgress::Started { local, target, packet_bytes } => {
                *self = Self { session: Some((local, target, packet_bytes)), ..Self::default() };
            }
            StampProgress::Answered { packet, first: false, .. } => self.further.push(*packet),
            StampProgress::Answered { packet, .. } | StampProgress::Lost { packet } => {
                self.packets.insert(packet.sequence, *packet);
            }
            StampProgress::Tick { .. } => {}
        }
    }

    /// Lets packets go that were sent before an instant, UTC nanoseconds.
    pub fn forget_before(&mut self, t1_ns: i64) {
        while self.packets.first_key_value().is_some_and(|(_, packet)| packet.t1_ns < t1_ns) {
            self.packets.pop_first();
        }
        self.further.retain(|packet| packet.t1_ns >= t1_ns);
    }

    /// The packets sent between two instants, both included, as a session that was `complete`; its numbers begin with 0. None
    /// where nothing is held of that time.
    ///
    /// It begins with the latest answered packet before where the first one was lost, since the reflector's number of that
    /// tells the way. What is known of a whole session only (how the sender kept its times, drops, clocks) is left blank.
    pub fn stretch(&self, from_ns: i64, to_ns: i64) -> Option<StampOutcome> {
        let (local, target, packet_bytes) = self.session?;
        let begin = self.packets.values().find(|packet| packet.t1_ns >= from_ns)?.sequence;
        let is_answered = |packet: &&StampPacket| packet.reply.is_some();
        let before = self.packets.range(..=begin).rev().map(|(_, packet)| packet).find(is_answered);
        let first = before.map_or(begin, |packet| packet.sequence);
        // It ends before a packet whose fate is not known yet.
        let known =
            (first..).zip(self.packets.range(first..)).take_while(|(next, (number, _))| next == *number);
        let held = known.map(|(_, (_, packet))| *packet).take_while(|packet| packet.t1_ns <= to_ns);
        let mut packets: Vec<StampPacket> = held.collect();
        let last = packets.last()?.sequence;
        let further = self.further.iter().filter(|packet| (first..=last).contains(&packet.sequence));
        let mut further: Vec<StampPacket> = further.copied().collect();
        // Of losses before the first reply nobody can tell the way.
        let unknown = packets.iter().position(|packet| packet.reply.is_some()).unwrap_or(0) as u64;
        renumber(packets.iter_mut().chain(&mut further), first);
        let mut arrived: Vec<(i64, Pair)> = packets
            .iter()
            .chain(&further)
            .filter_map(|packet| {
                let reply = packet.reply?;
                let sent = packet.sequence.checked_sub(unknown)?;
                Some((reply.t4_ns, Pair { sent, reflected: reply.reflector_sequence }))
            })
            .collect();
        arrived.sort_by_key(|(t4_ns, _)| *t4_ns);
        let mut counter = DirectionCounter::new();
        for (_, pair) in &arrived {
            counter.take(*pair);
        }
        let sent = packets.len() as u64;
        let mut directions = counter.counts(sent - unknown, None);
        directions.undecided += unknown;
        Some(StampOutcome {
            packet_bytes,
            sent,
            answered: packets.iter().filter(is_answered).count() as u64,
            directions,
            packets,
            further,
            complete: true,
            ..blank(target, local)
        })
    }
}

/// Where the numbers of a reflector that counts begin: so far from ours that its numbers never look like ours repeated.
const APART: u32 = 1 << 20;

/// Has our numbers begin with 0, and those of a reflector that repeats ours too. One that counts differs from ours as soon as
/// a packet did not reach it.
fn renumber<'a>(packets: impl Iterator<Item = &'a mut StampPacket>, first: u64) {
    let mut packets: Vec<&mut StampPacket> = packets.collect();
    let numbers =
        |packet: &&mut StampPacket| Some((packet.sequence as u32, packet.reply?.reflector_sequence));
    let counts = packets.iter().filter_map(numbers).any(|(ours, theirs)| ours != theirs);
    let reference = packets.iter().find_map(numbers).map_or(0, |(_, theirs)| theirs);
    // A packet that overtook the first one has a lower number.
    let ahead = |packet| numbers(packet).map(|(_, theirs)| theirs.wrapping_sub(reference).cast_signed());
    let least = packets.iter().filter_map(ahead).min().unwrap_or(0);
    let base = if counts { reference.wrapping_add_signed(least).wrapping_sub(APART) } else { first as u32 };
    for packet in &mut packets {
        packet.sequence -= first;
        if let Some(reply) = &mut packet.reply {
            reply.reflector_sequence = reply.reflector_sequence.wrapping_sub(base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::directions::Evidence;
    use super::super::outcome::StampReply;
    use super::*;
    use quaver_path_flow::StampSource;

    fn packet(sequence: u64, reflected: Option<u32>) -> StampPacket {
        let t1_ns = sequence as i64 * 100;
        let reply = reflected.map(|reflector_sequence| StampReply {
            t2_ns: t1_ns + 10,
            t3_ns: t1_ns + 11,
            t4_ns: t1_ns + 20,
            t4_by: StampSource::Kernel,
            reflector_sequence,
            forward_ttl: 64,
            backward_ttl: None,
            backward_dscp: 0,
            backward_ecn: 0,
            class_of_service: None,
            direct_measurement: None,
            follow_up: None,
        });
        StampPacket { sequence, t1_ns, reply }
    }

    /// A memory of packets with these numbers of the reflector; `None` is a lost packet.
    fn memory(first: u64, reflected: &[Option<u32>]) -> StampMemory {
        let mut memory = StampMemory::default();
        let end = SocketAddr::from(([192, 0, 2, 1], 862));
        memory.hear(&StampProgress::Started { local: end, target: end, packet_bytes: 44 });
        for (sequence, reflected) in (first..).zip(reflected) {
            let packet = packet(sequence, *reflected);
            memory.hear(&match reflected {
                None => StampProgress::Lost { packet: &packet },
                Some(reflected) => {
                    StampProgress::Answered { packet: &packet, reflected: u64::from(*reflected), first: true }
                }
            });
        }
        memory
    }

    #[test]
    fn a_stretch_tells_the_way_of_its_losses_whatever_was_lost_before() {
        // Seven packets had been lost on the way there before; then one there, and two on the way back.
        let numbers = [93, 94, 95].map(Some).into_iter().chain([None, Some(96), None, None, Some(99)]);
        let held = memory(100, &numbers.collect::<Vec<_>>());
        let outcome = held.stretch(10_100, 10_700).unwrap();
        assert_eq!((outcome.sent, outcome.answered, outcome.lost()), (7, 4, 3));
        let places = outcome.packets.iter().map(|packet| packet.sequence);
        assert_eq!(places.collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
        let directions = outcome.directions;
        assert_eq!(directions.evidence, Evidence::ReflectorSequence);
        let ways = |outcome: StampOutcome| {
            let directions = outcome.directions;
            (directions.forward_lost, directions.backward_lost, directions.undecided)
        };
        assert_eq!(ways(outcome), (Some(1), Some(2), 0));
        assert_eq!(
            ways(held.stretch(10_300, 10_700).unwrap()),
            (Some(1), Some(2), 0),
            "it begins before its first loss"
        );
        // Losses on the way back alone leave the numbers as far apart as they were.
        let held = memory(100, &[Some(93), None, None, Some(96), Some(97)]);
        assert_eq!(ways(held.stretch(0, i64::MAX).unwrap()), (Some(0), Some(2), 0));
        let held = memory(0, &[None, None, Some(0), None, Some(2), Some(3)]);
        assert_eq!(
            ways(held.stretch(0, i64::MAX).unwrap()),
            (Some(0), Some(1), 2),
            "nothing is known before the first"
        );
    }

    #[test]
    fn a_reflector_that_repeats_our_numbers_tells_no_way() {
        let memory = memory(100, &[Some(100), None, Some(102), Some(103)]);
        let outcome = memory.stretch(0, i64::MAX).unwrap();
        assert_eq!((outcome.sent, outcome.lost()), (4, 1));
        assert_eq!((outcome.directions.evidence, outcome.directions.forward_lost), (Evidence::None, None));
    }

    #[test]
    fn a_stretch_ends_as_asked_and_holds_no_more_than_is_remembered() {
        let mut held = memory(5, &[None, None, Some(3), Some(4), None]);
        let outcome = held.stretch(0, 900).unwrap();
        assert_eq!((outcome.packets[0].t1_ns, outcome.sent, outcome.lost()), (500, 5, 3));
        assert_eq!(held.stretch(0, 600).unwrap().directions.forward_lost, None, "nothing was answered");
        held.forget_before(800);
        assert_eq!(held.stretch(0, 900).unwrap().sent, 2);
        assert!(held.stretch(0, 700).is_none());
    }

    #[test]
    fn numbers_that_pass_their_greatest_value_go_on() {
        let memory = memory(7, &[Some(u32::MAX - 1), Some(u32::MAX), None, Some(0), Some(1)]);
        let directions = memory.stretch(0, i64::MAX).unwrap().directions;
        assert_eq!((directions.forward_lost, directions.backward_lost), (Some(1), Some(0)));
    }
}
