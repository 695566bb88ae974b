//! Whole captures beside each other: our own program, one on libpcap that only counts, tcpdump and dumpcap, on streams of
//! the same kind in turn.

use super::far::refusal;
use super::plan::FRAME_OVERHEAD;
use super::stream::{Stream, Waiting};
use super::traffic::Wanted;
use super::{Bench, by_libpcap};
use crate::compare::record::{Peer, PeerCommand, PeerOutcome};
use anyhow::Context;
use quaver_capture_analysis::compare::{PeerPoint, Placement};
use quaver_instrument::exit_code::sentence;
use quaver_path_record::StreamShape;
use quaver_probe::source::Pace;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// 200,000 packets a second.
const PERIOD_NS: u64 = 5_000;
/// Packets of a stream, two million in three rounds; of a quick comparison a tenth.
const PACKETS: u64 = 700_000;
/// Bytes of the packets.
const SIZES: [u32; 2] = [76, 512];
/// A stream takes no longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Longest wait for a program to say that it captures.
const START: Duration = Duration::from_secs(15);
/// Time that programs get for packets that wait in their buffers, so that their work is counted: at an interruption, libpcap
/// drops them uncounted, and tcpdump looks after a second at the latest.
const DRAIN: Duration = Duration::from_millis(1_300);

/// Programs by name, and what they say on standard error when they capture.
const PROGRAMS: [(&str, &str); 5] = [
    ("quaver", "capturing on"),
    (AGAIN, "capturing on"),
    (LIBPCAP, by_libpcap::READY),
    ("tcpdump", "tcpdump: listening on"),
    ("dumpcap", "File:"),
];
/// Ours once more, which must cost the same.
const AGAIN: &str = "quaver again";
/// A program of one's own on libpcap.
const LIBPCAP: &str = "libpcap program";

