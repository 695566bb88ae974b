//! What the ledger of contention shows.

use super::spending::Spending;
use crate::sync::event::ThreadId;
use crate::sync::results::Sums;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the time of a thread went into until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// In the order of [`Spending::ALL`], nanoseconds.
    pub parts_ns: [u64; 11],
    /// Of the run queue: behind threads of the program itself, nanoseconds.
    pub crowded_ns: u64,
    /// Of the run queue: behind threads of other programs, nanoseconds. The rest is of idle CPUs that had not switched yet.
    pub others_ns: u64,
}

/// Where the time of one thread went: the parts together are `last_ns` − `first_ns`, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// Which.
    pub thread: ThreadId,
    /// Process image.
    pub process: u16,
    /// First event.
    pub first_ns: u64,
    /// Last event.
    pub last_ns: u64,
    /// See [`Spending::Execution`]; the others likewise.
    pub execution_ns: u64,
    /// Locks.
    pub lock_ns: u64,
    /// Conditions.
    pub condition_ns: u64,
    /// Semaphores.
    pub semaphore_ns: u64,
    /// Barriers.
    pub barrier_ns: u64,
    /// Joins.
    pub join_ns: u64,
    /// Futex calls of its own.
    pub futex_ns: u64,
    /// Sleep outside of these.
    pub sleep_ns: u64,
    /// Run queue.
    pub run_queue_ns: u64,
    /// Loops that wait for others, as far as samples tell, and time for which it gave its CPU away.
    pub spin_ns: u64,
    /// Kept from its CPU by the quota of its control group.
    #[serde(default)]
    pub quota_ns: u64,
    /// Execution, spinning included, in which samples did not come when due: spinning may be wrong by as much. None where no
    /// sample came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsampled_ns: Option<u64>,
}

impl ThreadTime {
    /// The parts, in the order of [`Spending::ALL`].
    pub const fn parts_ns(&self) -> [u64; 11] {
        [
            self.execution_ns,
            self.lock_ns,
            self.condition_ns,
            self.semaphore_ns,
            self.barrier_ns,
            self.join_ns,
            self.futex_ns,
            self.sleep_ns,
            self.run_queue_ns,
            self.spin_ns,
            self.quota_ns,
        ]
    }
}

/// What a thread did at a time, as somebody who waits for it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// It ran. Without kernel tracing also whatever else it did outside of blocking calls.
    Ran,
    /// It could run, and its CPU ran another thread.
    RunQueue,
    /// It slept in a system call, or for a page.
    Slept,
    /// It waited in a blocking call.
    Waited,
    /// Not known any more: longer ago than its log reaches.
    Unknown,
}

impl Activity {
    /// All.
    pub const ALL: [Self; 5] = [Self::Ran, Self::RunQueue, Self::Slept, Self::Waited, Self::Unknown];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        ["ran", "waited for its CPU", "slept", "waited itself", "not known"][self as usize]
    }
}

/// A thread's part of some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadShare {
    /// Which.
    pub thread: ThreadId,
    /// Its part.
    pub total_ns: u64,
}

/// A system call's part of the time that owners slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallShare {
    /// Its number in the machine's table; none where no system call was seen around the sleep: a page fault, a call shorter than
    /// the threshold, or one that had not returned when the wait ended.
    pub call: Option<u16>,
    /// Its part.
    pub total_ns: u64,
}

/// An address's part of some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceShare {
    /// Process image.
    pub process: u16,
    /// Address of an object, or that a call returns to.
    pub address: u64,
    /// Its part.
    pub total_ns: u64,
}

/// Who waited for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairShare {
    /// Who waited.
    pub waiter: ThreadId,
    /// Who owned the lock meanwhile.
    pub owner: ThreadId,
    /// Holds that it waited for.
    pub holds: u64,
    /// For how long.
    pub total_ns: u64,
}

/// Where a chain of waits ends: a thread that waited for nobody, and what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RootShare {
    /// Which thread.
    pub thread: ThreadId,
    /// What it did.
    pub activity: Activity,
    /// Most locks on the way to it.
    pub depth: u8,
    /// Wait that it is the root of.
    pub total_ns: u64,
}

/// What a lock's waiting looks like as a whole. Each but a deadlock is named where its share of the wait reaches [`PATTERN_SHARE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Threads that asked later got the lock first.
    Barging,
    /// Two threads and more waited nearly always, behind holds of many owners none of which was long.
    Convoy,
    /// An owner less urgent than a waiter waited for its CPU behind another thread that is less urgent than that waiter.
    PriorityInversion,
    /// To the end of the run a thread waited for it while its owner waited, at once or through others, for what that thread had.
    Deadlock,
}

