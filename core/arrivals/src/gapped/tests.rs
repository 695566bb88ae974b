//! Worked by hand, limits of formats that are known, and twins that go event by event.

use super::frames::packets_per_frame;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn format(rate: (u32, u32), scan: Scan, height: u32, packets: u64) -> VideoFormat {
    VideoFormat::new(rate, scan, height, packets, 1500).expect("a format")
}

/// A frame of 4 packets each millisecond.
fn small() -> VideoFormat {
    format((1000, 1), Scan::Progressive, 1080, 4)
}

fn packet(sequence: u64, arrived_ns: i64, packets_per_frame: u64) -> VideoPacket {
    let marker = sequence % packets_per_frame == packets_per_frame - 1;
    let rtp_timestamp = (sequence / packets_per_frame) as u32;
    VideoPacket { sequence, arrived_ns, rtp_timestamp, marker, second_field: false }
}

fn nanoseconds(format: VideoFormat, ticks: i128) -> f64 {
    ticks as f64 / format.ticks_per_ns() as f64
}

#[test]
fn limits_of_known_formats() {
    use SenderType::{Narrow, NarrowLinear, Wide};
    // 1080p30, 4:2:2 10 bit, 4,115 packets: 4115 × 30 = 123,450 packets/s.
    let hd = format((30, 1), Scan::Progressive, 1080, 4115);
    assert_eq!([Narrow, NarrowLinear, Wide].map(|s| hd.vrx_full(s)), [8, 8, 720]);
    assert_eq!([Narrow, NarrowLinear, Wide].map(|s| hd.c_max(s)), [Some(4), Some(4), Some(16)]);
    assert!((nanoseconds(hd, hd.spacing_ticks(ReadSchedule::Gapped)) - 7776.43).abs() < 0.005);
    // 2160p59.94 with 17,280 packets: 1,035,764 packets/s. 38.36; 24.97 and 23.98; 3452.5; no C_MAX for W.
    let uhd = format((60_000, 1001), Scan::Progressive, 2160, 17_280);
    assert_eq!([Narrow, NarrowLinear, Wide].map(|s| uhd.vrx_full(s)), [38, 38, 3452]);
    assert_eq!([Narrow, NarrowLinear, Wide].map(|s| uhd.c_max(s)), [Some(24), Some(23), None]);
    // The extended size limit, 8,960: 12,000 / 8,960 and 1,080,000 / 8,960.
    let large = VideoFormat::new((30, 1), Scan::Progressive, 1080, 600, 8960).expect("a format");
    assert_eq!((large.vrx_full(Narrow), large.vrx_full(Wide)), (1, 120));
    // 1080i25: 22 of 1,125 lines of 40 ms.
    let interlaced = format((25, 1), Scan::Interlaced1125, 1080, 4500);
    assert!((nanoseconds(interlaced, interlaced.default_offset_ticks()) - 22.0 / 1125.0 * 4e7).abs() < 1e-6);
    assert_eq!(interlaced.c_max(Narrow), Some(4));
    let low = format((50, 1), Scan::Progressive, 720, 100);
    assert!((nanoseconds(low, low.default_offset_ticks()) - 28.0 / 750.0 * 2e7).abs() < 1e-6);
}

#[test]
fn formats_that_do_not_exist() {
    for (rate, scan, height, packets, udp) in [
        ((0, 1), Scan::Progressive, 1080, 4, 1500),
        ((1, 0), Scan::Progressive, 1080, 4, 1500),
        ((1, 1), Scan::Progressive, 0, 4, 1500),
        ((1, 1), Scan::Interlaced525, 526, 4, 1500),
        ((1, 1), Scan::Progressive, 1080, 0, 1500),
        ((1, 1), Scan::Progressive, 1080, u64::MAX, 1500),
        ((1, 1), Scan::Progressive, 1080, 4, 0),
    ] {
        assert_eq!(VideoFormat::new(rate, scan, height, packets, udp), None);
    }
}

