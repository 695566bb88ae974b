//! The machine's events, taken in the order of time.

use super::activity::Activities;
use super::budget::{Boost, BoostConfig};
use super::config::CureConfig;
use super::library::Library;
use super::results::{CoreResidency, CureResults, InjectedCounts, SubframeRecord};
use super::threads::{ThreadState, unit_id};
use super::translate::{SyncCall, Translator, WokenWaiter};
use crate::config::Config;
use crate::error::SimulationError;
use crate::frames::Progress;
use crate::hooks::{Event, FrequencyChange, Hooks, Moment, Orders, Woken};
use crate::inject::{Draw, EpochSteps, Injection, Owner, Recording};
use crate::private::SecondLevel;
use crate::unit::{UnitConfig, Units};
use quaver_abi::sync::SyncOutcome;
use quaver_dvfs::dvfs::{OperatingPoint, Table};
use quaver_sync_analysis::sync::{KernelEvent, KernelKind, SyncClass, SyncEvent, ThreadId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// Where threads go into the kernel to sleep: one place in the thread library, the same for all.
pub(super) const SLEEP_PC: u64 = 0x7f00_0000;

/// What happens later than the event that decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Later {
    /// Did a woken waiter get its mutex?
    Look(WokenWaiter),
}

/// Kernel activity that was ordered and has not been left.
#[derive(Clone, Copy, Debug)]
pub(super) struct InKernel {
    pub(super) thread: Option<u32>,
    pub(super) told: Option<SyncCall>,
    pub(super) timer: bool,
    /// Name of the class of what the kernel does.
    pub(super) class: &'static str,
}

/// A core.
#[derive(Clone, Debug)]
pub(super) struct CoreState {
    pub(super) point: usize,
    /// The voltage rises until then; the point that it rises to, and for which thread.
    pub(super) rising: Option<(u64, usize, u32)>,
    pub(super) residency: CoreResidency,
    /// Lines that the kernel had evicted here when a subframe ended last.
    pub(super) evicted_lines: u64,
    pub(super) instructions: u64,
    pub(super) thread: Option<u32>,
    pub(super) idle_since_fs: u64,
    pub(super) in_kernel: VecDeque<InKernel>,
    pub(super) alarm_fs: u64,
}

impl CoreState {
    /// Books the time without a thread until now.
    pub(super) fn idles_until(&mut self, at_fs: u64) {
        self.residency.idle_fs[self.point] += at_fs.saturating_sub(self.idle_since_fs);
        self.idle_since_fs = at_fs.max(self.idle_since_fs);
    }
}

/// What the event's core is to do, gathered while the event is taken.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    pub(super) ghz: Option<f64>,
    pub(super) stall_fs: u64,
    kernel: Vec<EpochSteps>,
}

/// Jitter and its cure.
#[derive(Debug)]
pub struct Cure {
    pub(super) config: CureConfig,
    pub(super) table: Table,
    library: Library,
    pub(super) injection: Option<Injection>,
    pub(super) translator: Translator,
    pub(super) units: Units,
    pub(super) threads: Vec<ThreadState>,
    pub(super) cores: Vec<CoreState>,
    later: BinaryHeap<Reverse<(u64, usize, u64)>>,
    later_what: BTreeMap<u64, Later>,
    numbered: u64,
    pub(super) ordered: Ordered,
    pub(super) injected: BTreeMap<SyncClass, InjectedCounts>,
    /// By thread: for how long the kernel holds up one that was woken late.
    pub(super) held_up: BTreeMap<u32, Draw>,
    /// The thread that entered a call last, which wakes others in it.
    pub(super) wakes: u32,
    /// When that was, femtoseconds.
    pub(super) wakes_at_fs: u64,
    /// Whom it wakes at a barrier, to which it came last.
    pub(super) meeting: Vec<u32>,
    pub(super) boost: Option<Boost>,
    pub(super) timer: InjectedCounts,
    pub(super) activities: Activities,
    pub(super) kept: Vec<SubframeRecord>,
    pub(super) progress: Progress,
    pub(super) evicted_lines: u64,
    pub(super) remote_fs: u64,
    pub(super) cycle_fs: u64,
}