impl Pattern {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        ["barging", "convoy", "priority inversion", "deadlock"][self as usize]
    }
}

/// Share of a lock's wait from which a pattern has a name.
pub const PATTERN_SHARE: f64 = 0.25;

/// One lock. `held_ns` + `handed_over_ns` + `owner_unknown_ns` are `wait.total_ns`, and the owner's activities are `held_ns`,
/// exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockFigures {
    /// Process image.
    pub process: u16,
    /// Address.
    pub address: u64,
    /// Times that it was free when it was asked for, estimated from a sample: of each thread the first 512 free locks count
    /// exactly, then one in two, and so on to one in 1,024.
    pub free: u64,
    /// A sample stood for several times, so that `free` is an estimate.
    #[serde(default)]
    pub free_is_estimate: bool,
    /// Times that it was held by another thread when it was asked for, and was got.
    pub contended: u64,
    /// Waits for it, those that timed out included: from the call to its return.
    pub wait: Sums,
    /// Rows of tries that got it, from the first that failed: waits in a loop of the program's own. They are no part of `wait`.
    #[serde(default)]
    pub tried: Sums,
    /// Tries that failed in these rows.
    #[serde(default)]
    pub failed_tries: u64,
    /// Of the wait: somebody held it.
    pub held_ns: u64,
    /// Of `held_ns`: the wait ended before the owner gave it back. It ran out, the owner or the program ended.
    #[serde(default)]
    pub outlasted_ns: u64,
    /// Of the wait: it had been given back, and the next owner was on its way.
    pub handed_over_ns: u64,
    /// Times that a thread which had waited got it, each from the latest unlock to the return of that thread's call.
    #[serde(default)]
    pub hand_over: Sums,
    /// Of the wait: who held it is not known, since no unlock was recorded.
    pub owner_unknown_ns: u64,
    /// Holds whose beginning and end are known: those of threads that had waited, and samples of the others.
    pub hold: Sums,
    /// Of `held_ns`: what the owner did, in the order of [`Activity::ALL`].
    pub owner_ns: [u64; 5],
    /// Threads that ran while the owner waited for its CPU.
    pub preempted_by: Vec<ThreadShare>,
    /// Of the owner's wait for its CPU: the quota of its control group kept it from that, and no thread.
    #[serde(default)]
    pub quota_ns: u64,
    /// Calls that the owner slept in.
    pub slept_in: Vec<CallShare>,
    /// What the owner waited for itself.
    pub waited_for: Vec<PlaceShare>,
    /// Who waited for whom.
    pub pairs: Vec<PairShare>,
    /// Where the chains of waits end.
    pub roots: Vec<RootShare>,
    /// Where owners gave it back: return addresses of their unlocks.
    pub owner_sites: Vec<PlaceShare>,
    /// Where it was waited for.
    pub waiter_sites: Vec<PlaceShare>,
    /// Time in which anybody waited.
    pub queued_ns: u64,
    /// Time in which two threads or more waited.
    pub crowded_ns: u64,
    /// Holds by threads that had asked later than one that waited, counted for each who waited.
    pub overtaken: Sums,
    /// Time that owners less urgent than a waiter waited for their CPUs behind other threads less urgent than that waiter. So it
    /// is of the thread at the end of a chain, where the owner waited for another lock.
    pub inverted_ns: u64,
    /// The part of it at the ends of chains.
    #[serde(default)]
    pub inverted_deep_ns: u64,
    /// Those threads.
    pub inverted_by: Vec<ThreadShare>,
    /// A wait that was part of a deadlock at the end of the run: who waited, who owned the lock, for how long.
    #[serde(default)]
    pub deadlock: Option<PairShare>,
    /// What it comes to.
    pub patterns: Vec<Pattern>,
}

impl LockFigures {
    /// Time for which threads waited for it or tried to get it, nanoseconds.
    pub const fn sought_ns(&self) -> u64 {
        self.wait.total_ns + self.tried.total_ns
    }

    /// Share of the times it was got that it was held by another thread first, 0 to 1; none where it was never got.
    pub fn contended_share(&self) -> Option<f64> {
        let all = self.contended + self.free;
        (all > 0).then(|| self.contended as f64 / all as f64)
    }
}

/// What an object is that has no owner.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WordKind {
    /// A word that threads wait on by futex calls of their own: locks and conditions of other makers than the thread library.
    #[default]
    FutexWord,
    /// A semaphore of the thread library.
    Semaphore,
}

