//! The hot loops: no call to the kernel, no allocation, no locked instruction, one counter read a turn.

use quaver_abi::cycles::CycleScale;
use quaver_abi::record::GapRecord;
use quaver_clock::CycleCounter;
use quaver_host::segment::SegmentWriter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a loop has come, for other threads to read.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct LoopProgress {
    turns: AtomicU64,
}

impl LoopProgress {
    /// Turns made so far; a tight loop updates it once in 1024.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// What a loop counted. Cycles are those of the counter that it ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopStatistics {
    /// Turns made (paced: deadlines stamped).
    pub turns: u64,
    /// First reading of the counter (paced: the first deadline).
    pub first_cycles: u64,
    /// Last reading.
    pub last_cycles: u64,
    /// Shortest turn (paced: least lateness), cycles; `u64::MAX` if there was none.
    pub shortest_cycles: u64,
    /// Longest turn (paced: greatest lateness), cycles.
    pub longest_cycles: u64,
    /// Turns of at least the threshold, recorded or not (paced: 0).
    pub gaps: u64,
    /// Their time together, cycles (paced: 0).
    pub gap_cycles: u64,
    /// Turns within which the thread changed its CPU (paced: stamps on another CPU than the one before).
    pub cpu_changes: u64,
    /// Whether the stop flag ended it before its time.
    pub stopped: bool,
}

impl Default for LoopStatistics {
    fn default() -> Self {
        Self {
            turns: 0,
            first_cycles: 0,
            last_cycles: 0,
            shortest_cycles: u64::MAX,
            longest_cycles: 0,
            gaps: 0,
            gap_cycles: 0,
            cpu_changes: 0,
            stopped: false,
        }
    }
}

impl LoopStatistics {
    /// Time from the first reading to the last, cycles. In a tight loop it is the sum of all turns, exactly.
    pub fn span_cycles(&self) -> u64 {
        self.last_cycles.saturating_sub(self.first_cycles)
    }
}

/// Bit of [`GapRecord::flags`]: the thread changed CPU inside the gap.
pub(super) const FLAG_CPU_CHANGED: u16 = 1 << 0;

/// Turns of a tight loop between two looks at the clock's end, the stop flag and the progress: some 20 µs.
pub(super) const BATCH: u64 = 1_024;

/// Limits of a tight loop, cycles.
pub(super) struct TightLimits {
    pub(super) threshold: u64,
    pub(super) duration: u64,
}

/// Reads the counter over and over and records each turn of at least the threshold. A turn reaches from one
/// reading to the next, so the turns together are the whole time, and writing a record is part of the next turn.
#[inline(never)]
pub(super) fn tight_loop<C: CycleCounter>(
    counter: C,
    limits: &TightLimits,
    writer: &mut SegmentWriter<GapRecord>,
    progress: &LoopProgress,
    stop: &AtomicBool,
) -> LoopStatistics {
    // One pass over a batch before the measured part brings code and branch history into their caches.
    warm_up(counter);
    let (first, first_cpu) = counter.read_with_cpu();
    let end = first.saturating_add(limits.duration);
    let mut counts = LoopStatistics { first_cycles: first, ..LoopStatistics::default() };
    let (mut before, mut before_cpu) = (first, first_cpu);
    // Locals, since `counts` is lent to the cold path and would be read and written in memory each turn.
    let (mut turns, mut shortest, mut longest) = (0u64, u64::MAX, 0u64);
    loop {
        for _ in 0..BATCH {
            let (after, cpu) = counter.read_with_cpu();
            // Wrapping, so that a counter that steps back shows as an enormous gap and not as a panic.
            let took = after.wrapping_sub(before);
            shortest = shortest.min(took);
            longest = longest.max(took);
            if took >= limits.threshold || cpu != before_cpu {
                let turn = GapRecord {
                    index: turns,
                    before_cycles: before,
                    after_cycles: after,
                    cpu,
                    ..GapRecord::default()
                };
                gap(&mut counts, writer, turn, before_cpu, limits.threshold);
            }
            (before, before_cpu) = (after, cpu);
            turns += 1;
        }
        progress.turns.store(turns, Ordering::Relaxed);
        // A loop that was held up past its time has had all of it, whoever asked meanwhile.
        let over = before >= end;
        counts.stopped = !over && stop.load(Ordering::Relaxed);
        if over || counts.stopped {
            break;
        }
    }
    (counts.turns, counts.last_cycles) = (turns, before);
    (counts.shortest_cycles, counts.longest_cycles) = (shortest, longest);
    counts
}

