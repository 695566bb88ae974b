//! Converter threads: cycles in by one lock-free ring, instants out by another.

use super::{Convert, PipelineError};
use quaver_abi::stamp::LayerStamp;
use quaver_clock::{Counter, CycleCounter};
use quaver_probe::thread::ThreadSettings;
use quaver_waiting as waiting;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Cycles for a converter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) cycles: u64,
    pub(super) sequence: u32,
}

/// What a converter made of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) stamp: LayerStamp,
    pub(super) sequence: u32,
}

/// The stamper's end of a lane.
#[derive(Debug)]
pub(super) struct LaneOut {
    pub(super) to_converter: Producer<Order>,
    /// Number of the next order.
    pub(super) sequence: u32,
}

/// The resolver's end of a lane. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct LaneBack {
    pub(super) from_converter: Consumer<Delivery>,
    /// Lowest number that can still come.
    pub(super) expected: u32,
    /// Raw cycles that the thread spent on orders: taking, converting and handing over, without waits for the next.
    pub(super) busy_cycles: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for LaneBack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread was already dealt with: what it owed was converted by the resolver.
            let _ = waiting::join("quaver-conv", thread);
        }
    }
}

/// Turns spent looking for work before the thread sleeps: about 10 µs.
const LOOKS: u32 = 300;
/// How long it then sleeps between looks. A wake-up from the hot path would cost it a system call.
const NAP: Duration = Duration::from_micros(50);

/// Starts converter `index`; it ends when the resolver's end is dropped, or the stamper's and all is converted.
pub(super) fn spawn<C: Convert>(
    index: usize,
    slots: usize,
    settings: ThreadSettings,
    counter: Counter,
    convert: C,
) -> Result<(LaneOut, LaneBack), PipelineError> {
    let (to_converter, orders) = RingBuffer::new(slots);
    let (deliveries, from_converter) = RingBuffer::new(slots);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let busy_cycles = Arc::new(AtomicU64::new(0));
    let busy = Arc::clone(&busy_cycles);
    let (tell, told) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name(format!("quaver-conv-{index}"))
        .spawn(move || {
            let prepared = settings.prepare();
            let ready = prepared.is_ok();
            if tell.send(prepared.map(drop)).is_ok() && ready {
                run(orders, deliveries, &convert, &flag, (counter, &busy));
            }
        })
        .map_err(PipelineError::Spawn)?;
    let settled = waiting::hear("quaver-conv", &told).map_err(PipelineError::Spawn)?;
    settled.expect("the thread tells how its settings went before anything else can end it")?;
    let back = LaneBack { from_converter, expected: 0, busy_cycles, stop, thread: Some(thread) };
    Ok((LaneOut { to_converter, sequence: 0 }, back))
}

fn run<C: Convert>(
    mut orders: Consumer<Order>,
    mut deliveries: Producer<Delivery>,
    convert: &C,
    stop: &AtomicBool,
    (counter, busy): (Counter, &AtomicU64),
) {
    let mut idle = 0;
    while !stop.load(Ordering::Acquire) {
        // Asked before the ring is looked at: what was pushed before the stamper went is then seen.
        let last_look = orders.is_abandoned();
        let began = counter.read();
        let Ok(order) = orders.pop() else {
            if last_look {
                return;
            }
            wait(&mut idle);
            continue;
        };
        idle = 0;
        let mut delivery = Delivery { stamp: convert.layer_stamp(order.cycles), sequence: order.sequence };
        while let Err(PushError::Full(back)) = deliveries.push(delivery) {
            if stop.load(Ordering::Acquire) || deliveries.is_abandoned() {
                return;
            }
            delivery = back;
            wait(&mut idle);
        }
        // This thread alone writes it.
        let spent = counter.read().saturating_sub(began);
        busy.store(busy.load(Ordering::Relaxed) + spent, Ordering::Relaxed);
    }
}

fn wait(idle: &mut u32) {
    if *idle < LOOKS {
        *idle += 1;
        std::hint::spin_loop();
    } else {
        std::thread::park_timeout(NAP);
    }
}
