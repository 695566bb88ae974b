//! Paths to reflectors of STAMP (RFC 8762), which a session probes for as long as the watch runs.

mod judge;
mod window;

use crate::board::{Board, Outcomes, PathState};
use crate::config::{PathSettings, Settings};
use crate::frozen::{Clocks, FrozenWindow, PathWindow};
use crate::judge::Trigger;
use crate::outbox::Outbox;
use quaver_clock::monotonic_ns;
use quaver_instrument::interrupt::Interrupt;
use quaver_path::serve::read_key;
use quaver_path_record::stamp::{
    Protection, SenderOptions, StampKey, StampPacket, StampProgress, send_session,
};
use quaver_view::Cell;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use window::PathRecorder;

/// A reply that takes longer counts as lost (RFC 7680, section 3.1.3: the waiting time).
const WAITING_NS: u64 = 3_000_000_000;
/// A path is silent without a reply for so long, and for so many packets.
const SILENCE_NS: u64 = 5_000_000_000;
const SILENT_PACKETS: u64 = 10;
/// A session of a silent path is given up after so long: its host's name may have another address by then.
const GIVEN_UP_NS: u64 = 60_000_000_000;
/// Time from a session that could not begin, or was given up, to the next.
const AGAIN: Duration = Duration::from_secs(10);
/// Longest sleep without a look at whether the watch ends.
const LOOK: Duration = Duration::from_millis(100);

/// The thread of one path.
pub(crate) struct PathWatch {
    pub(crate) settings: PathSettings,
    pub(crate) all: Arc<Settings>,
    pub(crate) board: Arc<Board>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) end: Interrupt,
}

impl PathWatch {
    /// Sends until the watch ends.
    pub(crate) fn run(&self) {
        let protection = match self.protection() {
            Ok(protection) => protection,
            Err(error) => {
                let words = format!("{error:#}");
                self.tell(&words);
                return self.change(|state| (state.watched, state.words) = (false, words));
            }
        };
        quaver_instrument::rights::keep_to_notify();
        let mut recorder = PathRecorder::new(&self.settings, &self.all.window, Clocks::now());
        let mut said = String::new();
        let mut silence = Silence::begin(now_ns(), self.settings.every.as_nanos() as u64);
        while !self.end.requested() {
            let target = self.target();
            let options = target.map(|target| self.options(target, protection.clone()));
            let words = match options.and_then(|options| self.session(&options, &mut silence, &mut recorder))
            {
                Ok(()) => continue,
                Err(words) => words,
            };
            self.change(|state| (state.watched, state.words) = (false, words.clone()));
            if words != said {
                self.tell(&words);
                said = words;
            }
            let until_ns = monotonic_ns().saturating_add(AGAIN.as_nanos() as i64);
            while !self.end.requested() && monotonic_ns() < until_ns {
                std::thread::sleep(LOOK);
            }
        }
        self.change(|state| state.watched = false);
    }

    fn change(&self, change: impl FnOnce(&mut PathState)) {
        self.board.path(&self.settings.name, change);
    }

    fn tell(&self, words: &str) {
        quaver_instrument::tell!("quaver watch: {}: {words}", self.settings.name);
    }

    fn target(&self) -> Result<SocketAddr, String> {
        let PathSettings { host, port, .. } = &self.settings;
        let found = (host.as_str(), *port).to_socket_addrs();
        let first = found.map_err(|error| format!("find the address of {host}: {error}"))?.next();
        first.ok_or_else(|| format!("{host} has no address"))
    }

    fn protection(&self) -> anyhow::Result<Protection> {
        let Some(path) = &self.settings.key_file else { return Ok(Protection::None) };
        Ok(Protection::All(StampKey::new(&read_key(path)?)?))
    }

    fn options(&self, target: SocketAddr, protection: Protection) -> SenderOptions {
        SenderOptions {
            count: None,
            period_ns: self.settings.every.as_nanos() as u64,
            dscp: self.settings.dscp,
            loss_timeout_ns: WAITING_NS,
            keep_packets: false,
            protection,
            ..SenderOptions::new(target)
        }
    }

    /// Records what is told of a session, and hands over the window of a trigger when it is over.
    fn record(&self, recorder: &mut PathRecorder, progress: &StampProgress<'_>, options: &SenderOptions) {
        let look = recorder.hear(progress, Clocks::now());
        if !look.given_up.is_empty() {
            self.give_up(&look.given_up, "the wall clock was set meanwhile");
        }
        if let Some(trigger) = look.trigger {
            self.outcomes(|outcomes| *outcomes.triggers.entry(trigger.reason).or_default() += 1);
            if look.begins && self.board.may_keep(false, self.all.limits.incidents_an_hour) {
                recorder.ask(trigger);
            } else if look.begins {
                self.outcomes(|outcomes| outcomes.suppressed += 1);
            }
        }
        // By then it has been told which packets are lost.
        if matches!(progress, StampProgress::Tick { .. }) {
            self.hand_over(recorder.freeze(monotonic_ns(), false, options));
        }
    }

