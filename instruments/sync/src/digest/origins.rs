//! Where objects come from: those on the heap have no name of their own.

use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::sync::{SHARED_ADDRESS, SyncEvent, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most objects of which is kept where they come from.
const MOST_OBJECTS: usize = 262_144;

/// How an object is first met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FirstDeed {
    /// It was initialised.
    Initialised,
    /// It was used without; of a lock, free uses before that may have gone unrecorded.
    Used,
}

/// Where an object comes from, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// How it is first met.
    pub how: FirstDeed,
    /// Function, file and line, as far as they are known.
    pub site: String,
    /// The thread that did it.
    pub thread: String,
    /// Other places that initialised an object at the same address later.
    pub others: usize,
}

impl Origin {
    /// `made at queue.c:21`: what tells the object from its neighbours.
    pub fn short(&self) -> String {
        let place = self.site.split_once(" (").and_then(|(_, rest)| rest.split_once(')'));
        // Without a line it is a function or a file, with an offset.
        let place = place.filter(|(place, _)| place.contains(':')).map_or(&*self.site, |(place, _)| place);
        let how = if self.how == FirstDeed::Initialised { "made" } else { "first used" };
        format!("{how} at {place}")
    }

    /// `initialised in queue_new (queue.c:21) by main (77)`
    pub fn words(&self) -> String {
        let how = if self.how == FirstDeed::Initialised { "initialised" } else { "first used" };
        let others = match self.others {
            0 => String::new(),
            others => format!(", later in {others} other places"),
        };
        format!("{how} in {} by {}{others}", self.site, self.thread)
    }
}

/// What is kept of an object.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    pub(super) how: FirstDeed,
    pub(super) thread: ThreadId,
    /// Process image and return address of the first deed, then of further initialisations. Of a wait it is where its end says that
    /// it was called from.
    pub(super) sites: Vec<(u16, u64)>,
    /// The first deed is a wait of that thread, which goes on.
    is_open: bool,
}

/// Objects of a run, by process image and address.
#[derive(Debug, Default)]
pub(super) struct Beginnings(BTreeMap<(u16, u64), Beginning>);

impl Beginnings {
    /// Keeps the first event of each object that says where its call returns to.
    pub(super) fn event(&mut self, event: &SyncEvent) {
        let key = (if event.object & SHARED_ADDRESS == 0 { event.process } else { 0 }, event.object);
        let site = (event.process, event.call_site);
        if event.kind.ends_wait()
            && let Some(first) =
                self.0.get_mut(&key).filter(|first| first.is_open && first.thread == event.thread)
        {
            first.is_open = false;
            if event.call_site != 0 && first.how == FirstDeed::Used {
                first.sites = vec![site];
            }
        }
        let how = match event.kind {
            SyncKind::Initialised => FirstDeed::Initialised,
            SyncKind::Taken => FirstDeed::Used,
            kind if kind.begins_wait() && kind != SyncKind::JoinEntry => FirstDeed::Used,
            _ => return,
        };
        if event.call_site == 0 {
            return;
        }
        if let Some(known) = self.0.get_mut(&key) {
            if how == FirstDeed::Initialised && !known.sites.contains(&site) && known.sites.len() < 16 {
                known.sites.push(site);
            }
        } else if self.0.len() < MOST_OBJECTS {
            self.0.insert(
                key,
                Beginning { how, thread: event.thread, sites: vec![site], is_open: event.kind.begins_wait() },
            );
        }
    }

    /// Where an object comes from.
    pub(super) fn of(&self, process: u16, address: u64) -> Option<&Beginning> {
        self.0.get(&(process, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::sync::SyncOutcome;

    fn event(kind: SyncKind, object: u64, call_site: u64, thread: u32) -> SyncEvent {
        let (thread, outcome) = (ThreadId(thread), SyncOutcome::Ok);
        SyncEvent {
            at_ns: 1,
            object,
            call_site,
            thread,
            detail: 0,
            cpu: 0,
            process: 0,
            kind,
            outcome,
            flags: 0,
        }
    }

    #[test]
    fn an_object_comes_from_where_it_was_initialised_or_else_first_used() {
        let mut all = Beginnings::default();
        for one in [
            event(SyncKind::Initialised, 1, 10, 7),
            event(SyncKind::LockEntry, 1, 11, 8),
            event(SyncKind::UnlockEntry, 2, 12, 8),
            event(SyncKind::Taken, 2, 13, 9),
            event(SyncKind::LockEntry, 2, 14, 8),
            // Memory that was given back and taken again.
            event(SyncKind::Initialised, 1, 20, 8),
            event(SyncKind::Initialised, 1, 10, 8),
        ] {
            all.event(&one);
        }
        let one = all.of(0, 1).unwrap();
        assert_eq!(
            (one.how, one.thread.0, &one.sites[..]),
            (FirstDeed::Initialised, 7, &[(0, 10), (0, 20)][..])
        );
        let other = all.of(0, 2).unwrap();
        assert_eq!((other.how, other.thread.0, other.sites[0]), (FirstDeed::Used, 9, (0, 13)));
        let words = |how, others| {
            Origin { how, site: "make (q.c:3)".into(), thread: "main (7)".into(), others }.words()
        };
        let short = |site: &str| {
            Origin { how: FirstDeed::Initialised, site: site.into(), thread: "main (7)".into(), others: 0 }
                .short()
        };
        assert_eq!(short("make (q.c:3)"), "made at q.c:3");
        assert_eq!(short("put (q.h:9) inlined in make (q.c:3)"), "made at q.h:9");
        assert_eq!(short("make+0x12 (prog)"), "made at make+0x12 (prog)");
        assert_eq!(short("prog+0x122e"), "made at prog+0x122e");
        assert_eq!(words(FirstDeed::Initialised, 0), "initialised in make (q.c:3) by main (7)");
        assert_eq!(
            words(FirstDeed::Used, 2),
            "first used in make (q.c:3) by main (7), later in 2 other places"
        );
    }
}