impl WordKind {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        ["futex word", "semaphore"][self as usize]
    }
}

/// How a word is used. No record says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WordUse {
    /// Like a lock: whoever was woken on it wakes the next.
    Lock,
    /// Like a condition: others wake those who wait, one at a time.
    Signal,
    /// Like a barrier: all who wait are woken at once.
    Broadcast,
    /// Too little was seen, or it may be either.
    Unknown,
}

impl WordUse {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        ["lock", "signal", "broadcast", "not known"][self as usize]
    }
}

/// Wake-ups on a word from which on they say how it is used.
const TELLING_WAKE_UPS: u64 = 4;

/// A thread's part of the waits on a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaiterShare {
    /// Which thread.
    pub thread: ThreadId,
    /// Its waits.
    pub waits: u64,
    /// How long they took.
    pub total_ns: u64,
}

/// Wake-ups by a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WakerShare {
    /// Which thread.
    pub thread: ThreadId,
    /// Waits that it ended.
    pub wake_ups: u64,
    /// Of these, such that the kernel recorded. The rest follow from the order of calls.
    pub certain: u64,
    /// How long those waits took.
    pub total_ns: u64,
}

/// A semaphore or a futex word. `woken` + `changed` + `given_up` are `wait.count`, exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WordFigures {
    /// Process image.
    pub process: u16,
    /// Address.
    pub address: u64,
    /// What it is.
    pub kind: WordKind,
    /// Waits on it: from the call to its return.
    pub wait: Sums,
    /// Waits that ended by a wake-up.
    pub woken: u64,
    /// Waits that did not begin, for the word had changed.
    pub changed: u64,
    /// Waits that ended otherwise: their time was over, a handler ran, they failed or never returned.
    pub given_up: u64,
    /// Of `wait`: in waits that had not ended when the run did, nanoseconds.
    #[serde(default)]
    pub unended_ns: u64,
    /// Threads that waited, up to 256.
    pub threads: u64,
    /// Those who waited for longest.
    pub waiters: Vec<WaiterShare>,
    /// Who ended the longest waits.
    pub wakers: Vec<WakerShare>,
    /// Of `woken`: by whom is not known.
    pub waker_unknown: u64,
    /// Calls that may wake one waiter.
    pub wakes_one: u64,
    /// Calls that may wake several.
    pub wakes_all: u64,
    /// Of `woken`: the thread called to wake others on the word before it waited on it again.
    pub passed_on: u64,
    /// Of `woken`: the thread waited on the word again first.
    pub again: u64,
    /// Of these: within 50 µs. It found nothing, or what it did took no longer.
    pub again_at_once: u64,
    /// Where it was waited on.
    pub waiter_sites: Vec<PlaceShare>,
}

impl WordFigures {
    /// It was woken often enough for its wake-ups to say something.
    pub const fn is_woken_often(&self) -> bool {
        self.woken >= TELLING_WAKE_UPS
    }

    /// How it is used, as far as its wake-ups tell.
    pub const fn used_like(&self) -> WordUse {
        let used = self.woken - self.again_at_once;
        let is_passed_on = self.passed_on >= TELLING_WAKE_UPS && 2 * self.passed_on >= used;
        if !self.is_woken_often() {
            return WordUse::Unknown;
        }
        match (is_passed_on, self.wakes_all > self.wakes_one) {
            (true, false) => WordUse::Lock,
            // All are woken for a lock that one of them gets. Of two threads it may be a barrier.
            (true, true) if 4 * self.again_at_once >= self.woken => WordUse::Lock,
            (true, true) => WordUse::Unknown,
            (false, true) => WordUse::Broadcast,
            // Posts that nobody waits for are not recorded.
            (false, false) if matches!(self.kind, WordKind::Semaphore) => WordUse::Unknown,
            (false, false) => WordUse::Signal,
        }
    }
}

/// A condition whose waiters wait again at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionFigures {
    /// Process image.
    pub process: u16,
    /// Address.
    pub address: u64,
    /// Times that a wait on it returned without an error.
    pub woken: u64,
    /// Waits that began with the mutex kept since a wait on it returned: who was woken found nothing to do, or did it with the mutex
    /// held. Of `woken`, but for the last of each thread.
    pub again: u64,
    /// Signals.
    pub signals: u64,
    /// Broadcasts.
    pub broadcasts: u64,
    /// Waits for it, each from the call to its return, its mutex included.
    #[serde(default)]
    pub wait: Sums,
    /// Of these: their time was over.
    #[serde(default)]
    pub timed_out: Sums,
    /// Of these: the last before it was a signal or broadcast while nobody waited. If the thread did not look at what it waits for
    /// before it began to wait, that was lost.
    #[serde(default)]
    pub unheard_before: Sums,
    /// Signals and broadcasts while nobody waited.
    #[serde(default)]
    pub unheard: u64,
    /// Threads that waited, up to 256.
    #[serde(default)]
    pub threads: u64,
    /// Who ended the longest waits.
    #[serde(default)]
    pub wakers: Vec<WakerShare>,
    /// Of `woken`: by whom is not known.
    #[serde(default)]
    pub waker_unknown: u64,
    /// Where it was waited for.
    #[serde(default)]
    pub waiter_sites: Vec<PlaceShare>,
}