    fn hand_over(&self, frozen: Option<Result<PathWindow, Vec<Trigger>>>) {
        match frozen {
            Some(Ok(frozen)) => self.outbox.put(FrozenWindow::Path(Box::new(frozen))),
            Some(Err(triggers)) => self.give_up(&triggers, "its packets are gone"),
            None => {}
        }
    }

    fn give_up(&self, triggers: &[Trigger], why: &str) {
        self.tell(&format!("an incident is not kept, for {why}: {}", Trigger::words(triggers)));
        self.outcomes(|outcomes| outcomes.suppressed += 1);
        self.board.give_back();
    }

    fn outcomes(&self, change: impl FnOnce(&mut Outcomes)) {
        self.change(|state| change(&mut state.outcomes));
    }

    /// A session, until the watch ends or the path has been silent for long.
    fn session(
        &self,
        options: &SenderOptions,
        silence: &mut Silence,
        recorder: &mut PathRecorder,
    ) -> Result<(), String> {
        let began_ns = now_ns();
        let target = options.target;
        let stop = AtomicBool::new(false);
        let mut before = (0, 0);
        let mut last_sent_ns = began_ns;
        let outcome = send_session(options, &stop, &mut |progress| {
            self.record(recorder, &progress, options);
            match progress {
                StampProgress::Started { local, target, packet_bytes } => {
                    let every = Cell::Duration(self.settings.every.as_nanos() as i64);
                    let words = format!("{packet_bytes} bytes every {every} from {local} to {target}");
                    self.change(|state| (state.watched, state.words) = (true, words));
                }
                StampProgress::Answered { packet, first: true, .. } => {
                    if let Some(time) = silence.reply(now_ns()) {
                        self.tell(&format!("replies come again, after {:.1} s without", time.as_secs_f64()));
                    }
                    self.change(|state| state.take(packet));
                }
                StampProgress::Answered { .. } => self.change(|state| state.duplicates += 1),
                StampProgress::Lost { .. } => {}
                StampProgress::Tick { sent, lost } => {
                    let now_ns = now_ns();
                    if sent > before.0 {
                        last_sent_ns = now_ns;
                    }
                    if silence.look(now_ns) {
                        self.tell(silence.words(last_sent_ns));
                    }
                    if (sent, lost) != before || silence.told {
                        let (new, now_lost) = (sent - before.0, lost - before.1);
                        before = (sent, lost);
                        self.change(|state| {
                            (state.sent, state.lost) = (state.sent + new, state.lost + now_lost);
                            state.silent = silence.told;
                        });
                    }
                    if self.end.requested() || silence.is_given_up(began_ns, now_ns) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            }
        });
        self.hand_over(recorder.freeze(monotonic_ns(), true, options));
        outcome.map_err(|error| error.to_string())?;
        if self.end.requested() {
            Ok(())
        } else {
            Err(format!("no reply from {target} for a minute or longer"))
        }
    }
}

fn now_ns() -> u64 {
    monotonic_ns().unsigned_abs()
}

impl PathState {
    fn take(&mut self, packet: &StampPacket) {
        let round_trip = packet.reply.map(|reply| reply.round_trip_ns(packet.t1_ns));
        // Below zero, one of the reflector's times is not that of the packet.
        if let Some(ns) = round_trip.and_then(|ns| u64::try_from(ns).ok()) {
            self.round_trip.add(ns);
        }
    }
}

/// How long no reply has come.
#[derive(Debug)]
struct Silence {
    last_ns: u64,
    least_ns: u64,
    told: bool,
}

impl Silence {
    fn begin(now_ns: u64, every_ns: u64) -> Self {
        let least_ns = SILENCE_NS.max(every_ns.saturating_mul(SILENT_PACKETS));
        Self { last_ns: now_ns, least_ns, told: false }
    }

    /// A reply came; after how long, where that was told.
    fn reply(&mut self, now_ns: u64) -> Option<Duration> {
        let quiet_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        std::mem::take(&mut self.told).then(|| Duration::from_nanos(quiet_ns))
    }

    /// Whether it is to be told now.
    fn look(&mut self, now_ns: u64) -> bool {
        let silent = now_ns.saturating_sub(self.last_ns) > self.least_ns;
        silent && !std::mem::replace(&mut self.told, true)
    }

