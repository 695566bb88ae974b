//! Receiving a flow.

use super::dscp::DscpChanges;
use super::error::FlowError;
use super::hardware::Way;
use super::hops::Hops;
use super::inbox::{
    Datagram, Inbox, ask_for_header, ask_for_stamps, hardware_clock, size_buffer, take_trains,
};
use super::judge::{Judge, Verdict};
use super::observe::Watch;
use super::records::Records;
use super::report::{ReceiveEnd, ReceiveReport, Received};
use super::schedule::HIGH_RATE_PERIOD_NS;
use super::segments::Side;
use super::send::{prepare_thread, restore_thread, thread_cpu_ns};
use super::socket::{LONGEST_WAIT, TestSocket};
use super::spec::{FlowSpec, StampSource, StampWish, Transport};
use super::summary::{ReceiverSummary, SegmentSummary};
use quaver_abi::wire::jitlat::Singleton;
use quaver_clock::monotonic_ns;
use quaver_probe::thread::ThreadUsage;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Makes the socket ready for a flow: receive buffer and stamps. [`receive_flow`] does so itself, but the kernel
/// takes some milliseconds to begin stamping, which this waits for: do it before the sender is told to begin. Gives a
/// sentence for each thing that could not be had.
///
/// # Errors
/// When flow and socket do not fit each other.
pub fn prepare_receive(socket: &TestSocket, spec: &FlowSpec) -> Result<Vec<String>, FlowError> {
    spec.check()?;
    if socket.transport() != spec.transport {
        return Err(FlowError::WrongSocket("its transport is not the flow's"));
    }
    if spec.transport == Transport::Tcp {
        // The connection's own window control decides; a fixed buffer would switch its tuning off.
        return Ok(Vec::new());
    }
    let mut remarks = Vec::new();
    let got = size_buffer(socket, spec)?;
    // The kernel doubles what is asked for, for its own overhead.
    if got / 2 < spec.receive_buffer_bytes {
        remarks.push(format!(
            "the receive buffer is {} bytes instead of {}: run as root, or raise net.core.rmem_max",
            got / 2,
            spec.receive_buffer_bytes
        ));
    }
    take_trains(socket, spec);
    ask_for_header(socket);
    remarks.extend(ask_for_stamps(socket, spec));
    Ok(remarks)
}

/// Receives the flow on the calling thread. `on_packets` gets its packets in order of arrival, batch by batch, each
/// with its receive time; duplicates and invalid ones with their flag. It ends with the first sentinel (and the
/// lingering that the flow asks for), with the close of a TCP connection, when nothing has come for the flow's
/// time-out after it ought to have ended, or by `stop`; in any case everything received has been handed on.
///
/// # Errors
/// When flow and socket do not fit each other; never for what is received.
pub fn receive_flow(
    socket: &TestSocket,
    spec: &FlowSpec,
    on_packets: &mut dyn FnMut(&[Received]),
    stop: &AtomicBool,
) -> Result<ReceiveReport, FlowError> {
    let remarks = prepare_receive(socket, spec)?;
    let thread = prepare_thread(spec);
    let (usage, cpu_ns) = (ThreadUsage::now(), thread_cpu_ns());
    let watch =
        (spec.segments && spec.transport == Transport::Tcp).then(|| Watch::start(socket, Side::Receiver));
    let mut receiver = Receiver::new(spec, on_packets, stop);
    let end = match spec.transport {
        Transport::Udp => receiver.datagrams(socket),
        Transport::Tcp => receiver.records(socket),
    };
    let Receiver { judge, hops, dscps, mut report, .. } = receiver;
    report.end = end;
    report.segments = watch.map(Watch::finish);
    report.summary = ReceiverSummary {
        own_drops: if spec.transport == Transport::Udp { socket.new_drops() } else { None },
        cpu_ns: thread_cpu_ns().saturating_sub(cpu_ns),
        end_seen: end == ReceiveEnd::Sentinel,
        hops: hops.found,
        dscps,
        segments: SegmentSummary::of(report.segments.as_ref(), Side::Receiver),
        ..judge.tally
    };
    report.usage = ThreadUsage::now().since(&usage);
    report.remarks.extend(remarks);
    report.receive_buffer_bytes = socket.receive_buffer_bytes();
    report.owamp_error = judge.heard_error();
    report.remarks.extend(restore_thread(thread));
    Ok(report)
}

