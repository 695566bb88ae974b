//! Time taken by the hypervisor: where it lies, what it is taken from, and that no more is booked than was taken.

use super::scene::*;
use crate::attribution::causes::{CauseKey, CauseTable};
use crate::attribution::engine::Draft;
use crate::attribution::steal::{Steal, Stretch};
use crate::attribution::{AttributionOptions, PacketAnalysis, PacketPosition, Part, analyze_packets};
use crate::model::{Names, PacketRun, PacketTable};
use proptest::prelude::*;
use quaver_abi::record::{EventKind, EventRecord, GapPlace, OffCpu, Vector};

const STOP: i64 = START_NS + 500_000;

fn taken(cpu: u16, from: i64, until: i64, amount_ns: i64) -> EventRecord {
    event(EventKind::Steal, cpu, from, until, 0, amount_ns as u64)
}

fn long_turn(from: i64, until: i64, place: GapPlace) -> EventRecord {
    EventRecord {
        detail: place as u8,
        ..event(EventKind::LoopGap, 1, from, from, RECEIVER, (until - from) as u64)
    }
}

/// The receiver is stopped from [`STOP`] for `length_ns`, with these events beside its own.
fn stopped(length_ns: i64, events: &[EventRecord]) -> PacketRun {
    let mut run = run(&[(STOP, STOP + length_ns)]);
    run.events = receiver_runs(120, &[]);
    run.events.extend_from_slice(events);
    run.circumstances.virtual_machine = true;
    run.circumstances.traced_cpus = vec![0, 1];
    run
}

/// Time by identifier of the source, the unexplained last.
fn times(analysis: &PacketAnalysis) -> Vec<(&str, i64)> {
    let causes = analysis.summary.causes.iter().map(|cause| (cause.source.as_str(), cause.time_ns));
    let unexplained = ("unexplained", analysis.summary.unexplained.time_ns);
    causes.chain(Some(unexplained).filter(|(_, time)| *time > 0)).collect()
}

fn time_of(analysis: &PacketAnalysis, source: &str) -> i64 {
    times(analysis).iter().filter(|(id, _)| *id == source).map(|(_, time)| time).sum()
}

#[test]
fn what_was_taken_is_no_ticks_time() {
    // The tick lasted 60 us, 50 of which the hypervisor ran something else; both looks are the tick's own trace points.
    let tick = vector(Vector::LocalTimer, 1, STOP + 3_000, STOP + 60_000);
    let body = |analysis: &PacketAnalysis, source: &str| -> i64 {
        let causes = analysis.summary.causes.iter().filter(|cause| cause.source == source);
        causes.map(|cause| cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns).sum()
    };
    let without = analyze(&stopped(60_000, &[tick]));
    let with = analyze(&stopped(60_000, &[tick, taken(1, STOP + 3_000, STOP + 60_000, 50_000)]));
    assert_eq!((body(&without, "steal"), body(&without, "timer-irq")), (0, 57_000));
    assert_eq!((body(&with, "steal"), body(&with, "timer-irq")), (50_000, 7_000));
    assert_eq!(with.summary.lateness.time_ns, without.summary.lateness.time_ns);
    assert_eq!(with.summary.causes[0].name, "host ran something else");
}

#[test]
fn a_wait_that_a_clock_ends_is_not_lengthened() {
    // Throttled for 60 us while its CPU idles, 50 of which the hypervisor ran something else.
    let mut run = stopped(60_000, &[taken(1, STOP + 3_000, STOP + 60_000, 50_000)]);
    run.events.retain(|event| event.kind != EventKind::Thread as u8);
    run.events.extend(receiver_runs(49, &[(STOP, STOP + 60_000, OffCpu::Preempted)]));
    run.events.push(thread(0, 120, 1, STOP, STOP + 60_000, OffCpu::Unknown));
    run.receiver.realtime = true;
    run.circumstances.rt_throttling = true;
    let throttled = analyze(&run);
    assert_eq!(time_of(&throttled, "steal"), 0, "{:?}", times(&throttled));
    assert!(time_of(&throttled, "rt-throttle") > 50_000, "{:?}", times(&throttled));
}

