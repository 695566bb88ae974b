//! Flows in captured packets, and what happened to them: rate, ΔT, loss, order, delay and its variation, and the time
//! that packets took from layer to layer.
//!
//! [`FlowTable`] takes packets one by one, in memory that is bounded by its [`TableSettings`]; so it serves a capture that is
//! going on and a file alike. Who decodes frames is told in `docs/architecture.md`: here come [`FrameFacts`].

mod cuts;
mod figures;
mod flow;
mod layers;
mod numbering;
mod pairs;
mod parts;
mod payload;
mod recent;
mod sequence;
mod settings;
mod spread;
mod steps;
mod table;

pub use figures::{
    Beyond, CaptureFigures, DelayFigures, DelayKind, Departed, FlowFigures, LayerFigures, PairFigures,
    RecentFigures, SequenceCounts, SpreadFigures, StageFigures,
};
pub use payload::{Payload, ProbeFacts, StreamFacts};
pub use settings::TableSettings;
pub use steps::ClockStep;
pub use table::FlowTable;

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What a decoder found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    /// Bytes on the wire, as the capture counts them.
    pub octets: u32,
    /// What is above the link; none of frames that carry no IP or cannot be decoded.
    pub network: Option<NetworkFacts>,
    /// A further datagram of a train: of the frame before it, which counts once, and a packet of its flow.
    pub of_train: bool,
}

/// What a packet is in, beside the network: the innermost, where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tunnel {
    /// VXLAN (RFC 7348), with its network identifier.
    Vxlan(u32),
    /// Geneve (RFC 8926), likewise.
    Geneve(u32),
    /// GRE (RFC 2784), with the key of RFC 2890, if it has one.
    Gre(Option<u32>),
    /// IP in IP (RFC 2003, RFC 4213).
    Ip,
}

impl std::fmt::Display for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vxlan(id) => write!(f, "VXLAN {id}"),
            Self::Geneve(id) => write!(f, "Geneve {id}"),
            Self::Gre(Some(key)) => write!(f, "GRE {key}"),
            Self::Gre(None) => f.write_str("GRE"),
            Self::Ip => f.write_str("IP"),
        }
    }
}

/// What is above the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkFacts {
    /// Sender's address.
    pub source: IpAddr,
    /// Receiver's address.
    pub destination: IpAddr,
    /// What these are in; addresses and all below are those inside.
    pub tunnel: Option<Tunnel>,
    /// IP protocol number: 6 TCP, 17 UDP.
    pub protocol: u8,
    /// Sender's port; none where the protocol has none or a fragment does not tell.
    pub source_port: Option<u16>,
    /// Receiver's port, likewise.
    pub destination_port: Option<u16>,
    /// A part of a datagram; what it carries is not known but of the first.
    pub fragment: bool,
    /// Which part of which datagram, where that is known.
    pub part: Option<DatagramPart>,
    /// Bytes that the transport carries; none where it is not known.
    pub payload_octets: Option<u32>,
    /// Of these, bytes that the snap length cut; those of the rest of a train are behind its last datagram with a header.
    pub cut_octets: u32,
    /// What they are.
    pub payload: Payload,
}

/// A part of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramPart {
    /// Number that all parts of the datagram bear: 16 bits of IPv4, 32 of IPv6.
    pub id: u32,
    /// It is the first, and has the header of the transport.
    pub first: bool,
}

/// What a flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// RTP (RFC 3550), one synchronisation source.
    Rtp,
    /// Packets of `quaver source`.
    Stream,
    /// Test packets of a path: Jitlat's, and those of its extension.
    Probe,
    /// STAMP towards the reflector (RFC 8762).
    Stamp,
    /// STAMP from the reflector.
    StampReply,
    /// Anything else.
    Other,
}

impl FlowKind {
    /// The word for it on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rtp => "RTP",
            Self::Stream => "quaver source",
            Self::Probe => "quaver probe",
            Self::Stamp => "STAMP",
            Self::StampReply => "STAMP reply",
            Self::Other => "",
        }
    }
}

/// What makes packets one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FlowKey {
    /// Sender's address.
    pub source: IpAddr,
    /// Sender's port.
    pub source_port: Option<u16>,
    /// Receiver's address.
    pub destination: IpAddr,
    /// Receiver's port.
    pub destination_port: Option<u16>,
    /// IP protocol number.
    pub protocol: u8,
    /// What it carries.
    pub kind: FlowKind,
    /// Synchronisation source of RTP, number of a stream of ours, session of STAMP.
    pub id: Option<u32>,
    /// Of RTP: how often the sender had begun its numbers anew (RFC 3550, appendix A.1).
    #[serde(default)]
    pub restart: u32,
    /// What its packets are in.
    #[serde(default)]
    pub tunnel: Option<Tunnel>,
    /// How often the capturing clock had been set back before it: no flow goes on over a step.
    #[serde(default)]
    pub clock_step: u32,
}

#[cfg(test)]
mod tests;
