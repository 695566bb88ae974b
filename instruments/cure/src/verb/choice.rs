//! Which remedies are tried: rows of the catalogue for what was found, as far as they are permitted.

use crate::args::{Allow, CureArgs};
use crate::summary::{NotTried, Remedy};
use quaver_host::root::HostRoot;
use quaver_host::settings::contact::Contact;
use quaver_host::settings::knob::{Change, Durability, Knob};
use quaver_tune::audit::{Audited, audit, signs};
use quaver_tune::survey::{Snapshot, Target, Verdict, View};
use quaver_tune::verb::costs::Costs;

/// A remedy with what it sets.
pub(super) struct Candidate {
    pub(super) remedy: Remedy,
    pub(super) changes: Vec<Change>,
}

impl Candidate {
    /// Whether it sets anything of a network interface.
    pub(super) fn is_of_interface(&self) -> bool {
        self.changes.iter().any(|change| change.knob.is_of_network_namespace())
    }
}

/// What can be tried, the largest cost first, and what cannot.
#[derive(Default)]
pub(super) struct Choice {
    pub(super) candidates: Vec<Candidate>,
    pub(super) not_tried: Vec<NotTried>,
}

/// Chooses for a receiver. Reads only.
pub(super) fn choose(args: &CureArgs, contact: &dyn Contact, target: &Target, costs: &Costs) -> Choice {
    let view = View::new(contact, target);
    let mut audited = audit(&view, &Snapshot::take(&view, &signs()), None, Some(costs));
    // What cost most comes first; then what is set badly although no late packet showed it.
    audited.sort_by_key(|one| {
        (std::cmp::Reverse(one.cost.as_ref().map_or(0, |cost| cost.time_ns)), one.row.order)
    });
    let mut choice = Choice::default();
    for one in audited {
        let named = args.only.contains(&one.row.id);
        if args.except.contains(&one.row.id) || !(named || args.only.is_empty()) {
            continue;
        }
        if named || one.cost.is_some() || one.verdict == Verdict::Hurts {
            sort(args, contact.root(), target, &one, &mut choice);
        }
    }
    choice
}

/// Puts one row where it belongs.
fn sort(args: &CureArgs, root: &HostRoot, target: &Target, one: &Audited, choice: &mut Choice) {
    let id = one.row.id.clone();
    let cause_share = one.cost.as_ref().map(|cost| cost.share);
    let mut not_tried = |why: String, how: String| {
        choice.not_tried.push(NotTried { id: id.clone(), why, how, cause_share });
    };
    let mut changes: Vec<Change> = one.knobs.iter().flat_map(|item| item.changes.clone()).collect();
    let taken = |change: &Change| {
        choice.candidates.iter().any(|other| other.changes.iter().any(|known| known.knob == change.knob))
    };
    changes.retain(|change| !taken(change));
    let boot: Vec<&str> = one
        .boot
        .iter()
        .filter(|(_, item)| matches!(item.verdict, Verdict::Hurts | Verdict::Unknown))
        .map(|(option, _)| option.option.as_str())
        .collect();
    if changes.is_empty() {
        let boots = !boot.is_empty() && one.lacking.is_none();
        let boot = boots.then(|| format!("boot with {}", boot.join(" ")));
        let how: Vec<String> = one.row.advice.clone().into_iter().chain(boot).collect();
        if one.cost.is_some() && !how.is_empty() {
            not_tried("no setting of this host changes it".to_owned(), how.join("; or "));
        }
        return;
    }
    let command = format!("quaver cure --only {}", one.row.id);
    if let Some(change) = changes.iter().find(|change| change.knob.durability() == Durability::Persistent) {
        not_tried(
            format!("{} outlives a reboot", change.knob),
            format!("quaver tune apply --only {}", one.row.id),
        );
        return;
    }
    if one.row.ask && !args.only.contains(&one.row.id) {
        not_tried(format!("it is tried only when named: {}", one.row.risk), command);
        return;
    }
    let foreign = changes.iter().find(|change| !is_receivers(&change.knob, target, root));
    if let Some(change) = foreign.filter(|_| args.allow == Allow::Receiver) {
        let whose = if args.program.is_empty() { "receiver" } else { "program" };
        let why = format!("{} is not the {whose}'s alone", change.knob);
        not_tried(why, "--allow host".to_owned());
        return;
    }
    let set = |change: &Change| format!("{} = {}", change.knob, change.value);
    let remedy = Remedy {
        id: one.row.id.clone(),
        mechanism: one.row.mechanism.clone(),
        risk: one.row.risk.clone(),
        changes: changes.iter().map(set).collect(),
        cause_share,
        effect: None,
        verdict: None,
        settled: None,
        withdrawn: None,
        harm: None,
    };
    let changes = changes.into_iter().map(|change| change.of_row(&one.row.id)).collect();
    choice.candidates.push(Candidate { remedy, changes });
}

