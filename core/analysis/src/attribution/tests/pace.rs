//! Streams whose schedule nobody told: what is due when is learned, and its error is nobody's lateness.

use super::scene::check;
use crate::attribution::{AttributionOptions, PacketAnalysis, analyze_packets};
use crate::model::{Layer, LayerColumn, MISSING, PacketRun, PacketTable};
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const PERIOD_NS: f64 = 200_000.0;
const PACKETS: usize = 20_000;
const START_NS: f64 = 7e12;
/// From arrival to application, where nothing holds a packet up.
const WAY_NS: i64 = 9_000;
/// Half of a period, but no more than 100 us.
const THRESHOLD_NS: i64 = 100_000;

/// Packets as they were sent: number and instant.
type Sent = Vec<(u64, f64)>;

struct Random(Pcg64Mcg);

fn random(seed: u64) -> Random {
    Random(Pcg64Mcg::seed_from_u64(seed))
}

impl Random {
    /// Below `limit`.
    fn real(&mut self, limit: f64) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * limit
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.real(1.0) < probability
    }

    fn number(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    /// Slots that a sender skips, which skips some now and then.
    fn skips(&mut self, probability: f64) -> u64 {
        if self.happens(probability) { self.number(1, 50) } else { 0 }
    }
}

/// One packet a slot, in each slot that `used` keeps, by a clock that is `ppm` too slow.
fn constant(seed: u64, ppm: f64, mut skip: impl FnMut(&mut Random) -> u64) -> (Sent, u64) {
    let (mut random, mut slot, mut skipped) = (random(seed), 0u64, 0);
    let mut sent = Vec::new();
    for number in 0..PACKETS as u64 {
        let noise = random.real(5_000.0);
        sent.push((number, START_NS + slot as f64 * PERIOD_NS * (1.0 + ppm / 1e6) + noise));
        let skips = skip(&mut random);
        skipped += skips;
        slot += 1 + skips;
    }
    (sent, skipped)
}

/// What this host received of it, with a way of its own to the application.
fn received(sent: &Sent) -> PacketRun {
    let seq: Vec<u64> = sent.iter().map(|(number, _)| *number).collect();
    let app_ns: Vec<i64> = sent.iter().map(|(_, at)| *at as i64 + WAY_NS).collect();
    let before_app_ns = vec![WAY_NS; seq.len()];
    PacketRun {
        packets: PacketTable {
            app_cpu: vec![1; seq.len()],
            stack_cpu: vec![0; seq.len()],
            seq,
            app_ns,
            layers: vec![LayerColumn { layer: Layer::Receive, before_app_ns }],
        },
        ..PacketRun::default()
    }
}

fn analyze(run: &PacketRun) -> PacketAnalysis {
    let analysis = analyze_packets(run, &AttributionOptions::default());
    check(&analysis);
    analysis
}

/// The rows that are late.
fn late_rows(analysis: &PacketAnalysis) -> Vec<u32> {
    analysis.late.iter().filter_map(|late| late.row).collect()
}

#[track_caller]
fn assert_period(analysis: &PacketAnalysis, period_ns: f64) {
    let pace = analysis.summary.pace.as_ref().unwrap();
    let found = analysis.summary.period_ns;
    assert!(pace.steady && pace.usual_delta_ns.is_none(), "{pace:?}");
    assert!((found / period_ns - 1.0).abs() < 1e-5, "{found}: {pace:?}");
    // Half a step of the stamps each way, where nothing scatters.
    assert!((found - period_ns).abs() <= 3.0 * pace.uncertainty_ns, "{found}: {pace:?}");
}

#[test]
fn a_period_that_is_exactly_constant() {
    let sent = (0..PACKETS).map(|n| (n as u64, START_NS + n as f64 * PERIOD_NS)).collect();
    let analysis = analyze(&received(&sent));
    assert_period(&analysis, PERIOD_NS);
    assert_eq!(analysis.summary.lateness.distribution.max_ns, 0);
    let pace = analysis.summary.pace.unwrap();
    assert_eq!((pace.skipped_slots, pace.on_schedule_share), (0, 1.0));
}

