//! The table of causes: a compact key for each, its name, and the sums over all late windows.

use crate::catalogue;
use crate::model::Names;
use crate::summary::{CauseSummary, Remedy, SourceClass};
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
    /// A thread, with the scheduling class that its priority tells.
    Thread(u32, Class),
    /// A kworker with the work that it did.
    Work(u32, u64),
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

impl CauseKey {
    pub(crate) const fn plain(id: &'static str, name: &'static str) -> Self {
        Self { id, detail: Detail::Plain(name), behind_source: false }
    }

    pub(crate) const fn new(id: &'static str, detail: Detail) -> Self {
        Self { id, detail, behind_source: false }
    }

    fn name(&self, names: &Names) -> String {
        let name = match self.detail {
            Detail::Plain(text) => text.to_string(),
            Detail::Irq(number) => match names.irq.get(&number) {
                Some(device) => format!("irq {number} {device}"),
                None => format!("irq {number}"),
            },
            Detail::Function(what, address) => function(what, address, names),
            Detail::Sent(what, address, 0) => function(what, address, names),
            Detail::Sent(what, address, thread) => {
                format!("{} from {}", function(what, address, names), task(thread, names))
            }
            Detail::Thread(thread, class) => {
                let comm = task(thread, names);
                match class {
                    Class::Deadline => format!("thread {comm} (deadline)"),
                    Class::RealTime(priority) => format!("thread {comm} (fifo {priority})"),
                    Class::Normal => format!("thread {comm} (normal)"),
                }
            }
            Detail::Work(thread, address) => match names.symbol.get(&address) {
                Some(symbol) => format!("thread {} ({symbol})", kworker(&task(thread, names))),
                None => format!("thread {}", kworker(&task(thread, names))),
            },
        };
        match self.detail {
            _ if !self.behind_source => name,
            Detail::Plain(SOURCE_LATE) => name,
            Detail::Plain(_) => format!("{SOURCE_LATE}: {name}"),
            _ => format!("{SOURCE_LATE}: {name} ran on its CPU"),
        }
    }
}

/// Name of a source that was late for no recorded reason.
pub(crate) const SOURCE_LATE: &str = "source late";

fn function(what: &str, address: u64, names: &Names) -> String {
    match names.symbol.get(&address) {
        Some(symbol) => format!("{what} {symbol}"),
        None => what.to_string(),
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
    name: String,
    body_ns: i64,
    entry_exit_ns: i64,
    catch_up_ns: i64,
    packets: u64,
    intervals: u64,
    worst_ns: i64,
    example_seq: u64,
    last_event: u32,
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
    EntryExit,
    CatchUp,
}

impl CauseTable {
    /// Number of the cause, new or known. Causes of one identifier and name are one cause.
    pub(crate) fn intern(&mut self, key: CauseKey, names: &Names) -> u32 {
        if let Some(&cause) = self.by_key.get(&key) {
            return cause;
        }
        let id = if key.behind_source { "source-late" } else { key.id };
        let name = key.name(names);
        let sums = &mut self.sums;
        let cause = *self.by_name.entry((id, name.clone())).or_insert_with(|| {
            sums.push(Sums {
                id,
                name,
                body_ns: 0,
                entry_exit_ns: 0,
                catch_up_ns: 0,
                packets: 0,
                intervals: 0,
                worst_ns: 0,
                example_seq: 0,
                last_event: u32::MAX,
            });
            (sums.len() - 1) as u32
        });
        self.by_key.insert(key, cause);
        cause
    }

    /// Identifier in the catalogue of a cause.
    pub(crate) fn source(&self, cause: u32) -> &'static str {
        self.sums[cause as usize].id
    }

    pub(crate) fn book(&mut self, cause: u32, account: Account, time_ns: i64, event: u32) {
        let sums = &mut self.sums[cause as usize];
        match account {
            Account::EntryExit => sums.entry_exit_ns += time_ns,
            Account::CatchUp => sums.catch_up_ns += time_ns,
            Account::Body => {
                sums.body_ns += time_ns;
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

    /// The causes ranked by time, and for each number its place in the ranking.
    pub(crate) fn rank(self, late_ns: i64) -> (Vec<CauseSummary>, Vec<u32>) {
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
            ranked.push(CauseSummary {
                source: sums.id.to_string(),
                name: sums.name.clone(),
                class: source.map_or(SourceClass::NetworkIndependent, |source| source.class),
                time_ns: time(sums),
                entry_exit_ns: sums.entry_exit_ns,
                catch_up_ns: sums.catch_up_ns,
                share: share(time(sums), late_ns),
                packets: sums.packets,
                intervals: sums.intervals,
                worst_ns: sums.worst_ns,
                example_seq: sums.example_seq,
                remedy: source.map_or_else(Remedy::default, |source| source.remedy.clone()),
            });
        }
        (ranked, places)
    }
}

/// Part of the whole, 0 where the whole is nothing.
pub(crate) fn share(part_ns: i64, whole_ns: i64) -> f64 {
    if whole_ns > 0 { part_ns as f64 / whole_ns as f64 } else { 0.0 }
}
