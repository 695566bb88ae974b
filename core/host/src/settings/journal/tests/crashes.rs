//! The end of the world between any two steps, and what is put back afterwards.

use super::super::super::contact::start_time;
use super::super::super::fake::FakeMachine;
use super::super::super::knob::{Change, Knob};
use super::super::{Fate, JOURNAL, Journal, JournalPlace, Others, Outcome, Step, Steps};
use super::{BOOT_FILE, changes, machine};
use proptest::prelude::*;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lets so many steps pass, and none after that: as if the process had been killed there.
#[derive(Debug)]
struct Doom {
    left: AtomicUsize,
    at_sync: AtomicUsize,
}

const FOR_EVER: usize = usize::MAX / 2;

impl Doom {
    fn after(steps: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(steps), at_sync: AtomicUsize::new(0) })
    }

    fn passed(&self) -> usize {
        FOR_EVER - self.left.load(Ordering::Relaxed)
    }

    /// Whether anything was stopped. A session that ends by itself does not say so.
    fn has_come(&self) -> bool {
        self.at_sync.load(Ordering::Relaxed) != 0
    }

    /// Whether the end came before a sync, so that the last line may have reached the disk in part.
    fn was_at_sync(&self) -> bool {
        self.at_sync.load(Ordering::Relaxed) == 1
    }
}

impl Steps for Doom {
    fn before(&self, step: Step) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            // The first step that is stopped is where the world ended.
            let sync = if step == Step::Sync { 1 } else { 2 };
            let _ = self.at_sync.compare_exchange(0, sync, Ordering::Relaxed, Ordering::Relaxed);
            return Err(io::Error::other("the process was killed"));
        }
        self.left.store(left - 1, Ordering::Relaxed);
        Ok(())
    }
}

/// What a day may bring: settings that stay, a verb that changes some of them again and ends, and all put back.
fn day(place: &JournalPlace, order: &[usize]) -> Result<(), super::super::TuneError> {
    let all = changes();
    let mut session = Journal::open(place).session("tune apply")?;
    for &at in order {
        session.apply(&all[at])?;
    }
    session.keep()?;
    let mut session = Journal::open(place).session("capture")?;
    session.apply(&Change::new(Knob::Irq { irq: 41 }, "2"))?;
    session.apply(&Change::new(Knob::sysctl("net.core.netdev_budget"), "600"))?;
    drop(session);
    Journal::open(place).revert(Others::Leave, &|_, _| true)?;
    Ok(())
}

fn every_one() -> Vec<usize> {
    (0..changes().len()).collect()
}

/// Puts all back as `quaver tune revert` would, and holds the machine against what it was.
fn revert_and_compare(machine: &FakeMachine, before: &[(std::path::PathBuf, Option<Vec<u8>>)], when: &str) {
    let undone = Journal::open(&machine.place()).revert(Others::Leave, &|_, _| true);
    let undone = undone.unwrap_or_else(|error| panic!("{when}: {error}"));
    assert!(undone.iter().all(|one| one.fate.is_final()), "{when}: {undone:?}");
    assert_eq!(machine.listing(), before, "{when}");
    let status = Journal::open(&machine.place()).status().expect("it can be read");
    assert_eq!(status.changes, [], "{when}");
}

/// The lengths that the journal may have after a power cut.
fn lengths(machine: &FakeMachine, torn: bool) -> Vec<u64> {
    let Ok(bytes) = std::fs::read(machine.journal().join(JOURNAL)) else { return vec![0] };
    let whole = bytes.len() as u64;
    if !torn || bytes.is_empty() {
        return vec![whole];
    }
    let last = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at as u64 + 1);
    vec![last, last + 1, last + 9, (last + whole) / 2, whole - 1, whole]
}

fn cut(machine: &FakeMachine, length: u64) {
    if let Ok(file) = std::fs::OpenOptions::new().write(true).open(machine.journal().join(JOURNAL)) {
        file.set_len(length).expect("the directory is ours");
    }
}

