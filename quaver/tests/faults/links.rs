//! An interface that goes down, is removed or gets another name while packets pass it.

use quaver_host::netns::{Lab, LabEnd};
use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
const PATIENCE: Duration = Duration::from_secs(60);

/// What happens to the receiving end, as words of `ip`.
const FAULTS: [&str; 3] = ["link set {} down", "link set {} name elsewhere", "link delete {}"];

fn started(at: &LabEnd, words: &str, place: &Path) -> Child {
    let mut command = Command::new(QUAVER);
    command.args(words.split_whitespace()).current_dir(place).env_remove("QUAVER_RUNS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    at.within(|| command.spawn().unwrap()).unwrap()
}

/// Ended when dropped.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until so many packets came to the end, and then does it.
fn strike(end: &LabEnd, packets: u64, fault: &str) {
    let came = || end.attribute("statistics/rx_packets").unwrap().unwrap().trim().parse::<u64>().unwrap();
    let (before, until) = (came(), Instant::now() + PATIENCE);
    while came() < before + packets {
        assert!(Instant::now() < until, "no packets come");
        std::thread::sleep(Duration::from_millis(5));
    }
    let words = fault.replace("{}", &end.interface);
    let ip = || Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(end.within(ip).unwrap().success(), "ip {words}");
}

fn said(output: &Output) -> String {
    format!("{:?} {}", output.status, String::from_utf8_lossy(&output.stderr))
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

fn warnings(found: &Value) -> String {
    let all = found["warnings"].as_array().unwrap_or_else(|| panic!("{found:#}"));
    all.iter().map(|one| format!("{one}\n")).collect()
}

#[test]
fn a_stream_whose_link_goes_is_kept_and_said_to_have_stopped() {
    if !privileged("a_stream_whose_link_goes_is_kept_and_said_to_have_stopped") {
        return;
    }
    for fault in FAULTS {
        for verb in ["chase --no-cost --tier user --listen", "sink"] {
            let (lab, place) = (Lab::create().unwrap(), tempfile::tempdir().unwrap());
            let address = format!("{}:5004", lab.sink.ipv4);
            let source = format!("source {address} --period 2ms --pace sleep -q");
            let _source = Helper(started(&lab.source, &source, place.path()));
            let words = format!("{verb} {address} --for 4s --json -q -o out");
            let measures = started(&lab.sink, &words, place.path());
            wait_for_run(place.path());
            strike(&lab.sink, 600, fault);
            let output = measures.wait_with_output().unwrap();
            let found = json(&output);
            assert!(
                output.status.success() && found["complete"] == true,
                "{fault} {verb}: {}",
                said(&output)
            );
            let stopped = warnings(&found).contains("the stream stopped: no packet in the last");
            assert_eq!(stopped, !fault.contains("name"), "{fault} {verb}: {}", warnings(&found));
        }
    }
}

/// Until a verb has a run with a segment of packets: it is about to take them.
fn wait_for_run(place: &Path) {
    let has = || {
        let runs = std::fs::read_dir(place.join("out")).into_iter().flatten().flatten();
        runs.into_iter().any(|run| run.path().join("anchors.seg").exists())
    };
    let until = Instant::now() + PATIENCE;
    while !has() {
        assert!(Instant::now() < until, "no run");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_probe_whose_link_goes_keeps_what_it_had_and_a_new_name_is_nothing_to_it() {
    if !privileged("a_probe_whose_link_goes_keeps_what_it_had_and_a_new_name_is_nothing_to_it") {
        return;
    }
    for fault in FAULTS {
        let (lab, place) = (Lab::create().unwrap(), tempfile::tempdir().unwrap());
        let server = format!("serve --bind {} --test-port 0", lab.sink.ipv4);
        let mut server = Helper(started(&lab.sink, &server, place.path()));
        let mut line = String::new();
        let heard = server.0.stderr.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(heard), &mut line).unwrap();
        let words = format!("probe {} --for 2s --period 2ms --json -q --timeout 2s -o out", lab.sink.ipv4);
        let probe = started(&lab.source, &words, place.path());
        strike(&lab.sink, 300, fault);
        let output = probe.wait_with_output().unwrap();
        let found = json(&output);
        if fault.contains("name") {
            assert_eq!(
                (output.status.code(), &found["complete"]),
                (Some(0), &true.into()),
                "{}",
                said(&output)
            );
            continue;
        }
        assert_eq!(output.status.code(), Some(4), "{fault}: {}", said(&output));
        assert!(
            said(&output).contains("sent nothing for too long; results so far are kept"),
            "{}",
            said(&output)
        );
        assert!(warnings(&found).contains("the run is incomplete"), "{fault}: {}", warnings(&found));
    }
}

#[test]
fn a_capture_of_an_interface_that_is_renamed_goes_on() {
    if !privileged("a_capture_of_an_interface_that_is_renamed_goes_on") {
        return;
    }
    let (lab, place) = (Lab::create().unwrap(), tempfile::tempdir().unwrap());
    let words = format!("capture -i {} --for 3s --json --count 600 -o out.pcapng udp", lab.sink.interface);
    let mut capture = started(&lab.sink, &words, place.path());
    let heard = std::io::BufReader::new(capture.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(heard).map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("capturing on")));
    let rest = std::thread::spawn(move || lines.collect::<Vec<_>>());
    let source = format!("source {}:5004 --period 2ms --pace sleep -q", lab.sink.ipv4);
    let _source = Helper(started(&lab.source, &source, place.path()));
    strike(&lab.sink, 200, FAULTS[1]);
    let output = capture.wait_with_output().unwrap();
    let found = json(&output);
    assert!(output.status.success(), "{found:#}");
    assert_eq!((&found["captured"], &found["ended_by"]), (&600.into(), &"limit".into()), "{found:#}");
    // Its place in the file is under the name by which it was asked for.
    assert_eq!(found["interfaces"][0]["name"], lab.sink.interface.as_str());
    let warned = rest.join().unwrap().join("\n");
    assert!(!warned.contains("removed") && !warned.contains("is down"), "{warned}");
}

#[test]
fn where_an_interface_is_not_there_those_of_the_same_namespace_are_named() {
    if !privileged("where_an_interface_is_not_there_those_of_the_same_namespace_are_named") {
        return;
    }
    let (lab, place) = (Lab::create().unwrap(), tempfile::tempdir().unwrap());
    for words in ["capture -i nothere --for 1s -o x.pcapng", "capture --for 1s -o x.pcapng"] {
        let output = started(&lab.sink, words, place.path()).wait_with_output().unwrap();
        let there = format!("there are lo, {}, and `any` for all", lab.sink.interface);
        assert!(output.status.code() == Some(2) && said(&output).contains(&there), "{}", said(&output));
    }
}
