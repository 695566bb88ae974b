//! Devices that are held open (PM QoS), through the end of the world between any two steps of the journal: no process of ours
//! holds one after a revert, and all else says again what it said. In a process of its own, since one that is forked has the
//! locks of every other test open for a moment.

use quaver_host::root::HostRoot;
use quaver_host::settings::journal::{Fate, JOURNAL, Others, Step, Steps};
use quaver_host::settings::{Change, Journal, JournalPlace, Knob, TuneError};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FILES: [(&str, &str); 4] = [
    ("proc/sys/kernel/random/boot_id", "this one\n"),
    ("proc/sys/kernel/watchdog", "1\n"),
    ("sys/kernel/rcu_normal", "0\n"),
    // Four bytes, as the device has them. Here it is a file, which keeps what was written to it; a device forgets it with
    // the process that holds it, so that what counts is whether that lives.
    ("dev/cpu_dma_latency", "zzzz"),
];
const FOR_EVER: usize = usize::MAX / 2;

/// Lets so many steps pass, and none after that: as if the process had been killed there.
#[derive(Debug)]
struct Doom {
    left: AtomicUsize,
    at_sync: AtomicUsize,
}

impl Doom {
    fn after(steps: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(steps), at_sync: AtomicUsize::new(0) })
    }
}

impl Steps for Doom {
    fn before(&self, step: Step) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            let sync = if step == Step::Sync { 1 } else { 2 };
            let _ = self.at_sync.compare_exchange(0, sync, Ordering::Relaxed, Ordering::Relaxed);
            return Err(io::Error::other("the process was killed"));
        }
        self.left.store(left - 1, Ordering::Relaxed);
        Ok(())
    }
}

struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let machine = Self { directory: made.unwrap() };
        for (name, text) in FILES {
            let path = machine.directory.path().join("machine").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        machine
    }

    fn place(&self) -> JournalPlace {
        let root = HostRoot::at(self.directory.path().join("machine"));
        JournalPlace::at(self.directory.path().join("journal"), root)
    }

    fn journal(&self) -> std::path::PathBuf {
        self.directory.path().join("journal").join(JOURNAL)
    }

    /// What the files say that are no device.
    fn texts(&self) -> Vec<String> {
        let read =
            |name: &str| std::fs::read_to_string(self.directory.path().join("machine").join(name)).unwrap();
        FILES[..3].iter().map(|(name, _)| read(name)).collect()
    }

    /// Processes that the journal has as holding the device: children of ours, for whom nobody else waits.
    fn holders(&self) -> Vec<Pid> {
        let text = String::from_utf8_lossy(&std::fs::read(self.journal()).unwrap_or_default()).into_owned();
        let pid = |rest: &str| {
            let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
            Pid::from_raw(digits.parse().ok()?)
        };
        text.split("\"holder\":{\"pid\":").skip(1).filter_map(pid).collect()
    }

    /// Ends those that live, and says how many did.
    fn end_holders(&self) -> usize {
        let lives = |pid: &Pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None));
        let living: Vec<Pid> = self.holders().into_iter().filter(lives).collect();
        for pid in &living {
            kill_process(*pid, Signal::KILL).unwrap();
            waitpid(Some(*pid), WaitOptions::empty()).unwrap();
        }
        living.len()
    }

    /// Puts all back as `quaver tune revert` would.
    fn revert_and_compare(&self, when: &str) {
        let holders = self.holders();
        let undone = Journal::open(&self.place()).revert(Others::Leave, &|_, _| true);
        let undone = undone.unwrap_or_else(|error| panic!("{when}: {error}"));
        assert!(undone.iter().all(|one| one.fate.is_final()), "{when}: {undone:?}");
        assert_eq!(self.texts(), FILES[..3].iter().map(|(_, text)| *text).collect::<Vec<_>>(), "{when}");
        assert_eq!(Journal::open(&self.place()).status().unwrap().changes, [], "{when}");
        for pid in holders {
            // One that is no child any more was waited for by the session that started it.
            let lives = matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None));
            assert!(!lives, "{when}: process {pid:?} still holds the device");
        }
    }
}

fn held(value: &str) -> Change {
    Change::new(Knob::Held { device: "/dev/cpu_dma_latency".to_owned() }, value)
}

/// Settings that stay, a verb that holds the device more tightly and ends, and all put back.
fn day(place: &JournalPlace) -> Result<(), TuneError> {
    let mut session = Journal::open(place).session("tune apply")?;
    session.apply(&Change::new(Knob::sysctl("kernel.watchdog"), "0"))?;
    session.apply(&held("20"))?;
    session.apply(&Change::new(Knob::file("/sys/kernel/rcu_normal"), "1"))?;
    session.keep()?;
    let mut session = Journal::open(place).session("capture")?;
    session.apply(&held("0"))?;
    drop(session);
    let undone = Journal::open(place).revert(Others::Leave, &|_, _| true)?;
    assert!(undone.iter().all(|one| one.fate == Fate::Restored), "{undone:?}");
    Ok(())
}

#[test]
fn from_every_step_and_every_torn_line_no_device_stays_held() {
    let whole = Machine::new();
    let doom = Doom::after(FOR_EVER);
    day(&whole.place().with_steps(doom.clone())).unwrap();
    whole.revert_and_compare("nothing was in the way");
    let steps = FOR_EVER - doom.left.load(Ordering::Relaxed);
    assert!(steps > 30, "{steps} steps are too few to have been everywhere");
    let mut stayed = 0;
    for step in 0..steps {
        // How long the journal is then, and where its last line begins.
        let shape = Machine::new();
        let doom = Doom::after(step);
        day(&shape.place().with_steps(doom.clone())).expect_err("it was ended");
        let octets = std::fs::read(shape.journal()).unwrap_or_default();
        stayed += shape.end_holders();
        let mut lengths = vec![octets.len()];
        if doom.at_sync.load(Ordering::Relaxed) == 1 && !octets.is_empty() {
            let last =
                octets[..octets.len() - 1].iter().rposition(|octet| *octet == b'\n').map_or(0, |at| at + 1);
            lengths.extend([last, last + 1, last + 9, (last + octets.len()) / 2, octets.len() - 1]);
        }
        for length in lengths {
            let machine = Machine::new();
            day(&machine.place().with_steps(Doom::after(step))).expect_err("it was ended");
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(machine.journal()) {
                file.set_len(length as u64).unwrap();
            }
            machine.revert_and_compare(&format!("killed before step {step}, {length} bytes kept"));
        }
    }
    assert!(stayed > 10, "in {stayed} of {steps} ends somebody was to stay");
}
