//! Limits that somebody gave, and whether the stream kept them.

use quaver_analysis::summary::{LimitResult, Losses};
use quaver_arrivals::gapped::SenderType;
use quaver_arrivals::rtp::RtpSummary;

/// Judges `late_ns`, the lateness that no packet may exceed, and the type of sender whose limits the stream has to keep.
/// Nothing is judged where no packet was received.
pub(super) fn judged(
    losses: &Losses,
    late_packets: u64,
    rtp: Option<&RtpSummary>,
    (late_ns, sender): (Option<i64>, Option<SenderType>),
) -> Vec<LimitResult> {
    if losses.received == 0 {
        return Vec::new();
    }
    let late = late_ns.map(|late_ns| LimitResult {
        late_ns: Some(late_ns),
        sender: None,
        kept: match late_packets + lost(losses) {
            0 => loss_is_known(losses).then_some(true),
            _ => Some(false),
        },
    });
    let sender = sender.map(|sender| {
        let observed = rtp.and_then(|rtp| rtp.video.as_ref()?.observed.as_ref());
        let verdicts = observed.into_iter().flat_map(|timing| timing.verdicts);
        let own = verdicts.into_iter().find(|verdict| verdict.sender == sender);
        LimitResult { late_ns: None, sender: Some(sender), kept: own.and_then(|verdict| verdict.kept()) }
    });
    late.into_iter().chain(sender).collect()
}

/// Whether a packet that the network lost would be missed: by the sender's count, or by the numbers of the packets.
fn loss_is_known(losses: &Losses) -> bool {
    losses.sent.is_some() || losses.network.is_some()
}

/// Packets that are known to be lost. What only our record lacks is not.
pub(crate) fn lost(losses: &Losses) -> u64 {
    let places = [losses.network, losses.nic_ring, losses.socket_buffer, Some(losses.unaccounted)];
    places.into_iter().flatten().chain(losses.stack.values().copied()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(late: u64, losses: Losses) -> Option<bool> {
        judged(&losses, late, None, (Some(1_000), None)).first().and_then(|limit| limit.kept)
    }

    #[test]
    fn a_limit_is_kept_by_packets_that_are_neither_late_nor_lost() {
        let received = Losses { received: 10, network: Some(0), ..Losses::default() };
        assert_eq!(kept(0, received.clone()), Some(true));
        assert_eq!(kept(1, received.clone()), Some(false));
        assert_eq!(kept(0, Losses { socket_buffer: Some(1), ..received.clone() }), Some(false));
        let stack = [("NO_SOCKET".to_owned(), 1)].into();
        assert_eq!(kept(0, Losses { stack, ..received.clone() }), Some(false));
        assert_eq!(
            kept(0, Losses { ours: 3, elsewhere: 2, ..received.clone() }),
            Some(true),
            "these arrived"
        );
        let uncounted = Losses { network: None, ..received.clone() };
        assert_eq!(kept(0, uncounted.clone()), None, "nobody would miss a packet");
        assert_eq!(kept(1, uncounted.clone()), Some(false), "whatever was lost");
        assert_eq!(kept(0, Losses { sent: Some(10), ..uncounted }), Some(true));
        assert!(judged(&Losses::default(), 0, None, (Some(1_000), None)).is_empty(), "nothing arrived");
        assert_eq!(judged(&received, 0, None, (None, None)), []);
        let wide = Some(SenderType::Wide);
        let unknown = LimitResult { late_ns: None, sender: wide, kept: None };
        assert_eq!(judged(&received, 0, None, (None, wide)), [unknown], "it is no video");
    }
}
