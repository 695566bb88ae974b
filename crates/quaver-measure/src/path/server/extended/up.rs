//! The client sends, the server receives and gives the samples back.

use super::{Break, Session, say_end};
use crate::path::clocks::PairKeeper;
use crate::path::control::{Control, ControlError, Incoming};
use crate::path::drive::{self, Happening};
use crate::path::flow::{FlowSpec, Received, TestSocket, Transport, prepare_receive};
use crate::path::message::Body;
use crate::path::outcome::{Direction, ReceiverSummary};
use quaver_abi::wire::extension::{Kind, MOST_SAMPLES};
use rustix::net::{RecvFlags, recv};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Packets that are still under way when the sender says that it has ended get so long. In order they would come
/// before its words.
const LINGER: Duration = Duration::from_secs(1);
/// Samples of rolling tests go back this often.
const SAMPLES_EVERY: Duration = Duration::from_secs(1);

/// Samples, kept until the end or handed back while it runs.
struct Samples {
    rolling: bool,
    most: usize,
    rows: Vec<Received>,
    given_back: u64,
    last: Instant,
}

impl Samples {
    /// Whether there was still room.
    fn add(&mut self, batch: &[Received]) -> bool {
        self.rows.extend_from_slice(batch);
        self.rows.len() <= self.most
    }

    fn give_back(&mut self, control: &mut Control, silence: Duration) -> Result<(), ControlError> {
        for rows in self.rows.chunks(MOST_SAMPLES) {
            control.say(Kind::Samples, Body::new().samples(self.given_back, rows), silence)?;
            self.given_back += rows.len() as u64;
        }
        self.rows.clear();
        self.last = Instant::now();
        Ok(())
    }
}

pub(super) fn run(
    session: &mut Session<'_>,
    socket: &TestSocket,
    spec: &FlowSpec,
    rolling: bool,
    pairs: &mut PairKeeper,
) -> Result<(), Break> {
    prepare_receive(socket, spec)?;
    drain(socket);
    session.control.say(Kind::Go, Body::new(), session.silence())?;
    let limits = session.limits().clone();
    let most = usize::try_from(limits.kept_packets).unwrap_or(usize::MAX);
    // Copies count as well.
    let most = most.saturating_add(most / 4).saturating_add(1_000);
    let mut samples = Samples { rolling, most, rows: Vec::new(), given_back: 0, last: Instant::now() };
    let (mut sent, report) = receive(session, socket, spec, &mut samples, pairs)?;
    session.ended(Direction::Up, report.received);
    session.control.say(Kind::Done, Body::new().receiver(&report), limits.silence)?;
    let mut stopped = false;
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
    say_end(session, samples.given_back, pairs)
}

/// Receives; whether the sender has said its count, and the receiver's.
fn receive(
    session: &mut Session<'_>,
    socket: &TestSocket,
    spec: &FlowSpec,
    samples: &mut Samples,
    pairs: &mut PairKeeper,
) -> Result<(bool, ReceiverSummary), Break> {
    let (shared, limits) = (session.shared, session.limits().clone());
    let end = Instant::now() + limits.duration + limits.silence;
    let (mut broken, mut sent, mut linger_ends) = (None, false, None);
    let mut on = |happening: Happening<'_>, control: &mut Control, signals: &drive::Signals| {
        match happening {
            Happening::Batch(batch) => {
                if !samples.add(batch) {
                    broken = Some(Break::Hostile("sent more packets than it had asked for".into()));
                }
            }
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Sent => {
                sent = true;
                linger_ends = Some(Instant::now() + LINGER);
            }
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Stop => {
                linger_ends.get_or_insert(Instant::now() + LINGER);
            }
            Happening::Heard(_) => broken = Some(Break::Hostile("spoke while its test ran".into())),
            Happening::Gone(error) => broken = Some(error.into()),
            Happening::Tick => pairs.tick(),
        }
        if samples.rolling
            && broken.is_none()
            && samples.last.elapsed() >= SAMPLES_EVERY
            && let Err(error) = samples.give_back(control, limits.silence)
        {
            broken = Some(error.into());
        }
        if shared.stop.load(Ordering::Relaxed) {
            broken = Some(Break::Ending);
        }
        let now = Instant::now();
        if broken.is_some() || now >= end || linger_ends.is_some_and(|ends| now >= ends) {
            signals.end();
        }
    };
    let report = drive::receive(&mut session.control, socket, spec, &mut on)?;
    match broken {
        Some(broken) => Err(broken),
        None => Ok((sent, ReceiverSummary::from(&report))),
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
