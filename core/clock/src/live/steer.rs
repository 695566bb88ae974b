//! From anchors to the published course: what goes on smoothly, and what opens a new epoch.

use super::corrections::Corrections;
use super::rate::{Line, Rate, RateWindow};
use super::table::{Piece, SHIFT, Table, flags};
use super::{LiveInstant, LiveOptions, LiveState, Mark, MarkKind};
use crate::anchor::{ClockSource, Difference, Paired, pair_clocks};
use crate::counter::Counter;
use crate::cross_core::CrossCore;
use crate::kernel::{KernelState, LeapState};
use quaver_abi::cycles;

/// Brackets tried for each anchor.
const ROUNDS: u32 = 24;
/// Anchors with a wider half-bracket are taken anew: an interrupt came between.
const WIDE_NS: i64 = 500;
/// How much the rate may change unseen: one unit of the kernel's multiplier for a counter of some gigahertz.
const WANDER: f64 = 0.25e-6;
/// Corrections that the kernel tells are marked from this on; smaller ones are within [`WANDER`].
const TOLD_LEAST_PPB: i64 = 250;
/// Error of the rate at the beginning (`nominal_scale` is better than that), and after a break whose cause is unknown.
const UNKNOWN_RATE: f64 = 1e-3;
/// Error of the rate after a change that nobody told, beside what the change itself shows.
const CHANGED_RATE: f64 = 50e-6;
/// Residuals above this many bounds end the trust in the counter.
const BREAK_BOUNDS: u64 = 5;
/// Anchors that must agree before the counter is trusted again.
const AGREEMENT: u32 = 3;
/// How long before it takes over a piece is published.
const MARGIN_NS: u64 = 1_000_000;
/// A counter that went back farther than this begins anew: older readings cannot be converted any more.
const BACK_MOST_NS: u64 = 100_000_000;

/// One look at all clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    paired: Paired,
    state: KernelState,
}

impl Reading {
    fn take(clocks: &mut impl ClockSource) -> Self {
        let mut paired = pair_clocks(clocks, ROUNDS);
        for _ in 0..3 {
            if paired.anchor.half_bracket_ns <= WIDE_NS {
                break;
            }
            let again = pair_clocks(clocks, ROUNDS);
            if again.anchor.half_bracket_ns < paired.anchor.half_bracket_ns {
                paired = again;
            }
        }
        Self { paired, state: clocks.kernel_state() }
    }

    fn cycles(&self) -> u64 {
        self.paired.anchor.cycles
    }

    fn ns(&self) -> i64 {
        self.paired.anchor.monotonic_ns
    }

    fn half_ns(&self) -> i64 {
        self.paired.anchor.half_bracket_ns
    }
}

/// What the readings are converted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Counter,
    /// The kernel's time, and how many anchors agreed since.
    Kernel(u32),
}

/// The clock's course as anchors come in. Knows no thread and no time but what it is given.
#[derive(Debug)]
pub(super) struct Steering {
    /// The counter is CLOCK_MONOTONIC itself.
    identity: bool,
    cross_ns: u64,
    interval_ns: u64,
    last: Reading,
    line: Line,
    window: RateWindow,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC as published in this epoch, and what all anchors of it allow.
    offset_ns: i64,
    offset_error_ns: u64,
    offset: Difference,
    corrections: Corrections,
    epoch: u32,
    mode: Mode,
    /// Smaller readings may be from before and after the counter went back.
    unclear_until: u64,
    /// The counter went back so far that readings from before may look as if they were of the future.
    forgot: bool,
}

