//! The receiving loop, compiled once for each way to wait and to take.

use super::receive::{InCall, InEpoll, Plain, Receive, Spin, Take, WaitForPacket, WithStamps};
use super::report::{SinkLive, SinkReport};
use super::turns::{Turns, Unwatched, Watch};
use super::{Disturb, SinkOptions, SinkOutcome, payload};
use crate::socket;
use crate::thread::ThreadUsage;
use quaver_abi::record::{GapRecord, PacketRecord, packet_flags};
use quaver_clock::CycleCounter;
use quaver_host::segment::SegmentWriter;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::Socket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory for packets, and for long turns where they are recorded.
type Segments = (SegmentWriter<PacketRecord>, Option<SegmentWriter<GapRecord>>);

/// Receives until `stop` is set, on the calling thread.
pub(super) fn run(
    socket: &Socket,
    options: &SinkOptions,
    (segment, turns): Segments,
    live: &SinkLive,
    stop: &AtomicBool,
) -> SinkOutcome {
    let buffer = vec![0u8; options.payload_capacity];
    let report = SinkReport::default();
    let mut hot = Hot { socket: socket.as_fd(), options, buffer, segment, turns, live, stop, report };
    let before = ThreadUsage::now();
    match options.receive {
        Receive::Poll => match hot.turns.take() {
            Some(writer) => {
                let mut turns = Turns::new(writer, options.counter);
                hot.with_take(Spin, &mut turns);
                hot.turns = Some(turns.into_segment());
            }
            None => hot.with_take(Spin, &mut Unwatched),
        },
        Receive::Block | Receive::BusyPoll => hot.with_take(InCall, &mut Unwatched),
        Receive::Epoll => match InEpoll::new(socket.as_fd()) {
            Ok(wait) => hot.with_take(wait, &mut Unwatched),
            Err(_) => hot.report.errors += 1,
        },
    }
    let Hot { mut report, segment, turns, mut buffer, .. } = hot;
    report.usage = ThreadUsage::now().since(&before);
    report.unrecorded = segment.lost();
    report.receive_drops = socket::drops(socket.as_fd());
    report.unread = drain(socket.as_fd(), &mut buffer);
    report.napi_id = socket::numbers::<1>(socket.as_fd(), libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID)
        .map_or(0, |numbers| numbers[0]);
    SinkOutcome { report, segment, turns }
}

/// Empties the socket's buffer and counts what was in it. It ends: the socket is shut down by then or at most
/// what one buffer holds is taken.
fn drain(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> u64 {
    const MOST: u64 = 10_000_000;
    (0..MOST)
        .take_while(|_| {
            rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT).is_ok_and(|(_, octets)| octets > 0)
        })
        .count() as u64
}

/// What is done before each receive.
trait Before {
    fn receive(&self, received: u64);
}

struct Nothing;

impl Before for Nothing {
    #[inline(always)]
    fn receive(&self, _received: u64) {}
}

impl Before for Disturb {
    fn receive(&self, received: u64) {
        self(received);
    }
}

struct Hot<'a> {
    socket: BorrowedFd<'a>,
    options: &'a SinkOptions,
    buffer: Vec<u8>,
    segment: SegmentWriter<PacketRecord>,
    turns: Option<SegmentWriter<GapRecord>>,
    live: &'a SinkLive,
    stop: &'a AtomicBool,
    report: SinkReport,
}

impl Hot<'_> {
    fn with_take(&mut self, wait: impl WaitForPacket, watch: &mut impl Watch) {
        if self.options.kernel_stamps {
            self.with_before(wait, WithStamps::new(), watch);
        } else {
            self.with_before(wait, Plain, watch);
        }
    }

    fn with_before(&mut self, wait: impl WaitForPacket, take: impl Take, watch: &mut impl Watch) {
        match self.options.disturb {
            Some(disturb) => self.receive(wait, take, &disturb, watch),
            None => self.receive(wait, take, &Nothing, watch),
        }
    }

    fn receive<W: WaitForPacket>(
        &mut self,
        mut wait: W,
        mut take: impl Take,
        before: &impl Before,
        watch: &mut impl Watch,
    ) {
        let SinkOptions { payload, stream_id, counter, .. } = *self.options;
        let capacity = self.buffer.len();
        // Kept in registers; the report is written at the end.
        let (mut received, mut ours, mut truncated) = (0u64, 0u64, 0u64);
        loop {
            before.receive(received);
            watch.begin();
            let arrival = match take.take(self.socket, &mut self.buffer, W::FLAGS) {
                Ok(arrival) => arrival,
                Err(error) => {
                    watch.found_nothing();
                    if self.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match error {
                        Errno::AGAIN => wait.wait(),
                        Errno::INTR => {}
                        _ => self.report.errors += 1,
                    }
                    continue;
                }
            };
            let (app_cycles, cpu) = counter.read_with_cpu();
            watch.brought(app_cycles, cpu);
            let stopping = self.stop.load(Ordering::Relaxed);
            if stopping && arrival.octets == 0 {
                break; // The socket was shut down.
            }
            let mut record = PacketRecord {
                app_cycles,
                cpu,
                kernel_realtime_ns: arrival.realtime_ns,
                receive_drops: arrival.drops,
                payload_bytes: arrival.octets as u32,
                ..PacketRecord::default()
            };
            if arrival.octets > capacity {
                record.flags = packet_flags::TRUNCATED;
                truncated += 1;
            }
            let octets = &self.buffer[..arrival.octets.min(capacity)];
            payload::describe(&mut record, octets, payload, stream_id);
            received += 1;
            ours += u64::from(record.flags & packet_flags::OURS);
            self.segment.push(record);
            self.live.set(received);
            if stopping {
                break;
            }
        }
        self.report.received = received;
        self.report.ours = ours;
        self.report.truncated = truncated;
    }
}