/// Whether a setting is of the receiver, its CPU or its interface, and of nobody else.
fn is_receivers(knob: &Knob, target: &Target, root: &HostRoot) -> bool {
    let of_interface = |name: &str| target.interface.as_deref() == Some(name);
    match knob {
        Knob::Ethtool { interface, .. } => of_interface(interface),
        Knob::File { path } => {
            let interface = path.strip_prefix("/sys/class/net/").and_then(|rest| rest.split('/').next());
            let group =
                path.strip_prefix("/sys/fs/cgroup/").and(path.rsplit_once('/')).map(|(group, _)| group);
            interface.is_some_and(of_interface)
                || knob.cpu().is_some_and(|cpu| target.cpus.contains(&cpu))
                || group.zip(target.process).is_some_and(|(group, process)| is_alone(root, group, process))
        }
        _ => false,
    }
}

/// Whether a control group has no process but this one, and no group below it.
fn is_alone(root: &HostRoot, group: &str, process: u32) -> bool {
    let members = root.text(&format!("{group}/cgroup.procs")).unwrap_or_default();
    let groups = root.names(group).into_iter().any(|name| root.path(&format!("{group}/{name}")).is_dir());
    !groups && members.split_whitespace().eq([process.to_string()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::settings::fake::FakeMachine;

    #[test]
    fn settings_of_other_cpus_interfaces_and_of_the_host_are_not_the_receivers() {
        let target = Target { cpus: vec![3], interface: Some("eth0".to_owned()), process: Some(70) };
        let machine = FakeMachine::new(&[
            ("sys/fs/cgroup/its/cgroup.procs", "70\n"),
            ("sys/fs/cgroup/shared/cgroup.procs", "70\n71\n"),
            ("sys/fs/cgroup/above/cgroup.procs", "70\n"),
            ("sys/fs/cgroup/above/below/cgroup.procs", "71\n"),
        ]);
        let root = machine.place().contact().root().clone();
        let file = |path: &str| is_receivers(&Knob::file(path), &target, &root);
        assert!(file("/sys/class/net/eth0/queues/rx-0/rps_cpus"));
        assert!(file("/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us"));
        assert!(!file("/sys/class/net/eth01/queues/rx-0/rps_cpus"));
        assert!(!file("/sys/devices/system/cpu/cpu30/power/pm_qos_resume_latency_us"));
        assert!(!file("/proc/sys/kernel/watchdog"));
        assert!(file("/sys/fs/cgroup/its/cpu.max"));
        assert!(!file("/sys/fs/cgroup/shared/cpu.max") && !file("/sys/fs/cgroup/above/cpu.max"));
        assert!(!file("/sys/fs/cgroup/cpu.max"));
        assert!(!is_receivers(&Knob::Thread { tid: 2 }, &target, &root));
        let of =
            |name: &str| Knob::Ethtool { interface: name.to_owned(), field: "feature.rx-gro".to_owned() };
        assert!(is_receivers(&of("eth0"), &target, &root) && !is_receivers(&of("eth1"), &target, &root));
    }
}
