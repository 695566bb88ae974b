//! How many test packets a second go over loopback from one thread to another, and what they cost.
//! `cargo run --release -p quaver-path-flow --example path_speed [PACKETS_PER_S] [SECONDS] [OCTETS] [TRAIN] [PACE]
//! [GATHER_US]`
//! with packets of a train (0: as many as the rate needs, 1: none) and pace `spin`, `sleep` or `hybrid`. Sender and receiver each stay on a CPU of their own where there are two.
//! Prints one JSON object; ends with status 1 if anything is lost.

use quaver_path_flow::{
    FlowSchedule, FlowSpec, ReceiveReport, Received, SendReport, TestSocket, TrainWish, prepare_receive,
    receive_flow, send_flow,
};
use quaver_probe::source::Pace;
use quaver_probe::thread::ThreadSettings;
use std::error::Error;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize, usual: u64| arguments.get(place).map_or(Ok(usual), |text| text.parse::<u64>());
    let (rate, seconds, octets) = (number(0, 200_000)?, number(1, 10)?, number(2, 80)?);
    let schedule = FlowSchedule::every(1_000_000_000 / rate.max(1));
    let mut spec = FlowSpec::new(u32::try_from(octets)?, Some(rate * seconds), schedule);
    spec.train = match u16::try_from(number(3, 0)?)? {
        0 => TrainWish::Auto,
        packets => TrainWish::Packets(packets),
    };
    spec.lasting_ns = Some(seconds * 1_000_000_000);
    spec.pace = match arguments.get(4).map(String::as_str) {
        Some("spin") => Pace::Spin,
        Some("sleep") => Pace::Sleep,
        None | Some("hybrid") => Pace::Hybrid,
        Some(other) => return Err(format!("pace {other}: give spin, sleep or hybrid").into()),
    };
    spec.gather_ns = number(5, 0)? * 1_000;
    let (sent, received, packets) = run(&spec)?;
    let unique = packets.iter().filter(|packet| packet.singleton.flags == 0).count() as u64;
    let lost = sent.summary.packets - unique;
    print(&spec, &sent, &received, &packets, lost);
    Ok(if lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(spec: &FlowSpec) -> Result<(SendReport, ReceiveReport, Vec<Received>), Box<dyn Error>> {
    let receiving = TestSocket::udp((Ipv4Addr::LOCALHOST, 0).into(), false)?;
    let sending = TestSocket::udp((Ipv4Addr::LOCALHOST, 0).into(), false)?;
    sending.connect(receiving.local_address()?)?;
    receiving.connect(sending.local_address()?)?;
    prepare_receive(&receiving, spec)?;
    let (acknowledged, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    // Written to once, so that no page is missing when packets come.
    let mut packets = Vec::with_capacity(usize::try_from(spec.packets.unwrap_or(0))? + 1_024);
    let (received, sent) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let _ = ThreadSettings { cpu: Some(1), ..ThreadSettings::default() }.prepare();
            let report = receive_flow(&receiving, spec, &mut |batch| packets.extend_from_slice(batch), &stop);
            acknowledged.store(true, Ordering::Release);
            report
        });
        let _ = ThreadSettings { cpu: Some(0), ..ThreadSettings::default() }.prepare();
        let sent = send_flow(&sending, spec, &acknowledged, &stop);
        (receiver.join().expect("the receiver does not panic"), sent)
    });
    Ok((sent?, received?, packets))
}

fn print(spec: &FlowSpec, sent: &SendReport, received: &ReceiveReport, packets: &[Received], lost: u64) {
    let duration_s = (sent.last_deadline_ns - sent.start_ns) as f64 / 1e9;
    let mut delays: Vec<i64> =
        packets.iter().map(|p| p.singleton.rx_real_time_ns - p.singleton.tx_real_time_ns).collect();
    delays.sort_unstable();
    let delay = |part: f64| delays.get((delays.len().max(1) - 1).min((delays.len() as f64 * part) as usize));
    let own = received.summary.own_drops.unwrap_or(0);
    println!("{{");
    println!(
        "  \"packet_bytes\": {}, \"mean_period_ns\": {},",
        spec.packet_bytes,
        spec.schedule.mean_period_ns()
    );
    println!(
        "  \"sent\": {}, \"rate_per_s\": {:.1},",
        sent.summary.sent,
        sent.summary.packets as f64 / duration_s.max(1e-9)
    );
    println!(
        "  \"misses\": {}, \"late\": {}, \"unsent\": {},",
        sent.summary.misses,
        sent.summary.sending.unwrap().late,
        sent.summary.sending.unwrap().unsent
    );
    println!(
        "  \"failed_to_send\": {}, \"longest_train\": {}, \"of_trains\": {},",
        sent.summary.packets - sent.summary.sent,
        sent.summary.sending.unwrap().longest_train,
        received.summary.of_trains
    );
    println!("  \"batched\": {}, \"largest_batch\": {},", sent.batched, sent.largest_batch);
    println!(
        "  \"received\": {}, \"duplicates\": {},",
        received.summary.received, received.summary.duplicates
    );
    println!("  \"lost\": {lost}, \"lost_in_our_buffer\": {own},");
    println!("  \"slope_ppm\": {:.6},", sent.slope_ppm.unwrap_or(f64::NAN));
    println!(
        "  \"lateness_ns\": {{\"mean\": {:.1}, \"p50_p90_p99_p999_p9999\": {:?}, \"largest\": {}}},",
        sent.summary.lateness.mean_ns, sent.summary.lateness.quantiles_ns, sent.summary.lateness.largest_ns
    );
    println!(
        "  \"delay_ns\": {{\"p50\": {:?}, \"p99\": {:?}, \"largest\": {:?}}},",
        delay(0.5).unwrap_or(&0),
        delay(0.99).unwrap_or(&0),
        delay(1.0).unwrap_or(&0)
    );
    println!("  \"stamped_by_hardware_kernel_application\": {:?},", received.summary.stamped_by);
    println!(
        "  \"sender_cpu_ms_per_million\": {:.1},",
        sent.summary.cpu_ns_per_million().unwrap_or(0.0) / 1e6
    );
    println!(
        "  \"receiver_cpu_ms_per_million\": {:.1},",
        received.summary.cpu_ns as f64 / received.summary.received.max(1) as f64
    );
    println!(
        "  \"receive_calls\": {}, \"receive_buffer_bytes\": {},",
        received.batches, received.receive_buffer_bytes
    );
    println!("  \"sent_usage\": \"{:?}\",", sent.usage);
    println!("  \"received_usage\": \"{:?}\",", received.usage);
    println!("  \"ends\": \"{:?}, {:?}\"", sent.end, received.end);
    println!("}}");
}
