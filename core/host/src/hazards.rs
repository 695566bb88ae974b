//! Every check of `quaver doctor`, one entry a check: what can be measured here, and what is set so that it hurts.
//!
//! A new check is a new function and a new entry in the table that it belongs to ([`abilities`] or
//! [`settings`]). A check looks at a [`HostView`] only, so that it can neither read nor change anything.

mod abilities;
mod clocks;
mod settings;

use super::capabilities::Rights;
use super::facts::HostFacts;
use super::interface::InterfaceFacts;
use super::quota::QuotaReading;
use super::root::HostRoot;
use super::stamp_module::StampModule;
use super::trace::{Tier, TraceError};
use quaver_clock::ClockLook;
use serde::{Deserialize, Serialize};

/// Everything that checks may look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    /// The host.
    pub facts: HostFacts,
    /// What this process may do.
    pub rights: Rights,
    /// Quotas over this process.
    pub quota: QuotaReading,
    /// The interfaces to judge.
    pub interfaces: Vec<InterfaceFacts>,
    /// A short look at the clocks; none where nobody took it.
    #[serde(default)]
    pub clock: Option<ClockLook>,
    /// Whether the kernel stamps packets because some program asks for it (`stamp::compare::stamped_for_others`); none where
    /// nobody looked or it cannot be told.
    #[serde(default)]
    pub stamped_for_others: Option<bool>,
    /// Whether the kernel lets BPF programs read the cycle counter (`bpf_get_cpu_time_counter`); none where nobody looked or
    /// it does not describe its functions.
    #[serde(default)]
    pub counter_for_bpf: Option<bool>,
    /// The module that stamps received packets.
    #[serde(default)]
    pub stamp_module: StampModule,
    /// Whether BPF programs of this build can run here, and why not.
    pub bpf_tier: TierState,
    /// Whether a tracefs instance can be made here, and why not.
    pub tracefs_tier: TierState,
    /// Why a run would not take a better tier, in the words that its page will have; none where it takes the best.
    #[serde(default)]
    pub tier_reason: Option<String>,
}

/// Whether a tier of tracing can run, as its own probe found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierState {
    /// Whether it runs.
    pub usable: bool,
    /// What the probe found: the reason if it does not run, details if it does.
    pub evidence: String,
    /// The command that would make it run; none if nothing is known.
    pub remedy: Option<String>,
    /// Classes of events that stay unseen although the tier runs.
    pub blind: Vec<String>,
}

impl TierState {
    /// A tier that runs.
    pub fn usable(evidence: impl Into<String>, blind: Vec<String>) -> Self {
        Self { usable: true, evidence: evidence.into(), remedy: None, blind }
    }

    /// A tier whose probe was refused.
    pub fn refused(error: &TraceError) -> Self {
        let (evidence, remedy) = match error {
            TraceError::NotPermitted { operation, remedy } => {
                (format!("{operation}: not permitted"), Some(remedy.clone()))
            }
            TraceError::NotSupported { operation, remedy } => {
                (format!("{operation}: not supported here"), Some(remedy.clone()))
            }
            TraceError::Os { .. } => (error.to_string(), None),
        };
        Self { usable: false, evidence, remedy, blind: Vec::new() }
    }
}

impl HostView {
    /// The best tier that runs.
    pub fn best_tier(&self) -> Tier {
        if self.bpf_tier.usable {
            Tier::Bpf
        } else if self.tracefs_tier.usable {
            Tier::Tracefs
        } else {
            Tier::User
        }
    }

    /// Reads the host. The tiers are left as "not probed", the clocks as not looked at: their probes know best and are called
    /// by who has them.
    pub fn read(root: &HostRoot, interface: Option<&str>) -> Self {
        let facts = HostFacts::read(root);
        let names = match interface {
            Some(name) => vec![name.to_owned()],
            None => InterfaceFacts::names(root),
        };
        let not_probed = TierState { evidence: "not probed".to_owned(), ..TierState::default() };
        Self {
            rights: Rights::read(root, &facts),
            quota: QuotaReading::read(root, None),
            interfaces: names.iter().filter_map(|name| InterfaceFacts::read(root, name)).collect(),
            clock: None,
            stamped_for_others: None,
            counter_for_bpf: None,
            stamp_module: StampModule::read(root),
            bpf_tier: not_probed.clone(),
            tracefs_tier: not_probed,
            tier_reason: None,
            facts,
        }
    }
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Set so that packets or threads are late because of it.
    Hurts,
    /// Something that could be measured cannot be, here and now.
    Missing,
    /// Does not exist on this machine, or the machine does not tell.
    NotApplicable,
}

