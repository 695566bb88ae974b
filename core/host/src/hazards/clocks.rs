//! What the clocks are worth: conversion of cycles, agreement of the CPUs, reference, TAI, PTP clocks.

use super::abilities::ability;
use super::{Check, Finding, HostView};
use quaver_clock::{ClockLook, PhcLook};

/// A bound above this, nanoseconds, is worth a remark: the stamps of a good machine are within a fifth of it.
const WIDE_NS: u32 = 500;

/// Above this, nanoseconds, the threads that compare counters did not run at the same time.
const UNRESOLVED_NS: i64 = 5_000;

/// The table.
pub(super) const CHECKS: &[Check] = &[
    ability(
        "clock-conversion",
        "cycles converted to time",
        "each stamp is wrong by up to its bound, which is printed beside it; without the hardware counter a stamp costs a clock call",
        conversion,
    ),
    ability(
        "clock-cores",
        "counters of all CPUs agree",
        "a stamp handed from one CPU to another must not arrive before it was taken; what they differ by is in each bound",
        cores,
    ),
    ability(
        "clock-reference",
        "wall clock follows a reference",
        "without it one-way delays between hosts hold the clocks' offset, and capture files of two hosts do not line up",
        reference,
    ),
    ability(
        "clock-tai",
        "TAI",
        "ST 2110 and PTP count TAI; a kernel that nobody told the leap seconds shows UTC as CLOCK_TAI, and nothing here guesses",
        tai,
    ),
    ability(
        "clock-ptp",
        "PTP clock (PHC)",
        "stamps that an interface takes itself are tied to the system's time through it",
        ptp,
    ),
];

fn looked(view: &HostView) -> Result<&ClockLook, Finding> {
    view.clock.as_ref().ok_or_else(|| Finding::not_applicable("the clocks were not looked at"))
}

fn conversion(view: &HostView) -> Finding {
    let look = match looked(view) {
        Ok(look) => look,
        Err(finding) => return finding,
    };
    let source = look.clocksource.as_deref().unwrap_or("unknown");
    if let Some(refusal) = &look.refusal {
        let evidence =
            format!("CLOCK_MONOTONIC stands for the cycle counter (clocksource {source}): {refusal}");
        return Finding::missing(
            evidence,
            Some("cat /sys/devices/system/clocksource/clocksource0/available_clocksource".to_owned()),
        );
    }
    let evidence = format!(
        "{} at {:.6} MHz, clocksource {source}; right within {} ns after an anchor (half-bracket {} ns)",
        look.counter,
        look.counter_hz as f64 / 1e6,
        look.bound_ns,
        look.half_bracket_ns,
    );
    if look.bound_ns <= WIDE_NS { Finding::good(evidence) } else { Finding::missing(evidence, None) }
}

fn cores(view: &HostView) -> Finding {
    let cross = match looked(view) {
        Ok(look) => &look.cross_core,
        Err(finding) => return finding,
    };
    if let Some(failure) = &cross.failure {
        return Finding::not_applicable(failure.clone());
    }
    if cross.cpus < 2 {
        return Finding::not_applicable("one CPU");
    }
    if cross.proven_offset_ns > 0 || cross.backward_ns > 0 {
        let evidence = format!(
            "of {} CPUs, two are at least {} ns apart; a stamp went back by {} ns",
            cross.cpus, cross.proven_offset_ns, cross.backward_ns
        );
        let remedy = "put all measuring threads on one socket, or boot with clocksource=hpet".to_owned();
        return Finding::missing(evidence, Some(remedy));
    }
    if cross.limit_ns > UNRESOLVED_NS {
        return Finding::good(format!(
            "{} CPUs, none seen apart, but they were too busy to tell less than {} us",
            cross.cpus,
            cross.limit_ns / 1_000
        ));
    }
    Finding::good(format!(
        "{} CPUs, none apart by more than the {} ns that can be told",
        cross.cpus, cross.limit_ns
    ))
}

fn reference(view: &HostView) -> Finding {
    let look = match looked(view) {
        Ok(look) => look,
        Err(finding) => return finding,
    };
    let leap = if look.leap == "none" { String::new() } else { format!("; leap second: {}", look.leap) };
    let frequency = look.frequency_ppb as f64 / 1e3;
    let corrected = format!("corrected within the last {} s", look.corrected_within_ns / 1_000_000_000);
    if look.abandoned {
        let evidence = format!(
            "the kernel calls its clock synchronised, which it does for hours after the last correction; it was {corrected}, \
             and {}{leap}",
            look.daemons
        );
        return Finding::missing(evidence, Some("sudo systemctl enable --now chrony".to_owned()));
    }
    if look.synchronised {
        let daemons = &look.daemons;
        return Finding::good(format!(
            "synchronised, rate corrected by {frequency:+.3} ppm, {corrected}; {daemons}{leap}"
        ));
    }
    let evidence = format!("the kernel says that its clock follows none (adjtimex: STA_UNSYNC){leap}");
    Finding::missing(evidence, Some("sudo systemctl enable --now chrony".to_owned()))
}

