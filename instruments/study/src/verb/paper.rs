//! The plan of `quaver study paper`: the paper's matrix, as far as a lab can vary it.

use super::settings::Settings;
use clap::ValueEnum;
use quaver_chase::args::LabKind;
use quaver_host::root::HostRoot;
use quaver_study_analysis::{EXPERIMENTS, PAPER_SAMPLES, PaperArm, Possible, WAKE_UP_PERIOD_NS};

/// What decides what can be done.
pub(super) struct Here {
    /// Name of the lab.
    lab: String,
    cpus: Vec<u16>,
    /// Real C-states that can be held off.
    idle_states: bool,
}

/// A plan and what became of each experiment.
pub(super) struct PaperPlan {
    pub(super) text: String,
    pub(super) arms: Vec<PaperArm>,
    /// Turns of the dummy program.
    pub(super) samples: u64,
    /// Packets of each block of figure 8; none where it is not measured.
    pub(super) wake_up_samples: u64,
}

impl Here {
    /// What is here.
    pub(super) fn look(kind: LabKind, cpus: Vec<u16>, root: &HostRoot) -> Self {
        let lab = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        // Those of a virtual machine are the host's, whatever the guest asks for.
        let guest = root.text("/proc/cpuinfo").is_some_and(|text| text.contains(" hypervisor"));
        let idle_states = !guest && root.exists("/sys/devices/system/cpu/cpu0/cpuidle/state1");
        Self { lab, cpus, idle_states }
    }
}

