//! Whether the counters of several CPUs agree: a stamp handed from one CPU to another must not arrive before
//! it was taken.

use super::counter::CycleCounter;
use super::support::nominal_scale;
use crate::Counter;
use rustix::thread::CpuSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What one pair of CPUs showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairOffset {
    /// CPU that stamps were handed from.
    pub from: u16,
    /// CPU that answered.
    pub to: u16,
    /// Counter of `to` minus that of `from`, assuming that the fastest ways there and back took equally long; ns.
    pub offset_ns: i64,
    /// The true offset lies no farther from `offset_ns`: half of what the fastest ways took together, ns.
    pub bound_ns: i64,
    /// Largest step backwards that any exchange saw, either way, ns: 0 for counters that agree.
    pub backward_ns: i64,
    /// Exchanges made.
    pub exchanges: u64,
}

/// The counters of several CPUs, each against the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrossCore {
    /// One for each CPU but the first.
    pub pairs: Vec<PairOffset>,
}

impl CrossCore {
    /// Largest step backwards between any two stamps, ns.
    pub fn backward_ns(&self) -> i64 {
        self.pairs.iter().map(|pair| pair.backward_ns).max().unwrap_or(0)
    }

    /// How far counters of two CPUs may be apart, as far as the exchanges can tell: the largest |offset| that
    /// is not explained by its bound, ns. 0 for counters that agree.
    pub fn proven_offset_ns(&self) -> i64 {
        self.pairs.iter().map(|pair| (pair.offset_ns.abs() - pair.bound_ns).max(0)).max().unwrap_or(0)
    }

    /// What the exchanges could not resolve, ns: counters of two of these CPUs are apart by no more than this.
    pub fn limit_ns(&self) -> i64 {
        let exchanged = self.pairs.iter().map(|pair| pair.offset_ns.abs() + pair.bound_ns).max();
        exchanged.unwrap_or(0).max(self.backward_ns())
    }

    /// What belongs into the bound of a stamp that may come from any of these CPUs, ns.
    ///
    /// Where an offset is proven, or a stamp arrived before it was taken, [`CrossCore::limit_ns`]. Else the largest offset found:
    /// a kernel that counts by this counter has checked itself that its CPUs agree, and the exchange, which no two CPUs make
    /// faster than their caches, found nothing against it. Offsets of pairs whose CPUs never ran at the same time are noise, and
    /// do not count.
    pub fn bound_ns(&self) -> i64 {
        if self.proven_offset_ns() > 0 || self.backward_ns() > 0 {
            return self.limit_ns();
        }
        let resolved = self.pairs.iter().filter(|pair| pair.bound_ns <= RESOLVED_NS);
        resolved.map(|pair| pair.offset_ns.abs()).max().unwrap_or(0)
    }
}

/// The check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CrossCoreError {
    /// A CPU is not to be had.
    #[error(
        "check clocks of CPU {cpu}: pin thread: {source}; choose CPUs that are online and in this cpuset"
    )]
    Pin {
        /// Which.
        cpu: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// No thread for the exchange.
    #[error("check clocks of CPUs: start a thread: {0}; raise the limit of threads (ulimit -u, pids.max)")]
    Thread(#[source] std::io::Error),
    /// A CPU did not answer: it is held by a thread of real-time priority, perhaps.
    #[error("check clocks of CPU {cpu}: no answer in {waited:?}; free that CPU or leave it out")]
    Silent {
        /// Which.
        cpu: u16,
        /// How long.
        waited: Duration,
    },
}

/// Exchanges stamps between the first of `cpus` and each other one, for `each` (10 ms are enough) a pair; up to
/// forty times as long where others keep the two threads from running at the same time.
///
/// # Errors
/// When a CPU cannot be used or does not answer within 5 s.
pub fn check_cross_core(counter: Counter, cpus: &[u16], each: Duration) -> Result<CrossCore, CrossCoreError> {
    let Some((&from, others)) = cpus.split_first() else { return Ok(CrossCore::default()) };
    let pairs = others.iter().filter(|to| **to != from).map(|to| exchange(counter, from, *to, each));
    Ok(CrossCore { pairs: pairs.collect::<Result<_, _>>()? })
}

/// Two lines that the threads hand stamps over on.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

#[derive(Default)]
struct Table {
    question: Line,
    answer: Line,
    stop: AtomicBool,
}

const PATIENCE: Duration = Duration::from_secs(5);
/// A pair that is known so well needs no more time.
const RESOLVED_NS: i64 = 1_000;
/// How many times as long as asked a pair may take until it is.
const MOST_TIMES: u64 = 40;

fn exchange(counter: Counter, from: u16, to: u16, each: Duration) -> Result<PairOffset, CrossCoreError> {
    let table = Table::default();
    std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new();
        let answering =
            thread().spawn_scoped(scope, || answer(counter, to, &table)).map_err(CrossCoreError::Thread)?;
        let asking = thread().spawn_scoped(scope, || ask(counter, from, to, each, &table));
        // Nobody asks, so nobody need answer.
        table.stop.fetch_or(asking.is_err(), Ordering::Relaxed);
        let asking = asking.map_err(CrossCoreError::Thread)?;
        let asked = asking.join().expect("the asking thread does not panic");
        let answered = answering.join().expect("the answering thread does not panic");
        answered.and(asked)
    })
}

