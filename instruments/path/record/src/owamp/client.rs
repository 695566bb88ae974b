//! A client of OWAMP-Control: one-way tests to and from any server, one session on each connection.

use super::greeting::{Client, request};
use super::host::Break;
use super::link::{LOOK, interval, interval_ns};
use super::one_way::{Told, hear_stopped, say_stopped};
use super::records::{Numbers, received};
use super::schedule::Offsets;
use crate::auth::random;
use crate::clocks::{self, PairKeeper};
use crate::control::at_port;
use crate::error::PathError;
use crate::event::Progress;
use crate::hosts::Side;
use crate::options::{ClientOptions, Directions};
use crate::outcome::{Completion, FlowOutcome, HostClocks, Protocol, TestOutcome};
use crate::stamp::{TimestampFormat, count_hops, error_estimate};
use quaver_abi::wire::jitlat::FLAG_INVALID;
use quaver_abi::wire::owamp::{
    AcceptSession, BLOCK_BYTES, FetchAck, FetchSession, LEAST_TEST_BYTES, PacketRecord, RequestSession,
    SkipRange, Slot, command, slot,
};
use quaver_arrivals::path::direction::Direction;
use quaver_clock::realtime_ns;
use quaver_path_flow::{
    AcceptFrom, FlowError, FlowSchedule, FlowSpec, LatePolicy, ReceiveReport, Received, SendReport,
    SenderSummary, TestSocket, TrainWish, Transport, prepare_receive, receive_flow, send_flow,
};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A packet that takes longer is lost, and so long the end of a session is waited for.
const LOSS_TIMEOUT: Duration = Duration::from_secs(2);
/// From the request to the start of a session.
const START_DELAY_NS: i64 = 200_000_000;
/// Records that a server may have beyond four of each packet: copies.
const SPARE_RECORDS: u32 = 1 << 16;
/// Stops nothing.
static NEVER: AtomicBool = AtomicBool::new(false);
/// Packet records that are read at once: whole blocks.
const RECORDS_AT_ONCE: usize = 640;

/// Whether OWAMP has all that was asked for.
pub(crate) fn check(options: &ClientOptions) -> Result<(), PathError> {
    let wrong = |what: &str| Err(PathError::Options(what.to_owned()));
    if options.transport != Transport::Udp || options.key.is_some() {
        return wrong("OWAMP has test packets by UDP alone, and no key of Quaver's: leave these out");
    }
    if matches!(options.schedule, FlowSchedule::Recorded { .. }) {
        return wrong(
            "OWAMP sends periodically or by a Poisson process, not by a recording: give a period or a rate",
        );
    }
    if (options.packet_bytes as usize) < LEAST_TEST_BYTES {
        return wrong("test packets of OWAMP have at least 14 bytes: give a greater length");
    }
    match options.packets {
        Some(packets) if packets < u64::from(u32::MAX) => Ok(()),
        _ => wrong("a session of OWAMP has a number of packets, below 2^32 - 1"),
    }
}

