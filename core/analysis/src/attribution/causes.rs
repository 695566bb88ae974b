//! The table of causes: a compact key for each, its name, and the sums over all late windows.

use crate::catalogue;
use crate::model::{Actor, Names};
use crate::summary::{CauseSummary, MOST_THREADS, Remedy, SourceClass, ThreadTime};
use std::collections::BTreeMap;

/// What a cause is, short enough to be made for each interval. Texts are made once a cause, not once an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CauseKey {
    /// Identifier in the catalogue.
    pub(crate) id: &'static str,
    pub(crate) detail: Detail,
    /// It kept the source from sending: then the identifier is `source-late` and the rest is its reason.
    pub(crate) behind_source: bool,
}

/// What tells causes of one identifier apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Nothing but this text.
    Plain(&'static str),
    /// Device interrupt of this number.
    Irq(u32),
    /// A kernel function (0: not known) that this kind of event ran.
    Function(&'static str, u64),
    /// A kernel function (0: not known) that a thread (0: not known) made run here.
    Sent(&'static str, u64, u32),
    /// A wait at this kernel function (0: not known), which a thread (0: not known) ended.
    Ended(&'static str, u64, u32),
    /// A thread, with the scheduling class that its priority tells.
    Thread(u32, Class),
    /// A kworker with the work that it did.
    Work(u32, u64),
    /// A thread (0: not known) that held a lock or had to signal a condition, and what it did meanwhile.
    Lock(u32, HolderState),
    /// A thread whose end was waited for, and what it did meanwhile.
    End(u32, HolderState),
    /// A thread (0: not known) that was waited for at this.
    Awaited(&'static str, u32),
    /// A thread in the kernel, at this function (0: not known), where it could not be preempted.
    Kernel(u32, u64),
    /// A system call of the receiver, by number.
    Call(u64),
    /// This text, on a grid of this period, nanoseconds.
    Periodic(&'static str, i64),
}

/// What the holder of a lock did while others waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HolderState {
    Unknown,
    Ran,
    Slept,
    /// It was runnable while this thread (0: idle) held its CPU.
    Waited(u32),
    WaitedForDisk,
}

/// Scheduling class and priority, from the priority that the kernel prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Deadline,
    /// SCHED_FIFO or SCHED_RR of this priority (1 to 99).
    RealTime(u32),
    Normal,
}

impl Class {
    /// From the low 32 bits of a thread interval's `aux`.
    pub(crate) fn of(aux: u64) -> Self {
        match aux as u32 as i32 {
            ..0 => Self::Deadline,
            priority @ 0..=99 => Self::RealTime((99 - priority) as u32),
            _ => Self::Normal,
        }
    }
}

impl Class {
    fn name(self) -> String {
        match self {
            Self::Deadline => "deadline".to_string(),
            Self::RealTime(priority) => format!("fifo {priority}"),
            Self::Normal => "normal".to_string(),
        }
    }
}

impl HolderState {
    fn name(self, names: &Names) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Ran => ", which ran".to_string(),
            Self::Slept => ", which slept".to_string(),
            Self::Waited(0) => ", which waited for its CPU".to_string(),
            Self::Waited(by) => format!(", which waited while {} ran", task(by, names)),
            Self::WaitedForDisk => ", which waited for a disk".to_string(),
        }
    }
}

impl CauseKey {
    pub(crate) const fn plain(id: &'static str, name: &'static str) -> Self {
        Self { id, detail: Detail::Plain(name), behind_source: false }
    }

    pub(crate) const fn new(id: &'static str, detail: Detail) -> Self {
        Self { id, detail, behind_source: false }
    }

    pub(crate) fn name(&self, names: &Names) -> String {
        let name = match self.detail {
            Detail::Plain(text) => text.to_string(),
            Detail::Irq(number) => match names.irq.get(&number) {
                Some(device) => format!("irq {number} {device}"),
                None => format!("irq {number}"),
            },
            Detail::Function(what, address) => function(what, address, names),
            Detail::Sent(what, address, 0) | Detail::Ended(what, address, 0) => {
                function(what, address, names)
            }
            Detail::Ended(what, address, thread) => {
                format!("{}, ended by thread {}", function(what, address, names), task(thread, names))
            }
            Detail::Sent(what, address, thread) => {
                format!("{} from {}", function(what, address, names), task(thread, names))
            }
            Detail::Thread(thread, class) => {
                format!("thread {} ({})", task(thread, names), class.name())
            }
            Detail::Work(thread, address) => match names.symbol.get(&address) {
                Some(symbol) => format!("thread {} ({symbol})", kworker(&task(thread, names))),
                None => format!("thread {}", kworker(&task(thread, names))),
            },
            Detail::Lock(0, _) => "lock or condition".to_string(),
            Detail::Lock(thread, state) => {
                format!("lock or condition of thread {}{}", task(thread, names), state.name(names))
            }
            Detail::End(thread, state) => {
                format!("end of thread {}{}", task(thread, names), state.name(names))
            }
            Detail::Awaited(what, 0) => format!("receiver waited for {what}"),
            Detail::Awaited(what, thread) => {
                format!("receiver waited for {what} (thread {})", task(thread, names))
            }
            Detail::Kernel(thread, address) => {
                format!("{} of thread {}", function("kernel work", address, names), task(thread, names))
            }
            Detail::Call(number) => match names.call.get(&number) {
                Some(call) => format!("system call {call} of the receiver"),
                None => format!("system call {number} of the receiver"),
            },
            Detail::Periodic(text, period_ns) => format!("{text}, every {} ms", period_ns / 1_000_000),
        };
        match self.detail {
            _ if !self.behind_source => name,
            Detail::Plain(SOURCE_LATE) => name,
            Detail::Plain(_) => format!("{SOURCE_LATE}: {name}"),
            _ => kept_source(&name),
        }
    }
}

/// Name of a late source that did not have its CPU while this ran there.
fn kept_source(what: &str) -> String {
    format!("{SOURCE_LATE}: {what} ran on its CPU")
}

/// Name of a source that was late for no recorded reason.
pub(crate) const SOURCE_LATE: &str = "source late";

fn function(what: &str, address: u64, names: &Names) -> String {
    match names.symbol.get(&address) {
        Some(symbol) => format!("{what} {symbol}"),
        None => what.strip_suffix(" in").unwrap_or(what).to_string(),
    }
}

fn task(thread: u32, names: &Names) -> String {
    names.task.get(&thread).cloned().unwrap_or_else(|| format!("{thread}"))
}

/// A kworker's name without what it is doing at the moment (`kworker/1:1-events` is `kworker/1:1`).
fn kworker(comm: &str) -> &str {
    comm.split(['-', '+']).next().unwrap_or(comm)
}

/// Sums of one cause.
#[derive(Clone, Debug)]
struct Sums {
    id: &'static str,
    /// That of the first that came.
    detail: Detail,
    name: String,
    stable_name: Option<String>,
    body_ns: i64,
    inferred_ns: i64,
    entry_exit_ns: i64,
    catch_up_ns: i64,
    packets: u64,
    intervals: u64,
    worst_ns: i64,
    example_seq: u64,
    last_event: u32,
    /// Name and time of each thread.
    threads: BTreeMap<u32, (String, i64)>,
}

impl Sums {
    /// Its threads by name, the largest time first.
    fn by_name(&self) -> Vec<ThreadTime> {
        let mut names: BTreeMap<&str, ThreadTime> = BTreeMap::new();
        for (name, time_ns) in self.threads.values() {
            let of_name = names.entry(name).or_default();
            of_name.threads += 1;
            of_name.time_ns += time_ns;
        }
        let named = |(name, time): (&str, ThreadTime)| ThreadTime { name: name.to_string(), ..time };
        let mut threads: Vec<ThreadTime> = names.into_iter().map(named).collect();
        threads.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
        threads
    }

    /// What the cause is called: by its only kind of thread, or by the process and the count of its threads.
    fn name(&self, threads: &[ThreadTime]) -> String {
        match threads {
            [] => self.name.clone(),
            [only] if self.id == "source-late" => kept_source(&only.name),
            [only] => only.name.clone(),
            _ => match self.name.rsplit_once(" (") {
                Some((process, class)) => format!("{process}, {} threads ({class}", self.threads.len()),
                None => self.name.clone(),
            },
        }
    }
}

/// Name of a thread's process where it is known, else its own, with the class.
fn stable_name(key: &CauseKey, names: &Names) -> Option<String> {
    let Detail::Thread(thread, class) = key.detail else { return None };
    let process = names.process.get(&thread).copied().unwrap_or(thread);
    let process = format!("{} ({})", task(process, names), class.name());
    Some(if key.behind_source { kept_source(&process) } else { process })
}

/// Name of the process, with the class, of a thread whose process is known: all its threads are one cause.
fn group(key: &CauseKey, names: &Names) -> Option<String> {
    let Detail::Thread(thread, _) = key.detail else { return None };
    names.process.get(&thread).and_then(|_| stable_name(key, names))
}

/// What helps a source on this host that was late for this; none where nothing on this host does.
fn at_source(detail: Detail, source: &Actor) -> Option<&'static str> {
    match detail {
        Detail::Plain(SOURCE_LATE) if source.foreign => {
            Some("look at the sender's own work: no record shows what kept it")
        }
        Detail::Plain(SOURCE_LATE) if source.blocking => {
            Some("--pace spin: the source sleeps between its packets")
        }
        Detail::Plain(_) => None,
        Detail::Thread(_, Class::Normal) if source.foreign => {
            Some("real-time priority or a CPU of its own for the sender")
        }
        _ if source.foreign => Some("a CPU of its own for the sender"),
        Detail::Thread(..) => Some("--source-cpu with a CPU where that thread does not run"),
        _ => None,
    }
}