#[test]
fn only_what_fits_nowhere_else_is_certain() {
    // The stop is unexplained; the looks lie 40 us around its 100 us.
    let around = |amount_ns| taken(1, STOP - 20_000, STOP + 120_000, amount_ns);
    let late = |amount_ns| analyze(&stopped(100_000, &[around(amount_ns)]));
    let plain = analyze(&stopped(100_000, &[]));
    let window: i64 = {
        let covered = |packet: &crate::attribution::LatePacket| {
            packet.end_ns.min(STOP + 120_000) - packet.start_ns.max(STOP - 20_000)
        };
        plain.late.iter().map(covered).filter(|time| *time > 0).sum()
    };
    let elsewhere = 140_000 - window;
    for amount_ns in [elsewhere - 1, elsewhere, elsewhere + 1, elsewhere + 30_000] {
        // Windows follow each other, so the certain part of each is smaller than that of all together.
        let analysis = late(amount_ns);
        let booked = time_of(&analysis, "steal");
        assert!(booked <= (amount_ns - elsewhere).max(0), "{amount_ns}: {booked}");
        let unplaced = analysis.summary.unexplained.unplaced_steal_ns;
        assert!(
            analysis.summary.unexplained.note.contains("µs of the unexplained time may be steal"),
            "{unplaced}"
        );
        assert!(unplaced > 0 && booked + unplaced <= amount_ns, "{amount_ns}: {booked}, {unplaced}");
    }
    assert!(time_of(&late(139_000), "steal") > 0);
}

#[test]
fn the_one_gap_that_can_hold_it_has_it() {
    let record = taken(1, STOP - 400_000, STOP + 400_000, 90_000);
    let gap = long_turn(STOP, STOP + 100_000, GapPlace::EmptyPoll);
    let small = long_turn(STOP - 200_000, STOP - 111_000, GapPlace::EmptyPoll);
    let other = long_turn(STOP - 200_000, STOP - 110_000, GapPlace::EmptyPoll);
    assert_eq!(time_of(&analyze(&stopped(100_000, &[record])), "steal"), 0, "no gap was seen");
    let found = analyze(&stopped(100_000, &[record, gap, small]));
    let elsewhere: i64 =
        100_000 - found.late.iter().map(|late| covered(late, STOP, STOP + 100_000)).sum::<i64>();
    assert!(elsewhere < 10_000, "{elsewhere}");
    assert!(time_of(&found, "steal") >= 90_000 - 10_000 - 2 * elsewhere, "{:?}", times(&found));
    assert_eq!(time_of(&analyze(&stopped(100_000, &[record, gap, other])), "steal"), 0, "two can hold it");
}

fn covered(late: &crate::attribution::LatePacket, from: i64, to: i64) -> i64 {
    (late.end_ns.min(to) - late.start_ns.max(from)).max(0)
}

#[test]
fn a_gap_in_the_receivers_own_code_is_taken_from_outside() {
    let own_code = long_turn(STOP, STOP + 100_000, GapPlace::UserCode);
    let run = stopped(100_000, &[own_code]);
    let analysis = analyze(&run);
    assert!(time_of(&analysis, "outside") > 90_000, "{:?}", times(&analysis));
    let cause = &analysis.summary.causes[0];
    assert_eq!(cause.name, "host worked for or beside this CPU");
    assert_eq!(cause.inferred_in_all_ns(), cause.time_ns, "no record shows what had the time");
    // The hypervisor's share is its own.
    let both = analyze(&stopped(100_000, &[own_code, taken(1, STOP, STOP + 100_000, 60_000)]));
    assert_eq!(time_of(&both, "outside") + time_of(&both, "steal"), time_of(&analysis, "outside"));
    assert!(time_of(&both, "steal") > 50_000, "{:?}", times(&both));
    // A system call may be slow by itself.
    let call = analyze(&stopped(100_000, &[long_turn(STOP, STOP + 100_000, GapPlace::Call)]));
    assert_eq!(time_of(&call, "outside"), 0);
    let unexplained = &call.summary.unexplained;
    assert!(
        unexplained.in_call_ns > 90_000 && unexplained.in_call_ns <= unexplained.time_ns,
        "{unexplained:?}"
    );
    // So may code that faults, or that is followed by a kernel that does not record what interrupts it.
    let fault = event(EventKind::PageFault, 1, STOP + 5_000, STOP + 5_000, RECEIVER, 0);
    let faulty = analyze(&stopped(100_000, &[own_code, fault]));
    assert_eq!(time_of(&faulty, "outside"), 0);
    let mut blind = run.clone();
    blind.circumstances.blind = vec!["softirqs (the kernel has no tracepoint softirq_exit)".to_owned()];
    assert_eq!(time_of(&analyze(&blind), "outside"), 0);
    let mut metal = run.clone();
    metal.circumstances.virtual_machine = false;
    assert_eq!(analyze(&metal).summary.causes[0].name, "taken from outside this kernel");
}

