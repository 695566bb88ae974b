//! The units of systemd that are shipped: how exposed they are, and that their verbs do under them what they are for.

mod unit;

use quaver_testbed::ports::free_port;
use quaver_testbed::privileged::privileged;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use unit::{Started, Unit, shipped, systemd_analyze};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
const PATIENCE: Duration = Duration::from_secs(30);

/// Units, and the exposure that `systemd-analyze security` may give each, in tenths.
const EXPOSURE: [(&str, u32); 3] = [("serve", 15), ("watch", 20), ("tune-revert", 14)];

#[test]
fn units_are_as_little_exposed_as_their_verbs_allow() {
    let place = tempfile::tempdir().unwrap();
    let with_metrics = place.path().join("quaver-watch.service");
    std::fs::write(&with_metrics, with_network(&std::fs::read_to_string(shipped("watch")).unwrap())).unwrap();
    let units = EXPOSURE.map(|(name, most)| (shipped(name), most)).into_iter().chain([(with_metrics, 29)]);
    for (unit, most) in units {
        let threshold = format!("--threshold={most}");
        let words = ["security", "--offline=true", "--no-pager", &threshold, unit.to_str().unwrap()];
        let Some(output) = systemd_analyze("units_are_as_little_exposed_as_their_verbs_allow", &words) else {
            return;
        };
        assert!(output.status.success(), "{}", said(&output));
    }
}

/// The unit of a watch as its comment says for `metrics`.
fn with_network(unit: &str) -> String {
    let (before, rest) = unit.split_once("\nRestrictAddressFamilies=AF_UNIX\n").unwrap();
    let (taken, kept) = rest.split_once("\n#RestrictAddressFamilies").unwrap();
    assert_eq!(taken, "IPAddressDeny=any\nPrivateNetwork=yes");
    format!("{before}\nRestrictAddressFamilies{kept}")
}

fn said(output: &Output) -> String {
    let [told, warned] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{}:\n{told}{warned}", output.status)
}

fn quaver(words: &[&str]) -> Output {
    Command::new(QUAVER).args(words).stdin(Stdio::null()).output().unwrap()
}

/// What comes to standard error until this word does.
fn heard(started: &mut Started, word: &str) -> String {
    let from = started.process.child.stderr.as_mut().unwrap();
    let mut said = String::new();
    while !said.contains(word) {
        let mut byte = [0];
        assert_eq!(from.read(&mut byte).unwrap(), 1, "{said}; refused: {:?}", started.refused());
        said.push(char::from(byte[0]));
    }
    said
}

/// Seccomp filters of a process.
fn filters(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    line.unwrap().trim().parse().unwrap()
}

fn ended(mut started: Started, with: rustix::process::Signal) -> Output {
    let process = rustix::process::Pid::from_child(&started.process.child);
    rustix::process::kill_process(process, with).unwrap();
    drop(started.process.child.stdin.take());
    started.process.output().unwrap()
}

#[test]
fn a_server_under_its_unit_gives_up_rights_and_is_probed() {
    let name = "a_server_under_its_unit_gives_up_rights_and_is_probed";
    let Some(unit) = privileged(name).then(|| Unit::read("serve", name)).flatten() else { return };
    let place = tempfile::tempdir().unwrap();
    let ports = [free_port().to_string(), free_port().to_string()];
    let mut started = unit.start(QUAVER.as_ref(), place.path(), &[], |command, _| {
        command.args(unit.command()).args(["--bind", "127.0.0.1", "--port", &ports[0]]);
        command.args(["--test-port", &ports[1]]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
    });
    let said_first = heard(&mut started, "listening");
    assert!(!said_first.contains("not confined"), "{said_first}; refused: {:?}", started.refused());
    assert_eq!(filters(started.process.child.id()), 3, "one of the unit, two of its own");
    let runs = place.path().join("runs");
    let server = format!("127.0.0.1:{}", ports[0]);
    for words in [&["--at-once"][..], &[]] {
        let all = ["probe", &server, "-q", "--for", "100ms", "--fail-if", "up.loss.packets > 0"];
        let probed = quaver(&[&all[..], &["-o", runs.to_str().unwrap()], words].concat());
        assert!(probed.status.success(), "{}; refused: {:?}", said(&probed), started.refused());
    }
    assert!(started.refused().is_empty(), "{:?}", started.refused());
    assert!(ended(started, rustix::process::Signal::TERM).status.success());
}

/// Ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn beside(words: &[&str]) -> Ended {
    let mut command = Command::new(QUAVER);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ended(command.spawn().unwrap())
}

