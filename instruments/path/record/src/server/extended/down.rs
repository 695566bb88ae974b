//! The server sends, the client receives.

use super::{Break, Flow, Session, patience, say_end};
use crate::below::{MOST_DEPARTED, departed};
use crate::control;
use crate::control::{Control, Incoming};
use crate::drive;
use crate::drive::Happening;
use crate::message::Body;
use quaver_abi::wire::extension::Kind;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{TestSocket, Transport};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) fn run(session: &mut Session<'_>, flow: &mut Flow<'_>) -> Result<(), Break> {
    let (shared, limits) = (session.shared, session.limits().clone());
    let (socket, spec) = (flow.socket, flow.spec);
    give_up_after(socket, patience(session, spec));
    let end = Instant::now() + limits.duration;
    let (mut broken, mut done, mut stopped) = (None, false, false);
    let pairs = &mut *flow.pairs;
    let mut on = |happening: Happening<'_>, control: &mut Control, signals: &drive::Signals| {
        match happening {
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Done && !done => {
                done = true;
                signals.acknowledged.store(true, Ordering::Relaxed);
            }
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Stop && !stopped => {
                stopped = true;
                signals.end();
            }
            Happening::Heard(_) => broken = Some(Break::Hostile("spoke while its test ran".into())),
            Happening::Gone(error) => broken = Some(error.into()),
            Happening::Tick => pairs.tick(),
            Happening::Batch(_) => {}
        }
        if shared.stop.load(Ordering::Relaxed) {
            broken = Some(Break::Ending);
        }
        let now = Instant::now();
        if broken.is_some() {
            control.deafen();
        }
        if broken.is_some() || now >= end + limits.silence {
            // Nobody listens: not even sentinels are of use.
            signals.acknowledged.store(true, Ordering::Relaxed);
        }
        if broken.is_some() || now >= end {
            signals.end();
        }
    };
    let report = drive::send(&mut session.control, socket, spec, &mut on)?;
    flow.packets_are_over();
    session.ended(Direction::Down, report.summary.packets);
    if let Some(broken) = broken {
        return Err(broken);
    }
    let body = Body::new().sender(&report.summary);
    session.control.say(Kind::Sent, body, limits.silence)?;
    while !done {
        match session.hear()? {
            Incoming::Message(message) if message.kind() == Kind::Done => done = true,
            // It may have crossed our SENT; a second one would only hold the place.
            Incoming::Message(message) if message.kind() == Kind::Stop && !stopped => stopped = true,
            _ => return Err(Break::Hostile("did not say DONE at the end of its flow".into())),
        }
    }
    if let Some(stamps) = report.transmit_stamps.as_ref().filter(|_| flow.departures) {
        tell_departures(session, &departed(stamps))?;
    }
    say_end(session, flow, 0)
}

/// When each packet departed, in one time for all, which grows with them.
fn tell_departures(session: &mut Session<'_>, took_ns: &[u32]) -> Result<(), Break> {
    let end = Instant::now() + control::patience(size_of_val(took_ns) as u64, session.silence());
    for (message, took_ns) in took_ns.chunks(MOST_DEPARTED).enumerate() {
        let body = Body::new().departed((message * MOST_DEPARTED) as u64, took_ns);
        session.control.say_by(Kind::Samples, body, end)?;
    }
    Ok(())
}

/// A peer that takes nothing of a TCP flow for so long is gone, whatever it confirms: the kernel ends the connection
/// (TCP_USER_TIMEOUT holds for closed windows, too).
pub(crate) fn give_up_after(socket: &TestSocket, patience: Duration) {
    if socket.transport() == Transport::Tcp {
        // Where the system refuses, the greatest duration of a flow ends it.
        let _ = socket.socket().set_tcp_user_timeout(Some(patience.min(Duration::from_secs(1 << 20))));
    }
}
