//! Settings of this machine, changed and put back, compared byte for byte. Values that nobody notices, for moments only.

#[path = "../../../testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;

use privileged::{Lack, privileged, skip};
use quaver_host::root::HostRoot;
use quaver_host::settings::contact;
use quaver_host::settings::journal::{Fate, Others, Outcome, Undone};
use quaver_host::settings::kernel_threads::{KTHREADD, KernelThread, kernel_threads};
use quaver_host::settings::knob::{PRESENT, cpu_list, cpu_mask};
use quaver_host::settings::{Change, Journal, JournalPlace, Knob, Session};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process that is started has the locks of all tests open for a moment: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(directory: &Path) -> JournalPlace {
    JournalPlace::at(directory, HostRoot::system())
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// A thread of the kernel that may run anywhere.
fn free_thread(root: &HostRoot) -> u32 {
    let free = |tid: &u32| {
        let stat = root.text(&format!("/proc/{tid}/stat")).unwrap_or_default();
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let flags: u64 = fields.get(6).and_then(|flags| flags.parse().ok()).unwrap_or(u64::MAX);
        fields.get(1) == Some(&"2") && flags & 0x0400_0000 == 0
    };
    let mut tids = root.names("/proc").into_iter().filter_map(|name| name.parse().ok());
    tids.find(free).expect("a kernel has threads that are not bound to a CPU")
}

/// Interrupts that may go to every CPU.
fn free_interrupt(root: &HostRoot, all: &str) -> Option<u32> {
    let free = |irq: &u32| root.text(&format!("/proc/irq/{irq}/smp_affinity_list")).as_deref() == Some(all);
    root.names("/proc/irq").iter().filter_map(|name| name.parse().ok()).find(free)
}

/// Another value for each setting that this machine has.
fn others() -> Vec<Change> {
    let root = HostRoot::system();
    let online = root.cpu_list("/sys/devices/system/cpu/online");
    let (first, all) = (&online[..1], cpu_list(&online));
    let mut changes = vec![
        Change::new(Knob::sysctl("vm.stat_interval"), "119"),
        Change::new(Knob::sysctl("net.core.netdev_budget"), "301"),
        Change::new(Knob::sysctl("net.core.netdev_budget_usecs"), "8001"),
        Change::new(Knob::sysctl("kernel.printk"), "3 4 1 7"),
        // 960 of 1000 ms: real-time threads are throttled a little later.
        Change::new(Knob::sysctl("kernel.sched_rt_runtime_us"), "960000"),
        Change::new(Knob::Thread { tid: free_thread(&root) }, cpu_list(first)),
        Change::new(Knob::file("/sys/devices/virtual/workqueue/cpumask"), cpu_mask(first)),
        Change::new(Knob::Held { device: "/dev/cpu_dma_latency".to_owned() }, "1999"),
    ];
    changes.extend(free_interrupt(&root, &all).map(|irq| Change::new(Knob::Irq { irq }, cpu_list(first))));
    let files = [
        ("/sys/kernel/mm/ksm/pages_to_scan", "101"),
        ("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0"),
    ];
    changes.extend(files.iter().map(|(path, value)| Change::new(Knob::file(*path), *value)));
    changes.retain(|change| match &change.knob {
        Knob::File { path } => exists(path),
        _ => true,
    });
    changes.extend(cpuset(online[0]));
    changes
}

/// A control group of its own with one CPU, by whichever version this machine has.
fn cpuset(cpu: u16) -> Vec<Change> {
    let controls = |root: &str| {
        std::fs::read_to_string(format!("{root}/cgroup.subtree_control"))
            .is_ok_and(|text| text.contains("cpuset"))
    };
    let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter().find(|root| controls(root));
    let root =
        root.or_else(|| exists("/sys/fs/cgroup/cpuset/cpuset.cpus").then_some("/sys/fs/cgroup/cpuset"));
    let Some(root) = root else { return Vec::new() };
    let group = format!("{root}/quaver-test-{}", std::process::id());
    vec![
        Change::new(Knob::Directory { path: group.clone() }, PRESENT),
        Change::new(Knob::file(format!("{group}/cpuset.cpus")), cpu.to_string()),
    ]
}

fn said(place: &JournalPlace, changes: &[Change]) -> BTreeMap<Knob, Option<Vec<u8>>> {
    changes
        .iter()
        .map(|change| (change.knob.clone(), contact::read(place.contact(), &change.knob).ok()))
        .collect()
}

fn apply_all(session: &mut Session, changes: &[Change]) {
    for change in changes {
        let applied = session.apply(change).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(applied.outcome, Outcome::Set, "{applied:?}");
    }
}

#[test]
fn this_machines_settings_are_changed_and_put_back_byte_for_byte() {
    if !privileged("this_machines_settings_are_changed_and_put_back_byte_for_byte") {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (place, changes) = (place(directory.path()), others());
    let before = said(&place, &changes);
    let journal = Journal::open(&place);

    // As a verb does it, that puts back what it changed.
    let mut session = journal.session("capture").unwrap();
    apply_all(&mut session, &changes);
    assert_ne!(said(&place, &changes), before);
    drop(session);
    assert_eq!(said(&place, &changes), before);

    // As `quaver tune` does it.
    let mut session = journal.session("tune apply").unwrap();
    apply_all(&mut session, &changes);
    session.keep().unwrap();
    assert_eq!(journal.status().unwrap().changes.len(), changes.len());
    let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
    assert!(undone.iter().all(|one| one.fate == Fate::Restored), "{undone:?}");
    assert_eq!(said(&place, &changes), before);
    assert_eq!(journal.status().unwrap().changes, []);
}

#[test]
fn what_the_kernel_refuses_here_is_named() {
    if !privileged("what_the_kernel_refuses_here_is_named") {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let root = HostRoot::system();
    let bound = root.names("/proc").into_iter().find_map(|name| {
        let tid: u32 = name.parse().ok()?;
        (root.text(&format!("/proc/{tid}/comm"))? == "ksoftirqd/0").then_some(tid)
    });
    let Some(tid) = bound else { panic!("every kernel has a ksoftirqd/0") };
    let journal = Journal::open(&place(directory.path()));
    let mut session = journal.session("capture").unwrap();
    let other = Change::new(Knob::Thread { tid }, "1");
    let refused = session.apply(&other).unwrap_err().to_string();
    assert!(refused.contains("bound to its CPU"), "{refused}");
    let gone =
        session.apply(&Change::new(Knob::sysctl("kernel.no_such_setting"), "1")).unwrap_err().to_string();
    assert!(gone.contains("is not there"), "{gone}");
    drop(session);
    assert_eq!(journal.status().unwrap().changes, []);
}

/// In a network namespace of its own, with a view of `/sys` that shows it: the loopback there is nobody else's.
#[test]
fn settings_of_an_interface_in_a_namespace() {
    if !privileged("settings_of_an_interface_in_a_namespace") {
        return;
    }
    let _alone = alone();
    std::thread::spawn(|| {
        // SAFETY: the thread shares no descriptor table flag here; its namespaces and working directory become its own,
        // and nothing else in this process relies on sharing them with it.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }.unwrap();
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None::<&std::ffi::CStr>).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path());
        let feature = Knob::Ethtool { interface: "lo".to_owned(), field: "feature.rx-gro".to_owned() };
        let mut changes = vec![
            Change::new(Knob::file("/sys/class/net/lo/queues/rx-0/rps_cpus"), cpu_mask(&[0])),
            Change::new(Knob::file("/sys/class/net/lo/gro_flush_timeout"), "1000"),
        ];
        if let Ok(now) = contact::read(place.contact(), &feature) {
            changes.push(Change::new(feature, if now == b"on" { "off" } else { "on" }));
        }
        let before = said(&place, &changes);
        let journal = Journal::open(&place);
        let mut session = journal.session("tune apply").unwrap();
        apply_all(&mut session, &changes);
        session.keep().unwrap();
        assert_ne!(said(&place, &changes), before);
        let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
        assert!(undone.iter().all(|one| one.fate == Fate::Restored), "{undone:?}");
        assert_eq!(said(&place, &changes), before);
    })
    .join()
    .unwrap();
}

/// The thread of this name, with its CPUs.
fn kernel_thread(name: &str) -> Option<KernelThread> {
    kernel_threads(&HostRoot::system()).into_iter().find(|thread| thread.name == name)
}

/// Puts everything back, whatever becomes of a test.
struct Reverted<'a>(&'a Journal);

