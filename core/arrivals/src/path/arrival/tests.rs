use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn row(sequence: u32, flags: i32) -> Singleton {
    Singleton { tx_real_time_ns: 5, tx_seq: sequence as i32, rx_real_time_ns: 12, flags }
}

fn rows(sequences: &[u32]) -> Vec<Singleton> {
    sequences.iter().map(|&s| row(s, 0)).collect()
}

fn sequences(classified: &Classified) -> Vec<u64> {
    classified.arrivals.iter().map(|a| a.sequence).collect()
}

/// The number on the wire of packet `sequence`.
fn on_the_wire(numbering: Numbering, sequence: u64) -> u32 {
    (sequence % numbering.modulus()) as u32
}

#[test]
fn jitlats_sample_rows() {
    // Jitlat, figure 6.
    let rows = [
        Singleton {
            tx_real_time_ns: 1_246_650_331_413_984_400,
            tx_seq: 0,
            rx_real_time_ns: 1_246_650_331_414_098_200,
            flags: 0,
        },
        Singleton {
            tx_real_time_ns: 1_246_650_331_443_879_400,
            tx_seq: 1,
            rx_real_time_ns: 1_246_650_331_443_978_400,
            flags: 0,
        },
        Singleton {
            tx_real_time_ns: 1_246_650_331_463_856_200,
            tx_seq: 2,
            rx_real_time_ns: 1_246_650_331_464_150_000,
            flags: 0,
        },
    ];
    let classified = classify(&rows, Numbering::Jitlat, Some(3));
    assert_eq!(delays_ns(&classified.arrivals), [113_800, 99_000, 293_800]);
    assert_eq!(sequences(&classified), [0, 1, 2]);
    assert_eq!(classified.counts, Counts { sent: 3, received: 3, unique: 3, ..Counts::default() });
}

/// A packet of a flow with one each microsecond, which arrives 7 ns later.
fn timed(number: u32, sent: u32) -> Singleton {
    let tx_real_time_ns = i64::from(sent) * 1_000;
    Singleton { tx_real_time_ns, tx_seq: number as i32, rx_real_time_ns: tx_real_time_ns + 7, flags: 0 }
}

#[test]
fn a_packet_that_was_changed_on_its_way_spoils_no_figure() {
    let sent = 300;
    for at in [0_u32, 5, 100, 290, 295] {
        for (bit, of_number) in (13..62).map(|bit| (bit, false)).chain((4..9).map(|bit| (bit, true))) {
            let mut list: Vec<Singleton> = (0..sent).map(|number| timed(number, number)).collect();
            let row = &mut list[at as usize];
            match of_number {
                true => row.tx_seq ^= 1 << bit,
                false => row.tx_real_time_ns ^= 1 << bit,
            }
            if row.tx_seq >= 300 {
                continue;
            }
            let (wrong, claimed) = (*row, row.tx_seq);
            // As the receiver marks what it has had.
            if of_number && (claimed as u32) < at {
                list[at as usize].flags = FLAG_DUPLICATE;
            } else if of_number {
                list[claimed as usize].flags = FLAG_DUPLICATE;
            }
            let Classified { arrivals, counts, unstamped, .. } =
                classify(&list, Numbering::Jitlat, Some(u64::from(sent)));
            let whole = Counts { sent: 300, received: 300, unique: 300, ..Counts::default() };
            let (expected, without_time) = match of_number {
                // Nobody knows which one it was.
                true => (Counts { unique: 299, invalid: 1, lost: 1, ..whole }, Vec::new()),
                false => (whole, vec![u64::from(at)]),
            };
            assert_eq!((counts, unstamped), (expected, without_time), "packet {at}, bit {bit}: {wrong:?}");
            assert!(delays_ns(&arrivals).iter().all(|delay_ns| *delay_ns == 7));
        }
    }
}

