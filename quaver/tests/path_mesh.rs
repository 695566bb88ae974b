//! `quaver probe --mesh` and several DSCPs, over loopback, without privilege.

use quaver_path::samples::read_path_samples;
use quaver_testbed::relay::script::Script;
use quaver_testbed::relay::{Keep, Relay, RelayOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

/// Packets each way of each test.
const PACKETS: u64 = 100;

fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command
}

/// A server on ports that the system chose; ended when dropped.
struct Server {
    child: Child,
    _log: BufReader<ChildStderr>,
    control: SocketAddr,
    test: SocketAddr,
}

impl Server {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Self {
        let mut command = quaver(&["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]);
        let command = command.args(options);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("connections, port") {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended");
        }
        let port = |after: &str| -> SocketAddr {
            let rest = line.split(after).nth(1).unwrap_or_else(|| panic!("no {after:?} in {line}"));
            let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next();
            (Ipv4Addr::LOCALHOST, digits.unwrap().parse().unwrap()).into()
        };
        let (control, test) = (port("127.0.0.1:"), port("connections, port "));
        Self { child, _log: log, control, test }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mesh of `hosts`, names and control ports, with its runs in `folder`.
fn mesh(folder: &Path, hosts: &[(&str, &str, u16)], options: &[&str]) -> Command {
    let file = folder.join("hosts.toml");
    let host = |(name, address, port): &(&str, &str, u16)| {
        format!("[[host]]\nname = '{name}'\naddress = '{address}'\nport = {port}\n")
    };
    fs::write(&file, hosts.iter().map(host).collect::<String>()).unwrap();
    let mut command = quaver(&["probe", "--rtt-interval", "5ms", "--period", "1ms", "--mesh"]);
    command.arg(file).args(["--count", &PACKETS.to_string(), "-o"]).arg(folder.join("runs")).args(options);
    command
}

#[track_caller]
fn summary(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    quaver_testbed::printed::numbers(&output.stdout)
}

fn runs(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder.join("runs")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn pair<'a>(summary: &'a Value, id: &str) -> &'a Value {
    summary["pairs"].as_array().unwrap().iter().find(|pair| pair["id"] == id).unwrap()
}

/// The host loses ten packets on the way up and doubles two on the way down.
fn lossy_relay(server: &Server) -> Relay {
    let script = "[[up]]\npackets = ['10-19']\ndrop = true\n\
                  [[down]]\npackets = [3, 40]\nduplicate = { copies = 1, spacing = '1us', later = 0 }\n";
    let options = RelayOptions {
        listen: Ipv4Addr::LOCALHOST.into(),
        control_port: 0,
        test_port: 0,
        server_control: Some(server.control),
        server_test: server.test,
        script: Script::from_toml(script).unwrap(),
        keep: Keep::Memory,
    };
    Relay::start(options).unwrap()
}

#[test]
fn each_pair_has_its_own_losses_and_who_does_not_answer_a_reason() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let relay = lossy_relay(&server);
    // Nobody listens on the discard port of this host.
    let hosts = [
        ("gone", "127.0.0.1", 9),
        ("clean", "127.0.0.1", server.control.port()),
        ("nowhere", "host.invalid", 1),
        ("lossy", "127.0.0.1", relay.control_address().unwrap().port()),
        ("oslo", "127.0.0.1", 9),
    ];
    let options = ["--here", "oslo", "--json", "--fail-if", "pairs.oslo-lossy.loss_share > 5 %"];
    let output = mesh(folder.path(), &hosts, &options).output().unwrap();
    // Hosts that were not reached come before the condition, which is judged and said all the same.
    let found = summary(&output, 4);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("oslo-lossy.loss_share > 5 %") && said.contains("host.invalid"), "{said}");
    let counts = |id: &str| {
        let pair = pair(&found, id);
        ["tests", "failed", "sent", "lost", "duplicate"].map(|key| pair[key].as_u64().unwrap())
    };
    assert_eq!(counts("oslo-lossy"), [1, 0, PACKETS, 10, 0]);
    assert_eq!(counts("lossy-oslo"), [1, 0, PACKETS, 0, 2]);
    assert_eq!(counts("oslo-clean"), [1, 0, PACKETS, 0, 0]);
    assert_eq!(counts("clean-oslo"), [1, 0, PACKETS, 0, 0]);
    assert_eq!(counts("oslo-gone"), [0, 1, 0, 0, 0]);
    assert!(pair(&found, "oslo-gone")["reason"].as_str().unwrap().contains("refused"));
    assert_eq!(found["unreachable"], serde_json::json!(["gone", "nowhere"]));
    assert_eq!((&found["failed"], &found["worst"]["loss_share"]), (&2.into(), &0.1.into()));
    // A pair of one test has the figures of this test.
    let [run] = &runs(folder.path())[..] else { panic!("one run") };
    let tests = found["tests"].as_array().unwrap();
    let name = tests.iter().find(|test| test["host"] == "lossy").unwrap()["run"].as_str().unwrap();
    let test = run.join("tests").join(name);
    let alone: Value = serde_json::from_slice(&fs::read(test.join("summary.json")).unwrap()).unwrap();
    for (id, way) in [("oslo-lossy", "up"), ("lossy-oslo", "down")] {
        assert_eq!(pair(&found, id)["pdv"], alone[way]["variation"]["pdv"]);
        assert_eq!(pair(&found, id)["delay_bound_ns"], alone[way]["delay"]["bound_ns"]);
    }
    let again = quaver(&["analyze", "--json"]).arg(run).output().unwrap();
    assert_eq!(summary(&again, 0), found);
    let page = String::from_utf8(quaver(&["analyze"]).arg(run).output().unwrap().stdout).unwrap();
    assert!(page.contains("10.0 %") && page.contains("Connection refused"), "{page}");
    let html = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(html.contains(&format!("tests/{name}/report.html")) && test.join("report.html").is_file());
    assert!(html.contains("from oslo, to lossy: 10.0 %"), "no cell of the map has the pair's loss");
}

#[test]
fn several_classes_are_measured_at_the_same_time() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let port = server.control.port().to_string();
    let mut command = quaver(&["probe", "127.0.0.1", "--port", &port, "--rtt-interval", "5ms"]);
    command.args(["--dscp", "ef,af41,be", "--period", "2ms", "--count", "400", "--direction", "up"]);
    let output = command.args(["--json", "-o"]).arg(folder.path().join("runs")).output().unwrap();
    let found = summary(&output, 0);
    let codes: Vec<u64> =
        found["pairs"].as_array().unwrap().iter().map(|pair| pair["dscp"].as_u64().unwrap()).collect();
    assert_eq!(codes, [46, 34, 0]);
    let mut spans = Vec::new();
    for test in found["tests"].as_array().unwrap() {
        let run = runs(folder.path())[0].join("tests").join(test["run"].as_str().unwrap());
        let manifest: Value = serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
        assert_eq!(manifest["path"]["flows"][0]["dscp"], test["dscp"]);
        let packets = read_path_samples(&run.join("samples.parquet"), 1).unwrap().remove(0);
        let sent_ns = packets.iter().map(|packet| packet.tx_real_time_ns);
        spans.push((sent_ns.clone().min().unwrap(), sent_ns.max().unwrap()));
    }
    let (latest_start, earliest_end) =
        (spans.iter().map(|span| span.0).max().unwrap(), spans.iter().map(|span| span.1).min().unwrap());
    assert!(spans.len() == 3 && latest_start < earliest_end, "one after the other: {spans:?}");
}