/// Measures one direction after the other.
pub(crate) fn measure(
    options: &ClientOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<TestOutcome, PathError> {
    let directions: &[Direction] = match options.directions {
        Directions::Up => &[Direction::Up],
        Directions::Down => &[Direction::Down],
        Directions::Both | Directions::AtOnce => &[Direction::Up, Direction::Down],
    };
    let mut pairs = PairKeeper::new();
    let before = clocks::ClockEstimate::now();
    let mut test: Option<TestOutcome> = None;
    for direction in directions {
        let client = match Client::meet(options.server, options.answer_timeout, stop) {
            Ok(client) => client,
            // What the first direction gave is kept.
            Err(error) if test.is_some() => {
                let lost = match error {
                    PathError::Interrupted => Completion::Interrupted,
                    error => Completion::ServerLost(error.to_string()),
                };
                test.iter_mut().for_each(|test| test.completion = lost.clone());
                break;
            }
            Err(error) => return Err(error),
        };
        watch(Progress::Connected { server: client.link.peer, client: client.link.local });
        let test = test.get_or_insert_with(|| blank(client.link.peer, client.link.local));
        let session = Session { client, options, stop, direction: *direction, pairs: &mut pairs, watch };
        match session.run() {
            Ok((flow, completion)) => {
                test.flows.push(flow);
                test.completion = completion;
            }
            Err(error) if test.flows.is_empty() => return Err(error),
            Err(error) => test.completion = Completion::ServerLost(error.to_string()),
        }
        if test.completion != Completion::Complete {
            break;
        }
    }
    let mut test = test.ok_or(PathError::Interrupted)?;
    pairs.read();
    test.clock_steps = clocks::steps(Side::Client, pairs.pairs());
    test.client_clock =
        HostClocks { before, after: clocks::ClockEstimate::now(), pairs: pairs.pairs().to_vec() };
    Ok(test)
}

fn blank(server: SocketAddr, client: SocketAddr) -> TestOutcome {
    TestOutcome {
        protocol: Protocol::Owamp,
        server,
        client,
        started_ns: realtime_ns(),
        rtt_probes: Vec::new(),
        flows: Vec::new(),
        client_clock: HostClocks::default(),
        server_clock: HostClocks::default(),
        clock_steps: Vec::new(),
        completion: Completion::Complete,
    }
}

/// A session as both ends agreed on it.
struct Agreed {
    socket: TestSocket,
    spec: FlowSpec,
    sid: [u8; 16],
    packets: u32,
    lasts: Duration,
}

/// What the flow's thread found.
enum Ran {
    Sent(Result<SendReport, FlowError>),
    Received(Result<ReceiveReport, FlowError>),
}

struct Session<'a> {
    client: Client<'a>,
    options: &'a ClientOptions,
    stop: &'a AtomicBool,
    direction: Direction,
    pairs: &'a mut PairKeeper,
    watch: &'a mut dyn FnMut(Progress<'_>),
}

