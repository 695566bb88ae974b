//! Finding the record of a packet that the programs below the packet socket wrote.
//!
//! Records wait where the programs wrote them until packets ask for them: the kernel's memory holds those of every packet
//! that the ring of packets has room for, the table only those that came out of order or of packets that are not
//! captured. So a writer that is held up for as long as the ring lasts costs no stamps.

use super::super::frame::{Frame, LinkKind, PacketKind, RingStamp};
use super::super::join::{Below, JoinTable, Joined};
use super::programs::Written;
use quaver_clock::realtime_ns;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for the TC program to come to a packet that the socket has seen already; it runs right after.
const TC_WAIT: Duration = Duration::from_micros(500);
/// After a wait for nothing none is made for so long: somebody else's program may keep packets from ours.
const NO_WAIT: Duration = Duration::from_millis(10);
/// Age of a packet beyond which its record cannot be on the way any more.
const ON_THE_WAY_NS: i64 = 2_000_000;

/// What is missing, for whoever does not have the joiner.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// Records for which there was no room.
    lost: AtomicU64,
    /// Packets that ought to have a record and have none.
    unmatched: AtomicU64,
}

impl Missing {
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn unmatched(&self) -> u64 {
        self.unmatched.load(Ordering::Relaxed)
    }
}

/// Finds records of packets: on the writing thread, or on the capture thread where each packet is taken by itself.
#[derive(Debug)]
pub struct Joiner {
    written: Written,
    table: JoinTable,
    missing: Arc<Missing>,
    /// Before this there is no waiting.
    no_wait_until: Option<Instant>,
    /// Whether a packet asked since the last block.
    asked: bool,
}

impl Joiner {
    pub(super) fn new(written: Written) -> Self {
        let missing = Arc::default();
        Self { written, table: JoinTable::new(), missing, no_wait_until: None, asked: true }
    }

    pub(super) fn missing(&self) -> Arc<Missing> {
        Arc::clone(&self.missing)
    }

    /// Makes room where nobody asks for records: when there is no block of packets, or none of the last asked.
    pub(in crate::record) fn make_room(&mut self, idle: bool) {
        if (idle || !self.asked) && self.written.is_half_full() {
            self.written.drain(usize::MAX, |record| self.table.put(record));
        }
        self.asked = false;
        self.missing.lost.store(self.written.lost(), Ordering::Relaxed);
    }

    /// The record of a packet, if it passed the programs.
    pub(in crate::record) fn below(&mut self, frame: &Frame<'_>, link: LinkKind) -> Option<Below> {
        let passed = frame.stamped_by == RingStamp::Kernel && frame.kind != PacketKind::Outgoing;
        if !passed || !self.written.covers(frame.interface) {
            return None;
        }
        self.asked = true;
        let key = frame.time_ns as u64;
        // A cooked packet has lost its link header, and with it what the TC program counted.
        let length = (link != LinkKind::Cooked).then_some(frame.kernel_length);
        let mut give_up = None;
        loop {
            if let Some(below) = self.table.take(key, frame.interface, length) {
                return Some(below);
            }
            // The one that is wanted is mostly the next, which then needs no place in the table.
            let mut next = None;
            if self.written.drain(1, |record| next = Some(record)) > 0 {
                match next {
                    Some(below) if below.fits(key, frame.interface, length) => return Some(below),
                    Some(other) => self.table.put(other),
                    None => {}
                }
                continue;
            }
            let now = Instant::now();
            let give_up = *give_up.get_or_insert(now + TC_WAIT);
            let young = realtime_ns().saturating_sub(frame.time_ns) < ON_THE_WAY_NS;
            if !young || now > give_up || self.no_wait_until.is_some_and(|until| now < until) {
                if young && now > give_up {
                    self.no_wait_until = Some(now + NO_WAIT);
                }
                self.missing.unmatched.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            std::hint::spin_loop();
        }
    }
}

impl Drop for Joiner {
    fn drop(&mut self) {
        self.missing.lost.store(self.written.lost(), Ordering::Relaxed);
    }
}
