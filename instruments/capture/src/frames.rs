//! Captured frames, decoded as far as flows need: by etherparse, which takes what a snap length cut.

use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use quaver_capture_analysis::flows::{DatagramPart, FrameFacts, NetworkFacts, Payload, Tunnel};
use quaver_pcapng::{LINK_ETHERNET, LINK_LINUX_COOKED, LINK_LINUX_COOKED_2, LINK_RAW_IP};
use std::net::IpAddr;

/// BSD loopback: 4 bytes of address family in the byte order of the capturing host (LINKTYPE_NULL).
const LINK_NULL: u16 = 0;
/// OpenBSD loopback: the same in network order (LINKTYPE_LOOP).
const LINK_LOOP: u16 = 108;
/// Raw IP by the numbers of BSDs, and by version (LINKTYPE_IPV4, LINKTYPE_IPV6).
const LINKS_RAW: [u16; 4] = [12, 14, 228, 229];
/// Bytes of the headers of cooked captures; in the first the protocol stands at the end, in the second at the start.
const COOKED_BYTES: usize = 16;
const COOKED_2_BYTES: usize = 20;
/// Tunnels in each other that are followed.
const MOST_TUNNELS: usize = 4;
/// Ports of VXLAN and Geneve (RFC 7348, RFC 8926), and what stands for Ethernet in Geneve and GRE.
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
const ETHERNET_INSIDE: u16 = 0x6558;
/// PPP, bare and as HDLC frames it (LINKTYPE_PPP, LINKTYPE_PPP_HDLC).
const LINKS_PPP: [u16; 2] = [9, 50];
/// Labels of MPLS (RFC 3032), and a session of PPPoE (RFC 2516).
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE: u16 = 0x8864;
/// A length in place of a type (IEEE 802.3).
const MOST_LENGTH: u16 = 1_500;
/// Bytes of a UDP header.
const UDP_BYTES: usize = 8;

/// Whether frames of this link type can be decoded.
pub fn is_known(link_type: u16) -> bool {
    let framed = [LINK_ETHERNET, LINK_LINUX_COOKED, LINK_LINUX_COOKED_2, LINK_NULL, LINK_LOOP, LINK_RAW_IP];
    framed.contains(&link_type) || LINKS_RAW.contains(&link_type) || LINKS_PPP.contains(&link_type)
}

/// Gives `take` what a frame says, or each datagram of a train. `data` are the bytes kept of `wire_octets`; `near_ns` is when the
/// frame was captured, CLOCK_REALTIME.
pub fn decode(
    link_type: u16,
    data: &[u8],
    wire_octets: u32,
    near_ns: Option<i64>,
    mut take: impl FnMut(&FrameFacts),
) {
    let cut_octets = wire_octets.saturating_sub(data.len() as u32);
    let found = slice(link_type, data).map(unwrapped).and_then(|mut packet| {
        let mut tunnel = None;
        for _ in 0..MOST_TUNNELS {
            let inside = inside(&packet).map(|(through, inside)| (through, unwrapped(inside)));
            let Some((through, inside)) = inside.filter(|(_, inside)| inside.net.is_some()) else { break };
            (tunnel, packet) = (Some(through), inside);
        }
        let (facts, carried) = network(&packet, near_ns)?;
        // A part of a datagram is no train.
        let cut_octets = if facts.fragment { 0 } else { cut_octets.min(facts.payload_octets.unwrap_or(0)) };
        Some((NetworkFacts { tunnel, cut_octets, ..facts }, carried))
    });
    let mut give = |octets, network, of_train| take(&FrameFacts { octets, network, of_train });
    let Some((facts, carried)) = found else { return give(wire_octets, None, false) };
    let ports = (facts.source_port.unwrap_or(0), facts.destination_port.unwrap_or(0));
    let of = |octets: &[u8]| Payload::of(octets, octets.len() as u32, ports, near_ns);
    let train = carried.filter(|_| !facts.fragment);
    let train = train.and_then(|octets| Some((octets, facts.payload.train_octets(octets, of)?)));
    let Some((octets, each)) = train else { return give(wire_octets, Some(facts), false) };
    // The last may have been cut; without its header nothing is known of it, and it is in what was cut.
    let datagrams: Vec<(u32, Payload)> =
        octets.chunks(each).map(|datagram| (datagram.len() as u32, of(datagram))).collect();
    let known = datagrams.iter().rposition(|(_, payload)| *payload != Payload::Other).unwrap_or(0);
    let octets_of = |datagrams: &[(u32, Payload)]| datagrams.iter().map(|(length, _)| length).sum::<u32>();
    let (further, beyond) = (octets_of(&datagrams[1..=known]), octets_of(&datagrams[known + 1..]));
    for (place, (length, payload)) in datagrams.into_iter().enumerate().take(known + 1) {
        let on_wire = if place == 0 { wire_octets.saturating_sub(further) } else { length };
        let cut_octets = if place == known { facts.cut_octets + beyond } else { 0 };
        let network = NetworkFacts { payload_octets: Some(length), cut_octets, payload, ..facts };
        give(on_wire, Some(network), place > 0);
    }
}

