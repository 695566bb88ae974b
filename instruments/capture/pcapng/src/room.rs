//! What a reader keeps of interfaces in all: each text is bounded, but a file may describe thousands of interfaces.

use super::{CapturedInterface, CapturedStatistics};
use serde_json::Value;

/// Bytes of texts and run facts that are kept of all interfaces of a file; an interface of ours has some thousands.
pub(super) const MOST_KEPT_BYTES: usize = 4 << 20;
/// What is said where they are more.
pub(super) const FULL: &str =
    "texts and run facts of interfaces are more than 4 MiB; the rest of them is left out";

/// Room that is left for texts.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self { left: MOST_KEPT_BYTES }
    }

    /// Keeps what the interface says of itself, or, where there is no room, its numbers alone; whether all is kept.
    pub(super) fn interface(&mut self, facts: &mut CapturedInterface) -> bool {
        let texts = |facts: &mut CapturedInterface| {
            let CapturedInterface { name, description, filter, os, hardware, comment, .. } = facts;
            [name, description, filter, os, hardware, comment].map(std::mem::take)
        };
        let mut bare = facts.clone();
        let bytes = texts(&mut bare).iter().flatten().map(String::capacity).sum();
        let fits = self.take(bytes);
        if !fits {
            *facts = bare;
        }
        fits
    }

    /// The same of counts, which take the place of those before.
    pub(super) fn statistics(
        &mut self,
        before: Option<&CapturedStatistics>,
        counted: &mut CapturedStatistics,
    ) -> bool {
        self.left += before.map_or(0, statistics_bytes);
        let fits = self.take(statistics_bytes(counted));
        if !fits {
            counted.comment = None;
            counted.run_facts = None;
        }
        fits
    }

    fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

fn statistics_bytes(counted: &CapturedStatistics) -> usize {
    counted.comment.as_ref().map_or(0, String::capacity) + counted.run_facts.as_ref().map_or(0, json_bytes)
}

/// What a value of JSON takes in memory, which may be some twenty times its text.
fn json_bytes(value: &Value) -> usize {
    /// A key and its part of a node of the map.
    const KEY_BYTES: usize = 64;
    let own = size_of::<Value>();
    match value {
        Value::String(text) => own + text.capacity(),
        Value::Array(values) => own + values.iter().map(json_bytes).sum::<usize>(),
        Value::Object(members) => {
            let of = |(key, value): (&String, &Value)| KEY_BYTES + key.capacity() + json_bytes(value);
            own + members.iter().map(of).sum::<usize>()
        }
        _ => own,
    }
}