impl Drop for Reverted<'_> {
    fn drop(&mut self) {
        let _ = self.0.revert(Others::Overwrite, &|_, _| true);
    }
}

/// khugepaged ends when huge pages are switched off, and is born again when they are switched on.
#[test]
fn a_thread_born_while_kthreadd_is_narrowed_gets_its_cpus_back() {
    if !privileged("a_thread_born_while_kthreadd_is_narrowed_gets_its_cpus_back") {
        return;
    }
    let huge = Knob::file("/sys/kernel/mm/transparent_hugepage/enabled");
    let kthreadd = Knob::Thread { tid: KTHREADD };
    let Some(before) = kernel_thread("khugepaged") else {
        let lack =
            Lack::Quiet("needs khugepaged: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
        return skip("a_thread_born_while_kthreadd_is_narrowed_gets_its_cpus_back", lack);
    };
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    let all = before.cpus;
    let said = |knob: &Knob| contact::read(place.contact(), knob).unwrap();
    let old = [said(&huge), said(&kthreadd)];
    let journal = Journal::open(&place);
    let _reverted = Reverted(&journal);
    let mut session = journal.session("tune apply").unwrap();
    session.apply(&Change::new(kthreadd.clone(), cpu_list(&all[..1]))).unwrap();
    session.apply(&Change::new(huge.clone(), "never")).unwrap();
    assert_eq!(kernel_thread("khugepaged"), None);
    session.keep().unwrap();

    // Somebody else switches them on again: the thread is born with kthreadd's one CPU.
    contact::write(place.contact(), &huge, &huge.to_write(&old[0])).unwrap();
    let born = kernel_thread("khugepaged").expect("it is born");
    assert_eq!(born.cpus, all[..1]);
    let inherited = journal.status().unwrap().inherited;
    assert!(inherited.iter().any(|one| one.tid == born.tid), "{inherited:?}");
    let undone = journal.revert(Others::Leave, &|_, _| true).unwrap();
    assert!(undone.iter().all(|one| one.fate.is_final()), "{undone:?}");
    let mended = |one: &&Undone| one.knob == Knob::Thread { tid: born.tid };
    let fate = undone.iter().find(mended).map(|one| &one.fate);
    assert_eq!(fate, Some(&Fate::Mended { name: "khugepaged".to_owned() }));
    assert_eq!(kernel_thread("khugepaged").map(|thread| thread.cpus), Some(all));
    assert_eq!([said(&huge), said(&kthreadd)], old);
}
