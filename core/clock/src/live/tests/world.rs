//! A machine whose true time is known: its counter and clocks do what a test tells them.

use crate::anchor::ClockSource;
use crate::kernel::{KernelState, LeapState, TaiState};
use quaver_abi::cycles::CycleScale;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;

/// CLOCK_REALTIME minus CLOCK_MONOTONIC at the beginning.
const OFFSET_NS: i64 = 1_700_000_000_123_456_789;
/// Cycles each 5 ns: 2.6 GHz.
const CYCLES_PER_5_NS: i128 = 13;

/// What happens to the machine from an instant of true time on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// CLOCK_REALTIME is set by so much.
    Step(i64),
    /// A leap second is inserted; announced some time before.
    Leap,
    /// CLOCK_MONOTONIC and CLOCK_REALTIME run faster by so many parts per billion, and adjtimex tells so or not.
    Faster { ppb: i64, told: bool },
    /// As the former and told, but by `adjtime()`, which may end at any time.
    Slew { ppb: i64 },
    /// The counter jumps by so many cycles.
    Jump(i64),
    /// CLOCK_MONOTONIC stands still for so long, while counter and CLOCK_REALTIME go on.
    Suspend(i64),
    /// The threads are moved to the other CPU, whose counter is ahead by [`World::ahead`].
    OtherCpu,
    /// The kernel gives up the counter for its clock, or takes it again.
    Trust(bool),
}

struct Inner {
    now_ns: i64,
    events: Vec<(i64, Event)>,
    ahead: i64,
    random: Pcg64Mcg,
}

/// The machine; clones are the same one.
#[derive(Clone)]
pub(super) struct World(Rc<RefCell<Inner>>);

impl World {
    pub(super) fn new(seed: u64, events: &[(i64, Event)]) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed);
        let inner = Inner { now_ns: 5_000_000_000, events: events.to_vec(), ahead: 0, random };
        Self(Rc::new(RefCell::new(inner)))
    }

    /// How far the counter of CPU 1 is ahead of that of CPU 0, cycles.
    pub(super) fn ahead(self, cycles: i64) -> Self {
        self.0.borrow_mut().ahead = cycles;
        self
    }

    pub(super) fn now(&self) -> i64 {
        self.0.borrow().now_ns
    }

    /// Lets time pass until then; it never goes back.
    pub(super) fn wait_until(&self, now_ns: i64) {
        let mut inner = self.0.borrow_mut();
        inner.now_ns = inner.now_ns.max(now_ns);
    }

    pub(super) fn random(&self, below: i64) -> i64 {
        (self.0.borrow_mut().random.next_u64() % below as u64) as i64
    }

    /// Each look takes some time, before and after the moment that it shows.
    fn look<T>(&self, at: impl FnOnce(&Self, i64) -> T) -> T {
        let (before, after) = (4 + self.random(9), 4 + self.random(9));
        self.0.borrow_mut().now_ns += before;
        let seen = at(self, self.now());
        self.0.borrow_mut().now_ns += after;
        seen
    }

    fn sum(&self, now: i64, part: impl Fn(i64, Event) -> i128) -> i128 {
        let inner = self.0.borrow();
        inner.events.iter().filter(|(at, _)| *at <= now).map(|(at, event)| part(now - at, *event)).sum()
    }

    pub(super) fn cycles_at(&self, now: i64) -> u64 {
        let jumped = self.sum(now, |_, event| if let Event::Jump(by) = event { by.into() } else { 0 });
        let ahead = if self.cpu_at(now) == 1 { self.0.borrow().ahead } else { 0 };
        (i128::from(now) * CYCLES_PER_5_NS / 5 + jumped + i128::from(ahead)) as u64
    }

    pub(super) fn monotonic_at(&self, now: i64) -> i64 {
        let more = self.sum(now, |since, event| match event {
            Event::Faster { ppb, .. } | Event::Slew { ppb } => {
                (i128::from(since) * i128::from(ppb)).div_euclid(1_000_000_000)
            }
            Event::Suspend(length) => -i128::from(since.min(length)),
            _ => 0,
        });
        now + more as i64
    }

    pub(super) fn realtime_at(&self, now: i64) -> i64 {
        let offset = self.sum(now, |since, event| match event {
            Event::Step(by) => by.into(),
            Event::Leap => -1_000_000_000,
            Event::Suspend(length) => since.min(length).into(),
            _ => 0,
        });
        self.monotonic_at(now) + OFFSET_NS + offset as i64
    }

    fn cpu_at(&self, now: i64) -> u16 {
        (self.sum(now, |_, event| i128::from(matches!(event, Event::OtherCpu))) % 2) as u16
    }

    fn state_at(&self, now: i64) -> KernelState {
        let mut state = KernelState::with_frequency(-12_345);
        for (at, event) in &self.0.borrow().events {
            match event {
                Event::Faster { ppb, told: true } if *at <= now => state.frequency_ppb += ppb,
                Event::Slew { ppb } if *at <= now => {
                    state.slew_ppb += ppb;
                    // As the kernel's: what is still to be worked off may change at any time.
                    state.slew_end_ppb = state.slew_ppb.abs();
                }
                Event::Trust(trusted) if *at <= now => state.counter_trusted = *trusted,
                Event::Leap => {
                    let second = 1_000_000_000;
                    state.leap = match now - at {
                        ..0 if now < at - second => LeapState::None,
                        ..0 => LeapState::InsertPending,
                        since if since < second => LeapState::Within,
                        _ => LeapState::Over,
                    };
                    state.tai = TaiState::Known { offset_s: if now < *at { 37 } else { 38 } };
                }
                _ => {}
            }
        }
        state
    }
}

impl ClockSource for World {
    fn cycles(&mut self) -> (u64, u16) {
        self.look(|world, now| (world.cycles_at(now), world.cpu_at(now)))
    }
    fn monotonic_ns(&mut self) -> i64 {
        self.look(Self::monotonic_at)
    }
    fn realtime_ns(&mut self) -> i64 {
        self.look(Self::realtime_at)
    }
    fn monotonic_raw_ns(&mut self) -> i64 {
        self.look(|_, now| now)
    }
    fn frequency_ppb(&mut self) -> i64 {
        self.kernel_state().frequency_ppb
    }
    fn kernel_state(&mut self) -> KernelState {
        self.state_at(self.now())
    }
    fn scale(&self) -> CycleScale {
        // 10 ppm off, as a scale from a few milliseconds is.
        CycleScale { mult: ((5_u64 << 32) / 13) * 100_001 / 100_000 }
    }
}
