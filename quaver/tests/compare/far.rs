//! A comparison on a stream from another host: from a server in one namespace to the program in another.

use super::far_server::{Server, packets_of};
use super::{json, privileged, quaver, the_run_in};
use quaver_host::netns::Lab;
use quaver_store::run::RunDir;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

/// A server at one end of a lab.
fn serving(lab: &Lab, options: &[&str]) -> Server {
    lab.source.within(|| Server::at(IpAddr::V4(lab.source.ipv4), options)).unwrap()
}

/// A comparison at the other end; its child lives in the namespace that it was started in.
fn compare(lab: &Lab, runs: &Path, far: &str, words: &[&str]) -> Child {
    let mut command = quaver(runs, &["capture", "--compare", "--json", "--quiet", "--from", far]);
    command.args(words).env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    lab.sink.within(|| command.spawn()).unwrap().unwrap()
}

#[track_caller]
fn done(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// Packets of all streams that the server logged, until a line with `last`.
fn logged(server: &mut Server, streams: usize) -> Vec<u64> {
    (0..streams).map(|_| packets_of(&server.line_with(" ended after ")).unwrap()).collect()
}

/// Packets that the receiver's end has got.
fn packets_in(lab: &Lab) -> u64 {
    let lines = lab.sink.within(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
    let own = format!("{}:", lab.sink.interface);
    let counts = lines.lines().find_map(|line| line.trim().strip_prefix(&own)).unwrap();
    counts.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

#[test]
fn what_the_other_host_sent_is_what_came_and_what_was_dropped() {
    if !privileged("what_the_other_host_sent_is_what_came_and_what_was_dropped") {
        return;
    }
    let lab = Lab::create().unwrap();
    let runs = tempfile::tempdir().unwrap();
    // So that most bursts are refused, and those that are left come and go in a moment.
    let mut server = serving(&lab, &["--max-rate", "50000"]);
    let words = ["--pattern", "2", "--packets", "40", "--rounds", "4", "--quick", "--seed", "7"];
    let output = compare(&lab, runs.path(), &server.far, &words).wait_with_output().unwrap();
    done(&output, 0);
    let summary = json(&output);
    let pattern = &summary["patterns"][0];
    assert_eq!((&summary["complete"], &pattern["name"]), (&true.into(), &"2".into()));
    assert!(summary["cores"].as_str().unwrap().starts_with("source on another host"), "{summary}");
    assert!(summary["from"].as_str().unwrap().starts_with(&lab.source.ipv4.to_string()), "{summary}");
    for arm in pattern["user"].as_array().unwrap() {
        assert_eq!(number(&arm["overhead"], "count"), 40, "{arm}");
    }
    assert_eq!(number(pattern, "socket_drops"), 0, "so all packets of the blocks came one after the other");
    // Figure 6 in short: the two points with the widest gaps, each through four pipelines.
    let points = summary["loss"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 8, "{}", summary["loss"]);
    for total in summary["loss"]["totals"].as_array().unwrap() {
        assert_eq!((total["placement"].as_str(), number(total, "sent")), (Some("apart"), 2 * 2_000));
        let places = number(total, "at_socket") + number(total, "at_backlog");
        assert_eq!(number(total, "lost"), places, "a veth pair loses nowhere else: {total}");
    }
    // In each start the stream of the pattern and that of its stamps in the kernel; once the bursts.
    let (starts, each) = (5, 1 + usize::from(pattern["kernel"].is_object()));
    let streams = logged(&mut server, starts * each + points.len());
    let sent: u64 = streams[..starts * each].iter().sum();
    assert_eq!(sent, number(pattern, "sent"), "{streams:?}");
    assert_eq!(streams[starts * each..], [2_000; 8], "{streams:?}");
    if cfg!(target_arch = "x86_64") {
        let between = pattern["kernel"]["between"].as_array().unwrap();
        assert!(between.iter().all(|arm| arm[1]["count"].as_u64() > Some(0)), "{between:?}");
    }
    let cannot = summary["cannot"].to_string();
    assert!(cannot.contains("the other host refused: ") && cannot.contains("at most 50000 here"), "{cannot}");
    assert!(cannot.contains("on one CPU: not measured"), "{cannot}");
    analysed_again(&the_run_in(runs.path()), runs.path(), &summary);
}

/// The run says where its stream came from, and its results are the same again.
fn analysed_again(run: &Path, runs: &Path, summary: &Value) {
    let kept = |name: &str| std::fs::read_to_string(run.join(name)).unwrap();
    let manifest: Value = serde_json::from_str(&kept("manifest.json")).unwrap();
    assert!(manifest["asked"]["stream"].as_str().unwrap().starts_with("from "), "{}", manifest["asked"]);
    let before = kept("summary.json");
    let mut numbers = summary.clone();
    numbers.as_object_mut().unwrap().remove("result").expect("the output has the key `result`");
    assert!(RunDir::open(run).unwrap().read_summary::<Value>().unwrap() == numbers, "{before}");
    let output = quaver(runs, &["analyze", &run.display().to_string()]).output().unwrap();
    done(&output, 0);
    assert_eq!(before, kept("summary.json"));
}

#[test]
fn a_key_is_asked_for_and_a_refusal_leaves_nothing() {
    if !privileged("a_key_is_asked_for_and_a_refusal_leaves_nothing") {
        return;
    }
    let lab = Lab::create().unwrap();
    let (keys, runs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = keys.path().join("key");
    std::fs::write(&key, "sixteen bytes or more\n").unwrap();
    let key = key.to_str().unwrap();
    let mut server = serving(&lab, &["--key-file", key]);
    let short =
        ["--pattern", "2", "--packets", "10", "--rounds", "1", "--starts", "2", "--no-loss", "--no-kernel"];
    let output = compare(&lab, runs.path(), &server.far, &short).wait_with_output().unwrap();
    let said = done(&output, 4);
    assert_eq!(said.matches("only peers with its key").count(), 1, "{said}");
    assert!(std::fs::read_dir(runs.path()).unwrap().next().is_none(), "no run is left");
    let with_key = [&short[..], &["--key-file", key]].concat();
    let output = compare(&lab, runs.path(), &server.far, &with_key).wait_with_output().unwrap();
    done(&output, 0);
    let sent = number(&json(&output)["patterns"][0], "sent");
    assert!(server.line_with(" test down ").contains("hd-1368"));
    let streams = [server.packets_of_the_stream(), server.packets_of_the_stream()];
    assert_eq!(streams.iter().sum::<u64>(), sent, "one stream of each start");
}

#[test]
fn where_the_server_goes_what_came_before_is_kept() {
    if !privileged("where_the_server_goes_what_came_before_is_kept") {
        return;
    }
    let lab = Lab::create().unwrap();
    let runs = tempfile::tempdir().unwrap();
    let mut server = serving(&lab, &[]);
    let far = server.far.clone();
    // Pattern 1 alone takes a minute.
    let mut child = compare(&lab, runs.path(), &far, &["--pattern", "1", "--no-kernel", "--no-loss"]);
    let pid = Pid::from_child(&server.child);
    let sending = std::thread::spawn(move || {
        server.line_with(" test down ");
        server
    });
    while !sending.is_finished() {
        if child.try_wait().unwrap().is_some() {
            kill_process(pid, Signal::KILL).unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("it ended of itself: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let server = sending.join().unwrap();
    // The server logs the test before the other side has heard that it begins.
    while packets_in(&lab) < 50 {
        assert!(child.try_wait().unwrap().is_none(), "it ended of itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(pid, Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(server);
    done(&output, 4);
    let summary = json(&output);
    assert_eq!(summary["complete"], false);
    let run = the_run_in(runs.path());
    let manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("manifest.json")).unwrap()).unwrap();
    assert!(manifest["interrupted"].as_str().unwrap().contains("closed the connection"), "{manifest}");
}
