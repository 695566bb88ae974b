//! What a reflector tells.

use std::fmt;
use std::net::SocketAddr;
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// Why a packet is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Refusal {
    /// Fewer bytes than a reply has: answering would amplify.
    Short,
    /// Its HMAC is wrong.
    WrongHmac,
    /// It repeats a stamp of ours, as a reply does, or comes from a port that only servers have.
    Looping,
    /// Above the rate of all peers.
    Rate,
    /// Above the rate of one peer.
    PeerRate,
    /// No room for another session.
    Sessions,
    /// Too many sessions of one peer.
    PeerSessions,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// A word for labels.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "too short for a reply that is no larger",
            Self::WrongHmac => "its HMAC is wrong: the keys differ, or somebody changed it",
            Self::Looping => "it answers us, or comes from our own port as an answer would",
            Self::Rate => "above the rate for all peers together",
            Self::PeerRate => "above the rate for one peer",
            Self::Sessions => "too many sessions",
            Self::PeerSessions => "too many sessions of this peer",
        })
    }
}

/// A line of a reflector's log. `Display` gives the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReflectorEvent {
    /// The reflector is there.
    Listening {
        /// Where.
        address: SocketAddr,
        /// Whether the kernel stamps what is received.
        kernel_stamps: bool,
    },
    /// A session began.
    Session {
        /// Sender.
        peer: SocketAddr,
        /// Its session identifier; 0 where it has none.
        ssid: u16,
    },
    /// Something was not answered.
    Refused {
        /// Who sent it.
        peer: SocketAddr,
        /// Why.
        refusal: Refusal,
    },
    /// Packets came and found no room in the socket's receive buffer.
    Dropped {
        /// How many.
        count: u64,
    },
    /// A reply could not be sent.
    NotSent {
        /// To whom.
        peer: SocketAddr,
        /// The system's words.
        reason: String,
    },
    /// Events that came too fast to be told one by one.
    Suppressed {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for ReflectorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { address, kernel_stamps } => {
                let by = if *kernel_stamps { "the kernel" } else { "this program" };
                write!(f, "reflecting STAMP on {address}, receive stamps by {by}")
            }
            Self::Session { peer, ssid } => write!(f, "{peer}: STAMP session {ssid}"),
            Self::Refused { peer, refusal } => write!(f, "{peer}: not reflected: {refusal}"),
            Self::Dropped { count } => {
                write!(f, "{count} packets not reflected: this host's receive buffer had no room for them")
            }
            Self::NotSent { peer, reason } => write!(f, "{peer}: reply not sent: {reason}"),
            Self::Suppressed { count } => write!(f, "{count} more events, too many to tell"),
        }
    }
}

/// What a reflector did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReflectorTotals {
    /// Packets received.
    pub received: u64,
    /// Packets that found no room in the socket's receive buffer, and so were not received.
    pub dropped: u64,
    /// Sessions that began.
    pub sessions: u64,
    /// Replies sent.
    pub reflected: u64,
    /// Replies that the system would not send.
    pub not_sent: u64,
    /// Packets not answered, in the order of [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
}