/// A busy guest: `stops` of the receiver of which each has its record, both looks up to 15 us away.
fn busy_guest(stops: &[(i64, i64)]) -> PacketRun {
    let mut run = PacketRun::clone(&stopped(0, &[]));
    let cold = super::scene::run(stops);
    run.packets = PacketTable { ..cold.packets };
    let around =
        |&(from, until): &(i64, i64)| taken(1, from - from % 15_000, until + until % 15_000, until - from);
    run.events.extend(stops.iter().map(around));
    run
}

#[test]
fn a_placebo_names_little() {
    // Steal of 60 us 13 times in 2 ms; then the same records moved by 10 ms or more.
    let stops: Vec<(i64, i64)> = (0..13_i64)
        .map(|number| START_NS + 20_000 + number * 137_000 + number * number % 11 * 1_000)
        .map(|from| (from, from + 60_000))
        .collect();
    let real = busy_guest(&stops);
    let named = time_of(&analyze(&real), "steal");
    assert!(named * 2 > 13 * 60_000, "{named}");
    for shift_ns in [-23_000_000i64, -10_000_000, 10_000_000, 17_000_000] {
        let mut placebo = real.clone();
        for event in placebo.events.iter_mut().filter(|event| event.kind == EventKind::Steal as u8) {
            event.start_ns = event.start_ns.wrapping_add_signed(shift_ns);
            event.end_ns = event.end_ns.wrapping_add_signed(shift_ns);
        }
        let wrong = time_of(&analyze(&placebo), "steal");
        assert!(wrong * 4 <= named, "moved by {shift_ns} ns: {wrong} of {named}");
    }
}

fn any_drafts() -> impl Strategy<Value = Vec<Draft>> {
    let piece = (1i64..200, 0u16..2, 0usize..4, prop::bool::ANY);
    (0i64..500, prop::collection::vec(piece, 1..12)).prop_map(|(start_ns, pieces)| {
        let mut at = start_ns;
        let mut drafts = Vec::new();
        for (length, cpu, part, cause) in pieces {
            let part = [Part::Unexplained, Part::EntryExit, Part::Body, Part::Body][part];
            let cause = (part != Part::Unexplained).then_some(u32::from(cause));
            drafts.push(Draft {
                start_ns: at,
                end_ns: at + length,
                cause,
                part,
                place: PacketPosition::Receiver,
                cpu,
                event: u32::MAX,
                edges: false,
                shift_ns: 0,
                taken: false,
                inferred: false,
                lent: None,
            });
            at += length;
        }
        drafts
    })
}

fn any_records() -> impl Strategy<Value = Vec<EventRecord>> {
    prop::collection::vec((0u16..2, 0i64..900, 1i64..400, 0i64..500), 0..10).prop_map(|records| {
        // Looks of one CPU follow each other.
        let mut reached = [0i64; 2];
        let mut out = Vec::new();
        for (cpu, pause, length, amount_ns) in records {
            let from = reached[usize::from(cpu)] + pause % 100;
            reached[usize::from(cpu)] = from + length;
            out.push(taken(cpu, from, from + length, amount_ns));
        }
        out
    })
}

const STEAL: u32 = 2;

