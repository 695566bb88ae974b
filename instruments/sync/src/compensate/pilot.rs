//! From subframes to frequencies, and the log of both.

use super::clock::now_ns;
use super::cores::Cores;
use quaver_abi::compensation::{CompensationRecord, CompensationWhy};
use quaver_abi::sync::CPU_UNKNOWN;
use quaver_dvfs::dvfs::ControllerConfig;
use quaver_dvfs::dvfs::what_if::{Compensated, Compensator, Decision};
use quaver_host::segment::SegmentAppender;
use quaver_sync_analysis::subframes::{Ended, SoFar, Step, Subframe};
use quaver_sync_analysis::sync::Wakeup;
use std::collections::BTreeMap;

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where {
    pub(super) cpu: u16,
    pub(super) waits: bool,
    /// When its CPU was last known.
    pub(super) seen_ns: u64,
}

/// What it did so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) threads: u64,
    pub(super) in_time: u64,
    pub(super) forced: u64,
    pub(super) delays: u64,
    pub(super) delay_total_ns: u64,
    pub(super) delay_max_ns: u64,
    pub(super) log_failed: Option<String>,
}

/// Holds the controllers and the CPUs together.
#[derive(Debug)]
pub(super) struct Pilot {
    compensator: Compensator,
    pub(super) cores: Option<Cores>,
    pub(super) threads: BTreeMap<u32, Where>,
    log: SegmentAppender<CompensationRecord>,
    pub(super) counts: Counts,
    /// Since when a frequency is called for that is not set yet: the end of a subframe, of a wait, or the begin of one.
    waiting_since_ns: Option<u64>,
}

impl Pilot {
    /// Without `cores` it computes only.
    pub(super) fn new(
        config: ControllerConfig,
        unpaced_share: f64,
        cores: Option<Cores>,
        log: SegmentAppender<CompensationRecord>,
    ) -> Self {
        Self {
            compensator: Compensator::new(config, unpaced_share),
            cores,
            threads: BTreeMap::new(),
            log,
            counts: Counts::default(),
            waiting_since_ns: None,
        }
    }

    /// How the controllers work.
    pub(super) fn config(&self) -> &ControllerConfig {
        self.compensator.config()
    }

