//! Offsets of a recorded schedule, as they come: while the test waits for its turn, and no more than were announced.

use super::break_off::Break;
use crate::message::Message;

/// Most offsets of a recording that a server takes (8 bytes each).
pub(super) const MOST_OFFSETS: u64 = 1 << 20;

/// A recording that comes in parts. Only a test that has its turn or a place in the queue may have one, so there are
/// never more than these.
#[derive(Debug)]
pub(super) struct Recording {
    count: u64,
    offsets_ns: Vec<u64>,
}

impl Recording {
    /// One of so many offsets.
    pub(super) fn new(count: u64) -> Self {
        Self { count, offsets_ns: Vec::new() }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.offsets_ns.len() as u64 >= self.count
    }

    /// Takes the next part.
    pub(super) fn take(&mut self, message: &Message) -> Result<(), Break> {
        let (first, offsets_ns) = message.offsets()?;
        let taken = self.offsets_ns.len() as u64;
        if first != taken || offsets_ns.is_empty() || taken + offsets_ns.len() as u64 > self.count {
            return Err(Break::Hostile("sent offsets out of their order".into()));
        }
        self.offsets_ns.extend(offsets_ns);
        Ok(())
    }

    /// All of them.
    pub(super) fn into_offsets(self) -> Result<Vec<u64>, Break> {
        if self.offsets_ns.is_sorted() {
            Ok(self.offsets_ns)
        } else {
            Err(Break::Hostile("sent offsets that decrease".into()))
        }
    }
}
