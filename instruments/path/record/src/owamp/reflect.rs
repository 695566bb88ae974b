//! The reflector of a two-way session: it answers one socket of the peer that holds the control connection.

use crate::control::at_port;
use crate::error::PathError;
use crate::stamp::{LONGEST_WAIT, MOST_BYTES, StampSocket, TimestampFormat, error_estimate};
use quaver_abi::wire::owamp::LEAST_TEST_BYTES;
use quaver_abi::wire::stamp::{LIGHT_BYTES, Mode, ReflectorPacket, SenderPacket};
use quaver_clock::{monotonic_ns, realtime_ns};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Ports below this belong to services.
pub(super) const LEAST_PORT: u16 = 1_024;
/// Packets taken before the stop flag is looked at again.
const MOST_AT_ONCE: u32 = 256;
/// As many packets as are due in this time may come at once, nanoseconds.
const BURST_NS: i64 = 1_000_000_000;

const BASE_BYTES: usize = Mode::Unauthenticated.base_bytes();

/// A session's reflector.
#[derive(Debug)]
pub(super) struct Reflector {
    socket: StampSocket,
    peer: SocketAddr,
    /// Traffic class of the replies.
    class: u8,
    per_second: u64,
}

/// Packets of a session.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) reflected: AtomicU64,
    /// Too short, or above the rate.
    pub(super) refused: AtomicU64,
}

impl Reflector {
    /// At the address `here`, on its port if that is free, for packets of `peer`.
    pub(super) fn open(
        here: SocketAddr,
        peer: SocketAddr,
        dscp: u8,
        per_second: u64,
    ) -> Result<Self, PathError> {
        let wanted = (here.port() >= LEAST_PORT).then(|| StampSocket::bind(here).ok()).flatten();
        let socket = wanted.map_or_else(|| StampSocket::bind(at_port(here, 0)), Ok)?;
        // From now on the kernel lets nobody else's packets in.
        socket.connect(peer)?;
        socket.count_hops()?;
        Ok(Self { socket, peer, class: dscp << 2, per_second })
    }

    pub(super) fn port(&self) -> Result<u16, PathError> {
        Ok(self.socket.local_address()?.port())
    }

    /// Answers until `stop` is set, which is seen within 50 ms.
    pub(super) fn run(&self, stop: &AtomicBool, counts: &Counts) {
        let (mut buffer, mut reply) = (vec![0; MOST_BYTES], Vec::with_capacity(MOST_BYTES));
        let (mut sequence, mut due_ns) = (0u32, monotonic_ns());
        let gap_ns = 1_000_000_000 / self.per_second.max(1).cast_signed();
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..MOST_AT_ONCE {
                let arrival = match self.socket.receive(&mut buffer) {
                    Ok(arrival) => arrival,
                    Err(Errno::AGAIN) => break,
                    // The answer to an earlier reply, such as a refused port.
                    Err(_) => continue,
                };
                let (request, now_ns) = (&buffer[..arrival.octets], monotonic_ns());
                if request.len() < LEAST_TEST_BYTES || due_ns - now_ns >= BURST_NS {
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                due_ns = due_ns.max(now_ns) + gap_ns;
                compose(request, arrival.ttl.unwrap_or(0), arrival.received_ns, sequence, &mut reply);
                // What does not leave is lost, like any other packet.
                if self.socket.reply(&reply, self.peer, arrival.to, self.class).is_ok() {
                    sequence = sequence.wrapping_add(1);
                    counts.reflected.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.socket.wait(LONGEST_WAIT);
        }
    }
}

/// Writes the reply to `request` (RFC 5357, section 4.2.1): as long as that, but for the 41 bytes that it needs.
pub(crate) fn compose(request: &[u8], ttl: u8, received_ns: i64, sequence: u32, reply: &mut Vec<u8>) {
    let mut base = [0; BASE_BYTES];
    let there = request.len().min(LEAST_TEST_BYTES);
    base[..there].copy_from_slice(&request[..there]);
    let Ok(asked) = SenderPacket::read(Mode::Unauthenticated, &base) else { return };
    reply.clear();
    reply.extend_from_slice(request);
    reply.resize(request.len().max(BASE_BYTES), 0);
    let format = TimestampFormat::Ntp;
    let answer = ReflectorPacket {
        sequence,
        receive_timestamp: format.encode(received_ns),
        sender_sequence: asked.sequence,
        sender_timestamp: asked.timestamp,
        sender_error_estimate: asked.error_estimate,
        sender_ttl: ttl,
        ssid: 0,
        error_estimate: error_estimate(format),
        timestamp: format.encode(realtime_ns()),
    };
    // There is room for a base packet.
    let _ = answer.write(Mode::Unauthenticated, reply);
    reply.truncate(request.len().max(LIGHT_BYTES));
}
