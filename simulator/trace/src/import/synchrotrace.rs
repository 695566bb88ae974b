//! Events of SynchroTrace as sigil2 and its successor Prism write them as text: a file a thread, `sigil.events.out-1` that of
//! the first, and `sigil.pthread.out` with what the calls of the thread library mean.
//!
//! ```text
//! sigil2                                Prism
//! 7,2,5,1,2,1 $ a b * a b               @ 5,1,2,1 $ a b * a b   5 integer and 1 floating-point operations, 2 reads, 1 write;
//!                                                               written ($) and read (*) bytes, from a to b with both
//! 8,2 # 1 40 a b                        # 1 40 a b              read what thread 1 wrote in its event 40
//! 9,2,pth_ty:6^c&m                      ^ 6^c&m                 a call of the thread library (6: waits for c with mutex m)
//! ! 100                                 ! 100                   so many instructions; left out
//!
//! sigil.pthread.out: ##140…,2 thread 2 has this pthread_t    **140…,1,2,3 threads that meet at this barrier
//! ```
//! Addresses are hexadecimal with 0x, or decimal. 7,2 are event and thread. Calls: 1 lock, 2 unlock, 3 create, 4 join,
//! 5 barrier, 6 wait, 7 signal, 8 broadcast, 9 and 10 spin lock and unlock; 11 to 15 are semaphores, which sigil2 does not
//! write and SynchroTrace does not replay.
//!
//! Operations become instructions without registers, evenly spread around the event's accesses; each access is a load or a
//! store by itself, of at most 64 bytes of the event's ranges, and there are as many as the event says, or as the ranges need.
//! What another thread wrote is read like anything else: the order comes from locks, barriers, creations and joins. Which
//! signal ended a wait is not told, so that a wait gives its mutex back and takes it again, and costs no more.

use super::text::{Lines, number};
use super::{ImportError, Imported, MOST_THREADS, Source, facts};
use crate::block::{Block, Class, Instruction, Registers};
use crate::file::{FileError, TraceWriter};
use crate::step::{Access, Sync, Thread, Wakeup};
use std::collections::{BTreeSet, HashMap};
use std::io::Write;

/// Most operations of an event.
const MOST_OPERATIONS: u64 = 1 << 30;
/// Most reads and writes of an event; sigil2 ends one after a hundred.
const MOST_ACCESSES: u64 = 1 << 20;
/// Most bytes in the ranges of an event.
const MOST_OCTETS: u64 = 1 << 24;
/// Most steps of synchronisation of a thread without anything between them; they are kept in memory.
const MOST_SYNCS: u32 = 1 << 20;
/// Blocks of 1, 2, 4 … 512 operations.
const SIZES: usize = 10;
/// Where the made-up code lies: blocks of operations of a kind end at the same place.
const CODE: u64 = 0x40_0000;
const CODE_OCTETS: u64 = 4;

const LACKS: [&str; 4] = [
    "program counters: all code is a few KiB that was made up",
    "registers of instructions: none waits for another",
    "which signal ended a wait for a condition: such waits take no time",
    "the order of accesses within an event, and which of its bytes each has",
];

