//! What this machine can measure, from what needs nothing to what needs most.

use super::{Area, Check, Finding, HostView, TierState};
use crate::capabilities::Right;
use crate::stamp_module::StampModule;

/// The table.
pub(super) const CHECKS: &[Check] = &[
    ability(
        "user-space",
        "application layer, loss, reordering, noise",
        "a stamp for each packet after the receive call, and the busy loop: needs nothing but sockets",
        |view| {
            if view.facts.kernel.release.is_some() {
                Finding::good("sockets and clocks need no privilege")
            } else {
                Finding::missing(
                    "/proc does not tell which kernel runs",
                    Some("sudo mount -t proc proc /proc".to_owned()),
                )
            }
        },
    ),
    ability(
        "cycle-counter",
        "raw-cycle stamps",
        "without a counter of one rate each stamp costs a clock call, and its error grows",
        cycle_counter,
    ),
    ability(
        "bpf-tier",
        "tracing by BPF (best tier)",
        "without it: no per-packet kernel layers below the socket, no IPI senders, and chase --pid cannot stamp receive calls",
        |view| tier(&view.bpf_tier),
    ),
    ability(
        "tracefs-tier",
        "tracing by a tracefs instance (second tier)",
        "without it and without BPF: causes of lateness cannot be named, all late time stays unexplained",
        |view| tier(&view.tracefs_tier),
    ),
    ability(
        "realtime",
        "SCHED_FIFO for the sink and the source",
        "without it other threads run instead of the instrument, and its own lateness hides the machine's",
        |view| right(&view.rights.realtime),
    ),
    ability(
        "lock-memory",
        "locked memory for the hot path",
        "without it page faults of the instrument appear as lateness",
        |view| right(&view.rights.lock_memory),
    ),
    ability(
        "namespaces",
        "streams made here in two network namespaces",
        "without it a stream made here takes loopback, which has no driver, no ring and no device interrupt",
        |view| right(&view.rights.namespaces),
    ),
    ability(
        "observe-others",
        "chase --pid on other users' processes",
        "without it only your own processes can be followed",
        |view| right(&view.rights.observe_others),
    ),
    ability(
        "kernel-pointers",
        "function names for timers and work items",
        "without it timers and work items are told apart only by address",
        kernel_pointers,
    ),
    ability(
        "hardware-stamps",
        "arrival stamped by the network device",
        "without it the device's own delay, coalescing above all, cannot be told from the network's",
        hardware_stamps,
    ),
    ability(
        "capture",
        "packets captured with every stamp (quaver capture)",
        "without it other people's packets cannot be seen; with it the kernel stamps every packet of every namespace for \
         as long as a capture of anybody's runs, which is our own cost to all",
        capture,
    ),
    ability(
        "kernel-cycles",
        "stamps of XDP and TC in raw cycles",
        "without it the programs of quaver capture stamp by the kernel's clock (CLOCK_MONOTONIC), which takes no layer away \
         and costs some nanoseconds more",
        kernel_cycles,
    ),
    ability(
        "raw-stamp",
        "raw cycles of received packets (quaver capture --stamp raw)",
        "without it a captured packet's time is the kernel's clock, which the kernel converts on the packet's way",
        raw_stamp,
    ),
    ability(
        "transmit-time",
        "source --pace txtime",
        "without it the source wakes up or spins for each packet, and its own schedule error is larger",
        |view| right(&view.rights.transmit_time),
    ),
];

pub(super) const fn ability(
    id: &'static str,
    title: &'static str,
    why: &'static str,
    probe: fn(&HostView) -> Finding,
) -> Check {
    Check { id, area: Area::Ability, title, why, probe }
}

fn tier(state: &TierState) -> Finding {
    if !state.usable {
        return Finding::missing(state.evidence.clone(), state.remedy.clone());
    }
    if state.blind.is_empty() {
        return Finding::good(state.evidence.clone());
    }
    Finding::good(format!("{}; blind here: {}", state.evidence, state.blind.join("; ")))
}

fn right(right: &Right) -> Finding {
    if right.allowed {
        Finding::good(right.evidence.clone())
    } else {
        Finding::missing(right.evidence.clone(), right.remedy.clone())
    }
}

