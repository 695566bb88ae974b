//! Tracing with fewer and fewer rights: each stream is measured, its page tells the tier and the reason, and `quaver doctor`
//! has told the same before.

mod burner;

use burner::Burner;
use quaver_testbed::ports::free_port;
use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::fs::{Permissions, create_dir, set_permissions};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A burner would starve another test's receiver.
static ALONE: Mutex<()> = Mutex::new(());

/// How a program is started with some rights, and what the tier is then.
struct Rights {
    name: &'static str,
    /// Words before the program's own.
    with: &'static [&'static str],
    tier: &'static str,
    /// What the reason says.
    reason: &'static [&'static str],
}

/// The words of `setpriv` for an ordinary user with these capabilities and no others.
macro_rules! ordinary_user {
    ($capabilities:literal) => {
        &[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            concat!("--inh-caps=-all", $capabilities),
            concat!("--ambient-caps=-all", $capabilities),
            concat!("--bounding-set=-all", $capabilities),
        ]
    };
}

const ALL_RIGHTS: Rights = Rights { name: "root", with: &["env"], tier: "bpf", reason: &[] };
const TRACEFS_ONLY: Rights = Rights {
    name: "root's files and no capability, where tracefs is mounted",
    with: &[
        "unshare",
        "--mount",
        "sh",
        "-c",
        "mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing; \
         exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all \"$@\"",
        "sh",
    ],
    tier: "tracefs",
    reason: &["loading the BPF programs", "not permitted"],
};
const WITHOUT_TYPES: Rights = Rights {
    name: "a kernel without a type description",
    with: &["unshare", "--mount", "sh", "-c", "mount -t tmpfs nodev /sys/kernel/btf && exec \"$@\"", "sh"],
    tier: "tracefs",
    reason: &["/sys/kernel/btf/vmlinux", "not supported here"],
};
const SETS: [Rights; 7] = [
    ALL_RIGHTS,
    Rights {
        name: "no right",
        with: ordinary_user!(""),
        tier: "user",
        reason: &["loading the BPF programs", "tracefs", "not permitted"],
    },
    Rights {
        name: "CAP_NET_RAW",
        with: ordinary_user!(",+net_raw"),
        tier: "user",
        reason: &["loading the BPF programs", "tracefs", "not permitted"],
    },
    Rights {
        name: "CAP_BPF and CAP_PERFMON",
        with: ordinary_user!(",+bpf,+perfmon"),
        tier: "bpf",
        reason: &[],
    },
    TRACEFS_ONLY,
    Rights {
        // Where tracefs is mounted, its files are root's in such a namespace too.
        name: "root of a user namespace",
        with: &[
            "unshare",
            "--mount",
            "sh",
            "-c",
            "mountpoint -q /sys/kernel/tracing && umount /sys/kernel/tracing; exec unshare --user --map-root-user \"$@\"",
            "sh",
        ],
        tier: "user",
        reason: &["loading the BPF programs", "tracefs", "not permitted"],
    },
    WITHOUT_TYPES,
];

/// The program where everybody can run it, and a folder where everybody can write.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn make() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory };
        // By another process: a child that another test forks meanwhile would hold the copy open for writing.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_quaver")).arg(place.program()).status();
        assert!(copied.unwrap().success());
        set_permissions(place.directory.path(), Permissions::from_mode(0o755)).unwrap();
        set_permissions(place.program(), Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("quaver")
    }

    /// A new folder for runs.
    fn runs(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        create_dir(&path).unwrap();
        set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        path
    }

    fn run(&self, rights: &Rights, words: &[&str]) -> Output {
        let mut command = Command::new(rights.with[0]);
        command.args(&rights.with[1..]).arg(self.program()).args(words).current_dir(self.directory.path());
        command.output().unwrap()
    }

    /// A chase whose runs go to `runs`; its summary and its page, on one line.
    #[track_caller]
    fn chase(&self, rights: &Rights, runs: &Path, words: &[&str]) -> (Value, String) {
        let directory = runs.to_str().unwrap();
        let all = [&["chase", "--quiet", "--output", directory], words].concat();
        let output = self.run(rights, &all);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {words:?}: {}: {said}", rights.name, output.status);
        let mut found = std::fs::read_dir(runs).unwrap().map(|run| run.unwrap().path().join("summary.json"));
        let summary = found.next().expect("a run");
        assert!(found.next().is_none(), "one run");
        let page = String::from_utf8(output.stdout).unwrap();
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        (serde_json::from_slice(&std::fs::read(summary).unwrap()).unwrap(), page)
    }
}

