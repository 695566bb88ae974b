//! Flows of test packets: sent to a schedule, received with the best stamps to be had.
//!
//! A flow works on the calling thread, on a socket that is given to it, and knows nothing of the control connection
//! but the flag that an acknowledgement has come (Jitlat, 4.3.3).

mod departures;
mod drops;
mod dscp;
mod error;
mod hardware;
mod hops;
mod inbox;
mod judge;
mod observe;
mod outbox;
mod pacing;
mod packet;
mod random;
mod receive;
mod records;
mod report;
mod schedule;
mod segments;
mod send;
mod socket;
mod spec;
mod summary;
mod train;

pub use drops::SocketDrops;
pub use dscp::DscpChanges;
pub use error::FlowError;
pub use hops::{HopChange, HopSummary, Hops, MOST_HOP_CHANGES};
pub use observe::{ConnectionCounters, SegmentReport};
pub use pacing::{Pacing, PacingCounts};
pub use receive::{prepare_receive, receive_flow};
pub use report::{ReceiveEnd, ReceiveReport, Received, SendEnd, SendReport, TransmitStamp, TransmitStamps};
pub use schedule::{FlowSchedule, HIGH_RATE_PERIOD_NS, LEAST_MEAN_NS, LEAST_PERIOD_NS, LatePolicy, Offsets};
pub use segments::{Segment, SegmentCounts, SegmentStream, Side, read_segment};
pub use send::send_flow;
pub use socket::{TestListener, TestSocket};
pub use spec::{
    AUTHENTICATION_BYTES, AcceptFrom, FlowSpec, LEAST_PACKET_BYTES, MOST_DATAGRAM_BYTES, MOST_RECORD_BYTES,
    MOST_STAMPS_KEPT, PacketAuthenticator, SESSION_TAG_BYTES, StampSource, StampWish, TrainWish, Transport,
};
pub use summary::{
    DepartureSummary, Lateness, ReceiverSummary, SegmentSummary, SenderSummary, SendingSummary,
};
pub use train::MOST_IN_TRAIN;

#[cfg(test)]
mod tests;