impl Steering {
    /// Takes the first anchor.
    pub(super) fn begin(clocks: &mut impl ClockSource, options: &LiveOptions) -> (Self, Piece) {
        let reading = Reading::take(clocks);
        let nominal = clocks.scale().mult as f64 / (1_u64 << cycles::SHIFT) as f64;
        let rate = Rate { ns_per_cycle: nominal, error: nominal * UNKNOWN_RATE };
        let cross_ns = options.cross_core.as_ref().map_or(0, CrossCore::bound_ns);
        let mut steering = Self {
            identity: options.counter == Counter::MonotonicClock,
            cross_ns: u64::try_from(cross_ns).unwrap_or(0),
            interval_ns: u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX).max(1),
            last: reading,
            line: Line::unknown(rate),
            window: RateWindow::new(rate),
            offset_ns: 0,
            offset_error_ns: 0,
            offset: reading.paired.offset,
            corrections: Corrections::begin(reading.state, reading.ns()),
            epoch: 0,
            mode: Mode::Counter,
            unclear_until: 0,
            forgot: false,
        };
        if !steering.identity && !reading.state.counter_trusted {
            steering.mode = Mode::Kernel(0);
        }
        steering.settle_offset(&reading);
        steering.settle_line(&reading);
        let piece = steering.piece();
        (steering, piece)
    }

    /// Takes an anchor and publishes what follows. `was_set`: the kernel said that CLOCK_REALTIME was set.
    pub(super) fn anchor(
        &mut self,
        clocks: &mut impl ClockSource,
        table: &Table,
        was_set: bool,
    ) -> Vec<Mark> {
        let reading = Reading::take(clocks);
        let residual = self.residual(&reading);
        let kinds = self.breaks(&reading, residual, was_set);
        let mut marks = self.notices(&reading);
        if !kinds.is_empty() {
            let (from, until) = self.open_epoch(&reading, residual, &kinds, table);
            marks.extend(kinds.into_iter().map(|kind| self.mark(from, until, kind)));
        } else if let Mode::Kernel(agreed) = self.mode {
            self.settle_line(&reading);
            if reading.cycles() >= self.unclear_until {
                marks.extend(self.agree(agreed + 1, &reading));
                table.append(&self.piece());
            }
        } else {
            self.settle_line(&reading);
            self.offset.meet(reading.paired.offset);
            let margin = (MARGIN_NS as f64 / self.line.rate.ns_per_cycle) as u64;
            let target = self.piece();
            table.publish(|| clocks.cycles().0, margin, |old, from| join(old, &target, from));
        }
        self.last = reading;
        marks
    }

    /// Another anchor agreed with those since the counter was given up.
    fn agree(&mut self, agreed: u32, reading: &Reading) -> Option<Mark> {
        self.mode = Mode::Kernel(agreed);
        if agreed < AGREEMENT || !reading.state.counter_trusted {
            return None;
        }
        self.mode = Mode::Counter;
        self.epoch += 1;
        Some(self.mark(reading.cycles(), reading.cycles(), MarkKind::CounterAgain))
    }

    /// Kernel minus prediction, nanoseconds, and the bound within which it ought to be.
    fn residual(&self, reading: &Reading) -> (i64, u64) {
        if self.identity {
            return (0, 1);
        }
        let (predicted_ns, bound_ns) = self.line.at(reading.cycles());
        let other_cpu = reading.paired.anchor.cpu != self.last.paired.anchor.cpu;
        let cross_ns = if other_cpu { self.cross_ns } else { 0 };
        (reading.ns().saturating_sub(predicted_ns), bound_ns + reading.half_ns() as u64 + cross_ns)
    }

    /// What makes it impossible to go on smoothly.
    fn breaks(&self, reading: &Reading, (residual_ns, bound_ns): (i64, u64), was_set: bool) -> Vec<MarkKind> {
        let mut kinds = Vec::new();
        let elapsed_ns = reading.ns().saturating_sub(self.last.ns()).max(0) as u64;
        if !self.identity && self.last.state.counter_trusted && !reading.state.counter_trusted {
            kinds.push(MarkKind::ClocksourceChanged);
        }
        let change_ppb = self.told_change_ppb(reading);
        if change_ppb != 0 {
            kinds.push(MarkKind::RateSet { change_ppb });
        }
        let told_ns = (u128::from(change_ppb.unsigned_abs()) * u128::from(elapsed_ns) / 1_000_000_000) as u64;
        let beyond_ns = residual_ns.unsigned_abs().saturating_sub(told_ns);
        if beyond_ns > bound_ns.saturating_mul(BREAK_BOUNDS) {
            kinds.push(MarkKind::Parted { residual_ns });
        } else if beyond_ns > bound_ns {
            kinds.push(MarkKind::RateChanged { residual_ns });
        }
        let step_ns = reading.paired.offset.middle() - self.offset_ns;
        if was_set || !self.offset.meets(reading.paired.offset) {
            let leap = matches!(reading.state.leap, LeapState::Within | LeapState::Over)
                || matches!(self.last.state.leap, LeapState::InsertPending | LeapState::DeletePending);
            let of_a_second = (step_ns.abs() - 1_000_000_000).abs() < 1_000_000;
            kinds.push(if leap && of_a_second {
                MarkKind::LeapSecond { step_ns }
            } else {
                MarkKind::RealtimeStepped { step_ns }
            });
        }
        kinds
    }

    fn told_change_ppb(&self, reading: &Reading) -> i64 {
        let change_ppb = reading.state.rate_ppb() - self.last.state.rate_ppb();
        if change_ppb.abs() >= TOLD_LEAST_PPB && !self.identity { change_ppb } else { 0 }
    }

    /// What is worth a mark, but does not disturb the course.
    fn notices(&mut self, reading: &Reading) -> Vec<Mark> {
        let mut kinds = Vec::new();
        let (before, now) = (&self.last.state, &reading.state);
        if before.leap != now.leap && matches!(now.leap, LeapState::InsertPending | LeapState::DeletePending)
        {
            kinds.push(MarkKind::LeapPending { inserted: now.leap == LeapState::InsertPending });
        }
        if before.tai != now.tai {
            kinds.push(MarkKind::TaiSet { tai: now.tai });
        }
        if let Some(silent_ns) = self.corrections.read(*now, reading.ns()) {
            kinds.push(MarkKind::Uncorrected { silent_ns });
        }
        kinds.into_iter().map(|kind| self.mark(self.last.cycles(), reading.cycles(), kind)).collect()
    }

    fn mark(&self, from_cycles: u64, until_cycles: u64, kind: MarkKind) -> Mark {
        Mark { from_cycles, until_cycles, epoch: self.epoch, kind }
    }

    /// Begins anew at this anchor. The stretch since the last one gets a piece of its own, for readings that are converted
    /// late; returned is where it lies.
    fn open_epoch(
        &mut self,
        reading: &Reading,
        (residual_ns, bound_ns): (i64, u64),
        kinds: &[MarkKind],
        table: &Table,
    ) -> (u64, u64) {
        self.epoch += 1;
        let stretch = Stretch::of(&self.line, reading);
        let mut unsure_ns = residual_ns.unsigned_abs().saturating_add(bound_ns);
        for kind in kinds {
            unsure_ns = unsure_ns.saturating_add(self.restart_for(*kind, reading));
        }
        self.settle_line(reading);
        self.forgot |= stretch.forgets;
        let mut live = self.piece();
        if stretch.forgets {
            live.flags |= flags::BARRIER;
        } else {
            self.unclear_until = stretch.until;
            table.append(&Piece {
                from: stretch.from,
                base_ns: stretch.base_ns,
                after: fixed(stretch.ns_per_cycle),
                drift: 0,
                knee: live.knee.max(stretch.until - stretch.from),
                bound_ns: live.bound_ns.saturating_add(unsure_ns),
                flags: live.flags & !flags::KERNEL_READ,
                ..live
            });
            live.base_ns = live.at(stretch.until).monotonic_ns;
            live.from = stretch.until;
        }
        table.append(&live);
        (stretch.from, stretch.until)
    }

    /// Forgets what a break has made void. Returned is by how much it makes the stretch before this anchor unsure.
    fn restart_for(&mut self, kind: MarkKind, reading: &Reading) -> u64 {
        let rate = self.window.rate();
        let elapsed_ns = (reading.ns() - self.last.ns()).max(1) as f64;
        let (factor, error) = match kind {
            MarkKind::RateSet { change_ppb } => {
                let change = change_ppb as f64 * 1e-9;
                // The kernel applies it some milliseconds later.
                (1.0 + change, rate.error + (change.abs() + WANDER) * rate.ns_per_cycle)
            }
            MarkKind::RateChanged { residual_ns } => {
                let change = 2.0 * residual_ns.unsigned_abs() as f64 / elapsed_ns;
                (1.0, (change + CHANGED_RATE) * rate.ns_per_cycle)
            }
            MarkKind::Parted { .. } | MarkKind::ClocksourceChanged => {
                self.mode = Mode::Kernel(0);
                (1.0, UNKNOWN_RATE * rate.ns_per_cycle)
            }
            MarkKind::RealtimeStepped { step_ns } | MarkKind::LeapSecond { step_ns } => {
                self.settle_offset(reading);
                return step_ns.unsigned_abs();
            }
            MarkKind::CoresDisagree { .. }
            | MarkKind::CounterAgain
            | MarkKind::LeapPending { .. }
            | MarkKind::TaiSet { .. }
            | MarkKind::Uncorrected { .. } => return 0,
        };
        self.window = RateWindow::new(Rate { ns_per_cycle: rate.ns_per_cycle * factor, error });
        self.line = Line::unknown(rate);
        ((factor - 1.0).abs() * elapsed_ns).ceil() as u64
    }

    /// The course goes through this anchor, or through its prediction where the anchor's bracket is wider than that.
    fn settle_line(&mut self, reading: &Reading) {
        let (cycles, ns, half_ns) = (reading.cycles(), reading.ns(), reading.half_ns());
        if self.identity {
            let rate = Rate { ns_per_cycle: 1.0, error: 0.0 };
            self.line = Line { cycles, ns: cycles.cast_signed(), half_ns: 0, rate };
            return;
        }
        // The anchors' thread may be anywhere, and the counters of two CPUs that far apart.
        self.window.push(cycles, ns, half_ns.saturating_add(self.cross_ns.div_ceil(2) as i64));
        let mut rate = self.window.rate();
        rate.error += rate.ns_per_cycle * (WANDER + reading.state.slew_end_ppb as f64 * 1e-9);
        let (predicted_ns, bound_ns) = self.line.at(cycles);
        self.line = if bound_ns < half_ns as u64 {
            Line { cycles, ns: predicted_ns, half_ns: bound_ns as i64, rate }
        } else {
            Line { cycles, ns, half_ns, rate }
        };
    }

    fn settle_offset(&mut self, reading: &Reading) {
        let offset = reading.paired.offset;
        self.offset = offset;
        self.offset_ns = offset.middle();
        self.offset_error_ns = (offset.most - offset.least).unsigned_abs().div_ceil(2);
    }

    /// The course from the last anchor on.
    fn piece(&self) -> Piece {
        let Line { cycles, ns, half_ns, rate } = self.line;
        // The half-bracket counts twice: for this anchor, and because the next one tells of a deviation only beyond its own.
        // Two nanoseconds are for the whole ones that the kernel's clock and this one count in.
        let bound_ns = 2 * half_ns as u64 + 2 + self.offset_error_ns + self.cross_ns;
        let mut flags = if self.identity { flags::KERNEL_COUNTER } else { 0 };
        if matches!(self.mode, Mode::Kernel(_)) {
            flags |= flags::KERNEL_READ;
        }
        if self.forgot {
            flags |= flags::MAYBE_OLDER;
        }
        Piece {
            from: cycles,
            base_ns: ns,
            after: fixed(rate.ns_per_cycle),
            bend: 0,
            knee: (self.interval_ns as f64 / rate.ns_per_cycle) as u64,
            offset_ns: self.offset_ns,
            bound_ns,
            drift: fixed(rate.error),
            epoch: self.epoch,
            flags,
        }
    }

    /// What is known from the beginning.
    pub(super) fn first_marks(&self, options: &LiveOptions) -> Vec<Mark> {
        let offset_ns = options.cross_core.as_ref().map_or(0, |c| c.proven_offset_ns().max(c.backward_ns()));
        let kind = MarkKind::CoresDisagree { offset_ns };
        (offset_ns > 0).then(|| self.mark(self.last.cycles(), self.last.cycles(), kind)).into_iter().collect()
    }

    /// Time until the next anchor ought to be taken: the clock begins with short ones, so that the rate is soon known.
    pub(super) fn wait_ns(&self) -> u64 {
        const FIRST_NS: u64 = 10_000_000;
        (self.window.span_ns() as u64).clamp(FIRST_NS.min(self.interval_ns), self.interval_ns)
    }

    /// The clock as it is now.
    pub(super) fn state(&self) -> LiveState {
        let bound_ns = self.piece().bound_ns;
        LiveState {
            epoch: self.epoch,
            fallback: self.identity || matches!(self.mode, Mode::Kernel(_)),
            counter_hz: 1e9 / self.line.rate.ns_per_cycle,
            rate_error: if self.identity {
                0.0
            } else {
                self.window.rate().error / self.line.rate.ns_per_cycle
            },
            half_bracket_ns: u32::try_from(self.line.half_ns).unwrap_or(u32::MAX),
            bound_ns: u32::try_from(bound_ns).unwrap_or(u32::MAX),
            cross_core_ns: u32::try_from(self.cross_ns).unwrap_or(u32::MAX),
            kernel: self.last.state,
        }
    }
}

