//! Round trips over the control connection (Jitlat, annex A.2): sent at fixed times, whether or not earlier ones have
//! come back, as on paths of seconds they would not have.

use super::Test;
use crate::control::{ControlError, Incoming, LONGEST_WAIT};
use crate::error::PathError;
use crate::event::Progress;
use crate::message::Body;
use quaver_abi::wire::extension::{Kind, Refusal, TimeElement, field};
use quaver_abi::wire::jitlat::{Command, Workorder};
use quaver_arrivals::path::clocks::RttProbe;
use quaver_clock::{monotonic_ns, realtime_ns};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

const WAITING_FOR: &str = "when it was to answer round-trip probes";

/// Sends all probes and takes the answers.
pub(super) fn run(test: &mut Test<'_>, extended: bool) -> Result<(), PathError> {
    let count = test.options.rtt_probes as usize;
    let mut under_way = VecDeque::new();
    let (mut sent, mut next) = (0, Instant::now());
    let mut end = test.answer_due();
    while test.rtt_probes.len() < count {
        if test.stop.load(Ordering::Relaxed) {
            return Err(PathError::Interrupted);
        }
        let now = Instant::now();
        if sent < count && now >= next {
            sent += 1;
            next += test.options.rtt_interval;
            end = test.answer_due();
            under_way.push_back(say(test, extended)?);
        }
        if now >= end {
            return Err(test.failed(ControlError::TimedOut, WAITING_FOR));
        }
        match test.control.next().map_err(|e| test.failed(e, WAITING_FOR))? {
            Some(incoming) => {
                // First the time, then the rest.
                let t3_ns = realtime_ns();
                hear(test, &incoming, &mut under_way, t3_ns)?;
                end = test.answer_due();
            }
            None => {
                let until_next =
                    if sent < count { next.saturating_duration_since(now) } else { LONGEST_WAIT };
                test.control.wait(None, until_next.min(LONGEST_WAIT));
            }
        }
    }
    Ok(())
}

/// Sends a probe; its T1.
fn say(test: &mut Test<'_>, extended: bool) -> Result<i64, PathError> {
    let patience = test.patience();
    let t1_ns = realtime_ns();
    let outcome = if extended {
        let time = TimeElement {
            client_realtime_ns: t1_ns.into(),
            client_monotonic_ns: monotonic_ns().into(),
            ..TimeElement::default()
        };
        test.control.say(Kind::Time, Body::new().element(field::TIME, &time), patience).map(|_| ())
    } else {
        test.control.say_workorder(&Workorder::rtt_probe(t1_ns), patience)
    };
    outcome.map_err(|e| test.failed(e, WAITING_FOR))?;
    Ok(t1_ns)
}

fn hear(
    test: &mut Test<'_>,
    incoming: &Incoming,
    under_way: &mut VecDeque<i64>,
    t3_ns: i64,
) -> Result<(), PathError> {
    let server = test.server();
    let (t1_ns, t2_ns) = match incoming {
        Incoming::Workorder(workorder) => match workorder.command {
            Command::RttProbe => (workorder.t1_ns(), workorder.t2_ns()),
            Command::Nak => return Err(PathError::Nak { server }),
            other => return Err(test.protocol_error(format!("answered a probe with {}", other.name()))),
        },
        Incoming::Message(message) => match message.kind() {
            Kind::TimeReply => {
                let time: TimeElement =
                    message.element(field::TIME).map_err(|e| test.protocol_error(format!("sent {e}")))?;
                (time.client_realtime_ns.get(), time.server_realtime_ns.get())
            }
            Kind::Refuse => return Err(refused(test, message.refusal())),
            other => return Err(test.protocol_error(format!("answered a probe with {}", other.name()))),
        },
    };
    if under_way.pop_front() != Some(t1_ns) {
        return Err(test.protocol_error("answered a probe that was not sent, or out of order"));
    }
    let probe = RttProbe { t1_ns, t2_ns, t3_ns };
    test.rtt_probes.push(probe);
    (test.watch)(Progress::Probe(probe));
    Ok(())
}

/// The error of a refusal.
pub(super) fn refused(test: &Test<'_>, (refusal, sentence): (Refusal, String)) -> PathError {
    let server = test.server();
    match refusal {
        Refusal::Key => PathError::KeyWrong { server },
        _ => PathError::Refused { server, refusal, sentence },
    }
}