/// Streams, and sentences on what could not be run.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<(Vec<PeerPoint>, Vec<String>)> {
    let (mut points, mut cannot) = (Vec::new(), Vec::new());
    let Some(plan) = &bench.plan.loss else { return Ok((points, cannot)) };
    let packets = if bench.plan.quick { PACKETS / 10 } else { PACKETS };
    let mut programs = Vec::new();
    for (name, ready) in PROGRAMS {
        match found(name) {
            Some(program) => programs.push((name, ready, program)),
            None => cannot.push(format!("{name} was not compared: not installed.")),
        }
    }
    for &placement in bench.plan.cpus.placements() {
        if bench.place.share_cpu(placement == Placement::Together, &bench.plan.cpus)?.is_err()
            && placement == Placement::Together
        {
            // The sweeps before have said why.
            continue;
        }
        for round in 0..plan.rounds {
            for frame_bytes in SIZES {
                // Another one first each time, so that what changes on the machine hits all alike.
                programs.rotate_left(1);
                for (name, ready, program) in &programs {
                    if bench.stopped() {
                        return Ok((points, cannot));
                    }
                    bench.progress.say(format!("capture by {name}: {frame_bytes} bytes"));
                    let stream = Trial { placement, round, frame_bytes, packets };
                    // Within one thread from start to end, for the program is interrupted when its starter ends.
                    let result = bench.place.within(|| stream.captured_by(bench, name, ready, program))?;
                    match result {
                        Ok(point) => points.extend(point),
                        Err(error) => {
                            cannot.push(format!("{name} could not be measured: {}.", sentence(&error)));
                            if refusal(&error).is_some() {
                                // So would it be for every other program.
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    cannot.sort();
    cannot.dedup();
    cannot.extend(bench.place.share_cpu(false, &bench.plan.cpus)?.err());
    Ok((points, cannot))
}

/// Our own file, or that of a program in PATH.
fn found(name: &str) -> Option<PathBuf> {
    if ["quaver", AGAIN, LIBPCAP].contains(&name) {
        return std::env::current_exe().ok();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// One stream, captured by one program.
struct Trial {
    placement: Placement,
    round: u32,
    frame_bytes: u32,
    packets: u64,
}

impl Trial {
    /// None where the user interrupted.
    fn captured_by(
        &self,
        bench: &Bench<'_>,
        name: &str,
        ready: &'static str,
        program: &Path,
    ) -> anyhow::Result<Option<PeerPoint>> {
        let file = bench.run.path().join("peer.capture");
        let interface =
            bench.place.interface().context("the kernel does not tell which interface packets come in by")?;
        // Owns the port, so that packets are not answered by errors. Nobody reads.
        let (socket, source) = bench.meet(self.wanted(bench))?;
        let port = socket.local_addr()?.port();
        let command = PeerCommand {
            program: program.to_path_buf(),
            arguments: arguments(name, interface, &file, port),
            ready,
            cpu: bench.plan.cpus.capture,
        };
        let peer = Peer::start(&command)?;
        let captures = peer.wait_ready(START);
        let startup_cpu_ns = peer.cpu_ns();
        let report = if captures { Some(self.send(bench, source, &peer)?) } else { None };
        bench.wait(DRAIN, || false);
        let ended_ns = peer.cpu_ns();
        let outcome = peer.end()?;
        // Only its counts are of interest.
        let _ = std::fs::remove_file(&file);
        if bench.stopped() {
            return Ok(None);
        }
        let Sending { sent, steady_sent, steady_from_ns } =
            report.with_context(|| said(&outcome, "did not start to capture"))?;
        let (captured, dropped) =
            counts(name, &outcome).with_context(|| said(&outcome, "printed no counts"))?;
        Ok(Some(PeerPoint {
            program: name.to_owned(),
            placement: self.placement,
            round: self.round,
            frame_bytes: self.frame_bytes,
            sent,
            captured,
            dropped,
            startup_cpu_ns,
            steady_sent,
            steady_cpu_ns: ended_ns.saturating_sub(steady_from_ns),
        }))
    }

    fn send(&self, bench: &Bench<'_>, source: Waiting, peer: &Peer) -> anyhow::Result<Sending> {
        let mut stream = bench.start(source)?;
        let began = Instant::now();
        // Another host tells what it sent at the end only.
        let so_far = |stream: &Stream| {
            stream.sent().unwrap_or((began.elapsed().as_nanos() / u128::from(PERIOD_NS)) as u64)
        };
        bench.wait(LONGEST, || so_far(&stream) >= self.packets / 10 || stream.is_finished());
        let (steady_from_ns, warm_up) = (peer.cpu_ns(), so_far(&stream));
        bench.wait(LONGEST, || stream.is_finished());
        let sent = bench.end(stream).sent;
        Ok(Sending { sent, steady_sent: sent.saturating_sub(warm_up), steady_from_ns })
    }

    fn wanted(&self, bench: &Bench<'_>) -> Wanted {
        let payload_bytes = self.frame_bytes - FRAME_OVERHEAD;
        Wanted {
            shape: StreamShape::Plain { payload_bytes, period: (PERIOD_NS, 1) },
            pace: Pace::Spin,
            packets: self.packets,
            stream_id: bench.plan.seed as u32 | 1,
            catch_up: false,
            most: LONGEST,
        }
    }
}

/// A stream that was sent.
struct Sending {
    sent: u64,
    /// Packets after the first tenth, and the program's CPU time by then.
    steady_sent: u64,
    steady_from_ns: u64,
}

fn said(outcome: &PeerOutcome, what: &str) -> String {
    let last = outcome.errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    format!("it {what}; last output: {last}")
}

/// 128 bytes of each packet, and 64 MiB of buffer.
fn arguments(name: &str, interface: &str, file: &Path, port: u16) -> Vec<OsString> {
    if name == LIBPCAP {
        return by_libpcap::arguments(interface, port);
    }
    let filter = by_libpcap::filter(port);
    // A change of user would make tcpdump outlive us should we be killed.
    let words = match name {
        "quaver" | AGAIN => &["capture", "-s", "128", "--layers", "none", "--json", "--filter"][..],
        "tcpdump" => &["-n", "-Z", "root", "--time-stamp-precision=nano", "-s", "128", "-B", "65536"],
        _ => &["-s", "128", "-B", "64", "-q", "-f"],
    };
    let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
    let file_option = if ["quaver", AGAIN].contains(&name) { "-o" } else { "-w" };
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

/// Places of our own accounts that name nothing: packets that went astray there are not accounted for.
const NO_PLACES: [&str; 2] = ["unaccounted", "undecoded"];

/// What our own capture tells: captured, and dropped at places that have a name.
fn our_counts(told: &serde_json::Value) -> Option<(u64, u64)> {
    let mut dropped = told["dropped"].as_u64()?;
    for interface in told["interfaces"].as_array()? {
        for place in NO_PLACES {
            dropped = dropped.checked_sub(interface["dropped"][place].as_u64()?)?;
        }
    }
    Some((told["captured"].as_u64()?, dropped))
}

/// Captured and dropped, as the program itself tells.
fn counts(name: &str, outcome: &PeerOutcome) -> Option<(u64, u64)> {
    match name {
        "quaver" | AGAIN => our_counts(&serde_json::from_str(&outcome.out).ok()?),
        LIBPCAP => {
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
        PeerOutcome { orderly: true, out: out.to_owned(), errors: errors.to_owned() }
    }

    #[test]
    fn packets_that_went_astray_in_our_own_capture_are_not_accounted_for() {
        let ours = |ring: u64, undecoded: u64, unaccounted: u64| {
            let dropped =
                serde_json::json!({"ring": ring, "undecoded": undecoded, "unaccounted": unaccounted});
            let all = ring + undecoded + unaccounted;
            let out =
                serde_json::json!({"captured": 7, "dropped": all, "interfaces": [{"dropped": dropped}]});
            counts("quaver", &told(&out.to_string(), ""))
        };
        assert_eq!(ours(2, 0, 0), Some((7, 2)));
        assert_eq!((ours(2, 3, 0), ours(2, 0, 4), ours(2, 3, 4)), (Some((7, 2)), Some((7, 2)), Some((7, 2))));
        // A place that is called otherwise one day must not count as accounted for.
        let renamed = r#"{"captured": 7, "dropped": 2, "interfaces": [{"dropped": {"ring": 2}}]}"#;
        assert_eq!(counts("quaver", &told(renamed, "")), None);
    }

    #[test]
    fn each_programs_own_counts_are_read() {
        assert_eq!(counts(LIBPCAP, &told(r#"{"captured": 7, "dropped": 2}"#, "")), Some((7, 2)));
        let tcpdump = "tcpdump: listening on v, link-type EN10MB (Ethernet), snapshot length 128 bytes\n\
            12 packets captured\n15 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(counts("tcpdump", &told("", tcpdump)), Some((12, 3)));
        let one = "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n";
        assert_eq!(counts("tcpdump", &told("", one)), Some((1, 0)));
        let dumpcap = "Capturing on 'v'\nFile: x\nPackets captured: 20\n\
            Packets received/dropped on interface 'v': 20/4 (pcap:4/dumpcap:0/flushed:0/ps_ifdrop:0) (83.3%)\n";
        assert_eq!(counts("dumpcap", &told("", dumpcap)), Some((20, 4)));
        for (name, _) in PROGRAMS {
            assert_eq!(counts(name, &told("", "no such device\n")), None);
        }
    }
}