/// What of an experiment goes into the plan.
enum PlanEntry {
    /// An arm with these keys; as in the paper, or emulated by what is said.
    Arm { class: &'static str, keys: String, emulated: Option<&'static str> },
    /// The baseline, or no arm at all.
    Beside,
    /// No arm, but measured beside them, in the way that is said.
    BesideEmulated(&'static str),
    /// Not here.
    Not(String),
}

const SPINNER: &str = "a thread of the idle class keeps the sink's CPU from idling, in place of idle=poll; real idle states are for real \
     hardware only";
const DEFERRED: &str = "NAPI deferred (GRO on, napi_defer_hard_irqs 1000, gro_flush_timeout 100 us, TSO off at the sender), in place \
     of a NIC's throttle";
const WAKING: &str = "a sink that sleeps between packets 200 us apart, at the application, since between namespaces and over loopback the \
     stack runs on the sender's CPU, which never idles; spikes are as far above the period as the paper's";
const AT_WORK: &str = "the other core sends packets to sockets of its own, so that an interrupt finds its stack at work: an endless loop \
     alone shows nothing under emulation, where a core takes an interrupt at once";
const FLOOR: &str =
    "the emulated NIC's throttle goes no lower than 128 us: 1000 us, with a packet each 200 us";

/// The plan with so many samples of each arm.
pub(super) fn plan(here: &Here, samples: u64) -> PaperPlan {
    let qemu = here.lab == "qemu";
    let period_ns = if qemu { 200_000.0 } else { 7_410.0 };
    // A tracer costs an emulated processor more than all else.
    let trace = !qemu;
    let length_ms = (samples as f64 * period_ns / 1e6).ceil().max(1.0) as u64;
    // A short look need not wait long for what settles.
    let warm_up = if samples < 20_000 { "50ms" } else { "300ms" };
    let (spike, period, pace) = if qemu { ("400us", "200us", "sleep") } else { ("15us", "7.41us", "spin") };
    let mut text = format!(
        "# The matrix of the paper, as far as this lab can vary it.\n[study]\nfor = '{length_ms}ms'\nwarm-up = '{warm_up}'\n\
         rank-by = 'p99'\nspike = '{spike}'\nsender-limit = 0.5\ntrace = {trace}\n[stream]\nperiod = '{period}'\nsize = 1428\n\
         [baseline]\nreceive = 'poll'\npace = '{pace}'\n"
    );
    if here.idle_states && !qemu {
        text.push_str("tune = ['cstate']\n");
    }
    let mut arms: Vec<PaperArm> = Vec::new();
    for experiment in &EXPERIMENTS {
        if arms.iter().any(|arm| arm.id == experiment.id) {
            continue;
        }
        let (arm, possible) = match done(here, experiment.id) {
            PlanEntry::Beside => {
                let arm = (experiment.id != "dummy").then(|| "baseline".to_owned());
                (arm, Possible::Measured)
            }
            PlanEntry::BesideEmulated(by) => (None, Possible::Emulated(by.to_owned())),
            PlanEntry::Not(reason) => (None, Possible::NotHere(reason)),
            PlanEntry::Arm { class, keys, emulated } => {
                let id = experiment.id;
                text.push_str(&format!("[[factor]]\nid = '{id}'\nclass = '{class}'\n{keys}\n"));
                let how = emulated.map_or(Possible::Measured, |by| Possible::Emulated(by.to_owned()));
                (Some(id.to_owned()), how)
            }
        };
        arms.push(PaperArm { id: experiment.id.to_owned(), arm, possible });
    }
    // A tenth of a cell's packets take as long as a few cells, since they are so much farther apart.
    let wakes =
        arms.iter().any(|arm| arm.id == "no-idle-poll" && !matches!(arm.possible, Possible::NotHere(_)));
    let wake_up_samples = if wakes { (samples / 10).clamp(1_000, MOST_WAKE_UPS) } else { 0 };
    PaperPlan { text, arms, samples, wake_up_samples }
}

/// Packets of a block of figure 8 at most: two seconds of them.
const MOST_WAKE_UPS: u64 = 10_000;

/// The plan of figure 8 where packets so close as the paper's let no core fall asleep: a sink that sleeps between packets
/// farther apart, kept awake in the baseline. Nobody traces: between namespaces there is no interrupt to see. `like` is the
/// arm whose settings of the host hold here as well.
pub(super) fn wake_up_plan(samples: u64, like: Option<&Settings>) -> String {
    let length_ms = (samples as i64 * WAKE_UP_PERIOD_NS / 1_000_000).max(1);
    let tune = like.map_or(&[][..], |settings| &settings.tune);
    let idle = if tune.is_empty() { "keep-busy = false" } else { "keep-busy = false\ntune = []" };
    format!(
        "[study]\nfor = '{length_ms}ms'\nwarm-up = '50ms'\nsender-limit = 1.0\ntrace = false\nblocks = {WAKE_UP_BLOCKS}\n[stream]\n\
         period = '{}us'\nsize = 1428\n[baseline]\nreceive = 'block'\npace = 'spin'\nkeep-busy = true\ntune = {tune:?}\n\
         [[factor]]\nid = 'idle'\nclass = 'hardware'\n{idle}\n",
        WAKE_UP_PERIOD_NS / 1_000
    )
}

/// Turns of figure 8.
const WAKE_UP_BLOCKS: u32 = 5;

fn done(here: &Here, id: &str) -> PlanEntry {
    let (qemu, loopback) = (here.lab == "qemu", here.lab == "loopback");
    let arm = |class, keys: &str, emulated| PlanEntry::Arm { class, keys: keys.to_owned(), emulated };
    let no_device = || {
        PlanEntry::Not(
            "the interface is a veth pair or loopback: it has no interrupts to throttle".to_owned(),
        )
    };
    match id {
        "generator" | "baseline" => PlanEntry::Beside,
        "dummy" if qemu => PlanEntry::Not(
            "in virtual time a loop that asks for the time sees nothing of the machine".to_owned(),
        ),
        "dummy" => PlanEntry::Beside,
        "no-idle-poll" if qemu => {
            PlanEntry::Not("under emulation the sender must sleep, so no idle=poll".to_owned())
        }
        "no-idle-poll" => PlanEntry::BesideEmulated(WAKING),
        "rerouted-idle" | "rerouted-busy" => rerouted(here, id == "rerouted-busy"),
        "blocking" if qemu => PlanEntry::Not(
            "under emulation the sender must sleep, so no idle=poll; see without it".to_owned(),
        ),
        "blocking" if here.idle_states => arm("network-stack", "receive = 'block'", None),
        "blocking" => arm("network-stack", "receive = 'block'\nkeep-busy = true", Some(SPINNER)),
        "blocking-no-idle-poll" if here.idle_states && !qemu => {
            arm("network-stack", "receive = 'block'\ntune = []", None)
        }
        "blocking-no-idle-poll" => arm("network-stack", "receive = 'block'", None),
        "itr" | "itr-blocking" | "itr-no-idle-poll" if loopback => no_device(),
        "itr" if qemu => arm("hardware", "itr = '1000us'", Some(FLOOR)),
        "itr" => arm("hardware", "throttle = '100us'", Some(DEFERRED)),
        "itr-blocking" if qemu => arm("hardware", "itr = '1000us'\nreceive = 'block'", Some(FLOOR)),
        "itr-blocking" if here.idle_states => {
            arm("hardware", "throttle = '100us'\nreceive = 'block'", Some(DEFERRED))
        }
        "itr-blocking" => {
            arm("hardware", "throttle = '100us'\nreceive = 'block'\nkeep-busy = true", Some(DEFERRED))
        }
        "itr-no-idle-poll" if qemu => {
            PlanEntry::Not("the same as with blocking: there is no idle=poll here".to_owned())
        }
        "itr-no-idle-poll" => {
            let awake = if here.idle_states { "\ntune = []" } else { "" };
            arm("hardware", &format!("throttle = '100us'\nreceive = 'block'{awake}"), Some(DEFERRED))
        }
        "adaptive-itr" if qemu => PlanEntry::Not(
            "the emulated NIC's driver adapts by itself where rx-usecs is 1 or 3 only".to_owned(),
        ),
        "intrl" if qemu => PlanEntry::Not("only i40e has this limit, and no emulated NIC is one".to_owned()),
        "adaptive-itr" | "intrl" => no_device(),
        other => PlanEntry::Not(format!("{other} is not known to this version")),
    }
}

/// Interrupts on a core that is neither sender's nor sink's.
fn rerouted(here: &Here, busy: bool) -> PlanEntry {
    let (source, sink) = (here.cpus.first().copied(), here.cpus.last().copied());
    let third = here.cpus.iter().copied().find(|cpu| Some(*cpu) != source && Some(*cpu) != sink);
    let Some(cpu) = third else {
        return PlanEntry::Not(format!(
            "it takes a CPU that is neither sender's nor sink's, and this process may use {} only",
            here.cpus.len()
        ));
    };
    let to = if here.lab == "qemu" { format!("irq-cpu = {cpu}") } else { format!("rps-cpus = [{cpu}]") };
    let work = if here.lab == "qemu" { "\nneighbour-work = 'packets'" } else { "" };
    let neighbour = format!("\nneighbour = true\nneighbour-cpu = {cpu}{work}");
    let neighbour = if busy { neighbour } else { String::new() };
    let emulated = match (here.lab.as_str(), busy) {
        ("qemu", false) => None,
        ("qemu", true) => Some(AT_WORK),
        _ => Some("receive packet steering sends the stack there"),
    };
    if here.lab == "loopback" {
        return PlanEntry::Not("loopback has no receive queue to steer".to_owned());
    }
    PlanEntry::Arm { class: "hardware", keys: format!("{to}{neighbour}"), emulated }
}

/// Samples of a cell where nobody says how many: as many as in the paper, but in the QEMU lab, where a million are 200 s of the
/// guest's time.
pub(super) const fn samples(kind: LabKind) -> u64 {
    match kind {
        LabKind::Netns | LabKind::Loopback => PAPER_SAMPLES,
        LabKind::Qemu => QEMU_SAMPLES,
    }
}

/// Four seconds of the guest's time; of what befalls one packet in a thousand there are twenty.
const QEMU_SAMPLES: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::plan::{Overrides, read};