#[test]
fn a_sender_that_skips_slots_makes_no_packet_late() {
    for seed in 0..5 {
        let (sent, skipped) = constant(seed, 0.0, |random| random.skips(0.01));
        let analysis = analyze(&received(&sent));
        assert_period(&analysis, PERIOD_NS);
        assert_eq!(late_rows(&analysis), [0; 0], "seed {seed}: {:?}", analysis.summary.lateness);
        assert_eq!(analysis.summary.pace.unwrap().skipped_slots, skipped, "seed {seed}");
    }
}

#[test]
fn a_sender_on_a_busy_host_tells_its_period_although_it_misses_a_third_of_its_slots() {
    for seed in 30..33 {
        let (mut sent, skipped) =
            constant(seed, 0.0, |random| if random.happens(0.3) { random.number(1, 2) } else { 0 });
        let mut random = random(seed + 100);
        // Woken late, mostly a little and now and then by much of the period.
        for (_, at) in &mut sent {
            *at += 20_000.0 * -random.real(1.0).max(1e-4).ln();
        }
        let analysis = analyze(&received(&sent));
        let pace = analysis.summary.pace.unwrap();
        let found = analysis.summary.period_ns;
        assert!(pace.steady && (found / PERIOD_NS - 1.0).abs() < 2e-5, "seed {seed}: {found}, {pace:?}");
        assert!(pace.skipped_slots.abs_diff(skipped) * 100 <= skipped, "seed {seed}: {skipped}, {pace:?}");
    }
}

#[test]
fn a_sender_that_uses_two_fifths_of_its_slots_tells_its_period_if_it_keeps_to_them() {
    for seed in 70..73 {
        let unused = |random: &mut Random| (0..).take_while(|_| random.happens(0.6)).count() as u64;
        let (sent, skipped) = constant(seed, 0.0, unused);
        let analysis = analyze(&received(&sent));
        assert_period(&analysis, PERIOD_NS);
        let pace = analysis.summary.pace.as_ref().unwrap();
        assert!(pace.skipped_slots.abs_diff(skipped) * 100 <= skipped, "{pace:?}, {skipped} were skipped");
        assert_eq!(late_rows(&analysis), [0u32; 0]);
    }
}

#[test]
fn a_starved_sender_that_sends_each_slot_tells_its_period_by_half_of_them() {
    for seed in 60..63 {
        let (mut sent, _) = constant(seed, 0.0, |_| 0);
        let (mut random, mut free) = (random(seed + 100), 0.0);
        for (_, at) in &mut sent {
            *at -= random.real(4_000.0);
            // Others have its CPU for up to 20 ms now and then, and it catches up at 10 us a packet.
            if random.happens(0.0125) {
                free = *at + random.real(20e6);
            }
            *at = at.max(free);
            free = *at + 10_000.0;
        }
        let analysis = analyze(&received(&sent));
        let pace = analysis.summary.pace.as_ref().unwrap();
        assert!((0.5..0.6).contains(&pace.on_schedule_share), "seed {seed}: {pace:?}");
        let period = analysis.summary.period_ns / PERIOD_NS;
        assert!(pace.steady && (period - 1.0).abs() < 1e-5, "seed {seed}: {period} {pace:?}");
    }
}

