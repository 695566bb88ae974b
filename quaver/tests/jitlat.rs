//! `quaver jitlat` and `quaver analyze FILE` from outside: pages, logs, refusals, tests over loopback.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The log of the document's figure 6, as version two would have it.
const LOG: &str = "\
# Fri Jul 3 19:45:51 GMT 2009
# command SENDING
# npkts 4
# pktlen 80
# proto 17
# period 20000000
# src_ip 142.92.34.101
# dst_ip 142.92.34.101
# src_port 33101
# dst_port 2667
# dscp 0
# clock_error_ns 100000
# min_rtt_ns 90000
0 1246650331413984400 0 1246650331414098200 0
1 1246650331443879400 1 1246650331443978400 0
2 1246650331463856200 2 1246650331464150000 0
3 1246650331463856200 2 1246650331464160000 1
";

fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env("COLUMNS", "100").env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    quaver(args).output().expect("the program was built for this test")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// Ends with `code` and says `words` on standard error.
#[track_caller]
fn refused(args: &[&str], code: i32, words: &str) {
    let output = run(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
}

/// A directory with the log.
fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("jitlat.Kda4Ib");
    std::fs::write(&path, LOG).unwrap();
    (place, path)
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_log_is_analysed_again() {
    let (_place, path) = place();
    let output = run(&["jitlat", "-f", path_text(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    let wanted = "\
Analysing 4 UDP pkts from 142.92.34.101:33101 to 142.92.34.101:2667
# Fri Jul 3 19:45:51 GMT 2009

payload = 80 bytes per packet.                               User Throughput
target transmit period = 20.00 ms (50.00 pkts/Sec = 32.00 kbps)
average transmit period = 24.94 ms (40.10 pkts/Sec = 25.67 kbps)
average receive period = 16.68 ms (59.94 pkts/Sec = 38.36 kbps)

4 packets sent
3 unique/valid packets received
    4 packets received
        1 duplicate packets (25.00%)
        0 invalid packets (0.00%)
    1 lost packets (25.00%)
    0 out of sequence packets (0.00%)

min/avg/max latency = 99.000 us / 168.867 us / 293.800 us
";
    assert!(page.starts_with(wanted), "{page}");
    // The least latency is above the round trip.
    assert!(text(&output.stderr).contains("minimum latency 99.0 µs exceeds the round trip 90.0 µs"));
}

#[test]
fn corrected_values_and_version_one() {
    let (_place, path) = place();
    let corrected = text(&run(&["jitlat", "-f", path_text(&path), "-C"]).stdout);
    assert!(
        corrected.contains("min/avg/max corrected latency = -1.000 us / 68.867 us / 193.800 us\n"),
        "{corrected}"
    );
    let first = text(&run(&["jitlat", "-f", path_text(&path), "--v1"]).stdout);
    assert!(
        first.contains("\n  1 duplicates (25.00%)\n") && first.contains("(99 pecentile)\nbinsize = "),
        "{first}"
    );
    assert!(!first.contains("RTT"), "{first}");
    let plotted = text(&run(&["jitlat", "-f", path_text(&path), "-L"]).stdout);
    assert!(plotted.contains("\nlatency histogram limited to 193.8 us (99 percentile)\n"), "{plotted}");
    assert!(plotted.contains("\nlatency, corrected by the estimated clock error: "), "{plotted}");
    assert!(plotted.contains("\nduplicates: ") && plotted.replace(['µ', '·'], "").is_ascii(), "{plotted}");
}

#[test]
fn plots_for_gnuplot() {
    let (place, path) = place();
    let plots = place.path().join("plots");
    let output = run(&["jitlat", "-f", path_text(&path), "--gnuplot", path_text(&plots)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for name in
        ["plots.gp", "pdv.dat", "latency.dat", "latency-corrected.dat", "burstiness.dat", "loss-length.dat"]
    {
        assert!(plots.join(name).is_file(), "{name}");
    }
    refused(
        &["jitlat", "-f", path_text(&path), "--gnuplot", "/proc/version/x"],
        6,
        "writing plots to /proc/version/x",
    );
}

#[test]
fn analyze_shows_raw_and_corrected_values_and_warns() {
    let (_place, path) = place();
    let page = text(&run(&["analyze", path_text(&path)]).stdout);
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let folded =
        "up: the clocks are known within ± 68.7 µs, more than the delay itself (p50 14.8 µs, min 0 ns).";
    assert!(flat.contains(folded) && flat.contains("minimum measured delay 99.0 µs"), "{page}");
    assert!(page.contains("exceeds the minimum RTT 90.0 µs"), "{page}");
    let summary = text(&run(&["analyze", path_text(&path), "--json"]).stdout);
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["protocol"], "jitlat");
    assert_eq!(summary["up"]["packets"]["duplicate"], 1);
    assert_eq!(summary["up"]["loss"]["packets"], 1);
    assert_eq!(summary["up"]["delay"]["as_measured"]["min_ns"], 99_000);
    assert_eq!(summary["up"]["delay"]["corrected"]["min_ns"], 0);
    refused(&["analyze", path_text(&path), "--fail-if", "up.loss.packets > 0"], 1, "failed, as asked");
    refused(&["analyze", path_text(&path), "--late", "1ms"], 2, "--late is for runs of chase");
}

#[test]
fn what_is_no_log_ends_with_5_and_the_line() {
    let (place, path) = place();
    std::fs::write(&path, LOG.replace("\n2 12", "\n9 12")).unwrap();
    for verb in [&["jitlat", "-f"][..], &["analyze"]] {
        let args: Vec<&str> = verb.iter().copied().chain([path_text(&path)]).collect();
        refused(&args, 5, "jitlat.Kda4Ib, line 16: the row says that it is number 9, but 2 is next");
    }
    let other = place.path().join("other");
    std::fs::write(&other, "a,b\n").unwrap();
    refused(&["jitlat", "-f", path_text(&other)], 5, "other, line 1: a log of Jitlat begins with");
    refused(
        &["analyze", path_text(&other)],
        5,
        "not a run directory, no capture (pcapng, pcap or snoop), and no result of cyclictest, rtla, irtt, iperf3, flent or sockperf, \
         and no Jitlat log",
    );
    refused(&["jitlat", "-f", "/nowhere/jitlat.Kda4Ib"], 5, "open /nowhere/jitlat.Kda4Ib");
}

#[test]
fn options_that_make_no_sense_end_with_2() {
    refused(&["jitlat", "-f", "x", "janus"], 2, "cannot be used with");
    refused(&["jitlat", "-l", "11", "janus"], 2, "11 is not in 12..=65507");
    refused(&["jitlat", "-n", "0", "janus"], 2, "0 is not in 1..=");
    refused(&["jitlat", "-r", "0", "janus"], 2, "packets per second, from 0.001 to 1e9");
    refused(&["jitlat", "-r", "50", "-p", "1000", "janus"], 2, "cannot be used with");
    refused(&["jitlat", "-D", "64", "janus"], 2, "64 is not in 0..64");
    refused(&["jitlat", "::1"], 2, "has no IPv4 address");
}

/// A server of ours on free ports, ended with the test.
struct Server {
    child: Child,
    control: String,
    test: String,
}

impl Server {
    fn start() -> Self {
        let mut child = quaver(&["jitlat", "--bind", "127.0.0.1", "--control-port", "0", "-d", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let after = |words: &str| -> String {
            let rest = line.split(words).nth(1).unwrap_or_else(|| panic!("{words:?} in {line:?}"));
            rest.chars().take_while(char::is_ascii_digit).collect()
        };
        let server = Self { control: after("127.0.0.1:"), test: after("port "), child };
        // The pipe must not fill up or break.
        std::thread::spawn(move || log.lines().for_each(drop));
        server
    }

    fn client(&self, directory: &Path, more: &[&str]) -> Command {
        let mut client = quaver(&["jitlat", "-q", "--rtt-interval", "1ms", "--control-port", &self.control]);
        if !more.contains(&"-d") {
            client.args(["-d", &self.test]);
        }
        client.args(more).arg("127.0.0.1").current_dir(directory);
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one log in a directory.
fn only_log(directory: &Path) -> PathBuf {
    let names: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [path] = &names[..] else { panic!("one log, not {names:?}") };
    path.clone()
}

/// A port of the test's own. A flow to the client needs a number: Jitlat's client says where it receives.
fn free_port() -> String {
    quaver_testbed::ports::free_port().to_string()
}

/// A whole test; its page and its log, which analysed again gives the same page.
#[track_caller]
fn whole_test(server: &Server, more: &[&str]) -> (String, String) {
    let place = tempfile::tempdir().unwrap();
    let output = server.client(place.path(), more).output().unwrap();
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{page}{}", text(&output.stderr));
    let path = only_log(place.path());
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(page.starts_with("Connecting to 127.0.0.1. ... Connected.\n"), "{page}");
    assert!(page.contains(&format!("\nData logged to {name}\n\n")), "{page}");
    let again = text(&run(&["jitlat", "-f", path_text(&path)]).stdout);
    let body = |page: &str| page.split_once("\n\n").map(|(_, body)| body.to_owned());
    assert_eq!(body(&page), body(&again));
    (page, std::fs::read_to_string(path).unwrap())
}

fn rows(log: &str) -> usize {
    log.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn a_test_to_the_server_and_one_from_it() {
    let server = Server::start();
    let (page, log) = whole_test(&server, &["-n", "50", "-p", "1000000", "-l", "100", "-D", "46"]);
    assert!(page.contains("\nsending 50 UDP pkts from 127.0.0.1:"), "{page}");
    assert!(page.contains("\n50 packets sent\n50 unique/valid packets received\n"), "{page}");
    assert!(page.contains("\nEstimated control channel minimum RTT = "), "{page}");
    assert_eq!(rows(&log), 50);
    for line in
        ["# command SENDING", "# npkts 50", "# pktlen 100", "# period 1000000", "# dscp 46", "# complete"]
    {
        assert!(log.contains(&format!("\n{line}\n")), "{line}: {log}");
    }
    assert!(log.lines().nth(11).unwrap().starts_with("# clock_error_ns "), "{log}");
    assert!(log.lines().nth(12).unwrap().starts_with("# min_rtt_ns "), "{log}");
    let (page, log) = whole_test(&server, &["-R", "-n", "50", "-r", "1000", "-d", &free_port()]);
    assert!(page.contains("\nreceiving 50 UDP pkts from 127.0.0.1:"), "{page}");
    assert_eq!(rows(&log), 50);
    assert!(log.contains("\n# command SEND_ME\n") && log.contains("\n# direction down\n"), "{log}");
}

#[test]
fn after_a_nak_nothing_is_logged() {
    let server = Server::start();
    let place = tempfile::tempdir().unwrap();
    // Beyond the cap for peers that cannot prove their address.
    let output = server.client(place.path(), &["-r", "1000000"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("refused the test (NAK)"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "Connecting to 127.0.0.1. ... Connected.\n");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn nobody_there_ends_with_4() {
    let place = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let output =
        quaver(&["jitlat", "-q", "--control-port", &port, "127.0.0.1"]).current_dir(place.path()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "Connecting to 127.0.0.1. ...\n");
}

/// A long test from the server whose client is under way: its child, and the pages that it prints.
fn under_way(server: &Server, directory: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut client = server
        .client(directory, &["-R", "-n", "100000", "-p", "2000000", "-d", &free_port()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut page = BufReader::new(client.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("receiving") {
        line.clear();
        assert_ne!(page.read_line(&mut line).unwrap(), 0, "the test began");
    }
    (client, page)
}

#[test]
fn an_interrupted_test_keeps_and_marks_what_it_had() {
    let server = Server::start();
    let place = tempfile::tempdir().unwrap();
    let (client, mut page) = under_way(&server, place.path());
    let pid = rustix::process::Pid::from_raw(client.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut page, &mut rest).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(rest.contains("\nInterrupted: the user ended the test."), "{rest}");
    let log = std::fs::read_to_string(only_log(place.path())).unwrap();
    assert!(log.contains("\n# interrupted the user ended the test\n"), "{log}");
}

#[test]
fn a_client_that_loses_its_server_keeps_and_marks_what_it_had() {
    let server = Server::start();
    let place = tempfile::tempdir().unwrap();
    let (client, mut page) = under_way(&server, place.path());
    drop(server);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut page, &mut rest).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(rest.contains("\nInterrupted: "), "{rest}");
    let log = std::fs::read_to_string(only_log(place.path())).unwrap();
    assert!(log.contains("\n# interrupted "), "{log}");
}