/// Packets that a receiver of high rate lets gather before it looks again.
const GATHERED: u64 = 100;

struct Receiver<'a> {
    spec: &'a FlowSpec,
    on_packets: &'a mut dyn FnMut(&[Received]),
    stop: &'a AtomicBool,
    judge: Judge,
    hops: Hops,
    dscps: DscpChanges,
    report: ReceiveReport,
    kept: Vec<Received>,
    /// CLOCK_MONOTONIC nanoseconds at which it gives up if nothing more comes.
    give_up_ns: i64,
    /// Since when it lingers, and until when.
    linger_until_ns: Option<i64>,
}

impl<'a> Receiver<'a> {
    fn new(spec: &'a FlowSpec, on_packets: &'a mut dyn FnMut(&[Received]), stop: &'a AtomicBool) -> Self {
        let patience_ns = patience_ns(spec);
        let expected_ns = spec.expected_duration_ns().unwrap_or(0).saturating_add(spec.start_delay_ns);
        let give_up_ns = monotonic_ns().saturating_add_unsigned(expected_ns).saturating_add(patience_ns);
        Self {
            spec,
            on_packets,
            stop,
            judge: Judge::new(spec),
            hops: Hops::default(),
            dscps: DscpChanges::default(),
            report: ReceiveReport::default(),
            kept: Vec::with_capacity(super::inbox::MOST_TAKEN),
            give_up_ns,
            linger_until_ns: None,
        }
    }

    /// Why it is over, if it is; looked at when something came (`heard`) or nothing did for a while.
    fn over(&mut self, heard: bool) -> Option<ReceiveEnd> {
        let now_ns = monotonic_ns();
        if let Some(until_ns) = self.linger_until_ns {
            return (now_ns >= until_ns || self.stop.load(Ordering::Relaxed)).then_some(ReceiveEnd::Sentinel);
        }
        if heard {
            self.give_up_ns = self.give_up_ns.max(now_ns.saturating_add(patience_ns(self.spec)));
        }
        if self.stop.load(Ordering::Relaxed) {
            return Some(ReceiveEnd::Stopped);
        }
        (now_ns >= self.give_up_ns).then_some(ReceiveEnd::TimedOut)
    }

    /// Hands on what was kept; whether anything was.
    fn hand_on(&mut self) -> bool {
        let heard = !self.kept.is_empty();
        if heard {
            (self.on_packets)(&self.kept);
            self.kept.clear();
        }
        heard
    }