#[test]
fn no_period_is_learned_that_fits_only_because_much_lateness_is_allowed() {
    for seed in 40..46 {
        // More than half of the slots are skipped, which no period tells from another sender; packets are late beyond 100 periods.
        let (sent, _) =
            constant(seed, 0.0, |random| if random.happens(0.15) { random.number(1, 15) } else { 0 });
        let options = AttributionOptions { threshold_ns: Some(20_000_000), ..AttributionOptions::default() };
        let mut run = received(&sent);
        run.packets.app_ns.truncate(1_100);
        run.packets.seq.truncate(1_100);
        run.packets.app_cpu.truncate(1_100);
        run.packets.stack_cpu.truncate(1_100);
        run.packets.layers[0].before_app_ns.truncate(1_100);
        let analysis = analyze_packets(&run, &options);
        check(&analysis);
        let pace = analysis.summary.pace.as_ref().unwrap();
        let found = analysis.summary.period_ns;
        assert!(!pace.steady || (found / PERIOD_NS - 1.0).abs() < 1e-4, "seed {seed}: {found}, {pace:?}");
        assert_eq!(late_rows(&analysis), [0; 0], "seed {seed}: {found}, {pace:?}");
    }
}

#[test]
fn a_drifting_sender_makes_no_packet_late() {
    for ppm in [-100.0, 100.0] {
        let (sent, _) = constant(11, ppm, |_| 0);
        let analysis = analyze(&received(&sent));
        assert_period(&analysis, PERIOD_NS * (1.0 + ppm / 1e6));
        assert_eq!(late_rows(&analysis), [0; 0]);
        assert_eq!(analysis.summary.pace.unwrap().skipped_slots, 0);
    }
}

#[test]
fn losses_without_numbers_make_no_packet_late() {
    let (mut sent, _) = constant(12, 0.0, |_| 0);
    let mut random = random(13);
    sent.retain(|_| !random.happens(0.02));
    let lost = PACKETS as u64 - sent.len() as u64;
    // The order of arrival is all that there is.
    sent.iter_mut().zip(0..).for_each(|(packet, number)| packet.0 = number);
    let analysis = analyze(&received(&sent));
    assert_period(&analysis, PERIOD_NS);
    assert_eq!(late_rows(&analysis), [0; 0]);
    let found = analysis.summary.pace.unwrap().skipped_slots;
    assert!(found.abs_diff(lost) <= 2, "{found} of {lost}: those at the ends are not seen");
}

#[test]
fn a_sender_that_begins_anew_at_any_instant_makes_no_packet_late() {
    let (mut sent, mut random, mut behind) = (constant(14, 0.0, |_| 0).0, random(15), 0.0);
    for (number, at) in &mut sent {
        if *number % 250 == 0 {
            behind += random.real(5e6);
        }
        *at += behind;
    }
    let analysis = analyze(&received(&sent));
    assert_eq!(late_rows(&analysis), [0; 0], "{:?}", analysis.summary.pace);
    let found = analysis.summary.period_ns;
    assert!((found / PERIOD_NS - 1.0).abs() < 1e-3, "{found}: {:?}", analysis.summary.pace);
}

#[test]
fn packets_that_arrive_late_are_found_and_no_others() {
    let (mut sent, _) = constant(16, 100.0, |random| random.skips(0.002));
    let mut random = random(17);
    let mut held_up = Vec::new();
    for (row, (_, at)) in sent.iter_mut().enumerate() {
        // None at the end: nothing that follows would tell.
        if random.happens(0.01) && row + 100 < PACKETS {
            *at += 3e6;
            held_up.push(row as u64);
        }
    }
    let mut run = received(&sent);
    in_order_of_arrival(&mut run);
    let analysis = analyze(&run);
    assert_period(&analysis, PERIOD_NS * (1.0 + 1e-4));
    let mut found: Vec<u64> = analysis.late.iter().map(|late| late.seq).collect();
    found.sort_unstable();
    // A packet held up by the network right before a pause of the sender may have been sent late.
    let right = found.iter().filter(|row| held_up.contains(row)).count();
    assert_eq!(right, found.len(), "only packets that were held up are late");
    assert!(right * 100 >= held_up.len() * 99, "{right} of {}", held_up.len());
    let exact = |late: &&crate::attribution::LatePacket| (late.lateness_ns - 3_000_000).abs() <= 30_000;
    assert_eq!(analysis.late.iter().filter(exact).count(), found.len());
    assert_eq!(analysis.summary.causes.len(), 1, "{:?}", analysis.summary.causes);
    assert_eq!(analysis.summary.causes[0].source, "arrival-late");
}

