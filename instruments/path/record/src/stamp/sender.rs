//! The loop of a session-sender.

use super::directions::DirectionCounter;
use super::key::Protection;
use super::numbers::Pair;
use super::options::{SenderOptions, ZeroSsid};
use super::outcome::{Located, StampOutcome, StampPacket, StampProgress, StampReply};
use super::reflector::error_estimate;
use super::request::Request;
use super::socket::{Arrival, LONGEST_WAIT, MOST_BYTES, StampSocket};
use crate::clocks::{ClockPair, PairKeeper, steps};
use crate::error::PathError;
use crate::hosts::Side;
use hdrhistogram::Histogram;
use quaver_abi::wire::stamp::time::ErrorEstimate;
use quaver_abi::wire::stamp::tlv::{
    ClassOfService, DirectMeasurement, FLAG_INTEGRITY, FLAG_MALFORMED, FLAG_UNRECOGNIZED, FollowUp, Location,
    Span, TimestampInformation, kind, location,
};
use quaver_abi::wire::stamp::{LIGHT_BYTES, Mode, ReflectorPacket};
use quaver_clock::{monotonic_ns, realtime_ns};
use quaver_path_flow::Pacing;
use quaver_path_flow::{FlowSchedule, Lateness};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Packets that are sent before replies are looked for again.
const MOST_AT_ONCE: usize = 64;

/// Measures to a reflector on the calling thread: sends the packets of `options`, waits for the last replies, and
/// gives what was had. `watch` hears of each packet that is answered, in order of arrival. With `stop` set it ends
/// within 50 ms, with what it has, which is then not `complete`.
///
/// # Errors
/// When the session cannot begin: options that cannot be, an address that cannot be had. Silence of the reflector is
/// no error but an outcome.
pub fn send_session(
    options: &SenderOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(StampProgress<'_>),
) -> Result<StampOutcome, PathError> {
    send_agreed(options, |_, _| Ok(options.target), stop, watch)
}

/// The same to the reflector that `agree` gives, from our address and the bytes of a packet, before the first one.
///
/// # Errors
/// As [`send_session`], and those of `agree`.
pub(crate) fn send_agreed(
    options: &SenderOptions,
    agree: impl FnOnce(SocketAddr, usize) -> Result<SocketAddr, PathError>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(StampProgress<'_>),
) -> Result<StampOutcome, PathError> {
    options.check()?;
    let request = Request::new(options)?;
    let ipv6 = options.target.is_ipv6();
    let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = StampSocket::bind(options.bind.unwrap_or(SocketAddr::new(any, 0)))?;
    if options.dscp != 0 {
        socket.set_dscp(options.dscp, ipv6)?;
    }
    if options.plain {
        socket.count_hops()?;
    }
    let target = agree(socket.local_address()?, request.octets.len())?;
    socket.connect(target)?;
    let local = socket.local_address()?;
    watch(StampProgress::Started { local, target, packet_bytes: request.octets.len() });
    let mut session = Session {
        options,
        request,
        socket,
        estimate: error_estimate(options.format),
        ended: false,
        direct: None,
        counter: DirectionCounter::new(),
        lateness: Lateness::histogram(),
        remembered: VecDeque::new(),
        settled: 0,
        lost: 0,
        outcome: blank(target, local),
        watch,
    };
    session.outcome.packet_bytes = session.request.octets.len();
    Ok(session.run(stop))
}

/// A session of which nothing is known yet.
pub(super) fn blank(target: SocketAddr, local: SocketAddr) -> StampOutcome {
    StampOutcome {
        local,
        target,
        packet_bytes: 0,
        sent: 0,
        answered: 0,
        packets: Vec::new(),
        further: Vec::new(),
        most_remembered: 0,
        directions: DirectionCounter::new().counts(0, None),
        replies: Vec::new(),
        late: 0,
        foreign: 0,
        short: 0,
        own_drops: None,
        refused: 0,
        other_length: 0,
        wrong_hmac: 0,
        flagged: 0,
        zero_ssid: false,
        skipped: 0,
        sent_late: 0,
        unsent: 0,
        lateness: Lateness::default(),
        not_sent: 0,
        reflector_error: None,
        timestamp_information: None,
        location: None,
        clock_pairs: Vec::new(),
        clock_steps: Vec::new(),
        complete: false,
    }
}

struct Session<'a> {
    options: &'a SenderOptions,
    request: Request,
    socket: StampSocket,
    estimate: ErrorEstimate,
    /// Whether the session is to end before its time.
    ended: bool,
    /// The reflector's count of received packets with the greatest number of ours.
    direct: Option<(u64, u32)>,
    counter: DirectionCounter,
    lateness: Histogram<u64>,
    /// The newest packets: those whose replies can be known.
    remembered: VecDeque<Remembered>,
    /// Packets, from the first on, whose time for a reply is over, and how many of them had none.
    settled: u64,
    lost: u64,
    outcome: StampOutcome,
    watch: &'a mut dyn FnMut(StampProgress<'_>),
}

