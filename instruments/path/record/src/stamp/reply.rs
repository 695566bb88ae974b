//! From a request to its reply. Pure: bytes and facts in, bytes out.

use super::event::Refusal;
use super::key::{Protection, StampKey};
use super::sessions::Session;
use quaver_abi::wire::stamp::time::{ErrorEstimate, TimestampFormat};
use quaver_abi::wire::stamp::tlv::{
    self, AccessReport, ClassOfService, DirectMeasurement, FLAG_INTEGRITY, FLAG_MALFORMED, FLAG_UNRECOGNIZED,
    FollowUp, Location, Span, TimestampInformation, kind, location,
};
use quaver_abi::wire::stamp::{LIGHT_BYTES, Mode, ReflectorPacket, SenderPacket};
use std::net::{IpAddr, SocketAddr};

/// What is known of a request beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFacts {
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) to_port: u16,
    /// 0 where the system did not say.
    pub(super) ttl: u8,
    /// Traffic class: DSCP and ECN.
    pub(super) class: u8,
    /// UTC nanoseconds.
    pub(super) received_ns: i64,
}

/// What is the same for all replies for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local<'a> {
    pub(super) protection: &'a Protection,
    pub(super) error_estimate: ErrorEstimate,
    pub(super) allow_dscp: bool,
}

impl Local<'_> {
    fn format(&self) -> TimestampFormat {
        self.error_estimate.format
    }

    fn sync_source(&self) -> u8 {
        // The kernel's clock is disciplined; by whom it does not say, and NTP is what nearly all hosts run.
        if self.error_estimate.synchronized {
            tlv::sync_source::NTP
        } else {
            tlv::sync_source::LOCAL_FREE_RUNNING
        }
    }
}

/// Whether `request` may be answered, and what it says. Senders of TWAMP Light may send fewer bytes than STAMP's
/// base packet. `least` must be there, which are those of the least reply unless larger replies are permitted; the rest
/// is zero.
pub(super) fn check(request: &[u8], protection: &Protection, least: usize) -> Result<SenderPacket, Refusal> {
    let mode = protection.mode();
    let mut padded = [0; Mode::Unauthenticated.base_bytes()];
    let base = match mode {
        Mode::Unauthenticated if (least..mode.base_bytes()).contains(&request.len()) => {
            padded[..request.len()].copy_from_slice(request);
            &padded[..]
        }
        _ => request,
    };
    let packet = SenderPacket::read(mode, base).map_err(|_| Refusal::Short)?;
    match protection {
        Protection::All(key) if !key.verify_base(request) => Err(Refusal::WrongHmac),
        _ => Ok(packet),
    }
}

/// Writes the reply to `request`, of the same length but for the least that a reply has, into `reply`, and gives the traffic class that it is to have.
/// `now_ns` is asked for T3 as late as can be. Without a session no state is kept.
pub(super) fn compose(
    request: &[u8],
    packet: &SenderPacket,
    seen: &RequestFacts,
    local: &Local<'_>,
    session: Option<&Session>,
    reply: &mut Vec<u8>,
    now_ns: impl FnOnce() -> i64,
) -> (u8, i64) {
    let mode = local.protection.mode();
    let base_bytes = mode.base_bytes();
    reply.clear();
    reply.extend_from_slice(request);
    reply.resize(request.len().max(base_bytes), 0);
    let sequence = session.map_or(packet.sequence, |session| session.transmitted);
    let (base, extension) = reply.split_at_mut(base_bytes);
    let class = Answer {
        seen,
        local,
        session,
        sequence: sequence.to_be_bytes(),
        sent: packet.sequence.to_be_bytes(),
    }
    .answer(extension);
    let sent_ns = now_ns();
    let answer = ReflectorPacket {
        sequence,
        timestamp: local.format().encode(sent_ns),
        error_estimate: local.error_estimate,
        ssid: packet.ssid,
        receive_timestamp: local.format().encode(seen.received_ns),
        sender_sequence: packet.sequence,
        sender_timestamp: packet.timestamp,
        sender_error_estimate: packet.error_estimate,
        sender_ttl: seen.ttl,
    };
    // The buffer was made large enough above.
    let _ = answer.write(mode, base);
    if let Protection::All(key) = local.protection {
        key.seal_base(base);
    }
    reply.truncate(request.len().max(LIGHT_BYTES));
    (class, sent_ns)
}

