//! A real process, killed by SIGKILL between two steps of a change, and what is put back after it.

#[path = "../../../testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;

use privileged::privileged;
use quaver_host::root::HostRoot;
use quaver_host::settings::contact;
use quaver_host::settings::journal::{Others, Step, Steps};
use quaver_host::settings::{Change, Journal, JournalPlace, Knob};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const DIRECTORY: &str = "QUAVER_TEST_TUNE_DIRECTORY";

const FILES: [(&str, &str); 3] = [
    ("machine/proc/sys/kernel/watchdog", "1\n"),
    ("machine/proc/irq/41/smp_affinity_list", "0-3\n"),
    ("machine/sys/kernel/rcu_normal", "0\n"),
];

/// Tells the parent of each step, and takes it when told to.
#[derive(Debug)]
struct Led;

impl Steps for Led {
    fn before(&self, _: Step) -> io::Result<()> {
        let mut out = io::stderr().lock();
        out.write_all(b"s")?;
        out.flush()?;
        let mut answer = [0];
        io::stdin().lock().read_exact(&mut answer)
    }
}

/// The journal of a test, about a machine of files, or about this one where there are none.
fn place(directory: &Path) -> JournalPlace {
    let machine = directory.join("machine");
    let root = if machine.exists() { HostRoot::at(machine) } else { HostRoot::system() };
    JournalPlace::at(directory.join("journal"), root)
}

/// What the child does; nothing in a run of the tests themselves.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let mut session = Journal::open(&place(&directory).with_steps(Arc::new(Led))).session("capture").unwrap();
    for change in if directory.join("machine").exists() { changes().to_vec() } else { real() } {
        session.apply(&change).unwrap();
    }
    session.revert().unwrap();
}

fn changes() -> [Change; 3] {
    [
        Change::new(Knob::sysctl("kernel.watchdog"), "0"),
        Change::new(Knob::Irq { irq: 41 }, "0"),
        Change::new(Knob::file("/sys/kernel/rcu_normal"), "1"),
    ]
}

/// Settings of this machine, to values that nobody notices.
fn real() -> Vec<Change> {
    let mut changes = vec![
        Change::new(Knob::sysctl("vm.stat_interval"), "118"),
        Change::new(Knob::sysctl("net.core.netdev_budget"), "302"),
        Change::new(Knob::Held { device: "/dev/cpu_dma_latency".to_owned() }, "1998"),
    ];
    let scan = "/sys/kernel/mm/ksm/pages_to_scan";
    changes.extend(Path::new(scan).exists().then(|| Change::new(Knob::file(scan), "102")));
    changes
}

fn machine(directory: &Path) {
    for (name, text) in FILES {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn texts(directory: &Path) -> Vec<String> {
    FILES.iter().map(|(name, _)| std::fs::read_to_string(directory.join(name)).unwrap()).collect()
}

/// Lets a child take so many steps and kills it before the next; whether there was a next one.
fn killed_before(directory: &Path, step: usize) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let led = (0..step).all(|_| waits(&mut child) && go_on(&mut child));
    let more = led && waits(&mut child);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(more || status.success() || !led, "{status}");
    more
}

fn waits(child: &mut Child) -> bool {
    child.stderr.as_mut().unwrap().read_exact(&mut [0]).is_ok()
}

fn go_on(child: &mut Child) -> bool {
    child.stdin.as_mut().unwrap().write_all(b"g").is_ok()
}

#[test]
fn kill_9_between_any_two_steps_leaves_nothing_that_revert_does_not_put_back() {
    let whole = FILES.map(|(_, text)| text.to_owned()).to_vec();
    let mut changed = 0;
    for step in 0.. {
        let directory = tempfile::tempdir().unwrap();
        machine(directory.path());
        let more = killed_before(directory.path(), step);
        changed += usize::from(texts(directory.path()) != whole);
        let undone = Journal::open(&place(directory.path())).revert(Others::Leave, &|_, _| true).unwrap();
        assert!(undone.iter().all(|one| one.fate.is_final()), "before step {step}: {undone:?}");
        assert_eq!(texts(directory.path()), whole, "before step {step}");
        if !more {
            assert!(step > 20 && changed > 10, "{step} steps, {changed} of them with something changed");
            break;
        }
    }
}

#[test]
fn kill_9_with_settings_of_this_machine() {
    let test = "kill_9_with_settings_of_this_machine";
    if !privileged(test) {
        return;
    }
    let system = JournalPlace::at("/nonexistent", HostRoot::system());
    let files: Vec<Knob> = real()
        .into_iter()
        .map(|change| change.knob)
        .filter(|knob| matches!(knob, Knob::File { .. }))
        .collect();
    let said = || files.iter().map(|knob| contact::read(system.contact(), knob).unwrap()).collect::<Vec<_>>();
    let (before, mut changed) = (said(), 0);
    for step in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let more = killed_before(directory.path(), step);
        changed += usize::from(said() != before);
        let undone = Journal::open(&place(directory.path())).revert(Others::Leave, &|_, _| true).unwrap();
        assert!(undone.iter().all(|one| one.fate.is_final()), "before step {step}: {undone:?}");
        assert_eq!(said(), before, "before step {step}");
        if !more {
            assert!(step > 20 && changed > 10, "{step} steps, {changed} of them with something changed");
            break;
        }
    }
    // Whoever held the device for a killed process has ended with it.
    let names = HostRoot::system().names("/proc").into_iter();
    let ours = names.filter(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name == "quaver-hold\n") && started_by_us(pid)
    });
    assert_eq!(ours.count(), 0);
}

/// A holder keeps the program of the test that it was made by.
fn started_by_us(pid: &str) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok() == std::env::current_exe().ok()
}
