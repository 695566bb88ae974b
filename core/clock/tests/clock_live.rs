//! The live clock on this machine, against the kernel's own readings.
//!
//! What is looked for (drift, a correction by a daemon, a course that is slewed wrongly) needs hundreds of anchors, which
//! come here ten times as often as usual.

#[path = "../../../testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;

use privileged::privileged;
use quaver_clock::live::{LiveClock, LiveInstant, LiveOptions, LiveReader, MarkKind};
use quaver_clock::{Counter, CounterSupport, CycleCounter, check_cross_core, monotonic_ns, realtime_ns};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Held while the machine's clock is set by a nanosecond, so that no other test of this file sees that.
static SETTING: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    SETTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn counter() -> Counter {
    CounterSupport::detect(Path::new("/")).counter
}

fn options() -> LiveOptions {
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    let cpus: Vec<u16> = (0..64).filter(|cpu| cpus.is_set((*cpu).into())).take(4).collect();
    let cross_core = check_cross_core(counter(), &cpus, Duration::from_millis(10)).unwrap();
    println!("{cross_core:?}");
    LiveOptions { cross_core: Some(cross_core), ..LiveOptions::new(counter()) }
}

/// A reading of the counter between two of the kernel's clocks: the converted value must lie between them, widened by the
/// bound.
struct Bracketed {
    realtime_ns: (i64, i64),
    monotonic_ns: (i64, i64),
    instant: LiveInstant,
}

impl Bracketed {
    fn take(reader: &LiveReader, counter: Counter) -> Self {
        let begin = (realtime_ns(), monotonic_ns());
        let cycles = counter.read();
        let end = (monotonic_ns(), realtime_ns());
        let instant = reader.convert(cycles);
        Self { realtime_ns: (begin.0, end.1), monotonic_ns: (begin.1, end.0), instant }
    }

    fn holds(&self) -> bool {
        let meets = |ns: i64, (from, until): (i64, i64)| {
            let bound_ns = i64::from(self.instant.bound_ns);
            ns + bound_ns >= from && ns - bound_ns <= until
        };
        meets(self.instant.realtime_ns, self.realtime_ns)
            && meets(self.instant.monotonic_ns, self.monotonic_ns)
    }
}

fn conversions_hold(options: LiveOptions, anchors: u64) {
    let counter = options.counter;
    let clock = LiveClock::start(options).unwrap();
    let reader = clock.reader();
    let (mut bounds, mut held) = (Vec::new(), 0);
    while clock.anchors() < anchors {
        let sample = Bracketed::take(&reader, counter);
        held += usize::from(sample.holds());
        bounds.push(sample.instant.bound_ns);
        std::thread::sleep(Duration::from_micros(100));
    }
    bounds.sort_unstable();
    let at = |share: f64| bounds[((bounds.len() - 1) as f64 * share) as usize];
    let quantiles = (at(0.0), at(0.5), at(0.99), at(1.0));
    println!("{held} of {} within the bound; bound {quantiles:?} ns; {:?}", bounds.len(), clock.state());
    println!("{} anchors, {:?}", clock.anchors(), clock.marks());
    assert!(held as f64 >= 0.999 * bounds.len() as f64, "{held} of {}", bounds.len());
    // What the counters of two CPUs may differ by is in each bound, and found the less exactly the busier the machine is.
    let apart_ns = clock.state().cross_core_ns;
    assert!(
        at(0.5) <= 150 + apart_ns,
        "the median bound is {} ns, of which {apart_ns} between CPUs",
        at(0.5)
    );
}

#[test]
fn conversions_between_600_anchors_meet_the_kernels_brackets() {
    let usual = options();
    conversions_hold(LiveOptions { interval: Duration::from_millis(10), ..usual.clone() }, 600);
    conversions_hold(usual, 30);
}

#[test]
fn conversions_of_kernel_time_meet_its_brackets() {
    conversions_hold(LiveOptions::new(Counter::MonotonicClock), 30);
}

/// Converts as fast as it can; returned are conversions, steps back within an epoch, and conversions by kernel time.
fn hurry(reader: &LiveReader, counter: Counter, stop: &AtomicBool, done: &AtomicU64) -> (u64, u64, u64) {
    let (mut conversions, mut back, mut fallback) = (0, 0, 0);
    let first = counter.read();
    let mut last = reader.convert(first);
    let mut kept = (first, last);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1_000 {
            let cycles = counter.read();
            let instant = reader.convert(cycles);
            let ordered =
                instant.monotonic_ns >= last.monotonic_ns && instant.realtime_ns >= last.realtime_ns;
            let one_course =
                |a: &LiveInstant, b: &LiveInstant| a.epoch == b.epoch && !a.fallback && !b.fallback;
            back += u64::from(!ordered && one_course(&instant, &last));
            fallback += u64::from(instant.fallback);
            last = instant;
            if conversions % 1_000 == 0 {
                // What was converted some time ago is converted to the same again.
                let again = reader.convert(kept.0);
                back += u64::from(one_course(&again, &kept.1) && again != kept.1);
                kept = (cycles, instant);
            }
            conversions += 1;
        }
        done.fetch_add(1_000, Ordering::Relaxed);
    }
    (conversions, back, fallback)
}

#[test]
fn no_unmarked_step_back_in_ten_million_conversions_with_600_anchors() {
    let _alone = alone();
    let options = LiveOptions { interval: Duration::from_millis(5), ..LiveOptions::new(counter()) };
    let clock = LiveClock::start(options).unwrap();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..2).map(|_| scope.spawn(|| hurry(&clock.reader(), counter(), &stop, &done))).collect();
        while clock.anchors() < 600 || done.load(Ordering::Relaxed) < 10_000_000 {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    println!(
        "(conversions, back, by kernel time) {counts:?}; {} anchors, {:?}",
        clock.anchors(),
        clock.marks()
    );
    assert_eq!(counts.iter().map(|(_, back, _)| back).sum::<u64>(), 0);
    let opened = clock.marks().iter().map(|mark| mark.epoch).max().unwrap_or(0);
    assert_eq!(clock.state().epoch, opened, "each epoch has its mark");
}

/// Sets CLOCK_REALTIME forward or back by a nanosecond.
fn set_by_a_nanosecond(forward: bool) {
    // SAFETY: all-zero bytes are a valid timex: it is plain numbers.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
    (timex.time.tv_sec, timex.time.tv_usec) = if forward { (0, 1) } else { (-1, 999_999_999) };
    // SAFETY: `timex` is valid for reading and writing.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    assert!(state >= 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_clock_that_is_set_is_marked_at_once() {
    if !privileged("a_clock_that_is_set_is_marked_at_once") {
        return;
    }
    let _alone = alone();
    // A step of a nanosecond is seen in no reading: only the kernel's word can be what marks it.
    let options = LiveOptions { interval: Duration::from_secs(3_600), ..LiveOptions::new(counter()) };
    let clock = LiveClock::start(options).unwrap();
    while clock.anchors() < 3 {
        clock.anchor_now();
        std::thread::sleep(Duration::from_millis(10));
    }
    for (forward, wanted) in [(true, 1), (false, 2)] {
        set_by_a_nanosecond(forward);
        let steps = || {
            let marks = clock.marks();
            marks.iter().filter(|mark| matches!(mark.kind, MarkKind::RealtimeStepped { .. })).count()
        };
        let begin = Instant::now();
        while steps() < wanted {
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", clock.marks());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