    /// What is known of it, by when the latest packet was sent.
    fn words(&self, last_sent_ns: u64) -> &'static str {
        if last_sent_ns <= self.last_ns {
            "this host could send no packet, and no reply has come; look at its addresses, routes and filters"
        } else {
            "no reply has come for 5 s or longer; look at the reflector and the way to it and back"
        }
    }

    /// Whether it has lasted for a session's time.
    fn is_given_up(&self, began_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(began_ns.max(self.last_ns)) > self.least_ns + GIVEN_UP_NS
    }
}

/// A packet with its four times.
#[cfg(test)]
pub(crate) fn some_packet(sequence: u64, [t1_ns, t2_ns, t3_ns, t4_ns]: [i64; 4]) -> StampPacket {
    let reply = quaver_path_record::stamp::StampReply {
        t2_ns,
        t3_ns,
        t4_ns,
        t4_by: quaver_path_flow::StampSource::Kernel,
        reflector_sequence: sequence as u32,
        forward_ttl: 64,
        backward_ttl: None,
        backward_dscp: 0,
        backward_ecn: 0,
        class_of_service: None,
        direct_measurement: None,
        follow_up: None,
    };
    StampPacket { sequence, t1_ns, reply: Some(reply) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_path_record::stamp::{ReflectorEvent, ReflectorOptions, reflect};
    use std::net::Ipv4Addr;
    use std::sync::mpsc::channel;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_silent_path_is_told_once_and_that_it_answers_again() {
        let mut silence = Silence::begin(0, 100 * MS);
        let looks: Vec<bool> = (0..8).map(|second| silence.look(1_000 * MS * second)).collect();
        assert_eq!(looks.iter().position(|told| *told), Some(6));
        assert_eq!(looks.iter().filter(|told| **told).count(), 1);
        assert!(!silence.is_given_up(0, 65_000 * MS) && silence.is_given_up(0, 65_001 * MS));
        assert!(!silence.is_given_up(9_000 * MS, 70_000 * MS), "the next session has a minute too");
        assert_eq!(silence.reply(7_500 * MS), Some(Duration::from_millis(7_500)));
        assert_eq!(silence.reply(7_600 * MS), None);
        // Packets that this host refuses never reach the reflector.
        let words = |last_sent_ns| {
            Silence::begin(9_000 * MS, 100 * MS).words(last_sent_ns).contains("could send no packet")
        };
        assert!(words(9_000 * MS) && !words(9_001 * MS));
        // A packet a second: ten of them are waited for.
        let mut rare = Silence::begin(0, 1_000 * MS);
        assert!(!rare.look(10_000 * MS) && rare.look(10_001 * MS));
    }

    #[test]
    fn packets_to_a_reflector_count_until_the_watch_ends() {
        let stop = AtomicBool::new(false);
        let (send, events) = channel();
        let options = ReflectorOptions {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ..ReflectorOptions::default()
        };
        let board = Arc::new(Board::default());
        std::thread::scope(|scope| {
            let reflector = scope.spawn(|| reflect(&options, &stop, &mut |event| drop(send.send(event))));
            let Ok(ReflectorEvent::Listening { address, .. }) = events.recv() else { panic!("it listens") };
            let settings = PathSettings {
                name: "here".to_owned(),
                host: address.ip().to_string(),
                port: address.port(),
                every: Duration::from_millis(10),
                dscp: 0,
                key_file: None,
                late: None,
                losses: None,
            };
            let end = Interrupt::default();
            let all = Arc::new(Settings::parse("cpus = '0'").expect("they are good"));
            let outbox = Arc::new(Outbox::new(Arc::clone(&board), 1));
            let watch = PathWatch { settings, all, board: Arc::clone(&board), outbox, end: end.clone() };
            let watching = scope.spawn(move || watch.run());
            let has = |count| move |state: &PathState| state.round_trip.counts.iter().sum::<u64>() >= count;
            while !board.read().paths.get("here").is_some_and(has(20)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(board.read().paths["here"].words.contains(&format!("to {address}")));
            end.request();
            watching.join().expect("no panic");
            stop.store(true, Ordering::Relaxed);
            reflector.join().expect("no panic").expect("it was listening");
        });
        let state = board.read().paths["here"].clone();
        let answered: u64 = state.round_trip.counts.iter().sum();
        assert!((20..=state.sent).contains(&answered), "{state:?}");
        assert_eq!((state.lost, state.duplicates, state.silent, state.watched), (0, 0, false, false));
    }
}
