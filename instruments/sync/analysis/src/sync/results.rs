//! What the protocol finds.

use super::event::ThreadId;
use super::settings::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// Classes of the paper's figure 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumCount, VariantArray)]
pub enum SyncClass {
    /// sw: from a signal (or post) to the return of the wait that it ended.
    SignalWait,
    /// s: the call of signal (or post) itself.
    Signal,
    /// bw: from a broadcast, or the last arrival at a barrier, to the return of a wait that it ended.
    BroadcastWait,
    /// b: the call of broadcast itself; of a barrier, the call of who arrived last.
    Broadcast,
    /// lu: from an unlock to the return of the lock that waited for it.
    LockUnlock,
    /// u: the call of unlock itself.
    Unlock,
}

impl SyncClass {
    /// All, in the paper's order.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// The paper's short name.
    pub const fn short(self) -> &'static str {
        ["sw", "s", "bw", "b", "lu", "u"][self as usize]
    }

    /// The paper's name.
    pub const fn name(self) -> &'static str {
        ["signal-wait", "signal", "broadcast-wait", "broadcast", "lock-unlock", "unlock"][self as usize]
    }
}

/// Time that threads lose outside the six classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumCount, VariantArray)]
pub enum OtherClass {
    /// From the call of create to the start of the new thread.
    Start,
    /// From the end of a thread to the return of the join that waited for it.
    Join,
    /// Timer interrupts, and softirqs that run timers, while the thread ran its own code.
    Timer,
    /// Other interrupts and softirqs, likewise.
    Interrupt,
    /// System calls that slept for longer than the user's threshold.
    SystemCall,
    /// Off the CPU although it could run, outside every call.
    Preemption,
    /// The CPU ran slower.
    SlowCpu,
    /// Messages were late on the bus.
    Bus,
}

impl OtherClass {
    /// All.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        ["start", "join", "timer", "interrupt", "system-call", "preemption", "slow-cpu", "bus"][self as usize]
    }
}

/// Why a piece of a wait passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Cause {
    /// The waker had called but its kernel had not begun to wake.
    WakerLate,
    /// The kernel was at work: on the waker's side to wake, on the wakee's to switch and to return (k_e, k_x).
    KernelNotSwitched,
    /// Case 2: another thread was switched to first on the wakee's CPU.
    OtherThreadFirst,
    /// Case 3: the runnable wakee was moved and had not yet run on its new CPU.
    Migrated,
    /// Runnable behind the thread that ran already when it was woken.
    RunQueue,
    /// The wakee's CPU handled an interrupt or softirq.
    Interrupt,
    /// The wakee's CPU came out of idle.
    IdleExit,
    /// The mutex that the wait has to take again was held.
    MutexHeld,
    /// The wakee itself ran, inside the library.
    Running,
    /// No event tells.
    Unexplained,
}

impl Cause {
    /// All.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        [
            "waker delayed",
            "kernel switch pending",
            "other thread ran first",
            "migrated",
            "run-queue wait",
            "interrupt",
            "idle exit",
            "mutex held",
            "running",
            "unexplained",
        ][self as usize]
    }
}

/// Number, sum and largest of some durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sums {
    /// How many.
    pub count: u64,
    /// Sum, nanoseconds.
    pub total_ns: u64,
    /// Largest, nanoseconds.
    pub max_ns: u64,
}

impl Sums {
    /// Adds one duration.
    pub fn add(&mut self, duration_ns: u64) {
        self.count += 1;
        self.total_ns += duration_ns;
        self.max_ns = self.max_ns.max(duration_ns);
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Mean; none of nothing.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns as f64 / self.count as f64)
    }
}

/// Values between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bin {
    /// Lower bound, inside.
    pub from_ns: f64,
    /// Upper bound, outside.
    pub to_ns: f64,
    /// Values.
    pub count: u64,
}

/// One of the six classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassFigures {
    /// Which.
    pub class: SyncClass,
    /// All operations of the class whose time T is known, in time or not.
    pub timed: Sums,
    /// Late ones (T > N), counted as T − N or T.
    pub late: Sums,
    /// Late ones a millisecond of the whole run (tables 6 and 7, column 1, by class).
    pub late_per_ms: f64,
    /// Mean of the late ones.
    pub mean_ns: Option<f64>,
    /// Percentiles of the late ones, to 0.1 % of themselves: the smallest value x with F(x) >= p.
    pub p50_ns: Option<u64>,
    /// 90th.
    pub p90_ns: Option<u64>,
    /// 99th.
    pub p99_ns: Option<u64>,
    /// 99.9th.
    pub p99_9_ns: Option<u64>,
    /// Part of the sum over the six classes (figure 9), 0 to 1; none where nothing was late.
    pub share: Option<f64>,
    /// Distribution of the late ones (figures 7 and 8), ten bins a decade, empty ones left out.
    pub bins: Vec<Bin>,
}