fn slice(link_type: u16, data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match link_type {
        LINK_ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        LINK_LINUX_COOKED => cooked(data.get(14..16)?, data.get(COOKED_BYTES..)?),
        LINK_LINUX_COOKED_2 => cooked(data.get(..2)?, data.get(COOKED_2_BYTES..)?),
        LINK_NULL | LINK_LOOP => LaxSlicedPacket::from_ip(data.get(4..)?).ok(),
        LINK_RAW_IP => LaxSlicedPacket::from_ip(data).ok(),
        raw if LINKS_RAW.contains(&raw) => LaxSlicedPacket::from_ip(data).ok(),
        ppp if LINKS_PPP.contains(&ppp) => of_ppp(data.strip_prefix(&[0xff, 3]).unwrap_or(data)),
        _ => None,
    }
}

/// The packet behind headers between link and network, where it is in such.
fn unwrapped(mut packet: LaxSlicedPacket<'_>) -> LaxSlicedPacket<'_> {
    for _ in 0..MOST_TUNNELS {
        let Some(behind) = packet.net.is_none().then(|| behind(&packet)).flatten() else { break };
        packet = behind;
    }
    packet
}

fn behind<'a>(packet: &LaxSlicedPacket<'a>) -> Option<LaxSlicedPacket<'a>> {
    let payload = packet.ether_payload()?;
    match payload.ether_type.0 {
        labelled if MPLS.contains(&labelled) => {
            let bottom = payload.payload.chunks_exact(4).position(|label| label[2] & 1 == 1)?;
            let rest = &payload.payload[4 * (bottom + 1)..];
            // Nothing names what labels carry: IP has its version there, a control word of Ethernet zero (RFC 4385).
            match rest.first()? >> 4 {
                4 | 6 => LaxSlicedPacket::from_ip(rest).ok(),
                0 => LaxSlicedPacket::from_ethernet(rest.get(4..)?).ok(),
                _ => None,
            }
        }
        // Behind version, code, session and length.
        PPPOE => of_ppp(payload.payload.get(6..)?),
        // Of IEEE 802.2, SNAP names a type.
        ..=MOST_LENGTH => {
            let (kind, rest) =
                payload.payload.strip_prefix(&[0xaa, 0xaa, 3, 0, 0, 0])?.split_first_chunk::<2>()?;
            Some(LaxSlicedPacket::from_ether_type(EtherType(u16::from_be_bytes(*kind)), rest))
        }
        _ => None,
    }
}

fn of_ppp(octets: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let (protocol, rest) = octets.split_first_chunk::<2>()?;
    // IPv4 and IPv6 (RFC 1332, RFC 5072).
    matches!(protocol, [0, 0x21 | 0x57]).then(|| LaxSlicedPacket::from_ip(rest).ok()).flatten()
}

fn cooked<'a>(protocol: &[u8], rest: &'a [u8]) -> Option<LaxSlicedPacket<'a>> {
    let protocol = u16::from_be_bytes(protocol.try_into().ok()?);
    Some(LaxSlicedPacket::from_ether_type(EtherType(protocol), rest))
}