/// A packet that waits for its reply, or for copies of it.
struct Remembered {
    t1_ns: i64,
    /// CLOCK_MONOTONIC, which no step of the wall clock shortens.
    sent_ns: i64,
    answered: bool,
}

impl Session<'_> {
    fn run(mut self, stop: &AtomicBool) -> StampOutcome {
        let mut buffer = vec![0; MOST_BYTES];
        let mut clocks = PairKeeper::new();
        let SenderOptions { period_ns, late, lasting_ns, .. } = *self.options;
        let mut pacing = Pacing::new(FlowSchedule::every(period_ns).offsets(), late, lasting_ns);
        pacing.most_at_once = MOST_AT_ONCE;
        let mut deadlines = Vec::with_capacity(MOST_AT_ONCE);
        let start_ns = monotonic_ns();
        let (mut last_ns, mut over) = (start_ns, false);
        loop {
            self.drain(&mut buffer);
            clocks.tick();
            self.settle(monotonic_ns());
            (self.watch)(StampProgress::Tick { sent: self.outcome.sent, lost: self.lost });
            if stop.load(Ordering::Relaxed) || self.ended {
                break;
            }
            let now_ns = monotonic_ns();
            let left = self.options.count.map_or(u64::MAX, |count| count.saturating_sub(self.tried()));
            over |= left == 0 || pacing.gives_up(now_ns.abs_diff(start_ns), left);
            let next_ns = pacing.next_ns().filter(|_| !over);
            let sending = next_ns.is_some();
            let until_ns = match next_ns {
                Some(next_ns) => start_ns.saturating_add_unsigned(next_ns),
                None => last_ns + self.options.loss_timeout_ns.cast_signed(),
            };
            if !sending && (self.outcome.lost() == 0 || now_ns >= until_ns) {
                self.outcome.complete = true;
                break;
            }
            if now_ns < until_ns {
                let left = Duration::from_nanos((until_ns - now_ns).unsigned_abs());
                self.socket.wait(left.min(LONGEST_WAIT));
                continue;
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(MOST_AT_ONCE);
            pacing.take(now_ns.abs_diff(start_ns), most, &mut deadlines);
            for due_ns in &deadlines {
                let late_ns = monotonic_ns().abs_diff(start_ns).saturating_sub(*due_ns);
                self.lateness.saturating_record(late_ns);
                self.send();
            }
            last_ns = monotonic_ns();
        }
        let counts = pacing.counts;
        let outcome = &mut self.outcome;
        (outcome.skipped, outcome.sent_late, outcome.unsent) = (counts.misses, counts.late, counts.unsent);
        outcome.lateness = Lateness::of(&self.lateness, Some(self.lateness.mean()));
        clocks.read();
        self.finish(clocks.pairs().to_vec())
    }

    /// Places of the schedule that were used.
    fn tried(&self) -> u64 {
        self.outcome.sent + self.outcome.not_sent
    }

    fn send(&mut self) {
        let sequence = self.outcome.sent;
        let on_wire = sequence as u32;
        let protection = &self.options.protection;
        self.request.prepare(on_wire, on_wire.wrapping_add(1), protection);
        let t1_ns = realtime_ns();
        self.request.stamp(on_wire, t1_ns, self.options.ssid, self.estimate, protection);
        let mut sent = self.socket.send(&self.request.octets);
        if sent.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            // That is the answer to a packet before; this one has not been tried.
            self.outcome.refused += 1;
            sent = self.socket.send(&self.request.octets);
        }
        if sent.is_err() {
            self.outcome.not_sent += 1;
            return;
        }
        self.outcome.sent += 1;
        let sent_ns = monotonic_ns();
        self.remembered.push_back(Remembered { t1_ns, sent_ns, answered: false });
        if self.options.keep_packets {
            self.outcome.packets.push(StampPacket { sequence, t1_ns, reply: None });
        } else {
            self.forget(sent_ns);
        }
        self.outcome.most_remembered = self.outcome.most_remembered.max(self.remembered.len());
    }

    /// Counts packets as lost whose time is over. Replies that came by then have been read.
    fn settle(&mut self, now_ns: i64) {
        while let Some(packet) = self.remembered.get((self.settled - self.first_remembered()) as usize)
            && (now_ns - packet.sent_ns).unsigned_abs() > self.options.loss_timeout_ns
        {
            if !packet.answered {
                self.lost += 1;
                let packet = StampPacket { sequence: self.settled, t1_ns: packet.t1_ns, reply: None };
                (self.watch)(StampProgress::Lost { packet: &packet });
            }
            self.settled += 1;
        }
    }

    /// Lets packets go of which no reply can come in time, and none that is late is likely.
    fn forget(&mut self, now_ns: i64) {
        let patience_ns = self.options.loss_timeout_ns.saturating_mul(2);
        let over = |packet: &Remembered| (now_ns - packet.sent_ns).unsigned_abs() > patience_ns;
        while self.remembered.front().is_some_and(over) {
            self.remembered.pop_front();
        }
        self.counter.forget_below(self.first_remembered());
    }

    /// Number of the oldest packet that is remembered.
    fn first_remembered(&self) -> u64 {
        self.outcome.sent - self.remembered.len() as u64
    }

    fn drain(&mut self, buffer: &mut [u8]) {
        loop {
            match self.socket.receive(buffer) {
                Ok(arrival) => self.take(&buffer[..arrival.octets], &arrival),
                Err(Errno::AGAIN) => return,
                // A port that nobody listens on; the packet stays unanswered.
                Err(Errno::CONNREFUSED) => self.outcome.refused += 1,
                Err(_) => {}
            }
        }
    }

    /// Judges a datagram of the reflector and keeps what it says.
    fn take(&mut self, octets: &[u8], arrival: &Arrival) {
        let mode = self.options.protection.mode();
        // TWAMP Light's replies may end with the TTL.
        let mut padded = [0; Mode::Unauthenticated.base_bytes()];
        let base = match mode {
            Mode::Unauthenticated if (LIGHT_BYTES..padded.len()).contains(&octets.len()) => {
                padded[..octets.len()].copy_from_slice(octets);
                &padded[..]
            }
            _ => octets,
        };
        let Ok(reply) = ReflectorPacket::read(mode, base) else {
            self.outcome.short += 1;
            return;
        };
        if let Protection::All(key) = &self.options.protection
            && !key.verify_base(octets)
        {
            self.outcome.wrong_hmac += 1;
            return;
        }
        let Some(sequence) = self.sequence_of(&reply) else {
            self.outcome.foreign += 1;
            return;
        };
        if reply.ssid != self.options.ssid {
            // Whoever knows no RFC 8972 returns 0 there.
            self.outcome.zero_ssid = true;
            self.ended |= self.options.zero_ssid == ZeroSsid::Stop;
        }
        self.outcome.reflector_error.get_or_insert(reply.error_estimate);
        let Some(place) = sequence.checked_sub(self.first_remembered()) else {
            self.outcome.late += 1;
            return;
        };
        let reflected = self.counter.take(Pair { sent: sequence, reflected: reply.sequence });
        if self.options.keep_packets {
            self.outcome.replies.push((sequence, reply.sequence));
        }
        let mut kept = self.kept(&reply, arrival);
        kept.reflector_sequence = reflected as u32;
        self.outcome.other_length += u64::from(octets.len() != self.request.octets.len());
        if !self.options.plain {
            self.take_tlvs(octets.get(mode.base_bytes()..).unwrap_or_default(), &reply, sequence, &mut kept);
        }
        let remembered = &mut self.remembered[place as usize];
        let t1_ns = remembered.t1_ns;
        if arrival.received_ns.saturating_sub(t1_ns) > self.options.loss_timeout_ns.cast_signed() {
            self.outcome.late += 1;
            return;
        }
        let first = !std::mem::replace(&mut remembered.answered, true);
        self.outcome.answered += u64::from(first);
        let packet = StampPacket { sequence, t1_ns, reply: Some(kept) };
        match (self.options.keep_packets, first) {
            (true, true) => self.outcome.packets[sequence as usize] = packet,
            (true, false) => self.outcome.further.push(packet),
            (false, _) => {}
        }
        (self.watch)(StampProgress::Answered { packet: &packet, reflected, first });
    }

    /// Our number of the packet that this is the reply to; none if there is no such packet. Of one that was let go
    /// only its time can be judged: it lies before that of the oldest that is remembered.
    fn sequence_of(&self, reply: &ReflectorPacket) -> Option<u64> {
        let last = self.outcome.sent.checked_sub(1)?;
        let back = (last as u32).wrapping_sub(reply.sender_sequence);
        let sequence = last.checked_sub(u64::from(back))?;
        let format = self.options.format;
        let first = self.remembered.front()?;
        let ours = match sequence.checked_sub(self.first_remembered()) {
            Some(place) => format.encode(self.remembered[place as usize].t1_ns) == reply.sender_timestamp,
            None => format.decode(reply.sender_timestamp, first.t1_ns) <= first.t1_ns,
        };
        (ours && (reply.ssid == self.options.ssid || reply.ssid == 0)).then_some(sequence)
    }

    fn kept(&self, reply: &ReflectorPacket, arrival: &Arrival) -> StampReply {
        let format = reply.error_estimate.format;
        StampReply {
            t2_ns: format.decode(reply.receive_timestamp, arrival.received_ns),
            t3_ns: format.decode(reply.timestamp, arrival.received_ns),
            t4_ns: arrival.received_ns,
            t4_by: arrival.stamped_by,
            reflector_sequence: reply.sequence,
            forward_ttl: reply.sender_ttl,
            backward_ttl: arrival.ttl,
            backward_dscp: arrival.class >> 2,
            backward_ecn: arrival.class & 3,
            class_of_service: None,
            direct_measurement: None,
            follow_up: None,
        }
    }

    /// Takes what the reflector filled in (RFC 8972, section 4: skip U, end at M, believe nothing with I).
    fn take_tlvs(&mut self, extension: &[u8], reply: &ReflectorPacket, sequence: u64, kept: &mut StampReply) {
        if Span::all(extension).any(|span| span.flags & FLAG_INTEGRITY != 0) {
            self.outcome.flagged += 1;
            return;
        }
        if let Some(key) = self.options.protection.key()
            && let Some(hmac) = Span::all(extension).find(|span| span.kind == kind::HMAC)
            && !key.verify(&[&reply.sequence.to_be_bytes(), &extension[..hmac.at]], &extension[hmac.value()])
        {
            self.outcome.wrong_hmac += 1;
            return;
        }
        let mut flagged = false;
        for span in Span::all(extension) {
            if span.flags & FLAG_MALFORMED != 0 || span.is_malformed(extension) {
                flagged = true;
                break;
            }
            if span.flags & FLAG_UNRECOGNIZED != 0 {
                flagged = true;
                continue;
            }
            let value = &extension[span.value()];
            match span.kind {
                kind::CLASS_OF_SERVICE => kept.class_of_service = ClassOfService::from_octets(value),
                kind::DIRECT_MEASUREMENT => {
                    kept.direct_measurement = DirectMeasurement::from_octets(value);
                    self.take_counters(sequence, kept.direct_measurement);
                }
                kind::FOLLOW_UP_TELEMETRY => kept.follow_up = FollowUp::from_octets(value),
                kind::TIMESTAMP_INFORMATION => {
                    self.outcome.timestamp_information = TimestampInformation::from_octets(value);
                }
                kind::LOCATION if self.outcome.location.is_none() => self.outcome.location = located(value),
                _ => {}
            }
        }
        self.outcome.flagged += u64::from(flagged);
    }

    fn take_counters(&mut self, sequence: u64, counters: Option<DirectMeasurement>) {
        if let Some(counters) = counters
            && self.direct.is_none_or(|(before, _)| sequence >= before)
        {
            self.direct = Some((sequence, counters.reflector_received));
        }
    }

    fn finish(self, clock_pairs: Vec<ClockPair>) -> StampOutcome {
        let mut outcome = self.outcome;
        let direct = self.direct.map(|(_, received)| received);
        outcome.own_drops = self.socket.new_drops();
        outcome.directions = self.counter.counts(outcome.sent, direct);
        outcome.clock_steps = steps(Side::Client, &clock_pairs);
        outcome.clock_pairs = clock_pairs;
        outcome
    }
}

/// What a Location TLV says, of which the reflector may have left out addresses.
fn located(value: &[u8]) -> Option<Located> {
    let ports = Location::from_octets(value)?;
    let mut located =
        Located { source: (None, ports.source_port), destination: (None, ports.destination_port) };
    let subs = &value[Location::BYTES..];
    for sub in Span::all(subs) {
        let octets = &subs[sub.value()];
        let address = match sub.kind {
            location::DESTINATION_IPV4 | location::SOURCE_IPV4 => {
                octets.first_chunk::<4>().map(|octets| IpAddr::from(*octets))
            }
            _ => octets.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        };
        let address = address.filter(|address| !address.is_unspecified());
        match sub.kind {
            location::DESTINATION_IPV4 | location::DESTINATION_IPV6 => located.destination.0 = address,
            location::SOURCE_IPV4 | location::SOURCE_IPV6 => located.source.0 = address,
            _ => {}
        }
    }
    Some(located)
}
