//! Sending a flow.

use super::LatePolicy;
use super::departures::Departures;
use super::error::FlowError;
use super::hardware::Way;
use super::inbox::hardware_clock;
use super::observe::Watch;
use super::outbox::{Fate, Outbox};
use super::pacing::Pacing;
use super::report::{SendEnd, SendReport, TransmitStamps};
use super::segments::Side;
use super::socket::TestSocket;
use super::spec::{FlowSpec, StampWish, Transport};
use super::summary::{Lateness, SegmentSummary, SendingSummary};
use super::train::TrainLength;
use hdrhistogram::Histogram;
use quaver_clock::{monotonic_ns, realtime_ns};
use quaver_probe::source::Pace;
use quaver_probe::source::pace::{Hybrid, Sleep, Spin, Wait};
use quaver_probe::source::report::Line;
use quaver_probe::thread::{PreparedThread, Setting, SettingRefused, ThreadSettings, ThreadUsage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Periods of silence before the first sentinel, and between sentinels (Jitlat, 4.3.3).
const SENTINEL_PERIODS: u64 = 10;
/// How long a stopped sender of a flow with an end asks for its acknowledgement.
const STOPPED_SENTINELS_NS: u64 = 500_000_000;
/// Longest sleep between looks at the acknowledgement.
const LONGEST_DOZE_NS: i64 = 1_000_000;
/// How long packets gather where a sender that only sleeps is to wake up for several of them, nanoseconds: a wake-up for
/// each costs more than its call.
const SLEEPERS_GATHER_NS: u64 = 100_000;
/// Time before the next deadline that suffices to empty the queue of stamps.
const TIME_TO_COLLECT_NS: i64 = 200_000;

/// Sends the flow on the calling thread: its packets at their deadlines, silence for ten periods, then sentinels, one
/// each ten periods, until `acknowledged` is set (Jitlat, 4.3.3). A flow without an end is ended by `stop`; one with
/// an end is interrupted by it, and its sentinels are sent for half a second at most. An `acknowledged` set while
/// packets are sent ends the flow as well: nobody listens any more.
///
/// The socket has to be connected. No packet is sent before its deadline; what becomes of late ones is the flow's
/// [`LatePolicy`](super::LatePolicy)'s choice. A flow with a time ends with it, whatever was sent by then.
///
/// # Errors
/// When flow and socket do not fit each other; never for packets that the kernel did not take, which are counted.
pub fn send_flow(
    socket: &TestSocket,
    spec: &FlowSpec,
    acknowledged: &AtomicBool,
    stop: &AtomicBool,
) -> Result<SendReport, FlowError> {
    spec.check()?;
    if socket.transport() != spec.transport {
        return Err(FlowError::WrongSocket("its transport is not the flow's"));
    }
    if socket.peer_address().is_err() {
        return Err(FlowError::WrongSocket("it has no peer: connect it first"));
    }
    // A refusal of what was sent before is not this flow's.
    let _ = socket.socket().take_error();
    let thread = prepare_thread(spec);
    let watch =
        (spec.segments && spec.transport == Transport::Tcp).then(|| Watch::start(socket, Side::Sender));
    let mut sender = Sender::new(socket, spec, acknowledged, stop);
    let usage = ThreadUsage::now();
    let cpu_ns = thread_cpu_ns();
    match spec.pace {
        Pace::Spin => sender.send_packets(Spin),
        Pace::Sleep => sender.send_packets(Sleep { margin_ns: 0 }),
        Pace::Hybrid | Pace::Txtime => sender.send_packets(Hybrid),
    }
    sender.report.summary.cpu_ns = thread_cpu_ns().saturating_sub(cpu_ns);
    sender.report.usage = ThreadUsage::now().since(&usage);
    match spec.owamp_error {
        None => sender.send_sentinels(),
        // The control connection tells the end.
        Some(_) if sender.sending.finished => sender.report.end = SendEnd::Unacknowledged,
        Some(_) => {}
    }
    let mut report = sender.finish();
    report.segments = watch.map(Watch::finish);
    report.summary.segments = SegmentSummary::of(report.segments.as_ref(), Side::Sender);
    report.remarks.extend(restore_thread(thread));
    Ok(report)
}

/// Makes the calling thread ready for test packets.
pub(super) fn prepare_thread(spec: &FlowSpec) -> Result<PreparedThread, SettingRefused> {
    ThreadSettings { exact_timers: true, required: Vec::new(), ..spec.thread.clone() }.prepare()
}

/// Gives the thread's settings back; a sentence for each that was asked for and refused.
pub(super) fn restore_thread(thread: Result<PreparedThread, SettingRefused>) -> Vec<String> {
    let Ok(mut thread) = thread else { return Vec::new() };
    let refused = std::mem::take(&mut thread.refused);
    thread.restore();
    // Without exact timers packets are late by some microseconds, which the report shows.
    refused
        .iter()
        .filter(|refused| refused.setting != Setting::ExactTimers)
        .map(ToString::to_string)
        .collect()
}

/// Time of the calling thread on the CPU, nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

/// How long packets wait for each other under [`Pace::Sleep`]: not at all unless four or more are due meanwhile.
fn sleepers_gather_ns(spec: &FlowSpec) -> u64 {
    let several = spec.schedule.mean_period_ns().saturating_mul(4) <= SLEEPERS_GATHER_NS;
    let gathers = spec.pace == Pace::Sleep && spec.late != LatePolicy::Skip && several;
    if gathers { SLEEPERS_GATHER_NS } else { 0 }
}

/// Starts to collect stamps of departure, where that is asked for and possible.
fn departures<'a>(
    socket: &'a TestSocket,
    spec: &FlowSpec,
    remarks: &mut Vec<String>,
) -> Option<Departures<'a>> {
    if !spec.transmit_stamps || spec.stamps == StampWish::Application || spec.transport == Transport::Tcp {
        // The segments of a TCP flow are stamped below the transport.
        return None;
    }
    let hardware = hardware_clock(socket, spec, Way::Sent, remarks);
    match Departures::start(socket, spec, hardware) {
        Ok(departures) => Some(departures),
        Err(e) => {
            remarks
                .push(format!("stamps of transmission are refused ({e}); sending times are the program's"));
            None
        }
    }
}

