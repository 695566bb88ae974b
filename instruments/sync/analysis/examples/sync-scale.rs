//! Times the analysis of a large made-up history of synchronisation: `sync-scale [EVENTS]`, a hundred million by
//! default, sixteen threads on conditions, barriers and a thousand locks. Prints seconds (by the clock, and on a CPU)
//! and the peak of memory. Events are made as they are wanted; the time to make them is printed apart.

use quaver_abi::sync::{SyncKind, SyncOutcome};
use quaver_sync_analysis::sync::{Protocol, Settings, SyncEvent, ThreadId};
use std::time::Instant;

const THREADS: u32 = 16;

/// Rounds of pairs of threads on locks and conditions, now and then all at a barrier.
struct History {
    state: u64,
    at_ns: u64,
    left: u64,
    queue: Vec<SyncEvent>,
}

impl History {
    fn random(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    fn say(&mut self, thread: u32, kind: SyncKind, object: u64) {
        let pause_ns = self.random(4_000);
        // One pause in thirty is long, so that some are late.
        self.at_ns += if pause_ns < 130 { 30_000 } else { pause_ns / 8 };
        let cpu = if self.random(100) == 0 { (thread + 1) % THREADS } else { thread };
        self.queue.push(SyncEvent {
            at_ns: self.at_ns,
            object,
            call_site: 0x4000 + object % 64,
            thread: ThreadId(100 + thread),
            detail: 0,
            cpu: cpu as u16,
            process: 0,
            kind,
            outcome: SyncOutcome::Ok,
            flags: 0,
        });
    }

    fn round(&mut self) {
        let one = self.random(u64::from(THREADS)) as u32;
        let other = (one + 1 + self.random(u64::from(THREADS) - 1) as u32) % THREADS;
        match self.random(10) {
            0 => {
                (0..THREADS).for_each(|thread| self.say(thread, SyncKind::BarrierEntry, 0x10_0000));
                (0..THREADS).for_each(|thread| self.say(thread, SyncKind::BarrierExit, 0x10_0000));
            }
            1..=6 => {
                let lock = 0x20_0000 + self.random(1_000) * 64;
                self.say(one, SyncKind::LockEntry, lock);
                self.say(other, SyncKind::UnlockEntry, lock);
                self.say(other, SyncKind::UnlockExit, lock);
                self.say(one, SyncKind::LockExit, lock);
            }
            _ => {
                let condition = 0x30_0000 + self.random(50) * 64;
                self.say(one, SyncKind::WaitEntry, condition);
                self.say(other, SyncKind::SignalEntry, condition);
                self.say(other, SyncKind::SignalExit, condition);
                self.say(one, SyncKind::WaitExit, condition);
            }
        }
        self.queue.reverse();
    }
}

impl Iterator for History {
    type Item = SyncEvent;

    fn next(&mut self) -> Option<SyncEvent> {
        self.left = self.left.checked_sub(1)?;
        if self.queue.is_empty() {
            self.round();
        }
        self.queue.pop()
    }
}

fn history(events: u64) -> History {
    History { state: 1, at_ns: 1_000_000_000, left: events, queue: Vec::new() }
}

fn memory_mib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Time that this thread had a CPU, seconds.
fn on_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let events = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000_000);
    let on_cpu = on_cpu_s();
    let sum = history(events).fold(0u64, |sum, event| sum ^ event.at_ns);
    let making = on_cpu_s() - on_cpu;
    let (start, on_cpu) = (Instant::now(), on_cpu_s());
    let mut protocol = Protocol::new(Settings::default());
    history(events).for_each(|event| protocol.event(&event));
    let results = protocol.finish();
    println!(
        "{events} events: {:.2} s, {:.2} s on a CPU, of which {making:.2} s to make them (sum {sum:x})",
        start.elapsed().as_secs_f64(),
        on_cpu_s() - on_cpu
    );
    println!(
        "{} late, {:.4} % of {} wake-ups matched; peak {} MiB",
        results.late.count,
        100.0 * results.coverage.share().unwrap_or(0.0),
        results.coverage.wake_ups,
        memory_mib("VmHWM")
    );
}
