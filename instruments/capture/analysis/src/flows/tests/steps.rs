//! The capturing clock is set back in the middle.

use super::*;

type Flows = Vec<(u32, u64, u64)>;

fn told(found: &CaptureFigures) -> Flows {
    let of = |flow: &FlowFigures| (flow.key.clock_step, flow.packets, flow.sequence.unwrap().lost);
    found.flows.iter().map(of).collect()
}

#[test]
fn no_figure_spans_a_step_of_the_capturing_clock() {
    let found = figures(run(0, 20_000, 0, 600).chain(run(-500, 20_600, 4_800, 500)));
    assert_eq!(told(&found), [(0, 600, 0), (1, 500, 0)]);
    assert_eq!(found.clock_steps, [ClockStep { packet: 601, least_ns: 1_099 * MS }]);
    for flow in &found.flows {
        let rtp = flow.rtp.as_ref().unwrap();
        assert_eq!(rtp.clock.measured_hz, Some(8_000.0));
        assert_eq!((rtp.interarrival.max_ticks, flow.delta_t.unwrap().max_ns, flow.backwards), (0, MS, 0));
        assert_eq!(flow.delay.as_ref().unwrap().figures.max_pdv_ns, Some(0));
    }
    assert_eq!((found.packets, found.backwards), (1_100, 1));
}

#[test]
fn packets_of_another_queue_that_are_late_are_no_step() {
    let other = |ms: i64| ((ms - 50) * MS, frame(7_000, rtp(ms as u16, 8 * ms as u32, 9)));
    let found = figures(run(0, 20_000, 0, 300).enumerate().flat_map(|(at, one)| [one, other(at as i64)]));
    assert_eq!(told(&found), [(0, 300, 0), (0, 300, 0)]);
    assert!(found.clock_steps.is_empty());
    // Seven in a row, too, and one at the end.
    let late = || (0..7).map(|ms| other(300 + ms));
    let found =
        figures(run(0, 20_000, 0, 300).chain(late()).chain(run(300, 20_300, 2_400, 9)).chain([other(9)]));
    assert_eq!((found.clock_steps.len(), found.packets, found.flows[0].packets), (0, 317, 309));
}

#[test]
fn a_step_right_before_the_end_is_one() {
    let found = figures(run(0, 20_000, 0, 300).chain(run(-900, 20_300, 2_400, 2)));
    assert_eq!(told(&found), [(0, 300, 0), (1, 2, 0)]);
}

#[test]
fn after_eight_steps_no_packet_is_missing() {
    let found = figures((0..12u16).flat_map(|part| run(0, 100 * part, 800 * u32::from(part), 100)));
    assert_eq!((found.clock_steps.len(), found.flows.len(), found.packets), (8, 9, 1_200));
    assert_eq!(found.flows.iter().map(|flow| flow.packets).sum::<u64>(), 1_200);
}

proptest! {
    // Each flow has histograms of its own.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_times_every_packet_is_in_a_flow(
        times in prop::collection::vec(prop::option::weighted(0.9, 0i64..200), 0..300),
    ) {
        let mut table = FlowTable::new(TableSettings::file("kernel"));
        for (at, time_ms) in times.iter().enumerate() {
            let frame = frame(6_000, rtp(at as u16, 8 * at as u32, 7));
            table.packet(time_ms.map(|ms| START_NS + ms * MS), &PacketStamps::default(), &frame);
        }
        let found = table.finish();
        prop_assert_eq!(found.packets, times.len() as u64);
        prop_assert_eq!(found.flows.iter().map(|flow| flow.packets).sum::<u64>(), times.len() as u64);
        prop_assert!(found.clock_steps.iter().all(|step| step.least_ns > 10 * MS));
    }
}