impl Session<'_> {
    fn run(mut self) -> Result<(FlowOutcome, Completion), PathError> {
        let agreed = self.agree()?;
        let (here, there) = (agreed.socket.local_address()?, agreed.socket.peer_address()?);
        let up = self.direction == Direction::Up;
        let (source, destination) = if up { (here, there) } else { (there, here) };
        self.client.start()?;
        (self.watch)(Progress::Started { direction: self.direction, source, destination });
        let mut rows =
            Rows { direction: self.direction, keep: !self.options.rolling, kept: Vec::new(), count: 0 };
        let (ran, told) = self.flow(&agreed, &mut rows)?;
        let mut flow = self.options.flow(self.direction, source, destination);
        match ran {
            Ran::Sent(report) => flow.sent(report?),
            Ran::Received(report) => flow.receiver = Some(report?.summary),
        }
        let interrupted = self.stop.load(Ordering::Relaxed);
        let ended = self.end(&agreed, told, flow.sender.as_ref(), &mut rows);
        (self.watch)(Progress::Ended { direction: self.direction });
        let (completion, packets) = match ended {
            Ok(packets) if interrupted => (Completion::Interrupted, Some(packets)),
            Ok(packets) => (Completion::Complete, Some(packets)),
            Err(error) => (Completion::ServerLost(error.to_string()), None),
        };
        flow.complete = completion == Completion::Complete;
        flow.receiver.iter_mut().for_each(|receiver| receiver.end_seen = flow.complete);
        flow.packets = packets.map(u64::from).or(flow.packets);
        flow.singletons = rows.kept.iter().map(|row| row.singleton).collect();
        flow.rows = rows.count;
        Ok((flow, completion))
    }

    /// Asks for the session.
    fn agree(&mut self) -> Result<Agreed, PathError> {
        let (options, up) = (self.options, self.direction == Direction::Up);
        let socket = TestSocket::udp(at_port(self.client.link.local, options.source_port), false)?;
        let here = socket.local_address()?;
        let there = at_port(self.client.link.peer, 0);
        let (sender, receiver) = if up { (here, there) } else { (there, here) };
        let mut asked = request(command::REQUEST_SESSION, sender, receiver, options.dscp);
        (asked.conf_sender, asked.conf_receiver) = (u8::from(!up), u8::from(up));
        // `check` has seen that it fits.
        let packets = options.packets.and_then(|packets| u32::try_from(packets).ok()).unwrap_or(u32::MAX - 1);
        (asked.slots, asked.packets) = (1.into(), packets.into());
        asked.padding = (options.packet_bytes - LEAST_TEST_BYTES as u32).into();
        let start_ns = realtime_ns() + START_DELAY_NS;
        asked.start = TimestampFormat::Ntp.encode(start_ns).into();
        asked.timeout = interval(LOSS_TIMEOUT.as_nanos() as u64).into();
        if !up {
            asked.sid = random();
        }
        let part = part(&options.schedule);
        let mut octets = asked.as_bytes().to_vec();
        octets.extend_from_slice(part.as_bytes());
        octets.extend([0; BLOCK_BYTES]);
        self.client.write(&octets)?;
        let answer: AcceptSession = self.client.hear("with Accept-Session")?;
        self.client.check(answer.accept, "the session")?;
        socket.connect(at_port(there, answer.port.get()))?;
        socket.set_dscp(options.dscp)?;
        // Without it packets only look as if they had taken fewer hops.
        let _ = count_hops(socket.socket());
        let sid = if up { answer.sid } else { asked.sid };
        let spec = self.spec(packets, start_ns, &part, &sid);
        if !up {
            prepare_receive(&socket, &spec)?;
        }
        let lasts_ns = spec.expected_duration_ns().unwrap_or(0).saturating_add(spec.start_delay_ns);
        Ok(Agreed { socket, spec, sid, packets, lasts: Duration::from_nanos(lasts_ns) })
    }

    fn spec(&self, packets: u32, start_ns: i64, part: &Slot, sid: &[u8; 16]) -> FlowSpec {
        let options = self.options;
        let lasting_ns = options.lasting.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let (schedule, first_ns) = match &options.schedule {
            FlowSchedule::Poisson { .. } => {
                let offsets =
                    Offsets::new(std::slice::from_ref(part), sid).into_iter().flatten().map(interval_ns);
                let most_ns = lasting_ns.unwrap_or(u64::MAX);
                let within = offsets.take(packets as usize).take_while(|offset_ns| *offset_ns < most_ns);
                (FlowSchedule::Recorded { offsets_ns: within.collect() }, 0)
            }
            periodic => (FlowSchedule::every(periodic.mean_period_ns()), periodic.mean_period_ns()),
        };
        let delay_ns = (start_ns - realtime_ns()).max(0).unsigned_abs();
        FlowSpec {
            owamp_error: Some(error_estimate(TimestampFormat::Ntp).to_bits()),
            stamps: options.stamps,
            pace: options.pace,
            thread: options.thread.clone(),
            late: options.late.unwrap_or(LatePolicy::usual(&options.schedule)),
            lasting_ns: lasting_ns.filter(|_| self.direction == Direction::Up),
            train: match options.train {
                TrainWish::Auto => TrainWish::Packets(1),
                asked => asked,
            },
            start_delay_ns: delay_ns.saturating_add(first_ns),
            accept_from: AcceptFrom::Anyone,
            end_timeout_ns: LOSS_TIMEOUT.as_nanos() as u64,
            segments: false,
            ..FlowSpec::new(options.packet_bytes, Some(packets.into()), schedule)
        }
    }

    /// Runs the flow until it is over, the user stops it, or the server speaks. Gives what the server told, if it did.
    fn flow(&mut self, agreed: &Agreed, rows: &mut Rows) -> Result<(Ran, Option<Vec<Told>>), PathError> {
        let (over, up) = (AtomicBool::new(false), self.direction == Direction::Up);
        let (to, batches) = channel();
        let mut missing = Missing::of(agreed.packets);
        let end = self.options.lasting.filter(|_| !up).map_or(agreed.lasts, |lasting| {
            lasting.saturating_add(Duration::from_nanos(agreed.spec.start_delay_ns)).min(agreed.lasts)
        });
        let end = Instant::now() + end + LOSS_TIMEOUT;
        std::thread::scope(|scope| {
            let work = || work(agreed, up, &over, to);
            let builder = std::thread::Builder::new().name("quaver-path".into());
            let failed = |e| PathError::os("make a thread for the test packets", e);
            let thread = builder.spawn_scoped(scope, work).map_err(failed)?;
            let mut told = None;
            while !thread.is_finished() {
                if self.client.link.wait(LOOK) && told.is_none() {
                    told = Some(self.hear_stop());
                }
                self.pairs.tick();
                rows.show(&batches, self.watch, &mut missing);
                let all_there = !up && (missing.left == 0 || Instant::now() >= end);
                if all_there || told.is_some() || self.stop.load(Ordering::Relaxed) {
                    over.store(true, Ordering::Relaxed);
                }
                if told.is_some() {
                    // It is readable for good where the server has closed.
                    std::thread::sleep(LOOK / 10);
                }
            }
            rows.show(&batches, self.watch, &mut missing);
            let ran = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((ran, told.transpose()?))
        })
    }

    fn hear_stop(&mut self) -> Result<Vec<Told>, PathError> {
        let header: [u8; BLOCK_BYTES] = self.client.hear("with Stop-Sessions")?;
        let due = Instant::now() + self.options.answer_timeout;
        let heard = hear_stopped(&mut self.client.link, header, 1, due, &NEVER);
        heard.map_err(|error| self.client.protocol(error))
    }

    /// Stops the session and, upwards, fetches its records. Gives the number of packets that were sent.
    fn end(
        &mut self,
        agreed: &Agreed,
        told: Option<Vec<Told>>,
        sender: Option<&SenderSummary>,
        rows: &mut Rows,
    ) -> Result<u32, PathError> {
        if sender.is_some() && told.is_none() {
            self.wait_for_the_last();
        }
        // A user who stops still wants what there is.
        self.client.stop = &NEVER;
        let sent = sender.map(|sender| (agreed.sid, sender.packets as u32));
        let due = Instant::now() + self.options.answer_timeout;
        let said = say_stopped(&mut self.client.link, sent.as_slice(), due, &NEVER);
        said.map_err(|error| self.client.protocol(Break::Link(error)))?;
        let told = match told {
            Some(told) => told,
            None => self.hear_stop()?,
        };
        if let Some((_, next_seqno)) = sent {
            self.fetch(agreed, rows)?;
            return Ok(next_seqno);
        }
        let record = told.iter().map(|(record, _)| record).find(|record| record.sid == agreed.sid);
        Ok(record.map_or(agreed.packets, |record| record.next_seqno.get().min(agreed.packets)))
    }

    /// Gives the last packets time to arrive.
    fn wait_for_the_last(&mut self) {
        let end = Instant::now() + LOSS_TIMEOUT;
        while Instant::now() < end && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            self.pairs.tick();
        }
    }

    /// Brings the records of the session home.
    fn fetch(&mut self, agreed: &Agreed, rows: &mut Rows) -> Result<(), PathError> {
        let mut asked = FetchSession::new_zeroed();
        (asked.command, asked.sid) = (command::FETCH_SESSION, agreed.sid);
        asked.end = u32::MAX.into();
        self.client.say(&asked)?;
        let answer: FetchAck = self.client.hear("with Fetch-Ack")?;
        self.client.check(answer.accept, "the records")?;
        let most = agreed.packets.saturating_mul(4).saturating_add(SPARE_RECORDS);
        if answer.records.get() > most || answer.skips.get() > most {
            let what = format!("announced {} records of {} packets", answer.records, agreed.packets);
            return Err(self.client.protocol(Break::Hostile(what)));
        }
        let echoed: RequestSession = self.client.hear("with the records")?;
        if echoed.slots != 1 {
            let what = format!("told a schedule of {} slots in place of one", echoed.slots);
            return Err(self.client.protocol(Break::Hostile(what)));
        }
        let _: (Slot, [u8; BLOCK_BYTES]) =
            (self.client.hear("with the records")?, self.client.hear("with the records")?);
        let skips = (answer.skips.get() as usize * size_of::<SkipRange>()).next_multiple_of(BLOCK_BYTES);
        let mut octets = vec![0; skips + BLOCK_BYTES];
        self.client.read(&mut octets)?;
        let (mut known, near_ns) = (Numbers::below(agreed.packets), realtime_ns());
        let mut left = answer.records.get() as usize;
        while left > 0 {
            let records = left.min(RECORDS_AT_ONCE);
            octets.resize((records * size_of::<PacketRecord>()).next_multiple_of(BLOCK_BYTES), 0);
            self.client.read(&mut octets)?;
            let each = octets.chunks_exact(size_of::<PacketRecord>()).take(records);
            let packets = each.filter_map(|octets| PacketRecord::read_from_bytes(octets).ok());
            let ours = packets.filter(|record| record.sequence.get() < agreed.packets);
            let batch: Vec<Received> =
                ours.filter_map(|record| received(&record, near_ns, &mut known)).collect();
            rows.take(&batch, self.watch);
            left -= records;
        }
        let _: [u8; BLOCK_BYTES] = self.client.hear("with the records")?;
        Ok(())
    }
}