pub(super) fn import<W: Write>(sources: Vec<Source<'_>>, out: W) -> Result<(W, Imported), ImportError> {
    let mut calls = Calls::default();
    let mut threads: Vec<(u32, Lines<'_>)> = Vec::new();
    for source in sources {
        let lines = Lines::new(source);
        let name = lines.name().rsplit('/').next().unwrap_or_default();
        if name.trim_end_matches(".gz").ends_with("sigil.pthread.out") {
            calls.read(lines)?;
        } else if let Some(thread) = thread_of(name) {
            threads.push((thread, lines));
        } else {
            return Err(ImportError::Inputs(format!(
                "{name}: files of SynchroTrace are named sigil.events.out-1 and so on, and sigil.pthread.out"
            )));
        }
    }
    threads.sort_by_key(|(thread, _)| *thread);
    let numbered = threads.iter().enumerate().all(|(place, (thread, _))| place as u32 == *thread);
    if threads.is_empty() || !numbered {
        return Err(ImportError::Inputs(
            "the events of a thread are missing or there twice: give sigil.events.out-1, -2 and so on up to the last".into(),
        ));
    }
    let lacks: Vec<String> = LACKS.iter().map(ToString::to_string).collect();
    let facts = facts(threads[0].1.name(), "SynchroTrace", "unknown", &lacks);
    let mut replay = Replay::new(TraceWriter::new(out, &facts)?, calls, threads.len() as u32);
    for (thread, mut lines) in threads {
        replay.thread = thread;
        replay.syncs = 0;
        loop {
            // The line is let go before an error is placed in it.
            let taken = match lines.next()? {
                None => break,
                Some(line) => replay.line(line),
            };
            match taken {
                Ok(()) => {}
                Err(Wrong::Untrue(reason)) => return Err(lines.damaged(reason)),
                Err(Wrong::Write(error)) => return Err(error.into()),
            }
        }
        replay.writer.end(thread);
    }
    let imported = Imported { threads: replay.threads, lacks, ..replay.imported };
    Ok((replay.writer.finish()?, imported))
}

/// The thread whose events a file of this name has, from 0.
fn thread_of(name: &str) -> Option<u32> {
    let (_, number) = name.strip_suffix(".gz").unwrap_or(name).rsplit_once("sigil.events.out-")?;
    let number: u32 = number.parse().ok()?;
    number.checked_sub(1).filter(|thread| (*thread as usize) < MOST_THREADS)
}

enum Wrong {
    Untrue(String),
    Write(FileError),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self::Untrue(reason)
    }
}

impl From<&str> for Wrong {
    fn from(reason: &str) -> Self {
        Self::Untrue(reason.to_owned())
    }
}

impl From<FileError> for Wrong {
    fn from(error: FileError) -> Self {
        Self::Write(error)
    }
}

/// What the arguments of calls mean.
#[derive(Default)]
struct Calls {
    threads: HashMap<u64, u32>,
    parties: HashMap<u64, u32>,
}

impl Calls {
    fn read(&mut self, mut lines: Lines<'_>) -> Result<(), ImportError> {
        loop {
            let read = match lines.next()? {
                None => return Ok(()),
                Some(line) => self.line(line),
            };
            read.map_err(|reason| lines.damaged(reason))?;
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("##") {
            let (address, thread) = rest.split_once(',').ok_or("a thread is not told")?;
            let thread = number(thread)?.checked_sub(1).filter(|thread| *thread < MOST_THREADS as u64);
            self.threads.insert(number(address)?, thread.ok_or("there is no such thread")? as u32);
        } else if let Some(rest) = line.strip_prefix("**") {
            let mut fields = rest.split(',');
            let address = number(fields.next().unwrap_or_default())?;
            let there: BTreeSet<u64> = fields.map(number).collect::<Result<_, _>>()?;
            if there.is_empty() {
                return Err("nobody meets at a barrier".into());
            }
            self.parties.insert(address, there.len() as u32);
        }
        // All else is statistics.
        Ok(())
    }
}

/// Bytes that an event accesses.
#[derive(Default)]
struct Ranges {
    ranges: Vec<(u64, u64)>,
    octets: u64,
}

impl Ranges {
    fn add(&mut self, first: u64, last: u64) -> Result<(), Wrong> {
        let octets = last.checked_sub(first).ok_or("a range ends before it begins")?.saturating_add(1);
        self.octets = self.octets.saturating_add(octets);
        if self.octets > MOST_OCTETS {
            return Err("an event accesses more than 16 MiB".into());
        }
        self.ranges.push((first, octets));
        Ok(())
    }

