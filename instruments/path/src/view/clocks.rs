//! How far the clocks of the two ends can be believed.

use crate::digest::PathSummary;
use crate::facts::{ChronyFacts, EndClock};
use quaver_arrivals::path::offset::{Clocks, OffsetSource};
use quaver_view::{Cell, Column, Section, Table, Text, text};

/// What is known of the clocks; none where nothing is.
pub(super) fn section(summary: &PathSummary) -> Option<Section> {
    let mut table = Table::new([Column::new(""), Column::new(""), Column::new("definition").html_only()]);
    let mut row = |name: String, found: Text, definition: &str| {
        table.row([name.into(), found.into(), Cell::from(definition)]);
    };
    if let Some(clock) = &summary.clock {
        offset_rows(clock, &mut row);
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

/// How far the clocks are apart, how that changes, and from what it is known.
fn offset_rows(clock: &Clocks, row: &mut impl FnMut(String, Text, &str)) {
    let (name, how) = match clock.source {
        OffsetSource::SameClock => {
            ("one clock at both ends", "wall less monotonic clock is the same at both ends")
        }
        OffsetSource::Packets => {
            ("test packets", "half the difference of the least delays up and down; bound: half their sum")
        }
        OffsetSource::RoundTrips => ("round trips", "probe of minimum RTT; bound: half of it"),
        OffsetSource::Stated => ("the log", "as the log states it; bound: half the minimum RTT"),
        OffsetSource::Unknown => ("nothing", "test packets of one direction show no offset"),
    };
    let bounded = |offset_ns: i64, bound_ns: i64, from: &str| {
        text!("{} ± {}, by {from}", Cell::Duration(offset_ns), Cell::Duration(bound_ns))
    };
    let offset = clock.offset_ns.zip(clock.bound_ns);
    let offset = offset.map_or_else(|| "not known".into(), |(ns, bound_ns)| bounded(ns, bound_ns, name));
    row("offset (server − client)".into(), offset, how);
    if let (Some(packets), OffsetSource::SameClock) = (clock.by_packets, clock.source) {
        let words = bounded(packets.offset_ns, packets.bound_ns, "test packets");
        row("the same, to compare".into(), words, "half the difference of the least delays up and down");
    }
    if let Some(ppm) = clock.skew_ppm {
        row("skew (server against client)".into(), skew_words(clock, ppm), "lower edges of the delays");
    }
    if let Some(error_ns) = clock.jitlat_error_ns {
        let error = text!("{}", Cell::Duration(error_ns));
        row("relative clock error".into(), error, "Jitlat: median of the probes");
    }
    if let Some(rtt_ns) = clock.min_rtt_ns {
        let probes = match clock.probes {
            0 => "from the log".to_owned(),
            probes => Cell::several(probes as u64, "probe"),
        };
        let least = text!("{}, {probes}", Cell::Duration(rtt_ns));
        row("minimum RTT".into(), least, "control connection (RFC 2681, section 2)");
    }
}

fn skew_words(clock: &Clocks, ppm: f64) -> Text {
    let [least, most] = clock.skew_range_ppm.unwrap_or([ppm; 2]);
    let bound = Cell::Duration(clock.drift_bound_ns.unwrap_or(0));
    match clock.source {
        OffsetSource::SameClock => "none: one clock".into(),
        _ if ppm == 0.0 && least == most => text!("none seen; a drift of up to {bound} may be hidden"),
        _ if least == most => text!("{ppm:+.3} ppm; drift taken out within {bound}"),
        _ => text!("{ppm:+.3} ppm, {least:+.3} to {most:+.3} in parts; drift taken out within {bound}"),
    }
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