/// The packet that this one carries, where it is one of a tunnel.
fn inside<'a>(packet: &LaxSlicedPacket<'a>) -> Option<(Tunnel, LaxSlicedPacket<'a>)> {
    let outer = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => ip.payload(),
        LaxNetSlice::Ipv6(ip) => ip.payload(),
        LaxNetSlice::Arp(_) => return None,
    };
    if outer.fragmented {
        return None;
    }
    let by_type = |kind: u16, rest: &'a [u8]| match kind {
        ETHERNET_INSIDE => LaxSlicedPacket::from_ethernet(rest).ok(),
        other => Some(LaxSlicedPacket::from_ether_type(EtherType(other), rest)),
    };
    if let Some(TransportSlice::Udp(udp)) = &packet.transport {
        let carried = udp.slice().get(UDP_BYTES..)?;
        let [flags, _, kind_high, kind_low, id @ .., _] = *carried.first_chunk::<8>()?;
        let id = u32::from_be_bytes([0, id[0], id[1], id[2]]);
        return match udp.destination_port() {
            // The flag says that the identifier is one; all others are zero.
            VXLAN_PORT if flags == 0x08 => {
                Some((Tunnel::Vxlan(id), LaxSlicedPacket::from_ethernet(carried.get(8..)?).ok()?))
            }
            // Version 0; options of so many words.
            GENEVE_PORT if flags >> 6 == 0 => {
                let rest = carried.get(8 + 4 * usize::from(flags)..)?;
                Some((Tunnel::Geneve(id), by_type(u16::from_be_bytes([kind_high, kind_low]), rest)?))
            }
            _ => None,
        };
    }
    match outer.ip_number {
        IpNumber::GRE => {
            let [flags, version, kind @ ..] = *outer.payload.first_chunk::<4>()?;
            // Version 0; a word each for checksum, key and sequence number (RFC 2890).
            let has = |bit: u8| usize::from(flags & bit != 0);
            if version & 7 != 0 || flags & 0x4f != 0 {
                return None;
            }
            let key_at = 4 + 4 * has(0x80);
            let key =
                outer.payload.get(key_at..).and_then(|rest| rest.first_chunk()).filter(|_| has(0x20) > 0);
            let rest = outer.payload.get(key_at + 4 * (has(0x20) + has(0x10))..)?;
            Some((
                Tunnel::Gre(key.map(|key| u32::from_be_bytes(*key))),
                by_type(u16::from_be_bytes(kind), rest)?,
            ))
        }
        IpNumber::IPV4 | IpNumber::IPV6 => Some((Tunnel::Ip, LaxSlicedPacket::from_ip(outer.payload).ok()?)),
        _ => None,
    }
}

/// What is above the link, and as much as was kept of what a datagram of UDP carries.
fn network<'a>(
    packet: &LaxSlicedPacket<'a>,
    near_ns: Option<i64>,
) -> Option<(NetworkFacts, Option<&'a [u8]>)> {
    // Bytes behind the headers, as the lengths of IP have it.
    let claimed;
    let (source, destination, payload, part): (IpAddr, IpAddr, _, _) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let headers =
                header.slice().len() + ip.extensions().auth.map_or(0, |header| header.slice().len());
            claimed = usize::from(header.total_len()).checked_sub(headers);
            let ends = (header.source_addr().into(), header.destination_addr().into());
            let first = header.fragments_offset().value() == 0;
            (ends.0, ends.1, ip.payload(), Some(DatagramPart { id: header.identification().into(), first }))
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let ends = (header.source_addr().into(), header.destination_addr().into());
            let extensions = ip.extensions();
            claimed = usize::from(header.payload_length()).checked_sub(extensions.slice().len());
            (ends.0, ends.1, ip.payload(), fragment_of(extensions.first_header(), extensions.slice()))
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let mut facts = NetworkFacts {
        source,
        destination,
        tunnel: None,
        protocol: payload.ip_number.0,
        source_port: None,
        destination_port: None,
        fragment: payload.fragmented,
        part: part.filter(|_| payload.fragmented),
        payload_octets: None,
        cut_octets: 0,
        payload: Payload::Other,
    };
    let mut carried = None;
    match &packet.transport {
        Some(TransportSlice::Udp(udp)) => carried = datagram(&mut facts, udp.slice(), near_ns),
        // The first part of a datagram has its header; the others have neither header nor ports.
        None if payload.fragmented
            && part.is_none_or(|part| part.first)
            && payload.ip_number == IpNumber::UDP =>
        {
            carried = datagram(&mut facts, payload.payload, near_ns);
        }
        // Not by the library, which takes no header whose options were cut.
        _ if payload.ip_number == IpNumber::TCP && !payload.fragmented => {
            let whole = (!payload.incomplete).then_some(payload.payload.len());
            segment(&mut facts, payload.payload, whole.or(claimed));
        }
        _ => {}
    }
    Some((facts, carried))
}

