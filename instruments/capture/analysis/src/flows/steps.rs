//! Steps back of the clock that stamped the packets: found before a flow sees them, so that no figure spans one.
//!
//! A packet far before the latest is late (of another interface or queue), or the clock was set back. After a step those behind it
//! stay back, too. So packets are held until that is known.

use super::FrameFacts;
use quaver_abi::stamp::PacketStamps;
use serde::Serialize;

/// Packets of merged interfaces and queues are less late than that.
const LEAST_NS: i64 = 10_000_000;
/// So many packets in a row stay back after a step, and at the end of a capture so many.
const STAY_BACK: usize = 8;
const STAY_BACK_AT_END: usize = 2;
/// Steps that are told; after the last one flows go on.
const MOST_STEPS: usize = 8;

/// A step of the capturing clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockStep {
    /// The first packet behind it, counted from 1.
    pub packet: u64,
    /// It was set back by this at least: by more where time went by between the packets around it.
    pub least_ns: i64,
}

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) time_ns: Option<i64>,
    pub(super) stamps: PacketStamps,
    pub(super) frame: FrameFacts,
}

/// The clock, packet by packet.
#[derive(Debug, Default)]
pub(super) struct Steps {
    found: Vec<ClockStep>,
    latest_ns: Option<i64>,
    held: Vec<Held>,
}

impl Steps {
    pub(super) fn found(&self) -> &[ClockStep] {
        &self.found
    }

    /// Steps so far.
    pub(super) fn count(&self) -> u32 {
        self.found.len() as u32
    }

    /// Whether the packet has to wait, or to stand behind those that do.
    pub(super) fn holds(&mut self, time_ns: Option<i64>) -> bool {
        let back = time_ns.is_some_and(|now_ns| self.is_back(now_ns));
        if !back && self.held.is_empty() {
            self.latest_ns = self.latest_ns.max(time_ns);
        }
        back || !self.held.is_empty()
    }

    fn is_back(&self, now_ns: i64) -> bool {
        self.latest_ns.is_some_and(|latest_ns| now_ns < latest_ns.saturating_sub(LEAST_NS))
    }

    /// Holds it. The answer is all that is held, once it is known whether they stand behind a step; `before` packets came before
    /// them.
    pub(super) fn hold(&mut self, one: Held, before: u64) -> Vec<Held> {
        let returned = one.time_ns.is_some_and(|now_ns| !self.is_back(now_ns));
        self.held.push(one);
        if returned { self.release(usize::MAX, before) } else { self.release(STAY_BACK, before) }
    }

    /// At the end of the capture, decides about the packets that are still held.
    pub(super) fn finish(&mut self, before: u64) -> Vec<Held> {
        let held = self.release(STAY_BACK_AT_END, before);
        if held.is_empty() { std::mem::take(&mut self.held) } else { held }
    }

    /// Lets all go: behind a step if so many have stayed back.
    fn release(&mut self, stay_back: usize, before: u64) -> Vec<Held> {
        let mut times = self.held.iter().filter_map(|held| held.time_ns);
        let (first_ns, last_ns, stamped) =
            (times.clone().next(), times.clone().max(), times.by_ref().count());
        if stay_back == usize::MAX {
            self.latest_ns = self.latest_ns.max(last_ns);
        } else if stamped < stay_back {
            return Vec::new();
        } else {
            if let Some((latest_ns, first_ns)) = self.latest_ns.zip(first_ns)
                && self.found.len() < MOST_STEPS
            {
                let least_ns = latest_ns.saturating_sub(first_ns);
                self.found.push(ClockStep { packet: before + 1, least_ns });
            }
            self.latest_ns = last_ns;
        }
        std::mem::take(&mut self.held)
    }
}
