//! The source at another host that was started for a chase.

use super::console::{WIDTH, heading};
use super::table::{Style, printable, wrap};
use super::units::{count, duration};
use quaver_analysis::summary::FarSource;

/// What it says of its stream, and what arrived.
pub(super) fn section(out: &mut String, far: &FarSource, style: Style) {
    heading(
        out,
        style,
        &format!("Source at {}", printable(&far.server)),
        "the whole stream, as it says itself",
    );
    for sentence in [said(far), arrived(far)] {
        for line in wrap(&sentence, WIDTH - 2) {
            out.push_str(&format!("  {line}\n"));
        }
    }
}

/// The schedule that a source at another host achieved.
pub fn said(far: &FarSource) -> String {
    let ns = |ns: u64| duration(i64::try_from(ns).unwrap_or(i64::MAX));
    let mut parts = vec![
        format!("sent {} packets in {}", count(far.sent), ns(far.lasted_ns)),
        format!("skipped {} slots", count(far.slots_missed)),
        format!("{} sent later than half a period", count(far.sent_late)),
        format!(
            "late by {} in the median, {} at p99, {} at most",
            ns(far.lateness_p50_ns),
            ns(far.lateness_p99_ns),
            ns(far.lateness_max_ns)
        ),
    ];
    parts.extend(far.drift_ppm.map(|ppm| format!("drift {ppm:+.3} ppm")));
    if far.send_failed > 0 {
        parts.push(format!("{} packets not taken by its kernel", count(far.send_failed)));
    }
    parts.join(" · ")
}

/// What became of a stream from another host.
pub fn arrived(far: &FarSource) -> String {
    format!("{} of these arrived, {} were lost", count(far.arrived), count(far.lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_said_and_what_came_are_told_in_two_sentences() {
        let far = FarSource {
            server: "192.0.2.1:2666".into(),
            sent: 1_000,
            send_failed: 2,
            refused: 0,
            slots_missed: 3,
            sent_late: 4,
            lateness_p50_ns: 500,
            lateness_p99_ns: 60_000,
            lateness_max_ns: 2_000_000,
            drift_ppm: Some(0.0125),
            lasted_ns: 1_004_000_000,
            arrived: 999,
            lost: 1,
        };
        let mut out = String::new();
        section(&mut out, &far, Style::PLAIN);
        assert_eq!(
            out,
            "\nSource at 192.0.2.1:2666  the whole stream, as it says itself\n  sent 1,000 packets in 1.00 s · skipped 3 \
             slots · 4 sent later than half a period · late by 500 ns\n  in the median, 60.0 us at p99, 2.00 ms at most · \
             drift +0.013 ppm · 2 packets not taken by its\n  kernel\n  999 of these arrived, 1 were lost\n"
        );
    }
}