    /// A thread came to something.
    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Began { thread, parent, cpu, at_ns } => {
                self.counts.threads += 1;
                self.threads.insert(thread.0, Where { cpu, waits: false, seen_ns: at_ns });
                let parent = parent.map(|parent| parent.0);
                self.compensator.began(thread.0, parent);
                self.keep(&CompensationRecord {
                    end_ns: at_ns.max(1),
                    begin_ns: at_ns,
                    thread: thread.0,
                    other: parent.unwrap_or(0),
                    cpu,
                    why: CompensationWhy::Began as u8,
                    ratio_bits: 1f64.to_bits(),
                    ..CompensationRecord::default()
                });
            }
            Step::Waits { thread } => self.place(thread.0, None, true),
            Step::GoesOn { thread, cpu } => self.place(thread.0, Some(cpu), false),
            Step::Woken { wakeup, own, others } => self.woken(&wakeup, &own, &others),
            Step::Ended(subframe) => self.ended(&subframe),
        }
    }

    /// The thread begins to wait, or goes on: its CPU needs another frequency where it does not want rest.
    fn place(&mut self, thread: u32, cpu: Option<u16>, waits: bool) {
        let rest = self.config().table.rest;
        let moves = self.cores.is_some() && self.compensator.point(thread) != rest;
        let Some(place) = self.threads.get_mut(&thread) else { return };
        place.waits = waits;
        place.cpu = cpu.unwrap_or(place.cpu);
        let seen_ns = place.seen_ns;
        if moves {
            self.called_for(seen_ns);
        }
    }

    /// What the waker owes passes on, in the middle of both subframes.
    fn woken(&mut self, wakeup: &Wakeup, own: &SoFar, others: &SoFar) {
        self.compensator.woken(wakeup, own, others);
        self.keep(&CompensationRecord {
            end_ns: wakeup.released_ns.max(1),
            begin_ns: wakeup.released_ns - wakeup.waited_ns,
            thread: wakeup.thread.0,
            other: wakeup.by.0,
            own_ns: own.own_ns,
            blocked_ns: own.blocked_ns,
            lost_ns: own.lost_ns,
            paced_fs: others.own_ns,
            unpaced_fs: others.blocked_ns,
            stalled_fs: others.lost_ns,
            point: u32::from(wakeup.met),
            cpu: CPU_UNKNOWN,
            why: CompensationWhy::Woken as u8,
            ..CompensationRecord::default()
        });
    }

    /// Another frequency is called for since then.
    fn called_for(&mut self, at_ns: u64) {
        let since_ns = self.waiting_since_ns.get_or_insert(at_ns);
        *since_ns = (*since_ns).min(at_ns);
    }

    fn ended(&mut self, subframe: &Subframe) {
        match subframe.why {
            Ended::InTime => self.counts.in_time += 1,
            Ended::AtCreate | Ended::AtJoin | Ended::AtExit => self.counts.forced += 1,
        }
        let thread = subframe.thread.0;
        let before = self.compensator.point(thread);
        // The newest word on where it is; in a subframe that it moved in, that CPU counts for all of it.
        let cpu = self.threads.get(&thread).map_or(subframe.cpu, |place| place.cpu);
        let decision = match &self.cores {
            None => self.compensator.ended(subframe),
            Some(cores) => {
                let (ratio, changes) = cores.between(cpu, subframe.begin_ns, subframe.end_ns);
                let change_fs = self.config().table.pll_lock_us * 1e9;
                self.compensator.ended_at(subframe, ratio, (f64::from(changes) * change_fs).round() as u64)
            }
        };
        if decision.point != before && self.cores.is_some() {
            self.called_for(subframe.end_ns);
        }
        if subframe.why == Ended::AtExit {
            self.threads.remove(&thread);
        }
        self.keep(&record(subframe, cpu, &decision));
    }

    /// Sets the frequencies that are wanted now.
    pub(super) fn follow(&mut self) {
        let since_ns = self.waiting_since_ns.take();
        let Some(cores) = &mut self.cores else { return };
        let wanted: Vec<(u16, usize)> = self
            .threads
            .iter()
            .filter(|(_, place)| !place.waits && place.cpu != CPU_UNKNOWN)
            .map(|(thread, place)| (place.cpu, self.compensator.point(*thread)))
            .collect();
        if cores.follow(&wanted, &now_ns)
            && let Some(since_ns) = since_ns
        {
            let delay_ns = now_ns().saturating_sub(since_ns);
            self.counts.delays += 1;
            self.counts.delay_total_ns += delay_ns;
            self.counts.delay_max_ns = self.counts.delay_max_ns.max(delay_ns);
        }
    }

    fn keep(&mut self, record: &CompensationRecord) {
        if let Err(error) = self.log.append(record) {
            self.counts.log_failed.get_or_insert(error.to_string());
        }
    }

    /// What became of the program.
    pub(super) fn finish(self) -> Compensated {
        // What could not be written was noted when it was appended, or is lost with the rest of a full disk.
        let _ = self.log.finish();
        self.compensator.finish()
    }
}

fn record(subframe: &Subframe, cpu: u16, decision: &Decision) -> CompensationRecord {
    let why = match subframe.why {
        Ended::InTime => CompensationWhy::InTime,
        Ended::AtCreate => CompensationWhy::AtCreate,
        Ended::AtJoin => CompensationWhy::AtJoin,
        Ended::AtExit => CompensationWhy::AtExit,
    };
    let ran = &decision.ran;
    CompensationRecord {
        end_ns: subframe.end_ns.max(1),
        begin_ns: subframe.begin_ns,
        own_ns: subframe.own_ns,
        blocked_ns: subframe.blocked_ns,
        lost_ns: subframe.lost_ns,
        paced_fs: ran.paced_fs,
        unpaced_fs: ran.unpaced_fs,
        stalled_fs: ran.stalled_fs,
        length_fs: ran.length_fs,
        ratio_bits: decision.ratio.to_bits(),
        owed_fs: decision.owed_fs,
        thread: subframe.thread.0,
        other: subframe.joined.map_or(0, |joined| joined.0),
        point: decision.point as u32,
        cpu,
        why: why as u8,
        reserved: 0,
    }
}