/// Where a break happened, and one line for it.
struct Stretch {
    from: u64,
    until: u64,
    base_ns: i64,
    ns_per_cycle: f64,
    /// The counter went back so far that no line is drawn.
    forgets: bool,
}

impl Stretch {
    /// Between the last anchor and the one that shows the break. Where the counter went back (or CLOCK_MONOTONIC ran ahead),
    /// the same reading may have come before and after it, and the stretch is wider by that much on both sides.
    fn of(line: &Line, reading: &Reading) -> Self {
        let (cycles, ns) = (reading.cycles(), reading.ns());
        let elapsed_ns = ns.saturating_sub(line.ns).max(0) as f64;
        let expected = line.cycles.saturating_add((elapsed_ns / line.rate.ns_per_cycle) as u64);
        if cycles >= expected {
            let ns_per_cycle = elapsed_ns / (cycles - line.cycles).max(1) as f64;
            return Self { from: line.cycles, until: cycles, base_ns: line.ns, ns_per_cycle, forgets: false };
        }
        let back = expected - cycles;
        let ns_per_cycle = line.rate.ns_per_cycle;
        let from = line.cycles.saturating_sub(back);
        let base_ns = ns.saturating_sub(((expected - line.cycles) as f64 * ns_per_cycle) as i64);
        let forgets = back as f64 * ns_per_cycle > BACK_MOST_NS as f64;
        Self { from, until: expected, base_ns, ns_per_cycle, forgets }
    }
}

