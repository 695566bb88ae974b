//! Counting the packets of the measured window by place, packet by packet and not by difference of counters.

use quaver_abi::record::{SendRecord, StampRecord, stamp_flags};
use quaver_analysis::model::PacketCounts;
use quaver_host::bpf;
use quaver_store::convert::JoinReport;
use quaver_store::error::StoreError;
use quaver_store::manifest::{AnalysisFacts, StreamPayload, Window};
use quaver_store::run::RunDir;
use quaver_store::segments::open_if_any;
use std::collections::BTreeMap;

/// Name of the reason with which the kernel drops a packet at a full socket buffer.
const SOCKET_FULL: &str = "SOCKET_RCVBUFF";

/// Fills in the counts that the raw segments give for the window. Counters that were read otherwise (the
/// device's, our own) are left as they are.
pub(super) fn count(run: &RunDir, facts: &mut AnalysisFacts, joined: &JoinReport) -> anyhow::Result<()> {
    let window = facts.window.unwrap_or(Window { start_ns: 0, end_ns: i64::MAX });
    let sent = sent_in(run, window)?;
    let counts = &mut facts.counts;
    if let Some(sent) = &sent {
        counts.sent = Some(sent.taken);
        counts.send_failed = Some(sent.failed);
    }
    let numbers = sent.map(|sent| (sent.first, sent.last));
    if facts.tier == "bpf" {
        count_stamps(
            run,
            window,
            facts.streams.first().map(|stream| stream.payload),
            numbers,
            &bpf::drop_reason_names(),
            &mut facts.counts,
        )?;
    }
    let counts = &mut facts.counts;
    if counts.socket_dropped.is_none() {
        counts.socket_dropped = joined.socket_dropped;
    }
    Ok(())
}

/// What our source sent for slots in the window.
struct Sent {
    taken: u64,
    failed: u64,
    first: u64,
    last: u64,
}

fn sent_in(run: &RunDir, window: Window) -> anyhow::Result<Option<Sent>> {
    let Some(sends) = open_if_any::<SendRecord>(&run.sends_segment())? else { return Ok(None) };
    let mut sent = Sent { taken: 0, failed: 0, first: u64::MAX, last: 0 };
    for send in sends {
        let send = send?;
        if send.deadline_ns < window.start_ns || send.deadline_ns >= window.end_ns {
            continue;
        }
        if send.after_cycles == 0 {
            sent.failed += 1
        } else {
            sent.taken += 1
        }
        sent.first = sent.first.min(send.seq);
        sent.last = sent.last.max(send.seq);
    }
    Ok(Some(sent))
}

/// When this host first had a packet; none where no program saw it.
fn entered_ns(stamp: &StampRecord) -> Option<i64> {
    let stamps = [stamp.receive_ns, stamp.enqueued_ns, stamp.ready_ns];
    stamps.into_iter().find(|ns| *ns > 0).and_then(|ns| i64::try_from(ns).ok())
}

/// From the first to the last entry of the packets that an observed process read in the window: that is where the numbers
/// between them came in, or did not. A packet may have waited in its queue since long before the window. The window itself,
/// where no stamp tells of a reading.
fn read_span(
    stamps: Option<impl Iterator<Item = Result<StampRecord, StoreError>>>,
    window: Window,
) -> anyhow::Result<Window> {
    let (mut first_ns, mut last_ns) = (i64::MAX, i64::MIN);
    for stamp in stamps.into_iter().flatten() {
        let stamp = stamp?;
        let read_ns = i64::try_from(stamp.user_ns).unwrap_or(0);
        if (window.start_ns..window.end_ns).contains(&read_ns)
            && read_ns != 0
            && let Some(ns) = entered_ns(&stamp)
        {
            (first_ns, last_ns) = (first_ns.min(ns), last_ns.max(ns));
        }
    }
    Ok(if first_ns > last_ns { window } else { Window { start_ns: first_ns, end_ns: last_ns + 1 } })
}

