//! What `quaver probe` says of its packets below the programs: departures and TCP segments, of both ends.

use quaver_testbed::printed::numbers;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command
}

/// A server on ports that the system chose, with its log's reader, so that it can go on writing; ended when dropped.
struct Server {
    child: Child,
    _log: BufReader<ChildStderr>,
    port: String,
}

impl Server {
    fn start() -> Self {
        let mut command = quaver(&["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let rest = line.split("listening on 127.0.0.1:").nth(1).unwrap_or_else(|| panic!("{line}"));
        let port = rest.split(' ').next().unwrap().to_owned();
        Self { child, _log: log, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A measured run: its directory, `summary.json` as printed, and the page of a later analysis.
fn probe(options: &[&str]) -> (tempfile::TempDir, Value, String) {
    let server = Server::start();
    let runs = tempfile::tempdir().unwrap();
    let mut command = quaver(&["probe", "127.0.0.1", "--rtt-interval", "5ms", "--period", "1ms"]);
    command.args(["--count", "200", "--quiet", "--json", "--port", &server.port, "-o"]).arg(runs.path());
    let output = command.args(options).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = numbers(&output.stdout);
    let run: PathBuf = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let again = quaver(&["analyze", "--json"]).arg(&run).output().unwrap();
    assert_eq!(numbers(&again.stdout), summary, "the manifest has it all");
    let page = quaver(&["analyze"]).arg(&run).output().unwrap();
    (runs, summary, String::from_utf8_lossy(&page.stdout).into_owned())
}

#[test]
fn departures_of_both_senders_and_the_delay_from_them_are_told() {
    let (_runs, summary, page) = probe(&[]);
    for way in ["up", "down"] {
        let departures = &summary[way]["flow"]["departures"];
        assert_eq!(departures["stamped_by"], "kernel", "{departures}");
        let of = |name: &str| departures[name].as_i64().unwrap_or_else(|| panic!("no {name}: {departures}"));
        assert_eq!(of("stamped") + of("missing"), 200);
        assert!(0 <= of("p50_ns") && of("p50_ns") <= of("p99_ns"), "{departures}");
    }
    for way in ["up", "down"] {
        if summary[way]["flow"]["departures"]["missing"] != 0 {
            continue;
        }
        let (from, all) = (&summary[way]["delay_from_departure"], &summary[way]["delay"]);
        assert_eq!(from["stamped_by"], "kernel");
        for kind in ["as_measured", "corrected"] {
            assert_eq!(from[kind]["count"], all[kind]["count"]);
            let mean = |delay: &Value| delay[kind]["mean_ns"].as_f64().unwrap();
            assert!(mean(from) < mean(all), "a part of the way: {from} {all}");
        }
        assert!(page.contains("from kernel departure, corrected"), "{page}");
    }
    assert!(page.contains("\nStamps") && !page.contains("TCP segments"), "{page}");
}

#[test]
fn a_test_that_keeps_no_packets_tells_them_too() {
    for (transport, section) in [(None, "\nStamps"), (Some("--tcp"), "\nTCP segments")] {
        let options: Vec<&str> = transport.into_iter().chain(["--rolling"]).collect();
        let (_runs, summary, page) = probe(&options);
        assert!(summary["up"].is_null() && summary["rolling"][1]["unique"] == 200, "{summary}");
        assert!(page.contains(section) && page.contains("\nSchedule"), "{page}");
        for (at, way) in ["up", "down"].into_iter().enumerate() {
            let flow = &summary["rolling_flows"][at];
            assert_eq!(flow["direction"], way);
            assert_eq!(flow["departures"].is_object(), transport.is_none(), "{flow}");
            assert_eq!(flow["segments"].is_object(), transport.is_some(), "{flow}");
        }
        if transport.is_some() {
            let got = page.lines().find(|line| line.contains("packets delivered to the program")).unwrap();
            assert_eq!(got.split_whitespace().filter(|word| *word == "200").count(), 4, "{got}");
        }
    }
}

#[test]
fn segments_are_told_by_both_ends_beside_what_the_program_got() {
    let (_runs, summary, page) = probe(&["--tcp"]);
    for way in ["up", "down"] {
        for end in ["segments", "segments_at_server"] {
            let segments = &summary[way]["flow"][end];
            assert!(segments["segments"].as_u64() > Some(0), "{way}, {end}: {segments}");
            assert!(["captured", "counters"].contains(&segments["seen_by"].as_str().unwrap()));
        }
        assert_eq!(summary[way]["packets"]["unique"], 200);
        assert!(summary[way]["flow"].get("departures").is_none(), "those are for datagrams");
    }
    for head in ["up, sender", "up, receiver", "down, sender", "down, receiver"] {
        assert!(page.contains(head), "no {head:?} in {page}");
    }
    let got = page.lines().find(|line| line.contains("packets delivered to the program")).unwrap();
    assert_eq!(got.split_whitespace().filter(|word| *word == "200").count(), 4, "{got}");
}
