//! Somebody else on the same machine: another process of ours, another hand on the setting, another journal.

use super::super::super::error::TuneError;
use super::super::super::knob::{Change, Knob};
use super::super::record::{Record, SettingValue, line};
use super::super::{Fate, Is, JOURNAL, Journal, Others, Outcome};
use super::machine;
use std::os::unix::fs::PermissionsExt;

const WATCHDOG: &str = "proc/sys/kernel/watchdog";

fn watchdog(value: &str) -> Change {
    Change::new(Knob::sysctl("kernel.watchdog"), value).of_row("softlockup")
}

#[test]
fn two_quavers_do_not_fight() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    let first = journal.session("capture").expect("nobody else");
    let refused = journal.session("tune apply").expect_err("one at a time").to_string();
    let holder = format!("quaver capture (process {})", std::process::id());
    assert!(refused.starts_with(&holder) && refused.contains("wait"), "{refused}");
    assert_eq!(journal.status().expect("status waits for nobody").busy, Some(holder));
    drop(first);
    assert_eq!(journal.status().expect("it can be read").busy, None);
    journal.session("tune apply").expect("the first has ended");
}

#[test]
fn a_second_apply_writes_nothing_and_the_first_value_is_what_comes_back() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    for outcome in [Outcome::Set, Outcome::AlreadySo] {
        let mut session = journal.session("tune apply").expect("nobody else");
        assert_eq!(session.apply(&watchdog("0")).expect("it takes").outcome, outcome);
        session.keep().expect("the journal is ours");
    }
    assert_eq!(journal.status().expect("it can be read").changes.len(), 1);
    journal.revert(Others::Leave, &|_, _| true).expect("nobody else");
    assert_eq!(machine.text(WATCHDOG), "1\n");
}

#[test]
fn two_values_after_each_other_come_back_in_turn() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    for value in ["600", "900"] {
        let mut session = journal.session("tune apply").expect("nobody else");
        let change = Change::new(Knob::sysctl("net.core.netdev_budget"), value);
        session.apply(&change).expect("it takes");
        session.keep().expect("the journal is ours");
    }
    let undone = journal.revert(Others::Leave, &|_, _| true).expect("nobody else");
    let befores: Vec<&str> = undone.iter().map(|one| one.before.as_str()).collect();
    assert_eq!(befores, ["600", "300"]);
    assert_eq!(machine.text("proc/sys/net/core/netdev_budget"), "300\n");
}

#[test]
fn somebody_elses_change_is_said_and_left_alone() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    let mut session = journal.session("tune apply").expect("nobody else");
    session.apply(&watchdog("0")).expect("it takes");
    session.keep().expect("the journal is ours");
    machine.file(WATCHDOG, "10\n");
    assert_eq!(journal.status().expect("it can be read").changes[0].is, Is::Foreign);

    let undone = journal.revert(Others::Leave, &|_, _| true).expect("nobody else");
    assert_eq!(undone[0].fate, Fate::Foreign { ours: "0".to_owned(), found: "10".to_owned() });
    assert_eq!(machine.text(WATCHDOG), "10\n");
    let mut session = journal.session("tune apply").expect("nobody else");
    let refused = session.apply(&watchdog("0")).expect_err("not unless asked");
    assert!(matches!(&refused, TuneError::Foreign { found, .. } if found == "10"), "{refused}");

    // Asked to, both ways.
    session.apply(&watchdog("0").forced(true)).expect("it takes");
    assert_eq!(machine.text(WATCHDOG), "0\n");
    drop(session);
    assert_eq!(machine.text(WATCHDOG), "10\n", "the other's value comes back");
    let undone = journal.revert(Others::Overwrite, &|_, _| true).expect("nobody else");
    assert_eq!((&undone[0].fate, machine.text(WATCHDOG).as_str()), (&Fate::Restored, "1\n"));
}

#[test]
fn what_somebody_else_changed_can_be_forgotten() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    let mut session = journal.session("tune apply").expect("nobody else");
    session.apply(&watchdog("0")).expect("it takes");
    session.keep().expect("the journal is ours");
    machine.file(WATCHDOG, "10\n");
    journal.revert(Others::Forget, &|_, _| true).expect("nobody else");
    assert_eq!(machine.text(WATCHDOG), "10\n");
    assert_eq!(journal.status().expect("it can be read").changes, []);
}

