//! The server sends, we receive.

use super::{all_sent, meet, spec, take_end};
use crate::below::MOST_DEPARTURES;
use crate::client::open_way::OpenWay;
use crate::client::{self, Test, is_udp};
use crate::control::{Control, Incoming};
use crate::drive;
use crate::drive::{Happening, Signals};
use crate::error::PathError;
use crate::message::{Body, Message};
use crate::outcome::FlowOutcome;
use quaver_abi::wire::extension::{CookieElement, Kind};
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{ReceiveEnd, prepare_receive};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Packets that are still under way when the sender says that it has ended get so long. In order they would come
/// before its words.
const LINGER: Duration = Duration::from_secs(1);

/// Runs the flow; what the server failed to do, if it did.
pub(super) fn run(test: &mut Test<'_>, cookie: &CookieElement) -> Result<Option<String>, PathError> {
    let (socket, _) = meet(test, cookie)?;
    let spec = spec(test, cookie);
    prepare_receive(&socket, &spec)?;
    let way = || OpenWay::new(&socket, cookie, Instant::now());
    let mut way = is_udp(test).then(way).and_then(Result::ok);
    let patience = test.patience();
    let mut flow = test.begin(Direction::Down, &socket)?;
    let said = test.control.say(Kind::Start, Body::new(), patience);
    said.map_err(|e| test.failed(e, "for the flow to begin"))?;
    let (keep, stop) = (!test.options.rolling, test.stop);
    let (watch, pairs) = (&mut *test.watch, &mut test.pairs);
    let (mut lost, mut stopped, mut ends, mut in_time) = (None, false, None::<Instant>, false);
    // A server that does not know the time of a flow is told when it is over.
    let time = test.options.lasting.filter(|_| !test.server_sends_so);
    let over = time.and_then(|time| Instant::now().checked_add(time + LINGER));
    let mut on = |happening: Happening<'_>, control: &mut Control, signals: &Signals| {
        let heard = match happening {
            Happening::Batch(batch) => {
                way.iter_mut().for_each(|way| way.heard(Instant::now()));
                client::take(&mut flow, batch, keep, watch);
                Ok(())
            }
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Sent => {
                ends = Some(Instant::now() + LINGER);
                sender(&mut flow, &message)
            }
            Happening::Heard(Incoming::Message(message)) if message.kind() == Kind::Refuse => {
                Err(format!("ended the test: {}", message.refusal().1))
            }
            Happening::Heard(_) => Err("spoke while the test ran".into()),
            Happening::Gone(error) => Err(error.to_string()),
            Happening::Tick => {
                pairs.tick();
                way.iter_mut().for_each(|way| way.tick(Instant::now()));
                Ok(())
            }
        };
        if let Err(what) = heard {
            lost.get_or_insert(what);
        }
        let over = over.is_some_and(|over| Instant::now() >= over);
        if (stop.load(Ordering::Relaxed) || over) && !stopped {
            in_time = over;
            stopped = true;
            // The server ends its flow, whose end is then seen here as always.
            if let Err(error) = control.say(Kind::Stop, Body::new(), patience) {
                lost.get_or_insert(error.to_string());
            }
            ends = Some(Instant::now() + patience);
        }
        if lost.is_some() || ends.is_some_and(|ends| Instant::now() >= ends) {
            signals.end();
        }
    };
    let report = drive::receive(&mut test.control, &socket, &spec, &mut on)?;
    let end_seen = report.end == ReceiveEnd::Sentinel;
    flow.receiver = Some(report.summary);
    let lost = match lost {
        Some(what) => Some(what),
        None => results(test, &mut flow).err(),
    };
    let all_sent = flow.sender.is_some_and(|sender| all_sent(&spec, &sender));
    flow.complete = lost.is_none() && end_seen && (all_sent || in_time);
    let server = test.server();
    test.end(flow);
    Ok(lost.map(|what| format!("{server} {what}")))
}

fn sender(flow: &mut FlowOutcome, message: &Message) -> Result<(), String> {
    flow.sender = Some(message.sender().map_err(|e| format!("sent {e}"))?);
    Ok(())
}

/// Takes departures, in the order of their packets.
fn departures(flow: &mut FlowOutcome, message: &Message) -> Result<(), String> {
    let (first, took_ns) = message.departed().map_err(|e| format!("sent {e}"))?;
    if first != flow.departed.len() as u64 || flow.departed.len() + took_ns.len() > MOST_DEPARTURES {
        return Err("told departures out of their order, or of more packets than there are".into());
    }
    flow.departed.extend(took_ns);
    Ok(())
}

/// Says what was received, and takes what the server has to say.
fn results(test: &mut Test<'_>, flow: &mut FlowOutcome) -> Result<(), String> {
    let never = AtomicBool::new(false);
    let receiver = flow.receiver.unwrap_or_default();
    let patience = test.patience();
    let said = test.control.say(Kind::Done, Body::new().receiver(&receiver), patience);
    said.map_err(|e| e.to_string())?;
    loop {
        match test.control.hear(test.answer_due(), &never).map_err(|e| e.to_string())? {
            Incoming::Message(message) => match message.kind() {
                Kind::Sent => sender(flow, &message)?,
                Kind::Samples => departures(flow, &message)?,
                Kind::End => return take_end(test, flow, &message).map_or(Ok(()), Err),
                Kind::Refuse => return Err(format!("ended the test: {}", message.refusal().1)),
                other => return Err(format!("said {} at the end of the test", other.name())),
            },
            Incoming::Workorder(_) => return Err("fell back to workorders".into()),
        }
    }
}
