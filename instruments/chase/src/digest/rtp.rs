//! RTP figures of a packet run.

use quaver_analysis::model::{Layer, PacketRun};
use quaver_arrivals::rtp::{RtpContext, RtpPacket, RtpSummary, Tai, analyze_rtp};
use quaver_store::manifest::{Manifest, StreamPayload};
use quaver_store::media::MediaRows;

/// Bits of the sequence number in an RTP header, and of that in ours behind it.
const RTP_BITS: u32 = 16;
const OUR_BITS: u32 = 64;

/// Figures of the RTP packets of a run; none where there are none. `media` stands row by row with the packets.
pub(super) fn summary(manifest: &Manifest, run: &PacketRun, media: MediaRows) -> Option<RtpSummary> {
    let packets = &run.packets;
    let rows: Vec<usize> = (0..media.len()).filter(|row| media[*row].is_some()).collect();
    let stamped = rows.iter().all(|row| packets.stamp_ns(*row, Layer::KernelStamp).is_some());
    // The kernel's stamp is nearer to the wire. Stamps of two places are not mixed.
    let arrival = if stamped { Layer::KernelStamp } else { Layer::Application };
    let facts = manifest.analysis.as_ref();
    let ours = facts.is_some_and(|facts| matches!(facts.payload(), StreamPayload::Ours { .. }));
    let context = RtpContext {
        arrival: arrival.name(),
        sequence_bits: if ours { OUR_BITS } else { RTP_BITS },
        tai: facts.and_then(|facts| facts.tai).map(|tai| unless_stepped(tai, manifest)),
        video: facts.map(|facts| facts.video).unwrap_or_default(),
    };
    let received = rows.into_iter().filter_map(|row| {
        let arrived_ns = packets.stamp_ns(row, arrival)?;
        Some(RtpPacket { sequence: packets.seq[row], arrived_ns, fields: media[row]? })
    });
    analyze_rtp(received.collect(), &context)
}

/// One offset between the clocks does not hold for a run during which the wall clock was set.
fn unless_stepped(tai: Tai, manifest: &Manifest) -> Tai {
    let stepped = manifest.clock.as_ref().is_some_and(|clock| !clock.realtime_steps.is_empty());
    if stepped { Tai { realtime_minus_monotonic_ns: None, ..tai } } else { tai }
}
