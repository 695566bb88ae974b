//! Log files of Jitlat (DRDC Ottawa TM 2011-047, section 4.5 and annex A.3): text, a header and a line a packet.
//!
//! ```text
//! # Fri Jul 3 19:45:51 GMT 2009          when the file was made
//! # command SENDING                      lines 2 to 11: the workorder
//! # npkts 1000
//! # pktlen 80
//! # proto 17
//! # period 20000000
//! # src_ip 142.92.34.101
//! # dst_ip 142.92.34.101
//! # src_port 33101
//! # dst_port 2667
//! # dscp 0
//! # clock_error_ns -80000                lines 12 and 13: version two of Jitlat
//! # min_rtt_ns 3231000000
//! # direction up                         what only Quaver knows; other readers see comments
//! 0 1246650331413984400 0 1246650331414098200 0
//! ```
//!
//! The document does not print lines 12 and 13; their text is our choice, and its own words for the console are read
//! too. A row has the number of the packet in the order of receiving, sending time, sequence number, receiving time
//! and flags.

mod date;
mod facts;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use date::{date_line, parse_date_line};
pub use facts::{Ending, LogFacts, NtpErrors};
use quaver_arrivals::path::direction::Direction;
pub use read::{LogReader, is_jitlat_log, read_log};
pub use write::{LOG_PREFIX, create_log, write_log};

use quaver_abi::wire::jitlat::Command;
use std::net::{IpAddr, SocketAddr};

/// Header of a log file.
#[derive(Clone, Debug, PartialEq)]
pub struct LogHeader {
    /// First line without its `# `: date and time when the file was made, with one blank between words.
    pub created: String,
    /// What was asked: `SENDING`, or `SEND_ME` for a flow from the server to the client.
    ///
    /// It is not known which of the two Jitlat itself writes after a SEND_ME; [`LogFacts::direction`] is sure.
    pub command: Command,
    /// Packets to be sent.
    pub npkts: u64,
    /// Payload in bytes.
    pub pktlen: u32,
    /// IP protocol number: 17 or 6.
    pub proto: u32,
    /// Nanoseconds between packets.
    pub period_ns: u64,
    /// Address that packets came from.
    pub src_ip: IpAddr,
    /// Address that they went to.
    pub dst_ip: IpAddr,
    /// Port that packets came from.
    pub src_port: u16,
    /// Port that they went to.
    pub dst_port: u16,
    /// DSCP of the packets.
    pub dscp: u32,
    /// Estimated error of the clocks: server's less client's, nanoseconds. None: a log of version one.
    pub clock_error_ns: Option<i64>,
    /// Least round trip of the control connection, nanoseconds. None: a log of version one.
    pub min_rtt_ns: Option<i64>,
    /// What Jitlat's header has no place for.
    pub facts: LogFacts,
}

impl LogHeader {
    /// Where packets came from.
    pub fn source(&self) -> SocketAddr {
        SocketAddr::new(self.src_ip, self.src_port)
    }

    /// Where packets went to.
    pub fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.dst_ip, self.dst_port)
    }

    /// Packets that were really sent, as far as is known: fewer than [`LogHeader::npkts`] in an interrupted test.
    pub fn sent(&self) -> u64 {
        self.facts.sent.unwrap_or(self.npkts)
    }

    /// Which way packets went. Where the log does not say it: up for SENDING, down for SEND_ME.
    pub fn direction(&self) -> Direction {
        let by_command = if self.command == Command::SendMe { Direction::Down } else { Direction::Up };
        self.facts.direction.unwrap_or(by_command)
    }
}