struct Sender<'a> {
    spec: &'a FlowSpec,
    acknowledged: &'a AtomicBool,
    stop: &'a AtomicBool,
    outbox: Outbox<'a>,
    departures: Option<Departures<'a>>,
    train: TrainLength,
    report: SendReport,
    sending: SendingSummary,
    line: Line,
    lateness: Histogram<u64>,
    closed: bool,
}

impl<'a> Sender<'a> {
    fn new(
        socket: &'a TestSocket,
        spec: &'a FlowSpec,
        acknowledged: &'a AtomicBool,
        stop: &'a AtomicBool,
    ) -> Self {
        let mut report = SendReport::default();
        let train = TrainLength::of(spec);
        // A stamp of departure is that of a whole train, and nobody knows which of its packets it is.
        let departures =
            if train.packets() > 1 { None } else { departures(socket, spec, &mut report.remarks) };
        let mut outbox = Outbox::new(spec, socket);
        outbox.make_trains(train.packets());
        Self {
            spec,
            acknowledged,
            stop,
            outbox,
            departures,
            train,
            report,
            sending: SendingSummary {
                late_policy: spec.late,
                late: 0,
                unsent: 0,
                train_packets: 0,
                longest_train: 0,
                finished: false,
            },
            line: Line::default(),
            lateness: Lateness::histogram(),
            closed: false,
        }
    }

