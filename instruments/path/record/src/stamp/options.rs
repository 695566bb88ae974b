//! What reflector and sender are asked to do.

use super::key::Protection;
use super::{ReflectorTotals, TimestampFormat};
use crate::error::PathError;
use crate::figures::Shown;
use quaver_abi::wire::stamp::PORT;
use quaver_path_flow::LatePolicy;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Limits of a reflector. What exceeds them is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Replies a second to all peers together.
    pub packets_per_second: u32,
    /// Replies a second to one peer: an IPv4 address, or 64 bits of prefix in IPv6.
    pub packets_per_second_per_peer: u32,
    /// Sessions that are remembered.
    pub sessions: usize,
    /// Sessions of one peer.
    pub sessions_per_peer: usize,
    /// A session that is silent for so long is forgotten; its next packet begins a new one.
    pub session_idle: Duration,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            packets_per_second: 100_000,
            packets_per_second_per_peer: 20_000,
            sessions: 16_384,
            sessions_per_peer: 256,
            session_idle: Duration::from_secs(300),
        }
    }
}

/// How to reflect.
#[derive(Clone, Debug)]
pub struct ReflectorOptions {
    /// Address and port; port 0 lets the kernel choose. An IPv6 wildcard receives IPv4 too.
    pub bind: SocketAddr,
    /// Whether each session has its own count of replies, so that a sender can tell the directions of losses apart
    /// (RFC 8762, section 4: stateful), or each reply repeats the sender's number (stateless).
    pub stateful: bool,
    /// What must bear an HMAC. With [`Protection::All`] only authenticated packets are answered.
    pub protection: Protection,
    /// Format of our stamps.
    pub format: TimestampFormat,
    /// Whether a reply may have the DSCP of the request, or the one that a Class of Service TLV asks for.
    pub allow_dscp: bool,
    /// Addresses whose packets are answered from 14 bytes on, though a reply has 41: who forges such an address makes
    /// this host send it three times as many bytes. Without HMAC only.
    pub short_from: Vec<IpAddr>,
    /// Limits.
    pub caps: Caps,
    /// Where it shows what it has done.
    pub figures: Shown<ReflectorTotals>,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            bind: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT),
            stateful: true,
            protection: Protection::None,
            format: TimestampFormat::Ntp,
            allow_dscp: true,
            short_from: Vec::new(),
            caps: Caps::default(),
            figures: Shown::default(),
        }
    }
}

/// TLVs to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Where the reflector sees the packets come from and arrive.
    pub location: bool,
    /// How the reflector takes stamps.
    pub timestamp_information: bool,
    /// DSCP wanted for the replies, 0 to 63; asks for DSCP and ECN as they arrived, too.
    pub class_of_service: Option<u8>,
    /// Counters of both ends.
    pub direct_measurement: bool,
    /// When the reply before was really sent.
    pub follow_up: bool,
    /// Access identifier (1 or 2) and return code of an access network, to tell to the reflector.
    pub access_report: Option<(u8, u8)>,
}

/// What to do when a reflector returns 0 for our session identifier, as one that knows no RFC 8972 does (its
/// section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroSsid {
    /// Measure all the same; the outcome says so.
    #[default]
    Continue,
    /// End the session.
    Stop,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// Reflector.
    pub target: SocketAddr,
    /// Local address; none lets the kernel choose.
    pub bind: Option<SocketAddr>,
    /// Packets to send; none sends until stopped.
    pub count: Option<u64>,
    /// Nanoseconds from one packet to the next, at least 1000.
    pub period_ns: u64,
    /// What becomes of packets whose time has passed.
    pub late: LatePolicy,
    /// When the session is over, whatever was sent by then, nanoseconds; none: its packets alone decide.
    pub lasting_ns: Option<u64>,
    /// Bytes of UDP payload; none sends the least that holds what is asked. More is filled with an Extra Padding
    /// TLV, which takes four bytes or more.
    pub packet_bytes: Option<usize>,
    /// Session identifier; 0 sends none.
    pub ssid: u16,
    /// What to do about a reflector that returns 0 for it.
    pub zero_ssid: ZeroSsid,
    /// DSCP of the packets, 0 to 63.
    pub dscp: u8,
    /// What bears an HMAC.
    pub protection: Protection,
    /// Format of our stamps.
    pub format: TimestampFormat,
    /// TLVs.
    pub requests: Requests,
    /// No TLVs at all: what follows the base packet is padding, there and back, as in TWAMP.
    pub plain: bool,
    /// A reply that takes longer than this counts as lost (RFC 7680's waiting time). Nanoseconds.
    pub loss_timeout_ns: u64,
    /// Seed of the padding.
    pub seed: u64,
    /// Whether packets are kept for the outcome. Else only those are remembered that were sent within two loss
    /// time-outs, so memory depends on the rate and not on the length of the session.
    pub keep_packets: bool,
}

impl SenderOptions {
    /// Ten packets, one a second, as small as can be, lost after three seconds.
    pub fn new(target: SocketAddr) -> Self {
        Self {
            target,
            bind: None,
            count: Some(10),
            period_ns: 1_000_000_000,
            late: LatePolicy::SendLate,
            lasting_ns: None,
            packet_bytes: None,
            ssid: 0,
            zero_ssid: ZeroSsid::default(),
            dscp: 0,
            protection: Protection::None,
            format: TimestampFormat::Ntp,
            requests: Requests::default(),
            plain: false,
            loss_timeout_ns: 3_000_000_000,
            seed: 0,
            keep_packets: true,
        }
    }

    pub(super) fn check(&self) -> Result<(), PathError> {
        let no = |what: String| Err(PathError::Options(what));
        if self.count == Some(0) {
            return no("0 packets measure nothing: send at least one".to_owned());
        }
        if self.period_ns < 1000 {
            return no(format!(
                "a period of {} ns is shorter than a packet takes: give 1000 or more",
                self.period_ns
            ));
        }
        if self.dscp > 63 || self.requests.class_of_service.is_some_and(|dscp| dscp > 63) {
            return no("a DSCP is 0 to 63".to_owned());
        }
        if self.requests.access_report.is_some_and(|(id, _)| !(1..=2).contains(&id)) {
            return no("an access identifier is 1 (3GPP) or 2 (another network)".to_owned());
        }
        if i64::try_from(self.loss_timeout_ns).is_err() || i64::try_from(self.period_ns).is_err() {
            return no("period and loss time-out are less than 292 years".to_owned());
        }
        Ok(())
    }
}
