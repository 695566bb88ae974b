//! The first sentences of a page.

use super::*;
use quaver_arrivals::gapped::SenderType;

#[test]
fn nothing_received_gives_no_verdict() {
    let mut summary = summary();
    summary.losses.received = 0;
    summary.lateness.packets = 0;
    assert_eq!(verdict(&summary), None);
}

#[test]
fn a_receiver_that_read_nothing_is_said_to_be_one() {
    let mut summary = summary();
    summary.losses.received = 0;
    summary.unread = Some(Unread { since_ns: 5_000_000_000, until_ns: 8_000_000_000, packets: 6_000 });
    summary.causes.truncate(1);
    summary.causes[0].name = "receiver stopped by a signal".to_owned();
    let said = plain(&Document { verdict: verdict(&summary), ..Document::new("chase", "x") });
    let expected = "The receiver read none of the 6,000 packets that came in 3.00 s. Largest cause: receiver stopped by a signal.";
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected), "{said}");
    summary.causes.clear();
    assert!(verdict(&summary).is_some());
}

#[test]
fn verdict_names_a_cause_only_where_it_exceeds_the_unexplained() {
    let mut summary = summary();
    let of = |summary: &ChaseSummary| lateness(summary).unwrap().to_string();
    let named =
        "2,311 packets (0.17 %) were late. Largest cause: thread stress (fifo 50), 61.2 % of the late time.";
    assert_eq!(of(&summary), named);
    summary.unexplained.share = 0.7;
    assert_eq!(
        of(&summary),
        "2,311 packets (0.17 %) were late. Most of the late time (70.0 %) is unexplained."
    );
}

#[test]
fn verdict_tells_losses_before_lateness() {
    let mut summary = summary();
    let of = |summary: &ChaseSummary| verdict(summary).unwrap().to_string();
    let lateness = lateness(&summary).unwrap().to_string();
    let first = "27 of 1,349,527 packets (< 0.01 %) were lost, 24 of them at the socket buffer.";
    assert_eq!(of(&summary), format!("{first} {lateness}"));
    summary.losses.stack = [("NO_SOCKET".into(), 9), ("TCP_CSUM".into(), 15)].into();
    assert!(of(&summary).starts_with("48 of 1,349,527 packets (< 0.01 %) were lost at 3 places. "));
    summary.losses.stack.clear();
    summary.losses.sent = None;
    assert!(of(&summary).starts_with("24 of 1,349,524 packets (< 0.01 %) were lost: at the socket buffer. "));
    summary.losses.socket_buffer = None;
    summary.losses.ours = 5;
    assert_eq!(of(&summary), lateness, "what only the record lacks is not lost");
    summary.losses.unaccounted = 1_349_500;
    assert!(of(&summary).starts_with("1,349,500 of 2,699,000 packets (50.0 %) were lost: place unknown. "));
}

#[test]
fn verdict_begins_with_the_limits_that_were_given() {
    let mut summary = summary();
    let rest = verdict(&summary).unwrap().to_string();
    let late = |kept| LimitResult { late_ns: Some(100_000), sender: None, kept };
    let video = |kept| LimitResult { late_ns: None, sender: Some(SenderType::NarrowLinear), kept };
    for (limits, words) in [
        (
            vec![late(Some(false)), video(None)],
            "FAIL: at most 100 µs late, no loss. Not judged: ST 2110-21, type NL. ",
        ),
        (vec![video(Some(true))], "PASS: ST 2110-21, type NL. "),
        (vec![], ""),
    ] {
        summary.limits = limits;
        assert_eq!(verdict(&summary).unwrap().to_string(), format!("{words}{rest}"));
    }
    summary.limits = vec![late(Some(true))];
    summary.losses.received = 0;
    assert_eq!(verdict(&summary), None, "without packets nothing is judged");
}
