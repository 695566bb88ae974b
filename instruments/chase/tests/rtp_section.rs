//! The figures of an RTP stream on the terminal.

use quaver_arrivals::rtp::{RtpContext, RtpFields, RtpHeaderFields, RtpPacket, VideoTold, analyze_rtp};
use quaver_view::{Document, plain};

const MS: i64 = 1_000_000;

/// G.711 every 20 ms: number 5 is lost, 10 and 11 change places, 15 is 1 ms late, the last arrives twice.
fn packets() -> Vec<RtpPacket> {
    let order = (0..20).filter(|number| *number != 5).map(|number| match number {
        10 => 11,
        11 => 10,
        number => number,
    });
    let packet = |(place, number): (usize, u64)| {
        let header = RtpHeaderFields { marker: false, payload_type: 0, ssrc: Some(0xabcd), head: None };
        let late_ns = if number == 15 { MS } else { 0 };
        RtpPacket {
            sequence: number,
            arrived_ns: place as i64 * 20 * MS + late_ns,
            fields: RtpFields { timestamp: 160 * number as u32, payload_bytes: 172, header: Some(header) },
        }
    };
    order.chain([19]).enumerate().map(packet).collect()
}

#[test]
fn figures_stand_beside_their_definitions() {
    let context =
        RtpContext { arrival: "application", sequence_bits: 16, tai: None, video: VideoTold::default() };
    let summary = analyze_rtp(packets(), &context).unwrap();
    let mut document = Document::new("quaver sink", "run");
    document.section(quaver_instrument::rtp::section(&summary));
    assert_eq!(plain(&document), GOLDEN);
}

const GOLDEN: &str = "\
quaver sink · run

RTP  20 packets of one source
  figure                 value             definition
  carries                RTP               by the headers and lengths of its payloads
  payload type           0                 RFC 3550, 5.1
  source (SSRC)          0x0000abcd        RFC 3550, 5.1
  media clock            8,000 Hz          by its payload type (RFC 3551, 6)
  interarrival jitter    4.65 ms           RFC 3550, 6.4.1, at application
    as reported (ticks)  37                RFC 3550, A.8
    mean, max            2.61 ms, 5.54 ms  RFC 3550, 6.4.1, at application
  expected               20                sequence numbers, smallest to largest received
  received               20                duplicates included
  lost                   1 (5.0 %)         RFC 7680, 2
    as reported          0                 RFC 3550, A.3: duplicates count as received
    loss periods         1, longest 1      RFC 3357, 6.2 and 6.3
  duplicates             1                 RFC 5560, 5.1
  reordered              1 (5.3 %)         RFC 4737, 3.3 and 4.1
    max extent           1                 RFC 4737, 4.2
";
