//! From what the protocol holds at the end to results.

use super::observer::Observer;
use super::protocol::Protocol;
use super::results::{CriticalPath, Oversubscription, SyncResults, SyncShare};
use super::threads::Path;

/// A run with more of its time than this crowded is told to be oversubscribed.
const CROWDED: f64 = 0.1;

/// Part of the whole; none of nothing.
pub(super) fn share(part: u64, other: u64) -> Option<f64> {
    (part + other > 0).then(|| part as f64 / (part + other) as f64)
}

impl<O: Observer> Protocol<O> {
    /// What was found in all.
    pub fn finish(self) -> SyncResults {
        self.finish_with_observer().0
    }

    /// What was found in all, and who watched.
    pub fn finish_with_observer(mut self) -> (SyncResults, O) {
        let settings = self.settings;
        self.threads.retire_all(settings.listed);
        let from_ns = self.from_ns.unwrap_or(0);
        let to_ns = self.now_ns.max(from_ns);
        self.counts.threads = self.threads.seen;
        self.counts.threads_without_end = self.threads.without_end;
        self.counts.offenders_dropped = self.books.offenders_dropped;
        let critical_path = self.critical_path(from_ns);
        let (objects, call_sites) = self.books.offenders(settings.listed);
        let results = SyncResults {
            settings,
            from_ns,
            to_ns,
            classes: self.books.classes(to_ns - from_ns),
            late: self.books.late_of_all(),
            others: self.books.others(),
            objects,
            call_sites,
            cores: self.cores.figures(),
            coverage: self.coverage,
            counts: self.counts,
            critical_path,
            sync_share: self.sync_share(&critical_path),
            causes: self.books.causes(),
            oversubscription: self.oversubscription(to_ns - from_ns),
            units: self.cores.figures,
            threads: std::mem::take(&mut self.threads.retired.listed),
            longest: self.books.longest(),
        };
        (results, self.observer)
    }

    fn critical_path(&self, from_ns: u64) -> CriticalPath {
        let Some((last_ns, thread, path)) = self.threads.retired.last else { return CriticalPath::default() };
        let Path { classes_ns, other_ns, blocked_ns, slept_ns, spun_ns, hand_overs, .. } = path;
        let length_ns = last_ns - from_ns.min(last_ns);
        let sync_jitter_ns: u64 = classes_ns.iter().sum();
        CriticalPath {
            last_thread: Some(thread),
            length_ns,
            execution_ns: length_ns
                .saturating_sub(sync_jitter_ns + other_ns + blocked_ns + slept_ns + spun_ns),
            sync_jitter_ns,
            classes_ns,
            other_ns,
            blocked_ns,
            slept_ns,
            spun_ns,
            hand_overs,
        }
    }

    fn sync_share(&self, path: &CriticalPath) -> SyncShare {
        let retired = &self.threads.retired;
        SyncShare {
            critical_path: share(path.sync_jitter_ns, path.other_ns),
            threads_mean: (retired.with_share > 0).then(|| retired.shares / retired.with_share as f64),
            threads_total: share(retired.late_ns, retired.other_ns),
        }
    }

    fn oversubscription(&self, duration_ns: u64) -> Oversubscription {
        let cpus = self.settings.cpus;
        let crowded_share =
            cpus.filter(|_| duration_ns > 0).map(|_| self.crowded_ns as f64 / duration_ns as f64);
        Oversubscription {
            cpus,
            most_runnable: self.most_runnable,
            crowded_ns: self.crowded_ns,
            crowded_share,
            run_queue_ns: self.books.run_queue_ns,
            warns: crowded_share.is_some_and(|share| share > CROWDED),
        }
    }
}
