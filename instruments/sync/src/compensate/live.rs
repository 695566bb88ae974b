//! Reads the recordings while they grow, and has the controllers decide.

use super::clock::{Clock, now_ns};
use super::pilot::Pilot;
use super::place::Placement;
use crate::digest::CompensationFacts;
use quaver_abi::sync::{SyncKind, SyncRecord};
use quaver_dvfs::power::PowerModel;
use quaver_probe::thread::{ThreadSettings, ThreadUsage};
use quaver_sync_analysis::subframes::Cutter;
use quaver_sync_analysis::sync::{AnyEvent, Settings, SyncEvent, ThreadId};
use quaver_sync_store::Tail;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is younger may still be overtaken: the entry of a call that wakes others is written when the call has returned.
const LAG_NS: u64 = 100_000;
/// Between two looks for new recordings.
const LIST_NS: u64 = 20_000_000;
/// Between two looks while no thread does anything.
const IDLE: Duration = Duration::from_millis(1);

/// A record on its way.
#[derive(Debug)]
struct Coming {
    at_ns: u64,
    /// In which order it was read.
    number: u64,
    tid: u32,
    process: u16,
    record: SyncRecord,
}

impl PartialEq for Coming {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.number) == (other.at_ns, other.number)
    }
}

impl Eq for Coming {}

impl PartialOrd for Coming {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coming {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

/// The recordings of a program that runs.
pub(super) struct Live {
    directory: PathBuf,
    subframe_ns: u64,
    /// In the order in which they were found, which is the number of the image.
    tails: Vec<(PathBuf, Tail)>,
    listed_ns: u64,
    clock: Clock,
    coming: BinaryHeap<Reverse<Coming>>,
    read: u64,
    horizon_ns: u64,
    late: u64,
    cutter: Cutter,
    pilot: Pilot,
}

impl Live {
    pub(super) fn new(directory: &Path, settings: Settings, subframe_ns: u64, pilot: Pilot) -> Self {
        Self {
            directory: directory.to_owned(),
            subframe_ns,
            tails: Vec::new(),
            listed_ns: 0,
            clock: Clock::start(),
            coming: BinaryHeap::new(),
            read: 0,
            horizon_ns: 0,
            late: 0,
            cutter: Cutter::new(settings, subframe_ns),
            pilot,
        }
    }

    /// Looks until it is told to stop; then puts all settings back, and says what was done.
    pub(super) fn run(mut self, stop: &AtomicBool, facts: CompensationFacts) -> CompensationFacts {
        let (usage, began_ns) = (ThreadUsage::now(), now_ns());
        let slack = ThreadSettings { exact_timers: true, ..ThreadSettings::default() }.prepare();
        let mut place = Placement::take();
        let tick = Duration::from_nanos(self.subframe_ns / 2);
        while !stop.load(Ordering::Acquire) {
            self.look();
            place.look(&mut self.pilot.threads, self.horizon_ns);
            let idle = self.pilot.threads.values().all(|thread| thread.waits);
            std::thread::sleep(if idle { IDLE.max(tick) } else { tick });
        }
        // The program has ended: nobody needs the speed any more, whatever is left to compute.
        if let Some(cores) = &mut self.pilot.cores {
            cores.put_back(now_ns());
        }
        drop(slack);
        let facts = self.finish(facts);
        let used = ThreadUsage::now().since(&usage);
        CompensationFacts {
            own_cpu_ns: used.user_ns + used.system_ns,
            own_ns: now_ns().saturating_sub(began_ns),
            looks: place.looks,
            looks_beside: place.looks_beside,
            ..facts
        }
    }

    fn look(&mut self) {
        self.clock.tick();
        let now_ns = now_ns();
        self.list(now_ns);
        self.read();
        self.decide(now_ns.saturating_sub(LAG_NS));
        self.pilot.follow();
    }

    /// Finds recordings of processes that are new.
    fn list(&mut self, now_ns: u64) {
        if !self.tails.is_empty() && now_ns.saturating_sub(self.listed_ns) < LIST_NS {
            return;
        }
        self.listed_ns = now_ns;
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ours = name.starts_with("sync-") && name.ends_with(".seg");
            if !ours || self.tails.iter().any(|(known, _)| *known == path) {
                continue;
            }
            // One that cannot be read now may be later, and is named when the run is analysed.
            if let Ok(Some(tail)) = Tail::open(&path)
                && self.tails.len() < usize::from(u16::MAX)
            {
                self.tails.push((path, tail));
            }
        }
    }