/// One class outside the six.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherFigures {
    /// Which.
    pub class: OtherClass,
    /// Its events.
    pub lost: Sums,
}

/// An object or a call site that made threads late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offender {
    /// Process image.
    pub process: u16,
    /// Address of the object, or that the call returns to.
    pub address: u64,
    /// All classes together.
    pub late: Sums,
    /// By class, in the order of [`SyncClass::ALL`].
    pub classes: [Sums; 6],
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFigures {
    /// Which.
    pub thread: ThreadId,
    /// Process image.
    pub process: u16,
    /// First event.
    pub first_ns: u64,
    /// Last event, or end of time that it lost.
    pub last_ns: u64,
    /// Time inside blocking calls.
    pub waited_ns: u64,
    /// Late operations of the six classes.
    pub late: Sums,
    /// By class.
    pub classes: [Sums; 6],
    /// Lost outside the six classes.
    pub other: Sums,
    /// Runnable without running while it waited in a call (causes run queue and other thread first).
    pub run_queue_ns: u64,
    /// The paper's counter of its frame by the fork/join rule: starts with the creator's, becomes the larger one at a join.
    pub count_ns: u64,
}

/// One core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreFigures {
    /// Which.
    pub core: u16,
    /// Late operations that ended on it.
    pub late: Sums,
    /// By class.
    pub classes: [Sums; 6],
    /// Lost on it outside the six classes.
    pub other: Sums,
    /// Waits that began on another core and ended on this one (case 3).
    pub migrations: u64,
}

/// How many wake-ups were matched with who caused them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Returns from calls that had waited and got what they waited for.
    pub wake_ups: u64,
    /// Of these, with a waker.
    pub matched: u64,
    /// Without a waker: spurious, or the waker was not recorded.
    pub without_waker: u64,
    /// Not tracked, for a buffer of limited size was full.
    pub overflowed: u64,
}

impl Coverage {
    /// Matched over all, 0 to 1; none without wake-ups.
    pub fn share(&self) -> Option<f64> {
        (self.wake_ups > 0).then(|| self.matched as f64 / self.wake_ups as f64)
    }
}

/// What else was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Events of the thread library.
    pub events: u64,
    /// Events of the kernel and the machine.
    pub kernel_events: u64,
    /// Events that were earlier than the one before; they count as of its time.
    pub out_of_order: u64,
    /// Records that the recorder lost, as told by [`super::Protocol::lost`].
    pub lost_records: u64,
    /// Blocking calls that timed out.
    pub timeouts: u64,
    /// That a signal handler interrupted.
    pub interrupted: u64,
    /// That found the object taken (EBUSY, EAGAIN).
    pub busy: u64,
    /// Locks that were got since their owner had ended with them (EOWNERDEAD).
    pub owners_died: u64,
    /// That failed, were cancelled or refused.
    pub failed: u64,
    /// Entries without a return: lost, or the thread vanished.
    pub entries_alone: u64,
    /// Returns without an entry.
    pub exits_alone: u64,
    /// Signals and posts that woke nobody.
    pub signals_for_nobody: u64,
    /// Broadcasts that woke nobody.
    pub broadcasts_for_nobody: u64,
    /// Matched waits by the paper's cases 1, 2 and 3.
    pub cases: [u64; 3],
    /// Threads.
    pub threads: u64,
    /// Threads whose end was not seen.
    pub threads_without_end: u64,
    /// Offenders that were let go since there were too many; their time is in the classes only.
    pub offenders_dropped: u64,
}

/// The chain of events that the run could not be shorter than. It covers the run without a hole:
/// execution + sync jitter + other jitter + blocked + sleep + spinning = length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalPath {
    /// Thread that it ends in.
    pub last_thread: Option<ThreadId>,
    /// From the first event to the last of that thread.
    pub length_ns: u64,
    /// What is left: the program's own work, and operations that were in time.
    pub execution_ns: u64,
    /// Late operations on the path, the six classes together.
    pub sync_jitter_ns: u64,
    /// By class.
    pub classes_ns: [u64; 6],
    /// Lost on the path outside the six classes.
    pub other_ns: u64,
    /// Waits on the path that nobody ended: timeouts, waits without a known waker.
    pub blocked_ns: u64,
    /// Sleep on the path outside of calls of the library, until the thread ran again; 0 where no switches were recorded. Sleep in
    /// system calls that do more than wait is other jitter from the threshold on.
    #[serde(default)]
    pub slept_ns: u64,
    /// Loops on the path that wait for others without sleeping, by samples; 0 where none were taken.
    #[serde(default)]
    pub spun_ns: u64,
    /// How often it goes from one thread to another.
    pub hand_overs: u64,
}

/// Tables 4 and 5: sync jitter over all jitter. None where there is neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncShare {
    /// On the critical path, 0 to 1.
    pub critical_path: Option<f64>,
    /// Mean over threads that lost time.
    pub threads_mean: Option<f64>,
    /// Of the time of all threads together.
    pub threads_total: Option<f64>,
}

