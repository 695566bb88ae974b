use super::*;
use crate::{FlowSchedule, PacketAuthenticator, StampSource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Numbers of a round: all of 32 bits but the sentinel's.
const ROUND: u64 = u32::MAX as u64;

/// A key of tests: every byte counts, and its place.
struct Sum;

impl PacketAuthenticator for Sum {
    fn code(&self, parts: &[&[u8]]) -> [u8; 16] {
        let sum = parts
            .concat()
            .iter()
            .fold(7u128, |sum, octet| (sum ^ u128::from(*octet)).wrapping_mul(0x1_0000_0000_01b3));
        sum.to_be_bytes()
    }
}

fn keyed(packet_bytes: u32, first_sequence: u64) -> FlowSpec {
    FlowSpec {
        session_tag: Some(*b"session1"),
        key: Some(Arc::new(Sum)),
        first_sequence,
        ..FlowSpec::new(packet_bytes, None, FlowSchedule::every(1_000_000))
    }
}

fn packet(spec: &FlowSpec, sequence: Option<u64>) -> Vec<u8> {
    let mut octets = vec![0x5a; spec.packet_bytes as usize];
    PacketForm::of(spec).write(&mut octets, 1_000, sequence);
    octets
}

fn datagram(octets: &[u8]) -> Datagram<'_> {
    let (received_ns, stamped_by) = (2_000, StampSource::Kernel);
    Datagram {
        octets,
        length: octets.len(),
        from: None,
        received_ns,
        stamped_by,
        of_train: false,
        ttl: 0,
        dscp: None,
    }
}

/// Flags of a packet; none if it is not handed on.
fn flags(judge: &mut Judge, octets: &[u8]) -> Option<i32> {
    match judge.judge(&datagram(octets)) {
        Verdict::Keep(received) => Some(received.singleton.flags),
        Verdict::Sentinel | Verdict::Ignore => None,
    }
}

#[test]
fn a_packet_too_old_to_be_told_from_a_copy_is_invalid() {
    let spec = keyed(80, 0);
    let mut judge = Judge::new(&spec);
    let old = packet(&spec, Some(1));
    assert_eq!(flags(&mut judge, &old), Some(0));
    assert_eq!(flags(&mut judge, &old), Some(FLAG_DUPLICATE));
    let ahead = MOST_REMEMBERED;
    assert_eq!(judge.seen.remembered(), ahead);
    assert_eq!(flags(&mut judge, &packet(&spec, Some(ahead))), Some(0));
    assert_eq!(flags(&mut judge, &old), Some(FLAG_DUPLICATE), "still remembered");
    assert_eq!(flags(&mut judge, &packet(&spec, Some(ahead + 1))), Some(0));
    assert_eq!(flags(&mut judge, &old), Some(FLAG_INVALID), "played back when it was forgotten");
    assert_eq!(judge.tally.invalid, 1);
}

#[test]
fn without_a_key_one_wrong_number_does_not_spoil_all_that_follow() {
    let spec = FlowSpec { key: None, session_tag: None, ..keyed(80, 0) };
    let mut judge = Judge::new(&spec);
    let sequences = [0, 1, LARGEST_JUMP, 2, 3, 4];
    for sequence in sequences {
        assert_eq!(flags(&mut judge, &packet(&spec, Some(sequence))), Some(0), "{sequence}");
    }
}

#[test]
fn a_packet_of_an_earlier_round_cannot_be_played_back() {
    let spec = keyed(80, ROUND - 2);
    let mut judge = Judge::new(&spec);
    for sequence in [ROUND - 2, ROUND - 1, ROUND, ROUND + 1] {
        assert_eq!(flags(&mut judge, &packet(&spec, Some(sequence))), Some(0), "{sequence}");
    }
    // The packet with this number, as it was sent a round before.
    assert_eq!(flags(&mut judge, &packet(&spec, Some(2))), Some(FLAG_INVALID));
    assert_eq!(flags(&mut judge, &packet(&spec, Some(ROUND + 2))), Some(0));
    let sentinel = packet(&spec, None);
    let verdict = judge.judge(&datagram(&sentinel));
    assert_eq!(verdict, Verdict::Sentinel);
}

#[test]
fn every_octet_of_a_keyed_packet_is_covered() {
    for bytes in [36, 37, 80, 1_428] {
        let spec = keyed(bytes, 0);
        let octets = packet(&spec, Some(3));
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            let mut judge = Judge::new(&spec);
            let expected = if (12..20).contains(&at) { None } else { Some(FLAG_INVALID) };
            assert_eq!(
                flags(&mut judge, &changed),
                expected,
                "byte {at} of {bytes}; of another tag: foreign"
            );
        }
        assert_eq!(flags(&mut Judge::new(&spec), &octets), Some(0));
        let mut sentinel = packet(&spec, None);
        sentinel[0] ^= 1;
        assert_eq!(flags(&mut Judge::new(&spec), &sentinel), Some(FLAG_INVALID));
    }
}

/// Against a set of all numbers, with jumps that wrap the ring many times.
#[test]
fn the_ring_remembers_what_a_set_does() {
    for first in [0, 63, 1 << 40] {
        let mut random = super::super::random::Random::new(20_260_301);
        let mut seen = RecentPackets::new(first, 1_000);
        let remembered = seen.remembered();
        let (mut all, mut next) = (BTreeSet::new(), first);
        for _ in 0..200_000 {
            let sequence = match random.below(1_000) {
                0 => next + random.below(5 * remembered),
                1..700 => next,
                _ => (seen.highest + 1).saturating_sub(1 + random.below(remembered)).max(first),
            };
            let note = seen.note(sequence);
            let expected = if all.insert(sequence) { Note::New } else { Note::Copy };
            assert_eq!(note, expected, "{sequence} of {first}, highest {}", seen.highest);
            next = next.max(sequence + 1);
        }
    }
}

#[test]
fn a_flow_with_an_end_remembers_all_of_it() {
    for (first, packets) in [(0, 1), (0, 64), (5, 64), (63, 65), (1 << 32, 10_000)] {
        let mut seen = RecentPackets::new(first, packets);
        for sequence in (first..first + packets).rev() {
            assert_eq!(seen.note(sequence), Note::New, "{sequence}: the last comes first");
        }
        for sequence in first..first + packets {
            assert_eq!(seen.note(sequence), Note::Copy);
        }
    }
}

/// A number that jumps makes no work: a word is emptied when its next packet comes.
#[test]
fn a_jump_touches_one_word() {
    let mut seen = RecentPackets::new(0, MOST_REMEMBERED);
    for sequence in 0..MOST_REMEMBERED {
        seen.note(sequence);
    }
    let full = |seen: &RecentPackets| seen.words.iter().filter(|word| word.bits == u64::MAX).count() as u64;
    assert_eq!(full(&seen), MOST_REMEMBERED / 64);
    assert_eq!(seen.note(LARGEST_JUMP), Note::New);
    assert_eq!(full(&seen), MOST_REMEMBERED / 64 - 1);
    assert_eq!(
        seen.note(LARGEST_JUMP - 1),
        Note::New,
        "of this round, though its word is full of an earlier one"
    );
}