    fn here(lab: &str, cpus: &[u16], idle_states: bool) -> Here {
        Here { lab: lab.to_owned(), cpus: cpus.to_vec(), idle_states }
    }

    fn reasons(plan: &PaperPlan) -> Vec<&str> {
        let of = |arm: &PaperArm| matches!(arm.possible, Possible::NotHere(_));
        plan.arms.iter().filter(|arm| of(arm)).map(|arm| arm.id.as_str()).collect()
    }

    #[test]
    fn every_lab_gets_a_plan_that_can_be_read_and_says_what_is_missing() {
        for (lab, cpus, idle_states, missing) in [
            ("netns", vec![0, 1], false, vec!["rerouted-idle", "rerouted-busy", "adaptive-itr", "intrl"]),
            ("netns", vec![0, 1, 2], true, vec!["adaptive-itr", "intrl"]),
            (
                "loopback",
                vec![0, 1],
                false,
                vec![
                    "rerouted-idle",
                    "rerouted-busy",
                    "itr",
                    "itr-blocking",
                    "adaptive-itr",
                    "intrl",
                    "itr-no-idle-poll",
                ],
            ),
            (
                "qemu",
                vec![0, 1, 2],
                false,
                vec!["dummy", "no-idle-poll", "blocking", "adaptive-itr", "intrl", "itr-no-idle-poll"],
            ),
        ] {
            let made = plan(&here(lab, &cpus, idle_states), 10_000);
            let read = read(&made.text, Overrides::default(), &cpus, &[]).unwrap();
            assert_eq!(reasons(&made), missing, "{lab}");
            let measured = made.arms.iter().filter_map(|arm| arm.arm.as_ref());
            for arm in measured {
                assert!(read.facts.arms.iter().any(|one| one.id == *arm), "{lab}: {arm}");
            }
        }
    }