    /// Accesses of all bytes, at least so many.
    fn accesses(&self, least: u64, write: bool) -> Vec<Access> {
        if self.octets == 0 {
            return Vec::new();
        }
        let octets = (self.octets / least.max(1)).max(1).next_power_of_two().min(64);
        let mut all = Vec::new();
        for (first, length) in &self.ranges {
            for from in (0..*length).step_by(octets as usize) {
                let octets = octets.min(length - from) as u8;
                all.push(Access { address: first.wrapping_add(from), instruction: 0, octets, write });
            }
        }
        all
    }
}

/// Events on their way into a trace.
struct Replay<W: Write> {
    writer: TraceWriter<W>,
    calls: Calls,
    threads: u32,
    thread: u32,
    syncs: u32,
    wakeups: u64,
    integer: [u32; SIZES],
    float: [u32; SIZES],
    load: u32,
    store: u32,
    imported: Imported,
}

impl<W: Write> Replay<W> {
    fn new(mut writer: TraceWriter<W>, calls: Calls, threads: u32) -> Self {
        let mut end = CODE;
        let mut blocks = |class| {
            end += CODE_OCTETS << (SIZES - 1);
            let instruction = Instruction {
                octets: CODE_OCTETS as u8,
                class,
                loads: false,
                stores: false,
                reads: Registers::default(),
                writes: Registers::default(),
            };
            std::array::from_fn(|size| {
                let pc = end - (CODE_OCTETS << size);
                writer.define(Block { pc, instructions: vec![instruction; 1 << size] })
            })
        };
        let (integer, float) = (blocks(Class::Integer), blocks(Class::Float));
        let mut memory = |loads: bool| {
            let instruction = Instruction {
                octets: CODE_OCTETS as u8,
                class: Class::Integer,
                loads,
                stores: !loads,
                reads: Registers::default(),
                writes: Registers::default(),
            };
            end += CODE_OCTETS;
            writer.define(Block { pc: end - CODE_OCTETS, instructions: vec![instruction] })
        };
        let (load, store) = (memory(true), memory(false));
        let imported = Imported::default();
        Self {
            writer,
            calls,
            threads,
            thread: 0,
            syncs: 0,
            wakeups: 0,
            integer,
            float,
            load,
            store,
            imported,
        }
    }

    fn line(&mut self, line: &str) -> Result<(), Wrong> {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        match first {
            "!" => self.imported.leave_out("counts of instructions"),
            "@" => {
                let counts = words.next().ok_or("an event says nothing")?;
                return self.compute(counts, words);
            }
            "#" => return self.communicate(std::iter::once(first).chain(words)),
            "^" => return self.call(words.next().ok_or("a call is not told")?),
            _ => return self.numbered(first, words),
        }
        Ok(())
    }

    /// A line that begins with the numbers of event and thread.
    fn numbered<'t>(&mut self, first: &str, words: impl Iterator<Item = &'t str>) -> Result<(), Wrong> {
        let mut fields = first.splitn(3, ',');
        number(fields.next().unwrap_or_default())?;
        let thread = number(fields.next().ok_or("it is no event")?)?;
        if thread != u64::from(self.thread) + 1 {
            return Err(
                format!("it is an event of thread {thread} in the file of {}", self.thread + 1).into()
            );
        }
        match fields.next() {
            None => self.communicate(words),
            Some(rest) => match rest.strip_prefix("pth_ty:") {
                Some(call) => self.call(call),
                None => self.compute(rest, words),
            },
        }
    }