fn count_stamps(
    run: &RunDir,
    window: Window,
    payload: Option<StreamPayload>,
    numbers: Option<(u64, u64)>,
    reasons: &BTreeMap<u32, String>,
    counts: &mut PacketCounts,
) -> anyhow::Result<()> {
    let Some(stamps) = open_if_any::<StampRecord>(&run.stamps_segment())? else { return Ok(()) };
    let by_number = matches!(payload, Some(StreamPayload::Ours { .. })).then_some(numbers).flatten();
    let window =
        if numbers.is_none() { read_span(open_if_any(&run.stamps_segment())?, window)? } else { window };
    let mut seen = 0;
    let mut dropped: BTreeMap<u32, u64> = BTreeMap::new();
    for stamp in stamps {
        let stamp = stamp?;
        let inside = match by_number {
            Some((first, last)) => {
                stamp.flags & stamp_flags::OURS != 0 && stamp.key >= first && stamp.key <= last
            }
            None => entered_ns(&stamp).is_some_and(|ns| (window.start_ns..window.end_ns).contains(&ns)),
        };
        if inside {
            seen += 1;
            if stamp.flags & stamp_flags::DROPPED != 0 {
                *dropped.entry(stamp.drop_reason).or_default() += 1;
            }
            counts.elsewhere += u64::from(stamp.flags & stamp_flags::ELSEWHERE != 0);
        }
    }
    counts.kernel_seen = Some(seen);
    let mut at_socket = 0;
    for (reason, count) in dropped {
        let name = reasons.get(&reason).cloned().unwrap_or_else(|| format!("reason {reason}"));
        if name.trim_start_matches("SKB_DROP_REASON_") == SOCKET_FULL {
            at_socket += count;
        } else {
            *counts.stack_dropped.entry(name).or_default() += count;
        }
    }
    counts.socket_dropped = Some(at_socket);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::segment::SegmentWriter;

    const MS: u64 = 1_000_000;
    const WINDOW: Window = Window { start_ns: 3_000 * MS as i64, end_ns: 7_000 * MS as i64 };

    /// A packet each millisecond. The receiver is stopped from 1 to 5 s, and its socket holds 300 packets.
    fn stopped_for_four_seconds() -> Vec<StampRecord> {
        let packet = |n: u64| {
            let stamp = StampRecord {
                arrival: n,
                receive_ns: n * MS,
                key: n,
                flags: stamp_flags::RTP,
                ..Default::default()
            };
            match n {
                1_000..1_300 => StampRecord { user_ns: 5_000 * MS + n, ..stamp },
                1_300..5_000 => {
                    StampRecord { flags: stamp.flags | stamp_flags::DROPPED, drop_reason: 6, ..stamp }
                }
                _ => StampRecord { user_ns: n * MS + 5, ..stamp },
            }
        };
        (1..8_000).map(packet).collect()
    }

    #[test]
    fn what_the_socket_dropped_before_the_window_counts_between_packets_that_were_read_in_it() {
        let stamps = stopped_for_four_seconds();
        let span = read_span(Some(stamps.iter().copied().map(Ok)), WINDOW).unwrap();
        assert_eq!(span, Window { start_ns: 1_000 * MS as i64, end_ns: 6_999 * MS as i64 + 1 });
        let directory = tempfile::tempdir().unwrap();
        let run = RunDir::create(directory.path(), "watch").unwrap();
        let mut segment = SegmentWriter::create(&run.stamps_segment(), stamps.len() as u64).unwrap();
        stamps.iter().for_each(|stamp| assert!(segment.push(*stamp)));
        segment.finish().unwrap();
        let mut counts = PacketCounts::default();
        let reasons = [(6, SOCKET_FULL.to_owned())].into();
        count_stamps(&run, WINDOW, Some(StreamPayload::Rtp), None, &reasons, &mut counts).unwrap();
        // Of 6,000 numbers the program has 2,300.
        assert_eq!((counts.kernel_seen, counts.socket_dropped), (Some(6_000), Some(3_700)));
    }

    #[test]
    fn without_a_reading_in_the_window_it_is_counted_as_it_is() {
        let unread = StampRecord { receive_ns: 4_000 * MS, ..StampRecord::default() };
        let early = StampRecord { receive_ns: MS, user_ns: MS, ..StampRecord::default() };
        assert_eq!(read_span(Some([unread, early].map(Ok).into_iter()), WINDOW).unwrap(), WINDOW);
        assert_eq!(read_span(None::<std::iter::Empty<_>>, WINDOW).unwrap(), WINDOW);
    }
}
