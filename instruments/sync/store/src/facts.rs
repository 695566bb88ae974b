//! What is known of a process image and its threads.

use quaver_abi::record::AnchorRecord;
use quaver_abi::sync::{SyncChunkHeader, SyncEnd, SyncRingHeader, SyncSegmentHeader, ring_flags};
use quaver_store::timeline::Timeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How a process image ended, as far as it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncEnding {
    /// Nothing was said: killed, crashed, replaced by another image, ended by a raw system call, or still running.
    Unsaid,
    /// It returned from `main` or called `exit`.
    Exit,
    /// It called `_exit`.
    ImmediateExit,
}

/// Facts of one process image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFacts {
    /// Process id in its own namespace.
    pub pid: u32,
    /// Process id of its parent when recording began.
    pub parent: u32,
    /// When the process started, clock ticks since boot; 0 is unknown.
    pub start_ticks: u64,
    /// How many images the process had before.
    pub exec_number: u32,
    /// Path of the program.
    pub exe: String,
    /// Its arguments, the first its own name; cut after about 4000 bytes.
    pub argv: Vec<String>,
    /// When recording began, CLOCK_REALTIME nanoseconds.
    pub created_realtime_ns: i64,
    /// When recording began, CLOCK_MONOTONIC nanoseconds.
    pub first_ns: u64,
    /// The latest instant that is known to lie in the recording, CLOCK_MONOTONIC nanoseconds: its end where the
    /// image said that it ended.
    pub last_ns: u64,
    /// How it ended.
    pub ended: SyncEnding,
    /// Calls of `pthread_create`.
    pub creations: u64,
    /// Threads that found no room, of which nothing is known.
    pub threads_lost: u64,
    /// Records that found no room, of all threads.
    pub records_lost: u64,
}

/// Calls that were counted and not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncCounts {
    /// Locks (mutex, write, spin; tries included) that were free when asked for.
    pub free_locks: u64,
    /// Unlocks that nobody waited for.
    pub free_unlocks: u64,
    /// Tries that found the lock or semaphore taken, or the thread still running.
    pub busy_tries: u64,
    /// Waits on a semaphore that was above zero.
    pub free_semaphore_waits: u64,
    /// Posts of a semaphore that nobody waited for.
    pub quiet_posts: u64,
    /// Locks for reading that were free when asked for.
    pub free_read_locks: u64,
}

impl std::ops::AddAssign for SyncCounts {
    fn add_assign(&mut self, other: Self) {
        let add = |mine: &mut u64, more: u64| *mine = mine.saturating_add(more);
        add(&mut self.free_locks, other.free_locks);
        add(&mut self.free_unlocks, other.free_unlocks);
        add(&mut self.busy_tries, other.busy_tries);
        add(&mut self.free_semaphore_waits, other.free_semaphore_waits);
        add(&mut self.quiet_posts, other.quiet_posts);
        add(&mut self.free_read_locks, other.free_read_locks);
    }
}

/// Facts of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncThread {
    /// Thread id; 0 where the thread was killed before it could say.
    pub tid: u32,
    /// Thread id of its creator; 0 is unknown.
    pub creator: u32,
    /// Number of its creation in the image, from 1; 0 is unknown.
    pub creation: u32,
    /// The image's initial thread.
    pub initial: bool,
    /// First seen in a call, not at its start.
    pub found_in_a_call: bool,
    /// Its end was seen.
    pub ended: bool,
    /// Its `pthread_t`.
    pub pthread: u64,
    /// When it was first seen, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// When it ended, where that was seen.
    pub end_ns: Option<u64>,
    /// Address of its start routine; 0 is unknown.
    pub start_routine: u64,
    /// Its name when it was first seen.
    pub name: String,
    /// Records of it that found no room.
    pub lost: u64,
    /// Calls that were counted only.
    pub counts: SyncCounts,
}

/// Where a chunk lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkAt {
    pub(super) page: u64,
    pub(super) pages: u32,
    /// The thread's first, with the ring's header.
    pub(super) first: bool,
}

/// Chunks and ring headers by thread.
#[derive(Debug, Default)]
pub(super) struct ScannedThreads {
    threads: Vec<FoundThread>,
    by_number: HashMap<u32, usize>,
}

#[derive(Debug, Default)]
struct FoundThread {
    chunks: Vec<ChunkAt>,
    ring: SyncRingHeader,
    anchors: Vec<(u64, i64)>,
}