impl Verdict {
    /// Name as the console and JSON show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Hurts => "hurts",
            Self::Missing => "missing",
            Self::NotApplicable => "not-applicable",
        }
    }
}

/// What a check's function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Verdict.
    pub verdict: Verdict,
    /// What was seen, with its value.
    pub evidence: String,
    /// The command or boot option that mends it; none if there is nothing to mend or no way.
    pub remedy: Option<String>,
}

impl Finding {
    fn good(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Good, evidence: evidence.into(), remedy: None }
    }

    fn hurts(evidence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Hurts, evidence: evidence.into(), remedy: Some(remedy.into()) }
    }

    fn missing(evidence: impl Into<String>, remedy: Option<String>) -> Self {
        Self { verdict: Verdict::Missing, evidence: evidence.into(), remedy }
    }

    fn not_applicable(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotApplicable, evidence: evidence.into(), remedy: None }
    }
}

/// Which part of the doctor's page a check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// What this machine can measure.
    Ability,
    /// Settings known to hurt.
    Setting,
}

/// One check.
pub struct Check {
    /// Short name that never changes, for scripts.
    pub id: &'static str,
    /// Part of the page.
    pub area: Area,
    /// What is looked at, as a person reads it.
    pub title: &'static str,
    /// Why it matters: what stays unseen without it, or what it does to a packet.
    pub why: &'static str,
    /// The check itself.
    pub probe: fn(&HostView) -> Finding,
}

/// A check with what it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// [`Check::id`].
    pub id: &'static str,
    /// [`Check::area`].
    pub area: Area,
    /// [`Check::title`].
    pub title: &'static str,
    /// [`Finding::verdict`].
    pub verdict: Verdict,
    /// [`Finding::evidence`].
    pub evidence: String,
    /// [`Check::why`].
    pub why: &'static str,
    /// [`Finding::remedy`].
    pub remedy: Option<String>,
}

/// All checks in the order of the page.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    abilities::CHECKS.iter().chain(clocks::CHECKS).chain(settings::CHECKS)
}