/// Out of the way of the loop's common case.
#[cold]
#[inline(never)]
fn gap(
    counts: &mut LoopStatistics,
    writer: &mut SegmentWriter<GapRecord>,
    mut turn: GapRecord,
    before_cpu: u16,
    threshold: u64,
) {
    if turn.cpu != before_cpu {
        counts.cpu_changes += 1;
        turn.flags = FLAG_CPU_CHANGED;
    }
    let took = turn.after_cycles.wrapping_sub(turn.before_cycles);
    if took >= threshold {
        counts.gaps += 1;
        counts.gap_cycles = counts.gap_cycles.saturating_add(took);
        writer.push(turn);
    }
}

#[inline(always)]
fn warm_up<C: CycleCounter>(counter: C) {
    for _ in 0..BATCH {
        std::hint::black_box(counter.read_with_cpu());
    }
}

/// Limits of a paced loop. The period is kept with 32 fractional bits of a cycle, so that a million deadlines
/// are off by less than a thousandth of a cycle.
pub(super) struct PacedLimits {
    period_cycles: u64,
    period_fraction: u64,
    count: u64,
    lead_cycles: u64,
}

impl PacedLimits {
    pub(super) fn new(period_ns: u64, count: u64, scale: CycleScale) -> Self {
        // cycles = ns / (mult / 2^32); 32 more bits for the fraction.
        let fixed = (u128::from(period_ns) << 64) / u128::from(scale.mult);
        Self {
            period_cycles: (fixed >> 32) as u64,
            period_fraction: fixed as u64 & 0xffff_ffff,
            count,
            lead_cycles: scale.cycles(10_000),
        }
    }
}

