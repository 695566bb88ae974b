//! The receiving thread: real packets, each stamped by the arm whose turn it is, between two checkpoints.

use super::CompareError;
use crate::pipeline;
use crate::pipeline::{Convert, PipelineSettings, RawStamp, Resolved, Resolver, Stamp, StampWith, Stamper};
use quaver_abi::stamp::LayerStamp;
use quaver_abi::wire::stream::StreamHeader;
use quaver_clock::{Counter, CycleCounter, HardwareCounter, MonotonicCounter};
use quaver_probe::socket;
use quaver_probe::thread::{PreparedThread, ThreadSettings, ThreadUsage};
use quaver_waiting as waiting;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// What the receiving thread is called.
const THREAD: &str = "quaver-compare";

/// What the receiving thread does.
#[derive(Clone, Debug)]
pub struct ReceiverPlan {
    /// Pipelines to compare; none is the checkpoints alone.
    pub arms: Vec<Option<PipelineSettings>>,
    /// The arm of each block of packets, in order. The thread ends after the last.
    pub blocks: Vec<u16>,
    /// Packets of each block.
    pub packets_per_block: u32,
    /// Stream to follow; other packets are not counted.
    pub stream_id: u32,
    /// Bytes of the payload before our stream header.
    pub header_offset: usize,
    /// Receives over and over instead of sleeping in the call.
    pub poll: bool,
    /// The thread.
    pub thread: ThreadSettings,
    /// What checkpoints are read from.
    pub counter: Counter,
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its number in the stream.
    pub seq: u64,
    /// Its block, and its place there.
    pub block: u32,
    /// Its place in the block, from 0.
    pub position: u32,
    /// Arm of the block.
    pub arm: u16,
    /// Raw cycles of the checkpoint before the stamp.
    pub before_cycles: u64,
    /// Raw cycles between the checkpoints, their own cost included.
    pub between_cycles: u64,
    /// The stamp; none of the checkpoints alone.
    pub stamp: Option<LayerStamp>,
}

/// What an arm cost beside the hot path, over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArmCost {
    /// Stamps.
    pub stamps: u64,
    /// Raw cycles that resolving them took on the receiving thread, after each block.
    pub resolve_cycles: u64,
    /// Raw cycles that converter threads spent on them.
    pub converter_cycles: u64,
    /// Stamps that found a ring full.
    pub ring_full: u64,
    /// Who converted them.
    pub resolved: Resolved,
}

/// What the receiving thread leaves.
#[derive(Debug)]
pub struct Received {
    /// Packets in the order of their arrival.
    pub samples: Vec<Sample>,
    /// By arm.
    pub costs: Vec<ArmCost>,
    /// Packets of other streams, or too short for our header.
    pub strangers: u64,
    /// Packets that the kernel dropped because the socket's buffer was full; none where it does not say.
    pub socket_drops: Option<u32>,
    /// What the kernel counted for the thread.
    pub usage: ThreadUsage,
}

/// A receiving thread that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Receiving {
    handle: Option<JoinHandle<Received>>,
    socket: Arc<UdpSocket>,
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    thread: PreparedThread,
}

impl Receiving {
    /// What its thread asked for and got.
    pub fn thread(&self) -> &PreparedThread {
        &self.thread
    }

