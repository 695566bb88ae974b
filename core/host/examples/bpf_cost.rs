//! Added time per packet of the BPF tier: blocks of packets with recording on and off in turn, one thread that
//! sends to itself over the loopback device, so that the whole path runs on one CPU. Needs root.
//!
//! `--observed` follows this process as `quaver chase --pid` does; `--no-threads` leaves out what is recorded of its threads.
//!
//! `cargo run --release -p quaver-host --features bpf --example bpf_cost`

use quaver_abi::record::{EventRecord, StampRecord};
use quaver_host::trace::{Flow, Payload, TraceError, TraceSink, TraceSpec};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Instant;

const BLOCKS: usize = 24;
const PACKETS: u64 = 20_000;

/// Counts, and forgets.
#[derive(Default)]
struct Counted {
    stamps: u64,
    complete: u64,
    events: u64,
}

impl TraceSink for Counted {
    fn stamp(&mut self, record: StampRecord) {
        self.stamps += 1;
        self.complete += u64::from(record.receive_ns != 0 && record.enqueued_ns != 0 && record.ready_ns != 0);
    }
    fn event(&mut self, _: EventRecord) {
        self.events += 1;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(socket.local_addr()?)?;
    let asked = |option: &str| std::env::args().any(|argument| argument == option);
    let (anywhere, observed) = (asked("--any-address"), asked("--observed"));
    let mut tracer = quaver_host::bpf::start(&TraceSpec {
        flow: Some(Flow {
            address: (!anywhere).then_some(Ipv4Addr::LOCALHOST.into()),
            ports: vec![socket.local_addr()?.port()],
            payload: Payload::Ours { offset: 0 },
        }),
        threads: if asked("--no-threads") { Vec::new() } else { vec![std::process::id()] },
        observed_process: observed.then(std::process::id),
        cpus: Vec::new(),
        stamp_capacity: 1 << 16,
        event_capacity: 1 << 18,
    })?;
    if !observed {
        tracer.attach_receiver(socket.as_fd())?;
    }
    tracer.set_recording(false)?;
    let mut counted = Counted::default();
    let mut payload = [0u8; 1400];
    payload[..4].copy_from_slice(&quaver_abi::wire::stream::MAGIC);
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for block in 0..BLOCKS * 2 {
        // on, off, off, on: a drift falls on both alike.
        let recording = matches!(block % 4, 0 | 3);
        tracer.set_recording(recording)?;
        block_ns(&socket, &sender, &mut payload, PACKETS / 10)?;
        let per_packet_ns = block_ns(&socket, &sender, &mut payload, PACKETS)?;
        if recording {
            on.push(per_packet_ns)
        } else {
            off.push(per_packet_ns)
        }
        tracer.drain(&mut counted).map_err(|error: TraceError| error.to_string())?;
    }
    let counts = tracer.finish(&mut counted)?;
    on.sort_by(f64::total_cmp);
    off.sort_by(f64::total_cmp);
    println!("off  {:8.1} ns per packet (median of {} blocks)", off[off.len() / 2], off.len());
    println!("on   {:8.1} ns per packet (median of {} blocks)", on[on.len() / 2], on.len());
    println!("cost {:8.1} ns per packet", on[on.len() / 2] - off[off.len() / 2]);
    println!("smallest blocks: off {:.1}, on {:.1}, difference {:.1} ns", off[0], on[0], on[0] - off[0]);
    println!(
        "{} stamps, {} with all layers, {} events; {counts:?}",
        counted.stamps, counted.complete, counted.events
    );
    Ok(())
}

/// Mean time to send one packet and receive it.
fn block_ns(
    socket: &UdpSocket,
    sender: &UdpSocket,
    payload: &mut [u8],
    packets: u64,
) -> std::io::Result<f64> {
    let mut buffer = [0; 2048];
    let start = Instant::now();
    for seq in 0..packets {
        payload[8..16].copy_from_slice(&seq.to_be_bytes());
        sender.send(payload)?;
        socket.recv(&mut buffer)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / packets as f64)
}
