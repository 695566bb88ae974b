//! What a server has done so far, for whoever looks while it serves.

use crate::event::ServerEvent;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Figures that one thread changes and others read. Copies share them.
#[derive(Debug, Default)]
pub struct Shown<T>(Arc<Mutex<T>>);

impl<T> Clone for Shown<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Shown<T> {
    /// As they are now.
    pub fn read(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes them.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Counts, which never fall, and levels of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFigures {
    /// Tests that run.
    pub running: u64,
    /// Tests that wait for their turn.
    pub waiting: u64,
    /// Packets a second that the running tests may send or be sent.
    pub packets_per_second: u64,
    /// Flows that began, by protocol and way.
    pub begun: BTreeMap<(&'static str, &'static str), u64>,
    /// Flows that ended, and their packets, by way.
    pub ended: BTreeMap<&'static str, (u64, u64)>,
    /// Events of control connections, by kind. One connection may have several.
    pub connection_events: BTreeMap<&'static str, u64>,
}

impl ServerFigures {
    /// Kinds of [`ServerFigures::connection_events`].
    pub const CONNECTION_EVENTS: [&'static str; 5] =
        ["closed", "broken-off", "refused", "hostile", "turned-away"];

    /// Counts an event, even one that the log suppresses.
    pub(crate) fn count(&mut self, event: &ServerEvent) {
        let connection_events = match event {
            ServerEvent::Started { protocol, direction, .. } => {
                *self.begun.entry((protocol.name(), direction.name())).or_default() += 1;
                return;
            }
            ServerEvent::Ended { direction, packets, .. } => {
                let (flows, all) = self.ended.entry(direction.name()).or_default();
                (*flows, *all) = (*flows + 1, *all + packets);
                return;
            }
            ServerEvent::Closed { .. } => "closed",
            ServerEvent::BrokenOff { .. } => "broken-off",
            ServerEvent::Refused { .. } => "refused",
            ServerEvent::Hostile { .. } => "hostile",
            ServerEvent::TurnedAway { .. } => "turned-away",
            ServerEvent::Listening { .. }
            | ServerEvent::ListeningFor { .. }
            | ServerEvent::NotListening { .. }
            | ServerEvent::Queued { .. }
            | ServerEvent::Moved { .. }
            | ServerEvent::Suppressed { .. } => return,
        };
        *self.connection_events.entry(connection_events).or_default() += 1;
    }
}
