//! Whole captures beside each other: our own program, tcpdump (on libpcap) and dumpcap, on streams of the same kind in turn.

use super::Bench;
use super::plan::FRAME_OVERHEAD;
use super::stream::Wanted;
use anyhow::Context;
use quaver_analysis::compare::{PeerPoint, Placement};
use quaver_measure::probe::profile::Profile;
use quaver_measure::probe::schedule::Schedule;
use quaver_measure::probe::source::Pace;
use quaver_measure::stamp::compare::{Peer, PeerCommand, PeerOutcome};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// 200,000 packets a second.
const PERIOD_NS: u64 = 5_000;
/// Octets of the packets.
const SIZES: [u32; 2] = [76, 512];
/// Longest wait for a program to say that it captures.
const START: Duration = Duration::from_secs(15);
/// Time that a program gets for packets that wait in its buffers: at an interruption, libpcap drops them uncounted, and
/// tcpdump looks after a second at the latest.
const DRAIN: Duration = Duration::from_millis(1_300);

/// Programs by name, and what they say on standard error when they capture.
const PROGRAMS: [(&str, &str); 3] =
    [("quaver", "capturing on"), ("tcpdump", "tcpdump: listening on"), ("dumpcap", "File:")];

/// Streams, and sentences on what could not be run.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<(Vec<PeerPoint>, Vec<String>)> {
    let (mut points, mut cannot) = (Vec::new(), Vec::new());
    let Some(plan) = &bench.plan.loss else { return Ok((points, cannot)) };
    let mut programs = Vec::new();
    for (name, ready) in PROGRAMS {
        match found(name) {
            Some(program) => programs.push((name, ready, program)),
            None => cannot.push(format!("{name} was not run beside our own capture: it is not installed.")),
        }
    }
    for placement in [Placement::Apart, Placement::Together] {
        let together = [bench.plan.cpus.capture];
        bench.lab.sink.steer_receive(if placement == Placement::Together { &together } else { &[] })?;
        for round in 0..plan.rounds {
            for frame_bytes in SIZES {
                // Another one first each time, so that what changes on the machine hits all alike.
                programs.rotate_left(1);
                for (name, ready, program) in &programs {
                    if bench.interrupt.requested() {
                        return Ok((points, cannot));
                    }
                    bench.progress.say(format!("capture by {name}: {frame_bytes} octets"));
                    let stream = Stream { placement, round, frame_bytes, packets: plan.packets * 5 };
                    // Within one thread from start to end, for the program is interrupted when its starter ends.
                    let result = bench.lab.sink.within(|| stream.captured_by(bench, name, ready, program))?;
                    match result {
                        Ok(point) => points.extend(point),
                        Err(error) => cannot.push(format!("{name} could not be judged: {error:#}.")),
                    }
                }
            }
        }
    }
    cannot.sort();
    cannot.dedup();
    bench.lab.sink.steer_receive(&[])?;
    Ok((points, cannot))
}