#[test]
fn what_was_measured_before_ctrl_c_is_kept() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let hosts = [("bern", "127.0.0.1", server.control.port())];
    let mut command = mesh(folder.path(), &hosts, &["--every", "20ms", "--json", "--here", "oslo"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Rounds go on by themselves.
    let ended = || {
        let runs = fs::read_dir(folder.path().join("runs")).into_iter().flatten().flatten().next()?;
        let tests = fs::read_dir(runs.path().join("tests")).into_iter().flatten().flatten();
        Some(tests.filter(|test| test.path().join("report.html").is_file()).count())
    };
    while ended().unwrap_or(0) < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let found = summary(&child.wait_with_output().unwrap(), 130);
    let up = pair(&found, "oslo-bern");
    assert!(up["tests"].as_u64().unwrap() >= 2 && up["sent"].as_u64().unwrap() >= 2 * PACKETS, "{up}");
    assert!(found["rounds"].as_u64().unwrap() >= 2 && found["complete"] == false, "{found}");
}

/// A port that nobody has.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// What `/metrics` has at this port; nothing while nobody listens there.
fn scraped(port: u16) -> String {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return String::new() };
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn a_mesh_and_its_server_give_away_what_they_counted() {
    let folder = tempfile::tempdir().unwrap();
    let ports = [free_port(), free_port()];
    let [serving, measuring] = ports.map(|port| format!("127.0.0.1:{port}"));
    let server = Server::with(&["--metrics", &serving]);
    let relay = lossy_relay(&server);
    let hosts = [("lossy", "127.0.0.1", relay.control_address().unwrap().port()), ("gone", "127.0.0.1", 9)];
    let options = ["--here", "oslo", "--every", "1h", "--rounds", "2", "--json", "--metrics", &measuring];
    let child = mesh(folder.path(), &hosts, &options).stdout(Stdio::piped()).spawn().unwrap();
    let failed = "quaver_mesh_failed_tests_total{from=\"gone\",to=\"oslo\",dscp=\"be\"} 1\n";
    let page = loop {
        let page = scraped(ports[1]);
        if page.contains(failed) {
            break page;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let pair =
        |name: &str, from: &str, to: &str| format!("{name}{{from=\"{from}\",to=\"{to}\",dscp=\"be\"}}");
    for (name, up, down) in [
        ("quaver_mesh_tests_total", 1, 1),
        ("quaver_mesh_packets_total", PACKETS, PACKETS),
        ("quaver_mesh_lost_packets_total", 10, 0),
        ("quaver_mesh_duplicates_total", 0, 2),
        ("quaver_mesh_pdv_seconds_count", PACKETS - 10, PACKETS),
    ] {
        for (from, to, count) in [("oslo", "lossy", up), ("lossy", "oslo", down)] {
            let line = format!("\n{} {count}\n", pair(name, from, to));
            assert!(page.contains(&line), "{line}\n{page}");
        }
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    summary(&child.wait_with_output().unwrap(), 130);
    // What the relay dropped never came, and what it doubled was sent once.
    let page = scraped(ports[0]);
    for line in [
        "quaver_serve_running_tests 0".to_owned(),
        "quaver_serve_begun_flows_total{protocol=\"extension\",way=\"up\"} 1".to_owned(),
        format!("quaver_serve_flow_packets_total{{way=\"up\"}} {}", PACKETS - 10),
        format!("quaver_serve_flow_packets_total{{way=\"down\"}} {PACKETS}"),
        "quaver_serve_connections_total{event=\"closed\"} 1".to_owned(),
    ] {
        assert!(page.contains(&format!("\n{line}\n")), "{line}\n{page}");
    }
}

#[test]
fn figures_that_others_would_reach_need_files() {
    let folder = tempfile::tempdir().unwrap();
    let why = |mut command: Command| {
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = why(quaver(&["serve", "--metrics", "0.0.0.0:9471"]));
    assert!(code == Some(2) && said.contains("token_file") && said.contains("--metrics-access"), "{said}");
    let (code, said) = why(quaver(&["probe", "127.0.0.1", "--metrics", "127.0.0.1:9471"]));
    assert!(code == Some(2) && said.contains("--mesh"), "{said}");
    let file = folder.path().join("none.toml");
    let mut command = quaver(&["serve", "--metrics", "127.0.0.1:0", "--metrics-access"]);
    command.arg(&file);
    assert_eq!(why(command).0, Some(5));
}

#[test]
fn a_full_mesh_is_put_together_from_the_runs_of_its_hosts() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let port = server.control.port();
    let hosts = [("oslo", "127.0.0.1", port), ("bern", "127.0.0.1", port), ("roma", "127.0.0.1", port)];
    for here in ["oslo", "bern", "roma"] {
        let options = ["--here", here, "--direction", "up", "--json"];
        let found = summary(&mesh(folder.path(), &hosts, &options).output().unwrap(), 0);
        assert_eq!(
            found["pairs"].as_array().unwrap().len(),
            2,
            "one file serves all, each leaves itself out"
        );
    }
    let measured = runs(folder.path());
    let mut command = mesh(folder.path(), &hosts, &["--here", "oslo", "--rounds", "0", "--json"]);
    for run in &measured {
        command.arg("--join").arg(run);
    }
    let found = summary(&command.output().unwrap(), 0);
    let mut ids: Vec<&str> =
        found["pairs"].as_array().unwrap().iter().map(|pair| pair["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["bern-oslo", "bern-roma", "oslo-bern", "oslo-roma", "roma-bern", "roma-oslo"]);
    let test = fs::read_dir(measured[0].join("tests")).unwrap().next().unwrap().unwrap().path();
    let output = mesh(folder.path(), &hosts, &["--here", "oslo", "--join"]).arg(test).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "a test alone is no mesh");
    let output = mesh(folder.path(), &hosts, &["--here", "oslo", "--live"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "nobody can watch many tests in one live view");
}
