//! Several senders of one source of RTP, from its first packets on.

use super::*;

/// A packet each millisecond of each sender: its first number and timestamp.
fn senders(firsts: &[(u16, u32)], packets: u16) -> CaptureFigures {
    figures((0..packets).flat_map(|n| {
        firsts.iter().map(move |(sequence, timestamp)| {
            let payload = rtp(sequence.wrapping_add(n), timestamp.wrapping_add(8 * u32::from(n)), 7);
            (i64::from(n) * MS, frame(6_000, payload))
        })
    }))
}

fn told(found: &CaptureFigures) -> Vec<(u32, u64, u64)> {
    found.flows.iter().map(|flow| (flow.key.restart, flow.packets, flow.sequence.unwrap().lost)).collect()
}

#[test]
fn senders_that_begin_together_have_numbers_of_their_own() {
    for first in [150, 500, 2_900, 20_000, 40_000] {
        let found = senders(&[(1_000, 0), (1_000 + first, 99_000_000)], 100);
        // The first packet of the second was taken for a stray one.
        assert_eq!(told(&found), [(0, 101, 0), (1, 99, 0)], "{first}");
        let key = FlowKey { restart: 0, ..found.flows[0].key };
        assert_eq!(found.used_at_once().into_iter().collect::<Vec<_>>(), [key]);
    }
    let three = senders(&[(0, 0), (20_000, 99_000_000), (40_000, 2_500_000_000)], 100);
    assert_eq!(told(&three), [(0, 102, 0), (1, 99, 0), (2, 99, 0)]);
}

#[test]
fn a_sender_that_ends_before_the_next_begins_is_no_second_one() {
    let found = figures(run(0, 20_000, 0, 500).chain(run(500, 3_500, 777, 300)));
    assert_eq!((found.flows.len(), found.used_at_once().len()), (2, 0));
    // A packet of the old one is late.
    let late = [(505 * MS, frame(6_000, rtp(20_500, 4_000, 7)))];
    let found = figures(
        run(0, 20_000, 0, 500).chain(run(500, 3_500, 777, 6)).chain(late).chain(run(506, 3_506, 825, 294)),
    );
    assert_eq!(told(&found), [(0, 501, 0), (1, 300, 0)]);
    assert_eq!(found.used_at_once().len(), 0);
}

#[test]
fn a_stray_number_among_the_first_packets_or_near_is_no_loss() {
    for place in [1, 3, 7, 100] {
        for number in [21_000, 1_600] {
            let stray = [(i64::from(place) * MS, frame(6_000, rtp(number, 3_000_000_000, 7)))];
            let rest = run(place.into(), 1_000 + place, 8 * u32::from(place), 200 - place);
            let found = figures(run(0, 1_000, 0, place).chain(stray).chain(rest));
            assert_eq!(told(&found), [(0, 201, 0)], "{number} at {place}");
        }
    }
}

#[test]
fn a_loss_of_hundreds_stays_one_whatever_the_timestamps() {
    // Frames of unlike lengths share timestamps, so these do not tell how many are missing.
    let video = |n: u16| rtp(n, 3_600 * u32::from(n / 7 + n / 50 * 3), 7);
    let found = figures(
        (0..1_000u16)
            .filter(|n| !(400..700).contains(n))
            .map(|n| (i64::from(n) * MS, frame(6_000, video(n)))),
    );
    assert_eq!(told(&found), [(0, 700, 300)]);
    let last = [(900 * MS, frame(6_000, rtp(1_500, 5, 7)))];
    assert_eq!(told(&figures(run(0, 1_000, 0, 100).chain(last))), [(0, 101, 400)]);
}
