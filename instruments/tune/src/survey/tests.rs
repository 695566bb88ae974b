use super::super::audit::{Audited, Cost, audit, signs, unplaced};
use super::super::catalogue::{self, rows};
use super::super::plan::{Plan, Selection, StepResult, apply, plan};
use super::*;
use quaver_host::settings::fake::FakeMachine;
use quaver_host::settings::journal::{Journal, Others, Outcome};
use std::collections::{BTreeMap, BTreeSet};

const INTERRUPTS: &str = "           CPU0       CPU1\n 41:          9          0  PCI-MSIX  virtio3-rx\n\
    LOC:        100        200   Local timer interrupts\nTLB:          5          0   TLB shootdowns\n";

/// A guest of two CPUs with everything set as it hurts CPU 1, and a knob of each kind.
fn untuned() -> FakeMachine {
    let machine = FakeMachine::new(&[
        ("proc/sys/kernel/osrelease", "6.12.5\n"),
        ("proc/cpuinfo", "model name\t: CPU\nflags\t\t: tsc hypervisor\n"),
        ("proc/cmdline", "quiet nohz=on\n"),
        ("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
        ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/jobs/cpu.stat", "nr_periods 0\n"),
        ("sys/fs/cgroup/jobs/one/cpu.stat", "nr_periods 9\n"),
        ("proc/self/cgroup", "0::/jobs/one\n"),
        ("proc/sys/kernel/watchdog", "1\n"),
        ("proc/sys/kernel/printk", "4\t4\t1\t7\n"),
        ("proc/sys/vm/stat_interval", "1\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ("proc/irq/41/smp_affinity_list", "0-1\n"),
        ("proc/irq/41/effective_affinity_list", "0\n"),
        ("proc/irq/41/virtio3-rx/spurious", ""),
        ("proc/irq/42/smp_affinity_list", "1\n"),
        ("proc/irq/42/effective_affinity_list", "1\n"),
        ("proc/irq/42/nvme0q1/spurious", ""),
        ("proc/irq/42/managed", ""),
        ("proc/irq/default_smp_affinity", "3\n"),
        ("proc/interrupts", INTERRUPTS),
        ("proc/vmstat", "thp_collapse_alloc 7\nnuma_pte_updates 0\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us", "0\n"),
        ("sys/devices/virtual/workqueue/cpumask", "3\n"),
        ("sys/devices/virtual/workqueue/writeback/cpumask", "1\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock acpi_pm\n"),
        ("sys/devices/system/cpu/intel_uncore_frequency/package_00/min_freq_khz", "800000\n"),
        ("sys/devices/system/cpu/intel_uncore_frequency/package_00/max_freq_khz", "2400000\n"),
        ("sys/devices/system/cpu/smt/control", "on\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"),
        ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n"),
        ("sys/fs/cgroup/jobs/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n"),
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("sys/class/net/eth0/napi_defer_hard_irqs", "0\n"),
        ("sys/class/net/eth0/gro_flush_timeout", "20000\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000003\n"),
        ("drivers/eth0/coalesce.rx-usecs", "100\n"),
        ("drivers/eth0/coalesce.adaptive-rx", "on\n"),
        ("units/irqbalance.service", "active\n"),
    ]);
    for (tid, name, flags, cpus) in [
        (2, "kthreadd", 0, "0-1"),
        (15, "rcuop/1", 0, "0-1"),
        (16, "ksoftirqd/1", BOUND, "1"),
        (40, "irqbalance", 0, "0"),
    ] {
        let parent = if name == "irqbalance" { 1 } else { 2 };
        let ticks = "0 0 0 0 3 4 0 0 20 0 1 0 31 0 0";
        machine.file(
            &format!("proc/{tid}/stat"),
            &format!("{tid} ({name}) S {parent} 0 0 0 -1 {flags} {ticks}\n"),
        );
        machine.file(&format!("proc/{tid}/status"), &format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\n"));
    }
    machine
}

const BOUND: u64 = 0x0400_0000;

fn target() -> Target {
    Target { cpus: vec![1], interface: Some("eth0".to_owned()), process: None }
}

fn audited(machine: &FakeMachine, costs: Option<&BTreeMap<String, Cost>>) -> Vec<Audited> {
    let (place, target) = (machine.place(), target());
    let view = View::new(place.contact(), &target);
    let first = Snapshot::take(&view, &signs());
    audit(&view, &first, None, costs)
}

fn of<'a>(audited: &'a [Audited], id: &str) -> &'a Audited {
    audited.iter().find(|one| one.row.id == id).expect("every row is audited")
}

#[test]
fn every_row_gets_a_verdict_with_evidence_and_nothing_is_written() {
    let machine = untuned();
    let before = machine.listing();
    let audited = audited(&machine, None);
    assert_eq!(audited.len(), rows().len());
    assert!(
        audited
            .iter()
            .all(|one| one.evidence.iter().all(|line| !line.is_empty()) && !one.evidence.is_empty())
    );
    assert_eq!(machine.listing(), before);
    assert!(!machine.journal().exists());
}

#[test]
fn an_untuned_machine_hurts_where_it_is_untuned() {
    let audited = audited(&untuned(), None);
    for (id, verdict, evidence) in [
        ("fair-server", Verdict::Unknown, "/sys/kernel/debug/sched/fair_server"),
        ("irqthreads", Verdict::NotApplicable, "no thread irq/*"),
        ("softlockup", Verdict::Hurts, "kernel.watchdog is 1, better 0"),
        ("vmstat", Verdict::Hurts, "vm.stat_interval is 1"),
        ("rt-throttle", Verdict::Good, "-1"),
        ("console", Verdict::Hurts, "better 1 4 1 7"),
        ("dev-irq", Verdict::Hurts, "2 of 2 interrupts may come here, 1 of them do: 42 nvme0q1 (now CPU 1)"),
        ("kthreads", Verdict::Hurts, "1 may run here: kthreadd; 1 are bound"),
        ("rcu-cb", Verdict::Hurts, "rcuop/1"),
        ("wq-unbound", Verdict::Hurts, "has CPUs 0-1"),
        ("writeback", Verdict::Good, "has CPUs 0"),
        ("irqbalance", Verdict::Hurts, "irqbalance.service is active"),
        ("cfs-preempt", Verdict::Hurts, "/sys/fs/cgroup/quaver can be a partition"),
        ("quota", Verdict::Hurts, "/sys/fs/cgroup/jobs/one/cpu.max is 50000 us in each 100000 us"),
        ("pstate", Verdict::Hurts, "scaling_governor is powersave"),
        ("cstate", Verdict::Hurts, "better n/a"),
        ("uncore", Verdict::Hurts, "better 2400000"),
        ("clocksource", Verdict::Hurts, "not offered here"),
        ("thp", Verdict::Hurts, "is always, better never"),
        ("itr", Verdict::Hurts, "coalesce.rx-usecs of eth0 is 100"),
        ("intrl", Verdict::NotApplicable, "has no coalesce.rx-usecs-high"),
        ("defer", Verdict::Hurts, "gro_flush_timeout is 20000"),
        ("rps", Verdict::Hurts, "rps_cpus"),
        ("tick", Verdict::Unknown, "200 interrupts LOC on CPU 1 since boot"),
        ("tlb", Verdict::Good, "0 interrupts TLB on CPU 1"),
        ("smi", Verdict::NotApplicable, "hypervisor"),
        ("textpoke", Verdict::Unknown, "needs a run"),
        ("tick-phase", Verdict::Unknown, "not booted with skew_tick=1"),
        ("numa", Verdict::Good, "0 numa_pte_updates"),
        ("turbo", Verdict::NotApplicable, "there is no"),
    ] {
        let one = of(&audited, id);
        assert_eq!(one.verdict, verdict, "{id}: {:?}", one.evidence);
        assert!(one.evidence.iter().any(|line| line.contains(evidence)), "{id}: {:?}", one.evidence);
    }
}

#[test]
fn a_tick_that_cannot_be_switched_off_says_so() {
    let audited = audited(&untuned(), None);
    let evidence = of(&audited, "tick").evidence.join("; ");
    assert!(
        evidence.contains("CONFIG_NO_HZ_FULL") && evidence.contains("cannot be switched off"),
        "{evidence}"
    );
}

#[test]
fn what_grows_while_it_is_watched_hurts() {
    let (machine, target) = (untuned(), target());
    let place = machine.place();
    let view = View::new(place.contact(), &target);
    let first = Snapshot::take(&view, &signs());
    machine.file("proc/interrupts", &INTERRUPTS.replace("200", "450"));
    let later = Snapshot::take(&view, &signs());
    let audited = audit(&view, &first, Some(&later), None);
    assert_eq!(of(&audited, "tick").verdict, Verdict::Hurts);
    assert!(
        of(&audited, "tick").evidence[0].contains("200 interrupts LOC on CPU 1 since boot, 250 more while")
    );
    assert_eq!(of(&audited, "tlb").evidence, ["0 interrupts TLB on CPU 1 since boot"]);
}

#[test]
fn a_run_tells_what_a_row_cost_its_further_causes_included() {
    let cost = |time_ns, worst_ns| Cost { time_ns, share: 0.25, worst_ns };
    let costs = BTreeMap::from([
        ("textpoke".to_owned(), cost(10, 4)),
        ("membarrier".to_owned(), cost(20, 9)),
        ("rt-throttle".to_owned(), cost(5, 5)),
        ("source-late".to_owned(), cost(1, 1)),
        ("net-rx".to_owned(), cost(3, 2)),
    ]);
    let rest: Vec<&str> = unplaced(&costs).into_iter().map(|(id, _)| id).collect();
    assert_eq!(rest, ["net-rx", "source-late"]);
    let audited = audited(&untuned(), Some(&costs));
    let textpoke = of(&audited, "textpoke");
    assert_eq!(textpoke.cost, Some(Cost { time_ns: 30, share: 0.5, worst_ns: 9 }));
    assert_eq!(textpoke.verdict, Verdict::Hurts);
    assert_eq!(
        of(&audited, "rt-throttle").verdict,
        Verdict::Hurts,
        "what it cost weighs more than what is set"
    );
    assert_eq!(of(&audited, "faults").cost, None);
    assert!(of(&audited, "faults").evidence[0].contains("cost nothing"));
}

fn planned(machine: &FakeMachine, only: &[&str]) -> Plan {
    let only = only.iter().map(|id| (*id).to_owned()).collect();
    plan(&audited(machine, None), &Selection { only, except: Vec::new() })
}

#[test]
fn a_plan_is_in_order_and_leaves_out_what_has_to_be_named() {
    let machine = untuned();
    let plan = planned(&machine, &[]);
    let ids: Vec<&str> = plan.changes.iter().map(|planned| planned.row.id.as_str()).collect();
    let at =
        |id: &str| ids.iter().position(|found| *found == id).unwrap_or_else(|| panic!("{id} in {ids:?}"));
    assert!(at("irqbalance") < at("dev-irq") && at("dev-irq") < at("cfs-preempt"), "{ids:?}");
    assert!(!ids.contains(&"smt") && plan.withheld.iter().any(|one| one.row.id == "smt"));
    assert!(!ids.contains(&"sched-softirq"), "the partition is made once");
    let named = |option: &str| plan.boot.iter().find(|planned| planned.option == option);
    assert!(named("skew_tick=1").is_some_and(|planned| !planned.hurts && !planned.instead));
    assert!(named("isolcpus=managed_irq,domain,1").is_some());
    assert_eq!(named("nohz_full=1"), None, "this kernel cannot");
    assert!(!plan.command_line().contains("skew_tick"), "a run has to tell first");
    let smt = planned(&machine, &["smt"]);
    assert_eq!(smt.changes.iter().map(|planned| planned.change.value.as_str()).collect::<Vec<_>>(), ["off"]);
    assert!(smt.withheld.is_empty());
}

#[test]
fn a_plan_is_carried_out_verified_and_put_back() {
    let machine = untuned();
    let before = machine.listing();
    let plan = planned(&machine, &[]);
    let journal = Journal::open(&machine.place());
    let mut session = journal.session("tune apply").expect("nobody else");
    let steps = apply(&mut session, &plan.changes(), false, &|| true).expect("the journal is ours");
    session.keep().expect("the journal is ours");
    assert_eq!(steps.len(), plan.changes.len());
    let failed: BTreeSet<String> =
        steps.iter().filter(|step| !step.took()).map(|step| step.knob.to_string()).collect();
    assert_eq!(failed, BTreeSet::from(["affinity of irq 42".to_owned()]), "managed, and said so");
    let managed = steps.iter().find(|step| !step.took()).expect("there is one");
    assert!(matches!(&managed.result, StepResult::Failed { reason, .. } if reason.contains("manages")));

    let after = audited(&machine, None);
    for id in [
        "softlockup",
        "vmstat",
        "wq-unbound",
        "pstate",
        "itr",
        "defer",
        "rps",
        "irqbalance",
        "thp",
        "rcu-cb",
        "quota",
    ] {
        let one = of(&after, id);
        let still = one.knobs.iter().any(|item| item.verdict == Verdict::Hurts);
        assert!(!still, "{id}: {:?}", one.evidence);
    }
    // A second time there is nothing left to do but what did not take.
    let again = planned(&machine, &[]);
    let knobs: Vec<String> = again.changes.iter().map(|planned| planned.change.knob.to_string()).collect();
    assert!(knobs.iter().all(|knob| knob.contains("irq 42") || knob.contains("quaver")), "{knobs:?}");

    let undone = journal.revert(Others::Leave, &|_, _| true).expect("nobody else");
    assert!(undone.iter().all(|one| one.fate.is_final()), "{undone:?}");
    let listing = machine.listing();
    for (was, is) in before.iter().zip(&listing) {
        assert_eq!(was, is);
    }
    assert_eq!(before.len(), listing.len());
}

#[test]
fn a_plan_that_is_broken_off_is_put_back() {
    let machine = untuned();
    let before = machine.listing();
    let plan = planned(&machine, &[]);
    let mut session = Journal::open(&machine.place()).session("tune apply").expect("nobody else");
    let left = std::cell::Cell::new(5);
    let go_on = || {
        left.set(left.get() - 1);
        left.get() > 0
    };
    let steps = apply(&mut session, &plan.changes(), false, &go_on).expect("the journal is ours");
    assert_eq!(steps.len(), 4);
    assert_ne!(machine.listing(), before);
    drop(session);
    assert_eq!(machine.listing(), before);
}

#[test]
fn an_alone_cpu_has_nowhere_to_send_things() {
    let machine = untuned();
    let place = machine.place();
    let both = Target { cpus: vec![0, 1], interface: None, process: None };
    let view = View::new(place.contact(), &both);
    let knobs = view.knobs(catalogue::row("wq-unbound").expect("it is there"));
    assert_eq!(knobs[0].verdict, Verdict::NotApplicable);
    let itr = view.knobs(catalogue::row("itr").expect("it is there"));
    assert!(itr.iter().all(|item| item.evidence.contains("--interface")));
}

#[test]
fn an_unset_outcome_is_no_success() {
    let machine = untuned();
    let mut session = Journal::open(&machine.place()).session("tune apply").expect("nobody else");
    machine.file("sys/module/x/deaf", "7\n");
    let applied = session
        .apply(&Change::new(quaver_host::settings::Knob::file("/sys/module/x/deaf"), "1"))
        .expect("written");
    assert_eq!(applied.outcome, Outcome::NotTaken);
}

#[test]
fn patterns_with_stars() {
    for (pattern, name, yes) in [
        ("rcuo*", "rcuop/1", true),
        ("*", "", true),
        ("irq/*", "irq", false),
        ("a*b*c", "aXbYc", true),
        ("a*b*c", "aXc", false),
        ("x", "x", true),
    ] {
        assert_eq!(fits(pattern, name), yes, "{pattern} {name}");
    }
}

#[test]
fn quotas_are_those_over_the_receiver_from_the_root_down() {
    let machine = untuned();
    machine.file("proc/70/cgroup", "2:cpu,cpuacct:/box/inner\n");
    machine
        .file("proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    for (group, quota) in [("", "-1"), ("/box", "80000"), ("/box/inner", "20000")] {
        let file = |name: &str, text: &str| machine.file(&format!("sys/fs/cgroup/cpu{group}/{name}"), text);
        file("cpu.cfs_quota_us", &format!("{quota}\n"));
        file("cpu.cfs_period_us", "100000\n");
        file("cpu.stat", "nr_periods 7\nnr_throttled 1\nthrottled_time 12345\n");
    }
    let (place, target) = (machine.place(), Target { process: Some(70), ..target() });
    let view = View::new(place.contact(), &target);
    let all = audit(&view, &Snapshot::take(&view, &signs()), None, None);
    let changes = of(&all, "quota").knobs.iter().flat_map(|item| &item.changes);
    let changes: Vec<String> = changes.map(|change| format!("{} = {}", change.knob, change.value)).collect();
    let of_group = |group: &str| format!("/sys/fs/cgroup/cpu{group}/cpu.cfs_quota_us = -1");
    assert_eq!(changes, [of_group("/box"), of_group("/box/inner")]);
}