    /// Takes what was written since the last time.
    fn read(&mut self) {
        for (process, (_, tail)) in (0..).zip(&mut self.tails) {
            let _ = tail.poll(&mut |tid, record| {
                let at_ns = self.clock.at_ns(record.cycles);
                self.late += u64::from(at_ns < self.horizon_ns);
                self.coming.push(Reverse(Coming { at_ns, number: self.read, tid, process, record }));
                self.read += 1;
            });
        }
    }

    /// Takes all events up to `horizon_ns` in time order, and ends the subframes that are over then.
    fn decide(&mut self, horizon_ns: u64) {
        self.horizon_ns = self.horizon_ns.max(horizon_ns);
        while let Some(Reverse(next)) = self.coming.peek()
            && next.at_ns <= self.horizon_ns
        {
            let Some(Reverse(mut coming)) = self.coming.pop() else { break };
            self.name_child(&mut coming);
            let thread = ThreadId(coming.tid);
            let event = SyncEvent::from_record(&coming.record, coming.at_ns, thread, coming.process);
            if let Some(event) = event {
                let pilot = &mut self.pilot;
                if let Some(place) = pilot.threads.get_mut(&coming.tid) {
                    place.seen_ns = coming.at_ns;
                    if event.cpu != quaver_abi::sync::CPU_UNKNOWN {
                        place.cpu = event.cpu;
                    }
                }
                self.cutter.event(&AnyEvent::Sync(event), &mut |step| pilot.step(step));
            }
        }
        let pilot = &mut self.pilot;
        self.cutter.until(self.horizon_ns, &mut |step| pilot.step(step));
    }

    /// A record of a creation has its number; who was made is known once that thread has begun.
    fn name_child(&self, coming: &mut Coming) {
        let kind = coming.record.kind();
        if !matches!(kind, Some(SyncKind::Create | SyncKind::CreateExit)) {
            return;
        }
        let (_, tail) = &self.tails[usize::from(coming.process)];
        let (tid, pthread) = tail.child(coming.record.detail).unwrap_or_default();
        coming.record.detail = tid;
        if kind == Some(SyncKind::CreateExit) {
            coming.record.object = pthread;
        }
    }

    fn finish(mut self, facts: CompensationFacts) -> CompensationFacts {
        self.list(u64::MAX);
        self.read();
        let end_ns = now_ns();
        self.decide(end_ns);
        let holes = self.tails.iter().map(|(_, tail)| tail.holes()).sum();
        let Self { mut pilot, cutter, late, .. } = self;
        let results = cutter.finish(end_ns, &mut |step| pilot.step(step));
        let (controller, counts) = (pilot.config().clone(), pilot.counts.clone());
        let cores = pilot.cores.take();
        let seen = pilot.finish();
        let length_ns = results.duration_ns();
        // What was won is no part of the time that the program took; in a dry run it still is.
        let late_ns = if facts.dry { seen.lost_ns as f64 } else { seen.left_ns };
        let ideal_ns = length_ns as f64 - late_ns;
        let over = |ns: f64| (ideal_ns > 0.0).then(|| ns / ideal_ns);
        let table = &controller.table;
        let with = (table, std::slice::from_ref(&seen.residency));
        let without = (table, std::slice::from_ref(&seen.at_rest));
        let writes = cores.as_ref().map(|cores| cores.writes.clone()).unwrap_or_default();
        let broke_off = cores.as_ref().and_then(|cores| cores.broke_off.clone());
        CompensationFacts {
            threads: counts.threads,
            in_time: counts.in_time,
            forced: counts.forced,
            decided_ns: seen.residency.active_fs.iter().map(|fs| fs / 1_000_000).collect(),
            set_ns: cores.as_ref().map(|cores| cores.held_ns()).unwrap_or_default(),
            length_ns,
            lost_ns: seen.lost_ns,
            left_ns: seen.left_ns,
            slow_down_without: over(seen.lost_ns as f64),
            slow_down_with: over(seen.left_ns),
            power_overhead: PowerModel::default().overhead(with, without),
            writes: writes.count,
            writes_refused: writes.refused,
            write_total_ns: writes.total_ns,
            write_max_ns: writes.max_ns,
            delay_mean_ns: (counts.delays > 0).then(|| counts.delay_total_ns as f64 / counts.delays as f64),
            delay_max_ns: counts.delay_max_ns,
            late_events: late,
            holes,
            broke_off: broke_off.or(counts.log_failed),
            not_put_back: cores.map(|cores| cores.not_put_back).unwrap_or_default(),
            controller,
            ..facts
        }
    }
}