/// The right, and whether the cost that a capture is to all is being paid at this moment.
fn capture(view: &HostView) -> Finding {
    let finding = right(&view.rights.capture);
    let stamping = match view.stamped_for_others {
        Some(true) => {
            "the kernel stamps every packet of every namespace now, for some program asks for it (a capture, a PTP daemon)"
        }
        Some(false) => "nobody has the kernel stamp packets now",
        None => "whether the kernel stamps packets now could not be told",
    };
    Finding { evidence: format!("{}; {stamping}", finding.evidence), ..finding }
}

/// Not missing where the kernel lacks it: no setting and no right would bring it.
fn kernel_cycles(view: &HostView) -> Finding {
    const COUNTER: &str = "bpf_get_cpu_time_counter";
    match (view.counter_for_bpf, view.bpf_tier.usable) {
        (Some(true), true) => Finding::good(format!("the kernel has {COUNTER}")),
        (Some(true), false) => Finding::not_applicable(format!(
            "the kernel has {COUNTER}, but BPF programs cannot be loaded: {}",
            view.bpf_tier.evidence
        )),
        (Some(false), _) => Finding::not_applicable(format!(
            "the kernel has no {COUNTER}; XDP and TC stamp by its clock (CLOCK_MONOTONIC)"
        )),
        (None, _) => Finding::not_applicable(format!("the kernel does not tell whether it has {COUNTER}")),
    }
}

/// By which way a capture takes raw cycles, and why not by the module where that is loaded.
fn raw_stamp(view: &HostView) -> Finding {
    if let Some(refusal) = view.clock.as_ref().and_then(|look| look.refusal.as_ref()) {
        return Finding::not_applicable(refusal);
    }
    let why = view.stamp_module.why_not();
    let because = why.as_ref().map_or_else(String::new, |why| format!("; not by the module: {why}"));
    let way = match (&view.stamp_module, view.bpf_tier.usable, view.counter_for_bpf) {
        (StampModule::Free, ..) => "the module quaver_stamp reads the counter, interrupts off",
        (_, true, Some(true)) => "BPF reads the counter (bpf_get_cpu_time_counter)",
        (_, true, _) if view.tracefs_tier.usable => {
            "the kernel's trace ring reads the counter (clock x86-tsc), and BPF finds the packet"
        }
        _ => {
            let evidence = format!("neither BPF nor the trace ring can be used here{because}");
            return Finding::missing(evidence, view.bpf_tier.remedy.clone());
        }
    };
    Finding::good(format!("{way}{because}"))
}

fn cycle_counter(view: &HostView) -> Finding {
    let clock = &view.facts.clock;
    if clock.tsc_invariant() {
        return Finding::good("the time-stamp counter has one rate in all power states");
    }
    if clock.tsc_flags.is_empty() {
        return Finding::not_applicable("the processor lists no time-stamp counter");
    }
    let evidence = format!("the processor lists only {}", clock.tsc_flags.join(" "));
    Finding::missing(
        evidence,
        Some("in a virtual machine: ask for an invariant TSC (QEMU: -cpu host,+invtsc)".to_owned()),
    )
}

fn kernel_pointers(view: &HostView) -> Finding {
    match view.rights.kernel_pointer_restriction {
        None => Finding::not_applicable("kernel.kptr_restrict is not shown"),
        Some(2..) => Finding::missing(
            "kernel.kptr_restrict is 2: names are hidden from everybody",
            Some("sudo sysctl kernel.kptr_restrict=1".to_owned()),
        ),
        Some(_) if view.rights.bpf.allowed || view.rights.is_root() => {
            Finding::good("/proc/kallsyms can be read")
        }
        Some(value) => Finding::missing(
            format!("kernel.kptr_restrict is {value} and this user has no privilege"),
            Some("sudo quaver ...".to_owned()),
        ),
    }
}