/// The schedule as its one slot.
fn part(schedule: &FlowSchedule) -> Slot {
    let mut part = Slot::new_zeroed();
    part.kind = match schedule {
        FlowSchedule::Poisson { .. } => slot::EXPONENTIAL,
        _ => slot::LITERAL,
    };
    part.parameter = interval(schedule.mean_period_ns()).into();
    part
}

/// The flow's thread.
fn work(agreed: &Agreed, up: bool, over: &AtomicBool, to: Sender<Vec<Received>>) -> Ran {
    let Agreed { socket, spec, .. } = agreed;
    if up {
        return Ran::Sent(send_flow(socket, spec, &NEVER, over));
    }
    let mut pending = Vec::new();
    let mut handed_over = Instant::now();
    let report = receive_flow(
        socket,
        spec,
        &mut |batch| {
            pending.extend_from_slice(batch);
            if handed_over.elapsed() >= LOOK {
                handed_over = Instant::now();
                // The other side lives as long as this thread.
                let _ = to.send(std::mem::take(&mut pending));
            }
        },
        over,
    );
    let _ = to.send(pending);
    Ran::Received(report)
}

/// Packets that were received, as far as they are kept.
struct Rows {
    direction: Direction,
    keep: bool,
    kept: Vec<Received>,
    count: u64,
}

impl Rows {
    fn take(&mut self, batch: &[Received], watch: &mut dyn FnMut(Progress<'_>)) {
        if self.keep {
            self.kept.extend_from_slice(batch);
        }
        self.count += batch.len() as u64;
        watch(Progress::Samples { direction: self.direction, samples: batch });
    }

    /// Takes what the flow's thread has handed over.
    fn show(
        &mut self,
        batches: &Receiver<Vec<Received>>,
        watch: &mut dyn FnMut(Progress<'_>),
        missing: &mut Missing,
    ) {
        for batch in batches.try_iter() {
            missing.note(&batch);
            self.take(&batch, watch);
        }
    }
}

/// Packets that have not come yet.
struct Missing {
    known: Numbers,
    left: u32,
}

impl Missing {
    fn of(packets: u32) -> Self {
        Self { known: Numbers::below(packets), left: packets }
    }

    fn note(&mut self, batch: &[Received]) {
        for row in batch.iter().filter(|row| row.singleton.flags & FLAG_INVALID == 0) {
            self.left -= u32::from(self.known.add(row.singleton.tx_seq.cast_unsigned()));
        }
    }
}