    fn send_packets(&mut self, mut wait: impl Wait) {
        let spec = self.spec;
        let mut pacing = Pacing::new(spec.schedule.offsets(), spec.late, spec.lasting_ns);
        self.set_trains(&mut pacing);
        // In this order, so that no packet seems to be sent before its deadline by the wall clock.
        let (realtime_ns, now_ns) = (realtime_ns(), monotonic_ns());
        let delay_ns = i64::try_from(spec.start_delay_ns).unwrap_or(i64::MAX);
        let start_ns = now_ns.saturating_add(delay_ns);
        self.report.start_ns = start_ns;
        self.report.summary.start_realtime_ns = realtime_ns.saturating_add(delay_ns);
        let (stop, acknowledged) = (self.stop, self.acknowledged);
        let until = |offset_ns: u64| {
            let now_ns = wait.until(start_ns.saturating_add_unsigned(offset_ns), stop)?;
            (!acknowledged.load(Ordering::Relaxed)).then_some((now_ns - start_ns).cast_unsigned())
        };
        let most_packets = spec.packets.unwrap_or(u64::MAX);
        self.sending.finished = pacing.walk(most_packets, until, |pacing, deadlines| {
            self.send_now(start_ns, deadlines, pacing);
            !self.closed
        });
        let counts = pacing.counts;
        self.report.summary.misses = counts.misses;
        (self.sending.late, self.sending.unsent) = (counts.late, counts.unsent);
    }

    #[inline]
    fn send_now(&mut self, start_ns: i64, deadlines: &[u64], pacing: &mut Pacing) {
        let sequence = self.spec.first_sequence + self.report.summary.packets;
        let sent_at_ns = monotonic_ns();
        self.outbox.send(sequence, deadlines.len(), [self.stop, self.acknowledged]);
        for (offset_ns, fate) in deadlines.iter().zip(&self.outbox.fates) {
            let late_ns = sent_at_ns - start_ns.saturating_add_unsigned(*offset_ns);
            self.lateness.saturating_record(late_ns.cast_unsigned());
            self.line.add(offset_ns.cast_signed(), late_ns);
            match fate {
                Fate::Sent => self.report.summary.sent += 1,
                Fate::SentAgain => {
                    self.report.summary.sent += 1;
                    self.report.refused += 1;
                }
                Fate::Failed(error) => *self.report.failed.entry(error.raw_os_error()).or_default() += 1,
                Fate::Closed => self.closed = true,
            }
            self.report.summary.packets += u64::from(*fate != Fate::Closed);
            self.report.last_deadline_ns = start_ns.saturating_add_unsigned(*offset_ns);
        }
        let count = deadlines.len() as u64;
        self.report.largest_batch = self.report.largest_batch.max(count);
        if count > 1 {
            self.report.batched += count;
            if self.outbox.train() > 1 {
                self.sending.train_packets += count;
                self.sending.longest_train = self.sending.longest_train.max(count);
            }
        }
        self.outbox.refill(deadlines.len());
        self.lengthen_trains(sent_at_ns - start_ns, deadlines, pacing);
        if self.departures.is_some() {
            self.collect_departures(sequence, start_ns, pacing.next_ns());
        }
    }

    /// Makes longer trains where these do not keep up, and none where the kernel takes none.
    #[inline]
    fn lengthen_trains(&mut self, now_ns: i64, deadlines: &[u64], pacing: &mut Pacing) {
        let Some(oldest_ns) = deadlines.first() else { return };
        if let Some(error) = self.outbox.train_refused.take() {
            let packet_bytes = self.spec.packet_bytes;
            self.train.give_up();
            self.report.remarks.push(format!(
                "the kernel makes no trains of packets of {packet_bytes} bytes on this path ({error}: longer than its MTU \
                 allows, or a device without checksums); each packet goes by itself"
            ));
        } else if !self.train.note(
            now_ns.cast_unsigned(),
            now_ns.cast_unsigned().saturating_sub(*oldest_ns).saturating_sub(pacing.gather_ns),
        ) {
            return;
        }
        self.outbox.make_trains(self.train.packets());
        self.set_trains(pacing);
    }

    fn set_trains(&self, pacing: &mut Pacing) {
        pacing.gather_ns = self.spec.gather_ns.max(self.train.gather_ns()).max(sleepers_gather_ns(self.spec));
        pacing.most_at_once = self.outbox.most();
        pacing.train = self.train.packets();
    }

