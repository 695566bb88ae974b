//! The books: what was late, by class, object, call site and cause.

use super::keys::{AddressMap, ObjectKey};
use super::results::{
    Bin, Cause, CauseFigures, ClassFigures, Offender, OtherClass, OtherFigures, Sums, SyncClass, Wait,
};
use hdrhistogram::Histogram;
use std::cmp::Reverse;

/// Offenders kept of a kind; beyond, the lesser half is let go.
const KEPT_OFFENDERS: usize = 65_536;
/// Decades of the distribution, from 1 ns to 1,000 s.
const DECADES: usize = 12;
/// Bins a decade.
const PER_DECADE: usize = 10;

/// Lower bound of a bin.
fn bound_ns(bin: usize) -> f64 {
    10f64.powf(bin as f64 / PER_DECADE as f64)
}

#[derive(Debug)]
struct ClassBook {
    timed: Sums,
    late: Sums,
    values: Histogram<u64>,
    bins: Vec<u64>,
}

impl ClassBook {
    fn new() -> Self {
        let mut values = Histogram::new(3).expect("three digits are allowed");
        values.auto(true);
        let bins = vec![0; DECADES * PER_DECADE];
        Self { timed: Sums::default(), late: Sums::default(), values, bins }
    }

    fn late(&mut self, late_ns: u64) {
        self.late.add(late_ns);
        self.values.record(late_ns).expect("the histogram grows");
        let guess = ((late_ns.max(1) as f64).log10() * PER_DECADE as f64) as usize;
        // The logarithm may be off by one at a bound.
        let guess = guess.min(self.bins.len() - 1);
        let bin = match late_ns as f64 {
            value if value < bound_ns(guess) => guess.saturating_sub(1),
            value if value >= bound_ns(guess + 1) => (guess + 1).min(self.bins.len() - 1),
            _ => guess,
        };
        self.bins[bin] += 1;
    }

    fn quantile(&self, quantile: f64) -> Option<u64> {
        let count = self.values.len();
        if count == 0 {
            return None;
        }
        let rank = ((quantile * count as f64).ceil() as u64).clamp(1, count);
        let mut passed = 0;
        for bin in self.values.iter_recorded() {
            passed += bin.count_at_value();
            if passed >= rank {
                return Some(self.values.median_equivalent(bin.value_iterated_to()));
            }
        }
        Some(self.values.max())
    }

    fn figures(&self, class: SyncClass, duration_ns: u64, all_ns: u64) -> ClassFigures {
        let bins = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        ClassFigures {
            class,
            timed: self.timed,
            late: self.late,
            late_per_ms: per_ms(self.late.count, duration_ns),
            mean_ns: self.late.mean_ns(),
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p99_9_ns: self.quantile(0.999),
            share: (all_ns > 0).then(|| self.late.total_ns as f64 / all_ns as f64),
            bins: bins
                .map(|(bin, &count)| Bin { from_ns: bound_ns(bin), to_ns: bound_ns(bin + 1), count })
                .collect(),
        }
    }
}

/// Events a millisecond; 0 for no time.
pub(super) fn per_ms(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { count as f64 * 1e6 / duration_ns as f64 }
}

#[derive(Debug, Default)]
struct Offenders {
    sums: AddressMap<ObjectKey, [Sums; 6]>,
}

fn total_ns(classes: &[Sums; 6]) -> u64 {
    classes.iter().map(|sums| sums.total_ns).sum()
}

impl Offenders {
    /// Books, and returns how many had to be let go.
    fn add(&mut self, key: ObjectKey, class: SyncClass, late_ns: u64) -> u64 {
        self.sums.entry(key).or_default()[class as usize].add(late_ns);
        if self.sums.len() <= KEPT_OFFENDERS {
            return 0;
        }
        let mut ranked: Vec<(u64, Reverse<ObjectKey>)> =
            self.sums.iter().map(|(key, classes)| (total_ns(classes), Reverse(*key))).collect();
        let (lesser, ..) = ranked.select_nth_unstable(KEPT_OFFENDERS / 2);
        lesser.iter().for_each(|(_, Reverse(key))| {
            self.sums.remove(key);
        });
        (KEPT_OFFENDERS / 2) as u64
    }

    fn ranked(&self, listed: usize) -> Vec<Offender> {
        let mut all: Vec<Offender> = self
            .sums
            .iter()
            .map(|(key, classes)| {
                let mut late = Sums::default();
                classes.iter().for_each(|sums| late.merge(sums));
                Offender { process: key.process, address: key.address, late, classes: *classes }
            })
            .collect();
        all.sort_unstable_by_key(|one| (Reverse(one.late.total_ns), one.process, one.address));
        all.truncate(listed);
        all
    }
}

