//! The flight recorder of a path: its newest packets, and the window that a trigger asks for.

use super::WAITING_NS;
use super::judge::PathJudge;
use crate::config::{PathSettings, WindowSettings};
use crate::frozen::{Clocks, PathWindow};
use crate::judge::Trigger;
use quaver_path_record::stamp::{SenderOptions, StampMemory, StampProgress};

/// Beyond the waiting time, until a packet's fate has been told.
const TOLD_NS: i64 = 200_000_000;
/// The wall clock was set, if it moved so far beside CLOCK_MONOTONIC from one look to the next.
const SET_NS: i64 = 1_000_000;
/// A window goes on while triggers come, up to this time from the first one.
const LONGEST_NS: i64 = 60_000_000_000;

/// Newest packets of a path, and what is asked of them.
pub(super) struct PathRecorder {
    name: String,
    before_ns: i64,
    after_ns: i64,
    judge: PathJudge,
    memory: StampMemory,
    clocks: Clocks,
    asked: Option<Asked>,
}

/// A window that is not over.
struct Asked {
    triggers: Vec<Trigger>,
    /// UTC nanoseconds.
    from_ns: i64,
    to_ns: i64,
}

/// What one look brought.
#[derive(Default)]
pub(super) struct Look {
    /// What began a window, or came in one.
    pub(super) trigger: Option<Trigger>,
    /// Whether a window is asked for with it.
    pub(super) begins: bool,
    /// The window that ended before it was held, since the wall clock was set.
    pub(super) given_up: Vec<Trigger>,
}

impl PathRecorder {
    pub(super) fn new(settings: &PathSettings, window: &WindowSettings, clocks: Clocks) -> Self {
        Self {
            name: settings.name.clone(),
            before_ns: window.before.as_nanos() as i64,
            after_ns: window.after.as_nanos() as i64,
            judge: PathJudge::new(settings),
            memory: StampMemory::default(),
            clocks,
            asked: None,
        }
    }

    /// Takes an event of the session.
    pub(super) fn hear(&mut self, progress: &StampProgress<'_>, clocks: Clocks) -> Look {
        let mut look = Look::default();
        if clocks.apart_ns(self.clocks) > SET_NS {
            self.memory.forget_before(i64::MAX);
            self.judge.begin_anew();
            look.given_up = self.asked.take().map_or_else(Vec::new, |asked| asked.triggers);
        }
        self.clocks = clocks;
        self.memory.hear(progress);
        let found = match progress {
            StampProgress::Answered { packet, first: true, .. } => self.judge.answered(packet),
            StampProgress::Lost { packet } => self.judge.lost(packet),
            _ => None,
        };
        if let Some((reason, sent_ns, amount)) = found {
            let trigger = Trigger::new(reason, clocks.monotonic_of(sent_ns).unsigned_abs(), amount);
            look.trigger = Some(trigger);
            let (from_ns, to_ns) = self.around(sent_ns);
            match &mut self.asked {
                Some(asked) => {
                    asked.triggers.push(trigger);
                    asked.from_ns = asked.from_ns.min(from_ns);
                    asked.to_ns = asked.to_ns.max(to_ns.min(asked.from_ns + self.before_ns + LONGEST_NS));
                }
                None => look.begins = true,
            }
        }
        look
    }

    /// Asks for the window around a trigger.
    pub(super) fn ask(&mut self, trigger: Trigger) {
        let (from_ns, to_ns) = self.around(self.clocks.realtime_of(trigger.at_ns as i64));
        self.asked = Some(Asked { triggers: vec![trigger], from_ns, to_ns });
    }

    fn around(&self, sent_ns: i64) -> (i64, i64) {
        (sent_ns - self.before_ns, sent_ns + self.after_ns)
    }