fn carve(steal: &mut Steal, drafts: &mut Vec<Draft>) {
    let mut causes = CauseTable::default();
    // The pieces' causes, of which none is steal's.
    for name in ["one", "two"] {
        causes.intern(CauseKey::plain("tick", name), &Names::default());
    }
    steal.carve(drafts, &mut causes, &Names::default());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// On each CPU no more is booked than was taken, in each record's stretch too, and windows stay covered.
    #[test]
    fn no_more_is_booked_than_was_taken(
        windows in prop::collection::vec(any_drafts(), 1..4),
        records in any_records(),
        gaps in prop::collection::vec((0u16..2, 0i64..2_000, 1i64..300), 0..5),
    ) {
        let gaps = gaps.into_iter().map(|(cpu, start_ns, length)| Stretch { cpu, start_ns, end_ns: start_ns + length });
        let mut steal = Steal::new(&records, gaps);
        let mut booked = [0i64; 2];
        // The same windows again and again: what is used up stays used up.
        for drafts in windows {
            let mut carved = drafts.clone();
            carve(&mut steal, &mut carved);
            let ends = |drafts: &[Draft]| (drafts[0].start_ns, drafts[drafts.len() - 1].end_ns);
            prop_assert_eq!(ends(&drafts), ends(&carved));
            prop_assert!(carved.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
            prop_assert!(carved.iter().all(|draft| draft.start_ns < draft.end_ns));
            for draft in carved.iter().filter(|draft| draft.taken) {
                booked[usize::from(draft.cpu)] += draft.end_ns - draft.start_ns;
                prop_assert_eq!((draft.cause, draft.part), (Some(STEAL), Part::Body));
            }
            prop_assert!(steal.unplaced_ns(&carved) >= 0);
        }
        for cpu in 0..2u16 {
            let believable = records.iter().filter(|r| r.cpu == cpu && r.aux <= r.end_ns - r.start_ns);
            let all: u64 = believable.map(|record| record.aux).sum();
            prop_assert!(booked[usize::from(cpu)] as u64 <= all, "CPU {}: {} of {}", cpu, booked[usize::from(cpu)], all);
        }
    }

    /// A window gets exactly what fits nowhere else: the twin counts the nanoseconds of the stretch outside of it.
    #[test]
    fn a_window_gets_what_fits_nowhere_else(drafts in any_drafts(), records in any_records()) {
        let mut carved = drafts.clone();
        carve(&mut Steal::new(&records, []), &mut carved);
        let inside = |cpu: u16, at: i64| drafts.iter().any(|d| d.cpu == cpu && (d.start_ns..d.end_ns).contains(&at));
        let expected: i64 = records
            .iter()
            .filter(|record| record.aux <= record.end_ns - record.start_ns)
            .map(|record| {
                let stretch = record.start_ns as i64..record.end_ns as i64;
                let outside = stretch.filter(|&at| !inside(record.cpu, at)).count() as i64;
                (record.aux as i64 - outside).max(0)
            })
            .sum();
        let booked: i64 = carved.iter().filter(|d| d.taken).map(|d| d.end_ns - d.start_ns).sum();
        prop_assert_eq!(booked, expected);
    }

    /// Whole runs: windows stay covered and the causes' sums agree ([`check`]), and steal takes from no window's length.
    #[test]
    fn runs_stay_conserved(
        stops in prop::collection::vec((0i64..2_000_000, 1_000i64..300_000), 0..4),
        records in prop::collection::vec((0i64..2_000_000, 1_000i64..400_000, 0i64..300_000), 0..8),
        blocked in prop::bool::ANY,
    ) {
        let mut stops: Vec<(i64, i64)> = stops.iter().map(|&(at, length)| (START_NS + at, START_NS + at + length)).collect();
        stops.sort_unstable();
        let mut run = run(&stops);
        let reason = if blocked { OffCpu::Blocked } else { OffCpu::Preempted };
        run.events = receiver_runs(120, &[(START_NS + 300_000, START_NS + 350_000, reason)]);
        let plain = analyze_packets(&run, &AttributionOptions::default());
        run.events.extend(records.iter().map(|&(at, length, amount)| taken(1, START_NS + at, START_NS + at + length, amount)));
        let analysis = analyze_packets(&run, &AttributionOptions::default());
        check(&analysis);
        prop_assert_eq!(analysis.summary.lateness.time_ns, plain.summary.lateness.time_ns);
        let all: i64 = records.iter().filter(|r| r.2 <= r.1).map(|r| r.2).sum();
        let booked: i64 = analysis
            .summary
            .causes
            .iter()
            .filter(|cause| cause.source == "steal")
            .map(|cause| cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns)
            .sum();
        prop_assert!(booked <= all);
    }
}