    fn collect_departures(&mut self, sequence: u64, start_ns: i64, next_ns: Option<u64>) {
        let Some(departures) = &mut self.departures else { return };
        for (sequence, (fate, sent_ns)) in
            (sequence..).zip(self.outbox.fates.iter().zip(&self.outbox.sent_ns))
        {
            match fate {
                Fate::Sent => departures.sent(sequence, *sent_ns),
                Fate::SentAgain => departures.renumber(true),
                Fate::Failed(_) | Fate::Closed => departures.renumber(false),
            }
        }
        let next_ns = next_ns.map_or(i64::MAX, |next_ns| start_ns.saturating_add_unsigned(next_ns));
        if departures.is_urgent() || next_ns.saturating_sub(monotonic_ns()) > TIME_TO_COLLECT_NS {
            departures.drain();
        }
    }

    fn send_sentinels(&mut self) {
        let interval_ns = self.spec.schedule.mean_period_ns().max(1_000).saturating_mul(SENTINEL_PERIODS);
        // Ten of the longest periods would keep a server's only place for a test for years.
        let interval_ns = i64::try_from(interval_ns.min(self.spec.sentinel_timeout_ns)).unwrap_or(i64::MAX);
        let stopped = self.stop.load(Ordering::Relaxed);
        let interrupted = stopped && self.spec.packets.is_some();
        let mut timeout_ns = self.spec.sentinel_timeout_ns;
        if interrupted {
            timeout_ns = timeout_ns.min(STOPPED_SENTINELS_NS);
        }
        let last_ns = monotonic_ns();
        let mut due_ns = last_ns.saturating_add(if interrupted { 0 } else { interval_ns });
        let end_ns = due_ns.saturating_add(i64::try_from(timeout_ns).unwrap_or(i64::MAX));
        while !self.closed && due_ns <= end_ns && self.doze_until(due_ns, stopped) {
            match self.outbox.send_sentinel([self.stop, self.acknowledged]) {
                Fate::Closed => self.closed = true,
                Fate::Failed(_) => {}
                Fate::Sent | Fate::SentAgain => self.report.summary.sentinels += 1,
            }
            due_ns = due_ns.max(monotonic_ns()).saturating_add(interval_ns);
        }
        self.report.end = if self.acknowledged.load(Ordering::Acquire) {
            if interrupted { SendEnd::Stopped } else { SendEnd::Acknowledged }
        } else if self.closed {
            SendEnd::Closed
        } else if interrupted || (!stopped && self.stop.load(Ordering::Relaxed)) {
            SendEnd::Stopped
        } else {
            SendEnd::Unacknowledged
        };
    }

    /// Sleeps until then; false as soon as the end is acknowledged, or `stop` comes anew.
    fn doze_until(&self, due_ns: i64, stopped: bool) -> bool {
        loop {
            if self.acknowledged.load(Ordering::Acquire) || (!stopped && self.stop.load(Ordering::Relaxed)) {
                return false;
            }
            let left_ns = due_ns - monotonic_ns();
            if left_ns <= 0 {
                return true;
            }
            std::thread::sleep(Duration::from_nanos(left_ns.min(LONGEST_DOZE_NS).unsigned_abs()));
        }
    }

    fn finish(mut self) -> SendReport {
        self.report.transmit_stamps = self.departures.take().map(Departures::finish);
        self.report.summary.departures =
            self.report.transmit_stamps.as_ref().and_then(TransmitStamps::summary);
        self.report.summary.sending = Some(self.sending);
        self.report.slope_ppm = self.line.slope_ppm();
        self.report.summary.lateness = Lateness::of(&self.lateness, self.line.mean_y());
        if self.spec.transport == Transport::Tcp && self.spec.transmit_stamps {
            self.report.remarks.push(
                "stamps of transmission are for datagrams; the segments of a TCP flow carry their own"
                    .to_owned(),
            );
        }
        self.report
    }
}
