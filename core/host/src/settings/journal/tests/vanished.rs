//! Objects that are gone when their settings are to be put back.

use super::super::super::knob::{Change, Knob};
use super::super::{Fate, Is, Journal, Others, Undone};
use super::machine;
use crate::settings::fake::FakeMachine;
use rustix::thread::CapabilitySets;
use std::os::unix::fs::PermissionsExt;

fn kept(machine: &FakeMachine, change: &Change) -> Journal {
    let journal = Journal::open(&machine.place());
    let mut session = journal.session("tune apply").expect("nobody else");
    session.apply(change).expect("it takes");
    session.keep().expect("the journal is ours");
    journal
}

fn revert(journal: &Journal) -> Undone {
    journal.revert(Others::Leave, &|_, _| true).expect("nobody else").remove(0)
}

#[test]
fn a_cpu_that_is_offline_is_waited_for() {
    let machine = machine();
    let governor = "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor";
    let journal = kept(&machine, &Change::new(Knob::file(format!("/{governor}")), "performance"));
    machine.remove(governor);
    let undone = revert(&journal);
    assert!(
        matches!(&undone.fate, Fate::Pending { reason } if reason.contains("CPU 3 is offline")),
        "{undone:?}"
    );
    assert!(matches!(journal.status().expect("it can be read").changes[0].is, Is::Gone { .. }));
    // The kernel remembers the governor of a CPU that comes back.
    machine.file(governor, "performance\n");
    assert_eq!(revert(&journal).fate, Fate::Restored);
    assert_eq!(machine.text(governor), "powersave\n");
}

#[test]
fn an_interface_that_is_gone_took_its_settings_along() {
    let machine = machine();
    let rps = Knob::file("/sys/class/net/eth0/queues/rx-0/rps_cpus");
    let journal = kept(&machine, &Change::new(rps, "2"));
    machine.remove("sys/class/net/eth0");
    assert!(matches!(revert(&journal).fate, Fate::Vanished { .. }));
    assert_eq!(journal.status().expect("it can be read").changes, []);
}

#[test]
fn another_object_with_the_same_name_is_not_touched() {
    let machine = machine();
    let rps = "sys/class/net/eth0/queues/rx-0/rps_cpus";
    let journal = kept(&machine, &Change::new(Knob::file(format!("/{rps}")), "2"));
    machine.file("sys/class/net/eth0/ifindex", "9\n");
    assert!(matches!(revert(&journal).fate, Fate::Vanished { reason } if reason.contains("interface 9")));
    assert_eq!(machine.text(rps), "00000000,00000002\n");

    let journal = kept(&machine, &Change::new(Knob::Thread { tid: 77 }, "0"));
    let stat = machine.text("proc/77/stat").replace(" 31 ", " 5031 ");
    machine.file("proc/77/stat", &stat);
    assert!(matches!(revert(&journal).fate, Fate::Vanished { .. }));
    assert!(machine.text("proc/77/status").contains("Cpus_allowed_list:\t0\n"));

    let journal = kept(&machine, &Change::new(Knob::Irq { irq: 41 }, "0"));
    machine.remove("proc/irq/41/virtio3-rx");
    machine.file("proc/irq/41/nvme0q1/spurious", "count 0\n");
    assert!(matches!(revert(&journal).fate, Fate::Vanished { reason } if reason.contains("nvme0q1")));
}

#[test]
fn a_thread_that_ended_has_nothing_to_put_back() {
    let machine = machine();
    let journal = kept(&machine, &Change::new(Knob::Thread { tid: 77 }, "0"));
    machine.remove("proc/77");
    assert!(matches!(revert(&journal).fate, Fate::Vanished { .. }));
}

#[test]
fn a_setting_of_another_namespace_is_reached_or_known_to_be_gone() {
    let machine = machine();
    let link = |name: &str, number: u32| {
        let path = machine.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(format!("net:[{number}]"), path).unwrap();
    };
    link("proc/thread-self/ns/net", 5);
    link("proc/77/ns/net", 5);
    let journal = kept(&machine, &Change::new(Knob::sysctl("net.core.netdev_budget"), "600"));
    link("proc/thread-self/ns/net", 1);
    let undone = revert(&journal);
    let way = "sudo nsenter --net=/proc/77/ns/net quaver tune revert";
    assert!(matches!(&undone.fate, Fate::Pending { reason } if reason.contains(way)), "{undone:?}");
    assert_eq!(
        journal.status().expect("it can be read").changes[0].is,
        Is::Elsewhere { remedy: way.to_owned() }
    );
    link("proc/77/ns/net", 1);
    // Without the right to see where a process is, the namespace does not count as gone.
    let hide = |mode| std::fs::set_permissions(machine.path("proc/77/ns"), PermissionsExt::from_mode(mode));
    hide(0o000).unwrap();
    let undone = std::thread::scope(|scope| {
        let unprivileged = || {
            let none = rustix::thread::CapabilitySet::empty();
            let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
            rustix::thread::set_capabilities(None, sets).unwrap();
            revert(&journal)
        };
        scope.spawn(unprivileged).join().unwrap()
    });
    hide(0o755).unwrap();
    assert!(matches!(&undone.fate, Fate::Pending { reason } if reason.contains("namespace")), "{undone:?}");
    assert!(matches!(revert(&journal).fate, Fate::Vanished { .. }));
    assert_eq!(machine.text("proc/sys/net/core/netdev_budget"), "600\n", "this one is another namespace's");
}

#[test]
fn the_class_of_a_thread_is_put_back_but_not_to_another_of_its_number() {
    let machine = machine();
    let class = || Change::new(Knob::Class { tid: 79 }, "fifo:1");
    let before = machine.text("proc/79/stat");
    let journal = kept(&machine, &class());
    assert!(machine.text("proc/79/stat").contains(" 17 3 1 1"), "{}", machine.text("proc/79/stat"));
    assert!(matches!(revert(&journal).fate, Fate::Restored));
    assert_eq!(machine.text("proc/79/stat"), before);
    let journal = kept(&machine, &class());
    machine.file("proc/79/stat", &machine.text("proc/79/stat").replace(" 31 ", " 5031 "));
    assert!(matches!(revert(&journal).fate, Fate::Vanished { .. }));
    assert!(machine.text("proc/79/stat").contains(" 17 3 1 1"));
}
