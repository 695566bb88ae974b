//! An incident of a receiver: a run of packets.

use super::record::begin;
use super::{Findings, Nothing, is_of_a_packet_outside};
use crate::frozen::ReceiverWindow;
use crate::judge::Reason;
use quaver_analysis::summary::Losses;
use quaver_chase::chase::{conclude, observe};
use quaver_store::run::RunDir;
use serde_json::json;
use std::path::Path;

/// Writes and analyses it.
pub(super) fn write(frozen: ReceiverWindow, staging: &Path) -> anyhow::Result<(RunDir, Findings)> {
    let window = frozen.records.window;
    let not_held = frozen.triggers.iter().any(|trigger| is_of_a_packet_outside(trigger, window));
    let gap = frozen.triggers.iter().find_map(|trigger| Some((trigger.amount, trigger.missing?)));
    let reasons: Vec<Reason> = frozen.triggers.iter().map(|trigger| trigger.reason).collect();
    let run = record(frozen, staging)?;
    let summary = conclude(&run, run.read_manifest()?, true)?.analysis.summary;
    let late_ns = summary.causes.iter().map(|cause| cause.time_ns).sum::<i64>() + summary.unexplained.time_ns;
    let is_late = summary.lateness.packets > 0;
    let lost = of_losses(&summary.losses);
    let shown = Shown { late: is_late, lost: lost.is_some(), held: !not_held };
    let lost = lost.filter(|_| !is_late && reasons.contains(&Reason::Losses));
    let found = Findings {
        leads: gap.and_then(|(gap_ns, missing)| of_gap(gap_ns, missing, late_ns)).or(lost),
        borne_out: reasons.iter().any(|reason| shown.bears_out(*reason)),
        causes: summary.causes,
        unexplained_ns: summary.unexplained.time_ns,
        whole: "late time",
        nothing: if not_held { Nothing::of("not-held", NOT_HELD) } else { Nothing::of("none", NOT_LATE) },
    };
    Ok((run, found))
}

/// What the records of an incident show.
struct Shown {
    /// A packet that was late.
    late: bool,
    /// A packet that was lost.
    lost: bool,
    /// The trigger's packet.
    held: bool,
}

impl Shown {
    /// Whether they show what the trigger says, as far as they can.
    fn bears_out(&self, reason: Reason) -> bool {
        match reason {
            Reason::Late => self.late,
            Reason::Held => self.late || !self.held,
            Reason::Losses => self.late || self.lost,
            Reason::Unread
            | Reason::Gap
            | Reason::Asked
            | Reason::Waited
            | Reason::Blocked
            | Reason::Delayed => true,
        }
    }
}

/// What leads where packets were lost and none was late: the place of most of them.
fn of_losses(losses: &Losses) -> Option<Nothing> {
    let Losses { network, nic_ring, stack, socket_buffer, unaccounted, .. } = losses;
    let reasons: Vec<String> = stack.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let places = [
        (network.unwrap_or(0), MISSING.to_owned(), "missing"),
        (nic_ring.unwrap_or(0), "the interface's ring was full; remedy: a longer ring (ethtool -G <if> rx)".to_owned(), "dropped"),
        (
            stack.values().sum(),
            format!("this host's network stack dropped packets ({}); remedy: look at what drops them (nft, iptables, tc)", reasons.join(", ")),
            "dropped",
        ),
        (
            socket_buffer.unwrap_or(0),
            "the receiver's socket buffer was full; remedy: a larger SO_RCVBUF (net.core.rmem_max), or fewer packets at once".to_owned(),
            "dropped",
        ),
        (*unaccounted, "packets are missing, and no counter says where".to_owned(), "missing"),
    ];
    let (count, words, cause) = places.into_iter().max_by_key(|(count, ..)| *count)?;
    (count > 0).then(|| Nothing::of(cause, words))
}

/// What leads where nothing came to this host for longer than packets were late by twice.
fn of_gap(gap_ns: u64, missing: u64, late_ns: i64) -> Option<Nothing> {
    let (cause, words) = if missing > 0 { ("missing", MISSING_IN_GAP) } else { ("paused", PAUSED) };
    (late_ns.unsigned_abs() < gap_ns / 2).then(|| Nothing::of(cause, words))
}

/// Numbers tell packets that were lost from a sender that sent none.
const MISSING: &str = "packets are missing by number, which never came to this host's network stack; remedy: check the link and the \
                       interface's ring (ip -s -s link, ethtool -S <if>), then the network before it";
const MISSING_IN_GAP: &str = "nothing came to this host's network stack, and packets are missing by number; remedy: check the link and the \
                              interface's ring (ip -s -s link, ethtool -S <if>), then the network before it";
const PAUSED: &str = "nothing came to this host's network stack, and no packet is missing by number: the sender paused; remedy: look \
                      at the sender";

/// No packet was late; or none that is held, while the trigger's is not.
const NOT_LATE: &str = "no packet was late";
const NOT_HELD: &str = "the trigger's packet is not in what is held";

/// Writes a frozen window as a run with raw segments and a manifest.
fn record(frozen: ReceiverWindow, staging: &Path) -> anyhow::Result<RunDir> {
    let window = frozen.records.window;
    let more = json!({ "stream": frozen.observed.stream_words(), "late_ns": frozen.late_ns });
    let mut recording = begin(staging, "watch", &frozen.triggers, more, &frozen.stamps, frozen.records)?;
    observe::describe(&mut recording.manifest, &frozen.observed);
    let notes = recording.manifest.asked["notes"].as_array_mut();
    notes.into_iter().for_each(|notes| notes.extend(frozen.notes.iter().map(|note| note.as_str().into())));
    recording.manifest.analysis.get_or_insert_default().unread = frozen.unread;
    frozen.observed.conclude(&recording.run, &mut recording.manifest, window, frozen.maps, &frozen.stacks)?;
    recording.save_manifest()?;
    Ok(recording.run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_without_late_packets_lead_with_their_place_and_a_trigger_is_borne_out_by_what_it_says() {
        let stack = [("NO_SOCKET".to_owned(), 3)].into();
        let lost = Losses { network: Some(2), stack, socket_buffer: Some(1), ..Losses::default() };
        let leads = |lost: &Losses| of_losses(lost).map(|leads| (leads.cause, leads.words));
        let (cause, words) = leads(&lost).unwrap();
        assert!(cause == "dropped" && words.contains("(NO_SOCKET 3)"), "{words}");
        assert_eq!(leads(&Losses { network: Some(4), ..lost }).unwrap().0, "missing");
        assert_eq!(leads(&Losses { received: 9, ..Losses::default() }), None);
        let bears = |late, lost, held| {
            let shown = Shown { late, lost, held };
            [Reason::Late, Reason::Held, Reason::Losses, Reason::Asked].map(|reason| shown.bears_out(reason))
        };
        assert_eq!(bears(true, false, true), [true; 4]);
        assert_eq!(bears(false, false, true), [false, false, false, true]);
        assert_eq!(bears(false, true, false), [false, true, true, true]);
    }

    #[test]
    fn a_gap_leads_where_packets_were_late_for_less_than_half_of_it() {
        let cause = |missing, late_ns| of_gap(1_000, missing, late_ns).map(|nothing| nothing.cause);
        assert_eq!((cause(7, 499), cause(0, 0)), (Some("missing"), Some("paused")));
        assert_eq!((cause(7, 500), cause(0, 900)), (None, None));
    }
}
