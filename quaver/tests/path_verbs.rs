//! `quaver serve` and `quaver probe` from outside, over loopback, without privilege.

use quaver_store::run::RunDir;
use quaver_testbed::printed::numbers;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command
}

/// A server on ports that the system chose; ended when dropped.
struct Server {
    child: Child,
    lines: BufReader<ChildStderr>,
    /// What it said and nobody asked for yet.
    heard: Vec<String>,
    port: u16,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let mut command = quaver(&["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]);
        let mut child = command.args(options).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self { child, lines, heard: Vec::new(), port: 0 };
        let line = server.line_with(" for control connections");
        server.port = port_after(&line, "listening on 127.0.0.1:");
        server
    }

    /// The first line of its log with these words, which is then taken out.
    fn line_with(&mut self, words: &str) -> String {
        if let Some(at) = self.heard.iter().position(|line| line.contains(words)) {
            return self.heard.remove(at);
        }
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if line.contains(words) {
                return line;
            }
            self.heard.push(std::mem::take(&mut line));
        }
        panic!("the server ended before it said {words:?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn port_after(line: &str, words: &str) -> u16 {
    let rest = line.split(words).nth(1).unwrap_or_else(|| panic!("no {words:?} in {line}"));
    rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn probe(port: u16, runs: &Path, options: &[&str]) -> Command {
    let port = port.to_string();
    let mut command =
        quaver(&["probe", "127.0.0.1", "--port", &port, "--rtt-interval", "5ms", "--quiet", "-o"]);
    command.arg(runs).args(options);
    command
}

fn only_run(runs: &Path) -> PathBuf {
    let found: Vec<PathBuf> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[track_caller]
fn expect(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn both_ways_are_measured_and_can_be_analysed_again() {
    let server = Server::start(&[]);
    let runs = tempfile::tempdir().unwrap();
    let options = ["--period", "1ms", "--count", "200", "--json"];
    let output = probe(server.port, runs.path(), &options).output().unwrap();
    expect(&output, 0);
    let summary = json(&output);
    for way in ["up", "down"] {
        let packets = &summary[way]["packets"];
        let sum = |names: [&str; 3]| names.iter().map(|name| packets[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!(packets["sent"], 200);
        assert_eq!(packets["received"], sum(["unique", "duplicate", "invalid"]));
        let lost = summary[way]["loss"]["packets"].as_u64().unwrap();
        assert_eq!(packets["unique"].as_u64().unwrap() + lost, 200);
        assert!(summary[way]["delay"]["corrected"]["p50_ns"].is_i64());
    }
    let run = only_run(runs.path());
    let again = quaver(&["analyze"]).arg(&run).arg("--json").output().unwrap();
    expect(&again, 0);
    assert_eq!(numbers(&again.stdout), numbers(&output.stdout));
    let page = quaver(&["analyze"]).arg(&run).output().unwrap();
    assert!(String::from_utf8_lossy(&page.stdout).contains("One-way delay"));
}

#[test]
fn a_condition_on_one_way_is_judged() {
    let server = Server::start(&[]);
    let runs = tempfile::tempdir().unwrap();
    let options =
        ["--period", "1ms", "--count", "20", "--direction", "up", "--fail-if", "up.packets.sent == 20"];
    let output = probe(server.port, runs.path(), &options).output().unwrap();
    expect(&output, 1);
}

#[test]
fn a_long_test_keeps_figures_instead_of_packets() {
    let server = Server::start(&[]);
    let runs = tempfile::tempdir().unwrap();
    let options = ["--period", "2ms", "--count", "1200", "--direction", "down", "--rolling", "--json-lines"];
    let output = probe(server.port, runs.path(), &options).output().unwrap();
    expect(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 2, "{text}");
    assert!(lines.iter().all(|line| line["direction"] == "down"));
    let run = only_run(runs.path());
    let summary: Value = serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    let figures = &summary["rolling"][0];
    let told: u64 = lines.iter().map(|line| line["unique"].as_u64().unwrap()).sum();
    assert_eq!(figures["unique"].as_u64().unwrap(), told);
    assert_eq!(figures["unique"].as_u64().unwrap() + figures["lost"].as_u64().unwrap(), 1200);
}

#[test]
fn without_a_server_nothing_is_left_behind() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let runs = tempfile::tempdir().unwrap();
    let output = probe(port, runs.path(), &[]).output().unwrap();
    expect(&output, 4);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("start `quaver serve` there"), "{words}");
    assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 0);
}

#[test]
fn ports_that_another_has_are_an_error_that_is_said_once() {
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for options in [&["--bind", "127.0.0.1"][..], &["--bind", "::1"], &[]] {
        let output = quaver(&["serve", "--port", &port, "--test-port", "0"]).args(options).output().unwrap();
        expect(&output, 6);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{options:?}: {said}");
        assert!(said.starts_with("quaver: serving: listen at TCP "), "{options:?}: {said}");
    }
    // At a port that the system chose for one address, the other is listened at, too.
    let mut server = quaver(&["serve", "--port", "0", "--test-port", "0", "--owamp", "0", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.filter(|line| !line.contains("not confined")).take(4).collect();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(!said.iter().any(|line| line.contains("Permission denied")), "{said:?}");
    assert_eq!(said.iter().filter(|line| line.contains("listening on [::]:")).count(), 2, "{said:?}");
    // Where another port of it is open, what stays closed is the only error: the protocol that was asked for.
    let output =
        quaver(&["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0", "--owamp", &port])
            .output()
            .unwrap();
    expect(&output, 6);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("in use").count(), 1, "{said}");
}

#[test]
fn a_wrong_key_is_refused_and_the_right_one_serves() {
    let place = tempfile::tempdir().unwrap();
    let (right, wrong) = (place.path().join("right"), place.path().join("wrong"));
    fs::write(&right, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::write(&wrong, "fedcba9876543210fedcba9876543210\n").unwrap();
    let server = Server::start(&["--key-file", right.to_str().unwrap()]);
    let test = |key: Option<&Path>, runs: &Path| {
        let mut command = probe(server.port, runs, &["--period", "1ms", "--count", "50"]);
        if let Some(key) = key {
            command.arg("--key-file").arg(key);
        }
        command.output().unwrap()
    };
    expect(&test(Some(&wrong), &place.path().join("a")), 4);
    expect(&test(None, &place.path().join("b")), 4);
    expect(&test(Some(&right), &place.path().join("c")), 0);
}

#[test]
fn an_interrupted_test_keeps_what_it_had() {
    let server = Server::start(&[]);
    let runs = tempfile::tempdir().unwrap();
    let options = ["--period", "2ms", "--for", "60s", "--direction", "down", "--json-lines"];
    let mut child = probe(server.port, runs.path(), &options).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // The first line of figures: the test is under way.
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("unique"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let run = only_run(runs.path());
    let read = |name: &str| serde_json::from_slice::<Value>(&fs::read(run.join(name)).unwrap()).unwrap();
    let (manifest, summary) = (read("manifest.json"), read("summary.json"));
    assert_eq!((&manifest["complete"], &summary["complete"]), (&Value::Bool(false), &Value::Bool(false)));
    assert_eq!(manifest["interrupted"], "interrupted by the user");
    assert!(summary["down"]["packets"]["unique"].as_u64().unwrap() > 0);
}

#[test]
fn a_server_that_goes_away_is_said_and_what_there_was_is_kept() {
    let mut server = Server::start(&[]);
    let runs = tempfile::tempdir().unwrap();
    let options = ["--period", "2ms", "--for", "60s", "--direction", "down", "--json"];
    let mut command = probe(server.port, runs.path(), &options);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.line_with("test down");
    server.signal(Signal::KILL);
    let output = child.wait_with_output().unwrap();
    expect(&output, 4);
    assert_eq!(json(&output)["complete"], false);
    assert!(only_run(runs.path()).join("samples.parquet").is_file());
}

#[test]
fn a_stamp_reflector_is_measured_to() {
    let mut server = Server::start(&["--stamp", "0"]);
    let line = server.line_with("reflecting STAMP on");
    let port = port_after(&line, "127.0.0.1:").to_string();
    let runs = tempfile::tempdir().unwrap();
    let options = ["--stamp", &port, "--period", "1ms", "--count", "100", "--size", "64", "--json"];
    let output = probe(server.port, runs.path(), &options).output().unwrap();
    expect(&output, 0);
    let summary = json(&output);
    assert_eq!(summary["protocol"], "stamp");
    assert_eq!(summary["up"]["packets"]["sent"], 100);
    assert_eq!(summary["up"]["packets"]["unique"], summary["down"]["packets"]["unique"]);
    assert!(summary["clock"]["bound_ns"].as_i64().unwrap() > 0);
}

#[test]
fn a_port_that_no_reflector_has_is_told_as_that() {
    let port = quaver_testbed::ports::free_port().to_string();
    let runs = tempfile::tempdir().unwrap();
    let options = ["--stamp", &port, "--period", "1ms", "--count", "5"];
    let output = probe(1, runs.path(), &options).output().unwrap();
    expect(&output, 4);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("times: no STAMP reflector runs on this port, or a firewall rejects it"), "{said}");
}

/// A server that reflects STAMP, and the port where it does.
fn reflector() -> (Server, String) {
    let mut server = Server::start(&["--stamp", "0"]);
    let line = server.line_with("reflecting STAMP on");
    let port = port_after(&line, "127.0.0.1:").to_string();
    (server, port)
}

#[test]
fn a_long_stamp_session_keeps_figures_and_tells_them_while_it_runs() {
    let (server, port) = reflector();
    let runs = tempfile::tempdir().unwrap();
    let options = ["--stamp", &port, "--period", "1ms", "--count", "2200", "--rolling", "--json-lines"];
    let output = probe(server.port, runs.path(), &options).output().unwrap();
    expect(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let run = only_run(runs.path());
    let summary: Value = RunDir::open(&run).unwrap().read_summary().unwrap();
    for (at, way) in ["up", "down"].into_iter().enumerate() {
        let of_way = || lines.iter().filter(|line| line["direction"] == way);
        assert!(of_way().count() >= 2, "{text}");
        let told: u64 = of_way().map(|line| line["unique"].as_u64().unwrap()).sum();
        let figures = &summary["rolling"][at];
        assert_eq!(figures["direction"], way);
        assert_eq!(figures["unique"].as_u64().unwrap(), told);
        assert_eq!(told + figures["lost"].as_u64().unwrap(), 2200);
    }
    assert!(summary["up"].is_null(), "no packets were kept");
    assert!(summary["clock"]["bound_ns"].as_i64().unwrap() > 0);
}

#[test]
fn logs_and_exports_of_a_run_tell_the_same_packets() {
    let (server, port) = reflector();
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    for (protocol, options) in [("extension", vec![]), ("stamp", vec!["--stamp", port.as_str()])] {
        let runs = place.path().join(protocol);
        let mut command = probe(server.port, &runs, &["--period", "1ms", "--count", "120"]);
        expect(&command.args(options).arg("--log").arg(&log).output().unwrap(), 0);
        let run = only_run(&runs);
        let summary: Value = serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
        let export = |format: &str| {
            let output = quaver(&["export"]).arg(&run).arg(format).output().unwrap();
            expect(&output, 0);
        };
        ["--jitlat-log", "--packets-csv"].into_iter().for_each(export);
        let csv = fs::read_to_string(run.join("packets.csv")).unwrap();
        for way in ["up", "down"] {
            let received = summary[way]["packets"]["received"].as_u64().unwrap();
            let rows = csv.lines().filter(|line| line.split(',').next() == Some(way)).count();
            assert_eq!(rows as u64, received, "{protocol} {way}");
            let read = |path: PathBuf| {
                let text = fs::read_to_string(&path).unwrap();
                // The first line is when the file was made.
                let rest = text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
                (path, rest)
            };
            let (path, exported) = read(run.join(format!("jitlat.log.{way}")));
            let (_, logged) = read(log.with_extension(way));
            assert_eq!(exported, logged, "{protocol} {way}");
            let again = quaver(&["analyze"]).arg(&path).arg("--json").output().unwrap();
            expect(&again, 0);
            let again = json(&again);
            let departures = &summary[way]["flow"]["departures"];
            let told =
                exported.iter().filter(|line| line.starts_with("# departures kernel stamped ")).count();
            assert_eq!(told, usize::from(departures.is_object()), "{protocol} {way}: {departures}");
            for name in ["stamped_by", "stamped", "missing", "p50_ns", "p99_ns", "max_ns"] {
                assert_eq!(again[way]["flow"]["departures"][name], departures[name], "{protocol} {way}");
            }
            assert_eq!(again[way]["packets"], summary[way]["packets"], "{protocol} {way}");
            assert_eq!(again[way]["delay"]["as_measured"], summary[way]["delay"]["as_measured"]);
            let shown = quaver(&["jitlat", "-f"]).arg(&path).output().unwrap();
            expect(&shown, 0);
        }
        let both = quaver(&["export"]).arg(&run).args(["--jitlat-log", "-o", "-"]).output().unwrap();
        expect(&both, 2);
        let one = ["--jitlat-log", "--direction", "down", "-o", "-"];
        let one = quaver(&["export"]).arg(&run).args(one).output().unwrap();
        expect(&one, 0);
        assert!(String::from_utf8_lossy(&one.stdout).contains("# direction down"));
        expect(&quaver(&["export"]).arg(&run).arg("--perfetto").output().unwrap(), 0);
        assert!(fs::metadata(run.join("timeline.perfetto-trace")).unwrap().len() > 0);
        expect(&quaver(&["export"]).arg(&run).arg("--late-csv").output().unwrap(), 2);
    }
}

/// CPU time of a process so far, in ticks.
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // User and system time are fields 14 and 15, counted from 1; the state is field 3.
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_packet_a_second_leaves_the_cpu_to_others() {
    let mut server = Server::start(&[]);
    let runs = tempfile::tempdir().unwrap();
    let mut command =
        probe(server.port, runs.path(), &["--period", "1s", "--for", "20s", "--direction", "up"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    server.line_with("test up");
    let before = [child.id(), server.child.id()].map(cpu_ticks);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let after = [child.id(), server.child.id()].map(cpu_ticks);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // A thread that does not sleep between packets would take as many ticks as went by: /proc counts 100 a second.
    let ticks = 300;
    for (before, after) in before.into_iter().zip(after) {
        assert!((after - before) * 10 < ticks, "{} ticks of {ticks}", after - before);
    }
}

#[test]
fn servers_of_owamp_and_twamp_are_measured_to() {
    let mut server = Server::start(&["--owamp", "0", "--twamp", "0"]);
    for (protocol, option, name) in [("owamp", "--owamp", "OWAMP"), ("twamp", "--twamp", "TWAMP")] {
        let line = server.line_with(&format!("for {name}-Control"));
        let port = port_after(&line, "127.0.0.1:").to_string();
        let runs = tempfile::tempdir().unwrap();
        let options = [option, &port, "--period", "1ms", "--count", "100", "--size", "64", "--json"];
        let output = probe(server.port, runs.path(), &options).output().unwrap();
        expect(&output, 0);
        let summary = json(&output);
        assert_eq!(summary["protocol"], protocol);
        for way in ["up", "down"] {
            let packets = &summary[way]["packets"];
            assert_eq!(
                (&packets["sent"], &packets["unique"]),
                (&100.into(), &100.into()),
                "{protocol} {way}"
            );
        }
        let packets = ["--dscp", "0,ef", option, &port];
        let refused = probe(server.port, runs.path(), &packets).output().unwrap();
        expect(&refused, 2);
    }
}