/// A rate in the table's fixed point.
fn fixed(ns_per_cycle: f64) -> u64 {
    (ns_per_cycle * (1_u64 << SHIFT) as f64) as u64
}

/// `target` from `from` on, but beginning where `old` stands there: what is between them is slewed in up to the knee.
fn join(old: &Piece, target: &Piece, from: u64) -> Piece {
    let (stands, ought) = (old.at(from), target.at(from));
    let behind_ns = i128::from(ought.monotonic_ns) - i128::from(stands.monotonic_ns);
    let bend = (behind_ns << SHIFT) / i128::from(target.knee.max(1));
    // Never slower than half the rate; the bound would be wide long before.
    let bend = bend.clamp(-i128::from(target.after / 2), i128::from(target.after)) as i64;
    Piece { from, base_ns: stands.monotonic_ns, bend, bound_ns: ought.bound_ns + 1, ..*target }
}

/// How far a reading of another CPU may be ahead of one taken here later, cycles: a thousandth of the interval.
pub(super) fn slack(piece: &Piece) -> u64 {
    piece.knee / 1_000
}

/// The kernel's time now, less the age of the reading.
pub(super) fn kernel_instant(clocks: &mut impl ClockSource, cycles: u64, piece: &Piece) -> LiveInstant {
    let Paired { anchor, offset } = pair_clocks(clocks, 3);
    let offset_error_ns = (offset.most - offset.least).unsigned_abs().div_ceil(2);
    let line = Piece {
        from: anchor.cycles,
        base_ns: anchor.monotonic_ns,
        bend: 0,
        bound_ns: anchor.half_bracket_ns as u64 + offset_error_ns + 2,
        // The counter may have changed its rate since, too.
        drift: piece.drift.max(piece.after / 1_000),
        ..*piece
    };
    let point = line.at(cycles);
    // A reading of the future is one from before the counter went back.
    let known = cycles <= anchor.cycles.saturating_add(slack(piece));
    let bound_ns = if known { u32::try_from(point.bound_ns).unwrap_or(u32::MAX) } else { u32::MAX };
    LiveInstant {
        realtime_ns: point.monotonic_ns.wrapping_add(offset.middle()),
        monotonic_ns: point.monotonic_ns,
        bound_ns,
        epoch: piece.epoch,
        fallback: true,
    }
}
