//! A receiver that runs already, and a stream whose schedule nobody tells: the period is learned although the sender skips
//! slots and the receiver naps, and a receiver that falls behind is measured all the same.

use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_testbed::phase;
use quaver_testbed::privileged::privileged;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Set in the environment of the receiver program: packets between two sleeps, and how long it sleeps in microseconds.
const RECEIVER: &str = "QUAVER_TEST_SLEEPING_RECEIVER";
const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
const PERIOD_NS: f64 = 200_000.0;

fn now_ns() -> i64 {
    phase::now_ns() as i64
}

/// The receiver program; tells of each nap of more than a packet's distance when it was.
#[test]
fn a_sleeping_receiver() {
    let Ok(how) = std::env::var(RECEIVER) else { return };
    let (every, sleep_us) = how.split_once(' ').unwrap();
    let (every, sleep_us): (u64, u64) = (every.parse().unwrap(), sleep_us.parse().unwrap());
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    set_socket_recv_buffer_size_force(&socket, 32 << 20).unwrap();
    println!("\nport {}", socket.local_addr().unwrap().port());
    let mut buffer = [0u8; 2_048];
    for number in 1u64.. {
        socket.recv(&mut buffer).unwrap();
        if number % every == 0 {
            let from_ns = now_ns();
            std::thread::sleep(Duration::from_micros(sleep_us));
            if every > 1 {
                println!("nap {from_ns} {}", now_ns());
            }
        }
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one of these tests alone: they take a CPU each.
static TURN: Mutex<()> = Mutex::new(());

/// A chase of the receiver.
struct Chase {
    summary: Value,
    manifest: Manifest,
    /// Number of the sending process.
    sender: u32,
    /// When the receiver napped: CLOCK_MONOTONIC in nanoseconds.
    naps: Vec<Range<i64>>,
    /// What `quaver export --late-csv` writes.
    late: String,
}

/// A chase; the stream begins `ahead` of it.
fn chase(how: &str, ahead: Duration) -> Chase {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut receiver = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_sleeping_receiver", "--nocapture"])
        .env(RECEIVER, how)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
    let receiver = Ended(receiver);
    let port =
        lines.find_map(|line| line.unwrap().strip_prefix("port ").map(|port| port.parse::<u16>().unwrap()));
    let source = Command::new(QUAVER)
        .args(["source", &format!("127.0.0.1:{}", port.unwrap())])
        .args(["--period", "200us", "--size", "400", "--pace", "sleep", "--for", "60s", "--quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let source = Ended(source);
    let listener = std::thread::spawn(move || {
        let naps = lines.map_while(Result::ok).filter_map(|line| {
            let (from_ns, to_ns) = line.strip_prefix("nap ")?.split_once(' ')?;
            Some(from_ns.parse().unwrap()..to_ns.parse().unwrap())
        });
        naps.collect()
    });
    std::thread::sleep(ahead);
    let runs = tempfile::tempdir().unwrap();
    let output = Command::new(QUAVER)
        .args(["chase", "--for", "3s", "--quiet", "--json", "--pid", &receiver.0.id().to_string(), "-o"])
        .arg(runs.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let manifest = RunDir::open(&run).unwrap().read_manifest().unwrap();
    drop(receiver);
    let late = Command::new(QUAVER).arg("export").arg(run).args(["--late-csv", "-o", "-"]).output().unwrap();
    Chase {
        summary: serde_json::from_slice(&output.stdout).unwrap(),
        manifest,
        sender: source.0.id(),
        naps: listener.join().unwrap(),
        late: String::from_utf8(late.stdout).unwrap(),
    }
}

impl Chase {
    /// Late time during naps: all of it, and what is said to be the stream's. Outside of them a sender that is not let run
    /// makes packets late in truth.
    fn late_in_naps_ns(&self) -> [i64; 2] {
        let mut lines = self.late.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let column = |name: &str| header.iter().position(|found| *found == name).unwrap();
        let (start, end, source) = (column("start_ns"), column("end_ns"), column("source"));
        let mut found = [0; 2];
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            let (start_ns, end_ns): (i64, i64) = (cells[start].parse().unwrap(), cells[end].parse().unwrap());
            let within = |nap: &Range<i64>| (end_ns.min(nap.end) - start_ns.max(nap.start)).max(0);
            let late_ns: i64 = self.naps.iter().map(within).sum();
            found[0] += late_ns;
            found[1] += if cells[source] == "arrival-late" { late_ns } else { 0 };
        }
        found
    }
}

#[test]
fn the_period_is_learned_from_a_sender_that_skips_slots_for_a_receiver_that_naps() {
    if !privileged("the_period_is_learned_from_a_sender_that_skips_slots_for_a_receiver_that_naps") {
        return;
    }
    let chase = chase("250 3000", Duration::from_millis(500));
    let summary = &chase.summary;
    let period_ns = summary["period_ns"].as_f64().unwrap();
    assert!((period_ns / PERIOD_NS - 1.0).abs() < 1e-3, "{period_ns}: {}", summary["pace"]);
    assert_eq!(summary["pace"]["steady"], true, "{}", summary["pace"]);
    assert!(summary["lateness"]["packets"].as_u64().unwrap() > 100, "the naps: {}", summary["lateness"]);
    let [all_ns, of_stream_ns] = chase.late_in_naps_ns();
    assert!(all_ns > 20_000_000, "{all_ns} ns of late time in naps of 3 ms");
    assert!(
        of_stream_ns * 10 < all_ns,
        "{of_stream_ns} of {all_ns} ns are the stream's, while the receiver napped"
    );
    assert_eq!(summary.get("backlog"), None, "a nap is no backlog");
    // Whoever is named is the sender.
    let words =
        chase.manifest.analysis.unwrap().streams[0].source.clone().expect("the sender is on this host");
    assert!(words.ends_with(&format!("(process {})", chase.sender)), "{words}, and {} sends", chase.sender);
}

#[test]
fn a_receiver_that_falls_behind_is_measured_and_its_backlog_told() {
    if !privileged("a_receiver_that_falls_behind_is_measured_and_its_backlog_told") {
        return;
    }
    // Packets queue up that it needs seconds for, before anybody looks.
    let Chase { summary, .. } = chase("1 500", Duration::from_secs(4));
    let backlog = &summary["backlog"];
    let number = |name: &str| backlog[name].as_f64().unwrap_or_else(|| panic!("no {name} in {summary}"));
    assert!(number("taken_per_s") < number("came_per_s") * 0.9, "{backlog}");
    // It sleeps at least so long after each packet.
    assert!(number("taken_per_s") <= 2_000.0 && number("came_per_s") <= 5_100.0, "{backlog}");
    let grown = number("packets_at_end") - number("packets_at_start");
    let seconds = 3.0;
    let more = (number("came_per_s") - number("taken_per_s")) * seconds - number("dropped");
    assert!((grown - more).abs() <= 0.1 * more, "the queue grew by {grown}, and {more} more came: {backlog}");
    assert!(number("packets_at_start") > 1_000.0, "{backlog}");
    // A packet of 400 bytes takes at least its own length.
    assert!(number("bytes_at_end") >= 400.0 * number("packets_at_end") * 0.9, "{backlog}");
}
