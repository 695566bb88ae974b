//! A sender's packet: base, TLVs, HMAC, padding.

use super::key::Protection;
use super::options::SenderOptions;
use crate::error::PathError;
use quaver_abi::wire::stamp::SenderPacket;
use quaver_abi::wire::stamp::time::ErrorEstimate;
use quaver_abi::wire::stamp::tlv::{
    self, AccessReport, ClassOfService, DirectMeasurement, FollowUp, Location, TimestampInformation, kind,
    location,
};
use sha2::{Digest, Sha256};

/// Most bytes of UDP payload over IPv4 (65,535 less both headers).
const MOST_PACKET_BYTES: usize = 65_507;

/// A packet that is the same but for number, time, counter and codes.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) octets: Vec<u8>,
    base_bytes: usize,
    /// Where the value of the Direct Measurement TLV lies.
    counter: Option<usize>,
    /// Where the HMAC TLV begins.
    hmac: Option<usize>,
}

impl Request {
    pub(super) fn new(options: &SenderOptions) -> Result<Self, PathError> {
        let base_bytes = options.protection.mode().base_bytes();
        let mut request = Self { octets: vec![0; base_bytes], base_bytes, counter: None, hmac: None };
        let asked = &options.requests;
        if asked.location {
            let mut value = Location::default().to_octets().to_vec();
            for kind in [location::DESTINATION_IP, location::SOURCE_IP] {
                append(&mut value, kind, &[0; 16])?;
            }
            append(&mut request.octets, kind::LOCATION, &value)?;
        }
        if asked.timestamp_information {
            let value = TimestampInformation::default().to_octets();
            append(&mut request.octets, kind::TIMESTAMP_INFORMATION, &value)?;
        }
        if let Some(wanted_dscp) = asked.class_of_service {
            let value = ClassOfService { wanted_dscp, ..ClassOfService::default() }.to_octets();
            append(&mut request.octets, kind::CLASS_OF_SERVICE, &value)?;
        }
        if asked.direct_measurement {
            request.counter = Some(request.octets.len() + tlv::HEADER_BYTES);
            append(&mut request.octets, kind::DIRECT_MEASUREMENT, &DirectMeasurement::default().to_octets())?;
        }
        if let Some((access_id, return_code)) = asked.access_report {
            append(
                &mut request.octets,
                kind::ACCESS_REPORT,
                &AccessReport { access_id, return_code }.to_octets(),
            )?;
        }
        if asked.follow_up {
            append(&mut request.octets, kind::FOLLOW_UP_TELEMETRY, &FollowUp::default().to_octets())?;
        }
        if options.protection.key().is_some() && request.octets.len() > base_bytes {
            request.hmac = Some(request.octets.len());
            append(&mut request.octets, kind::HMAC, &[0; 16])?;
        }
        request.pad(options)?;
        Ok(request)
    }

    /// Fills up to the size that is wanted.
    fn pad(&mut self, options: &SenderOptions) -> Result<(), PathError> {
        let least = self.octets.len();
        let wanted = options.packet_bytes.unwrap_or(least);
        let padding = match wanted.checked_sub(least) {
            Some(0) => return Ok(()),
            Some(more) if options.plain && wanted <= MOST_PACKET_BYTES => {
                self.octets.extend(pseudorandom(more, options.seed));
                return Ok(());
            }
            Some(more) if more >= tlv::HEADER_BYTES && wanted <= MOST_PACKET_BYTES => {
                more - tlv::HEADER_BYTES
            }
            _ => {
                return Err(PathError::Options(format!(
                    "a STAMP packet of {wanted} bytes cannot be: what is asked for takes {least}; give {least}, or {} \
                     to {MOST_PACKET_BYTES}",
                    least + tlv::HEADER_BYTES
                )));
            }
        };
        append(&mut self.octets, kind::EXTRA_PADDING, &pseudorandom(padding, options.seed))
    }

    /// Makes it packet `packet.sequence`, the `transmitted`-th, and seals its TLVs. The base packet follows with
    /// [`Request::stamp`], once for all that must not come late.
    pub(super) fn prepare(&mut self, sequence: u32, transmitted: u32, protection: &Protection) {
        if let Some(at) = self.counter {
            self.octets[at..at + 4].copy_from_slice(&transmitted.to_be_bytes());
        }
        if let (Some(at), Some(key)) = (self.hmac, protection.key()) {
            let hmac = key.hmac(&[&sequence.to_be_bytes(), &self.octets[self.base_bytes..at]]);
            let value = at + tlv::HEADER_BYTES;
            self.octets[value..value + hmac.len()].copy_from_slice(&hmac);
        }
    }

    /// Writes the base packet with its time and seals it.
    pub(super) fn stamp(
        &mut self,
        sequence: u32,
        t1_ns: i64,
        ssid: u16,
        error_estimate: ErrorEstimate,
        protection: &Protection,
    ) {
        let timestamp = error_estimate.format.encode(t1_ns);
        let packet = SenderPacket { sequence, timestamp, error_estimate, ssid };
        // The buffer begins with room for a base packet.
        let _ = packet.write(protection.mode(), &mut self.octets);
        if let Protection::All(key) = protection {
            key.seal_base(&mut self.octets);
        }
    }
}

fn append(octets: &mut Vec<u8>, kind: u8, value: &[u8]) -> Result<(), PathError> {
    let at = octets.len();
    octets.resize(at + tlv::HEADER_BYTES + value.len(), 0);
    match tlv::write(&mut octets[at..], kind, value) {
        Some(_) => Ok(()),
        None => Err(PathError::Options(format!("a TLV holds at most 65535 bytes, not {}", value.len()))),
    }
}

/// Bytes that no link can compress, the same for one seed.
fn pseudorandom(length: usize, seed: u64) -> Vec<u8> {
    let block = |number: u64| {
        Sha256::new().chain_update(seed.to_be_bytes()).chain_update(number.to_be_bytes()).finalize()
    };
    (0..).flat_map(block).take(length).collect()
}
