//! What a peer may ask of a server.

use std::time::Duration;

/// Caps on what one server does for others.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Test packets a second.
    pub packets_per_second: u64,
    /// Bits a second of test packets' payloads.
    pub bits_per_second: u64,
    /// Length of one flow.
    pub duration: Duration,
    /// Octets of a test packet's payload.
    pub packet_bytes: u32,
    /// Packets of a flow whose samples the server keeps until its end (24 octets each).
    pub kept_packets: u64,
    /// Packets a second of a rolling test upwards, whose samples go back while it runs.
    pub rolling_packets_per_second: u64,
    /// Control connections in all.
    pub sessions: usize,
    /// Control connections of one peer: an IPv4 address, or an IPv6 network of 64 bits.
    pub sessions_per_peer: usize,
    /// New control connections of one peer a minute, and as many at once.
    pub hellos_per_minute: u32,
    /// Tests at a time.
    pub tests: usize,
    /// Tests that may wait for their turn; the next is refused.
    pub queue: usize,
    /// How long one may wait.
    pub queue_wait: Duration,
    /// How long a peer may be silent when it is its turn to speak. Links with seconds of delay need some.
    pub silence: Duration,
    /// How long a session may take before its test begins.
    pub setup: Duration,
    /// Round-trip probes of a session.
    pub probes: u32,
    /// For peers that speak Jitlat as its document has it, on top of all others.
    pub legacy: LegacyLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packets_per_second: 250_000,
            bits_per_second: 2_000_000_000,
            duration: Duration::from_secs(25 * 3600),
            packet_bytes: 65_507,
            kept_packets: 5_000_000,
            rolling_packets_per_second: 5_000,
            sessions: 64,
            sessions_per_peer: 8,
            hellos_per_minute: 60,
            tests: 1,
            queue: 4,
            queue_wait: Duration::from_secs(600),
            silence: Duration::from_secs(30),
            setup: Duration::from_secs(300),
            probes: 1_000,
            legacy: LegacyLimits::default(),
        }
    }
}

/// Caps for peers that cannot show that they want the packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyLimits {
    /// Test packets a second.
    pub packets_per_second: u64,
    /// Bits a second of test packets' payloads.
    pub bits_per_second: u64,
    /// Length of one flow.
    pub duration: Duration,
    /// Octets of a test packet's payload.
    pub packet_bytes: u32,
    /// Least port that test packets are sent to: services live below.
    pub least_port: u16,
}

impl Default for LegacyLimits {
    fn default() -> Self {
        Self {
            packets_per_second: 10_000,
            bits_per_second: 10_000_000,
            duration: Duration::from_secs(3600),
            packet_bytes: 1_472,
            least_port: 1_024,
        }
    }
}