#[test]
fn the_bucket_worked_by_hand() {
    // 10 packets a millisecond: T_DRAIN is 1,000,000 / 11 = 90,909.09 ns.
    let ten = format((1000, 1), Scan::Progressive, 1080, 10);
    let c_inst = network_compatibility(&[0, 0, 90_909, 90_910, 1_000_000], &ten, 0);
    // 1, 2, 3, then one drained and one entered: 3; then ten drains empty it: 1.
    assert_eq!(c_inst.histogram, BTreeMap::from([(1, 2), (2, 1), (3, 2)]));
    assert_eq!((c_inst.packets, c_inst.max, c_inst.mean), (5, 3, Some(2.0)));
    // Evenly at the nominal rate the bucket is empty again each time.
    let even: Vec<i64> = (0..1000).map(|at| at * 100_000).collect();
    assert_eq!(network_compatibility(&even, &ten, 0).max, 1);
    // At 1.10 times that it just keeps up, and a burst of a whole frame is all in it at once.
    let burst: Vec<i64> = (0..100).map(|at| at / 10 * 1_000_000).collect();
    assert_eq!(network_compatibility(&burst, &ten, 0).max, 10);
    assert_eq!(network_compatibility(&[], &ten, 0), CInst::default());
    assert_eq!(network_compatibility(&[i64::MIN, i64::MAX], &ten, i64::MAX).max, 1);
}

/// The frame before, so that its end is seen, and one frame whose packets come at these times.
fn one_frame(times_ns: [i64; 4]) -> Vec<VideoPacket> {
    let before = packet(3, -500_000, 4);
    let frame = times_ns.iter().zip(4..).map(|(&time_ns, sequence)| packet(sequence, time_ns, 4));
    std::iter::once(before).chain(frame).collect()
}

#[test]
fn the_receiver_buffer_worked_by_hand() {
    // With an offset of 40 us packets are read at 40, 280, 520 and 760 us (gapped), or 40, 290, 540 and 790 (linear).
    let packets = one_frame([30_000, 50_000, 60_000, 900_000]);
    let datum = Datum::SmpteEpoch { offset_ns: Some(40_000) };
    let gapped = virtual_receiver_buffer(&packets, &small(), ReadSchedule::Gapped, datum).expect("a frame");
    assert_eq!((gapped.datum_ns, gapped.frames, gapped.packets), (40_000, 1, 4));
    assert_eq!(gapped.histogram, BTreeMap::from([(0, 1), (1, 2), (2, 1)]));
    assert_eq!((gapped.max, gapped.mean, gapped.late, gapped.max_late_ns), (2, 1.0, 1, 140_000));
    let linear = virtual_receiver_buffer(&packets, &small(), ReadSchedule::Linear, datum).expect("a frame");
    assert_eq!((linear.max, linear.late, linear.max_late_ns), (2, 1, 110_000));
    // The last packet decides where a schedule that it meets begins: 900 - 720 = 180 us. The others wait for that.
    let observed =
        virtual_receiver_buffer(&packets, &small(), ReadSchedule::Gapped, Datum::Observed).expect("a frame");
    assert_eq!((observed.datum_ns, observed.max, observed.late), (180_000, 3, 0));
    // By default the offset is 43 / 1125 of 1 ms.
    let default = Datum::SmpteEpoch { offset_ns: None };
    let gapped = virtual_receiver_buffer(&packets, &small(), ReadSchedule::Gapped, default).expect("a frame");
    assert_eq!((gapped.datum_ns, gapped.max_late_ns), (38_222, 141_777));
}

#[test]
fn the_second_field_is_read_from_half_a_frame_and_half_a_line_on() {
    // 25 frames of 8 packets: T_FRAME 40 ms, T_RS 40 × 1080 / 1125 / 8 = 4.8 ms, half a line 17,777.8 ns.
    let interlaced = format((25, 1), Scan::Interlaced1125, 1080, 8);
    let read_ns = |index| interlaced.read_ticks(ReadSchedule::Gapped, index) / interlaced.ticks_per_ns();
    assert_eq!([0, 3, 4, 5].map(read_ns), [0, 14_400_000, 20_017_777, 24_817_777]);
    let linear = |index| interlaced.read_ticks(ReadSchedule::Linear, index) / interlaced.ticks_per_ns();
    assert_eq!([0, 4, 7].map(linear), [0, 20_000_000, 35_000_000]);
    // Only the second field's marker ends a frame.
    let packets: Vec<VideoPacket> = (0..24)
        .map(|sequence| VideoPacket {
            marker: sequence % 4 == 3,
            second_field: sequence % 8 >= 4,
            ..packet(sequence, sequence as i64 * 5_000_000, 4)
        })
        .collect();
    assert_eq!(packets_per_frame(&packets, Scan::Interlaced1125), Some(8));
    assert_eq!(packets_per_frame(&packets, Scan::Progressive), Some(4));
    let vrx = virtual_receiver_buffer(&packets, &interlaced, ReadSchedule::Gapped, Datum::Observed)
        .expect("frames");
    assert_eq!((vrx.frames, vrx.packets), (2, 16));
}