#[test]
fn a_copy_whose_time_was_changed_is_a_copy() {
    let mut list: Vec<Singleton> = (0..100).map(|number| timed(number, number)).collect();
    let copy = timed(40, 40);
    list.insert(
        41,
        Singleton { flags: FLAG_DUPLICATE, tx_real_time_ns: copy.tx_real_time_ns ^ (1 << 45), ..copy },
    );
    let counts = classify(&list, Numbering::Jitlat, Some(100)).counts;
    assert_eq!((counts.duplicate, counts.invalid, counts.lost), (1, 0, 0));
}

#[test]
fn a_step_of_the_senders_clock_changes_no_packet() {
    for back_ns in (0..12_000).step_by(250).chain([50_000, 99_000, 5_000_000]) {
        let mut list: Vec<Singleton> = (0..200).map(|number| timed(number, number)).collect();
        list[100..].iter_mut().for_each(|row| row.tx_real_time_ns -= back_ns);
        assert_eq!(classify(&list, Numbering::Jitlat, Some(200)).arrivals.len(), 200, "{back_ns} ns back");
        list[100..].iter_mut().for_each(|row| row.tx_real_time_ns += 2 * back_ns);
        assert_eq!(classify(&list, Numbering::Jitlat, Some(200)).arrivals.len(), 200, "{back_ns} ns on");
    }
}

#[test]
fn a_wrong_number_makes_no_later_packet_reordered() {
    let (sent, numbering) = (4_000, Numbering::Jitlat);
    for bit in 8..12 {
        for at in [0, 1, 255, 1_000, 2_047] {
            let mut list: Vec<Singleton> = (0..sent).map(|number| timed(number, number)).collect();
            let wrong = at | 1 << bit;
            if wrong == at || wrong >= sent {
                continue;
            }
            list[at as usize] = timed(wrong, at);
            // The receiver takes the packet whose number it has for a copy.
            list[wrong as usize].flags = FLAG_DUPLICATE;
            let classified = classify(&list, numbering, Some(sent.into()));
            let whole = u64::from(sent);
            let wanted = Counts {
                sent: whole,
                received: whole,
                invalid: 1,
                unique: whole - 1,
                lost: 1,
                ..Counts::default()
            };
            assert_eq!(classified.counts, wanted, "bit {bit} of packet {at}");
        }
    }
}

#[test]
fn a_leap_that_others_follow_is_right() {
    // 300 packets were lost in a row.
    let list: Vec<Singleton> = (0..100).chain(400..900).map(|number| timed(number, number)).collect();
    let counts = classify(&list, Numbering::Jitlat, Some(900)).counts;
    assert_eq!((counts.unique, counts.lost, counts.invalid, counts.out_of_sequence), (600, 300, 0, 0));
    // One packet overtook 500 that were sent before it.
    let order = (0..100).chain([600]).chain(100..600).chain(601..900);
    let list: Vec<Singleton> = order.map(|number| timed(number, number)).collect();
    let counts = classify(&list, Numbering::Jitlat, Some(900)).counts;
    assert_eq!((counts.unique, counts.invalid, counts.out_of_sequence), (900, 0, 500));
    // The clock of the sender was set back in the middle of a loss.
    let list: Vec<Singleton> = (0..100)
        .chain(400..900)
        .map(|number| timed(number, if number < 450 { number } else { 10 }))
        .collect();
    assert_eq!(classify(&list, Numbering::Jitlat, Some(900)).counts.invalid, 0);
}

#[test]
fn each_kind_is_counted_once() {
    let mut list = rows(&[0, 2, 1, 1, 5]);
    list.push(row(9, FLAG_INVALID));
    list.push(row(2, FLAG_DUPLICATE));
    list.push(row(3, 1 << 7));
    list.push(row(100, 0)); // never sent
    list.push(row(u32::MAX, 0)); // the sentinel
    let classified = classify(&list, Numbering::Jitlat, Some(10));
    assert_eq!(sequences(&classified), [0, 2, 1, 5]);
    assert_eq!(classified.copies, [0, 2, 1, 1, 5, 2]);
    assert_eq!(
        classified.counts,
        Counts { sent: 10, received: 10, duplicate: 2, invalid: 4, unique: 4, lost: 6, out_of_sequence: 1 }
    );
}