impl Cure {
    /// For the chip of `machine`; the library's blocks are of the machine's dictionary.
    ///
    /// # Errors
    /// The name of what is wrong in the configuration, and what would be taken.
    pub fn new(
        config: CureConfig,
        machine: &Config,
        library: Library,
    ) -> Result<Self, (&'static str, &'static str)> {
        if let Some(fault) = config.fault() {
            return Err(fault);
        }
        if let Some(fault) = config.cache.fault_on(machine) {
            return Err(fault);
        }
        let chip = &machine.chip;
        let table = match (&config.dvfs, config.boost) {
            (Some(dvfs), _) => dvfs.table.clone(),
            (None, Some(_)) => BoostConfig::table(),
            (None, None) => {
                let rest = OperatingPoint { frequency_ghz: chip.frequency_ghz, supply_v: 1.0 };
                Table { points: vec![rest], rest: 0, ..Table::default() }
            }
        };
        let changes = config.dvfs.is_some() || config.boost.is_some();
        if changes && (table.points[table.rest].frequency_ghz - chip.frequency_ghz).abs() > 1e-9 {
            return Err(("dvfs.table.rest", "the point of chip.frequency_ghz"));
        }
        if changes && table.points[table.highest()].frequency_ghz > chip.peak_frequency_ghz + 1e-9 {
            return Err(("dvfs.table", "no frequency above chip.peak_frequency_ghz"));
        }
        let cycle_fs = (1e6 / chip.frequency_ghz).round() as u64;
        let unit = UnitConfig {
            entries: config.entries,
            threshold_ns: config.threshold_ns,
            count_all: config.count_all,
            ..UnitConfig::new(cycle_fs)
        };
        let residency = CoreResidency {
            active_fs: vec![0; table.points.len()],
            idle_fs: vec![0; table.points.len()],
            changes: 0,
        };
        let core = CoreState {
            point: table.rest,
            rising: None,
            residency,
            evicted_lines: 0,
            instructions: 0,
            thread: None,
            idle_since_fs: 0,
            in_kernel: VecDeque::new(),
            alarm_fs: u64::MAX,
        };
        let mut cure = Self {
            injection: config.injection.as_ref().map(|injection| Injection::new(injection, chip.cores)),
            units: Units::new(&unit, chip.cores),
            cores: vec![core; chip.cores],
            threads: Vec::new(),
            translator: Translator::default(),
            later: BinaryHeap::new(),
            later_what: BTreeMap::new(),
            numbered: 0,
            ordered: Ordered::default(),
            injected: BTreeMap::new(),
            held_up: BTreeMap::new(),
            wakes: 0,
            wakes_at_fs: 0,
            meeting: Vec::new(),
            boost: config.boost.map(|boost| Boost::new(boost, config.frames.subframe_fs())),
            timer: InjectedCounts::default(),
            activities: Activities::new(chip.cores, machine.l2.line_octets),
            kept: Vec::new(),
            progress: Progress::default(),
            evicted_lines: 0,
            remote_fs: chip.remote_cycles * cycle_fs,
            cycle_fs,
            config,
            table,
            library,
        };
        cure.threads.push(ThreadState::new(0, None, cure.controller_of(None)));
        for core in 0..chip.cores {
            cure.cores[core].alarm_fs = cure.first_alarm(core);
        }
        Ok(cure)
    }

    /// The same with the recording that the configuration names.
    pub fn recorded_in(mut self, recording: Arc<Recording>) -> Self {
        self.injection = self.injection.map(|injection| injection.recorded_in(recording));
        self
    }

    fn first_alarm(&self, core: usize) -> u64 {
        self.injection.as_ref().and_then(|injection| injection.due_fs(core)).unwrap_or(u64::MAX)
    }

    pub(super) fn put_off(&mut self, at_fs: u64, core: usize, what: Later) {
        self.numbered += 1;
        self.later.push(Reverse((at_fs, core, self.numbered)));
        self.later_what.insert(self.numbered, what);
    }

    /// Takes what was put off and is due by now.
    fn catch_up(&mut self, now_fs: u64) {
        while let Some(&Reverse((at_fs, core, number))) = self.later.peek() {
            if at_fs > now_fs {
                return;
            }
            self.later.pop();
            match self.later_what.remove(&number) {
                Some(Later::Look(woken)) => {
                    for told in self.translator.look_again(woken).into_iter().flatten() {
                        self.tell(core, woken.thread, told, at_fs);
                    }
                }
                None => {}
            }
        }
    }

    pub(super) fn tell(&mut self, core: usize, thread: u32, told: SyncCall, at_fs: u64) {
        let event = SyncEvent {
            at_ns: at_fs / 1_000_000,
            object: told.object,
            call_site: SLEEP_PC,
            thread: unit_id(thread),
            detail: told.detail,
            cpu: core as u16,
            process: 0,
            kind: told.kind,
            outcome: SyncOutcome::Ok,
            flags: 0,
        };
        self.units.sync(&event, told.target.map(ThreadId));
    }

    pub(super) fn kernel(&mut self, core: usize, kind: KernelKind, at_fs: u64) {
        self.units.kernel(&KernelEvent { at_ns: at_fs / 1_000_000, cpu: core as u16, kind });
    }

    pub(super) fn left_kernel(
        &mut self,
        core: usize,
        thread: Option<u32>,
        told: Option<SyncCall>,
        at_fs: u64,
    ) {
        let Some(thread) = thread else { return };
        self.kernel(core, KernelKind::Exit { thread: unit_id(thread) }, at_fs);
        if let Some(told) = told {
            self.tell(core, thread, told, at_fs);
        }
    }