/// A thread's part of the rounds of a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastShare {
    /// Which thread.
    pub thread: ThreadId,
    /// Rounds in which it came last.
    pub rounds: u64,
    /// How long after the one before it it came, in all these rounds together: they would be over so much earlier at most.
    pub behind_ns: u64,
    /// For how long the others waited for it, all together.
    pub total_ns: u64,
}

/// A barrier. `for_last_ns` + `after_ns` + `unfinished_ns` are `wait.total_ns`, exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BarrierFigures {
    /// Process image.
    pub process: u16,
    /// Address.
    pub address: u64,
    /// Calls, that of the last to come included: each from its entry to its return.
    pub wait: Sums,
    /// Times that all had come.
    pub rounds: u64,
    /// Of the wait: the last one had not come.
    pub for_last_ns: u64,
    /// Of the wait: all had come, and the threads were on their way.
    pub after_ns: u64,
    /// Of the wait: nobody was seen to go on.
    pub unfinished_ns: u64,
    /// Threads that waited, up to 256.
    pub threads: u64,
    /// Who came last, the one for whom the others waited for longest first.
    pub last: Vec<LastShare>,
    /// Where it was waited at.
    pub waiter_sites: Vec<PlaceShare>,
    /// Of a barrier that is a futex word: where the last woke the others, with the time that those had waited.
    #[serde(default)]
    pub last_sites: Vec<PlaceShare>,
}

/// All locks and all threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Contention {
    /// What the kernel's side did was seen, so that sleep and run queue are apart from execution.
    pub kernel_seen: bool,
    /// Waits for all locks together.
    pub wait: Sums,
    /// Rows of tries for all locks together.
    pub tried: Sums,
    /// The conditions that were waited for longest.
    pub conditions: Vec<ConditionFigures>,
    /// The barriers that threads waited at for longest.
    pub barriers: Vec<BarrierFigures>,
    /// Time in run queues behind threads of the program itself, of all threads.
    pub crowded_ns: u64,
    /// Time in run queues behind threads of other programs, of all threads.
    pub others_ns: u64,
    /// The locks that were waited or tried for longest.
    pub locks: Vec<LockFigures>,
    /// Locks that are not listed.
    pub locks_left_out: u64,
    /// Waits on all semaphores and futex words together; no part of `wait`.
    pub word_wait: Sums,
    /// Semaphores and futex words, those that were waited on for longest.
    pub words: Vec<WordFigures>,
    /// Those that are not listed.
    pub words_left_out: u64,
    /// Of the words on which one thread was woken at a time: for whom threads waited if the word is a lock, that is, until who gave it
    /// back. Only contended uses are seen, so that `free` and `hold` say nothing.
    pub given_back: Vec<LockFigures>,
    /// Futex words, for whom threads waited if each is a barrier.
    pub word_rounds: Vec<BarrierFigures>,
    /// Waits that had not ended when the run did, the longest first.
    pub unended: Vec<UnendedWait>,
    /// Processes all of whose threads waited then.
    pub standstills: Vec<Standstill>,
    /// Threads, in the order of their beginnings.
    pub threads: Vec<ThreadTime>,
}

/// A wait that had not ended when the run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnendedWait {
    /// Who waited.
    pub thread: ThreadId,
    /// Process image.
    pub process: u16,
    /// For what kind of thing.
    pub waits_for: Spending,
    /// Address of the object; of a join, what the thread library calls the other thread.
    pub address: u64,
    /// Where it was called.
    pub call_site: u64,
    /// From the call to the end of the run, nanoseconds.
    pub total_ns: u64,
    /// The latest call before it that woke others there found nobody waiting.
    pub after_unheard: bool,
}

/// A process all of whose threads waited when it ended: none was left to end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standstill {
    /// Process image.
    pub process: u16,
    /// Its threads.
    pub threads: u64,
    /// Since the last of them began to wait, nanoseconds.
    pub total_ns: u64,
}
