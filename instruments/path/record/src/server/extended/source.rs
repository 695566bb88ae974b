//! A constant-bit-rate source for a sink at the peer's host: what `quaver source` sends, to the very address that
//! echoed the cookie.

use super::super::break_off::Break;
use super::super::roaming::Follower;
use super::super::session::Session;
use super::Meeting;
use crate::clocks::ClockEstimate;
use crate::control::{Incoming, LONGEST_WAIT};
use crate::limits::{Demand, Limits, No};
use crate::message::{Body, Message};
use crate::outcome::Protocol;
use crate::source::{SourceRequest, SourceSummary, StreamShape};
use hdrhistogram::Histogram;
use quaver_abi::record::SendRecord;
use quaver_abi::wire::extension::{Kind, Refusal, SourceElement, VERSION, field};
use quaver_arrivals::path::direction::Direction;
use quaver_clock::CounterSupport;
use quaver_clock::realtime_ns;
use quaver_path_flow::{Lateness, SenderSummary, TestSocket, Transport};
use quaver_probe::ProbeError;
use quaver_probe::profile::Profile;
use quaver_probe::source::{
    PreparedSource, RunningSource, SendLog, Source, SourceOptions, SourceOutcome, StreamLength,
};
use quaver_probe::thread::ThreadSettings;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Serves a peer that has asked for a stream.
pub(super) fn run(session: &mut Session<'_>, request: &Message) -> Result<(), Break> {
    request.check(&[field::SOURCE])?;
    let impossible = || Break::Hostile("sent an impossible SOURCE".into());
    let element: SourceElement = request.element(field::SOURCE)?;
    let (asked, wait) = SourceRequest::of(&element).ok_or_else(impossible)?;
    let profile = asked.shape.profile().map_err(|error| Break::No((Refusal::Size, error.to_string())))?;
    admit(session.limits(), &asked, &profile)?;
    let turn = session.turn(Demand::of(rate(&profile), profile.payload_bytes() as u32, 0), wait)?;
    let meeting = Meeting::new(session, Transport::Udp)?;
    let cookie = meeting.cookie();
    let body = Body::new().clock(ClockEstimate::now()).element(field::COOKIE, &cookie);
    session.control.say(Kind::Accept, body, session.silence())?;
    let socket = meeting.meet(session, &cookie)?;
    if !matches!(session.hear()?, Incoming::Message(message) if message.kind() == Kind::Start) {
        return Err(Break::Hostile("did not answer READY with START".into()));
    }
    let source = prepare(&socket, &asked, profile)?;
    let follower = Arc::new(Follower::of(&socket)?);
    let following = super::follow(session, &follower, &cookie);
    session.started(Protocol::Extended(VERSION), Direction::Down, words(&asked));
    session.control.say(Kind::Go, Body::new(), session.silence())?;
    let start_realtime_ns = realtime_ns();
    let (outcome, broken) = send(session, source.go(), asked.duration);
    let outcome = outcome?;
    // The packets have gone: others may measure while the rest is told.
    drop((turn, following));
    let moved = super::tell_moved(session, &follower);
    session.ended(Direction::Down, outcome.report.packets);
    if let Some(broken) = broken {
        return Err(broken);
    }
    let body = SourceSummary { moved, ..summary(&outcome, start_realtime_ns) }.body();
    session.control.say(Kind::Sent, body, session.silence())?;
    match session.hear() {
        // It may have crossed our SENT; a second one would only hold the place.
        Ok(Incoming::Message(message)) if message.kind() == Kind::Stop => super::farewell(session),
        Ok(Incoming::Message(message)) if message.kind() == Kind::Bye => Ok(()),
        Ok(_) => Err(Break::Hostile("did not end with BYE".into())),
        // It has everything; how it leaves is its own affair.
        Err(_) => Ok(()),
    }
}

/// The caps of other flows.
fn admit(limits: &Limits, asked: &SourceRequest, profile: &Profile) -> Result<(), No> {
    let packet_bytes = profile.payload_bytes() as u32;
    if packet_bytes > limits.packet_bytes {
        let most = limits.packet_bytes;
        return Err((Refusal::Size, format!("packets of {packet_bytes} bytes; at most {most} here")));
    }
    limits.admit_rate(rate(profile), packet_bytes)?;
    let period = Duration::from_nanos(profile.schedule().spacing_ns());
    if asked.duration > limits.duration || period > limits.duration {
        let (lasts, most) = (asked.duration.max(period).as_secs(), limits.duration.as_secs());
        return Err((Refusal::Duration, format!("a stream of {lasts} s; at most {most} s here")));
    }
    Ok(())
}

/// Packets a second; of a stream with gaps, the rate between them.
fn rate(profile: &Profile) -> u64 {
    1_000_000_000u64.div_ceil(profile.schedule().spacing_ns().max(1))
}

fn words(asked: &SourceRequest) -> String {
    let what = match asked.shape {
        StreamShape::Named(name) => name.name().to_owned(),
        StreamShape::Plain { payload_bytes, period } => {
            format!("{payload_bytes} bytes every {:.1} ns", period.0 as f64 / period.1 as f64)
        }
    };
    format!("a source of {what}, for {} s at most, pace {}", asked.duration.as_secs(), asked.pace.name())
}

/// How late the packets of a stream were sent, in constant memory.
struct LateSends {
    histogram: Histogram<u64>,
    late_beyond_ns: i64,
    late: u64,
}