fn hardware_stamps(view: &HostView) -> Finding {
    let able: Vec<&str> = view
        .interfaces
        .iter()
        .filter(|interface| interface.stamping.is_some_and(|stamping| stamping.hardware_rx))
        .map(|interface| interface.name.as_str())
        .collect();
    if able.is_empty() {
        return Finding::not_applicable("no interface here has a stamping device");
    }
    let able = able.join(", ");
    if view.rights.hardware_stamps.allowed {
        return Finding::good(format!("{able} can stamp, and we may switch it on"));
    }
    let right = &view.rights.hardware_stamps;
    Finding::missing(format!("{able} can stamp, but {}", right.evidence), right.remedy.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazards::Verdict;
    use quaver_clock::ClockLook;

    #[test]
    fn whether_programs_read_cycles_is_told_and_never_missed() {
        let of = |counter_for_bpf, usable| {
            let bpf_tier = TierState { usable, evidence: "no right".to_owned(), ..TierState::default() };
            let Finding { verdict, evidence, remedy } =
                kernel_cycles(&HostView { counter_for_bpf, bpf_tier, ..HostView::default() });
            assert_eq!(remedy, None);
            (verdict, evidence)
        };
        assert_eq!(
            of(Some(true), true),
            (Verdict::Good, "the kernel has bpf_get_cpu_time_counter".to_owned())
        );
        for (verdict, evidence) in [of(Some(true), false), of(Some(false), true), of(None, true)] {
            assert!(
                verdict == Verdict::NotApplicable && evidence.contains("bpf_get_cpu_time_counter"),
                "{evidence}"
            );
        }
        assert!(
            of(Some(true), false).1.ends_with("no right")
                && of(Some(false), true).1.contains("CLOCK_MONOTONIC")
        );
    }

    #[test]
    fn the_way_of_raw_cycles_is_said_and_why_it_is_not_the_module() {
        let of = |stamp_module: StampModule, bpf, tracefs, counter| {
            let tier = |usable| TierState { usable, remedy: Some("sudo".to_owned()), ..TierState::default() };
            let mut view = HostView {
                stamp_module,
                bpf_tier: tier(bpf),
                tracefs_tier: tier(tracefs),
                counter_for_bpf: Some(counter),
                ..HostView::default()
            };
            let found = raw_stamp(&view);
            view.clock = Some(ClockLook { refusal: Some("no counter".to_owned()), ..ClockLook::default() });
            assert_eq!(raw_stamp(&view), Finding::not_applicable("no counter"));
            found
        };
        let free = of(StampModule::Free, true, true, true);
        assert!(free.verdict == Verdict::Good && free.evidence.starts_with("the module"), "{free:?}");
        for (counter, way) in [(true, "BPF reads the counter"), (false, "the kernel's trace ring")] {
            let busy = of(StampModule::Busy, true, true, counter);
            assert!(busy.verdict == Verdict::Good && busy.evidence.starts_with(way), "{busy:?}");
            assert!(busy.evidence.contains("not by the module: another program"), "{busy:?}");
            let absent = of(StampModule::Absent, true, true, counter);
            assert!(absent.evidence.starts_with(way) && !absent.evidence.contains("module"), "{absent:?}");
        }
        for (bpf, tracefs) in [(false, true), (true, false)] {
            let none = of(StampModule::NotPermitted, bpf, tracefs, false);
            assert_eq!((none.verdict, none.remedy.as_deref()), (Verdict::Missing, Some("sudo")));
            assert!(none.evidence.contains("may not be opened"), "{none:?}");
        }
    }

    #[test]
    fn the_cost_of_stamps_to_all_is_said_as_it_is_now() {
        let of = |allowed, stamped_for_others| {
            let mut view = HostView { stamped_for_others, ..HostView::default() };
            view.rights.capture =
                Right { allowed, evidence: "as it is".to_owned(), remedy: Some("sudo".to_owned()) };
            let check = CHECKS.iter().find(|check| check.id == "capture").expect("the check exists");
            let Finding { verdict, evidence, .. } = (check.probe)(&view);
            (verdict, evidence)
        };
        let (verdict, on) = of(true, Some(true));
        assert_eq!(verdict, Verdict::Good);
        assert!(on.starts_with("as it is; the kernel stamps every packet of every namespace now"), "{on}");
        assert_eq!(of(true, Some(false)).1, "as it is; nobody has the kernel stamp packets now");
        assert!(of(true, None).1.ends_with("could not be told"));
        // Others pay for it whether or not we may capture.
        let (verdict, refused) = of(false, Some(true));
        assert!(verdict == Verdict::Missing && refused.contains("of every namespace now"), "{refused}");
    }
}
