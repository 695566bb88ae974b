//! The source at another host that was started for a chase.

use quaver_analysis::summary::{FarMove, FarSource};
use quaver_view::{Cell, Section, Text};

/// What it reports of its stream, and what arrived.
pub(super) fn section(far: &FarSource) -> Section {
    let section = Section::new("far-source", format!("Source at {}", far.server))
        .link("Source")
        .note("whole stream, as the source reports")
        .with(Text::from(achieved(far)))
        .with(Text::from(arrived(far)));
    match moved(far) {
        Some(sentence) => section.with(Text::from(sentence)),
        None => section,
    }
}

/// That something on the way gave this host another port, if it did.
pub(crate) fn moved(far: &FarSource) -> Option<String> {
    let FarMove { times, to } = far.moved.as_ref()?;
    let ports = Cell::several(u64::from(*times), "new port");
    Some(format!(
        "it sent to {to} at last: something on the way, as a NAT does, gave this host {ports}; packets that went to the old \
         port until the source followed count as lost"
    ))
}

/// The schedule that a source at another host achieved.
pub(crate) fn achieved(far: &FarSource) -> String {
    let ns = |ns: u64| Cell::Duration(i64::try_from(ns).unwrap_or(i64::MAX));
    let mut parts = vec![
        format!("sent {} in {}", Cell::several(far.sent, "packet"), ns(far.lasted_ns)),
        format!("skipped {}", Cell::several(far.slots_missed, "slot")),
        format!("{} sent more than half a period late", Cell::Count(far.sent_late)),
        format!(
            "lateness p50 {}, p99 {}, max {}",
            ns(far.lateness_p50_ns),
            ns(far.lateness_p99_ns),
            ns(far.lateness_max_ns)
        ),
    ];
    parts.extend(far.drift_ppm.map(|ppm| format!("drift {ppm:+.3} ppm")));
    if far.send_failed > 0 {
        parts.push(format!("{} refused by its kernel", Cell::several(far.send_failed, "packet")));
    }
    parts.join(" · ")
}

/// What became of a stream from another host.
pub(crate) fn arrived(far: &FarSource) -> String {
    format!("arrived: {} · lost: {}", Cell::Count(far.arrived), Cell::Count(far.lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_view::{Document, plain};

    #[test]
    fn its_report_and_what_arrived_are_two_sentences() {
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
            moved: None,
        };
        let mut document = Document::new("quaver chase", "run");
        document.section(section(&far));
        let expected = "\
quaver chase · run

Source at 192.0.2.1:2666  whole stream, as the source reports
  sent 1,000 packets in 1.00 s · skipped 3 slots · 4 sent more than half a period late · lateness
  p50 500 ns, p99 60.0 µs, max 2.00 ms · drift +0.013 ppm · 2 packets refused by its kernel
  arrived: 999 · lost: 1
";
        assert_eq!(plain(&document), expected);
        let to = FarMove { times: 1, to: "192.0.2.9:7".into() };
        document.section(section(&FarSource { moved: Some(to), ..far }));
        let told = plain(&document).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(
            "sent to 192.0.2.9:7 at last: something on the way, as a NAT does, gave this host 1 new port;"
        ));
    }
}