fn tai(view: &HostView) -> Finding {
    match looked(view).map(|look| look.tai_offset_s) {
        Err(finding) => finding,
        Ok(Some(offset_s)) => Finding::good(format!("{offset_s} s ahead of UTC, as the kernel was told")),
        Ok(None) => Finding::missing(
            "nobody told the kernel the leap seconds: its CLOCK_TAI is UTC",
            Some("echo 'leapsectz right/UTC' | sudo tee -a /etc/chrony/chrony.conf".to_owned()),
        ),
    }
}

fn ptp(view: &HostView) -> Finding {
    let phcs = match looked(view) {
        Ok(look) => &look.phcs,
        Err(finding) => return finding,
    };
    if phcs.is_empty() {
        return Finding::not_applicable("no interface here has one (/sys/class/ptp is empty)");
    }
    let told: Vec<String> = phcs.iter().map(told).collect();
    if phcs.iter().all(|phc| phc.failure.is_some()) {
        return Finding::missing(told.join("; "), None);
    }
    Finding::good(told.join("; "))
}

fn told(phc: &PhcLook) -> String {
    let name = phc.name.as_deref().unwrap_or("unnamed");
    match (phc.offset_ns, phc.bound_ns, &phc.failure) {
        (Some(offset_ns), Some(bound_ns), _) => {
            format!("{} ({name}) is {offset_ns:+} ns from CLOCK_REALTIME, within {bound_ns} ns", phc.device)
        }
        (_, _, Some(failure)) => failure.clone(),
        _ => format!("{} ({name}) tells nothing", phc.device),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostView, Verdict, examine};
    use quaver_clock::{ClockLook, CrossCoreLook, PhcLook};

    fn good() -> ClockLook {
        ClockLook {
            counter: "tsc".to_owned(),
            refusal: None,
            clocksource: Some("tsc".to_owned()),
            counter_hz: 2_299_998_026,
            bound_ns: 61,
            half_bracket_ns: 14,
            cross_core: CrossCoreLook { cpus: 4, limit_ns: 131, ..CrossCoreLook::default() },
            synchronised: true,
            corrected_within_ns: 2_000_000_000,
            daemons: "running: phc2sys (process 7)".to_owned(),
            abandoned: false,
            frequency_ppb: -12_345,
            leap: "none".to_owned(),
            tai_offset_s: Some(37),
            phcs: vec![PhcLook {
                device: "/dev/ptp0".to_owned(),
                name: Some("igb".to_owned()),
                offset_ns: Some(36_999_999_812),
                bound_ns: Some(420),
                failure: None,
            }],
        }
    }

    fn found(look: Option<ClockLook>, id: &str) -> (Verdict, String, bool) {
        let view = HostView { clock: look, ..HostView::default() };
        let checked = examine(&view).into_iter().find(|checked| checked.id == id).expect("the check exists");
        (checked.verdict, checked.evidence, checked.remedy.is_some())
    }

    const IDS: [&str; 5] = ["clock-conversion", "clock-cores", "clock-reference", "clock-tai", "clock-ptp"];

    #[test]
    fn a_good_machine_shows_its_figures() {
        let figures = [
            "61 ns",
            "131 ns",
            "-12.345 ppm, corrected within the last 2 s; running: phc2sys",
            "37 s",
            "+36999999812 ns",
        ];
        for (id, figure) in IDS.into_iter().zip(figures) {
            let (verdict, evidence, _) = found(Some(good()), id);
            assert!(verdict == Verdict::Good && evidence.contains(figure), "{id}: {evidence}");
        }
    }

    #[test]
    fn what_is_not_known_is_said_and_not_guessed() {
        for id in IDS {
            assert_eq!(found(None, id).0, Verdict::NotApplicable, "{id}");
        }
        let bad = ClockLook {
            refusal: Some("no invariant TSC".to_owned()),
            cross_core: CrossCoreLook {
                cpus: 2,
                proven_offset_ns: 900,
                limit_ns: 1_100,
                ..Default::default()
            },
            synchronised: false,
            leap: "insert pending".to_owned(),
            tai_offset_s: None,
            phcs: Vec::new(),
            ..good()
        };
        for (id, text) in IDS[..4].iter().zip(["no invariant TSC", "900 ns", "insert pending", "UTC"]) {
            let (verdict, evidence, remedy) = found(Some(bad.clone()), id);
            assert!(verdict == Verdict::Missing && evidence.contains(text) && remedy, "{id}: {evidence}");
        }
        assert_eq!(found(Some(bad), "clock-ptp").0, Verdict::NotApplicable);
    }

    #[test]
    fn a_clock_that_the_kernel_still_calls_synchronised_is_not_good_where_nobody_corrects_it() {
        let daemons = "no program known to correct clocks runs".to_owned();
        let left = ClockLook { abandoned: true, corrected_within_ns: 36_000_000_000, daemons, ..good() };
        let (verdict, evidence, remedy) = found(Some(left), "clock-reference");
        assert!(verdict == Verdict::Missing && remedy, "{evidence}");
        assert!(evidence.contains("36 s, and no program known to correct clocks runs"), "{evidence}");
    }
}
