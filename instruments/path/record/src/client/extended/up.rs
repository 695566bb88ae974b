//! We send, and the samples come back.

use super::{all_sent, hear_until, meet, spec, take_end};
use crate::client::{self, Test};
use crate::control::{Control, Incoming};
use crate::drive;
use crate::drive::{Happening, Signals};
use crate::error::PathError;
use crate::event::Progress;
use crate::message::{Body, Message};
use crate::outcome::FlowOutcome;
use quaver_abi::wire::extension::{CookieElement, Kind};
use quaver_arrivals::path::direction::Direction;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the flow; what the server failed to do, if it did.
pub(super) fn run(test: &mut Test<'_>, cookie: &CookieElement) -> Result<Option<String>, PathError> {
    let (socket, seen) = meet(test, cookie)?;
    socket.set_dscp(test.options.dscp)?;
    let spec = spec(test, cookie);
    let (patience, waiting_for) = (test.patience(), "for the flow to begin");
    test.control.say(Kind::Start, Body::new(), patience).map_err(|e| test.failed(e, waiting_for))?;
    let go = hear_until(test, test.answer_due(), waiting_for)?;
    if go.kind() != Kind::Go {
        return Err(test.protocol_error(format!("answered START with {}", go.kind().name())));
    }
    let mut flow = test.begin(Direction::Up, &socket)?;
    flow.source = seen;
    let (keep, stop) = (!test.options.rolling, test.stop);
    let (watch, pairs) = (&mut *test.watch, &mut test.pairs);
    let mut lost = None;
    let mut on = |happening: Happening<'_>, _: &mut Control, signals: &Signals| {
        let heard = match happening {
            Happening::Heard(Incoming::Message(message)) => take(&mut flow, &message, keep, watch),
            Happening::Heard(Incoming::Workorder(_)) => Err("fell back to workorders".into()),
            Happening::Gone(error) => Err(error.to_string()),
            Happening::Tick => {
                pairs.tick();
                Ok(false)
            }
            Happening::Batch(_) => Ok(false),
        };
        match heard {
            Ok(false) => {}
            Ok(true) => signals.acknowledged.store(true, Ordering::Relaxed),
            Err(what) => {
                lost.get_or_insert(what);
                signals.acknowledged.store(true, Ordering::Relaxed);
            }
        }
        if stop.load(Ordering::Relaxed) {
            signals.end();
        }
    };
    let report = drive::send(&mut test.control, &socket, &spec, &mut on)?;
    flow.sent(report);
    let all_sent = flow.sender.is_some_and(|sender| all_sent(&spec, &sender));
    let lost = match lost {
        Some(what) => Some(what),
        None => results(test, &mut flow).err(),
    };
    let end_seen = flow.receiver.is_some_and(|receiver| receiver.end_seen);
    flow.complete = lost.is_none() && all_sent && end_seen;
    let server = test.server();
    test.end(flow);
    Ok(lost.map(|what| format!("{server} {what}")))
}

/// Takes a message about the flow; whether the receiver has seen its end.
fn take(
    flow: &mut FlowOutcome,
    message: &Message,
    keep: bool,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<bool, String> {
    match message.kind() {
        Kind::Done => {
            flow.receiver = Some(message.receiver().map_err(|e| format!("sent {e}"))?);
            Ok(true)
        }
        Kind::Samples => {
            let (first, samples) = message.samples().map_err(|e| format!("sent {e}"))?;
            if first != flow.rows {
                return Err(format!("sent sample {first} where {} was due", flow.rows));
            }
            client::take(flow, &samples, keep, watch);
            Ok(false)
        }
        Kind::Refuse => Err(format!("ended the test: {}", message.refusal().1)),
        other => Err(format!("said {} while the test ran", other.name())),
    }
}

/// Says what was sent, and takes all that the server has; a user who interrupts still wants what there is.
fn results(test: &mut Test<'_>, flow: &mut FlowOutcome) -> Result<(), String> {
    let (never, keep) = (AtomicBool::new(false), !test.options.rolling);
    let sender = flow.sender.unwrap_or_default();
    let patience = test.patience();
    let said = test.control.say(Kind::Sent, Body::new().sender(&sender), patience);
    said.map_err(|e| e.to_string())?;
    loop {
        match test.control.hear(test.answer_due(), &never).map_err(|e| e.to_string())? {
            Incoming::Message(message) if message.kind() == Kind::End => {
                return take_end(test, flow, &message).map_or(Ok(()), Err);
            }
            Incoming::Message(message) => {
                take(flow, &message, keep, test.watch)?;
            }
            Incoming::Workorder(_) => return Err("fell back to workorders".into()),
        }
    }
}
