//! The server sends, the client receives.

use super::{Break, Session, say_end};
use crate::path::clocks::PairKeeper;
use crate::path::control::{Control, Incoming};
use crate::path::drive::{self, Happening};
use crate::path::flow::{FlowSpec, TestSocket};
use crate::path::message::Body;
use crate::path::outcome::{Direction, SenderSummary};
use quaver_abi::wire::extension::Kind;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(super) fn run(
    session: &mut Session<'_>,
    socket: &TestSocket,
    spec: &FlowSpec,
    pairs: &mut PairKeeper,
) -> Result<(), Break> {
    let (shared, limits) = (session.shared, session.limits().clone());
    let end = Instant::now() + limits.duration;
    let (mut broken, mut done) = (None, false);
    let mut on = |happening: Happening<'_>, _: &mut Control, signals: &drive::Signals| {
        match happening {
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Done => {
                done = true;
                signals.acknowledged.store(true, Ordering::Relaxed);
            }
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Stop => signals.end(),
            Happening::Heard(_) => broken = Some(Break::Hostile("spoke while its test ran".into())),
            Happening::Gone(error) => broken = Some(error.into()),
            Happening::Tick => pairs.tick(),
            Happening::Batch(_) => {}
        }
        if shared.stop.load(Ordering::Relaxed) {
            broken = Some(Break::Ending);
        }
        if broken.is_some() {
            // Nobody listens: not even sentinels are of use.
            signals.acknowledged.store(true, Ordering::Relaxed);
        }
        if broken.is_some() || Instant::now() >= end {
            signals.end();
        }
    };
    let report = drive::send(&mut session.control, socket, spec, &mut on)?;
    session.ended(Direction::Down, report.packets);
    if let Some(broken) = broken {
        return Err(broken);
    }
    let body = Body::new().sender(&SenderSummary::from(&report));
    session.control.say(Kind::Sent, body, limits.silence)?;
    let mut stopped = false;
    while !done {
        match session.hear()? {
            Incoming::Message(message) if message.kind() == Kind::Done => done = true,
            // It may have crossed our SENT; a second one would only hold the place.
            Incoming::Message(message) if message.kind() == Kind::Stop && !stopped => stopped = true,
            _ => return Err(Break::Hostile("did not say DONE at the end of its flow".into())),
        }
    }
    say_end(session, 0, pairs)
}