/// Puts the rows in the order in which the application had them.
fn in_order_of_arrival(run: &mut PacketRun) {
    let packets = &mut run.packets;
    let mut rows: Vec<(i64, u64)> = packets.app_ns.iter().copied().zip(packets.seq.iter().copied()).collect();
    rows.sort_unstable();
    (packets.app_ns, packets.seq) = rows.into_iter().unzip();
}

#[test]
fn what_holds_up_the_receiver_is_not_the_streams() {
    let (sent, _) = constant(18, 0.0, |random| random.skips(0.01));
    let mut run = received(&sent);
    // The receiver stops for 3 ms each 250 packets, and takes 2 us for each that has queued up.
    let (mut free_ns, mut late) = (0, 0);
    for row in 0..run.packets.len() {
        let arrived_ns = run.packets.app_ns[row] - WAY_NS;
        let taken_ns = (arrived_ns + WAY_NS).max(free_ns);
        free_ns = taken_ns + if row % 250 == 249 { 3_000_000 } else { 2_000 };
        run.packets.app_ns[row] = taken_ns;
        run.packets.layers[0].before_app_ns[row] = taken_ns - arrived_ns;
        late += usize::from(taken_ns - arrived_ns - WAY_NS > THRESHOLD_NS);
    }
    let analysis = analyze(&run);
    assert_period(&analysis, PERIOD_NS);
    assert!(late > 800, "{late}");
    let found = analysis.late.len();
    assert!(found.abs_diff(late) * 100 <= late, "{found}, and {late} waited for the receiver");
    assert!(analysis.summary.causes.is_empty(), "{:?}", analysis.summary.causes);
}

#[test]
fn video_in_bursts_has_no_steady_period_and_is_not_late() {
    let mut random = random(19);
    let mut sent = Vec::new();
    for frame in 0..600u64 {
        // A clock of 90 kHz, 25 frames a second, as many packets as the picture needs, one each 8 us.
        let begins = START_NS + (frame * 3_600) as f64 * 1e9 / 90_000.0;
        for packet in 0..random.number(10, 59) {
            let number = sent.len() as u64;
            sent.push((number, begins + packet as f64 * 8_000.0 + random.real(2_000.0)));
        }
    }
    let mut run = received(&sent);
    let analysis = analyze(&run);
    let pace = analysis.summary.pace.clone().unwrap();
    assert!(!pace.steady, "{} {pace:?}", analysis.summary.period_ns);
    // Packets of a picture follow each other by 8 us, and pictures by 40 ms: the mean is the distance of no packets.
    let usual_ns = pace.usual_delta_ns.unwrap();
    assert!((usual_ns - 8_000.0).abs() < 500.0 && analysis.summary.period_ns > 1e6, "{pace:?}");
    assert_eq!(late_rows(&analysis), [0; 0]);
    // What this host adds is still seen.
    run.packets.app_ns[900] += 400_000;
    run.packets.layers[0].before_app_ns[900] += 400_000;
    let analysis = analyze(&run);
    assert_eq!(late_rows(&analysis), [900]);
    assert_eq!(analysis.late[0].lateness_ns, 400_000);
    assert!(analysis.summary.causes.is_empty(), "not late on arrival: {:?}", analysis.summary.causes);
}

/// A packet each `PERIOD_NS`, but for some rows.
fn with_distances(seed: u64, distance: impl Fn(usize) -> f64) -> Sent {
    let (mut random, mut at) = (random(seed), START_NS);
    let sent = (0..PACKETS).map(|number| {
        at += distance(number);
        (number as u64, at + random.real(5_000.0))
    });
    sent.collect()
}

