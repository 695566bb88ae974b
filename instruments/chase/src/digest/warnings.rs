//! The sentences that warn.

use quaver_analysis::summary::ChaseSummary;
use quaver_instrument::facts::{notes, warnings_of_any};
use quaver_store::manifest::Manifest;
use quaver_view::Cell;

/// What the reader should know before believing the numbers, each with what to do about it.
pub(super) fn of(summary: &ChaseSummary, manifest: &Manifest) -> Vec<String> {
    let mut warnings = warnings_of_any(manifest);
    // Our own source had sent nothing that counts when the run ended.
    let cut_short = !manifest.complete && summary.losses.sent == Some(0);
    let counts = manifest.analysis.as_ref().map(|facts| &facts.counts);
    if let Some(lost) = counts.map(|counts| counts.stamps_lost).filter(|lost| *lost > 0) {
        let lost = Cell::Count(lost);
        warnings.push(format!("{lost} kernel stamps overwritten before reading; use a shorter run"));
    }
    if let Some(unread) = summary.unread.filter(|unread| unread.hangs() || summary.losses.received == 0) {
        warnings.push(format!(
            "nobody read {} that came to the receiver in the last {}: packets wait in its socket or are dropped there, and only \
             the first of them counts as late",
            packets_words(unread.packets),
            Cell::Duration(unread.until_ns - unread.since_ns)
        ));
    } else if summary.losses.received == 0 {
        let said = match cut_short {
            true => {
                "it ended before its measured window: that begins after the blocks with and without probes"
            }
            false => {
                "no packet was received: see that the sender still sends, and whether a filter drops the stream"
            }
        };
        warnings.push(said.to_owned());
    }
    if summary.losses.elsewhere > 0 {
        let read = Cell::Count(summary.losses.elsewhere);
        warnings.push(format!(
            "another process received {read} packets of the stream: it shares the receiver's socket or its port, and what \
             delays it is not shown; observe that process for its part"
        ));
    }
    if summary.losses.unaccounted > 0 {
        let missing = Cell::Count(summary.losses.unaccounted);
        warnings.push(format!(
            "{missing} packets missing at an unknown place; more tracing (see `quaver doctor`) would locate them"
        ));
    }
    let sent = summary.losses.sent.filter(|_| !summary.period_learned && !cut_short);
    // Slots before the first packet and behind the last are part of what a source of our own was to send.
    let asked_ns = manifest.asked.get("for_ns").and_then(|time| time.as_i64());
    let asked_ns =
        asked_ns.filter(|_| manifest.verb == "chase" && manifest.complete && summary.far_source.is_none());
    let lasted_ns = asked_ns.map_or(0, |time| time - summary.period_ns as i64).max(summary.duration_ns);
    warnings.extend(skipped_slots(sent, summary.period_ns, lasted_ns));
    warnings.extend(notes(manifest));
    warnings
}

fn packets_words(count: u64) -> String {
    if count == 1 { "the packet".to_owned() } else { format!("the {} packets", Cell::Count(count)) }
}

/// A sender that skipped more than one slot in a hundred of its schedule: what it did not send is not late anywhere.
fn skipped_slots(sent: Option<u64>, period_ns: f64, duration_ns: i64) -> Option<String> {
    let slots = (period_ns > 0.0).then(|| (duration_ns as f64 / period_ns).round() as u64 + 1)?;
    let skipped = slots.saturating_sub(sent?);
    (skipped > slots / 100).then(|| {
        format!(
            "the source skipped {} of its {} ({}): nothing tells how late those packets would have been; it needs a CPU \
             of its own, or a longer period",
            Cell::Count(skipped),
            Cell::several(slots, "slot"),
            Cell::Share(skipped as f64 / slots as f64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_skipped_slots_is_told_of() {
        let of = |sent| skipped_slots(sent, 500_000.0, 4_999_500_000);
        let said = of(Some(1_961)).unwrap();
        assert!(said.starts_with("the source skipped 8,039 of its 10,000 slots (80.4 %)"), "{said}");
        assert!(of(Some(9_900)).is_none() && of(Some(9_899)).is_some());
        assert_eq!(of(None), None);
        assert_eq!(skipped_slots(Some(1_961), 0.0, 4_999_500_000), None);
    }
}
