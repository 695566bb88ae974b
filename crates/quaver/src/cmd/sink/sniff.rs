//! What comes to an address: who sends, what the payload is, and how much room its packets will need.

use crate::exit_code::{ExitCode, failure};
use crate::interrupt::Interrupt;
use crate::quantity::Period;
use anyhow::Context;
use quaver_abi::wire::stream::StreamHeader;
use quaver_measure::host::trace::Payload;
use quaver_measure::probe::sink::{Sink, SinkOptions, classify};
use rustix::net::{RecvFlags, recvfrom};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a stream is looked at, from its first packet on.
const LOOK: Duration = Duration::from_millis(200);
/// Most packets recorded: 64 octets each, so a gibibyte.
const MOST_RECORDED: f64 = (1u64 << 24) as f64;
/// Time between looks at the interrupt flag while nothing comes.
const TICK: Duration = Duration::from_millis(1);

/// What was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sniffed {
    /// Sender of the first packet.
    pub(super) sender: SocketAddr,
    /// Whether that is an address of this host.
    pub(super) from_this_host: bool,
    /// What most of its packets are.
    pub(super) payload: Payload,
    /// Identity of the stream, where our source sends it.
    pub(super) stream_id: Option<u32>,
    /// Payload length, where it is constant.
    pub(super) payload_bytes: Option<u32>,
    /// Packets a second, roughly.
    packets_per_second: f64,
}

impl Sniffed {
    /// The stream in words.
    pub(super) fn words(&self) -> String {
        let kind = match self.payload {
            Payload::Ours { .. } => "a stream of quaver source",
            Payload::Rtp => "an RTP stream",
            Payload::Opaque => "a UDP stream",
        };
        self.payload_bytes
            .map_or_else(|| kind.to_owned(), |octets| format!("{kind} of {octets} octets a packet"))
    }

    /// Room for the packets of `length`, generously.
    pub(super) fn room(&self, period: Option<Period>, length: Duration) -> u64 {
        let asked = period.map_or(0.0, |period| 1e9 / period.ns());
        let packets = self.packets_per_second.max(asked) * length.as_secs_f64();
        (packets * 1.5 + 65_536.0).min(MOST_RECORDED) as u64
    }
}

/// Looks at the stream for a moment; none if the user ended it meanwhile.
///
/// # Errors
/// No packet comes within `patience`, or the address cannot be listened at.
pub(super) fn sniff(
    options: &SinkOptions,
    patience: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Sniffed>> {
    let socket = Sink::open(options.clone())?;
    let (start, mut first) = (Instant::now(), None);
    let mut buffer = vec![0; options.payload_capacity];
    let mut seen = Seen::default();
    loop {
        if interrupt.requested() {
            return Ok(None);
        }
        match recvfrom(socket.as_fd(), &mut buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, octets, sender)) => {
                let sender = sender.and_then(|sender| SocketAddr::try_from(sender).ok());
                seen.packet(&buffer[..octets.min(options.payload_capacity)], octets, sender);
                first.get_or_insert_with(Instant::now);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => std::thread::sleep(TICK),
            Err(error) => return Err(error).context("waiting for the first packet"),
        }
        match first {
            Some(first) if first.elapsed() >= LOOK => return seen.conclude(first.elapsed()).map(Some),
            None if start.elapsed() >= patience => return Err(nothing_came(options, patience)),
            _ => {}
        }
    }
}

fn nothing_came(options: &SinkOptions, patience: Duration) -> anyhow::Error {
    let hint = if options.bind.ip().is_multicast() {
        "; name the interface that it comes by (--interface)"
    } else {
        ""
    };
    let waited = humantime::format_duration(patience);
    let message = format!(
        "no packet came to {} within {waited}: see whether it is sent, and the firewall{hint}",
        options.bind
    );
    failure(ExitCode::Peer, message)
}

#[derive(Default)]
struct Seen {
    packets: u64,
    sender: Option<SocketAddr>,
    kinds: Vec<(Payload, u64)>,
    stream_id: Option<u32>,
    octets: Option<usize>,
    lengths_differ: bool,
}

impl Seen {
    fn packet(&mut self, payload: &[u8], octets: usize, sender: Option<SocketAddr>) {
        self.packets += 1;
        self.sender = self.sender.or(sender);
        let kind = classify(payload);
        match self.kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, times)) => *times += 1,
            None => self.kinds.push((kind, 1)),
        }
        if let Payload::Ours { offset } = kind
            && self.stream_id.is_none()
        {
            let header = payload.get(usize::from(offset)..).and_then(StreamHeader::read);
            self.stream_id = header.map(|header| header.stream_id.get());
        }
        self.lengths_differ |= *self.octets.get_or_insert(octets) != octets;
    }

    fn conclude(self, length: Duration) -> anyhow::Result<Sniffed> {
        let payload =
            self.kinds.iter().max_by_key(|(_, times)| *times).map_or(Payload::Opaque, |(kind, _)| *kind);
        let sender = self.sender.context("the system did not say who sent the first packet")?;
        Ok(Sniffed {
            sender,
            // An address can be bound where it is one of this host's only.
            from_this_host: UdpSocket::bind((sender.ip(), 0)).is_ok(),
            payload,
            stream_id: self.stream_id.filter(|_| matches!(payload, Payload::Ours { .. })),
            payload_bytes: self
                .octets
                .filter(|_| !self.lengths_differ)
                .and_then(|octets| u32::try_from(octets).ok()),
            packets_per_second: self.packets as f64 / length.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_packets_decide_what_the_stream_is() {
        let mut seen = Seen::default();
        let sender: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let mut rtp = [0; 40];
        rtp[0] = 0x80;
        rtp[1] = 96;
        seen.packet(b"stray", 5, Some(sender));
        seen.packet(&rtp, 40, Some(sender));
        seen.packet(&rtp, 40, Some(sender));
        let sniffed = seen.conclude(Duration::from_millis(300)).unwrap();
        assert_eq!((sniffed.payload, sniffed.payload_bytes), (Payload::Rtp, None));
        assert!(sniffed.from_this_host);
        assert_eq!(sniffed.room(None, Duration::from_secs(2)), 65_536 + 30);
        let period = crate::quantity::period("1ms").unwrap();
        assert_eq!(sniffed.room(Some(period), Duration::from_secs(2)), 65_536 + 3_000);
    }
}