    /// The kernel takes this long on the event's core, then `told` is told. What is known only by its time passes as time.
    pub(super) fn inject(
        &mut self,
        thread: Option<u32>,
        told: Option<SyncCall>,
        timer: bool,
        draw: &Draw,
        moment: &Moment<'_>,
    ) {
        let steps = self.library.steps(draw).unwrap_or_else(|| {
            let scaled = draw.duration_fs as f64 / self.table.factor(self.cores[moment.core].point);
            let lasts_fs = if self.config.kernel_scales { scaled.round() as u64 } else { draw.duration_fs };
            EpochSteps::only_time(lasts_fs)
        });
        let (core, cores) = (moment.core as u32, self.cores.len() as u32);
        let steps = steps.of(Owner { data: self.config.kernel_data, core, cores, thread });
        let class = self.activities.ordered(moment.core, &steps);
        self.ordered.kernel.push(steps);
        self.cores[moment.core].in_kernel.push_back(InKernel { thread, told, timer, class });
    }

    /// What the event's core is to do, and when it is to be called next.
    fn order(&mut self, moment: &Moment<'_>, orders: &mut Orders<EpochSteps>) {
        let core = moment.core;
        let ordered = std::mem::take(&mut self.ordered);
        orders.kernel.extend(ordered.kernel);
        if ordered.ghz.is_some() || ordered.stall_fs > 0 {
            let ghz = ordered.ghz.unwrap_or(self.table.points[self.cores[core].point].frequency_ghz);
            orders.frequencies.push(FrequencyChange { core, ghz, stall_fs: ordered.stall_fs });
        }
        let state = &self.cores[core];
        let subframe = state.thread.and_then(|thread| self.threads.get(thread as usize));
        let subframe = subframe.map(|thread| thread.subframes.due_fs(&self.config.frames));
        let timer = self.injection.as_ref().and_then(|injection| injection.due_fs(core));
        let rising = state.rising.map(|(due_fs, ..)| due_fs);
        let next_fs = [subframe, timer, rising].into_iter().flatten().min().unwrap_or(u64::MAX);
        if next_fs != state.alarm_fs {
            orders.alarms.push((core, next_fs));
            self.cores[core].alarm_fs = next_fs;
        }
    }

    /// What became of the run, which ended at `end_fs`.
    pub fn finish(mut self, end_fs: u64) -> CureResults {
        self.catch_up(u64::MAX);
        for core in &mut self.cores {
            if core.thread.is_none() {
                core.idles_until(end_fs);
            }
        }
        let dummies = self.config.frames.dummy_subframes;
        let owed = |after: u32| -> Vec<i64> {
            let each = self.threads.iter().map(|state| match (&state.controller, &self.config.dvfs) {
                (Some(controller), Some(config)) => controller.after_dummies(config, after),
                _ => 0,
            });
            each.collect()
        };
        let subframes = self
            .threads
            .iter()
            .fold((0, 0), |sum, state| (sum.0 + state.subframes.in_time, sum.1 + state.subframes.forced));
        CureResults {
            owed_fs: owed(0),
            beyond_slack_fs: self.threads.iter().map(|state| state.beyond_slack_fs).collect(),
            owed_after_dummies_fs: owed(dummies),
            units: self.units.finish(end_fs / self.cycle_fs),
            injected: self.injected,
            recorded: self.injection.as_ref().and_then(Injection::recorded).cloned(),
            timer: self.timer,
            activities: self.activities.by_class,
            subframes,
            kept: self.kept,
            table: self.table,
            residency: self.cores.into_iter().map(|core| core.residency).collect(),
            evicted_lines: self.evicted_lines,
            progress: self.progress,
        }
    }
}

/// The machine borrows it, so that [`Cure::finish`] can be asked afterwards.
impl Hooks for &mut Cure {
    type Kernel = EpochSteps;

    fn second_level(&self) -> SecondLevel {
        SecondLevel { cache: self.config.cache, counts_evictions: self.config.evictions.is_some() }
    }

    fn first_alarm_fs(&self, core: usize) -> u64 {
        self.first_alarm(core)
    }

    fn passes_fs(kernel: &EpochSteps) -> u64 {
        kernel.passes_fs()
    }

    fn wakes_late(&mut self, woken: Woken<'_>) -> bool {
        Cure::wakes_late(self, woken)
    }

    fn event(
        &mut self,
        moment: &Moment<'_>,
        event: Event,
        orders: &mut Orders<EpochSteps>,
    ) -> Result<(), SimulationError> {
        self.catch_up(moment.at_fs);
        self.cores[moment.core].instructions = moment.counts.instructions;
        match event {
            Event::Created { thread, by } => self.created(thread.0, by.0, moment),
            Event::Runs { thread, queued_fs } => self.runs(thread.0, queued_fs, moment),
            Event::Stops { thread } => self.stops(thread.0, moment),
            Event::WakesLate { thread } => self.late(thread.0, moment),
            Event::Enters { thread, sync } => self.enters(thread.0, sync, moment),
            Event::Leaves { thread, sync, by } => self.leaves(thread.0, sync, by, moment),
            Event::Ended { thread } => self.ended(thread.0, moment),
            Event::Alarm { thread } => self.alarm(thread.map(|thread| thread.0), moment),
            Event::KernelEnters { thread } => self.kernel_enters(thread.map(|thread| thread.0), moment),
            Event::KernelLeaves { thread } => self.kernel_leaves(thread.map(|thread| thread.0), moment),
        }
        self.boost(moment, orders);
        self.order(moment, orders);
        Ok(())
    }
}