/// Runs all checks.
pub fn examine(view: &HostView) -> Vec<Checked> {
    checks()
        .map(|check| {
            let Finding { verdict, evidence, remedy } = (check.probe)(view);
            let Check { id, area, title, why, .. } = *check;
            Checked { id, area, title, verdict, evidence, why, remedy }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;
    use std::collections::BTreeSet;

    fn verdict(view: &HostView, id: &str) -> Verdict {
        examine(view).into_iter().find(|checked| checked.id == id).expect("the check exists").verdict
    }

    #[test]
    fn a_thousand_cpus_and_ten_thousand_threads_are_read_in_full() {
        let host = FakeHost::bare_metal();
        let online = |last: u16| (0..=last).collect::<Vec<u16>>();
        host.file("sys/devices/system/cpu/online", "0-1999");
        host.file("sys/devices/system/cpu/isolated", "1000-1998:2/4,1999");
        for cpu in 4..2_000 {
            let governor = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            host.file(&governor, if cpu == 1_999 { "powersave" } else { "performance" });
        }
        for process in 100..10_100 {
            host.file(
                &format!("proc/{process}/comm"),
                if process == 10_099 { "irqbalance" } else { "worker" },
            );
        }
        let view = HostView::read(&host.root(), None);
        assert_eq!(view.facts.cpu.online, online(1_999));
        assert_eq!(view.facts.cpu.governors, ["performance", "powersave"], "that of the last CPU, too");
        assert_eq!(verdict(&view, "irqbalance"), Verdict::Hurts, "the last process is found");
        assert!(examine(&view).iter().all(|checked| checked.evidence.len() < 4_096), "evidence is readable");
    }

    #[test]
    fn ids_are_unique_and_texts_are_there() {
        let ids: BTreeSet<&str> = checks().map(|check| check.id).collect();
        assert_eq!(ids.len(), checks().count());
        assert!(checks().all(|check| check.why.len() > 20 && !check.title.is_empty()));
    }

    #[test]
    fn a_tuned_server_is_good() {
        let view = HostView::read(&FakeHost::bare_metal().root(), None);
        for id in
            ["governor", "idle-states", "irqbalance", "virtual-machine", "clock-source", "rt-throttling"]
        {
            assert_eq!(verdict(&view, id), Verdict::Good, "{id}");
        }
    }

    #[test]
    fn an_untuned_guest_hurts_and_each_hurt_has_a_remedy() {
        let view = HostView::read(&FakeHost::virtual_machine().root(), None);
        for id in [
            "governor",
            "idle-states",
            "irqbalance",
            "virtual-machine",
            "clock-source",
            "autogroup",
            "transparent-hugepages",
            "numa-balancing",
        ] {
            assert_eq!(verdict(&view, id), Verdict::Hurts, "{id}");
        }
        for checked in examine(&view) {
            let needs_remedy = checked.verdict == Verdict::Hurts;
            assert!(!needs_remedy || checked.remedy.is_some(), "{}", checked.id);
        }
    }

    #[test]
    fn a_machine_that_shows_nothing_is_not_blamed() {
        let view = HostView::read(&FakeHost::empty().root(), None);
        assert!(examine(&view).iter().all(|checked| checked.verdict != Verdict::Hurts));
    }

    #[test]
    fn a_tickless_cpu_is_proposed_only_where_the_kernel_can() {
        let remedy = |host: &FakeHost| {
            host.file("sys/devices/system/cpu/online", "0-3");
            let view = HostView::read(&host.root(), None);
            examine(&view).into_iter().find(|one| one.id == "isolation").unwrap().remedy.unwrap()
        };
        let host = FakeHost::empty();
        assert_eq!(remedy(&host), "boot with isolcpus=managed_irq,domain,3 rcu_nocbs=3");
        host.file("sys/devices/system/cpu/nohz_full", "");
        assert_eq!(remedy(&host), "boot with isolcpus=managed_irq,domain,3 nohz_full=3 rcu_nocbs=3");
    }

    #[test]
    fn a_refusal_keeps_its_remedy() {
        let error =
            TraceError::NotPermitted { operation: "loading".to_owned(), remedy: "be root".to_owned() };
        let mut view = HostView { bpf_tier: TierState::refused(&error), ..HostView::default() };
        assert_eq!(verdict(&view, "bpf-tier"), Verdict::Missing);
        assert_eq!(view.bpf_tier.remedy.as_deref(), Some("be root"));
        assert_eq!(view.best_tier(), Tier::User);
        view.tracefs_tier = TierState::usable("mounted", vec!["page faults".to_owned()]);
        assert_eq!((view.best_tier(), verdict(&view, "tracefs-tier")), (Tier::Tracefs, Verdict::Good));
    }

    #[test]
    fn a_check_never_writes() {
        let host = FakeHost::virtual_machine();
        let before = host.listing();
        let view = HostView::read(&host.root(), None);
        let _ = examine(&view);
        assert_eq!(host.listing(), before);
    }

    #[test]
    fn a_check_never_changes_this_machine() {
        let settings = || {
            let root = HostRoot::system();
            let kernel =
                ["sched_rt_runtime_us", "timer_migration", "numa_balancing", "nmi_watchdog", "kptr_restrict"]
                    .map(|name| root.text(&format!("proc/sys/kernel/{name}")));
            let network = ["rmem_max", "busy_poll", "busy_read", "netdev_budget", "default_qdisc"]
                .map(|name| root.text(&format!("proc/sys/net/core/{name}")));
            let mounts = root.text("proc/self/mounts");
            (kernel, network, mounts)
        };
        let before = settings();
        let view = HostView::read(&HostRoot::system(), None);
        assert_eq!(examine(&view).len(), checks().count());
        assert_eq!(settings(), before);
    }
}
