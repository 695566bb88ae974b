//! How far the clocks of the two ends can be believed.

use crate::digest::PathSummary;
use crate::facts::{ChronyFacts, EndClock};
use quaver_view::{Cell, Column, Section, Table, Text, text};

/// What is known of the clocks; none where nothing is.
pub(super) fn section(summary: &PathSummary) -> Option<Section> {
    let mut table = Table::new([Column::new(""), Column::new(""), Column::new("definition").html_only()]);
    let mut row = |name: String, found: Text, definition: &str| {
        table.row([name.into(), found.into(), Cell::from(definition)]);
    };
    if let Some(clock) = &summary.clock {
        let offset = text!("{} ± {}", Cell::Duration(clock.offset_ns), Cell::Duration(clock.bound_ns));
        row("offset (server − client)".into(), offset, "probe of minimum RTT; bound: half of it");
        let error = text!("{}", Cell::Duration(clock.jitlat_error_ns));
        row("relative clock error".into(), error, "Jitlat: median of the probes");
        let probes = match clock.probes {
            0 => "from the log".to_owned(),
            1 => "1 probe".to_owned(),
            probes => format!("{} probes", Cell::Count(probes as u64)),
        };
        let least = text!("{}, {probes}", Cell::Duration(clock.min_rtt_ns));
        row("minimum RTT".into(), least, "control connection (RFC 2681, section 2)");
    }
    for clock in &summary.clocks {
        row(format!("{}'s clock", clock.end), state(clock), "adjtimex: maxerror, esterror");
        if let Some(chrony) = &clock.chrony {
            let definition = "chronyd: |correction| + root dispersion + root delay / 2";
            row(format!("{}'s clock, chrony", clock.end), chrony_words(chrony), definition);
        }
    }
    for step in &summary.clock_steps {
        let size =
            text!("{} about {} after the start", Cell::Duration(step.step_ns), Cell::Duration(step.after_ns));
        row(format!("step of the {}'s clock", step.end), size, "wall against monotonic clock");
    }
    if table.rows.is_empty() {
        return None;
    }
    if summary.clock_steps.is_empty() {
        table.row(["wall clock steps", "none", "wall against monotonic clock"]);
    }
    let section = Section::new("clocks", "Clocks")
        .note("Offset between the two wall clocks, and each kernel's own estimate.");
    Some(section.with(table))
}

fn state(clock: &EndClock) -> Text {
    let error = |name: &str, ns: Option<i64>| {
        ns.map_or_else(String::new, |ns| format!(", {name} {}", Cell::Duration(ns)))
    };
    let state = if clock.synchronised { "synchronized" } else { "not synchronized" };
    let (most, estimated) = (clock.max_error_ns, clock.estimated_error_ns);
    text!("{state}{}{}", error("maximum error", most), error("estimated error", estimated))
}

/// What chronyd says of a clock.
fn chrony_words(chrony: &ChronyFacts) -> Text {
    let Some(bound_ns) = chrony.bound_ns() else {
        return "chronyd runs without a source".into();
    };
    text!(
        "error at most {}, stratum {}; root delay {}, dispersion {}, last offset {}",
        Cell::Duration(bound_ns),
        chrony.stratum,
        Cell::Duration(chrony.root_delay_ns),
        Cell::Duration(chrony.root_dispersion_ns),
        Cell::Duration(chrony.last_offset_ns)
    )
}