fn incidents(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.join("incidents")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_watch_under_its_unit_gives_up_rights_and_keeps_an_incident() {
    let name = "a_watch_under_its_unit_gives_up_rights_and_keeps_an_incident";
    let Some(unit) = privileged(name).then(|| Unit::read("watch", name)).flatten() else { return };
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let port = free_port().to_string();
    let file = place.path().join("watch.toml");
    let socket = state.join("watch.sock");
    let settings = format!(
        "directory = '{}'\nsocket = '{}'\n[window]\nbefore = '500ms'\nafter = '300ms'\n\
         [[receiver]]\nname = 'sink'\nport = {port}\ngap = '60s'\n",
        state.display(),
        socket.display()
    );
    std::fs::write(&file, settings).unwrap();
    let runs = place.path().join("runs");
    let to = format!("127.0.0.1:{port}");
    let _sink = beside(&["sink", &to, "--receive", "block", "--for", "120s", "-o", runs.to_str().unwrap()]);
    let _source = beside(&["source", &to, "--period", "2ms", "--pace", "sleep", "--count", "60000"]);
    let words: Vec<String> = unit.command().iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(words[..2], ["watch", "--config"]);
    let mut started = unit.start(QUAVER.as_ref(), place.path(), &[&state], |command, _| {
        command.args(&words[..2]).arg(&file).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
    });
    heard(&mut started, "watching ");
    assert_eq!(filters(started.process.child.id()), 3, "one of the unit, two of its own");
    // It is watched before all that an incident wants is held.
    let since = Instant::now();
    let held_s = || {
        let status = said(&quaver(&["watch", "status", "--socket", socket.to_str().unwrap()]));
        let (_, rest) = status.split_once("sink: ")?;
        rest.split_once(" s held")?.0.parse::<f64>().ok()
    };
    while held_s().is_none_or(|held_s| held_s < 0.7) {
        assert!(since.elapsed() < PATIENCE, "nothing is held; refused: {:?}", started.refused());
        std::thread::sleep(Duration::from_millis(50));
    }
    let asked = quaver(&["watch", "trigger", "--socket", socket.to_str().unwrap()]);
    assert!(asked.status.success(), "{}; refused: {:?}", said(&asked), started.refused());
    let since = Instant::now();
    while incidents(&state).is_empty() {
        assert!(since.elapsed() < PATIENCE, "no incident; refused: {:?}", started.refused());
        std::thread::sleep(Duration::from_millis(50));
    }
    let [incident] = &incidents(&state)[..] else { panic!("one was asked for") };
    let read = |file: &str| {
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(incident.join(file)).unwrap()).unwrap()
    };
    assert_eq!(read("manifest.json")["complete"], true);
    let summary = read("summary.json");
    assert_eq!((&summary["tier"], &summary["warnings"]), (&"bpf".into(), &serde_json::json!([])));
    assert!(summary["lateness"]["distribution"]["count"].as_u64().unwrap() > 0, "{summary}");
    assert!(started.refused().is_empty(), "{:?}", started.refused());
    let last = ended(started, rustix::process::Signal::TERM);
    assert!(last.status.success(), "{}", said(&last));
}

/// A machine of files on which ksm was switched off, as by a verb that was killed or, where `kept`, by `tune apply`.
fn tuned(place: &Path, kept: bool) -> Vec<String> {
    let machine = place.join("machine");
    for (file, text) in [
        ("proc/sys/kernel/random/boot_id", "this one\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/kernel/mm/ksm/run", "1\n"),
    ] {
        let path = machine.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let journal = place.join("journal");
    let places = ["--root", machine.to_str().unwrap(), "--journal", journal.to_str().unwrap()];
    let applied = quaver(&[&["tune", "apply", "--cpu", "1", "--only", "ksm"][..], &places].concat());
    assert!(applied.status.success(), "{}", said(&applied));
    if !kept {
        let path = journal.join("tune.journal");
        let text = std::fs::read_to_string(&path).unwrap();
        let left: String = text.split_inclusive('\n').filter(|line| !line.contains("\"kept\"")).collect();
        assert_ne!(left, text);
        std::fs::write(path, left).unwrap();
    }
    places.map(str::to_owned).to_vec()
}

#[test]
fn at_boot_the_unit_clears_the_journal_and_what_it_may_not_write_stays_in_it() {
    let name = "at_boot_the_unit_clears_the_journal_and_what_it_may_not_write_stays_in_it";
    let Some(unit) = privileged(name).then(|| Unit::read("tune-revert", name)).flatten() else { return };
    for kept in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let places = tuned(place.path(), kept);
        if kept {
            let boot = place.path().join("machine/proc/sys/kernel/random/boot_id");
            std::fs::write(boot, "the next one\n").unwrap();
        }
        let journal = place.path().join("journal");
        let started = unit.start(QUAVER.as_ref(), place.path(), &[&journal], |command, _| {
            command.args(unit.command()).args(&places).stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        });
        let output = started.process.output().unwrap();
        let page = said(&output);
        let status: Vec<&str> =
            ["tune", "status"].into_iter().chain(places.iter().map(String::as_str)).collect();
        let left = said(&quaver(&status));
        if kept {
            assert!(output.status.success() && page.contains("reset by the reboot"), "{page}");
            assert!(left.contains("No setting is changed"), "{left}");
            continue;
        }
        // The kernel went on: its settings are for `quaver tune revert`, and are not forgotten.
        assert!(output.status.code() == Some(6) && page.contains("mounted read-only"), "{page}");
        assert!(left.contains("ksm"), "{left}");
        let revert: Vec<&str> =
            ["tune", "revert"].into_iter().chain(places.iter().map(String::as_str)).collect();
        let reverted = quaver(&revert);
        assert!(reverted.status.success() && said(&reverted).contains("restored"), "{}", said(&reverted));
        let ksm = std::fs::read_to_string(place.path().join("machine/sys/kernel/mm/ksm/run")).unwrap();
        assert_eq!(ksm, "1\n");
    }
}