#[test]
fn a_sender_that_becomes_faster_makes_no_packet_late() {
    for (seed, share) in [(50, 0.3), (51, 0.5), (52, 0.77)] {
        let fast = 3_000..7_001;
        let sent = with_distances(seed, |row| PERIOD_NS * if fast.contains(&row) { share } else { 1.0 });
        let mut run = received(&sent);
        let analysis = analyze(&run);
        let period = analysis.summary.period_ns / PERIOD_NS;
        assert!((period - 1.0).abs() < 1e-5, "seed {seed}: {period}");
        assert_eq!(late_rows(&analysis), [0; 0], "seed {seed}: {:?}", analysis.summary.pace);
        let pace = analysis.summary.pace.unwrap();
        let [faster] = &pace.faster[..] else { panic!("{pace:?}") };
        assert!((faster.period_ns / (share * PERIOD_NS) - 1.0).abs() < 1e-3, "{faster:?}");
        assert!(faster.packets.abs_diff(4_000) <= 4, "{faster:?}");
        assert!(pace.skipped_slots <= 2, "{pace:?}");
        // A packet that is held up is late in either part.
        for row in [1_000, 5_000, 9_000] {
            run.packets.app_ns[row] += 3_000_000;
            run.packets.layers[0].before_app_ns[row] += 3_000_000;
        }
        assert_eq!(late_rows(&analyze(&run)), [1_000, 5_000, 9_000], "seed {seed}");
    }
}

#[test]
fn a_sender_that_catches_up_keeps_its_schedule_and_is_late() {
    // 100 ms without a packet, then all that were due, one each 10 us.
    let stalled = 500usize;
    let sent = with_distances(53, |row| match row {
        5_000 => PERIOD_NS * stalled as f64,
        5_001..5_500 => 10_000.0,
        _ => PERIOD_NS,
    });
    let analysis = analyze(&received(&sent));
    assert!((analysis.summary.period_ns / PERIOD_NS - 1.0).abs() < 1e-5, "{:?}", analysis.summary.pace);
    let late = late_rows(&analysis);
    assert!(
        late.len().abs_diff(stalled) <= 20 && late.iter().all(|row| (5_000..5_500).contains(row)),
        "{late:?}"
    );
    assert!(analysis.summary.pace.unwrap().faster.is_empty());
}

#[test]
fn a_sender_that_sleeps_between_packets_has_no_schedule_to_be_late_by() {
    let (mut random, mut at) = (random(20), START_NS);
    let sent = (0..PACKETS as u64)
        .map(|number| {
            at += 1e6 + 50_000.0 + random.real(350_000.0);
            (number, at)
        })
        .collect();
    let analysis = analyze(&received(&sent));
    assert_eq!(late_rows(&analysis), [0; 0], "{:?}", analysis.summary.pace);
}

#[test]
fn packets_without_a_stamp_of_their_arrival_are_due_all_the_same() {
    let (sent, _) = constant(21, 0.0, |_| 0);
    let mut run = received(&sent);
    for row in (0..PACKETS).step_by(20) {
        run.packets.layers[0].before_app_ns[row] = MISSING;
    }
    run.packets.app_ns[400] += 500_000;
    let analysis = analyze(&run);
    assert_eq!(late_rows(&analysis), [400]);
    assert_eq!(analysis.summary.lateness.distribution.count, PACKETS as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn another_time_of_day_changes_nothing(seed in 0u64..1000, shift in -6_000_000_000_000i64..1 << 60) {
        let (mut sent, _) = constant(seed, 20.0, |random| random.skips(0.01));
        sent.truncate(3_000);
        sent.iter_mut().step_by(97).for_each(|(_, at)| *at += 150_000.0);
        let mut run = received(&sent);
        let analysis = analyze(&run);
        run.packets.app_ns.iter_mut().for_each(|at| *at += shift);
        let shifted = analyze(&run);
        prop_assert_eq!(late_rows(&analysis), late_rows(&shifted));
        prop_assert_eq!(analysis.summary, shifted.summary);
    }
}