    /// Packets so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether all blocks are done.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, and gives what came until now.
    ///
    /// # Errors
    /// The process was asked to end, and the thread is not let run.
    pub fn join(mut self) -> Result<Received, CompareError> {
        self.ask_to_end();
        let handle = self.handle.take().expect("joined once only: joining takes it by value");
        let ended =
            waiting::join(THREAD, handle).map_err(|e| CompareError::os("end the receiving thread", e))?;
        Ok(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn ask_to_end(&self) {
        self.stop.store(true, Ordering::Release);
        // An unconnected socket answers ENOTCONN, yet wakes its waiters.
        let _ = rustix::net::shutdown(self.socket.as_fd(), Shutdown::Read);
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.ask_to_end();
        if let Some(handle) = self.handle.take() {
            let _ = waiting::join(THREAD, handle);
        }
    }
}

/// Starts the thread on `socket`; returns when it is ready to receive.
///
/// # Errors
/// When a pipeline cannot be started or the thread is refused what it requires.
pub fn start<C: Convert>(
    socket: UdpSocket,
    plan: ReceiverPlan,
    convert: C,
) -> Result<Receiving, CompareError> {
    let socket = Arc::new(socket);
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicU64::new(0));
    let (tell, told) = sync_channel(1);
    let (flag, count, own) = (Arc::clone(&stop), Arc::clone(&received), Arc::clone(&socket));
    let handle = waiting::start(THREAD, move || {
        let prepared = prepare(&plan, convert);
        let (arms, thread) = match prepared {
            Ok((arms, thread)) => (arms, Ok(thread)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let ready = thread.is_ok();
        if tell.send(thread).is_err() || !ready {
            return Received::empty();
        }
        Hot::new(&own, &plan, arms, &flag, &count).run(&plan)
    })
    .map_err(|e| CompareError::os("start the receiving thread", e))?;
    let thread =
        waiting::hear(THREAD, &told).map_err(|e| CompareError::os("start the receiving thread", e))?;
    let thread = thread.expect("the thread tells before anything else can end it")?;
    Ok(Receiving { handle: Some(handle), socket, stop, received, thread })
}

/// Both halves of each arm's pipeline, started before the thread's settings so that converters do not inherit
/// them.
type Arms<C> = Vec<Option<(Stamper<C>, Resolver<C>)>>;

fn prepare<C: Convert>(plan: &ReceiverPlan, convert: C) -> Result<(Arms<C>, PreparedThread), CompareError> {
    let start = |settings: &Option<PipelineSettings>| {
        settings.as_ref().map(|settings| pipeline::start(settings, convert.clone())).transpose()
    };
    let arms = plan.arms.iter().map(start).collect::<Result<Arms<C>, _>>()?;
    Ok((arms, plan.thread.prepare()?))
}

impl Received {
    fn empty() -> Self {
        Self {
            samples: Vec::new(),
            costs: Vec::new(),
            strangers: 0,
            socket_drops: None,
            usage: ThreadUsage::default(),
        }
    }
}

/// A packet while its block runs.
#[derive(Clone, Copy)]
struct Slot {
    before: u64,
    after: u64,
    seq: u64,
    raw: RawStamp,
}

struct Hot<'a, C> {
    socket: &'a UdpSocket,
    stop: &'a AtomicBool,
    received: &'a AtomicU64,
    arms: Arms<C>,
    out: Received,
    slots: Vec<Slot>,
    stamps: Vec<LayerStamp>,
    raws: Vec<RawStamp>,
    buffer: Vec<u8>,
}

/// Bytes of a packet that are received: our stream header and what may lie before it.
const RECEIVED_BYTES: usize = 256;

impl<'a, C: Convert> Hot<'a, C> {
    fn new(
        socket: &'a UdpSocket,
        plan: &ReceiverPlan,
        arms: Arms<C>,
        stop: &'a AtomicBool,
        received: &'a AtomicU64,
    ) -> Self {
        let per_block = plan.packets_per_block as usize;
        let all = per_block * plan.blocks.len();
        let empty = Slot { before: 0, after: 0, seq: 0, raw: RawStamp::of_cycles(0) };
        let mut samples = Vec::with_capacity(all);
        let blank = Sample {
            seq: 0,
            block: 0,
            position: 0,
            arm: 0,
            before_cycles: 0,
            between_cycles: 0,
            stamp: None,
        };
        // Written once, so that its pages are there before the first packet.
        samples.resize(all, blank);
        samples.clear();
        Self {
            socket,
            stop,
            received,
            out: Received { samples, costs: vec![ArmCost::default(); arms.len()], ..Received::empty() },
            arms,
            slots: vec![empty; per_block],
            stamps: Vec::with_capacity(per_block),
            raws: Vec::with_capacity(per_block),
            buffer: vec![0; RECEIVED_BYTES],
        }
    }

    fn run(mut self, plan: &ReceiverPlan) -> Received {
        let before = ThreadUsage::now();
        for (block, arm) in plan.blocks.iter().enumerate() {
            // The loop is compiled once for each counter, so that a checkpoint has no branch.
            let filled = match plan.counter {
                Counter::Hardware => self.block::<HardwareCounter>(plan, *arm, HardwareCounter),
                Counter::MonotonicClock => self.block::<MonotonicCounter>(plan, *arm, MonotonicCounter),
            };
            self.keep(block as u32, *arm, filled, plan.counter);
            if filled < self.slots.len() {
                break;
            }
        }
        self.out.usage = ThreadUsage::now().since(&before);
        self.out.socket_drops = socket::drops(self.socket.as_fd());
        for (cost, arm) in self.out.costs.iter_mut().zip(&self.arms) {
            if let Some((stamper, resolver)) = arm {
                cost.ring_full = stamper.ring_full();
                cost.converter_cycles = resolver.converter_cycles();
                cost.resolved = resolver.counts();
            }
        }
        self.out
    }

    /// Fills the slots; how many were filled when the end came.
    fn block<K: CycleCounter>(&mut self, plan: &ReceiverPlan, arm: u16, counter: K) -> usize {
        let block = Block {
            socket: self.socket,
            stop: self.stop,
            received: self.received,
            before: self.out.samples.len() as u64,
            slots: &mut self.slots,
            strangers: &mut self.out.strangers,
            buffer: &mut self.buffer,
            plan,
            counter,
        };
        match &mut self.arms[usize::from(arm)] {
            None => block.receive(|slot| nothing(counter, slot)),
            Some((stamper, _)) => stamper.run(block),
        }
    }

    /// Resolves the block's stamps and keeps its samples.
    fn keep(&mut self, block: u32, arm: u16, filled: usize, counter: Counter) {
        let cost = &mut self.out.costs[usize::from(arm)];
        self.stamps.clear();
        if let Some((_, resolver)) = &mut self.arms[usize::from(arm)] {
            self.raws.clear();
            self.raws.extend(self.slots[..filled].iter().map(|slot| slot.raw));
            let before = counter.read();
            resolver.resolve_all(&self.raws, &mut self.stamps);
            cost.resolve_cycles += counter.read().saturating_sub(before);
            cost.stamps += filled as u64;
        }
        for (position, slot) in self.slots[..filled].iter().enumerate() {
            self.out.samples.push(Sample {
                seq: slot.seq,
                block,
                position: position as u32,
                arm,
                before_cycles: slot.before,
                between_cycles: slot.after.saturating_sub(slot.before),
                stamp: self.stamps.get(position).copied(),
            });
        }
    }
}

/// One block's packets. Its loop is compiled for each way to stamp, so that nothing but the stamp lies between the
/// checkpoints.
struct Block<'a, K> {
    socket: &'a UdpSocket,
    stop: &'a AtomicBool,
    received: &'a AtomicU64,
    /// Packets of the blocks before.
    before: u64,
    slots: &'a mut [Slot],
    strangers: &'a mut u64,
    buffer: &'a mut [u8],
    plan: &'a ReceiverPlan,
    counter: K,
}

impl<K: CycleCounter> StampWith for Block<'_, K> {
    type Output = usize;