/// Which part of its datagram this is, by the extension headers of IPv6 (RFC 8200, section 4); none where no header
/// tells. Not by the library's iterator, which reads past the end of headers that were cut.
fn fragment_of(first: Option<IpNumber>, headers: &[u8]) -> Option<DatagramPart> {
    let (mut kind, mut rest) = (first?, headers);
    loop {
        let head = rest.first_chunk::<4>()?;
        let octets = match kind {
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                let id = u32::from_be_bytes(*rest.get(4..)?.first_chunk()?);
                return Some(DatagramPart { id, first: u16::from_be_bytes([head[2], head[3]]) >> 3 == 0 });
            }
            // Its length is in units of 4 bytes, and less by two (RFC 4302, section 2.2).
            IpNumber::AUTHENTICATION_HEADER => (usize::from(head[1]) + 2) * 4,
            _ => (usize::from(head[1]) + 1) * 8,
        };
        (kind, rest) = (IpNumber(head[0]), rest.get(octets..)?);
    }
}

/// Reads a segment of TCP from its header on, as much as was kept of the `length` that it had.
fn segment(facts: &mut NetworkFacts, octets: &[u8], length: Option<usize>) {
    let Some(ports) = octets.first_chunk::<4>() else { return };
    facts.source_port = Some(u16::from_be_bytes([ports[0], ports[1]]));
    facts.destination_port = Some(u16::from_be_bytes([ports[2], ports[3]]));
    // Its own length is in words (RFC 9293, section 3.1).
    let header = octets.get(12).map(|octet| 4 * usize::from(octet >> 4));
    facts.payload_octets =
        length.zip(header).and_then(|(length, header)| u32::try_from(length.checked_sub(header)?).ok());
}