#[test]
fn a_revert_of_some_rows_leaves_the_others() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    let mut session = journal.session("tune apply").expect("nobody else");
    session.apply(&watchdog("0")).expect("it takes");
    session.apply(&Change::new(Knob::Irq { irq: 41 }, "0").of_row("dev-irq")).expect("it takes");
    session.keep().expect("the journal is ours");
    journal.revert(Others::Leave, &|_, row| row == Some("dev-irq")).expect("nobody else");
    assert_eq!(machine.text("proc/irq/41/smp_affinity_list"), "0-3\n");
    assert_eq!(machine.text(WATCHDOG), "0\n");
}

#[test]
fn what_the_kernel_refuses_stays_as_it_was_and_is_said() {
    let machine = machine();
    let before = machine.listing();
    let journal = Journal::open(&machine.place());
    let mut session = journal.session("tune apply").expect("nobody else");
    let mut refused = |change: Change| session.apply(&change).expect_err("it is refused").to_string();
    assert!(refused(Change::new(Knob::Irq { irq: 42 }, "0")).contains("manages this interrupt"));
    assert!(refused(Change::new(Knob::Irq { irq: 41 }, "9")).contains("none of these CPUs is online"));
    assert!(refused(Change::new(Knob::Thread { tid: 78 }, "0")).contains("bound to its CPU"));
    refused(Change::new(Knob::file("/sys/module/x/parameters/stubborn"), "1"));
    assert!(refused(Change::new(Knob::file("/etc/passwd"), "x")).contains("no setting"));
    let deaf = Change::new(Knob::file("/sys/module/x/parameters/deaf"), "1");
    assert_eq!(session.apply(&deaf).expect("it takes the write").outcome, Outcome::NotTaken);
    session.keep().expect("the journal is ours");
    assert_eq!(journal.status().expect("it can be read").changes, []);
    assert_eq!(machine.listing(), before);
}

#[test]
fn requested_and_effective_affinity_are_told_apart() {
    let machine = machine();
    let mut session = Journal::open(&machine.place()).session("capture").expect("nobody else");
    let applied = session.apply(&Change::new(Knob::Irq { irq: 41 }, "2")).expect("it takes");
    assert_eq!((applied.outcome, applied.now.as_str()), (Outcome::Set, "2"));
    assert!(applied.pending.expect("it still goes to CPU 0").contains("CPU 0"));
    machine.file("proc/irq/41/effective_affinity_list", "2\n");
    let again = session.apply(&Change::new(Knob::Irq { irq: 41 }, "2")).expect("it is so");
    assert_eq!((again.outcome, again.pending), (Outcome::AlreadySo, None));
}

#[test]
fn a_journal_that_others_may_write_is_not_believed() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    drop(journal.session("capture").expect("it makes the directory"));
    std::fs::write(machine.journal().join(JOURNAL), "").unwrap();
    let set = |name: &str, mode| {
        let path = machine.journal().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(JOURNAL, 0o666);
    assert!(matches!(journal.status(), Err(TuneError::BadJournal { .. })));
    set(JOURNAL, 0o644);
    set("", 0o777);
    assert!(matches!(journal.session("capture"), Err(TuneError::BadJournal { .. })));
}

#[test]
fn a_damaged_or_newer_journal_is_refused_with_what_to_do() {
    let machine = machine();
    let journal = Journal::open(&machine.place());
    drop(journal.session("capture").expect("it makes the directory"));
    let begin = |format| Record::Begin {
        format,
        session: 1,
        verb: "tune apply".to_owned(),
        pid: 1,
        boot: "first boot".to_owned(),
        realtime_ns: 0,
    };
    let intent = |path: &str| Record::Intent {
        session: 1,
        change: 1,
        knob: Knob::file(path),
        identity: None,
        namespace: None,
        before: SettingValue(b"x\n".to_vec()),
        want: SettingValue(b"7\n".to_vec()),
        row: None,
    };
    let refusal = |text: &[u8]| {
        std::fs::write(machine.journal().join(JOURNAL), text).unwrap();
        journal.revert(Others::Overwrite, &|_, _| true).expect_err("it is refused").to_string()
    };
    assert!(refusal(&line(&begin(2))).contains("newer"));
    assert!(refusal(&[line(&begin(1)), line(&intent("/etc/shadow"))].concat()).contains("/etc/shadow"));
    let damaged =
        [line(&begin(1)), b"nonsense\n".to_vec(), line(&intent("/sys/x")), line(&begin(1))].concat();
    assert!(refusal(&damaged).contains("line 2 is damaged"));
}