impl ScannedThreads {
    pub(super) fn add(&mut self, at: ChunkAt, chunk: &SyncChunkHeader, ring: Option<SyncRingHeader>) {
        let threads = &mut self.threads;
        let index = *self.by_number.entry(chunk.thread).or_insert_with(|| {
            threads.push(FoundThread::default());
            threads.len() - 1
        });
        let thread = &mut threads[index];
        thread.chunks.push(at);
        thread.anchors.push((chunk.anchor_cycles, chunk.anchor_monotonic_ns));
        if let Some(ring) = ring {
            thread.ring = ring;
        }
    }

    /// Chunks of a thread, in the order in which it got them.
    pub(super) fn chunks(&self, thread: usize) -> &[ChunkAt] {
        self.threads.get(thread).map_or(&[], |thread| &thread.chunks)
    }

    pub(super) fn anchors(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        self.threads.iter().flat_map(|thread| thread.anchors.iter().copied())
    }

    /// Cycles that no record of the thread lies before, for each thread.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.threads.iter().map(|thread| thread.anchors.first().map_or(0, |anchor| anchor.0))
    }
}

fn instant(timeline: &mut Timeline, cycles: u64) -> u64 {
    timeline.monotonic_ns(cycles).max(0).unsigned_abs()
}

pub(super) fn threads(found: &ScannedThreads, mut timeline: Timeline) -> Vec<SyncThread> {
    let mut thread = |found: &FoundThread| {
        let ring = &found.ring;
        let ended = ring.flags & ring_flags::ENDED != 0;
        SyncThread {
            tid: ring.tid,
            creator: ring.creator,
            creation: ring.creation,
            initial: ring.flags & ring_flags::INITIAL != 0,
            found_in_a_call: ring.flags & ring_flags::FOUND != 0,
            ended,
            pthread: ring.pthread,
            start_ns: instant(&mut timeline, ring.start_cycles),
            end_ns: ended.then(|| instant(&mut timeline, ring.end_cycles)),
            start_routine: ring.start_routine,
            name: text(ring.name.split(|octet| *octet == 0).next().unwrap_or(&[])),
            lost: ring.lost,
            counts: SyncCounts {
                free_locks: ring.free_locks,
                free_unlocks: ring.free_unlocks,
                busy_tries: ring.busy_tries,
                free_semaphore_waits: ring.free_semaphore_waits,
                quiet_posts: ring.quiet_posts,
                free_read_locks: ring.free_read_locks,
            },
        }
    };
    found.threads.iter().map(&mut thread).collect()
}

pub(super) fn of(header: &SyncSegmentHeader, anchors: &[AnchorRecord], threads: &[SyncThread]) -> SyncFacts {
    let (exe, argv) = program(header);
    let ends = threads.iter().filter_map(|thread| thread.end_ns);
    let last_anchor = anchors.last().map_or(0, |anchor| anchor.monotonic_ns.max(0).unsigned_abs());
    SyncFacts {
        pid: header.pid,
        parent: header.parent,
        start_ticks: header.start_ticks,
        exec_number: header.exec_number,
        exe,
        argv,
        created_realtime_ns: header.created_realtime_ns,
        first_ns: header.first_monotonic_ns.max(0).unsigned_abs(),
        last_ns: ends.fold(last_anchor, u64::max),
        ended: match SyncEnd::from_raw(header.ended) {
            SyncEnd::Unsaid => SyncEnding::Unsaid,
            SyncEnd::Exit => SyncEnding::Exit,
            SyncEnd::ImmediateExit => SyncEnding::ImmediateExit,
        },
        creations: header.creations,
        threads_lost: header.threads_lost,
        records_lost: threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.lost)),
    }
}

fn program(header: &SyncSegmentHeader) -> (String, Vec<String>) {
    let text_of = &header.text;
    let exe_end = (header.exe_bytes as usize).min(text_of.len());
    let argv_start = exe_end.saturating_add(1).min(text_of.len());
    let argv_end = argv_start.saturating_add(header.argv_bytes as usize).min(text_of.len());
    let argv = &text_of[argv_start..argv_end];
    let argv = argv.strip_suffix(b"\0").unwrap_or(argv);
    let arguments =
        if argv.is_empty() { Vec::new() } else { argv.split(|octet| *octet == 0).map(text).collect() };
    (text(&text_of[..exe_end]), arguments)
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}