    /// The window that was asked for, once the fate of its last packet has been told, or at the `end` of the session. `now_ns`
    /// is CLOCK_MONOTONIC. An error is one of which nothing is held.
    pub(super) fn freeze(
        &mut self,
        now_ns: i64,
        end: bool,
        options: &SenderOptions,
    ) -> Option<Result<PathWindow, Vec<Trigger>>> {
        let settled_ns = self.clocks.realtime_of(now_ns) - WAITING_NS.cast_signed() - TOLD_NS;
        let needed_ns = settled_ns - WAITING_NS.cast_signed() - self.before_ns - self.after_ns;
        let asked_ns = self.asked.as_ref().map_or(needed_ns, |asked| asked.from_ns);
        self.memory.forget_before(needed_ns.min(asked_ns));
        let asked = self.asked.take_if(|asked| end || asked.to_ns <= settled_ns)?;
        let Some(outcome) = self.memory.stretch(asked.from_ns, asked.to_ns) else {
            return Some(Err(asked.triggers));
        };
        let (name, options) = (self.name.clone(), options.clone());
        Some(Ok(PathWindow { name, triggers: asked.triggers, clocks: self.clocks, outcome, options }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::judge::Reason;
    use crate::paths::some_packet;
    use quaver_path_record::stamp::StampPacket;
    use std::net::SocketAddr;

    const MS: i64 = 1_000_000;
    const TEXT: &str =
        "[window]\nbefore = '1s'\nafter = '1s'\n[[path]]\nname = 'a'\nhost = 'b'\nlate = '5ms'\nlosses = 2\n";

    /// A recorder, the clocks by which it was made, and when its first packet is sent.
    fn begun() -> (PathRecorder, Clocks, i64) {
        let settings = Settings::parse(TEXT).unwrap();
        let clocks = Clocks::now();
        let mut recorder = PathRecorder::new(&settings.paths[0], &settings.window, clocks);
        let end = SocketAddr::from(([192, 0, 2, 1], 862));
        let started = StampProgress::Started { local: end, target: end, packet_bytes: 44 };
        recorder.hear(&started, clocks);
        (recorder, clocks, clocks.realtime_of(1_000_000 * MS))
    }

    fn options() -> SenderOptions {
        SenderOptions::new(SocketAddr::from(([192, 0, 2, 1], 862)))
    }

    /// Takes a packet of a stream of one each 100 ms; none of its round trips is a loss.
    fn take(
        recorder: &mut PathRecorder,
        clocks: Clocks,
        from_ns: i64,
        place: u64,
        round_trip: Option<i64>,
    ) -> Look {
        let t1_ns = from_ns + place as i64 * 100 * MS;
        let packet = some_packet(place, [t1_ns, t1_ns, t1_ns, t1_ns + round_trip.unwrap_or(0)]);
        match round_trip {
            Some(_) => {
                let packet = &packet;
                recorder.hear(&StampProgress::Answered { packet, reflected: place, first: true }, clocks)
            }
            None => {
                recorder.hear(&StampProgress::Lost { packet: &StampPacket { reply: None, ..packet } }, clocks)
            }
        }
    }

    #[test]
    fn a_window_is_held_from_before_its_first_trigger_until_after_its_last() {
        let (mut recorder, clocks, from_ns) = begun();
        for place in 0..60 {
            let look = take(
                &mut recorder,
                clocks,
                from_ns,
                place,
                Some(if [20, 28].contains(&place) { 7 * MS } else { MS }),
            );
            assert_eq!(look.trigger.is_some(), [20, 28].contains(&place));
            assert_eq!(look.begins, place == 20);
            look.trigger.filter(|_| look.begins).into_iter().for_each(|trigger| recorder.ask(trigger));
        }
        // Packets until 3.8 s belong to it, of which the last one may have a reply until 6.8 s.
        let at = |ms: i64| clocks.monotonic_of(from_ns + ms * MS);
        assert!(recorder.freeze(at(6_900), false, &options()).is_none());
        let window = recorder.freeze(at(7_000), false, &options()).unwrap().ok().unwrap();
        let reasons: Vec<Reason> = window.triggers.iter().map(|trigger| trigger.reason).collect();
        assert_eq!(reasons, [Reason::Delayed; 2]);
        let packets = &window.outcome.packets;
        assert_eq!((packets.len(), packets[0].t1_ns - from_ns), (29, 1_000 * MS), "from 1.0 to 3.8 s");
        assert!(recorder.freeze(at(9_000), true, &options()).is_none(), "it is handed over once");
    }

    #[test]
    fn a_window_that_is_not_over_at_the_end_holds_what_came() {
        let (mut recorder, clocks, from_ns) = begun();
        let looks = [Some(MS), None, None].into_iter().enumerate();
        let looks: Vec<Look> =
            looks.map(|(place, trip)| take(&mut recorder, clocks, from_ns, place as u64, trip)).collect();
        recorder.ask(looks[2].trigger.unwrap());
        let window = recorder.freeze(clocks.monotonic_of(from_ns), true, &options()).unwrap().ok().unwrap();
        assert_eq!((window.outcome.sent, window.outcome.lost()), (3, 2));
    }

    #[test]
    fn a_wall_clock_that_is_set_ends_a_window_and_what_was_learned() {
        let (mut recorder, clocks, from_ns) = begun();
        take(&mut recorder, clocks, from_ns, 0, Some(MS));
        let trigger = take(&mut recorder, clocks, from_ns, 1, Some(9 * MS)).trigger.unwrap();
        recorder.ask(trigger);
        let look = take(&mut recorder, clocks.set_by(2 * MS), from_ns, 2, Some(30 * MS));
        assert_eq!((look.given_up, look.trigger), (vec![trigger], None), "no round trip is known any more");
        assert!(recorder.freeze(i64::MAX / 2, true, &options()).is_none());
    }
}