/// One cause over all late waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseFigures {
    /// Which.
    pub cause: Cause,
    /// Its pieces in late waits, one a wait.
    pub waits: Sums,
    /// Late waits of which it is the largest piece.
    pub leads: u64,
    /// Its time by class.
    pub classes_ns: [u64; 6],
}

/// A piece of a wait. The pieces of one wait are in time order and cover it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitPiece {
    /// Begins.
    pub start_ns: u64,
    /// Ends.
    pub end_ns: u64,
    /// Why it passed.
    pub cause: Cause,
}

/// A wait and who ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// [`SyncClass::SignalWait`], [`SyncClass::BroadcastWait`] or [`SyncClass::LockUnlock`].
    pub class: SyncClass,
    /// Process image of the waiter.
    pub process: u16,
    /// Who waited.
    pub thread: ThreadId,
    /// Who ended the wait.
    pub waker: ThreadId,
    /// What for.
    pub object: u64,
    /// Where the waiter's call returns to.
    pub call_site: u64,
    /// Where the waker's call returns to.
    pub waker_call_site: u64,
    /// w_e or l_e.
    pub entered_ns: u64,
    /// s_e, b_e or u_e; the entry where that was later.
    pub released_ns: u64,
    /// w_x or l_x.
    pub ended_ns: u64,
    /// CPU at the entry.
    pub entered_cpu: u16,
    /// CPU of the waker.
    pub waker_cpu: u16,
    /// CPU at the return.
    pub ended_cpu: u16,
    /// The paper's case: 1, 2 (another thread ran first) or 3 (another core).
    pub case: u8,
    /// Pairs of kernel entry and exit on the wakee's CPU after the release, where the kernel's side is known.
    pub kernel_pairs: u32,
    /// From `released_ns` to `ended_ns`.
    pub pieces: Vec<WaitPiece>,
}

impl Wait {
    /// T: from the release to the return.
    pub const fn took_ns(&self) -> u64 {
        self.ended_ns - self.released_ns
    }
}

/// More threads that could run than CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Oversubscription {
    /// CPUs that the program may use, where they are known.
    pub cpus: Option<u32>,
    /// Most threads at once that did not wait in a call.
    pub most_runnable: u32,
    /// Time with more such threads than CPUs.
    pub crowded_ns: u64,
    /// Part of the run, 0 to 1; none where CPUs are not known.
    pub crowded_share: Option<f64>,
    /// Time of late waits in a run queue (causes run queue and other thread first), to be told apart from the rest.
    pub run_queue_ns: u64,
    /// More than a tenth of the run was crowded: run-queue delay swamps what is to be measured.
    pub warns: bool,
}

/// Buffers and messages of the units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitFigures {
    /// Entries of each buffer; none: unlimited.
    pub entries: Option<u32>,
    /// Most entries in use in one wait buffer.
    pub wait_most: u32,
    /// Most in one lock buffer.
    pub lock_most: u32,
    /// Waits dropped, for the wait buffer was full.
    pub wait_overflows: u64,
    /// Locks dropped, for the lock buffer was full.
    pub lock_overflows: u64,
    /// s_e, b_e and u_e sent to all units.
    pub broadcasts: u64,
    /// Queries for a thread that woke on another core.
    pub queries: u64,
}

/// All that the protocol finds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncResults {
    /// What was assumed.
    pub settings: Settings,
    /// First event.
    pub from_ns: u64,
    /// Last event.
    pub to_ns: u64,
    /// The six classes, in the order of [`SyncClass::ALL`].
    pub classes: Vec<ClassFigures>,
    /// The six classes together: late operations.
    pub late: Sums,
    /// All others, in the order of [`OtherClass::ALL`].
    pub others: Vec<OtherFigures>,
    /// Objects, the worst first.
    pub objects: Vec<Offender>,
    /// Call sites of who was late, the worst first.
    pub call_sites: Vec<Offender>,
    /// Threads, the worst first.
    pub threads: Vec<ThreadFigures>,
    /// Cores, by number.
    pub cores: Vec<CoreFigures>,
    /// Matched wake-ups.
    pub coverage: Coverage,
    /// What else was counted.
    pub counts: Counts,
    /// The critical path.
    pub critical_path: CriticalPath,
    /// Tables 4 and 5.
    pub sync_share: SyncShare,
    /// Why late waits were late, in the order of [`Cause::ALL`].
    pub causes: Vec<CauseFigures>,
    /// The longest waits of each class, longest first.
    pub longest: Vec<Wait>,
    /// More threads than CPUs.
    pub oversubscription: Oversubscription,
    /// Buffers and messages.
    pub units: UnitFigures,
}

impl SyncResults {
    /// From the first event to the last.
    pub const fn duration_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}
