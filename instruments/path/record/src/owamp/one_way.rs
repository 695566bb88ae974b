//! One-way sessions of a server: asked for, started, stopped, fetched.

use super::host::{Break, Host, Place, Refused, dscp, unsupported};
use super::link::{LOOK, Link, interval_ns};
use super::records::Session as Recorded;
use super::reflect::LEAST_PORT;
use super::schedule::Offsets;
use crate::control::{at_port, patience};
use crate::event::ServerEvent;
use crate::limits::{FlowRequest, Limits};
use crate::outcome::Protocol;
use crate::room::Room;
use crate::stamp::{TimestampFormat, count_hops, error_estimate};
use quaver_abi::wire::owamp::{
    BLOCK_BYTES, FetchAck, FetchSession, RequestSession, SessionRecord, SkipRange, Slot, StopSessions,
    accept, command, slot,
};
use quaver_arrivals::path::direction::Direction;
use quaver_clock::realtime_ns;
use quaver_path_flow::{
    AcceptFrom, FlowError, FlowSchedule, FlowSpec, ReceiveReport, Received, SendReport, TestSocket,
    TrainWish, prepare_receive, receive_flow, send_flow,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Slots of a schedule at most.
pub(super) const MOST_SLOTS: u32 = 1_024;
/// Skip ranges of a session at most.
const MOST_SKIPS: u32 = 1 << 16;
/// Bytes of records that are written at once.
const CHUNK_BYTES: usize = 1 << 16;
/// A start that lies further ahead is that of a clock that is far from ours: such a session begins at once.
const FARTHEST_START_NS: i64 = 30_000_000_000;

/// A session as it was accepted.
pub(super) struct OneWay {
    pub(super) asked: RequestSession,
    slots: Vec<Slot>,
    pub(super) sid: [u8; 16],
    test: Test,
    packets: u32,
    _place: Place,
}

/// Its test packets.
struct Test {
    sends: bool,
    socket: TestSocket,
    spec: FlowSpec,
    start_ns: i64,
}

/// What a session that was received leaves.
pub(super) struct Kept {
    session: OneWay,
    rows: Vec<Received>,
    error: u16,
    skips: Vec<SkipRange>,
    next_seqno: u32,
}

/// What became of a session that ran.
enum Ran {
    Sent(Result<SendReport, FlowError>),
    Received(Result<ReceiveReport, FlowError>, Vec<Received>),
}

impl OneWay {
    /// Accepts a session between `link`'s ends, of packets of so many bytes.
    pub(super) fn accept(
        host: &Host<'_>,
        link: &Link,
        asked: RequestSession,
        slots: Vec<Slot>,
        packet_bytes: u32,
        sid: [u8; 16],
    ) -> Result<Self, Refused> {
        let sends = match (asked.conf_sender, asked.conf_receiver) {
            (1, 0) => true,
            (0, 1) => false,
            _ => {
                return Err(unsupported(
                    "a session that the server neither only sends nor only receives".into(),
                ));
            }
        };
        let sid = if sends { asked.sid } else { sid };
        let port = if sends { asked.receiver_port.get() } else { asked.sender_port.get() };
        if port < LEAST_PORT {
            return Err(unsupported(format!("test packets at port {port}, below {LEAST_PORT}")));
        }
        let limits = &host.options.limits;
        let (packets, schedule) = schedule(&asked, &slots, &sid, limits)?;
        let request = FlowRequest {
            packet_bytes,
            packets: Some(packets.into()),
            schedule: &schedule,
            rolling: false,
            received_here: !sends,
        };
        // Nothing but the control connection shows that the peer wants packets of ours.
        let capped = if sends { limits.for_legacy() } else { limits.clone() };
        let over = |(_, sentence)| Refused { accept: accept::PERMANENT_LIMIT, sentence };
        capped.admit(&request).map_err(over)?;
        let mut demand = limits.demand(&request);
        if let FlowSchedule::Recorded { .. } = schedule {
            // An offset is a third of a row.
            demand.rows += u64::from(packets) / 3;
        }
        let place = (host.admit)(demand)?;
        let spec = spec(host, packet_bytes, packets, schedule, &asked);
        let (socket, start_ns) = (open(link, port, &spec, &asked)?, start_ns(&asked));
        Ok(Self { asked, slots, sid, test: Test { sends, socket, spec, start_ns }, packets, _place: place })
    }

    pub(super) fn port(&self) -> Result<u16, FlowError> {
        Ok(self.test.socket.local_address()?.port())
    }

    /// The line of the log at its start.
    pub(super) fn started(&self, link: &Link) -> ServerEvent {
        let direction = if self.test.sends { Direction::Down } else { Direction::Up };
        let flow = format!("{} packets of {} bytes", self.packets, self.test.spec.packet_bytes);
        ServerEvent::Started { peer: link.peer, protocol: Protocol::Owamp, direction, flow }
    }
}

impl Test {
    /// Runs until it is over or `stop` is set.
    fn run(&self, stop: &AtomicBool, mut room: Room) -> Ran {
        let ahead_ns = self.start_ns.saturating_sub(realtime_ns());
        let delay_ns = if ahead_ns > FARTHEST_START_NS { 0 } else { ahead_ns.max(0).unsigned_abs() };
        let first_ns = match self.spec.schedule {
            FlowSchedule::Periodic { period_ns, .. } => period_ns,
            _ => 0,
        };
        let spec = FlowSpec { start_delay_ns: delay_ns.saturating_add(first_ns), ..self.spec.clone() };
        if self.sends {
            return Ran::Sent(send_flow(&self.socket, &spec, &AtomicBool::new(false), stop));
        }
        let mut rows = Vec::new();
        let report = receive_flow(
            &self.socket,
            &spec,
            &mut |batch| {
                rows.extend(batch.iter().filter(|row| room.has(row.singleton.flags)).copied());
            },
            stop,
        );
        Ran::Received(report, rows)
    }
}

/// Packets and their times.
fn schedule(
    asked: &RequestSession,
    slots: &[Slot],
    sid: &[u8; 16],
    limits: &Limits,
) -> Result<(u32, FlowSchedule), Refused> {
    let over = |sentence| Refused { accept: accept::PERMANENT_LIMIT, sentence };
    let packets = asked.packets.get();
    let Some(offsets) = Offsets::new(slots, sid) else {
        return Err(unsupported("a schedule without slots, or with one of an unknown type".into()));
    };
    if packets == 0 || u64::from(packets) > limits.kept_packets {
        return Err(over(format!("{packets} packets; 1 to {} here", limits.kept_packets)));
    }
    let schedule = match slots {
        [only] if only.kind == slot::LITERAL => FlowSchedule::every(interval_ns(only.parameter.get())),
        _ => FlowSchedule::Recorded { offsets_ns: offsets.take(packets as usize).map(interval_ns).collect() },
    };
    Ok((packets, schedule))
}

fn spec(
    host: &Host<'_>,
    packet_bytes: u32,
    packets: u32,
    schedule: FlowSchedule,
    asked: &RequestSession,
) -> FlowSpec {
    let options = host.options;
    let silence_ns = u64::try_from(options.limits.silence.as_nanos()).unwrap_or(u64::MAX);
    FlowSpec {
        owamp_error: Some(error_estimate(TimestampFormat::Ntp).to_bits()),
        stamps: options.stamps,
        pace: options.pace,
        thread: options.thread.clone(),
        // Each of its packets has a time of its own.
        train: TrainWish::Packets(1),
        // The socket is connected.
        accept_from: AcceptFrom::Anyone,
        end_timeout_ns: interval_ns(asked.timeout.get()).min(silence_ns).saturating_add(silence_ns),
        segments: false,
        ..FlowSpec::new(packet_bytes, Some(packets.into()), schedule)
    }
}

/// The session's socket, which takes and sends packets of this peer alone.
fn open(link: &Link, port: u16, spec: &FlowSpec, asked: &RequestSession) -> Result<TestSocket, Refused> {
    let open = || {
        let socket = TestSocket::udp(at_port(link.local, 0), false)?;
        socket.connect(at_port(link.peer, port))?;
        socket.set_dscp(dscp(asked))?;
        // Without it packets only look as if they had taken fewer hops.
        let _ = count_hops(socket.socket());
        if asked.conf_receiver == 1 {
            prepare_receive(&socket, spec)?;
        }
        spec.check()?;
        Ok(socket)
    };
    open().map_err(|error: FlowError| Refused { accept: accept::INTERNAL, sentence: error.to_string() })
}

/// When it was to begin, UTC nanoseconds.
fn start_ns(asked: &RequestSession) -> i64 {
    TimestampFormat::Ntp.decode(asked.start.get(), realtime_ns())
}

/// Runs sessions until the peer stops them. Gives those that were received; those that were sent are answered for.
pub(super) fn run(host: &Host<'_>, link: &mut Link, sessions: Vec<OneWay>) -> Result<Vec<Kept>, Break> {
    let over = AtomicBool::new(false);
    let limits = &host.options.limits;
    let (stopped, ran) = std::thread::scope(|scope| {
        let (mut threads, mut failed) = (Vec::new(), None);
        for session in &sessions {
            let room = Room::of(limits, &session.test.spec);
            let (over, test) = (&over, &session.test);
            let builder = std::thread::Builder::new().name("quaver-path".into());
            match builder.spawn_scoped(scope, move || test.run(over, room)) {
                Ok(thread) => threads.push(thread),
                Err(error) => failed = Some(Break::Lost(format!("no thread for its test: {error}"))),
            }
        }
        let stopped = match failed {
            None => until_stopped(host, link, &sessions),
            Some(failed) => Err(failed),
        };
        over.store(true, Ordering::Relaxed);
        let join = |thread: std::thread::ScopedJoinHandle<'_, Ran>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (stopped, threads.into_iter().map(join).collect::<Vec<_>>())
    });
    let mut told = stopped?;
    let (mut kept, mut sent) = (Vec::new(), Vec::new());
    for (session, ran) in sessions.into_iter().zip(ran) {
        let (direction, packets) = match ran {
            Ran::Sent(report) => {
                let report = report.map_err(|error| Break::Lost(error.to_string()))?;
                sent.push((session.sid, report.summary.packets as u32));
                (Direction::Down, report.summary.packets)
            }
            Ran::Received(report, rows) => {
                let report = report.map_err(|error| Break::Lost(error.to_string()))?;
                let place = told.iter().position(|(record, _)| record.sid == session.sid);
                let (record, skips) = match place {
                    Some(place) => told.swap_remove(place),
                    None => {
                        return Err(Break::Hostile(
                            "stopped without a word of a session that it sent".into(),
                        ));
                    }
                };
                let next_seqno = record.next_seqno.get().min(session.packets);
                let error = report.owamp_error.unwrap_or(0);
                kept.push(Kept { session, rows, error, skips, next_seqno });
                (Direction::Up, report.summary.received)
            }
        };
        (host.tell)(ServerEvent::Ended { peer: link.peer, direction, packets });
    }
    say_stopped(link, &sent, Instant::now() + limits.silence, host.stop)?;
    Ok(kept)
}

/// What a session says of its end, with the packets that were never sent.
pub(super) type Told = (SessionRecord, Vec<SkipRange>);

fn until_stopped(host: &Host<'_>, link: &mut Link, sessions: &[OneWay]) -> Result<Vec<Told>, Break> {
    let end = Instant::now() + host.options.limits.duration + host.options.limits.silence * 2;
    while !link.wait(LOOK) {
        if host.stop.load(Ordering::Relaxed) {
            return Err(Break::Link(super::link::LinkError::Stopped));
        }
        if Instant::now() >= end {
            return Err(Break::Lost("its sessions lasted too long".into()));
        }
    }
    let due = Instant::now() + host.options.limits.silence;
    let mut header = [0; BLOCK_BYTES];
    link.read(&mut header, due, host.stop)?;
    hear_stopped(link, header, sessions.len(), due, host.stop)
}

/// Reads Stop-Sessions, of which the first block is there, with at most so many sessions.
pub(super) fn hear_stopped(
    link: &mut Link,
    header: [u8; BLOCK_BYTES],
    most: usize,
    due: Instant,
    stop: &AtomicBool,
) -> Result<Vec<Told>, Break> {
    let stopped = StopSessions::read_from_bytes(&header).unwrap_or_else(|_| StopSessions::new_zeroed());
    if stopped.command != command::STOP_SESSIONS {
        return Err(Break::Hostile(format!("sent command {} while its test ran", header[0])));
    }
    if stopped.sessions.get() as usize > most {
        return Err(Break::Hostile(format!("stopped {} sessions of {most}", stopped.sessions)));
    }
    let mut told = Vec::new();
    for _ in 0..stopped.sessions.get() {
        let record: SessionRecord = link.hear(due, stop)?;
        if record.skips.get() > MOST_SKIPS {
            return Err(Break::Hostile(format!(
                "told {} skip ranges; at most {MOST_SKIPS} here",
                record.skips
            )));
        }
        let mut skips = vec![SkipRange::new_zeroed(); record.skips.get() as usize];
        link.read(skips.as_mut_bytes(), due, stop)?;
        let ascending = |pair: &[SkipRange]| pair[0].last.get() < pair[1].first.get();
        let each = skips.iter().all(|skip| skip.first.get() <= skip.last.get());
        if !each || !skips.windows(2).all(ascending) {
            return Err(Break::Hostile("told skip ranges that overlap or run backwards".into()));
        }
        let mut zeros = [0; BLOCK_BYTES];
        let rest = padding(size_of::<SessionRecord>() + size_of_val(skips.as_slice()));
        link.read(&mut zeros[..rest], due, stop)?;
        told.push((record, skips));
    }
    let mut hmac = [0; BLOCK_BYTES];
    link.read(&mut hmac, due, stop)?;
    Ok(told)
}

/// Bytes up to a whole block.
fn padding(octets: usize) -> usize {
    octets.next_multiple_of(BLOCK_BYTES) - octets
}

/// Says Stop-Sessions with the number of the packet that would have been next of each session that was sent here.
pub(super) fn say_stopped(
    link: &mut Link,
    sent: &[([u8; 16], u32)],
    due: Instant,
    stop: &AtomicBool,
) -> Result<(), super::link::LinkError> {
    let mut header = StopSessions::new_zeroed();
    (header.command, header.accept) = (command::STOP_SESSIONS, accept::OK);
    header.sessions = (sent.len() as u32).into();
    let mut octets = header.as_bytes().to_vec();
    for (sid, next_seqno) in sent {
        let record = SessionRecord { sid: *sid, next_seqno: (*next_seqno).into(), skips: 0.into() };
        octets.extend_from_slice(record.as_bytes());
        octets.extend([0; 8]);
    }
    octets.extend([0; BLOCK_BYTES]);
    link.write(&octets, due, stop)
}

/// Gives the records that are asked for, or says that there are none.
pub(super) fn fetch(
    host: &Host<'_>,
    link: &mut Link,
    asked: &FetchSession,
    kept: &[Kept],
) -> Result<(), Break> {
    let silence = host.options.limits.silence;
    let mut answer = FetchAck::new_zeroed();
    let Some(found) = kept.iter().find(|kept| kept.session.sid == asked.sid) else {
        answer.accept = accept::FAILURE;
        let reason = "no session of that name was received over this connection".into();
        (host.tell)(ServerEvent::Refused { peer: link.peer, reason });
        return Ok(link.say(&answer, Instant::now() + silence, host.stop)?);
    };
    let recorded = found.recorded()?;
    let wanted = asked.begin.get()..=asked.end.get();
    let mut records = 0u32;
    recorded.each(&wanted, &mut |_| records += 1);
    answer.finished = 1;
    answer.next_seqno = found.next_seqno.into();
    answer.skips = (found.skips.len() as u32).into();
    answer.records = records.into();
    let due = Instant::now() + patience(u64::from(records) * 25 + 10_000, silence);
    let mut octets = answer.as_bytes().to_vec();
    octets.extend_from_slice(found.session.asked.as_bytes());
    octets.extend_from_slice(found.session.slots.as_bytes());
    octets.extend([0; BLOCK_BYTES]);
    octets.extend_from_slice(found.skips.as_bytes());
    octets.resize(octets.len().next_multiple_of(BLOCK_BYTES), 0);
    octets.extend([0; BLOCK_BYTES]);
    let (mut outcome, mut written) = (Ok(()), 0);
    recorded.each(&wanted, &mut |record| {
        octets.extend_from_slice(record.as_bytes());
        written += size_of_val(&record);
        if octets.len() >= CHUNK_BYTES && outcome.is_ok() {
            outcome = link.write(&octets, due, host.stop);
            octets.clear();
        }
    });
    outcome?;
    octets.extend(std::iter::repeat_n(0, padding(written) + BLOCK_BYTES));
    Ok(link.write(&octets, due, host.stop)?)
}

impl Kept {
    fn recorded(&self) -> Result<Recorded<'_>, Break> {
        let offsets = Offsets::new(&self.session.slots, &self.session.sid);
        Ok(Recorded {
            rows: &self.rows,
            skips: &self.skips,
            next_seqno: self.next_seqno,
            start_ns: self.session.test.start_ns,
            offsets: offsets.ok_or_else(|| Break::Lost("its schedule is gone".into()))?,
            errors: (self.error, error_estimate(TimestampFormat::Ntp).to_bits()),
        })
    }
}