/// Our own file, or that of a program in PATH.
fn found(name: &str) -> Option<PathBuf> {
    if name == "quaver" {
        return std::env::current_exe().ok();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// One stream.
struct Stream {
    placement: Placement,
    round: u32,
    frame_bytes: u32,
    packets: u64,
}

impl Stream {
    /// None where the user interrupted.
    fn captured_by(
        &self,
        bench: &Bench<'_>,
        name: &str,
        ready: &'static str,
        program: &Path,
    ) -> anyhow::Result<Option<PeerPoint>> {
        let file = bench.run.path().join("peer.capture");
        // Owns the port, so that packets are not answered by errors. Nobody reads.
        let socket = bench.receiver()?;
        let port = socket.local_addr()?.port();
        let command = PeerCommand {
            program: program.to_path_buf(),
            arguments: arguments(name, &bench.lab.sink.interface, &file, port),
            ready,
            cpu: bench.plan.cpus.capture,
        };
        let peer = Peer::start(&command)?;
        let captures = peer.wait_ready(START);
        let report = if captures { Some(self.send(bench, socket.local_addr()?)?) } else { None };
        bench.wait(DRAIN, || false);
        let outcome = peer.end()?;
        // Only its counts are of interest.
        let _ = std::fs::remove_file(&file);
        if bench.interrupt.requested() {
            return Ok(None);
        }
        let sent = report.with_context(|| said(&outcome, "did not start to capture"))?;
        let (captured, dropped) =
            counts(name, &outcome).with_context(|| said(&outcome, "did not tell its counts"))?;
        Ok(Some(PeerPoint {
            program: name.to_owned(),
            placement: self.placement,
            round: self.round,
            frame_bytes: self.frame_bytes,
            sent,
            captured,
            dropped,
            cpu_ns: outcome.cpu_ns,
        }))
    }

    /// Packets sent.
    fn send(&self, bench: &Bench<'_>, to: std::net::SocketAddr) -> anyhow::Result<u64> {
        let schedule = Schedule::every(PERIOD_NS, 1)?;
        let profile = Profile::plain((self.frame_bytes - FRAME_OVERHEAD) as usize, schedule)?;
        let wanted = Wanted {
            profile: &profile,
            pace: Pace::Spin,
            packets: self.packets,
            stream_id: bench.plan.seed as u32 | 1,
            catch_up: false,
        };
        let stream = bench.send(to, &wanted)?;
        bench.wait(Duration::from_secs(60), || stream.is_finished());
        Ok(stream.end().sent)
    }
}

fn said(outcome: &PeerOutcome, what: &str) -> String {
    let last = outcome.errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    format!("it {what}; its last words: {last}")
}

/// 128 octets of each packet, and 64 MiB of buffer.
fn arguments(name: &str, interface: &str, file: &Path, port: u16) -> Vec<OsString> {
    let filter = format!("udp port {port}");
    // A change of user would make tcpdump outlive us should we be killed.
    let words = match name {
        "quaver" => &["capture", "-s", "128", "--layers", "none", "--json", "--filter"][..],
        "tcpdump" => &["-n", "-Z", "root", "--time-stamp-precision=nano", "-s", "128", "-B", "65536"],
        _ => &["-s", "128", "-B", "64", "-q", "-f"],
    };
    let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
    let file_option = if name == "quaver" { "-o" } else { "-w" };
    let place = [OsString::from("-i"), interface.into(), file_option.into(), file.into()];
    // The filter is the value of the last option, and for tcpdump what comes after all options.
    if name == "tcpdump" {
        all.extend(place);
        all.push(filter.into());
    } else {
        all.push(filter.into());
        all.extend(place);
    }
    all
}

/// Captured and dropped, as the program itself tells.
fn counts(name: &str, outcome: &PeerOutcome) -> Option<(u64, u64)> {
    match name {
        "quaver" => {
            let told: serde_json::Value = serde_json::from_str(&outcome.out).ok()?;
            Some((told["captured"].as_u64()?, told["dropped"].as_u64()?))
        }
        "tcpdump" => {
            let number = |words: &str| {
                let line = outcome.errors.lines().find(|line| line.contains(words))?;
                line.split_whitespace().next()?.parse().ok()
            };
            Some((number(" captured")?, number(" dropped by kernel")?))
        }
        _ => {
            let line = outcome.errors.lines().find(|line| line.contains("received/dropped on interface"))?;
            let (received, dropped) = line.split("': ").nth(1)?.split_whitespace().next()?.split_once('/')?;
            Some((received.parse().ok()?, dropped.parse().ok()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(out: &str, errors: &str) -> PeerOutcome {
        PeerOutcome { orderly: true, out: out.to_owned(), errors: errors.to_owned(), cpu_ns: 0 }
    }

    #[test]
    fn each_programs_own_counts_are_read() {
        let ours = told(r#"{"captured": 7, "dropped": 2}"#, "");
        assert_eq!(counts("quaver", &ours), Some((7, 2)));
        let tcpdump = "tcpdump: listening on v, link-type EN10MB (Ethernet), snapshot length 128 bytes\n\
            12 packets captured\n15 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(counts("tcpdump", &told("", tcpdump)), Some((12, 3)));
        let one = "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n";
        assert_eq!(counts("tcpdump", &told("", one)), Some((1, 0)));
        let dumpcap = "Capturing on 'v'\nFile: x\nPackets captured: 20\n\
            Packets received/dropped on interface 'v': 20/4 (pcap:4/dumpcap:0/flushed:0/ps_ifdrop:0) (83.3%)\n";
        assert_eq!(counts("dumpcap", &told("", dumpcap)), Some((20, 4)));
        for name in ["quaver", "tcpdump", "dumpcap"] {
            assert_eq!(counts(name, &told("", "no such device\n")), None);
        }
    }
}