fn pin(cpu: u16) -> Result<(), CrossCoreError> {
    let mut cpus = CpuSet::new();
    if usize::from(cpu) >= CpuSet::MAX_CPU {
        return Err(CrossCoreError::Pin { cpu, source: std::io::Error::from_raw_os_error(libc::EINVAL) });
    }
    cpus.set(cpu.into());
    rustix::thread::sched_setaffinity(None, &cpus).map_err(|e| CrossCoreError::Pin { cpu, source: e.into() })
}

/// Writes a stamp of its own for each new question.
fn answer(counter: Counter, cpu: u16, table: &Table) -> Result<(), CrossCoreError> {
    let pinned = pin(cpu);
    if pinned.is_err() {
        table.stop.store(true, Ordering::Relaxed);
        return pinned;
    }
    let mut seen = 0;
    while !table.stop.load(Ordering::Relaxed) {
        let question = table.question.0.load(Ordering::Acquire);
        if question != seen {
            seen = question;
            table.answer.0.store(counter.read(), Ordering::Release);
        }
    }
    Ok(())
}

fn ask(
    counter: Counter,
    from: u16,
    to: u16,
    each: Duration,
    table: &Table,
) -> Result<PairOffset, CrossCoreError> {
    let asked = pin(from).and_then(|()| ask_pinned(counter, from, to, each, table));
    table.stop.store(true, Ordering::Relaxed);
    asked
}

fn ask_pinned(
    counter: Counter,
    from: u16,
    to: u16,
    each: Duration,
    table: &Table,
) -> Result<PairOffset, CrossCoreError> {
    let scale = nominal_scale(counter);
    let patience = scale.cycles(PATIENCE.as_nanos() as u64);
    let length = scale.cycles(each.as_nanos() as u64);
    let resolved = 2 * scale.cycles(RESOLVED_NS as u64) as i64;
    let begin = counter.read();
    let mut seen = Exchanges { least: i64::MIN, most: i64::MAX, backward: 0, count: 0 };
    loop {
        table.answer.0.store(0, Ordering::Relaxed);
        let asked = counter.read();
        table.question.0.store(asked, Ordering::Release);
        let (answered, received) = loop {
            let answered = table.answer.0.load(Ordering::Acquire);
            let now = counter.read();
            if answered != 0 {
                break (answered, now);
            }
            // Also when the other thread could not pin itself: it has the better error.
            if now.wrapping_sub(asked) > patience || table.stop.load(Ordering::Relaxed) {
                return Err(CrossCoreError::Silent { cpu: to, waited: PATIENCE });
            }
        };
        seen.add(asked, answered, received);
        let took = received - begin;
        let enough = seen.most.saturating_sub(seen.least) <= resolved || took >= MOST_TIMES * length;
        if took >= length && enough && seen.count >= 2 {
            return Ok(
                seen.pair(from, to, |cycles| scale.signed_ns(0, cycles.unsigned_abs()) * cycles.signum())
            );
        }
    }
}

/// What the exchanges of a pair showed, cycles.
struct Exchanges {
    /// The offset is no smaller than this by any way back, and no larger than that by any way there: a way takes no less
    /// than no time.
    least: i64,
    most: i64,
    backward: i64,
    count: u64,
}