#[test]
fn lost_ends_copies_and_missing_packets_keep_the_others_in_place() {
    let all: Vec<VideoPacket> =
        (3..24).map(|sequence| packet(sequence, sequence as i64 * 250_000, 4)).collect();
    let mut holes: Vec<VideoPacket> =
        all.iter().copied().filter(|p| ![7, 12, 13].contains(&p.sequence)).collect();
    let copy = VideoPacket { arrived_ns: 99_000_000, ..holes[5] };
    holes.push(copy);
    holes.reverse();
    assert_eq!(packets_per_frame(&holes, Scan::Progressive), Some(4));
    let levels = |packets: &[VideoPacket]| {
        virtual_receiver_buffer(packets, &small(), ReadSchedule::Linear, Datum::Observed).expect("frames")
    };
    let (whole, holed) = (levels(&all), levels(&holes));
    assert_eq!((whole.datum_ns, whole.max, whole.frames), (holed.datum_ns, holed.max, holed.frames));
    assert_eq!((whole.packets, holed.packets, holed.late), (20, 17, 0));
    let endless: Vec<VideoPacket> = all.iter().map(|p| VideoPacket { marker: false, ..*p }).collect();
    assert_eq!(virtual_receiver_buffer(&endless, &small(), ReadSchedule::Linear, Datum::Observed), None);
    assert_eq!(packets_per_frame(&endless, Scan::Progressive), None);
}

/// A sender that follows the gapped schedule of 1080p59.94 to the packet, 4 packets ahead of it, at today's TAI.
#[test]
fn a_sender_on_schedule_is_narrow_and_a_bursting_one_is_not() {
    let hd = format((60_000, 1001), Scan::Progressive, 1080, 4320);
    let frame_ns: f64 = 1e9 * 1001.0 / 60_000.0;
    let first = (1.7e18 / frame_ns).ceil();
    let at = |frame: f64, index: f64| {
        let base_ns = ((first + frame) * frame_ns - 1.7e18) + 43.0 / 1125.0 * frame_ns;
        1_700_000_000_000_000_000 + (base_ns + (index - 4.0) * frame_ns * 0.96 / 4320.0) as i64
    };
    let stream = |spread: f64| -> Vec<VideoPacket> {
        let times = (0..3 * 4320u64).map(|n| (n, at((n / 4320) as f64, (n % 4320) as f64 * spread)));
        times.map(|(n, time_ns)| packet(n, time_ns, 4320)).collect()
    };
    let datum = Datum::SmpteEpoch { offset_ns: None };
    let timing = video_timing(&stream(1.0), &hd, datum);
    let ok = |timing: &VideoTiming| timing.verdicts.map(|verdict| (verdict.network, verdict.receiver));
    assert_eq!(ok(&timing)[0], (Some(true), Some(true)));
    let gapped = timing.gapped.expect("frames were whole");
    assert_eq!((gapped.late, gapped.frames), (0, 2));
    assert!((4..=5).contains(&gapped.max), "{}", gapped.max);
    // All packets of a frame in half the time: too much for every type's C_MAX and for a narrow buffer.
    let burst = video_timing(&stream(0.5), &hd, datum);
    assert_eq!(
        ok(&burst),
        [(Some(false), Some(false)), (Some(false), Some(false)), (Some(false), Some(false))]
    );
    let empty = video_timing(&[], &hd, datum);
    assert_eq!(ok(&empty), [(None, None); 3]);
}

