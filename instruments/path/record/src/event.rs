//! What happens, as it happens.

use super::outcome::Protocol;
use quaver_arrivals::path::clocks::RttProbe;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::Received;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// How a client gets on.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The control connection stands.
    Connected {
        /// The server's end.
        server: SocketAddr,
        /// This end.
        client: SocketAddr,
    },
    /// A round trip was measured.
    Probe(RttProbe),
    /// The server measures for others; so many are before us.
    Queued {
        /// 1 for the next one.
        place: u32,
    },
    /// A flow begins.
    Started {
        /// Which way.
        direction: Direction,
        /// Where packets come from.
        source: SocketAddr,
        /// Where they go.
        destination: SocketAddr,
    },
    /// Test packets were received: here, or at the server and told by it.
    Samples {
        /// Which way they went.
        direction: Direction,
        /// In order of arrival.
        samples: &'a [Received],
    },
    /// A flow has ended; results may follow.
    Ended {
        /// Which way.
        direction: Direction,
    },
}

/// A line of a server's log. `Display` gives the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// The server is there.
    Listening {
        /// Of control connections.
        control: SocketAddr,
        /// Of test packets.
        test: SocketAddr,
    },
    /// The server is there for clients of OWAMP-Control or TWAMP-Control too.
    ListeningFor {
        /// Which.
        protocol: &'static str,
        /// Of control connections.
        control: SocketAddr,
    },
    /// An address that could not be listened on, beside others that could.
    NotListening {
        /// The address.
        address: IpAddr,
        /// The system's words.
        reason: String,
    },
    /// A connection was closed before a word was read.
    TurnedAway {
        /// Who.
        peer: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A well-formed request was refused with NAK or REFUSE.
    Refused {
        /// Who.
        peer: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A message that is none, or came at the wrong time; NAK was sent, or nothing.
    Hostile {
        /// Who.
        peer: SocketAddr,
        /// What.
        what: String,
    },
    /// A test waits for others to end.
    Queued {
        /// Who.
        peer: SocketAddr,
        /// 1 for the next.
        place: u32,
    },
    /// A flow begins.
    Started {
        /// Who.
        peer: SocketAddr,
        /// What is spoken.
        protocol: Protocol,
        /// Which way.
        direction: Direction,
        /// What, in words.
        flow: String,
    },
    /// A flow ended.
    Ended {
        /// Who.
        peer: SocketAddr,
        /// Which way.
        direction: Direction,
        /// Packets sent or received.
        packets: u64,
    },
    /// The packets of a client came from another port of its host.
    Moved {
        /// Who.
        peer: SocketAddr,
        /// Where they came from at last.
        to: SocketAddr,
        /// How often that changed.
        times: u32,
    },
    /// A session broke off: the peer went away, fell silent, or the system failed.
    BrokenOff {
        /// Who.
        peer: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A session was closed in order.
    Closed {
        /// Who.
        peer: SocketAddr,
    },
    /// Events that came too fast to be told one by one.
    Suppressed {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { control, test } => {
                write!(
                    f,
                    "listening on {control} for control connections, port {} for test packets",
                    test.port()
                )
            }
            Self::ListeningFor { protocol, control } => write!(f, "listening on {control} for {protocol}"),
            Self::NotListening { address, reason } => write!(f, "not listening on {address}: {reason}"),
            Self::TurnedAway { peer, reason } => write!(f, "{peer}: turned away: {reason}"),
            Self::Refused { peer, reason } => write!(f, "{peer}: refused: {reason}"),
            Self::Hostile { peer, what } => write!(f, "{peer}: {what}; closed"),
            Self::Queued { peer, place } => write!(f, "{peer}: waits, place {place}"),
            Self::Started { peer, protocol, direction, flow } => {
                let protocol = match protocol {
                    Protocol::Legacy => "Jitlat",
                    Protocol::Extended(_) => "extension",
                    Protocol::Owamp => "OWAMP",
                    Protocol::Twamp => "TWAMP",
                };
                write!(f, "{peer}: test {} ({protocol}): {flow}", direction.name())
            }
            Self::Ended { peer, direction, packets } => {
                write!(f, "{peer}: test {} ended after {packets} packets", direction.name())
            }
            Self::Moved { peer, to, times } => {
                write!(f, "{peer}: its datagrams moved to another port ({times} in all), at last to {to}")
            }
            Self::BrokenOff { peer, reason } => write!(f, "{peer}: broken off: {reason}"),
            Self::Closed { peer } => write!(f, "{peer}: done"),
            Self::Suppressed { count } => write!(f, "{count} more events, too many to tell"),
        }
    }
}