    fn datagrams(&mut self, socket: &TestSocket) -> ReceiveEnd {
        let clock = hardware_clock(socket, self.spec, Way::Received, &mut self.report.remarks);
        let mut inbox = Inbox::new(socket, self.spec, self.judge.needs_addresses(), clock);
        let mut wait = Wait::choose(socket, self.spec);
        loop {
            match inbox.take(wait.in_call()) {
                Ok(taken) => {
                    self.report.batches += 1;
                    for datagram in inbox.datagrams() {
                        match self.judge.judge(&datagram) {
                            Verdict::Keep(packet) => {
                                let Singleton { tx_seq, flags, .. } = packet.singleton;
                                if flags == 0 {
                                    self.hops.take(tx_seq.cast_unsigned().into(), datagram.ttl);
                                    self.dscps.take(self.spec.dscp, datagram.dscp);
                                }
                                self.kept.push(packet);
                            }
                            // After it nothing counts but by lingering.
                            Verdict::Sentinel if self.spec.linger_ns == 0 => {
                                self.hand_on();
                                return ReceiveEnd::Sentinel;
                            }
                            Verdict::Sentinel => {
                                let until_ns = monotonic_ns().saturating_add_unsigned(self.spec.linger_ns);
                                self.linger_until_ns.get_or_insert(until_ns);
                            }
                            Verdict::Ignore => {}
                        }
                    }
                    let heard = self.hand_on();
                    if let Some(end) = self.over(heard) {
                        return end;
                    }
                    if taken < inbox.most() {
                        wait.rest();
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    if let Some(end) = self.over(false) {
                        return end;
                    }
                    wait.rest();
                }
                Err(_) => {
                    // A refusal of what was sent from this socket before, say; the next call works again.
                    self.report.errors += 1;
                    if let Some(end) = self.over(false) {
                        return end;
                    }
                    if self.report.errors > 1_000 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        }
    }

    fn records(&mut self, socket: &TestSocket) -> ReceiveEnd {
        let mut records = Records::new(self.spec.packet_bytes as usize);
        loop {
            let read = records.read(socket);
            self.report.batches += u64::from(matches!(read, Ok(1..)));
            let read_ns = quaver_clock::realtime_ns();
            while let Some(record) = records.next() {
                let record = Datagram {
                    octets: record,
                    length: record.len(),
                    from: None,
                    received_ns: read_ns,
                    stamped_by: StampSource::Application,
                    of_train: false,
                    ttl: 0,
                    dscp: None,
                };
                match self.judge.judge(&record) {
                    Verdict::Keep(packet) => self.kept.push(packet),
                    Verdict::Sentinel => {
                        self.hand_on();
                        return ReceiveEnd::Sentinel;
                    }
                    Verdict::Ignore => {}
                }
            }
            let heard = self.hand_on();
            match read {
                Ok(0) => return ReceiveEnd::Closed,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => {
                    self.report.errors += 1;
                    return ReceiveEnd::Closed;
                }
            }
            if let Some(end) = self.over(heard) {
                return end;
            }
            if read == Err(Errno::AGAIN) {
                super::socket::wait(socket.as_fd(), rustix::event::PollFlags::IN, LONGEST_WAIT);
            }
        }
    }
}

/// How long it waits for something more to come: the flow's time-out, and 20 periods, so that slow flows have time
/// for their sentinels.
fn patience_ns(spec: &FlowSpec) -> i64 {
    let periods_ns = spec.schedule.mean_period_ns().saturating_mul(20);
    i64::try_from(spec.end_timeout_ns.saturating_add(periods_ns)).unwrap_or(i64::MAX)
}

/// How datagrams are waited for.
enum Wait<'a> {
    /// In the receive call, with its time-out set so that a stop is seen.
    InCall {
        /// Puts it back at the end.
        _timeout: Timeout<'a>,
    },
    /// By sleeping until some have gathered: at high rates a wake-up for each would cost the sender more than its
    /// packet. For stamps of the kernel only.
    Gather(Duration),
}

impl<'a> Wait<'a> {
    fn choose(socket: &'a TestSocket, spec: &FlowSpec) -> Self {
        let period_ns = spec.schedule.mean_period_ns();
        if period_ns >= HIGH_RATE_PERIOD_NS || spec.stamps == StampWish::Application {
            return Self::InCall { _timeout: Timeout::set(socket) };
        }
        Self::Gather(Duration::from_nanos((period_ns * GATHERED).clamp(20_000, 500_000)))
    }

    fn in_call(&self) -> bool {
        matches!(self, Self::InCall { .. })
    }

    fn rest(&mut self) {
        if let Self::Gather(time) = self {
            std::thread::sleep(*time);
        }
    }
}

/// A socket's receive time-out, which is put back as it was.
struct Timeout<'a> {
    socket: &'a TestSocket,
    before: Option<Duration>,
}

impl<'a> Timeout<'a> {
    fn set(socket: &'a TestSocket) -> Self {
        let before = socket.socket().read_timeout().unwrap_or(None);
        // Without it a stop is seen with the next packet.
        let _ = socket.socket().set_read_timeout(Some(LONGEST_WAIT));
        Self { socket, before }
    }
}

impl Drop for Timeout<'_> {
    fn drop(&mut self) {
        let _ = self.socket.socket().set_read_timeout(self.before);
    }
}