fn steps_of_a_day(order: &[usize]) -> usize {
    let machine = machine();
    let doom = Doom::after(FOR_EVER);
    let before = machine.listing();
    day(&machine.place().with_steps(doom.clone()), order).expect("nothing is in the way");
    assert_eq!(machine.listing(), before);
    doom.passed()
}

#[test]
fn a_day_without_a_crash_changes_and_puts_back_every_kind_of_knob() {
    let machine = machine();
    let mut session = Journal::open(&machine.place()).session("tune apply").expect("nobody else");
    for change in changes() {
        let applied = session.apply(&change).expect("it takes");
        let rounded = ["5", "9"].contains(&change.value.as_str());
        assert_eq!(
            applied.outcome,
            if rounded { Outcome::Different } else { Outcome::Set },
            "{}",
            change.knob
        );
    }
    assert_eq!(machine.text("sys/kernel/mm/transparent_hugepage/enabled"), "always madvise [never]\n");
    assert_eq!(machine.text("sys/class/net/eth0/queues/rx-0/rps_cpus"), "00000000,00000002\n");
    assert_eq!(machine.text("sys/module/x/parameters/even"), "4\n");
    assert_eq!(machine.text("units/irqbalance.service"), "inactive\n");
    let undone = session.revert().expect("the journal is ours");
    assert_eq!(undone.len(), changes().len());
    assert!(undone.iter().all(|one| one.fate == Fate::Restored), "{undone:?}");
    let of_group = |knob: &Knob| knob.to_string().contains("/sys/fs/cgroup/");
    let (groups, others): (Vec<Knob>, Vec<Knob>) =
        changes().into_iter().rev().map(|change| change.knob).partition(of_group);
    assert_eq!(groups.len(), 3);
    let order: Vec<Knob> = undone.into_iter().map(|one| one.knob).collect();
    assert_eq!(order, [groups, others].concat(), "control groups, then the others, the latest first");
}

#[test]
fn from_every_step_of_a_day_revert_gets_everything_back() {
    let steps = steps_of_a_day(&every_one());
    assert!(steps > 100, "{steps} steps are too few to have been everywhere");
    for step in 0..steps {
        let machine = machine();
        let before = machine.listing();
        day(&machine.place().with_steps(Doom::after(step)), &every_one()).expect_err("it was ended");
        revert_and_compare(&machine, &before, &format!("killed before step {step}"));
    }
}

#[test]
fn every_torn_line_is_recovered_from() {
    let steps = steps_of_a_day(&every_one());
    for step in 0..steps {
        let doom = Doom::after(step);
        let shape = machine();
        day(&shape.place().with_steps(doom.clone()), &every_one()).expect_err("it was ended");
        for length in lengths(&shape, doom.was_at_sync()) {
            let machine = machine();
            let before = machine.listing();
            day(&machine.place().with_steps(Doom::after(step)), &every_one()).expect_err("it was ended");
            cut(&machine, length);
            revert_and_compare(&machine, &before, &format!("killed before step {step}, {length} bytes kept"));
        }
    }
}