/// All that was late.
#[derive(Debug)]
pub(super) struct Books {
    classes: [ClassBook; 6],
    others: [Sums; 8],
    objects: Offenders,
    call_sites: Offenders,
    causes: [(Sums, u64, [u64; 6]); 10],
    longest: [Vec<Wait>; 6],
    shown: usize,
    pub(super) offenders_dropped: u64,
    pub(super) run_queue_ns: u64,
}

impl Books {
    pub(super) fn new(shown: usize) -> Self {
        Self {
            classes: std::array::from_fn(|_| ClassBook::new()),
            others: [Sums::default(); 8],
            objects: Offenders::default(),
            call_sites: Offenders::default(),
            causes: [(Sums::default(), 0, [0; 6]); 10],
            longest: std::array::from_fn(|_| Vec::new()),
            shown,
            offenders_dropped: 0,
            run_queue_ns: 0,
        }
    }

    /// An operation took so long.
    pub(super) fn timed(&mut self, class: SyncClass, took_ns: u64) {
        self.classes[class as usize].timed.add(took_ns);
    }

    /// It was late.
    pub(super) fn late(&mut self, class: SyncClass, object: ObjectKey, call_site: ObjectKey, late_ns: u64) {
        self.classes[class as usize].late(late_ns);
        self.offenders_dropped += self.objects.add(object, class, late_ns);
        self.offenders_dropped += self.call_sites.add(call_site, class, late_ns);
    }

    pub(super) fn lost(&mut self, class: OtherClass, lost_ns: u64) {
        self.others[class as usize].add(lost_ns);
    }

    /// Books the pieces of a late wait; returns its time in run queues.
    pub(super) fn pieces(&mut self, wait: &Wait) -> u64 {
        let mut totals = [0; 10];
        for piece in &wait.pieces {
            totals[piece.cause as usize] += piece.end_ns - piece.start_ns;
        }
        let leading = (0..totals.len()).max_by_key(|&cause| (totals[cause], Reverse(cause)));
        for (cause, total_ns) in totals.into_iter().enumerate().filter(|(_, total_ns)| *total_ns > 0) {
            let (sums, leads, classes_ns) = &mut self.causes[cause];
            sums.add(total_ns);
            *leads += u64::from(leading == Some(cause));
            classes_ns[wait.class as usize] += total_ns;
        }
        let run_queue_ns = totals[Cause::RunQueue as usize] + totals[Cause::OtherThreadFirst as usize];
        self.run_queue_ns += run_queue_ns;
        run_queue_ns
    }

    /// Keeps the wait where it is among the longest of its class.
    pub(super) fn show(&mut self, wait: &Wait) {
        let longest = &mut self.longest[wait.class as usize];
        let took_ns = wait.took_ns();
        if longest.len() == self.shown && longest.last().is_none_or(|last| last.took_ns() >= took_ns) {
            return;
        }
        let place = longest.partition_point(|one| one.took_ns() >= took_ns);
        longest.truncate(self.shown.saturating_sub(1));
        longest.insert(place, wait.clone());
    }

    pub(super) fn late_of_all(&self) -> Sums {
        let mut late = Sums::default();
        self.classes.iter().for_each(|class| late.merge(&class.late));
        late
    }

    pub(super) fn classes(&self, duration_ns: u64) -> Vec<ClassFigures> {
        let all_ns = self.late_of_all().total_ns;
        let figures = |class: SyncClass| self.classes[class as usize].figures(class, duration_ns, all_ns);
        SyncClass::ALL.map(figures).to_vec()
    }

    pub(super) fn others(&self) -> Vec<OtherFigures> {
        OtherClass::ALL.map(|class| OtherFigures { class, lost: self.others[class as usize] }).to_vec()
    }

    /// Objects and call sites, the worst first.
    pub(super) fn offenders(&self, listed: usize) -> (Vec<Offender>, Vec<Offender>) {
        (self.objects.ranked(listed), self.call_sites.ranked(listed))
    }

    pub(super) fn causes(&self) -> Vec<CauseFigures> {
        let figures = |cause: Cause| {
            let (waits, leads, classes_ns) = self.causes[cause as usize];
            CauseFigures { cause, waits, leads, classes_ns }
        };
        Cause::ALL.map(figures).to_vec()
    }

    pub(super) fn longest(self) -> Vec<Wait> {
        self.longest.into_iter().flatten().collect()
    }
}