/// Reads a datagram from its header on, as much as was kept of it. Gives what it carries.
fn datagram<'a>(facts: &mut NetworkFacts, octets: &'a [u8], near_ns: Option<i64>) -> Option<&'a [u8]> {
    let header = octets.first_chunk::<UDP_BYTES>()?;
    let at = |place: usize| u16::from_be_bytes([header[place], header[place + 1]]);
    let (ports, length) = ((at(0), at(2)), usize::from(at(4)));
    let kept = &octets[UDP_BYTES..];
    // A length of 0 is a datagram longer than 65,535 bytes (RFC 2675), or nonsense as all below 8.
    let carried = if length < UDP_BYTES { kept.len() } else { length - UDP_BYTES };
    facts.source_port = Some(ports.0);
    facts.destination_port = Some(ports.1);
    facts.payload_octets = Some(carried as u32);
    let kept = &kept[..kept.len().min(carried)];
    facts.payload = Payload::of(kept, carried as u32, ports, near_ns);
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    /// What a frame of one datagram says.
    fn decode(link_type: u16, data: &[u8], wire_octets: u32, near_ns: Option<i64>) -> FrameFacts {
        let mut found = Vec::new();
        super::decode(link_type, data, wire_octets, near_ns, |facts| found.push(*facts));
        assert_eq!(found.len(), 1);
        found[0]
    }

    fn ends(facts: &FrameFacts) -> Option<(String, String, Option<u16>, Option<u32>)> {
        let network = facts.network?;
        let (source, destination) = (network.source.to_string(), network.destination.to_string());
        Some((source, destination, network.destination_port, network.payload_octets))
    }

    fn expected(octets: u32) -> Option<(String, String, Option<u16>, Option<u32>)> {
        Some(("10.0.0.1".to_owned(), "10.0.0.2".to_owned(), Some(6000), Some(octets)))
    }

    fn ip_udp(payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(5000, 6000);
        builder.write(&mut packet, payload).unwrap();
        packet
    }

    fn decoded(link_type: u16, head: &[u8], rest: &[u8]) -> FrameFacts {
        let frame = [head, rest].concat();
        decode(link_type, &frame, frame.len() as u32, None)
    }

    #[test]
    fn each_datagram_of_a_train_is_given() {
        let audio =
            |sequence: u8| [&[0x80, 0, 0, sequence, 0, 0, 0, sequence, 0, 0, 0, 7][..], &[1; 40]].concat();
        let ip = ip_udp(&[audio(4), audio(5), audio(6)[..30].to_vec()].concat());
        let mut given = Vec::new();
        super::decode(LINK_RAW_IP, &ip, ip.len() as u32, None, |facts| {
            let network = facts.network.unwrap();
            let Payload::Rtp { sequence, .. } = network.payload else { panic!("{facts:?}") };
            given.push((facts.octets, facts.of_train, network.payload_octets.unwrap(), sequence));
        });
        assert_eq!(given, [(28 + 52, false, 52, 4), (52, true, 52, 5), (30, true, 30, 6)]);
    }

    #[test]
    fn what_the_snap_length_cut_of_a_train_is_told() {
        let audio =
            |sequence: u8| [&[0x80, 0, 0, sequence, 0, 0, 0, sequence, 0, 0, 0, 7][..], &[1; 40]].concat();
        let ip = ip_udp(&[audio(4), audio(5), audio(6), audio(7)].concat());
        // Kept: one header; two; two and a part of the third, of which nothing is known; all of three.
        for (kept, expected) in [
            (28 + 50, &[(236, 208, 158)][..]),
            (28 + 52 + 20, &[(216, 52, 0), (20, 20, 136)]),
            (28 + 104 + 11, &[(184, 52, 0), (52, 52, 104)]),
            (28 + 156, &[(132, 52, 0), (52, 52, 0), (52, 52, 52)]),
        ] {
            let mut given = Vec::new();
            super::decode(LINK_RAW_IP, &ip[..kept], ip.len() as u32, None, |facts| {
                let network = facts.network.unwrap();
                given.push((facts.octets, network.payload_octets.unwrap(), network.cut_octets));
            });
            assert_eq!(given, expected, "{kept}");
        }
        let whole = ip_udp(&audio(4));
        assert_eq!(decoded(LINK_RAW_IP, &[], &whole).network.unwrap().cut_octets, 0);
    }

    #[test]
    fn each_link_type_leads_to_the_same_datagram() {
        let ip = ip_udp(b"hello");
        let mut tagged = vec![0; 12];
        tagged.extend([0x81, 0, 0, 5, 0x81, 0, 0, 6, 8, 0]);
        let of_type = |octets: &[u8]| [&[0; 12][..], octets].concat();
        let labelled = of_type(&[0x81, 0, 0, 5, 0x88, 0x47, 0, 6, 0x40, 64, 0, 0xc, 0x81, 64]);
        let pseudowire =
            [&of_type(&[0x88, 0x47, 0, 6, 0x41, 64, 0, 0, 0, 0])[..], &of_type(&[8, 0])].concat();
        let session = of_type(&[0x88, 0x64, 0x11, 0, 0, 9, 0, 35, 0, 0x21]);
        let snap = of_type(&[0, 41, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        let mut cooked = [0; COOKED_BYTES];
        cooked[14] = 8;
        let mut cooked_2 = [0; COOKED_2_BYTES];
        cooked_2[0] = 8;
        let ethernet = [&[0; 12][..], &[8, 0]].concat();
        for (link_type, head) in [
            (LINK_ETHERNET, &ethernet[..]),
            (LINK_ETHERNET, &tagged[..]),
            (LINK_ETHERNET, &labelled[..]),
            (LINK_ETHERNET, &pseudowire[..]),
            (LINK_ETHERNET, &session[..]),
            (LINK_ETHERNET, &snap[..]),
            (9, &[0xff, 3, 0, 0x21][..]),
            (50, &[0, 0x21][..]),
            (LINK_LINUX_COOKED, &cooked[..]),
            (LINK_LINUX_COOKED_2, &cooked_2[..]),
            (LINK_NULL, &[2, 0, 0, 0][..]),
            (LINK_LOOP, &[0, 0, 0, 2][..]),
            (LINK_RAW_IP, &[][..]),
            (228, &[][..]),
        ] {
            assert!(is_known(link_type));
            assert_eq!(ends(&decoded(link_type, head, &ip)), expected(5), "{link_type}");
        }
        assert!(!is_known(105));
        assert_eq!(decoded(105, &ethernet, &ip).network, None);
    }

    #[test]
    fn ipv6_and_tcp() {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(80, 6000, 1, 2);
        builder.write(&mut packet, b"abc").unwrap();
        let facts = decoded(LINK_RAW_IP, &[], &packet).network.unwrap();
        assert_eq!((facts.protocol, facts.payload_octets, facts.source_port), (6, Some(3), Some(80)));
        assert_eq!(facts.source, IpAddr::from([1u8; 16]));
    }

    #[test]
    fn what_was_cut_is_still_known_by_its_headers() {
        let ip = ip_udp(&[9; 1_000]);
        assert_eq!(ends(&decoded(LINK_RAW_IP, &[], &ip[..60])), expected(1_000));
        for length in 0..ip.len().min(60) {
            decode(LINK_RAW_IP, &ip[..length], 1_028, Some(0));
        }
    }

    #[test]
    fn a_segment_that_was_cut_has_the_length_that_ip_says() {
        let mut v4 = Vec::new();
        let options = etherparse::TcpOptions::try_from_slice(&[1; 12]).unwrap();
        let builder =
            PacketBuilder::ipv4([1; 4], [2; 4], 64).tcp(80, 6000, 1, 2).options_raw(options.as_slice());
        builder.unwrap().write(&mut v4, &[9; 1_000]).unwrap();
        let mut v6 = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(80, 6000, 1, 2).write(&mut v6, &[9; 1_000]).unwrap();
        for (ip, headers) in [(v4, 20), (v6, 40)] {
            let of = |kept: usize| {
                let facts = decoded(LINK_RAW_IP, &[], &ip[..kept]).network.unwrap();
                (facts.source_port, facts.destination_port, facts.payload_octets)
            };
            for kept in [headers + 13, headers + 20, headers + 32, headers + 40, ip.len() - 1, ip.len()] {
                assert_eq!(of(kept), (Some(80), Some(6000), Some(1_000)), "{kept}");
            }
            // Without the length of its own header nobody knows.
            assert_eq!(of(headers + 12), (Some(80), Some(6000), None));
        }
    }

    #[test]
    fn the_first_part_of_a_datagram_has_its_ports_and_length() {
        let mut ip = ip_udp(&[9; 400]);
        ip[4..6].copy_from_slice(&[1, 2]);
        ip[6] |= 0x20;
        let first = decoded(LINK_RAW_IP, &[], &ip);
        assert_eq!(ends(&first), expected(400));
        assert!(first.network.unwrap().fragment);
        assert_eq!(first.network.unwrap().part, Some(DatagramPart { id: 0x0102, first: true }));
        ip[6..8].copy_from_slice(&[0, 50]);
        let last = decoded(LINK_RAW_IP, &[], &ip).network.unwrap();
        assert_eq!(last.part, Some(DatagramPart { id: 0x0102, first: false }));
        assert_eq!((last.fragment, last.destination_port, last.payload_octets), (true, None, None));
    }

    #[test]
    fn the_first_part_behind_other_extension_headers() {
        // Hop by hop, authentication, fragment: offset 0 with more to come.
        let mut packet = vec![0x60, 0, 0, 0, 0, 48, 0, 64];
        packet.extend([[1; 16], [2; 16]].concat());
        packet.extend([51, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([&[44, 4, 0, 0][..], &[0; 20]].concat());
        packet.extend([17, 0, 0, 1, 0, 0, 0, 9]);
        packet.extend([0x13, 0x88, 0x17, 0x70, 3, 0xf8, 0, 0]);
        let facts = decoded(LINK_RAW_IP, &[], &packet).network.unwrap();
        assert_eq!(
            (facts.fragment, facts.destination_port, facts.payload_octets),
            (true, Some(6000), Some(1_008))
        );
        packet[74] = 1;
        let facts = decoded(LINK_RAW_IP, &[], &packet).network.unwrap();
        assert_eq!((facts.fragment, facts.destination_port), (true, None));
        assert_eq!(facts.part, Some(DatagramPart { id: 9, first: false }));
        assert_eq!(fragment_of(Some(IpNumber::IPV6_ROUTE_HEADER), &[44, 255, 0, 0]), None);
    }

    /// SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[test]
    fn frames_changed_at_random_give_no_more_than_they_have() {
        let mut random = 1;
        let ip = ip_udp(&[0x80; 60]);
        let mut ipv6 = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut ipv6, &[0x80; 40]).unwrap();
        let vxlan = outer_udp(4789, &[8, 0, 0, 0, 0, 1, 2, 0], &[&[0; 12][..], &[8, 0], &ip].concat());
        let gre = outer(IpNumber::GRE, &[&[0x20, 0, 8, 0, 0, 0, 0, 7][..], &ip].concat());
        for _ in 0..200_000 {
            let inner = [&ip, &ipv6, &vxlan, &gre][next(&mut random) as usize % 4];
            let mut frame = [&[0; 12][..], &[8, 0], inner].concat();
            frame.drain(..[0, 0, 14][next(&mut random) as usize % 3]);
            for _ in 0..next(&mut random) % 8 {
                let at = next(&mut random) as usize % frame.len();
                frame[at] = [next(&mut random) as u8, 0, 0xff, 44][next(&mut random) as usize % 4];
            }
            frame.truncate(next(&mut random) as usize % (frame.len() + 1));
            let link = [0, 1, 12, 101, 108, 113, 228, 276][next(&mut random) as usize % 8];
            let mut sum = 0;
            super::decode(link, &frame, 2_000, Some(1_700_000_000_000_000_000), |facts| {
                let claimed = facts.network.and_then(|network| network.payload_octets);
                assert!(claimed.is_none_or(|octets| octets <= 65_535));
                sum += facts.octets;
            });
            assert_eq!(sum, 2_000);
        }
    }

    /// `inner` behind an outer header of IPv4 that carries `protocol`.
    fn outer(protocol: IpNumber, inner: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).write(&mut packet, protocol, inner).unwrap();
        packet
    }

    fn outer_udp(port: u16, head: &[u8], inner: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(50_000, port);
        builder.write(&mut packet, &[head, inner].concat()).unwrap();
        packet
    }

    #[test]
    fn tunnels_are_followed_to_the_datagram_inside() {
        let (ip, ethernet) = (ip_udp(b"hello"), [&[0; 12][..], &[8, 0], &ip_udp(b"hello")].concat());
        let vxlan = outer_udp(4789, &[8, 0, 0, 0, 0, 1, 2, 0], &ethernet);
        let nested =
            outer(IpNumber::GRE, &[&[0x20, 0, 8, 0, 0, 0, 0, 7][..], &outer(IpNumber::IPV4, &ip)].concat());
        for (packet, tunnel) in [
            (vxlan.clone(), Tunnel::Vxlan(0x0102)),
            (outer_udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 9, 0, 1, 2, 3, 4], &ethernet), Tunnel::Geneve(9)),
            (outer_udp(6081, &[0, 0, 8, 0, 0, 0, 9, 0], &ip), Tunnel::Geneve(9)),
            (outer(IpNumber::GRE, &[&[0, 0, 0x65, 0x58][..], &ethernet].concat()), Tunnel::Gre(None)),
            (
                outer(IpNumber::GRE, &[&[0xb0, 0, 8, 0][..], &[9; 4], &[0, 0, 1, 0], &[9; 4], &ip].concat()),
                Tunnel::Gre(Some(256)),
            ),
            (outer(IpNumber::IPV4, &ip), Tunnel::Ip),
            (nested, Tunnel::Ip),
        ] {
            let facts = decoded(LINK_RAW_IP, &[], &packet);
            assert_eq!((ends(&facts), facts.network.unwrap().tunnel), (expected(5), Some(tunnel)));
            // Cut anywhere, it is the outer packet or the inner one, and never neither.
            for length in 48..packet.len() {
                assert!(decoded(LINK_RAW_IP, &[], &packet[..length]).network.is_some(), "{tunnel} {length}");
            }
        }
        // A header without its flag, or of another version, hides what is inside.
        for packet in [
            outer_udp(4789, &[0; 8], &ethernet),
            outer_udp(6081, &[0x40, 0, 8, 0, 0, 0, 9, 0], &ip),
            outer(IpNumber::GRE, &[&[0, 1, 8, 0][..], &ip].concat()),
            outer(IpNumber::GRE, &[&[0, 0, 0x88, 0x0b][..], &ip].concat()),
        ] {
            let network = decoded(LINK_RAW_IP, &[], &packet).network.unwrap();
            assert_eq!((network.tunnel, network.destination_port == Some(6000)), (None, false));
        }
    }

    #[test]
    fn what_is_no_ip() {
        let arp = [&[0xff; 12][..], &[8, 6], &[0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
        assert_eq!(
            decode(LINK_ETHERNET, &arp, 42, None),
            FrameFacts { octets: 42, network: None, of_train: false }
        );
        assert_eq!(decode(LINK_ETHERNET, &[], 0, None).network, None);
    }
}