#[test]
fn without_the_senders_count_the_highest_number_is_the_end() {
    let classified = classify(&rows(&[0, 3]), Numbering::Jitlat, None);
    assert_eq!(classified.counts, Counts { sent: 4, received: 2, unique: 2, lost: 2, ..Counts::default() });
    let nothing = classify(&[], Numbering::Jitlat, None);
    assert_eq!(nothing.counts, Counts::default());
    assert_eq!(classify(&[], Numbering::Jitlat, Some(7)).counts.lost, 7);
}

#[test]
fn the_sign_change_is_no_boundary() {
    let near = 0x7FFF_FFFF;
    assert_eq!(Numbering::Jitlat.unwrap(0x8000_0000, near), Some(0x8000_0000));
    assert_eq!(Numbering::Jitlat.unwrap(0x7FFF_FFFE, near), Some(0x7FFF_FFFE));
    assert_eq!(Numbering::Full.unwrap(i32::MIN as u32, near), Some(0x8000_0000));
}

#[test]
fn the_wrap_with_and_without_a_sentinel() {
    let last = u64::from(u32::MAX) - 1; // 0xFFFF_FFFE
    assert_eq!(Numbering::Jitlat.unwrap(0, last), Some(0xFFFF_FFFF));
    assert_eq!(Numbering::Jitlat.unwrap(u32::MAX, last), None);
    assert_eq!(Numbering::Jitlat.unwrap(0xFFFF_FFFE, 0xFFFF_FFFF), Some(last));
    assert_eq!(Numbering::Full.unwrap(0xFFFF_FFFF, last), Some(0xFFFF_FFFF));
    assert_eq!(Numbering::Full.unwrap(0, last), Some(0x1_0000_0000));
    // Below zero there is nothing.
    assert_eq!(Numbering::Full.unwrap(0xFFFF_FFFF, 0), None);
    assert_eq!(Numbering::Jitlat.unwrap(0xFFFF_FFFE, 3), None);
    assert_eq!(Numbering::Full.unwrap(1, u64::MAX), None);
}

#[test]
fn reordering_and_duplicates_around_the_wrap() {
    // Brings the classifier to the wrap in steps of less than half the numbers.
    for numbering in [Numbering::Full, Numbering::Jitlat] {
        let start = numbering.modulus() - 3;
        let order = [
            0x4000_0000,
            0x8000_0000,
            0xC000_0000,
            start,
            start + 2,
            start + 4,
            start + 1,
            start + 4,
            start + 2,
        ];
        let list: Vec<_> = order.iter().map(|&s| row(on_the_wire(numbering, s), 0)).collect();
        let classified = classify(&list, numbering, Some(start + 5));
        assert_eq!(sequences(&classified), &order[..7]);
        let counts = classified.counts;
        assert_eq!((counts.unique, counts.duplicate, counts.invalid, counts.out_of_sequence), (7, 2, 0, 1));
        assert_eq!(counts.lost, start + 5 - 7);
    }
}

#[test]
fn an_impossible_number_moves_nothing() {
    let mut classifier = Classifier::new(Numbering::Full, Some(4));
    assert_eq!(classifier.add(&row(0x7000_0000, 0)), Verdict::Invalid);
    assert!(matches!(classifier.add(&row(0, 0)), Verdict::Unique(_)));
    assert_eq!(classifier.counts().out_of_sequence, 0);
}

#[test]
fn stamps_at_the_ends_of_64_bits_do_not_overflow() {
    let arrival = Arrival { sequence: 0, sent_ns: i64::MIN, received_ns: i64::MAX };
    assert_eq!(arrival.delay_ns(), i64::MAX);
}