/// Waits busily for absolute deadlines and records a stamp at each. The first lies 10 µs ahead.
#[inline(never)]
pub(super) fn paced_loop<C: CycleCounter>(
    counter: C,
    limits: &PacedLimits,
    writer: &mut SegmentWriter<GapRecord>,
    progress: &LoopProgress,
    stop: &AtomicBool,
) -> LoopStatistics {
    warm_up(counter);
    let (now, mut before_cpu) = counter.read_with_cpu();
    let mut deadline = now + limits.lead_cycles;
    let mut fraction = 0u64;
    let mut counts = LoopStatistics { first_cycles: deadline, ..LoopStatistics::default() };
    for index in 0..limits.count {
        let (stamp, cpu) = loop {
            let (stamp, cpu) = counter.read_with_cpu();
            if stamp >= deadline {
                break (stamp, cpu);
            }
        };
        let late = stamp - deadline;
        counts.shortest_cycles = counts.shortest_cycles.min(late);
        counts.longest_cycles = counts.longest_cycles.max(late);
        let changed = u16::from(cpu != before_cpu);
        counts.cpu_changes += u64::from(changed);
        before_cpu = cpu;
        let flags = changed * FLAG_CPU_CHANGED;
        writer.push(GapRecord {
            index,
            before_cycles: deadline,
            after_cycles: stamp,
            cpu,
            flags,
            reserved: 0,
        });
        counts.turns = index + 1;
        counts.last_cycles = stamp;
        progress.turns.store(index + 1, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            counts.stopped = index + 1 < limits.count;
            break;
        }
        fraction += limits.period_fraction;
        deadline += limits.period_cycles + (fraction >> 32);
        fraction &= 0xffff_ffff;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::segment::SegmentHeader;
    use std::path::PathBuf;
    use zerocopy::FromBytes;

    /// A counter that follows a script: each reading adds the next step (and, at its end, the last for ever).
    /// Being `Copy`, as loops want it, it keeps its place outside itself.
    #[derive(Clone, Copy)]
    struct Scripted {
        steps: &'static [(u64, u16)],
        state: &'static [AtomicU64; 2],
    }

    impl Scripted {
        fn new(steps: Vec<(u64, u16)>) -> Self {
            Self { steps: steps.leak(), state: Box::leak(Box::default()) }
        }
    }

    impl CycleCounter for Scripted {
        fn read(&self) -> u64 {
            self.read_with_cpu().0
        }

        fn read_with_cpu(&self) -> (u64, u16) {
            let at = self.state[0].fetch_add(1, Ordering::Relaxed) as usize;
            let (step, cpu) = self.steps[at.min(self.steps.len() - 1)];
            (self.state[1].fetch_add(step, Ordering::Relaxed) + step, cpu)
        }
    }

    struct Recorded {
        counts: LoopStatistics,
        gaps: Vec<GapRecord>,
        lost: u64,
        progress: u64,
    }

    fn record(
        capacity: u64,
        run: impl FnOnce(&mut SegmentWriter<GapRecord>, &LoopProgress) -> LoopStatistics,
    ) -> Recorded {
        let dir = tempfile::tempdir().unwrap();
        let path: PathBuf = dir.path().join("gaps.seg");
        let mut writer = SegmentWriter::create(&path, capacity).unwrap();
        let progress = LoopProgress::default();
        let counts = run(&mut writer, &progress);
        let lost = writer.finish().unwrap().lost;
        let octets = std::fs::read(&path).unwrap();
        SegmentHeader::check::<GapRecord>(&octets).unwrap();
        let gaps = octets[64..].chunks_exact(32).map(|c| GapRecord::read_from_bytes(c).unwrap()).collect();
        Recorded { counts, gaps, lost, progress: progress.turns() }
    }

    /// Steps of the warm-up and of the first reading.
    fn before_the_loop() -> Vec<(u64, u16)> {
        vec![(20, 3); BATCH as usize + 1]
    }

    #[test]
    fn tight_loop_accounts_for_every_cycle() {
        let mut steps = before_the_loop();
        let first = 20 * (BATCH + 1);
        // Turns 0 to 2: 20, 500 (below), 1000 (at the threshold); turn 3: 7000 with a change of CPU;
        // turn 4: 21 with another; then 20 each.
        steps.extend([(20, 3), (500, 3), (1_000, 3), (7_000, 4), (21, 3), (20, 3)]);
        let counter = Scripted::new(steps);
        let limits = TightLimits { threshold: 1_000, duration: 100_000 };
        let stop = AtomicBool::new(false);
        let seen = record(10, |writer, progress| tight_loop(counter, &limits, writer, progress, &stop));
        let record = |index, before, after, cpu, flags| GapRecord {
            index,
            before_cycles: before,
            after_cycles: after,
            cpu,
            flags,
            reserved: 0,
        };
        assert_eq!(
            seen.gaps,
            [
                record(2, first + 520, first + 1_520, 3, 0),
                record(3, first + 1_520, first + 8_520, 4, FLAG_CPU_CHANGED),
            ]
        );
        // 91,459 cycles are left for turns of 20; loops end with whole batches.
        let turns = (5 + (100_000u64 - 8_541).div_ceil(20)).next_multiple_of(BATCH);
        let counts = seen.counts;
        assert_eq!((counts.turns, seen.progress), (turns, turns));
        assert_eq!((counts.gaps, counts.gap_cycles, counts.cpu_changes), (2, 8_000, 2));
        assert_eq!((counts.shortest_cycles, counts.longest_cycles), (20, 7_000));
        assert_eq!(counts.span_cycles(), 8_541 + (turns - 5) * 20);
        assert!(!counts.stopped && seen.lost == 0);
    }

    #[test]
    fn tight_loop_counts_gaps_that_find_no_room() {
        let mut steps = before_the_loop();
        steps.push((2_000, 0));
        let counter = Scripted::new(steps);
        let limits = TightLimits { threshold: 1_000, duration: 1 };
        let stop = AtomicBool::new(false);
        let seen = record(10, |writer, progress| tight_loop(counter, &limits, writer, progress, &stop));
        assert_eq!((seen.gaps.len() as u64, seen.lost), (10, BATCH - 10));
        assert_eq!((seen.counts.gaps, seen.counts.gap_cycles), (BATCH, BATCH * 2_000));
    }

    #[test]
    fn stop_flag_ends_the_tight_loop_after_a_batch() {
        let counter = Scripted::new(vec![(20, 0)]);
        let limits = TightLimits { threshold: 1_000, duration: u64::MAX };
        let stop = AtomicBool::new(true);
        let seen = record(1, |writer, progress| tight_loop(counter, &limits, writer, progress, &stop));
        assert_eq!((seen.counts.turns, seen.counts.stopped), (BATCH, true));
    }

    fn paced(period_ns: u64, count: u64) -> PacedLimits {
        // 3 cycles a nanosecond.
        PacedLimits::new(period_ns, count, CycleScale { mult: (1 << 32) / 3 })
    }

    #[test]
    fn paced_loop_stamps_every_deadline_and_keeps_the_schedule_after_a_gap() {
        let mut steps = before_the_loop();
        // 30,000 cycles of lead in steps of 30 and one more, then one gap of 10 periods (3,000 cycles each) and 7 cycles.
        steps.extend(vec![(30, 0); 1_001]);
        steps.push((30_007, 0));
        steps.push((10, 0));
        let counter = Scripted::new(steps);
        let stop = AtomicBool::new(false);
        let seen =
            record(40, |writer, progress| paced_loop(counter, &paced(1_000, 40), writer, progress, &stop));
        assert_eq!((seen.gaps.len(), seen.counts.turns, seen.progress, seen.lost), (40, 40, 40, 0));
        let late: Vec<u64> = seen.gaps.iter().map(|gap| gap.after_cycles - gap.before_cycles).collect();
        for pair in seen.gaps.windows(2) {
            assert!((3_000..=3_001).contains(&(pair[1].before_cycles - pair[0].before_cycles)));
            assert_eq!(pair[1].index, pair[0].index + 1);
            assert!(pair[1].after_cycles > pair[0].after_cycles);
        }
        // The first deadline was met, the ten within the gap are late by ever less, the rest are on time.
        assert!(late[0] < 30, "{late:?}");
        let caught: Vec<u64> = late[1..11].to_vec();
        assert!(caught[0] > 26_000 && caught.windows(2).all(|w| w[1] < w[0]), "{late:?}");
        assert!(late[12..].iter().all(|late| *late <= 10), "{late:?}");
        assert_eq!(seen.counts.longest_cycles, caught[0]);
        assert_eq!(seen.counts.shortest_cycles, *late.iter().min().unwrap());
    }

    #[test]
    fn paced_deadlines_do_not_drift() {
        // 7.41 us at 2.6 GHz is no whole number of cycles: 19,266. At 2.601 GHz it is 19,273.41.
        let scale = CycleScale { mult: ((1u64 << 32) as f64 / 2.601).round() as u64 };
        let limits = PacedLimits::new(7_410, 1, scale);
        let exact = 7_410.0 * (1u64 << 32) as f64 / scale.mult as f64;
        let kept = limits.period_cycles as f64 + limits.period_fraction as f64 / (1u64 << 32) as f64;
        assert!((kept - exact).abs() * 1e6 < 1e-3, "{kept} {exact}");
        assert_eq!(limits.period_cycles, 19_273);
    }

    #[test]
    fn stop_flag_ends_the_paced_loop() {
        let counter = Scripted::new(vec![(20, 0)]);
        let stop = AtomicBool::new(true);
        let seen =
            record(5, |writer, progress| paced_loop(counter, &paced(1_000, 5), writer, progress, &stop));
        assert_eq!((seen.counts.turns, seen.counts.stopped), (1, true));
    }
}
