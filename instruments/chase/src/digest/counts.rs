//! Counting the packets of the measured window by place, packet by packet and not by difference of counters.

use quaver_abi::record::{SendRecord, StampRecord, stamp_flags};
use quaver_analysis::model::PacketCounts;
use quaver_host::bpf;
use quaver_store::convert::JoinReport;
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

fn count_stamps(
    run: &RunDir,
    window: Window,
    payload: Option<StreamPayload>,
    numbers: Option<(u64, u64)>,
    counts: &mut PacketCounts,
) -> anyhow::Result<()> {
    let Some(stamps) = open_if_any::<StampRecord>(&run.stamps_segment())? else { return Ok(()) };
    let by_number = matches!(payload, Some(StreamPayload::Ours { .. })).then_some(numbers).flatten();
    let mut seen = 0;
    let mut dropped: BTreeMap<u32, u64> = BTreeMap::new();
    for stamp in stamps {
        let stamp = stamp?;
        let inside = match by_number {
            Some((first, last)) => {
                stamp.flags & stamp_flags::OURS != 0 && stamp.key >= first && stamp.key <= last
            }
            None => {
                let first_ns =
                    [stamp.receive_ns, stamp.enqueued_ns, stamp.ready_ns].into_iter().find(|ns| *ns > 0);
                first_ns.is_some_and(|ns| ns as i64 >= window.start_ns && (ns as i64) < window.end_ns)
            }
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
    let names = bpf::drop_reason_names();
    let mut at_socket = 0;
    for (reason, count) in dropped {
        let name = names.get(&reason).cloned().unwrap_or_else(|| format!("reason {reason}"));
        if name.trim_start_matches("SKB_DROP_REASON_") == SOCKET_FULL {
            at_socket += count;
        } else {
            *counts.stack_dropped.entry(name).or_default() += count;
        }
    }
    counts.socket_dropped = Some(at_socket);
    Ok(())
}