impl Exchanges {
    fn add(&mut self, asked: u64, answered: u64, received: u64) {
        let (there, back) = (answered as i64 - asked as i64, received as i64 - answered as i64);
        self.most = self.most.min(there);
        self.least = self.least.max(-back);
        self.backward = self.backward.max(-there).max(-back);
        self.count += 1;
    }

    fn pair(&self, from: u16, to: u16, ns: impl Fn(i64) -> i64) -> PairOffset {
        // Crossed over if the offset changed meanwhile.
        let half = (self.most - self.least).abs() / 2 + 1;
        PairOffset {
            from,
            to,
            offset_ns: ns(self.least / 2 + self.most / 2),
            bound_ns: ns(half) + 1,
            backward_ns: ns(self.backward),
            exchanges: self.count,
        }
    }
}

/// The counters of the first CPUs that this thread may run on. Those are compared from threads of their own.
pub fn compare_allowed_cpus(counter: Counter, most: usize, each: Duration) -> Result<CrossCore, String> {
    let allowed = rustix::thread::sched_getaffinity(None).map_err(|e| format!("sched_getaffinity: {e}"))?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u16);
    check_cross_core(counter, &cpus.take(most).collect::<Vec<_>>(), each).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CounterSupport;
    use std::path::Path;

    fn allowed_cpus() -> Vec<u16> {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).map(|cpu| cpu as u16).take(4).collect()
    }

    #[test]
    fn counters_of_this_machine_agree_as_far_as_the_kernel_says() {
        let cpus = allowed_cpus();
        let counter = CounterSupport::detect(Path::new("/")).counter;
        let checked = check_cross_core(counter, &cpus, Duration::from_millis(20)).unwrap();
        println!("{checked:?}");
        assert_eq!(checked.pairs.len(), cpus.len() - 1);
        assert!(checked.pairs.iter().all(|pair| pair.exchanges >= 2 && pair.bound_ns > 0));
        assert_eq!(checked.backward_ns(), 0, "{checked:?}");
        assert_eq!(checked.proven_offset_ns(), 0, "{checked:?}");
    }

    #[test]
    fn one_cpu_has_nothing_to_compare_and_an_absent_one_is_named() {
        let cpus = allowed_cpus();
        let counter = Counter::MonotonicClock;
        assert!(check_cross_core(counter, &cpus[..1], Duration::ZERO).unwrap().pairs.is_empty());
        assert!(check_cross_core(counter, &[], Duration::ZERO).unwrap().pairs.is_empty());
        let error = check_cross_core(counter, &[cpus[0], 1_023], Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("CPU 1023"), "{error}");
    }

    #[test]
    fn the_fastest_way_in_each_direction_counts() {
        // The other counter is 1000 ahead; ways of 90 to 500 there, 60 to 800 back.
        let mut seen = Exchanges { least: i64::MIN, most: i64::MAX, backward: 0, count: 0 };
        for (at, there, back) in [(0, 500, 60), (5_000, 90, 800), (9_000, 200, 200)] {
            seen.add(at, at + there + 1_000, at + there + back);
        }
        let pair = seen.pair(0, 1, |cycles| cycles);
        assert_eq!((pair.offset_ns, pair.bound_ns, pair.backward_ns), (1_015, 77, 940));
    }

    #[test]
    fn proven_offset_is_what_the_bound_does_not_explain() {
        let pair =
            PairOffset { from: 0, to: 1, offset_ns: -900, bound_ns: 100, backward_ns: 700, exchanges: 9 };
        let checked = CrossCore { pairs: vec![pair, PairOffset { offset_ns: 50, backward_ns: 0, ..pair }] };
        assert_eq!((checked.proven_offset_ns(), checked.backward_ns()), (800, 700));
        assert_eq!((checked.limit_ns(), checked.bound_ns()), (1_000, 1_000));
        let slow = CrossCore {
            pairs: vec![PairOffset { offset_ns: 9_000, bound_ns: 9_500, backward_ns: 0, ..pair }],
        };
        assert_eq!((slow.limit_ns(), slow.bound_ns()), (18_500, 0));
        let agree = CrossCore { pairs: vec![PairOffset { offset_ns: -50, backward_ns: 0, ..pair }] };
        assert_eq!((agree.limit_ns(), agree.bound_ns()), (150, 50));
    }
}