/// A packet each millisecond to `to` until it is told to stop.
fn send(to: SocketAddr, stop: &AtomicBool) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    while !stop.load(Ordering::Relaxed) {
        // Refused until somebody listens.
        let _ = socket.send_to(&[0x5a; 200], to);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Measures somebody's stream.
fn listen(place: &Place, rights: &Rights, runs: &Path) -> (Value, String) {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let stop = Arc::new(AtomicBool::new(false));
    let sender = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || send(to, &stop)
    });
    let words = ["--listen", &to.to_string(), "--receive", "block", "--for", "500ms"];
    let found = place.chase(rights, runs, &words);
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    found
}

fn phrases(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|phrase| phrase.as_str().unwrap()).collect()
}

#[test]
fn each_set_of_rights_has_the_tier_that_doctor_promises() {
    if !privileged("each_set_of_rights_has_the_tier_that_doctor_promises") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::make();
    for (index, rights) in SETS.iter().enumerate() {
        let name = rights.name;
        let output = place.run(rights, &["doctor", "--json"]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let promised: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(promised["best_tier"], rights.tier, "{name}: {}", promised["tier_reason"]);
        let reason = promised["tier_reason"].as_str().unwrap_or_default();
        assert_eq!(reason.is_empty(), rights.reason.is_empty(), "{name}: {reason}");
        assert!(rights.reason.iter().all(|part| reason.contains(part)), "{name}: {reason}");

        let own = ["--receive", "block", "--period", "1ms", "--pace", "sleep", "--for", "500ms", "--no-cost"];
        let runs = [place.runs(&format!("own {index}")), place.runs(&format!("listened {index}"))];
        for (summary, page) in [place.chase(rights, &runs[0], &own), listen(&place, rights, &runs[1])] {
            for key in ["tier", "tier_reason"] {
                let same = if key == "tier" { "best_tier" } else { key };
                assert_eq!(summary[key], promised[same], "{name}");
            }
            let shown = if rights.tier == "user" { "user space only" } else { rights.tier };
            let reason = if reason.is_empty() { String::new() } else { format!("no better tier: {reason} ") };
            assert!(page.contains(&format!("tracing {shown} {reason}not observed ")), "{name}: {page}");
            assert!(summary["losses"]["received"].as_u64().unwrap() > 100, "{name}: {summary}");
            let blind = phrases(&summary["blind"]);
            let state = &promised["host"][format!("{}_tier", rights.tier)]["blind"];
            let expected = if rights.tier == "user" { Vec::new() } else { phrases(state) };
            assert!(expected.iter().all(|phrase| blind.contains(phrase)), "{name}: {expected:?} {blind:?}");
            let queue = blind.iter().any(|phrase| phrase.starts_with("entry into the socket's queue"));
            assert_eq!(queue, rights.tier == "tracefs", "{name}: {blind:?}");
        }
    }
}

#[test]
fn without_bpf_a_burst_is_named_all_the_same() {
    if !privileged("without_bpf_a_burst_is_named_all_the_same") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::make();
    for (rights, words) in [(&ALL_RIGHTS, &["--tier", "tracefs"][..]), (&TRACEFS_ONLY, &[])] {
        let runs = place.runs(rights.tier);
        let cpu = burner::last_cpu().to_string();
        let burner = Burner::start();
        // A sink that polls: a kernel was met that recorded no switch from idle on one CPU any more.
        let stream = ["--sink-cpu", &cpu, "--receive", "poll", "--period", "1ms", "--for", "3s"];
        let (summary, _) = place.chase(rights, &runs, &[&stream[..], words].concat());
        let bursts = burner.stop();
        assert_eq!(summary["tier"], "tracefs");
        // Another program of this machine may take more time than the burner; its bursts are judged below.
        let causes = summary["causes"].as_array().unwrap();
        let of_burner = |cause: &Value| cause["name"].as_str().unwrap().contains("burner");
        assert!(causes.iter().any(of_burner), "{causes:?}");
        burner::assert_blamed(env!("CARGO_BIN_EXE_quaver"), &runs, &bursts);
    }
}

#[test]
fn a_process_is_followed_by_bpf_alone() {
    if !privileged("a_process_is_followed_by_bpf_alone") {
        return;
    }
    let place = Place::make();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let this = std::process::id().to_string();
    for (rights, words, code) in [(&ALL_RIGHTS, &["--tier", "tracefs"][..], 2), (&WITHOUT_TYPES, &[], 3)] {
        let output = place.run(rights, &[&["chase", "--quiet", "--pid", &this], words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("--pid needs the BPF tier"), "{said}");
    }
    drop(socket);
}