/// How the TLVs of one request are answered.
struct Answer<'a> {
    seen: &'a RequestFacts,
    local: &'a Local<'a>,
    session: Option<&'a Session>,
    /// Of the reply and of the request, as they stand in the base packets.
    sequence: [u8; 4],
    sent: [u8; 4],
}

/// What the TLVs' HMAC says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integrity {
    /// There is none, and none is needed.
    Unprotected,
    /// It is right; where its TLV lies.
    Right(Span),
    /// It is wrong, missing, misplaced, or we have no key.
    Wrong,
}

impl Answer<'_> {
    /// Answers the TLVs in place and gives the traffic class of the reply.
    fn answer(&self, extension: &mut [u8]) -> u8 {
        let plain = if self.local.allow_dscp { self.seen.class & !3 } else { 0 };
        // A TLV of STAMP has a type, and its sender sets a flag: bytes that begin with zeros are TWAMP Light's
        // padding.
        if extension.iter().take(tlv::HEADER_BYTES).all(|octet| *octet == 0) {
            return plain;
        }
        let integrity = self.integrity(extension);
        if integrity == Integrity::Wrong {
            mark_all(extension, FLAG_INTEGRITY);
            return plain;
        }
        let mut class = plain;
        let mut at = 0;
        while let Some(span) = Span::at(extension, at) {
            at = span.end();
            if span.is_malformed(extension) {
                extension[span.at] = FLAG_MALFORMED;
                if span.kind == kind::FOLLOW_UP_TELEMETRY {
                    let fields = span.value().len().min(12);
                    extension[span.value()][..fields].fill(0);
                }
                // What follows is copied as it is.
                break;
            }
            let understood =
                span.is_known() && self.fill(span.kind, &mut extension[span.value()], &mut class);
            extension[span.at] = if understood { 0 } else { FLAG_UNRECOGNIZED };
        }
        if let (Integrity::Right(span), Some(key)) = (integrity, self.local.protection.key()) {
            let hmac = key.hmac(&[&self.sequence, &extension[..span.at]]);
            extension[span.value()].copy_from_slice(&hmac);
        }
        class
    }

    /// Verifies the HMAC over the TLVs (RFC 8972, section 4.8).
    fn integrity(&self, extension: &[u8]) -> Integrity {
        let key: Option<&StampKey> = self.local.protection.key();
        let mut hmac = None;
        let mut others = 0;
        for span in Span::all(extension) {
            match (span.kind, hmac) {
                (kind::HMAC, None) => hmac = Some(span),
                // Only padding may follow it.
                (kind::EXTRA_PADDING, _) => others += 1,
                (_, Some(_)) => return Integrity::Wrong,
                _ => others += 2,
            }
        }
        match (hmac, key) {
            // One padding alone needs none, even in authenticated mode.
            (None, Some(_)) if others > 1 => Integrity::Wrong,
            (None, _) => Integrity::Unprotected,
            (Some(_), None) => Integrity::Wrong,
            (Some(span), Some(key)) => {
                let right = !span.is_malformed(extension)
                    && key.verify(&[&self.sent, &extension[..span.at]], &extension[span.value()]);
                if right { Integrity::Right(span) } else { Integrity::Wrong }
            }
        }
    }

    /// Fills in what a TLV asks for; whether that could be done.
    fn fill(&self, kind: u8, value: &mut [u8], class: &mut u8) -> bool {
        match kind {
            kind::LOCATION => self.locate(value),
            kind::TIMESTAMP_INFORMATION => {
                let (source, method) = (self.local.sync_source(), tlv::stamp_method::SOFTWARE_LOCAL);
                let how = TimestampInformation {
                    sync_in: source,
                    method_in: method,
                    sync_out: source,
                    method_out: method,
                };
                value.copy_from_slice(&how.to_octets());
            }
            kind::CLASS_OF_SERVICE => {
                let Some(mut service) = ClassOfService::from_octets(value) else { return false };
                service.received_dscp = self.seen.class >> 2;
                service.received_ecn = self.seen.class & 3;
                service.reverse_path = u8::from(!self.local.allow_dscp);
                if self.local.allow_dscp {
                    *class = service.wanted_dscp << 2;
                }
                value.copy_from_slice(&service.to_octets());
            }
            kind::DIRECT_MEASUREMENT => {
                let (Some(session), Some(mut counters)) =
                    (self.session, DirectMeasurement::from_octets(value))
                else {
                    return false;
                };
                counters.reflector_received = session.received;
                counters.reflector_transmitted = session.transmitted.wrapping_add(1);
                value.copy_from_slice(&counters.to_octets());
            }
            kind::FOLLOW_UP_TELEMETRY => {
                let last = self.session.and_then(|session| session.last);
                let follow_up = last.map_or_else(FollowUp::default, |(sequence, sent_ns)| FollowUp {
                    sequence,
                    timestamp: self.local.format().encode(sent_ns),
                    method: tlv::stamp_method::SOFTWARE_LOCAL,
                });
                value.copy_from_slice(&follow_up.to_octets());
            }
            kind::ACCESS_REPORT => {
                return AccessReport::from_octets(value)
                    .is_some_and(|report| (1..=2).contains(&report.access_id));
            }
            _ => {}
        }
        true
    }

    /// Fills in where we saw the request come from and arrive.
    fn locate(&self, value: &mut [u8]) {
        let ports = Location { destination_port: self.seen.to_port, source_port: self.seen.from.port() };
        let (fixed, subs) = value.split_at_mut(Location::BYTES);
        fixed.copy_from_slice(&ports.to_octets());
        let source = self.seen.from.ip().to_canonical();
        let destination = self.seen.to.map(|to| to.to_canonical());
        let ipv4 = source.is_ipv4();
        let mut at = 0;
        while let Some(sub) = Span::at(subs, at) {
            at = sub.end();
            let length = sub.value().len();
            let Some(expected) = location::value_bytes(sub.kind) else {
                subs[sub.at] = FLAG_UNRECOGNIZED;
                continue;
            };
            if length != expected {
                subs[sub.at] = FLAG_MALFORMED;
                break;
            }
            let (answer, octets) = match sub.kind {
                // A UDP socket does not see link-layer addresses: told as absent.
                location::SOURCE_MAC => (location::SOURCE_EUI_64, [0; 16]),
                location::DESTINATION_IP => (
                    if ipv4 { location::DESTINATION_IPV4 } else { location::DESTINATION_IPV6 },
                    destination.map_or([0; 16], tlv::address_octets),
                ),
                location::SOURCE_IP => (
                    if ipv4 { location::SOURCE_IPV4 } else { location::SOURCE_IPV6 },
                    tlv::address_octets(source),
                ),
                // An answer where a question belongs.
                _ => {
                    subs[sub.at] = FLAG_UNRECOGNIZED;
                    continue;
                }
            };
            subs[sub.at] = 0;
            subs[sub.at + 1] = answer;
            subs[sub.value()].copy_from_slice(&octets[..length]);
        }
    }
}

/// Sets the flags of all TLVs; one that is cut off is malformed as well.
fn mark_all(extension: &mut [u8], flags: u8) {
    let mut at = 0;
    while let Some(span) = Span::at(extension, at) {
        at = span.end();
        extension[span.at] = if span.whole { flags } else { flags | FLAG_MALFORMED };
    }
}
