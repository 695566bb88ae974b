//! The sending loop.

use super::pace::{Hybrid, Pace, Sleep, Spin, TXTIME_LEAD_NS, Wait};
use super::report::{Line, SourceLive, SourceReport};
use super::transmit::{AtOnce, AtTime, Transmit};
use super::{SendLog, SourceOptions, StreamLength};
use crate::thread::ThreadUsage;
use quaver_abi::record::SendRecord;
use quaver_clock::{CycleCounter, monotonic_ns};
use socket2::Socket;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

/// Failures by error number; those beyond the table share its first place.
struct Failures([u64; 256]);

impl Failures {
    #[inline]
    fn count(&mut self, errno: i32) {
        let place = usize::try_from(errno).ok().filter(|place| *place < self.0.len()).unwrap_or(0);
        self.0[place] += 1;
    }

    fn into_map(self) -> BTreeMap<i32, u64> {
        (0..).zip(self.0).filter(|(_, count)| *count > 0).collect()
    }
}

/// Sends the whole stream on the calling thread.
pub(super) fn run<L: SendLog>(
    socket: &Socket,
    options: &SourceOptions,
    ahead_ns: i64,
    segment: L,
    live: &SourceLive,
    stop: &AtomicBool,
) -> (SourceReport, L) {
    let stream = Stream { options, live, stop, segment };
    let now = AtOnce { socket: socket.as_fd() };
    match options.pace {
        Pace::Spin => stream.send(Spin, now),
        Pace::Sleep => stream.send(Sleep { margin_ns: 0 }, now),
        Pace::Hybrid => stream.send(Hybrid, now),
        Pace::Txtime => {
            stream.send(Sleep { margin_ns: TXTIME_LEAD_NS }, AtTime::new(socket.as_fd(), ahead_ns))
        }
    }
}

struct Stream<'a, L> {
    options: &'a SourceOptions,
    live: &'a SourceLive,
    stop: &'a AtomicBool,
    segment: L,
}

impl<L: SendLog> Stream<'_, L> {
    fn send(mut self, mut wait: impl Wait, mut transmit: impl Transmit) -> (SourceReport, L) {
        let SourceOptions { profile, stream_id, catch_up, counter, .. } = self.options;
        let (schedule, stream_id, counter) = (profile.schedule(), *stream_id, *counter);
        let (most_packets, end_offset_ns) = limits(self.options.length);
        // Slots beyond the stream's time are nobody's to miss.
        let slots =
            if end_offset_ns == i64::MAX { u64::MAX } else { self.options.packets().unwrap_or(u64::MAX) };
        let mut packet = profile.template(stream_id);
        let mut failures = Failures([0; 256]);
        let mut line = Line::default();
        let before = ThreadUsage::now();
        let delay = i64::try_from(self.options.start_delay.as_nanos()).unwrap_or(i64::MAX);
        let start_ns = monotonic_ns().saturating_add(delay);
        let mut report = SourceReport { start_ns, worst_lateness_ns: i64::MIN, ..SourceReport::default() };
        let (mut slot, mut offset_ns) = (0, 0);
        while report.packets < most_packets && offset_ns < end_offset_ns {
            let (seq, deadline_ns) = (report.packets, start_ns + offset_ns);
            profile.write_sequence(&mut packet, stream_id, seq);
            let next_offset_ns = schedule.offset_ns(slot + 1);
            let Some(now_ns) = wait.until(deadline_ns, self.stop) else { break };
            if !catch_up && now_ns >= start_ns + next_offset_ns {
                let next = schedule.first_after(now_ns - start_ns);
                report.misses += next.min(slots) - slot;
                (slot, offset_ns) = (next, schedule.offset_ns(next));
                continue;
            }
            profile.write_times(&mut packet, deadline_ns, now_ns);
            let before_cycles = counter.read();
            let outcome = transmit.send(&packet, deadline_ns);
            let after_cycles = counter.read();
            let sent = match outcome {
                Ok(again) => {
                    report.refused += u64::from(again);
                    true
                }
                Err(errno) => {
                    failures.count(errno);
                    false
                }
            };
            let after_cycles = if sent { after_cycles } else { 0 };
            let record = SendRecord { seq, deadline_ns, before_cycles, after_cycles };
            self.segment.take(record, now_ns - deadline_ns);
            report.sent += u64::from(sent);
            report.packets += 1;
            report.last_deadline_ns = deadline_ns;
            report.worst_lateness_ns = report.worst_lateness_ns.max(now_ns - deadline_ns);
            line.add(offset_ns, now_ns - deadline_ns);
            self.live.set(report.sent, report.misses);
            (slot, offset_ns) = (slot + 1, next_offset_ns);
        }
        if report.packets == 0 {
            report.worst_lateness_ns = 0;
        }
        report.failed = failures.into_map();
        report.drift_ppm = line.slope_ppm();
        report.mean_lateness_ns = line.mean_y();
        report.usage = ThreadUsage::now().since(&before);
        (report, self.segment)
    }
}

fn limits(length: StreamLength) -> (u64, i64) {
    match length {
        StreamLength::Packets(packets) => (packets, i64::MAX),
        StreamLength::Lasting(time) => (u64::MAX, i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
        StreamLength::UntilStopped => (u64::MAX, i64::MAX),
    }
}
