//! The client sends, the server receives and gives the samples back.

use super::{Break, Flow, Session, patience, say_end};
use crate::control;
use crate::control::{Control, ControlError, Incoming};
use crate::drive;
use crate::drive::Happening;
use crate::message::Body;
use crate::room::Room;
use quaver_abi::wire::extension::{Kind, MOST_SAMPLES, SAMPLE_BYTES};
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{Received, ReceiverSummary, TestSocket, Transport, prepare_receive};
use rustix::net::{RecvFlags, recv};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Packets that are still under way when the sender says that it has ended get so long. In order they would come
/// before its words.
const LINGER: Duration = Duration::from_secs(1);
/// Samples of rolling tests go back this often.
const SAMPLES_EVERY: Duration = Duration::from_secs(1);
/// Or when so many are there: more than asked for in a second, as after a pause.
const MOST_ROLLING: usize = 20_000;

/// Samples, kept until the end or handed back while it runs.
struct Samples {
    rolling: bool,
    room: Room,
    rows: Vec<Received>,
    given_back: u64,
    last: Instant,
}

impl Samples {
    /// Whether the sender kept to what it had asked for.
    fn add(&mut self, batch: &[Received]) -> bool {
        let (rows, room) = (&mut self.rows, &mut self.room);
        rows.extend(batch.iter().filter(|row| room.has(row.singleton.flags)).copied());
        !room.is_overdrawn
    }

    fn are_due(&self) -> bool {
        self.rolling && (self.last.elapsed() >= SAMPLES_EVERY || self.rows.len() >= MOST_ROLLING)
    }

    /// Bytes of what is to be given back.
    fn octets(&self) -> u64 {
        self.rows.len() as u64 * SAMPLE_BYTES as u64
    }

    /// Gives all back in one time for all, which grows with them.
    fn give_back(&mut self, control: &mut Control, silence: Duration) -> Result<(), ControlError> {
        let end = Instant::now() + control::patience(self.octets(), silence);
        for rows in self.rows.chunks(MOST_SAMPLES) {
            control.say_by(Kind::Samples, Body::new().samples(self.given_back, rows), end)?;
            self.given_back += rows.len() as u64;
        }
        self.rows.clear();
        self.last = Instant::now();
        Ok(())
    }
}

pub(super) fn run(session: &mut Session<'_>, flow: &mut Flow<'_>, rolling: bool) -> Result<(), Break> {
    prepare_receive(flow.socket, flow.spec)?;
    drain(flow.socket);
    session.control.say(Kind::Go, Body::new(), session.silence())?;
    let limits = session.limits().clone();
    // A rolling test without an end gives all back: there is no end to its rows.
    let endless = rolling && flow.spec.packets.is_none();
    let room = if endless { Room::ENDLESS } else { Room::of(&limits, flow.spec) };
    let mut samples = Samples { rolling, room, rows: Vec::new(), given_back: 0, last: Instant::now() };
    let (heard, report) = receive(session, flow, &mut samples)?;
    flow.packets_are_over();
    session.ended(Direction::Up, report.received);
    session.control.say(Kind::Done, Body::new().receiver(&report), limits.silence)?;
    let Heard { mut sent, mut stopped } = heard;
    while !sent {
        match session.hear()? {
            Incoming::Message(message) if message.kind() == Kind::Sent => {
                message.sender()?;
                sent = true;
            }
            // It may have crossed our DONE; a second one would only hold the place.
            Incoming::Message(message) if message.kind() == Kind::Stop && !stopped => stopped = true,
            _ => return Err(Break::Hostile("did not say SENT at the end of its flow".into())),
        }
    }
    samples.give_back(&mut session.control, limits.silence)?;
    say_end(session, flow, samples.given_back)
}

/// What a sender has said.
#[derive(Clone, Copy, Default)]
struct Heard {
    /// Its count.
    sent: bool,
    /// That it wants to end.
    stopped: bool,
}

/// Receives; what the sender has said, and the receiver's count.
fn receive(
    session: &mut Session<'_>,
    flow: &mut Flow<'_>,
    samples: &mut Samples,
) -> Result<(Heard, ReceiverSummary), Break> {
    let (shared, limits) = (session.shared, session.limits().clone());
    let patience = patience(session, flow.spec);
    let (pairs, mut progress) = (&mut *flow.pairs, Instant::now());
    let end = Instant::now() + limits.duration + limits.silence;
    let (mut broken, mut heard, mut linger_ends) = (None, Heard::default(), None);
    let mut on = |happening: Happening<'_>, control: &mut Control, signals: &drive::Signals| {
        match happening {
            Happening::Batch(batch) => {
                progress = Instant::now();
                if !samples.add(batch) {
                    broken = Some(Break::Hostile("sent more packets than it had asked for".into()));
                }
            }
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Sent && !heard.sent => {
                heard.sent = true;
                linger_ends = Some(Instant::now() + LINGER);
            }
            Happening::Heard(Incoming::Message(message))
                if message.kind() == Kind::Stop && !heard.stopped =>
            {
                heard.stopped = true;
                linger_ends.get_or_insert(Instant::now() + LINGER);
            }
            Happening::Heard(_) => broken = Some(Break::Hostile("spoke while its test ran".into())),
            Happening::Gone(error) => broken = Some(error.into()),
            Happening::Tick => pairs.tick(),
        }
        if broken.is_none()
            && samples.are_due()
            && let Err(error) = samples.give_back(control, limits.silence)
        {
            broken = Some(error.into());
        }
        if shared.stop.load(Ordering::Relaxed) {
            broken = Some(Break::Ending);
        }
        if broken.is_some() {
            control.deafen();
        }
        let now = Instant::now();
        let silent = now >= progress + patience;
        if broken.is_some() || silent || now >= end || linger_ends.is_some_and(|ends| now >= ends) {
            signals.end();
        }
    };
    let report = drive::receive(&mut session.control, flow.socket, flow.spec, &mut on)?;
    match broken {
        Some(broken) => Err(broken),
        None => Ok((heard, report.summary)),
    }
}

/// Takes what came before the flow: repeated cookies. The client has stopped saying them by its START.
fn drain(socket: &TestSocket) {
    const MOST: usize = 10_000;
    if socket.transport() == Transport::Udp {
        let mut octets = [0u8; 64];
        let next = |_: &usize| recv(socket, &mut octets[..], RecvFlags::DONTWAIT).is_ok();
        let _ = (0..MOST).take_while(next).count();
    }
}