/// The definitions, counted slowly on the true packet numbers.
fn twin(truth: &[(u64, bool)], sent: u64) -> Counts {
    let valid: Vec<u64> = truth.iter().filter(|p| !p.1).map(|p| p.0).collect();
    let first = |i: usize| !valid[..i].contains(&valid[i]);
    let unique: BTreeSet<u64> = valid.iter().copied().collect();
    Counts {
        sent,
        received: truth.len() as u64,
        duplicate: (0..valid.len()).filter(|&i| !first(i)).count() as u64,
        invalid: truth.iter().filter(|p| p.1).count() as u64,
        unique: unique.len() as u64,
        lost: (0..sent).filter(|s| !unique.contains(s)).count() as u64,
        out_of_sequence: (0..valid.len())
            .filter(|&i| first(i) && valid[..i].iter().any(|&earlier| earlier > valid[i]))
            .count() as u64,
    }
}

proptest! {
    #[test]
    fn what_is_late_lost_or_doubled_is_not_changed(
        fates in prop::collection::vec((0u32..40, prop::bool::weighted(0.1), prop::bool::weighted(0.1)), 1..200),
    ) {
        // Each packet is lost, doubled, or arrives after up to 40 later ones.
        let mut list: Vec<(u32, Singleton)> = Vec::new();
        for (number, (held, lost, doubled)) in (0u32..).zip(fates) {
            if !lost {
                list.push((number + held, timed(number, number)));
            }
            if doubled {
                list.push((number + held + 3, Singleton { flags: if lost { 0 } else { FLAG_DUPLICATE }, ..timed(number, number) }));
            }
        }
        list.sort_by_key(|(place, _)| *place);
        let list: Vec<Singleton> = list.into_iter().map(|(_, row)| row).collect();
        let classified = classify(&list, Numbering::Jitlat, None);
        prop_assert_eq!((classified.counts.invalid, classified.unstamped.len()), (0, 0));
    }

    #[test]
    fn counts_agree_with_the_slow_twin(
        truth in prop::collection::vec((0u64..40, prop::bool::weighted(0.1)), 0..80),
    ) {
        let list: Vec<_> = truth.iter().map(|&(s, bad)| row(s as u32, if bad { FLAG_INVALID } else { 0 })).collect();
        let counts = classify(&list, Numbering::Jitlat, Some(40)).counts;
        prop_assert_eq!(counts, twin(&truth, 40));
        prop_assert_eq!(counts.received, counts.unique + counts.duplicate + counts.invalid);
        prop_assert_eq!(counts.sent, counts.unique + counts.lost);
    }

    #[test]
    fn unwrapping_gives_back_the_true_number(
        near in 0u64..20_000_000_000,
        away in -2_147_483_000i64..2_147_483_000,
        jitlat in any::<bool>(),
    ) {
        let numbering = if jitlat { Numbering::Jitlat } else { Numbering::Full };
        if let Some(truth) = near.checked_add_signed(away) {
            prop_assert_eq!(numbering.unwrap(on_the_wire(numbering, truth), near), Some(truth));
        }
    }

    #[test]
    fn a_stream_that_wraps_several_times_keeps_its_numbers(
        steps in prop::collection::vec(-5_000i64..2_000_000_000, 1..40),
        jitlat in any::<bool>(),
    ) {
        let numbering = if jitlat { Numbering::Jitlat } else { Numbering::Full };
        let mut truth = vec![0u64];
        for step in steps {
            let highest = *truth.iter().max().expect("starts with one");
            truth.push(highest.saturating_add_signed(step));
        }
        let list: Vec<_> = truth.iter().map(|&s| row(on_the_wire(numbering, s), 0)).collect();
        prop_assert_eq!(classify(&list, numbering, None).copies, truth);
    }
}