    fn run(self, stamp: &mut impl Stamp) -> usize {
        let counter = self.counter;
        self.receive(|slot| around(counter, slot, stamp))
    }
}

impl<K: CycleCounter> Block<'_, K> {
    /// Fills the slots; how many were filled when the end came.
    #[inline(always)]
    fn receive(self, mut check: impl FnMut(&mut Slot)) -> usize {
        let flags = if self.plan.poll { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let mut filled = 0;
        while filled < self.slots.len() {
            let octets = match rustix::net::recv(self.socket.as_fd(), &mut *self.buffer, flags) {
                Ok((octets, _)) => octets,
                Err(Errno::AGAIN | Errno::INTR) if !self.stop.load(Ordering::Relaxed) => continue,
                Err(_) => 0,
            };
            let slot = &mut self.slots[filled];
            check(slot);
            if self.stop.load(Ordering::Relaxed) && octets == 0 {
                break;
            }
            let header = self.buffer[..octets.min(RECEIVED_BYTES)].get(self.plan.header_offset..);
            match header.and_then(StreamHeader::read) {
                Some(header) if header.stream_id.get() == self.plan.stream_id => {
                    slot.seq = header.seq.get();
                    filled += 1;
                }
                _ => *self.strangers += 1,
            }
            // One writer, so a plain store does.
            self.received.store(self.before + filled as u64, Ordering::Relaxed);
        }
        filled
    }
}

/// Starts a line of the instruction cache, so that both checkpoints and what is inlined between them are fetched
/// together, before the first: else a miss would be measured that belongs to the checkpoints.
macro_rules! on_one_line {
    () => {
        // SAFETY: emits nothing but padding.
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        unsafe {
            core::arch::asm!(".p2align 6", options(nomem, nostack, preserves_flags));
        }
    };
}

/// The checkpoints alone.
#[inline(never)]
fn nothing<K: CycleCounter>(counter: K, slot: &mut Slot) {
    on_one_line!();
    let before = counter.read();
    let after = counter.read();
    (slot.before, slot.after) = (before, after);
}

/// A stamp between the checkpoints.
#[inline(never)]
fn around<K: CycleCounter>(counter: K, slot: &mut Slot, stamp: &mut impl Stamp) {
    on_one_line!();
    let before = counter.read();
    let raw = std::hint::black_box(stamp.stamp());
    let after = counter.read();
    (slot.before, slot.after, slot.raw) = (before, after, raw);
}