#[test]
fn a_crash_while_putting_back_after_a_crash_is_one_more_crash() {
    let order = [0, 1, 6, 7, 9];
    let steps = steps_of_a_day(&order);
    for first in 0..steps {
        for second in 0.. {
            let machine = machine();
            let before = machine.listing();
            day(&machine.place().with_steps(Doom::after(first)), &order).expect_err("it was ended");
            let doomed = machine.place().with_steps(Doom::after(second));
            let reverted = Journal::open(&doomed).revert(Others::Leave, &|_, _| true);
            let when = format!("killed before step {first}, then before step {second} of the revert");
            revert_and_compare(&machine, &before, &when);
            if reverted.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn whoever_comes_next_puts_back_what_a_killed_verb_left_and_leaves_what_was_to_stay() {
    let machine = machine();
    let stay = Change::new(Knob::sysctl("kernel.watchdog"), "0");
    let mut session = Journal::open(&machine.place()).session("tune apply").expect("nobody else");
    session.apply(&stay).expect("it takes");
    session.keep().expect("the journal is ours");
    let doom = Doom::after(FOR_EVER);
    let mut session =
        Journal::open(&machine.place().with_steps(doom.clone())).session("capture").expect("nobody else");
    session.apply(&Change::new(Knob::Irq { irq: 41 }, "2")).expect("it takes");
    doom.left.store(0, Ordering::Relaxed);
    drop(session);
    assert_eq!(machine.text("proc/irq/41/smp_affinity_list"), "2\n", "a killed process puts nothing back");

    let session = Journal::open(&machine.place()).session("chase").expect("the lock went with the process");
    let recovered: Vec<_> = session.recovered().iter().map(|one| (&one.knob, &one.fate)).collect();
    assert_eq!(recovered, [(&Knob::Irq { irq: 41 }, &Fate::Restored)]);
    assert_eq!(session.recovered()[0].verb, "capture");
    assert_eq!(machine.text("proc/irq/41/smp_affinity_list"), "0-3\n");
    assert_eq!(machine.text("proc/sys/kernel/watchdog"), "0\n");
}

#[test]
fn a_reboot_takes_the_kernels_values_and_leaves_the_disks() {
    let machine = machine();
    let fresh = machine.listing();
    let mut session = Journal::open(&machine.place()).session("tune apply").expect("nobody else");
    for change in changes() {
        session.apply(&change).expect("it takes");
    }
    session.keep().expect("the journal is ours");
    // The next boot brings its own values, one of them another than before.
    machine.file("proc/sys/kernel/random/boot_id", "second boot\n");
    machine.file("proc/sys/kernel/watchdog", "1\n");
    machine.file("sys/module/x/parameters/even", "12\n");
    machine.file("proc/irq/41/smp_affinity_list", "0-3\n");

    // The boot unit leaves what was to stay; a revert does not.
    let early = Journal::open(&machine.place()).after_boot().expect("nobody else");
    assert!(
        early.iter().all(|one| one.fate == Fate::Rebooted) && early.len() == changes().len() - 1,
        "{early:?}"
    );
    assert!(machine.path(BOOT_FILE).exists());
    let late = Journal::open(&machine.place()).revert(Others::Leave, &|_, _| true).expect("nobody else");
    let undone: Vec<_> = early.into_iter().chain(late).collect();
    assert_eq!(undone.len(), changes().len());
    let of_disk = |knob: &Knob| matches!(knob, Knob::Config { .. });
    for one in &undone {
        let fate = if of_disk(&one.knob) { Fate::Restored } else { Fate::Rebooted };
        assert_eq!(one.fate, fate, "{}", one.knob);
    }
    assert!(!machine.path(BOOT_FILE).exists());
    assert_eq!(machine.text("sys/module/x/parameters/even"), "12\n", "nobody writes what the boot brought");
    assert!(fresh.iter().all(|(path, _)| path.exists()));
}

#[test]
fn a_thread_is_known_by_when_it_started() {
    assert_eq!(start_time(&machine().root(), 77), Some(31));
}

const FREQUENCY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// A machine whose frequency can be set.
fn with_frequency() -> FakeMachine {
    let machine = FakeMachine::new(&[]);
    let files = [("scaling_governor", "schedutil\n"), ("scaling_setspeed", "<unsupported>\n")];
    let limits = [("scaling_min_freq", "800000\n"), ("scaling_max_freq", "3000000\n")];
    files.iter().chain(&limits).for_each(|(name, text)| machine.file(&format!("{FREQUENCY}/{name}"), text));
    machine
}

/// A governor set, then three knobs driven.
fn driven(place: &JournalPlace) -> Result<(), super::super::TuneError> {
    let knob = |name: &str| Knob::file(format!("/{FREQUENCY}/{name}"));
    let mut session = Journal::open(place).session("sync --compensate")?;
    session.apply(&Change::new(knob("scaling_governor"), "userspace"))?;
    let names = ["scaling_setspeed", "scaling_min_freq", "scaling_max_freq"];
    let driven: Vec<_> = names.iter().map(|name| session.drive(&knob(name))).collect::<Result<_, _>>()?;
    for khz in ["2000000", "2500000", "800000", "3000000"] {
        driven.iter().try_for_each(|driven| session.drive_to(driven, khz))?;
    }
    let undone = session.revert()?;
    assert!(undone.iter().all(|one| one.fate.is_final()), "{undone:?}");
    assert_eq!(undone.len(), 4);
    Ok(())
}

#[test]
fn a_driven_knob_is_put_back_from_every_step_whatever_it_says() {
    let machine = with_frequency();
    let before = machine.listing();
    let doom = Doom::after(FOR_EVER);
    driven(&machine.place().with_steps(doom.clone())).expect("nothing is in the way");
    assert_eq!(machine.listing(), before);
    for step in 0..doom.passed() {
        let machine = with_frequency();
        let before = machine.listing();
        driven(&machine.place().with_steps(Doom::after(step))).expect_err("it was ended");
        revert_and_compare(&machine, &before, &format!("killed before step {step}"));
    }
}

#[test]
fn only_files_that_round_are_driven_and_only_while_the_session_lasts() {
    let machine = machine();
    let mut session = Journal::open(&machine.place()).session("sync --compensate").expect("nobody else");
    let refused = session.drive(&Knob::sysctl("kernel.watchdog")).expect_err("it does not round");
    assert!(refused.to_string().contains("only files of /sys"), "{refused}");
    session.drive(&Knob::Irq { irq: 41 }).expect_err("it is no file");
    let path = "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor";
    let driven = session.drive(&Knob::file(format!("/{path}"))).expect("it is there");
    for value in ["performance", "ondemand"] {
        session.drive_to(&driven, value).expect("it takes");
        assert_eq!(machine.text(path), format!("{value}\n"));
    }
    let status = Journal::open(&machine.place()).status().expect("it can be read");
    assert_eq!((status.changes.len(), status.changes[0].finished), (1, false));
    drop(session);
    assert_eq!(machine.text(path), "powersave\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_order_and_any_crash(
        drawn in proptest::sample::subsequence(vec![12, 11, 9, 5, 4, 3, 2, 1, 0, 10, 6, 7, 8], 1..=13),
        part in 0.0..1.0,
    ) {
        // There is nothing to set in a control group that is not made.
        let order: Vec<usize> = drawn.iter().copied().filter(|at| ![7, 8].contains(at) || drawn.contains(&6)).collect();
        let steps = steps_of_a_day(&order);
        let machine = machine();
        let before = machine.listing();
        let step = (steps as f64 * part) as usize;
        let doom = Doom::after(step);
        let said = day(&machine.place().with_steps(doom.clone()), &order);
        prop_assert!(doom.has_come(), "{:?}, step {} of {}: {:?}", order, step, steps, said);
        revert_and_compare(&machine, &before, &format!("{order:?}, killed before step {step}"));
    }

    #[test]
    fn a_journal_of_any_bytes_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let machine = machine();
        std::fs::create_dir_all(machine.journal()).unwrap();
        std::fs::write(machine.journal().join(JOURNAL), bytes).unwrap();
        let before = machine.listing();
        let _ = Journal::open(&machine.place()).status();
        let _ = Journal::open(&machine.place()).revert(Others::Overwrite, &|_, _| true);
        prop_assert_eq!(machine.listing(), before);
    }
}

#[test]
fn an_interrupted_write_of_a_sysctl_is_not_taken_for_a_rounded_one() {
    let machine = machine();
    let doom = Doom::after(3);
    let mut session =
        Journal::open(&machine.place().with_steps(doom)).session("capture").expect("nobody else");
    // Renewed, appended and synced: the next step would have been the write.
    session.apply(&Change::new(Knob::sysctl("kernel.watchdog"), "0")).expect_err("it was ended");
    drop(session);
    machine.file("proc/sys/kernel/watchdog", "10\n");
    let undone = Journal::open(&machine.place()).revert(Others::Leave, &|_, _| true).expect("nobody else");
    assert!(matches!(undone[0].fate, Fate::Foreign { .. }), "{undone:?}");
    assert_eq!(machine.text("proc/sys/kernel/watchdog"), "10\n");
}
