//! Turns of a polling sink that took much longer than its others: something stopped it, or a receive call was slow. The
//! record says which: in the sink's own code nothing else takes long.

use quaver_abi::record::{GapPlace, GapRecord};
use quaver_clock::{Counter, CycleCounter, nominal_scale};
use quaver_host::segment::SegmentWriter;

/// Turns from which the usual length is learned.
const LEARNED: usize = 1_024;
/// A turn is long from this many times the median on, and from [`SHORTEST_NS`] on.
const TIMES: u64 = 4;
const SHORTEST_NS: u64 = 2_000;

/// What watches the turns of a loop.
pub(super) trait Watch {
    /// The receive call begins.
    fn begin(&mut self);
    /// It found nothing.
    fn found_nothing(&mut self);
    /// It brought a packet, by this reading of the counter on this CPU.
    fn brought(&mut self, cycles: u64, cpu: u16);
}

/// Nobody watches.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn begin(&mut self) {}
    #[inline(always)]
    fn found_nothing(&mut self) {}
    #[inline(always)]
    fn brought(&mut self, _cycles: u64, _cpu: u16) {}
}

/// Writes a record for each long turn. Costs two readings of the counter a turn, beside a system call.
pub(super) struct Turns {
    writer: SegmentWriter<GapRecord>,
    counter: Counter,
    /// Turns longer than this are looked at; 0 while the usual length is learned.
    limit: u64,
    usual: Vec<u64>,
    number: u64,
    /// End of the turn before, and beginning of the call of this one.
    ended: u64,
    began: u64,
}

impl Turns {
    pub(super) fn new(writer: SegmentWriter<GapRecord>, counter: Counter) -> Self {
        let now = counter.read();
        let usual = Vec::with_capacity(LEARNED);
        Self { writer, counter, limit: 0, usual, number: 0, ended: now, began: now }
    }

    pub(super) fn into_segment(self) -> SegmentWriter<GapRecord> {
        self.writer
    }

    #[inline(always)]
    fn end(&mut self, cycles: u64, cpu: u16, place: GapPlace) {
        // Wrapping, so that a counter that steps back shows as an enormous turn and not as a panic.
        if cycles.wrapping_sub(self.ended) > self.limit {
            self.long(cycles, cpu, place);
            // Writing the record is no part of the next turn.
            self.ended = self.counter.read();
        } else {
            self.ended = cycles;
        }
        self.number += 1;
    }

    /// Out of the way of the loop's common case.
    #[cold]
    #[inline(never)]
    fn long(&mut self, cycles: u64, cpu: u16, place: GapPlace) {
        if self.limit == 0 {
            self.usual.push(cycles.wrapping_sub(self.ended));
            if self.usual.len() == LEARNED {
                let (_, median, _) = self.usual.select_nth_unstable(LEARNED / 2);
                self.limit =
                    median.saturating_mul(TIMES).max(nominal_scale(self.counter).cycles(SHORTEST_NS));
            }
            return;
        }
        let parts = [(GapPlace::UserCode, self.ended, self.began), (place, self.began, cycles)];
        let longest = parts.iter().map(|(_, from, to)| to.wrapping_sub(*from)).max().unwrap_or(0);
        for (place, before_cycles, after_cycles) in parts {
            let length = after_cycles.wrapping_sub(before_cycles);
            if length > self.limit || length == longest {
                let flags = (place as u16) << GapRecord::PLACE_SHIFT;
                let index = self.number;
                let record = GapRecord { index, before_cycles, after_cycles, cpu, flags, reserved: 0 };
                self.writer.push(record);
            }
        }
    }
}

impl Watch for Turns {
    #[inline(always)]
    fn begin(&mut self) {
        self.began = self.counter.read();
    }

    #[inline(always)]
    fn found_nothing(&mut self) {
        let (cycles, cpu) = self.counter.read_with_cpu();
        self.end(cycles, cpu, GapPlace::EmptyPoll);
    }

    #[inline(always)]
    fn brought(&mut self, cycles: u64, cpu: u16) {
        self.end(cycles, cpu, GapPlace::Call);
    }
}
