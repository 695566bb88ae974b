//! What the sink costs per packet, against bare loops of `recv` and `clock_gettime`, in alternating blocks on one
//! CPU. One bare loop calls the C library's `recv`; the other makes the system call in line, as the sink does:
//! what the sink adds is its cost over that one, as the wrapper alone can cost more than the sink's own work.
//! `cargo run --release -p quaver-probe --example sink_cost [BLOCKS] [CPU] [FILLING_CPU]`. Prints one JSON object.
//!
//! Each block drains packets that already lie in the socket's buffer, so no arrival is waited for; its figure is
//! the time from the first to the last stamp over the packets between them.

use quaver_abi::record::PacketRecord;
use quaver_abi::segment::SegmentHeader;
use quaver_clock::{Counter, monotonic_ns, nominal_scale};
use quaver_host::segment::SegmentWriter;
use quaver_probe::sink::{Sink, SinkOptions};
use quaver_probe::thread::ThreadSettings;
use rustix::net::RecvFlags;
use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use zerocopy::FromBytes;

const PACKETS: usize = 4_000;
const PAYLOAD_BYTES: usize = 1_376;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let blocks: usize = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let cpu: u16 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let settings = ThreadSettings::measuring(Some(cpu), Some(50));
    // Packets are freed at a price that depends on whether they were made on the same CPU, so fix that too.
    let filling_cpu: u16 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    ThreadSettings { cpu: Some(filling_cpu), ..ThreadSettings::default() }.prepare()?;
    let directory = std::env::temp_dir().join(format!("quaver-sink-cost-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let (mut libc, mut bare, mut plain, mut stamped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for block in 0..blocks {
        // Each kind comes in each place in turn.
        for place in 0..4 {
            match (block + place) % 4 {
                0 => bare.push(bare_block(&settings, receive_in_line)?),
                1 => libc.push(bare_block(&settings, receive_by_libc)?),
                2 => plain.push(sink_block(&settings, false, &directory.join("packets"))?),
                _ => stamped.push(sink_block(&settings, true, &directory.join("packets"))?),
            }
        }
    }
    std::fs::remove_dir(&directory)?;
    let added: Vec<f64> = plain.iter().zip(&bare).map(|(with, without)| with - without).collect();
    println!(
        "{{\"blocks\": {blocks}, \"packets_per_block\": {PACKETS}, \"payload_bytes\": {PAYLOAD_BYTES}, \
         \"bare_libc_ns\": {}, \"bare_in_line_ns\": {}, \"sink_ns\": {}, \"sink_kernel_stamps_ns\": {}, \"sink_added_ns\": {}}}",
        quartiles(libc),
        quartiles(bare),
        quartiles(plain),
        quartiles(stamped),
        quartiles(added)
    );
    Ok(())
}

fn quartiles(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
    format!("[{:.1}, {:.1}, {:.1}]", at(0.25), at(0.5), at(0.75))
}

/// Puts the packets into the buffer of the socket at `port`.
fn fill(port: u16) -> Result<(), Box<dyn Error>> {
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect((Ipv4Addr::LOCALHOST, port))?;
    let mut packet = [7u8; PAYLOAD_BYTES];
    packet[..4].copy_from_slice(&quaver_abi::wire::stream::MAGIC);
    for seq in 0..PACKETS as u64 {
        packet[8..16].copy_from_slice(&seq.to_be_bytes());
        sender.send(&packet)?;
    }
    Ok(())
}

fn receive_by_libc(socket: BorrowedFd<'_>, buffer: &mut [u8]) {
    // SAFETY: the buffer is valid for writing its length.
    unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
}

fn receive_in_line(socket: BorrowedFd<'_>, buffer: &mut [u8]) {
    let _ = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT);
}

fn bare_block(
    settings: &ThreadSettings,
    receive: impl Fn(BorrowedFd<'_>, &mut [u8]) + Send + 'static,
) -> Result<f64, Box<dyn Error>> {
    // The sink's own socket settings, for the same buffer.
    let sink = Sink::open(SinkOptions {
        receive_buffer_bytes: 64 << 20,
        ..SinkOptions::new((Ipv4Addr::LOCALHOST, 0).into(), Counter::Hardware)
    })?;
    fill(sink.local_address().port())?;
    let settings = settings.clone();
    let thread = std::thread::spawn(move || {
        let _prepared = settings.prepare();
        let mut buffer = vec![0u8; 9_216];
        let mut stamps = vec![1i64; PACKETS];
        for stamp in &mut stamps {
            receive(sink.as_fd(), &mut buffer);
            *stamp = monotonic_ns();
        }
        (stamps[PACKETS - 1] - stamps[0]) as f64 / (PACKETS - 1) as f64
    });
    thread.join().map_err(|_| "the bare loop panicked".into())
}

fn sink_block(
    settings: &ThreadSettings,
    kernel_stamps: bool,
    path: &std::path::Path,
) -> Result<f64, Box<dyn Error>> {
    let sink = Sink::open(SinkOptions {
        receive_buffer_bytes: 64 << 20,
        kernel_stamps,
        thread: settings.clone(),
        ..SinkOptions::new((Ipv4Addr::LOCALHOST, 0).into(), Counter::Hardware)
    })?;
    fill(sink.local_address().port())?;
    let sink = sink.prepare(SegmentWriter::create(path, PACKETS as u64)?)?.go();
    while sink.live().received() < PACKETS as u64 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let outcome = sink.join()?;
    let summary = outcome.segment.finish()?;
    let octets = std::fs::read(&summary.path)?;
    std::fs::remove_file(&summary.path)?;
    let records: Vec<PacketRecord> = octets[size_of::<SegmentHeader>()..]
        .chunks_exact(size_of::<PacketRecord>())
        .filter_map(|record| PacketRecord::read_from_bytes(record).ok())
        .collect();
    let (Some(first), Some(last)) = (records.first(), records.last()) else {
        return Err("no packets".into());
    };
    let scale = nominal_scale(Counter::Hardware);
    Ok(scale.ns(last.app_cycles - first.app_cycles) as f64 / (records.len() - 1) as f64)
}
