//! Blocks that are cut out of one recording: what one of them saw is in no other.

use clap::{Args as _, Command, FromArgMatches as _};
use quaver_abi::wire::stream::{MAGIC, StreamHeader};
use quaver_chase::args::ChaseArgs;
use quaver_chase::chase::observe::Blocks;
use quaver_chase::digest::ChaseDigest;
use quaver_instrument::interrupt::Interrupt;
use quaver_testbed::privileged::privileged;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use zerocopy::IntoBytes as _;
use zerocopy::byteorder::network_endian::{I64, U32, U64};

const PERIOD: Duration = Duration::from_millis(1);
const WASH_OUT: Duration = Duration::from_millis(50);

/// A stream within this process. Whoever holds `gate` holds the receiver up.
struct Stream {
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    gate: Arc<Mutex<()>>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let to = socket.local_addr().unwrap();
        let (sent, received) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (gate, ends) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let receive = {
            let (received, gate, ends) = (Arc::clone(&received), Arc::clone(&gate), Arc::clone(&ends));
            move || {
                while !ends.load(Ordering::Relaxed) {
                    let _open = gate.lock().unwrap();
                    if socket.recv(&mut [0; 200]).is_ok() {
                        received.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        };
        let send = {
            let (sent, ends) = (Arc::clone(&sent), Arc::clone(&ends));
            move || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                while !ends.load(Ordering::Relaxed) {
                    let header = StreamHeader {
                        magic: MAGIC,
                        stream_id: U32::new(1),
                        seq: U64::new(sent.load(Ordering::Relaxed)),
                        deadline_ns: I64::new(1),
                        sent_ns: I64::new(2),
                    };
                    socket.send_to(header.as_bytes(), to).unwrap();
                    sent.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(PERIOD);
                }
            }
        };
        let threads = vec![std::thread::spawn(receive), std::thread::spawn(send)];
        Self { sent, received, gate, ends, threads }
    }

    /// Holds the receiver up until a hundred packets wait.
    fn hold(&self) -> MutexGuard<'_, ()> {
        let held = self.gate.lock().unwrap();
        // One may have been read before it was counted as sent.
        let enough = self.sent.load(Ordering::Relaxed) + 101;
        while self.sent.load(Ordering::Relaxed) < enough {
            std::thread::yield_now();
        }
        held
    }

    fn wait_until_read(&self, number: u64) {
        while self.received.load(Ordering::Relaxed) < number {
            std::thread::yield_now();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn arguments(directory: &Path) -> ChaseArgs {
    let output = directory.to_str().unwrap();
    let command = ChaseArgs::augment_args(Command::new("chase"));
    let matches = command.get_matches_from(["chase", "--for", "200ms", "--output", output]);
    ChaseArgs::from_arg_matches(&matches).unwrap()
}

/// The numbers of a block's packets, of which none was lost and all were read in its window.
fn numbers(block: &ChaseDigest) -> BTreeSet<u64> {
    let window = block.manifest.analysis.as_ref().and_then(|facts| facts.window).unwrap();
    let packets = &block.run.packets;
    let inside = |ns: &i64| (window.start_ns..window.end_ns).contains(ns);
    assert!(packets.app_ns.iter().all(inside), "{window:?}");
    let numbers: BTreeSet<u64> = packets.seq.iter().copied().collect();
    let span = numbers.last().unwrap() - numbers.first().unwrap() + 1;
    assert_eq!((numbers.len(), span), (packets.len(), packets.len() as u64), "each once, and all of them");
    let losses = &block.analysis.summary.losses;
    assert_eq!((losses.unaccounted, losses.network, losses.received), (0, Some(0), packets.len() as u64));
    numbers
}

#[test]
fn what_is_read_between_two_blocks_or_in_one_is_in_no_other() {
    if !privileged("what_is_read_between_two_blocks_or_in_one_is_in_no_other") {
        return;
    }
    let (directory, interrupt, stream) =
        (tempfile::tempdir().unwrap(), Interrupt::default(), Stream::start());
    let args = arguments(directory.path());
    let blocks = Blocks::open(std::process::id(), &interrupt).unwrap();
    let (blocks, first) = blocks.measure(&args, WASH_OUT, &interrupt).unwrap();
    // All of these are late, and all are read between the blocks.
    let held = stream.hold();
    let waiting = stream.received.load(Ordering::Relaxed)..stream.sent.load(Ordering::Relaxed);
    drop(held);
    stream.wait_until_read(waiting.end);
    let (blocks, second) = blocks.measure(&args, WASH_OUT, &interrupt).unwrap();
    let (first, second) = (numbers(&first), numbers(&second));
    assert!(first.last().unwrap() < &waiting.end && &waiting.end <= second.first().unwrap());
    assert!(waiting.end - waiting.start >= 100);
    // A receiver that reads nothing: its packets come to the block, and to nobody.
    let held = stream.hold();
    let (blocks, third) = blocks.measure(&args, WASH_OUT, &interrupt).unwrap();
    assert_eq!((third.run.packets.len(), &third.manifest.interrupted), (0, &None));
    assert!(third.run.unread.unwrap().packets > 0);
    assert_eq!(third.analysis.summary.lateness.packets, 1, "the one that came first");
    let end = stream.sent.load(Ordering::Relaxed);
    drop(held);
    stream.wait_until_read(end);
    let (_, fourth) = blocks.measure(&args, WASH_OUT, &interrupt).unwrap();
    assert!(numbers(&fourth).first().unwrap() >= &end);
    // One may come just before the end: none that the third block left unread is unread in this one.
    let window = fourth.manifest.analysis.as_ref().and_then(|facts| facts.window).unwrap();
    assert!(fourth.run.unread.is_none_or(|unread| unread.since_ns > window.start_ns));
}