/// Every drain and every packet as an event of its own. Times are in 1 / (N × 11) of 1e9 × seconds / frames × 10 ns.
fn bucket_twin(arrived_ns: &[i64], rate: (i64, i64), packets: i64) -> Vec<u64> {
    let mut times = arrived_ns.to_vec();
    times.sort_unstable();
    let (mut next_drain, mut fullness, mut levels) = (0i128, 0u64, Vec::new());
    for time_ns in times {
        // Drain k comes at k × 1e10 × seconds / (frames × packets × 11) ns.
        let drain_due =
            |k: i128| k * 10_000_000_000 * i128::from(rate.1) <= i128::from(time_ns * rate.0 * packets * 11);
        while drain_due(next_drain) {
            fullness = fullness.saturating_sub(1);
            next_drain += 1;
        }
        fullness += 1;
        levels.push(fullness);
    }
    levels
}

/// Level at each arrival by looking at every packet: those in, not yet read. Linear schedule, datum in whole ns.
fn buffer_twin(
    packets: &[VideoPacket],
    per_frame: u64,
    frame_ns: i64,
    active: (i64, i64),
    datum_ns: i64,
) -> Vec<u64> {
    // TPR × per_frame × active.1, to stay whole.
    let scale = per_frame as i64 * active.1;
    let read = |p: &VideoPacket| {
        let (frame, index) = ((p.sequence / per_frame) as i64 - 1, (p.sequence % per_frame) as i64);
        (datum_ns + frame * frame_ns) * scale + index * frame_ns * active.0
    };
    let whole: Vec<&VideoPacket> = packets.iter().filter(|p| p.sequence >= per_frame).collect();
    let level = |at_ns: i64, place: usize| {
        let came = whole
            .iter()
            .enumerate()
            .filter(|&(i, p)| p.arrived_ns < at_ns || (p.arrived_ns == at_ns && i <= place));
        came.filter(|(_, p)| read(p) > at_ns * scale).count() as u64
    };
    whole.iter().enumerate().map(|(i, p)| level(p.arrived_ns, i)).collect()
}

fn histogram(levels: &[u64]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    levels.iter().for_each(|&level| *counts.entry(level).or_default() += 1);
    counts
}

proptest! {
    #[test]
    fn the_bucket_agrees_event_by_event(
        times in prop::collection::vec(0i64..3_000_000, 0..60), packets in 1u64..30,
        rate in prop::sample::select(vec![(1000u32, 1u32), (60_000, 1001), (25, 1)]),
    ) {
        let format = format(rate, Scan::Progressive, 1080, packets);
        let c_inst = network_compatibility(&times, &format, 0);
        let levels = bucket_twin(&times, (rate.0.into(), rate.1.into()), packets as i64);
        prop_assert_eq!(c_inst.max, levels.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(c_inst.histogram, histogram(&levels));
    }

    #[test]
    fn the_buffer_agrees_packet_by_packet(
        gaps in prop::collection::vec(0i64..500_000, 1..50), per_frame in 1u64..8, gapped in any::<bool>(),
        offset_ns in 0i64..300_000,
    ) {
        let mut time_ns = 0;
        let packets: Vec<VideoPacket> = gaps.iter().enumerate().map(|(sequence, gap)| {
            time_ns += gap;
            packet(sequence as u64, time_ns, per_frame)
        }).collect();
        let format = format((1000, 1), Scan::Progressive, 1080, per_frame);
        let schedule = if gapped { ReadSchedule::Gapped } else { ReadSchedule::Linear };
        let active = if gapped { (1080, 1125) } else { (1, 1) };
        for datum in [Datum::SmpteEpoch { offset_ns: Some(offset_ns) }, Datum::Observed] {
            let Some(vrx) = virtual_receiver_buffer(&packets, &format, schedule, datum) else {
                prop_assert!(packets.len() as u64 <= per_frame);
                continue;
            };
            prop_assert_eq!(vrx.histogram.values().sum::<u64>(), packets.len() as u64 - per_frame);
            if datum == Datum::Observed {
                prop_assert_eq!(vrx.late, 0);
                continue;
            }
            prop_assert_eq!((vrx.datum_ns - offset_ns).rem_euclid(1_000_000), 0);
            let first_ns = packets[per_frame as usize].arrived_ns;
            prop_assert!((vrx.datum_ns - first_ns).abs() <= 500_000);
            let levels = buffer_twin(&packets, per_frame, 1_000_000, active, vrx.datum_ns);
            prop_assert_eq!(vrx.histogram, histogram(&levels));
        }
    }
}