impl SendLog for LateSends {
    fn take(&mut self, _: SendRecord, late_ns: i64) {
        self.histogram.saturating_record(u64::try_from(late_ns).unwrap_or(0));
        self.late += u64::from(late_ns > self.late_beyond_ns);
    }
}

fn prepare(
    socket: &TestSocket,
    asked: &SourceRequest,
    profile: Profile,
) -> Result<PreparedSource<LateSends>, Break> {
    socket.set_dscp(asked.dscp)?;
    let destination = socket.peer_address()?;
    let late_beyond_ns = (profile.schedule().spacing_ns() / 2).cast_signed();
    let length = match asked.packets {
        Some(packets) => StreamLength::Packets(packets),
        None => StreamLength::Lasting(asked.duration),
    };
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let mut options = SourceOptions::new(destination, profile, length, counter);
    options.pace = asked.pace;
    options.catch_up = asked.catch_up;
    options.stream_id = asked.stream_id;
    options.start_delay = Duration::from_millis(20);
    options.thread = ThreadSettings { exact_timers: true, ..ThreadSettings::default() };
    let socket = socket.try_clone()?.into_socket();
    let log = LateSends { histogram: Lateness::histogram(), late_beyond_ns, late: 0 };
    let source = Source::through(socket, options).and_then(|source| source.prepare(log));
    source.map_err(|error| match error {
        ProbeError::NotSupported { .. } => Break::No((Refusal::Unsupported, error.to_string())),
        other => Break::Failed(other.to_string()),
    })
}

/// Lets the source send until it has done, its time is over, or the peer says STOP or goes.
fn send(
    session: &mut Session<'_>,
    source: RunningSource<LateSends>,
    duration: Duration,
) -> (Result<SourceOutcome<LateSends>, Break>, Option<Break>) {
    let end = Instant::now() + duration + LONGEST_WAIT;
    let mut broken = None;
    while !source.is_finished() && broken.is_none() && Instant::now() < end {
        session.control.wait(None, LONGEST_WAIT);
        match session.control.next() {
            Ok(None) => {}
            Ok(Some(Incoming::Message(message))) if message.kind() == Kind::Stop => break,
            Ok(Some(_)) => broken = Some(Break::Hostile("spoke while its stream ran".into())),
            Err(error) => broken = Some(error.into()),
        }
        if session.shared.stop.load(Ordering::Relaxed) {
            broken = Some(Break::Ending);
        }
    }
    source.stop();
    (source.join().map_err(|error| Break::Failed(error.to_string())), broken)
}

fn summary(outcome: &SourceOutcome<LateSends>, start_realtime_ns: i64) -> SourceSummary {
    let (report, log) = (&outcome.report, &outcome.segment);
    let lasted_ns = if report.packets > 0 { report.last_deadline_ns - report.start_ns } else { 0 };
    SourceSummary {
        sender: SenderSummary {
            packets: report.packets,
            sent: report.sent,
            misses: report.misses,
            sentinels: 0,
            start_realtime_ns,
            cpu_ns: 0,
            lateness: Lateness::of(&log.histogram, report.mean_lateness_ns),
            ..SenderSummary::default()
        },
        failed: report.failed.values().sum(),
        refused: report.refused,
        late: log.late,
        lasted_ns: lasted_ns.unsigned_abs(),
        drift_ppm: report.drift_ppm,
        moved: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_probe::profile::ProfileName;
    use quaver_probe::source::Pace;

    #[test]
    fn each_cap_of_other_flows_holds_for_sources() {
        let limits = Limits {
            packets_per_second: 1_000,
            bits_per_second: 640_000,
            duration: Duration::from_secs(10),
            packet_bytes: 1_000,
            ..Limits::default()
        };
        let refusal = |payload_bytes, period_ns, seconds| {
            let asked = SourceRequest {
                shape: StreamShape::Plain { payload_bytes, period: (period_ns, 1) },
                packets: None,
                duration: Duration::from_secs(seconds),
                pace: Pace::Sleep,
                catch_up: false,
                dscp: 0,
                stream_id: 1,
            };
            admit(&limits, &asked, &asked.shape.profile().unwrap()).err().map(|(refusal, _)| refusal)
        };
        assert_eq!(refusal(80, 1_000_000, 10), None);
        assert_eq!(refusal(1_001, 1_000_000_000, 10), Some(Refusal::Size));
        assert_eq!(refusal(80, 999_000, 10), Some(Refusal::Rate));
        assert_eq!(refusal(81, 1_000_000, 10), Some(Refusal::Rate), "bits");
        assert_eq!(refusal(80, 1_000_000, 11), Some(Refusal::Duration));
        assert_eq!(refusal(80, u64::MAX, 10), Some(Refusal::Duration), "no packet in its time");
    }

    #[test]
    fn a_stream_with_gaps_counts_by_its_rate_between_them() {
        let limits = Limits { packets_per_second: 130_000, ..Limits::default() };
        let of = |name| {
            let asked = SourceRequest {
                shape: StreamShape::Named(name),
                packets: None,
                duration: Duration::from_secs(1),
                pace: Pace::Sleep,
                catch_up: false,
                dscp: 0,
                stream_id: 1,
            };
            admit(&limits, &asked, &asked.shape.profile().unwrap()).is_ok()
        };
        assert!(of(ProfileName::St2110_20Linear), "129,471 a second");
        assert!(!of(ProfileName::St2110_20Gapped), "134,868 a second while it sends");
    }
}
