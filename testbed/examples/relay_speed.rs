//! How many packets a second the relay carries: `relay_speed [SECONDS [PACKETS_PER_SECOND]]`. Sends 80 bytes over
//! loopback at that rate (none: as fast as it goes) and prints a line of JSON.

use quaver_testbed::relay::script::{Rule, Script};
use quaver_testbed::relay::{Keep, Relay, RelayOptions};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a receiver waits before it takes the flow for ended.
const SILENCE: Duration = Duration::from_millis(500);
/// Room for packets while the receiver has no CPU.
const BUFFER_BYTES: usize = 32 << 20;

fn main() -> anyhow::Result<()> {
    let words: Vec<f64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let length = Duration::from_secs_f64(words.first().copied().unwrap_or(2.0));
    let rate = words.get(1).copied();
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    server.set_read_timeout(Some(SILENCE))?;
    // Beyond the system's limit where that is permitted.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&server, BUFFER_BYTES).is_err() {
        rustix::net::sockopt::set_socket_recv_buffer_size(&server, BUFFER_BYTES)?;
    }
    // A rule for each packet, so that its cost is in the figure.
    let script = Script { up: vec![Rule::chance(0.01).dropped()], ..Script::default() };
    let relay = Relay::start(RelayOptions {
        listen: Ipv4Addr::LOCALHOST.into(),
        control_port: 0,
        test_port: 0,
        server_control: None,
        server_test: server.local_addr()?,
        script,
        keep: Keep::Totals,
    })?;
    let receiver = std::thread::spawn(move || {
        let mut room = [0; 2048];
        std::iter::from_fn(|| server.recv(&mut room).ok()).count()
    });
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    client.connect(relay.test_address())?;
    let (start, mut sent) = (Instant::now(), 0_u64);
    while start.elapsed() < length {
        let due = rate.map_or(u64::MAX, |rate| (start.elapsed().as_secs_f64() * rate) as u64);
        if sent < due {
            let mut octets = [0; 80];
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            octets[..8].copy_from_slice(&(now.as_nanos() as i64).to_be_bytes());
            octets[8..12].copy_from_slice(&(sent as i32).to_be_bytes());
            client.send(&octets)?;
            sent += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let received = receiver.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
    let report = relay.stop()?;
    let figures = serde_json::json!({
        "seconds": seconds,
        "sent": sent,
        "sent_per_second": (sent as f64 / seconds).round(),
        "carried_per_second": (report.totals.up.arrived as f64 / seconds).round(),
        "received": received,
        "dropped_by_rule": report.totals.up.dropped,
        "unread_by_relay": report.unread,
        "lost_behind_relay": report.totals.up.sent_on - received as u64,
    });
    println!("{figures}");
    Ok(())
}
