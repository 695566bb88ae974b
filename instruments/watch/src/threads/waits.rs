//! The BPF program that counts waits for a CPU, and what it counted.

use super::Waits;
use crate::config::ThreadsSettings;
use crate::frozen::{LockWait, LongWait};
use crate::threads::group::ControlGroup;
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder};
use quaver_exposition::histogram::{BOUNDS_NS, BUCKETS, Histogram};
use quaver_host::bpf::load::{Aligned, failed, invalid, one_at_a_time, set_constants};
use quaver_host::trace::TraceError;
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/waits.bpf.o")));

/// Most tables, as `bpf/c/waits.bpf.c` has it.
const TABLES: usize = crate::config::MOST_TABLES;
/// Kinds of what had the CPU before.
const HOLDERS: usize = super::HOLDERS.len();
/// Kinds of waits in futex(2).
const ENDS: usize = super::ENDS.len();

/// `config` of `bpf/c/waits.bpf.c`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
struct Config {
    tables: u32,
    futex_tables: u32,
    bounds_ns: [u64; BUCKETS],
    limit_ns: [u64; TABLES],
    futex_limit_ns: [u64; TABLES],
}

/// `struct group`.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Group {
    id: u64,
    level: u32,
    unified: u32,
    process: u32,
    fill: u32,
}

/// `struct watched`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
struct Watched {
    all: u32,
    group: u32,
    thread: u32,
    fill: u32,
}

/// `struct counts`.
#[derive(Clone, Copy, Debug, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Counts {
    sum_ns: [u64; HOLDERS],
    counts: [[u64; BUCKETS]; HOLDERS],
}

/// `struct futex_counts`.
#[derive(Clone, Copy, Debug, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct FutexCounts {
    sum_ns: [u64; ENDS],
    counts: [[u64; BUCKETS]; ENDS],
}

/// `struct long_wait`.
#[derive(Clone, Copy, Debug, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Record {
    at_ns: u64,
    wait_ns: u64,
    table: u32,
    thread: u32,
    process: u32,
    cpu: u16,
    priority: i16,
    comm: [u8; 16],
    address: u64,
    waker: u32,
    waker_process: u32,
    waker_comm: [u8; 16],
}

fn name(octets: [u8; 16]) -> String {
    String::from_utf8_lossy(octets.split(|octet| *octet == 0).next().unwrap_or_default()).into_owned()
}

impl From<Record> for LongWait {
    fn from(record: Record) -> Self {
        let lock = (record.waker > 0).then(|| LockWait {
            address: record.address,
            waker: record.waker,
            waker_process: record.waker_process,
            waker_comm: name(record.waker_comm),
        });
        Self {
            table_index: record.table as usize,
            at_ns: record.at_ns,
            wait_ns: record.wait_ns,
            thread: record.thread,
            process: record.process,
            cpu: record.cpu,
            // In the kernel threads under SCHED_DEADLINE have -1, real-time ones the rest below 100 (include/linux/sched/prio.h).
            realtime: record.priority < 100,
            comm: name(record.comm),
            lock,
        }
    }
}

/// The program, attached until this is dropped.
pub(super) struct WaitCounter {
    // Order matters: the link goes before the object, the ring before both.
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Vec<LongWait>>>,
    _links: Vec<Link>,
    object: Object,
}

