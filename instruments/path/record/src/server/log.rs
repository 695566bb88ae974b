//! Events, not more a second than a person or a disk can take.

use crate::event::ServerEvent;
use crate::figures::{ServerFigures, Shown};
use std::time::{Duration, Instant};

/// Events a second that anybody can cause; of tests that begin and end, as many again, so that a flood of others
/// does not hide them.
const MOST_A_SECOND: u32 = 20;

/// Counts events and hands them on; those that strangers can cause are limited, and the rest of them counted.
pub(super) struct Log<'a> {
    on_event: &'a mut dyn FnMut(ServerEvent),
    figures: Shown<ServerFigures>,
    since: Instant,
    told: u32,
    tests_told: u32,
    suppressed: u64,
}

impl<'a> Log<'a> {
    pub(super) fn new(on_event: &'a mut dyn FnMut(ServerEvent), figures: Shown<ServerFigures>) -> Self {
        Self { on_event, figures, since: Instant::now(), told: 0, tests_told: 0, suppressed: 0 }
    }

    pub(super) fn tell(&mut self, event: ServerEvent) {
        self.tick();
        self.figures.change(|figures| figures.count(&event));
        let told = match event {
            ServerEvent::Listening { .. } | ServerEvent::NotListening { .. } => None,
            ServerEvent::Started { .. } | ServerEvent::Ended { .. } => Some(&mut self.tests_told),
            _ => Some(&mut self.told),
        };
        if let Some(told) = told {
            if *told >= MOST_A_SECOND {
                self.suppressed += 1;
                return;
            }
            *told += 1;
        }
        (self.on_event)(event);
    }

    /// To be called now and then: tells how many events were left out.
    pub(super) fn tick(&mut self) {
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.since = Instant::now();
            (self.told, self.tests_told) = (0, 0);
            self.finish();
        }
    }

    pub(super) fn finish(&mut self) {
        if self.suppressed > 0 {
            let count = std::mem::take(&mut self.suppressed);
            (self.on_event)(ServerEvent::Suppressed { count });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_arrivals::path::direction::Direction;

    #[test]
    fn floods_of_events_are_counted_and_hide_no_test() {
        let peer = ([192, 0, 2, 1], 1).into();
        let mut told = Vec::new();
        let mut keep = |event| told.push(event);
        let figures = Shown::<ServerFigures>::default();
        let mut log = Log::new(&mut keep, figures.clone());
        log.since = Instant::now() + Duration::from_secs(3_600);
        for _ in 0..1_000 {
            log.tell(ServerEvent::Closed { peer });
        }
        let started = ServerEvent::Ended { peer, direction: Direction::Up, packets: 5 };
        for _ in 0..1_000 {
            log.tell(started.clone());
        }
        log.finish();
        assert_eq!(told.len(), 41);
        assert_eq!(told[20], started);
        assert_eq!(told[39..], [started, ServerEvent::Suppressed { count: 1_960 }]);
        let figures = figures.read();
        assert_eq!(
            (&figures.connection_events, &figures.ended),
            (&[("closed", 1_000)].into(), &[("up", (1_000, 5_000))].into())
        );
    }
}
