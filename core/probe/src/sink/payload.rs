//! What a payload says about its packet.

use quaver_abi::record::{KEY_UNKNOWN, PacketRecord, packet_flags};
use quaver_abi::wire::hbrmt::HbrmtHeader;
use quaver_abi::wire::rfc4175::VideoHeader;
use quaver_abi::wire::rtp::{HEADER_BYTES, RtpHeader};
use quaver_abi::wire::stream::StreamHeader;
use quaver_host::trace::Payload;

/// Fills in what `octets`, the payload as far as it was received, says.
#[inline(always)]
pub(super) fn describe(record: &mut PacketRecord, octets: &[u8], payload: Payload, stream_id: Option<u32>) {
    record.key = KEY_UNKNOWN;
    match payload {
        Payload::Ours { offset } => {
            let offset = usize::from(offset);
            if let Some(header) = octets.get(offset..).and_then(StreamHeader::read)
                && stream_id.is_none_or(|id| id == header.stream_id.get())
            {
                record.key = header.seq.get();
                record.sent_ns = header.sent_ns.get();
                record.deadline_ns = header.deadline_ns.get();
                record.flags |= packet_flags::OURS;
                if offset >= HEADER_BYTES
                    && let Some((rtp, after)) = RtpHeader::read(octets)
                {
                    record.set_rtp(&rtp, head(octets, after));
                }
            }
        }
        Payload::Rtp => {
            if let Some((rtp, after)) = RtpHeader::read(octets) {
                record.key = u64::from(rtp.sequence.get());
                record.set_rtp(&rtp, head(octets, after));
            }
        }
        Payload::Opaque => {}
    }
}

/// The first bytes after an RTP header of 12 bytes that ends at `after`. Behind a longer one none: the analysis counts
/// lengths from the end of the fixed header.
#[inline(always)]
fn head(octets: &[u8], after: usize) -> Option<[u8; 8]> {
    if after == HEADER_BYTES { octets[after..].first_chunk().copied() } else { None }
}

/// What a payload of an unknown sender most likely is: ours behind any of the headers that our profiles use;
/// else RTP, if the header is one and its type is assigned or dynamic (RFC 3551, section 6); else opaque. One
/// packet proves little: ask with several and take what most say.
pub fn classify(octets: &[u8]) -> Payload {
    let ours = |offset: usize| {
        let found = octets.get(offset..).and_then(StreamHeader::read).is_some();
        found.then_some(offset).and_then(|offset| u16::try_from(offset).ok())
    };
    let rtp = RtpHeader::read(octets);
    let behind = rtp.and_then(|(_, at)| {
        let rest = &octets[at..];
        let video = VideoHeader::read(rest).map(|(_, pixels)| at + pixels);
        let hbrmt = HbrmtHeader::read(rest).map(|(_, media)| at + media);
        [Some(at), video, hbrmt].into_iter().flatten().find_map(ours)
    });
    if let Some(offset) = ours(0).or(behind) {
        return Payload::Ours { offset };
    }
    match rtp {
        Some((header, _)) if matches!(header.marker_and_type & 0x7f, 0..=34 | 96..=127) => Payload::Rtp,
        _ => Payload::Opaque,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, ProfileName};
    use zerocopy::IntoBytes;

    fn packet(name: ProfileName, seq: u64) -> (Profile, Vec<u8>) {
        let profile = Profile::named(name);
        let mut packet = profile.template(9);
        profile.write_sequence(&mut packet, 9, seq);
        profile.write_times(&mut packet, 5, 6);
        (profile, packet)
    }

    fn described(octets: &[u8], payload: Payload, stream_id: Option<u32>) -> PacketRecord {
        let mut record = PacketRecord::default();
        describe(&mut record, octets, payload, stream_id);
        record
    }

    #[test]
    fn our_packets_are_found_behind_the_headers_of_every_profile() {
        for name in ProfileName::ALL {
            let (profile, octets) = packet(name, 70_001);
            let payload = classify(&octets);
            assert_eq!(payload, Payload::Ours { offset: profile.header_offset() as u16 }, "{}", name.name());
            let record = described(&octets, payload, Some(9));
            assert_eq!((record.key, record.deadline_ns, record.sent_ns), (70_001, 5, 6));
            let is_rtp = record.flags & packet_flags::RTP != 0;
            if is_rtp {
                assert_eq!(record.media_head, octets[12..20], "{}", name.name());
                assert_eq!(record.payload_type(), Some(octets[1] & 0x7f), "{}", name.name());
            }
            assert_eq!((is_rtp, record.flags & packet_flags::OURS != 0), (profile.header_offset() > 0, true));
            let other = described(&octets, payload, Some(8));
            assert_eq!((other.key, other.flags, other.sent_ns), (KEY_UNKNOWN, 0, 0), "another stream's");
        }
    }

    #[test]
    fn foreign_rtp_gives_its_sequence_and_timestamp() {
        let mut octets = vec![0u8; 40];
        octets[..12].copy_from_slice(RtpHeader::new(96, true, 65_535, 90_000, 1).as_bytes());
        assert_eq!(classify(&octets), Payload::Rtp);
        let record = described(&octets, Payload::Rtp, None);
        let read =
            packet_flags::RTP | packet_flags::RTP_HEADER | packet_flags::MARKER | packet_flags::MEDIA_HEAD;
        assert_eq!((record.key, record.media_timestamp), (65_535, 90_000));
        assert_eq!(record.flags, read | 96 << packet_flags::PAYLOAD_TYPE_SHIFT);
        assert_eq!((record.payload_type(), record.ssrc(), record.media_head), (Some(96), Some(1), [0; 8]));
        octets[0] |= 0x10; // an extension of no words, so the header is 16 bytes long
        let record = described(&octets, Payload::Rtp, None);
        assert_eq!((record.flags & packet_flags::MEDIA_HEAD, record.media_head), (0, [0; 8]));
    }

    #[test]
    fn what_is_neither_has_no_key() {
        for octets in [&b"x"[..], &[0u8; 64], &[0xffu8; 64], &[]] {
            assert_eq!(classify(octets), Payload::Opaque);
            for payload in
                [Payload::Ours { offset: 0 }, Payload::Ours { offset: 20 }, Payload::Rtp, Payload::Opaque]
            {
                assert_eq!(
                    described(octets, payload, None),
                    PacketRecord { key: KEY_UNKNOWN, ..Default::default() }
                );
            }
        }
    }
}
