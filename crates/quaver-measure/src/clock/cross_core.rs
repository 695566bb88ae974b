//! Whether the counters of several CPUs agree: a stamp handed from one CPU to another must not arrive before
//! it was taken.

use super::counter::CycleCounter;
use super::support::nominal_scale;
use crate::clock::Counter;
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
    /// Counter of `to` minus that of `from` at the fastest exchange, assuming both ways took equally long; ns.
    pub offset_ns: i64,
    /// The true offset lies no farther from `offset_ns`: half the fastest exchange, ns.
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
    /// faster than their caches, found nothing against it.
    pub fn bound_ns(&self) -> i64 {
        if self.proven_offset_ns() > 0 || self.backward_ns() > 0 {
            return self.limit_ns();
        }
        self.pairs.iter().map(|pair| pair.offset_ns.abs()).max().unwrap_or(0)
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
    /// A CPU did not answer: it is held by a thread of real-time priority, perhaps.
    #[error("check clocks of CPU {cpu}: no answer in {waited:?}; free that CPU or leave it out")]
    Silent {
        /// Which.
        cpu: u16,
        /// How long.
        waited: Duration,
    },
}

/// Exchanges stamps between the first of `cpus` and each other one, for `each` (10 ms are enough) a pair.
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

fn exchange(counter: Counter, from: u16, to: u16, each: Duration) -> Result<PairOffset, CrossCoreError> {
    let table = Table::default();
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer(counter, to, &table));
        let asking = scope.spawn(|| ask(counter, from, to, each, &table));
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
    let begin = counter.read();
    let (mut fastest, mut offset, mut backward, mut exchanges) = (u64::MAX, 0, 0i64, 0);
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
        exchanges += 1;
        backward = backward.max(asked as i64 - answered as i64).max(answered as i64 - received as i64);
        let took = received - asked;
        if took < fastest {
            fastest = took;
            offset = answered as i64 - (asked + took / 2) as i64;
        }
        if received - begin >= length && exchanges >= 2 {
            break;
        }
    }
    let signed_ns = |cycles: i64| scale.signed_ns(0, cycles.unsigned_abs()) * cycles.signum();
    Ok(PairOffset {
        from,
        to,
        offset_ns: signed_ns(offset),
        bound_ns: scale.ns(fastest.div_ceil(2)) as i64 + 1,
        backward_ns: signed_ns(backward),
        exchanges,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::CounterSupport;
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
    fn proven_offset_is_what_the_bound_does_not_explain() {
        let pair =
            PairOffset { from: 0, to: 1, offset_ns: -900, bound_ns: 100, backward_ns: 700, exchanges: 9 };
        let checked = CrossCore { pairs: vec![pair, PairOffset { offset_ns: 50, backward_ns: 0, ..pair }] };
        assert_eq!((checked.proven_offset_ns(), checked.backward_ns()), (800, 700));
        assert_eq!((checked.limit_ns(), checked.bound_ns()), (1_000, 1_000));
        let agree = CrossCore { pairs: vec![PairOffset { offset_ns: -50, backward_ns: 0, ..pair }] };
        assert_eq!((agree.limit_ns(), agree.bound_ns()), (150, 50));
    }
}
