//! The events of all threads in time order.

use super::SyncSegmentError;
use super::cursor::Cursor;
use super::facts::{ScannedThreads, SyncThread};
use super::source::Source;
use quaver_abi::record::AnchorRecord;
use quaver_abi::sync::{SyncKind, SyncRecord};
use quaver_store::timeline::Timeline;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// One event with its instant and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncMoment {
    /// CLOCK_MONOTONIC nanoseconds; never before that of the event before.
    pub at_ns: u64,
    /// Place of the thread in [`super::Segment::threads`].
    pub thread: u32,
    /// Its thread id.
    pub tid: u32,
    /// The record. Of [`SyncKind::Create`] the detail is the child's thread id, and of [`SyncKind::CreateExit`]
    /// detail and object are its thread id and `pthread_t`; 0 where the child was never seen.
    pub record: SyncRecord,
}

/// Iterator over a segment's events in time order. A thread's chunks are read when its turn comes and forgotten
/// when it ends.
#[derive(Debug)]
pub struct Merged<'a> {
    source: &'a Source,
    found: &'a ScannedThreads,
    threads: &'a [SyncThread],
    children: HashMap<u32, (u32, u64)>,
    timeline: Option<Timeline>,
    /// What comes next of each thread: its cycles, and the thread. A thread that has not begun is entered with
    /// the cycles of its first anchor.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    running: Vec<Option<Running<'a>>>,
    latest_ns: u64,
}

#[derive(Debug)]
struct Running<'a> {
    cursor: Cursor<'a>,
    next: SyncRecord,
}

impl<'a> Merged<'a> {
    pub(super) fn new(
        source: &'a Source,
        found: &'a ScannedThreads,
        threads: &'a [SyncThread],
        anchors: &[AnchorRecord],
    ) -> Self {
        let children = threads.iter().filter(|thread| thread.creation != 0);
        Self {
            source,
            found,
            threads,
            children: children.map(|thread| (thread.creation, (thread.tid, thread.pthread))).collect(),
            timeline: Timeline::new(anchors),
            queue: found.starts().zip(0..).map(Reverse).collect(),
            running: threads.iter().map(|_| None).collect(),
            latest_ns: 0,
        }
    }

    fn step(&mut self) -> Result<Option<SyncMoment>, SyncSegmentError> {
        loop {
            let Some(mut top) = self.queue.peek_mut() else { return Ok(None) };
            let number = top.0.1;
            let place = &mut self.running[number as usize];
            let record = place.as_ref().map(|running| running.next);
            let running = place.get_or_insert_with(|| Running {
                cursor: Cursor::new(self.found.chunks(number as usize)),
                next: SyncRecord::default(),
            });
            match running.cursor.next(self.source)? {
                Some(next) => {
                    running.next = next;
                    top.0.0 = next.cycles;
                    drop(top);
                }
                None => {
                    *place = None;
                    std::collections::binary_heap::PeekMut::pop(top);
                }
            }
            if let Some(record) = record {
                return Ok(Some(self.moment(number, record)));
            }
        }
    }

    fn moment(&mut self, thread: u32, mut record: SyncRecord) -> SyncMoment {
        let at = self.timeline.as_mut().map_or(0, |timeline| timeline.monotonic_ns(record.cycles));
        self.latest_ns = self.latest_ns.max(at.max(0).unsigned_abs());
        let kind = record.kind();
        if matches!(kind, Some(SyncKind::Create | SyncKind::CreateExit)) {
            let (tid, pthread) = self.children.get(&record.detail).copied().unwrap_or_default();
            record.detail = tid;
            if kind == Some(SyncKind::CreateExit) {
                record.object = pthread;
            }
        }
        let tid = self.threads.get(thread as usize).map_or(0, |thread| thread.tid);
        SyncMoment { at_ns: self.latest_ns, thread, tid, record }
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<SyncMoment, SyncSegmentError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Ok(moment) => moment.map(Ok),
            Err(error) => {
                self.queue.clear();
                Some(Err(error))
            }
        }
    }
}