    /// `counts` is integer and floating-point operations, reads and writes; `words` are ranges.
    fn compute<'t>(&mut self, counts: &str, words: impl Iterator<Item = &'t str>) -> Result<(), Wrong> {
        let counts: Vec<u64> = counts.split(',').map(number).collect::<Result<_, _>>()?;
        let [integer, float, reads, writes] = counts[..] else {
            return Err("an event has four counts: operations of two kinds, reads and writes".into());
        };
        if integer.max(float) > MOST_OPERATIONS || reads.max(writes) > MOST_ACCESSES {
            return Err("an event does more than 2^30 operations, or 2^20 reads or writes".into());
        }
        let (mut read, mut written) = (Ranges::default(), Ranges::default());
        let mut words = words.peekable();
        while let Some(kind) = words.next() {
            let into = match kind {
                "*" => &mut read,
                "$" => &mut written,
                _ => return Err(format!("{kind:?} is neither $ nor *").into()),
            };
            range(&mut words, into)?;
        }
        if (read.octets == 0 && reads > 0) || (written.octets == 0 && writes > 0) {
            return Err("an event reads or writes and does not say where".into());
        }
        self.spread([integer, float], (&read, reads), (&written, writes))
    }

    /// Operations evenly around the accesses; reads and writes evenly among each other.
    fn spread(
        &mut self,
        operations: [u64; 2],
        (read, reads): (&Ranges, u64),
        (written, writes): (&Ranges, u64),
    ) -> Result<(), Wrong> {
        let (loads, stores) = (read.accesses(reads, false), written.accesses(writes, true));
        let counts = [reads.max(loads.len() as u64), writes.max(stores.len() as u64)];
        let all = counts[0] + counts[1];
        let mut done = [0; 2];
        for place in 0..all {
            self.operate(operations, (place, all + 1))?;
            // So many writes are to be done after this one; else it is a read.
            let write = done[1] < counts[1] * (place + 1) / all;
            let (from, kind) = if write { (&stores, 1) } else { (&loads, 0) };
            let access = from[(done[kind] % from.len() as u64) as usize];
            done[kind] += 1;
            self.access(access)?;
        }
        self.operate(operations, (all, all + 1))
    }

    /// The part of the operations that comes at this of so many places.
    fn operate(&mut self, operations: [u64; 2], (place, places): (u64, u64)) -> Result<(), Wrong> {
        let part = |count: u64| {
            let until = |place: u64| (u128::from(count) * u128::from(place) / u128::from(places)) as u64;
            until(place + 1) - until(place)
        };
        for (blocks, count) in [(self.integer, part(operations[0])), (self.float, part(operations[1]))] {
            self.imported.instructions += count;
            let largest = SIZES - 1;
            for _ in 0..count >> largest {
                self.block(blocks[largest], &[])?;
            }
            for size in (0..largest).rev().filter(|size| count >> size & 1 == 1) {
                self.block(blocks[size], &[])?;
            }
        }
        Ok(())
    }

    fn access(&mut self, access: Access) -> Result<(), Wrong> {
        self.imported.instructions += 1;
        self.imported.accesses += 1;
        let block = if access.write { self.store } else { self.load };
        self.block(block, &[access])
    }

    fn block(&mut self, number: u32, accesses: &[Access]) -> Result<(), Wrong> {
        self.syncs = 0;
        Ok(self.writer.block(self.thread, number, accesses)?)
    }

    /// What other threads wrote is read: `# thread event first last`, any number of times.
    fn communicate<'t>(&mut self, words: impl Iterator<Item = &'t str>) -> Result<(), Wrong> {
        let mut words = words.peekable();
        let mut read = Ranges::default();
        while let Some(sign) = words.next() {
            let (thread, event) = (words.next(), words.next());
            if sign != "#" || thread.zip(event).is_none_or(|(t, e)| number(t).is_err() || number(e).is_err())
            {
                return Err("it does not say which thread's event wrote what is read".into());
            }
            range(&mut words, &mut read)?;
        }
        for access in read.accesses(read.octets.div_ceil(8), false) {
            self.access(access)?;
        }
        Ok(())
    }

    /// A call of the thread library: `kind^object` or `kind^object&mutex`.
    fn call(&mut self, call: &str) -> Result<(), Wrong> {
        let (kind, arguments) = call.split_once('^').ok_or("a call has no object")?;
        let mut arguments = arguments.split('&').map(number);
        let object = arguments.next().ok_or("a call has no object")??;
        let mutex = arguments.next().transpose()?.unwrap_or(0);
        self.wakeups += 1;
        let wakeup = Wakeup(self.wakeups);
        let thread = || {
            let thread = self.calls.threads.get(&object).copied().filter(|thread| *thread < self.threads);
            let named = thread.map(Thread);
            named.ok_or_else(|| {
                format!("no thread with events is {object:#x} by sigil.pthread.out (which names those that the first started)")
            })
        };
        let sync = match number(kind)? {
            1 | 9 => Sync::Lock { object },
            2 | 10 => Sync::Unlock { object },
            3 => Sync::Create { thread: thread()? },
            4 => Sync::Join { thread: thread()? },
            5 => {
                let parties = self.calls.parties.get(&object).copied();
                let parties = parties.ok_or("sigil.pthread.out does not say who meets at this barrier")?;
                Sync::Barrier { object, parties }
            }
            6 => Sync::Wait { object, mutex, by: None },
            7 => Sync::Signal { object, wakeup },
            8 => Sync::Broadcast { object, wakeup },
            11..=15 => {
                return Err("it is a call of a semaphore, of which SynchroTrace knows no meaning".into());
            }
            _ => return Err(format!("{kind} is no call of the thread library").into()),
        };
        self.syncs += 1;
        if self.syncs > MOST_SYNCS {
            return Err("more than a million calls have nothing between them".into());
        }
        self.writer.sync(self.thread, sync);
        self.imported.syncs += 1;
        Ok(())
    }
}

/// The two addresses of a range.
fn range<'t>(words: &mut impl Iterator<Item = &'t str>, into: &mut Ranges) -> Result<(), Wrong> {
    let (first, last) = (words.next(), words.next());
    let (Some(first), Some(last)) = (first, last) else { return Err("a range has no end".into()) };
    into.add(number(first)?, number(last)?)
}