/// All causes met so far.
#[derive(Default)]
pub(crate) struct CauseTable {
    by_key: BTreeMap<CauseKey, u32>,
    by_name: BTreeMap<(&'static str, String), u32>,
    sums: Vec<Sums>,
}

/// Where a piece's time is booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    Body,
    /// A body that no record or sample shows.
    InferredBody,
    EntryExit,
    CatchUp,
}

impl CauseTable {
    /// Number of the cause, new or known. Causes of one identifier and name are one cause, and so are the threads of a
    /// process of one class.
    pub(crate) fn intern(&mut self, key: CauseKey, names: &Names) -> u32 {
        if let Some(&cause) = self.by_key.get(&key) {
            return cause;
        }
        let id = if key.behind_source { "source-late" } else { key.id };
        let group = group(&key, names);
        let name = group.clone().unwrap_or_else(|| key.name(names));
        let sums = &mut self.sums;
        let cause = *self.by_name.entry((id, name.clone())).or_insert_with(|| {
            sums.push(Sums {
                id,
                detail: key.detail,
                name,
                stable_name: stable_name(&key, names),
                body_ns: 0,
                inferred_ns: 0,
                entry_exit_ns: 0,
                catch_up_ns: 0,
                packets: 0,
                intervals: 0,
                worst_ns: 0,
                example_seq: 0,
                last_event: u32::MAX,
                threads: BTreeMap::new(),
            });
            (sums.len() - 1) as u32
        });
        self.by_key.insert(key, cause);
        cause
    }