    #[test]
    fn interrupts_are_rerouted_to_a_cpu_that_is_neither_senders_nor_sinks() {
        for (lab, cpus, idle, busy) in [
            (
                "qemu",
                [0, 1, 2],
                "irq-cpu = 1\n",
                "irq-cpu = 1\nneighbour = true\nneighbour-cpu = 1\nneighbour-work = 'packets'\n",
            ),
            ("netns", [0, 1, 2], "rps-cpus = [1]\n", "rps-cpus = [1]\nneighbour = true\nneighbour-cpu = 1\n"),
            ("netns", [2, 3, 5], "rps-cpus = [3]\n", "rps-cpus = [3]\nneighbour = true\nneighbour-cpu = 3\n"),
        ] {
            let text = plan(&here(lab, &cpus, false), 10_000).text;
            for (id, keys) in [("rerouted-idle", idle), ("rerouted-busy", busy)] {
                let wanted = format!("id = '{id}'\nclass = 'hardware'\n{keys}");
                assert!(text.contains(&wanted), "{lab} {cpus:?}: {wanted}\n{text}");
            }
        }
        let made = plan(&here("qemu", &[0, 2], false), 10_000);
        assert!(reasons(&made).contains(&"rerouted-idle"), "two CPUs are not enough");
    }

    #[test]
    fn waking_up_has_a_plan_of_its_own_at_a_longer_period() {
        for idle_states in [false, true] {
            let made = plan(&here("netns", &[0, 1], idle_states), 100_000);
            assert_eq!(made.wake_up_samples, 10_000);
            let study = read(&made.text, Overrides::default(), &[0, 1], &[]).unwrap();
            let text = wake_up_plan(made.wake_up_samples, study.settings.first());
            let read = read(&text, Overrides::default(), &[0, 1], &[]).unwrap();
            assert_eq!((read.facts.period_ns, read.facts.measured_ns), (200_000.0, 2_000_000_000));
            let [awake, _, idle] = &read.settings[..] else { panic!("baseline, control and one factor") };
            assert!(awake.keep_busy && !idle.keep_busy && idle.tune.is_empty());
            assert_eq!(awake.tune.is_empty(), !idle_states);
        }
        assert_eq!(plan(&here("qemu", &[0, 1, 2], false), 20_000).wake_up_samples, 0);
    }

    #[test]
    fn the_qemu_lab_takes_fewer_samples_and_does_not_trace() {
        let made = plan(&here("qemu", &[0, 1, 2], false), samples(LabKind::Qemu));
        let plan = read(&made.text, Overrides::default(), &[0, 1, 2], &[]).unwrap();
        assert_eq!((plan.facts.measured_ns, plan.trace), (4_000_000_000, false));
        let here = plan_of("netns");
        assert!(here.trace && plan_of("loopback").trace);
    }

    fn plan_of(lab: &str) -> crate::verb::plan::StudyPlan {
        read(&plan(&here(lab, &[0, 1], false), 10_000).text, Overrides::default(), &[0, 1], &[]).unwrap()
    }

    #[test]
    fn samples_become_a_length_at_the_papers_period() {
        let made = plan(&here("netns", &[0, 1], false), samples(LabKind::Netns));
        let read = read(&made.text, Overrides::default(), &[0, 1], &[]).unwrap();
        assert_eq!((read.facts.period_ns, read.facts.measured_ns), (7_410.0, 7_410_000_000));
        assert_eq!(made.samples, 1_000_000);
        let awake = read.facts.arms.iter().position(|arm| arm.id == "blocking").unwrap();
        assert!(read.settings[awake].keep_busy && !read.settings[0].keep_busy);
    }
}