impl WaitCounter {
    /// Loads and attaches the program. It counts the waits of a table once [`Self::watch`] and, where the table names a control
    /// group, [`Self::set_group`] have said whose.
    pub(super) fn start(tables: &[ThreadsSettings]) -> Result<Self, TraceError> {
        // Without types the object is refused in words that say nothing.
        quaver_host::bpf::kernel_types()?;
        let mut config = Config {
            tables: tables.len() as u32,
            futex_tables: 0,
            bounds_ns: [u64::MAX; BUCKETS],
            limit_ns: [0; TABLES],
            futex_limit_ns: [0; TABLES],
        };
        config.bounds_ns[..BOUNDS_NS.len()].copy_from_slice(&BOUNDS_NS);
        for (place, table) in tables.iter().enumerate() {
            config.limit_ns[place] = table.wait.map_or(0, |wait| wait.as_nanos() as u64);
            config.futex_limit_ns[place] = table.lock.map_or(0, |lock| lock.as_nanos() as u64);
            config.futex_tables |= u32::from(table.lock.is_some()) << place;
        }
        let object = one_at_a_time(|| load(&config))?;
        let records = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&records);
        let long_waits = map(&object, "long_waits")?;
        let mut builder = RingBufferBuilder::new();
        let taken = builder.add(&long_waits, move |octets: &[u8]| {
            let record = Record::read_from_prefix(octets).ok();
            into.borrow_mut().extend(record.map(|(record, _)| LongWait::from(record)));
            0
        });
        taken.map_err(|error| failed("reading long waits", &error))?;
        let ring = builder.build().map_err(|error| failed("reading long waits", &error))?;
        let programs = object.progs_mut().filter(|program| program.autoload());
        let links = programs.map(|program| program.attach()).collect::<Result<Vec<_>, _>>();
        let links = links.map_err(|error| failed("attaching the BPF programs of waits", &error))?;
        Ok(Self { ring, records, _links: links, object })
    }

    /// Which tables count on each CPU: `whole` have bits of tables that count all threads, `grouped` those of control groups.
    pub(super) fn watch(&self, whole: &[u32], grouped: &[u32]) -> Result<(), TraceError> {
        let watched =
            whole.iter().zip(grouped).map(|(&all, &group)| Watched { all, group, thread: 0, fill: 0 });
        let watched: Vec<_> = watched.map(|one| one.as_bytes().to_vec()).collect();
        map(&self.object, "watched")?
            .update_percpu(&0u32.to_ne_bytes(), &watched, MapFlags::ANY)
            .map_err(|error| failed("naming CPUs to the BPF program of waits", &error))
    }

    /// The control group of a table; none while there is none.
    pub(super) fn set_group(&self, table: usize, group: Option<&ControlGroup>) -> Result<(), TraceError> {
        let group = group.map_or(Group::default(), |group| Group {
            id: group.id,
            level: group.level,
            unified: u32::from(group.unified),
            process: group.process,
            fill: 0,
        });
        map(&self.object, "groups")?
            .update(&(table as u32).to_ne_bytes(), group.as_bytes(), MapFlags::ANY)
            .map_err(|error| failed("naming a control group to the BPF program of waits", &error))
    }

    /// What a table counted since the start.
    pub(super) fn read(&self, table: usize) -> Result<Waits, TraceError> {
        let reading = |error| failed("reading waits", &error);
        let key = (table as u32).to_ne_bytes();
        let values = map(&self.object, "waits")?.lookup_percpu(&key, MapFlags::ANY).map_err(reading)?;
        let mut waits = Waits::default();
        for (cpu, octets) in values.into_iter().flatten().enumerate() {
            let Ok((counts, _)) = Counts::read_from_prefix(&octets) else {
                return Err(invalid("reading waits", "the map has values of another size"));
            };
            for (holder, (into, sum_ns)) in waits.by_holder.iter_mut().zip(counts.sum_ns).enumerate() {
                into.merge(&Histogram { counts: counts.counts[holder], sum_ns, ..Histogram::default() });
            }
            let count = counts.counts.iter().flatten().sum();
            if count > 0 {
                waits.by_cpu.insert(cpu as u16, (count, counts.sum_ns.iter().sum()));
            }
        }
        Ok(waits)
    }

    /// What a table counted of futex(2) since the start, by how the waits ended.
    pub(super) fn read_futex(&self, table: usize) -> Result<[Histogram; ENDS], TraceError> {
        let key = (table as u32).to_ne_bytes();
        let values = map(&self.object, "futex_waits")?.lookup_percpu(&key, MapFlags::ANY);
        let values = values.map_err(|error| failed("reading waits for locks", &error))?;
        let mut all: [Histogram; ENDS] = Default::default();
        for octets in values.into_iter().flatten() {
            let Ok((counts, _)) = FutexCounts::read_from_prefix(&octets) else {
                return Err(invalid("reading waits for locks", "the map has values of another size"));
            };
            for (end, into) in all.iter_mut().enumerate() {
                let (counts, sum_ns) = (counts.counts[end], counts.sum_ns[end]);
                into.merge(&Histogram { counts, sum_ns, ..Histogram::default() });
            }
        }
        Ok(all)
    }

    /// Waits above their tables' limits since the last call, in the order of their ends on each CPU.
    pub(super) fn take_long(&self) -> Result<Vec<LongWait>, TraceError> {
        self.ring.consume().map_err(|error| failed("reading long waits", &error))?;
        Ok(self.records.take())
    }

    /// Long waits for which there was no room, since the start.
    pub(super) fn lost(&self) -> Result<u64, TraceError> {
        let values = map(&self.object, "lost")?.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(|error| failed("reading waits", &error))?;
        let count = |octets: Vec<u8>| u64::read_from_bytes(&octets).unwrap_or(0);
        Ok(values.into_iter().flatten().map(count).sum())
    }
}

fn load(config: &Config) -> Result<Object, TraceError> {
    let mut open = ObjectBuilder::default()
        .open_memory(&OBJECT.0)
        .map_err(|error| failed("opening the BPF program of waits", &error))?;
    set_constants(&mut open, config)?;
    for mut program in open.progs_mut() {
        let is_of_locks = program.name().to_string_lossy().starts_with("futex_");
        program.set_autoload(!is_of_locks || config.futex_tables > 0);
    }
    open.load().map_err(|error| failed("loading the BPF program of waits", &error))
}

fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>, TraceError> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| invalid("counting waits", &format!("the object has no map {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_testbed::privileged::privileged;

    #[test]
    fn the_kernel_takes_the_program_with_as_many_tables_as_there_may_be() {
        if !privileged("the_kernel_takes_the_program_with_as_many_tables_as_there_may_be") {
            return;
        }
        let table = |number: usize| ThreadsSettings {
            name: number.to_string(),
            group: number.is_multiple_of(2).then(|| "/sys/fs/cgroup".into()),
            cpus: Some(vec![0]),
            wait: Some(std::time::Duration::from_secs(600)),
            lock: number.is_multiple_of(2).then(|| std::time::Duration::from_secs(600)),
            ..ThreadsSettings::default()
        };
        let tables: Vec<ThreadsSettings> = (0..TABLES).map(table).collect();
        let counter = WaitCounter::start(&tables).unwrap();
        let possible = libbpf_rs::num_possible_cpus().unwrap();
        counter.watch(&vec![u32::MAX; possible], &vec![u32::MAX; possible]).unwrap();
        let start = std::time::Instant::now();
        // Each sleep ends in a wait, however short, on whichever CPU.
        while counter.read(TABLES - 1).unwrap().by_cpu.is_empty() {
            assert!(start.elapsed().as_secs() < 30, "nothing is counted");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!((counter.take_long().unwrap(), counter.lost().unwrap()), (Vec::new(), 0));
    }
}
