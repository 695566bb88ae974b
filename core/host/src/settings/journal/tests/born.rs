//! Threads of the kernel that are born while kthreadd is kept to some CPUs.

use super::super::super::fake::{FakeKernel, FakeMachine};
use super::super::super::knob::{Change, Knob};
use super::super::super::{Journal, JournalPlace, TuneError};
use super::super::{Fate, Others, Undone};
use crate::root::HostRoot;
use crate::settings::class::ThreadClass;
use crate::settings::contact::Contact;
use std::io;
use std::sync::Arc;

const OF_KERNEL: u64 = 0x0020_0000;
const BOUND: u64 = 0x0400_0000;
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const PARTITION: &str = "/sys/fs/cgroup/quaver/cpuset.cpus.partition";
/// Ticks that this machine had run when it was made, and after that.
const EARLIER: u64 = 5_000;
const LATER: u64 = 100_500;

/// A machine that has run for 1,000 s, with kthreadd and a thread of each kind that was there before.
fn machine() -> FakeMachine {
    let machine = FakeMachine::new(&[
        ("proc/uptime", "1000.00 1.00\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        (THP.trim_start_matches('/'), "always [madvise] never\n"),
    ]);
    thread(&machine, 2, "kthreadd", OF_KERNEL, 0, "0-3");
    // It has always been kept to the CPUs that kthreadd is going to get, such as one of a node of memory.
    thread(&machine, 30, "kswapd0", OF_KERNEL, EARLIER, "0-1");
    machine
}

fn thread(machine: &FakeMachine, tid: u32, name: &str, flags: u64, ticks: u64, cpus: &str) {
    let parent = if tid == 2 { 0 } else { 2 };
    let stat = format!("{tid} ({name}) S {parent} 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {ticks} 0 0\n");
    machine.file(&format!("proc/{tid}/stat"), &stat);
    machine.file(&format!("proc/{tid}/status"), &format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\n"));
}

fn cpus(machine: &FakeMachine, tid: u32) -> String {
    let status = machine.text(&format!("proc/{tid}/status"));
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap().to_owned()
}

/// kthreadd is kept to CPUs 0 and 1, then huge pages are switched off; both stay. Five seconds pass.
fn tuned(machine: &FakeMachine, place: &JournalPlace) -> Journal {
    let journal = Journal::open(place);
    let mut session = journal.session("tune apply").unwrap();
    for (knob, value) in [(Knob::Thread { tid: 2 }, "0-1"), (Knob::file(THP), "never")] {
        session.apply(&Change::new(knob, value).of_row("kthreads")).unwrap();
    }
    session.keep().unwrap();
    machine.file("proc/uptime", "1005.00 1.00\n");
    journal
}

fn fates(undone: &[Undone]) -> Vec<(String, Fate)> {
    undone.iter().map(|one| (one.knob.to_string(), one.fate.clone())).collect()
}

/// A kernel in which switching huge pages on gives birth to khugepaged, with the CPUs of kthreadd.
#[derive(Debug)]
struct Fertile {
    kernel: FakeKernel,
    /// Whether moving khugepaged is forbidden.
    guarded: bool,
}

impl Contact for Fertile {
    fn root(&self) -> &HostRoot {
        self.kernel.root()
    }
    fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.kernel.write_file(path, bytes)?;
        let root = self.root();
        if path == THP && bytes != b"never\n" {
            let born = |file: &str| root.path(&format!("proc/50/{file}"));
            std::fs::create_dir_all(born(""))?;
            let like = |file: &str| std::fs::read_to_string(root.path(&format!("proc/2/{file}")));
            std::fs::write(born("status"), like("status")?.replace("kthreadd", "khugepaged"))?;
            let stat = like("stat")?.replace("2 (kthreadd) S 0", "50 (khugepaged) S 2");
            std::fs::write(born("stat"), stat.replace(" 1 0 0 0 0", &format!(" 1 0 {LATER} 0 0")))?;
        }
        Ok(())
    }
    fn set_directory(&self, path: &str, present: bool) -> io::Result<()> {
        self.kernel.set_directory(path, present)
    }
    fn replace_file(&self, path: &str, bytes: Option<&[u8]>) -> io::Result<()> {
        self.kernel.replace_file(path, bytes)
    }
    fn set_thread_cpus(&self, tid: u32, cpus: &[u16]) -> io::Result<()> {
        if self.guarded && tid == 50 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // No thread of the root group runs on the CPUs of an isolated partition.
        let isolated =
            std::fs::read_to_string(self.root().path(PARTITION)).is_ok_and(|kind| kind == "isolated\n");
        let cpus: Vec<u16> = cpus.iter().copied().filter(|cpu| !isolated || *cpu != 3).collect();
        self.kernel.set_thread_cpus(tid, &cpus)
    }
    fn set_thread_class(&self, tid: u32, class: ThreadClass) -> io::Result<()> {
        self.kernel.set_thread_class(tid, class)
    }
    fn ethtool(&self, interface: &str, field: &str) -> io::Result<String> {
        self.kernel.ethtool(interface, field)
    }
    fn set_ethtool(&self, interface: &str, field: &str, value: &str) -> io::Result<()> {
        self.kernel.set_ethtool(interface, field, value)
    }
    fn unit_active(&self, name: &str) -> io::Result<bool> {
        self.kernel.unit_active(name)
    }
    fn set_unit(&self, name: &str, active: bool) -> io::Result<()> {
        self.kernel.set_unit(name, active)
    }
}

fn fertile(machine: &FakeMachine, guarded: bool) -> JournalPlace {
    machine.place().with_contact(Arc::new(Fertile { kernel: FakeKernel::new(machine.root()), guarded }))
}

#[test]
fn kthreadd_is_restored_before_what_gives_birth_to_threads() {
    let machine = machine();
    let journal = tuned(&machine, &fertile(&machine, false));
    let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
    let restored = |knob: &str| (knob.to_owned(), Fate::Restored);
    assert_eq!(fates(&undone), [restored("affinity of thread 2"), restored(THP)]);
    assert_eq!((cpus(&machine, 50).as_str(), cpus(&machine, 2).as_str()), ("0-3", "0-3"));
}

#[test]
fn kthreadd_is_restored_after_the_partition_that_keeps_it_from_its_old_cpus() {
    let machine = machine();
    machine.file(PARTITION.trim_start_matches('/'), "member\n");
    let place = fertile(&machine, false);
    let journal = tuned(&machine, &place);
    let mut session = journal.session("tune apply").unwrap();
    session.apply(&Change::new(Knob::file(PARTITION), "isolated").of_row("placement")).unwrap();
    session.keep().unwrap();
    let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
    let restored = [PARTITION, "affinity of thread 2", THP].map(|knob| (knob.to_owned(), Fate::Restored));
    assert_eq!(fates(&undone), restored);
    assert_eq!(cpus(&machine, 2), "0-3");
}

#[test]
fn threads_born_meanwhile_get_the_old_cpus_and_are_reported() {
    let machine = machine();
    let journal = tuned(&machine, &machine.place());
    thread(&machine, 50, "khugepaged", OF_KERNEL, LATER, "0-1");
    thread(&machine, 51, "kworker/1:0", OF_KERNEL | BOUND, LATER, "0-1");
    thread(&machine, 52, "moved by hand", OF_KERNEL, LATER, "1");
    thread(&machine, 53, "a program", 0, LATER, "0-1");
    let status = journal.status().unwrap();
    let named: Vec<(u32, &str, &str)> =
        status.inherited.iter().map(|one| (one.tid, one.name.as_str(), one.cpus.as_str())).collect();
    assert_eq!(named, [(50, "khugepaged", "0-1")]);

    let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
    assert_eq!(
        fates(&undone),
        [
            ("affinity of thread 2".to_owned(), Fate::Restored),
            ("affinity of thread 50".to_owned(), Fate::Mended { name: "khugepaged".to_owned() }),
            (THP.to_owned(), Fate::Restored),
        ]
    );
    let now = [50, 51, 52, 53, 30].map(|tid| cpus(&machine, tid));
    assert_eq!(now, ["0-3", "0-1", "1", "0-1", "0-1"]);
    let status = journal.status().unwrap();
    assert!(status.changes.is_empty() && status.inherited.is_empty(), "{status:?}");
}

#[test]
fn a_thread_that_cannot_be_mended_now_keeps_the_change_open() {
    let machine = machine();
    let journal = tuned(&machine, &fertile(&machine, true));
    thread(&machine, 50, "khugepaged", OF_KERNEL, LATER, "0-1");
    let undone = journal.revert(Others::Leave, &|knob, _| *knob == Knob::Thread { tid: 2 }).unwrap();
    assert!(undone.iter().all(|one| !one.fate.is_final()), "{undone:?}");
    assert!(
        undone
            .iter()
            .any(|one| matches!(&one.fate, Fate::Pending { reason } if reason.contains("khugepaged")))
    );
    let status = journal.status().unwrap();
    assert_eq!((status.changes.len(), status.inherited.len()), (2, 1), "{status:?}");

    // kthreadd says its old value by now, and the thread is found all the same.
    let journal = Journal::open(&fertile(&machine, false));
    let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
    assert!(undone.iter().all(|one| one.fate.is_final()), "{undone:?}");
    assert_eq!(cpus(&machine, 50), "0-3");
}

#[test]
fn a_thread_that_the_journal_knows_is_put_back_as_it_was() {
    let machine = machine();
    let journal = tuned(&machine, &machine.place());
    thread(&machine, 60, "born wide", OF_KERNEL, LATER, "0-2");
    let mut session = journal.session("tune apply").unwrap();
    session.apply(&Change::new(Knob::Thread { tid: 60 }, "0-1")).unwrap();
    session.keep().unwrap();
    assert_eq!(journal.status().unwrap().inherited, []);
    journal.revert(Others::Leave, &|_, _| true).unwrap();
    assert_eq!(cpus(&machine, 60), "0-2");
}

#[test]
fn a_process_2_that_is_not_kthreadd_has_no_children_to_mend() {
    let machine = machine();
    thread(&machine, 2, "sh", 0, 0, "0-3");
    let journal = tuned(&machine, &machine.place());
    thread(&machine, 50, "its child", OF_KERNEL, LATER, "0-1");
    journal.revert(Others::Leave, &|_, _| true).unwrap();
    assert_eq!(cpus(&machine, 50), "0-1");
}

#[test]
fn a_file_system_that_is_mounted_read_only_has_its_own_sentence() {
    let machine = FakeMachine::new(&[
        ("proc/self/mounts", "/dev/a / ext4 rw 0 0\nsysfs /sys sysfs ro 0 0\nx /sys/mod tmpfs rw 0 0\n"),
        ("sys/module/x/parameters/sealed", "7\n"),
    ]);
    let mut session = Journal::open(&machine.place()).session("tune apply").unwrap();
    let path = "/sys/module/x/parameters/sealed";
    let error = session.apply(&Change::new(Knob::file(path), "1")).unwrap_err();
    assert!(matches!(error, TuneError::ReadOnly { .. }));
    assert_eq!(
        error.to_string(),
        "writing /sys/module/x/parameters/sealed: /sys is mounted read-only; run on the host if this is a container, \
         or: sudo mount -o remount,rw /sys"
    );
}
