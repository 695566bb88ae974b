//! The capture threads: each takes each block as the kernel hands it over, stamps it, and passes it on whole.
//!
//! ```text
//! kernel ──block──> capture thread ──block, stamp──> writing thread
//!    ^                                                   │
//!    └───────────── block, when it is dropped ───────────┘
//! ```
//!
//! Thread n of N has every N-th tap, from the n-th on, and a queue of its own.
//!
//! No packet is copied on the way. The queue between the threads has room for every block there is, so it never is
//! full: what a slow writer costs shows in one place only, the kernel's ring.

use super::error::CaptureError;
use super::layers::Early;
use super::layers::Joiner;
use super::ring::Block;
use super::socket::{RingStatistics, Tap};
use crate::pipeline::{Convert, RawStamp, Stamp, StampWith, Stamper};
use quaver_host::confinement::{Files, MEASURING};
use quaver_probe::thread::{SettingRefused, ThreadSettings};
use quaver_waiting as waiting;
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Longest wait of a capture thread without a look at records of layers.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// The same where there are none.
const LONGEST_IDLE: Duration = Duration::from_secs(1);
/// The event that ends a capture thread's wait; taps have their numbers.
const STOP: u64 = u64::MAX;
/// How long the end waits for the last block, beyond the block timeout.
const MOST_END_WAIT: Duration = Duration::from_secs(2);

/// A block with the capture thread's stamp.
#[derive(Debug)]
pub struct StampedBlock {
    /// Number of the tap, in the order in which they were given.
    pub tap: usize,
    /// When the capture thread took it: all its packets share this.
    pub stamp: RawStamp,
    /// What the programs below wrote of its packet, where it has one only.
    pub early: Early,
    /// The block.
    pub block: Block,
}

/// What both threads and the owner look at.
#[derive(Debug)]
struct Shared {
    taps: Vec<Tap>,
    /// Packets taken from each tap's ring.
    delivered: Vec<AtomicU64>,
    stop: AtomicBool,
    /// Is ready once `stop` is set.
    stopped: OwnedFd,
    /// Capture threads that run.
    running: AtomicUsize,
    down: Vec<AtomicBool>,
    writer: OnceLock<Thread>,
    /// Blocks that wait when the writer is woken.
    patience: usize,
}

/// What became of the packets of one tap. `ring.seen = delivered + ring.dropped + unaccounted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// What the kernel counted.
    pub ring: RingStatistics,
    /// Packets in the blocks that were passed on.
    pub delivered: u64,
    /// Packets that the kernel counted and neither dropped nor handed over; 0 unless something is wrong.
    pub unaccounted: u64,
}

impl std::iter::Sum for TapCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, of| Self {
            ring: [sum.ring, of.ring].into_iter().sum(),
            delivered: sum.delivered + of.delivered,
            unaccounted: sum.unaccounted + of.unaccounted,
        })
    }
}

/// The capture threads. Dropping it ends them.
#[derive(Debug)]
pub struct Reading {
    shared: Arc<Shared>,
    refused: Vec<SettingRefused>,
    threads: Vec<JoinHandle<()>>,
}

/// The writing thread's end of the queue.
#[derive(Debug)]
pub struct Blocks {
    shared: Arc<Shared>,
    queues: Vec<Consumer<StampedBlock>>,
}

/// Starts a capture thread for each stamper. The writing thread is woken when `patience` blocks of one wait for it; it looks for
/// fewer after the time that it gives, which saves most wake-ups at rates that fill no blocks. Where taps hand over each packet at once, a `joiner` finds its record before it is stamped,
/// so that the programs' stamps lie before the application's: they run right after the packet came to the socket.
///
/// # Errors
/// When a thread cannot be had, or is refused what `settings` require.
pub fn start<C: Convert>(
    taps: Vec<Tap>,
    stampers: Vec<Stamper<C>>,
    settings: &ThreadSettings,
    mut joiner: Option<Joiner>,
    patience: usize,
) -> Result<(Reading, Blocks), CaptureError> {
    let stopped = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let stopped = stopped.map_err(|e| CaptureError::os("make the event that ends the capture", e))?;
    let shared = Arc::new(Shared {
        delivered: taps.iter().map(|_| AtomicU64::new(0)).collect(),
        down: taps.iter().map(|_| AtomicBool::new(false)).collect(),
        stop: AtomicBool::new(false),
        stopped,
        running: AtomicUsize::new(stampers.len()),
        writer: OnceLock::new(),
        patience,
        taps,
    });
    let mut reading = Reading { shared: Arc::clone(&shared), refused: Vec::new(), threads: Vec::new() };
    let (mut queues, threads) = (Vec::new(), stampers.len());
    for (number, stamper) in stampers.into_iter().enumerate() {
        let taps: Vec<usize> = (number..shared.taps.len()).step_by(threads).collect();
        let watch =
            watch(&shared, &taps).map_err(|e| CaptureError::os("watch the rings of the capture", e))?;
        let (to_writer, queue) = RingBuffer::new(taps.iter().map(|tap| shared.taps[*tap].blocks()).sum());
        queues.push(queue);
        let reader = Reader { shared: Arc::clone(&shared), taps, watch, to_writer, joiner: joiner.take() };
        reading.start(reader, stamper, settings.clone())?;
    }
    Ok((reading, Blocks { shared, queues }))
}

