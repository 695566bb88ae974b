//! Devices that a process holds open: until the session ends, or until revert where it was to stay.

use quaver_host::root::HostRoot;
use quaver_host::settings::journal::{Fate, Is, Others, Outcome};
use quaver_host::settings::{Change, Journal, JournalPlace, Knob};
use std::path::Path;
use std::sync::Mutex;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// A process that is started has the locks of all tests open for a moment: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn latency(value: &str) -> Change {
    Change::new(Knob::Held { device: DEVICE.to_owned() }, value)
}

/// A machine whose device says that nobody asks for anything: 2000 seconds, as the kernel has it.
fn machine(directory: &Path) -> JournalPlace {
    std::fs::create_dir_all(directory.join("machine/dev")).unwrap();
    std::fs::create_dir_all(directory.join("machine/proc/sys/kernel/random")).unwrap();
    std::fs::write(directory.join("machine/proc/sys/kernel/random/boot_id"), "this one\n").unwrap();
    let device = directory.join("machine").join(DEVICE.trim_start_matches('/'));
    std::fs::write(device, 2_000_000_000_i32.to_ne_bytes()).unwrap();
    JournalPlace::at(directory.join("journal"), HostRoot::at(directory.join("machine")))
}

fn is_holder(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "quaver-hold\n")
}

fn holder(journal: &Journal) -> u32 {
    journal.status().unwrap().changes[0].holder.expect("the journal names it").pid
}

#[test]
fn a_device_is_held_until_the_session_ends() {
    let _alone = ALONE.lock().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&machine(directory.path()));
    let mut session = journal.session("capture").unwrap();
    let applied = session.apply(&latency("0")).unwrap();
    assert_eq!((applied.before.as_str(), applied.now.as_str()), ("2000000000", "0"));
    let pid = holder(&journal);
    assert!(is_holder(pid));
    assert_eq!(session.apply(&latency("0")).unwrap().outcome, Outcome::AlreadySo);
    assert!(session.apply(&latency("low")).is_err());
    drop(session);
    assert!(!is_holder(pid));
    assert_eq!(journal.status().unwrap().changes, []);
}

#[test]
fn a_device_that_was_to_stay_held_is_let_go_by_revert() {
    let _alone = ALONE.lock().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&machine(directory.path()));
    let mut session = journal.session("tune apply").unwrap();
    session.apply(&latency("20")).unwrap();
    session.keep().unwrap();
    let pid = holder(&journal);
    assert!(is_holder(pid));
    assert_eq!(journal.status().unwrap().changes[0].is, Is::Ours);
    // The holder has no lock: others may change settings while it lives.
    drop(journal.session("capture").unwrap());
    let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
    assert_eq!(undone[0].fate, Fate::Restored);
    assert!(!is_holder(pid) || is_zombie(pid));
}

/// Nobody waits for a holder that was to outlive its maker, until its maker has ended.
fn is_zombie(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_device_that_cannot_be_opened_is_held_by_nobody() {
    let _alone = ALONE.lock().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let place = machine(directory.path());
    let journal = Journal::open(&place);
    std::fs::remove_file(directory.path().join("machine/dev/cpu_dma_latency")).unwrap();
    let error = journal.session("capture").unwrap().apply(&latency("0")).unwrap_err().to_string();
    assert!(error.contains("no such device"), "{error}");
    assert_eq!(journal.status().unwrap().changes, []);
}