    /// Counts time of one thread of a cause, by what the thread is called where nothing is behind it.
    pub(crate) fn count_thread(&mut self, cause: u32, key: &CauseKey, names: &Names, time_ns: i64) {
        if let Detail::Thread(thread, _) = key.detail {
            let name = || (key.name(names), 0);
            self.sums[cause as usize].threads.entry(thread).or_insert_with(name).1 += time_ns;
        }
    }

    /// Identifier of a cause in the catalogue.
    pub(crate) fn id(&self, cause: u32) -> &'static str {
        self.sums[cause as usize].id
    }

    pub(crate) fn book(&mut self, cause: u32, account: Account, time_ns: i64, event: u32) {
        let sums = &mut self.sums[cause as usize];
        match account {
            Account::EntryExit => sums.entry_exit_ns += time_ns,
            Account::CatchUp => sums.catch_up_ns += time_ns,
            Account::Body | Account::InferredBody => {
                sums.body_ns += time_ns;
                sums.inferred_ns += if account == Account::InferredBody { time_ns } else { 0 };
                sums.intervals += u64::from(sums.last_event != event || event == u32::MAX);
                sums.last_event = event;
            }
        }
    }

    pub(crate) fn stay(&mut self, cause: u32, time_ns: i64, seq: u64) {
        let sums = &mut self.sums[cause as usize];
        if time_ns > sums.worst_ns {
            (sums.worst_ns, sums.example_seq) = (time_ns, seq);
        }
    }

    pub(crate) fn lead(&mut self, cause: u32) {
        self.sums[cause as usize].packets += 1;
    }

    /// The causes ranked by time, and for each number its place in the ranking. What helps a source on this host depends on whose it
    /// is and how it waits.
    pub(crate) fn rank(self, late_ns: i64, source_here: Option<&Actor>) -> (Vec<CauseSummary>, Vec<u32>) {
        let time = |sums: &Sums| sums.body_ns + sums.entry_exit_ns + sums.catch_up_ns;
        let mut order: Vec<usize> = (0..self.sums.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.sums[a], &self.sums[b]);
            time(b).cmp(&time(a)).then_with(|| (a.id, &a.name).cmp(&(b.id, &b.name)))
        });
        let mut places = vec![0; order.len()];
        let mut ranked = Vec::with_capacity(order.len());
        for (place, &index) in order.iter().enumerate() {
            places[index] = place as u32;
            let sums = &self.sums[index];
            let source = catalogue::source(sums.id);
            let mut threads = sums.by_name();
            let name = sums.name(&threads);
            if threads.len() == 1 {
                threads.clear();
            }
            threads.truncate(MOST_THREADS);
            let mut remedy = source.map_or_else(Remedy::default, |source| source.remedy.clone());
            if let Some(actor) = source_here.filter(|_| sums.id == "source-late") {
                remedy.setting = at_source(sums.detail, actor).map(str::to_owned);
            }
            ranked.push(CauseSummary {
                source: sums.id.to_string(),
                stable_name: sums.stable_name.clone().filter(|stable| *stable != name),
                name,
                threads,
                class: source.map_or(SourceClass::NetworkIndependent, |source| source.class),
                time_ns: time(sums),
                entry_exit_ns: sums.entry_exit_ns,
                catch_up_ns: sums.catch_up_ns,
                share: share(time(sums), late_ns),
                packets: sums.packets,
                intervals: sums.intervals,
                worst_ns: sums.worst_ns,
                example_seq: sums.example_seq,
                remedy,
                functions: Vec::new(),
                inferred_ns: sums.inferred_ns,
            });
        }
        (ranked, places)
    }
}

/// Part of the whole, 0 where the whole is nothing.
pub(crate) fn share(part_ns: i64, whole_ns: i64) -> f64 {
    if whole_ns > 0 { part_ns as f64 / whole_ns as f64 } else { 0.0 }
}