/// Wakes once for each block that is handed over: while a block is ours, plain polling would never sleep.
fn watch(shared: &Shared, taps: &[usize]) -> rustix::io::Result<OwnedFd> {
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for number in taps {
        let data = epoll::EventData::new_u64(*number as u64);
        let tap = shared.taps[*number].as_fd();
        epoll::add(&watch, tap, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
    }
    epoll::add(&watch, &shared.stopped, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
    Ok(watch)
}

struct Reader {
    shared: Arc<Shared>,
    /// Numbers of its taps.
    taps: Vec<usize>,
    watch: OwnedFd,
    to_writer: Producer<StampedBlock>,
    joiner: Option<Joiner>,
}

type Prepared = Result<Vec<SettingRefused>, SettingRefused>;

impl Reader {
    fn thread<C: Convert>(
        self,
        mut stamper: Stamper<C>,
        settings: &ThreadSettings,
        tell: &SyncSender<Prepared>,
    ) {
        let shared = Arc::clone(&self.shared);
        let prepared = settings.prepare().map(|thread| thread.refused);
        let ready = prepared.is_ok();
        // Its rings are there, and it needs nothing else.
        MEASURING.keep(Some(Files::default()));
        if tell.send(prepared).is_ok() && ready {
            stamper.run(self);
        }
        shared.running.fetch_sub(1, Ordering::Release);
        shared.wake_writer();
    }

    /// Takes a block of a tap, if it is there.
    fn take(&mut self, tap: usize, index: usize, stamp: &mut impl Stamp) -> bool {
        let Some(block) = self.shared.taps[tap].memory.take(index) else { return false };
        let early = Early(self.joiner.as_mut().and_then(|joiner| {
            let link = self.shared.taps[tap].interface().link;
            joiner.below(&block.look()?, link)
        }));
        let stamp = stamp.stamp();
        let packets = block.packets();
        // The queue has room for all blocks, so a full one cannot be; the block would go back unread, and not be counted.
        if self.to_writer.push(StampedBlock { tap, stamp, early, block }).is_ok() {
            self.shared.delivered[tap].fetch_add(packets.into(), Ordering::Release);
        }
        if self.to_writer.buffer().capacity() - self.to_writer.slots() >= self.shared.patience {
            self.shared.wake_writer();
        }
        true
    }
}

impl StampWith for Reader {
    type Output = ();

    fn run(mut self, stamp: &mut impl Stamp) {
        let taps = std::mem::take(&mut self.taps);
        let mut next = vec![0usize; taps.len()];
        let longest = if self.joiner.is_some() { LONGEST_WAIT } else { LONGEST_IDLE };
        let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
        let mut events = Vec::with_capacity(next.len() + 1);
        loop {
            // Looked at before the rings, so that what was handed over before the end was asked for is taken.
            let stop = self.shared.stop.load(Ordering::Acquire);
            for (tap, next) in taps.iter().zip(&mut next) {
                while self.take(*tap, *next, stamp) {
                    *next += 1;
                }
            }
            if stop {
                return;
            }
            if let Some(joiner) = &mut self.joiner {
                joiner.make_room(true);
            }
            events.clear();
            // A signal or a refusal leads to another look.
            let _ = epoll::wait(&self.watch, rustix::buffer::spare_capacity(&mut events), Some(&longest));
            for event in &events {
                let flags = event.flags;
                if flags.contains(epoll::EventFlags::ERR) && event.data.u64() != STOP {
                    let tap = event.data.u64() as usize;
                    // The error stays, and comes with every later event, until it is read.
                    let _ = rustix::net::sockopt::socket_error(&self.shared.taps[tap]);
                    self.shared.down[tap].store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

impl Shared {
    fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

impl Reading {
    /// The taps, in the order in which they were given.
    pub fn taps(&self) -> &[Tap] {
        &self.shared.taps
    }

    /// Settings that the capture threads did not get.
    pub fn refused(&self) -> &[SettingRefused] {
        &self.refused
    }

    /// Packets taken from a tap's ring so far.
    pub fn delivered(&self, tap: usize) -> u64 {
        self.shared.delivered[tap].load(Ordering::Acquire)
    }

    /// Whether a tap's interface went down, or away, since this was last asked.
    pub fn went_down(&self, tap: usize) -> bool {
        self.shared.down[tap].swap(false, Ordering::Relaxed)
    }

    /// Lets nothing more in, waits until all that the kernel counted has been handed over, and ends the threads. The
    /// writing thread must go on taking blocks meanwhile; it gets none when all are taken.
    ///
    /// # Errors
    /// When the system refuses to end the arrival or to tell the counts.
    pub fn end(mut self) -> Result<Vec<TapCounts>, CaptureError> {
        for tap in self.taps() {
            tap.shut()?;
        }
        let last_block = self.taps().iter().map(Tap::block_timeout).max().unwrap_or_default();
        let give_up = Instant::now() + last_block + MOST_END_WAIT;
        let counts = loop {
            let counts = (0..self.taps().len()).map(|tap| self.counts(tap)).collect::<Result<Vec<_>, _>>()?;
            if counts.iter().all(|counts| counts.unaccounted == 0) || Instant::now() > give_up {
                break counts;
            }
            // The kernel hands the last block over by its own timer.
            std::thread::sleep(Duration::from_millis(1));
        };
        self.stop();
        Ok(counts)
    }

    fn counts(&self, tap: usize) -> Result<TapCounts, CaptureError> {
        let ring = self.shared.taps[tap].statistics()?;
        let delivered = self.delivered(tap);
        let unaccounted = ring.seen.saturating_sub(delivered + ring.dropped);
        Ok(TapCounts { ring, delivered, unaccounted })
    }

    fn start<C: Convert>(
        &mut self,
        reader: Reader,
        stamper: Stamper<C>,
        settings: ThreadSettings,
    ) -> Result<(), CaptureError> {
        let (tell, told) = sync_channel(1);
        let thread = waiting::start("quaver-capture", move || reader.thread(stamper, &settings, &tell))
            .map_err(|e| CaptureError::os("start the capture thread", e))?;
        self.threads.push(thread);
        let settled = waiting::hear("quaver-capture", &told);
        match settled.map_err(|e| CaptureError::os("start the capture thread", e))? {
            Some(Ok(refused)) => self.refused.extend(refused),
            Some(Err(refused)) => {
                let operation = format!("prepare the capture thread ({})", refused.operation);
                return Err(CaptureError::os(operation, refused.source));
            }
            None => {
                return Err(CaptureError::os("start the capture thread", std::io::ErrorKind::BrokenPipe));
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // It can fail only when its counter is full, and then it is ready.
        let _ = rustix::io::write(&self.shared.stopped, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            // A panic of the thread was told already; the writer sees the end of the queue.
            let _ = waiting::join("quaver-capture", thread);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Blocks {
    /// The taps, in the order in which they were given.
    pub fn taps(&self) -> &[Tap] {
        &self.shared.taps
    }

    /// The next block, if one comes within `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Option<StampedBlock> {
        self.shared.writer.get_or_init(std::thread::current);
        let give_up = Instant::now() + timeout;
        loop {
            if let Some(taken) = self.pop() {
                return Some(taken);
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() || self.has_ended() {
                return self.pop();
            }
            std::thread::park_timeout(left);
        }
    }

    fn pop(&mut self) -> Option<StampedBlock> {
        self.queues.iter_mut().find_map(|queue| queue.pop().ok())
    }

    /// Whether no block waits now.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(Consumer::is_empty)
    }

    /// Whether the capture threads have ended and every block was taken.
    pub fn is_finished(&self) -> bool {
        self.has_ended() && self.is_empty()
    }

    fn has_ended(&self) -> bool {
        self.shared.running.load(Ordering::Acquire) == 0
    }
}
