//! What the user chooses.

use super::auth::Key;
use super::figures::{ServerFigures, Shown};
use super::limits::Limits;
use super::outcome::FlowOutcome;
use quaver_abi::wire::jitlat;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{FlowSchedule, LatePolicy, StampWish, TrainWish, Transport};
use quaver_probe::source::Pace;
use quaver_probe::thread::ThreadSettings;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Addresses to listen on, each of them of its own family (IPv6 sockets take no IPv4). One of several that
    /// the host does not have is left out and reported.
    pub listen: Vec<IpAddr>,
    /// Port of control connections; 0 lets the system choose.
    pub control_port: u16,
    /// Port of test packets, UDP and TCP; 0 lets the system choose.
    pub test_port: u16,
    /// Port of OWAMP-Control, where its clients are served too; 0 lets the system choose.
    pub owamp_port: Option<u16>,
    /// Port of TWAMP-Control, likewise.
    pub twamp_port: Option<u16>,
    /// Also serve peers that speak Jitlat as its document has it. These cannot prove that they want the packets.
    pub legacy: bool,
    /// With a key, peers without it are refused, and so is legacy Jitlat.
    pub key: Option<Key>,
    /// What a peer may ask for.
    pub limits: Limits,
    /// Where receive times come from.
    pub stamps: StampWish,
    /// How its senders wait for deadlines, whatever the client would like: the CPU is this host's.
    pub pace: Pace,
    /// CPU and priority of the thread that a test's packets go through.
    pub thread: ThreadSettings,
    /// Where it shows what it has done.
    pub figures: Shown<ServerFigures>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            control_port: jitlat::CONTROL_PORT,
            test_port: jitlat::TEST_PORT,
            owamp_port: None,
            twamp_port: None,
            legacy: false,
            key: None,
            limits: Limits::default(),
            stamps: StampWish::Best,
            pace: Pace::Hybrid,
            thread: ThreadSettings::default(),
            figures: Shown::default(),
        }
    }
}

/// Which ways test packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directions {
    /// From the client to the server (SENDING).
    Up,
    /// From the server to the client (SEND_ME).
    Down,
    /// Up, and when that is over, down. Not in legacy Jitlat.
    Both,
    /// Up and down at the same time, in a session for each. Not in legacy Jitlat.
    AtOnce,
}

/// What a client measures.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The server's control port.
    pub server: SocketAddr,
    /// Speak Jitlat as its document has it.
    pub legacy: bool,
    /// Speak OWAMP (RFC 4656) instead, in unauthenticated mode.
    pub owamp: bool,
    /// Which ways.
    pub directions: Directions,
    /// What carries the test packets.
    pub transport: Transport,
    /// Bytes of a test packet's payload, from 12 (20 for a session tag to fit, 36 with a key).
    pub packet_bytes: u32,
    /// Packets each way; none: until `stop`. Legacy Jitlat needs a number.
    pub packets: Option<u64>,
    /// When packets are due. Legacy Jitlat knows only a period.
    pub schedule: FlowSchedule,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Port that test packets come from (the client's own, for the extension); 0 lets the system choose.
    pub source_port: u16,
    /// Legacy Jitlat: port that test packets go to. The extension asks the server.
    pub destination_port: u16,
    /// Round-trip probes before the test.
    pub rtt_probes: u32,
    /// Time between two of them.
    pub rtt_interval: Duration,
    /// Keep no samples: each batch is only shown as [`super::Progress::Samples`]. Upwards the server then sends
    /// samples back once a second while it measures, at limited rates. Not in legacy Jitlat.
    pub rolling: bool,
    /// Pre-shared key. The server must have the same.
    pub key: Option<Key>,
    /// How long to wait in the server's queue; zero: do not wait.
    pub queue_patience: Duration,
    /// How long to wait for the connection, and for each answer. Links with seconds of delay need some.
    pub answer_timeout: Duration,
    /// Where receive times come from.
    pub stamps: StampWish,
    /// How the sender waits for deadlines.
    pub pace: Pace,
    /// CPU and priority of the thread that test packets go through.
    pub thread: ThreadSettings,
    /// What becomes of packets whose time has passed, at either end; none: [`LatePolicy::usual`].
    pub late: Option<LatePolicy>,
    /// When a flow is over, whatever was sent of it; none: its packets alone decide.
    pub lasting: Option<Duration>,
    /// Packets that a sender gives its kernel at once.
    pub train: TrainWish,
    /// TCP: look at the segments below the transport where that is permitted.
    pub segments: bool,
}

impl ClientOptions {
    /// A flow that begins: nothing has come of it yet.
    pub(super) fn flow(
        &self,
        direction: Direction,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> FlowOutcome {
        FlowOutcome {
            direction,
            transport: self.transport,
            source,
            destination,
            packet_bytes: self.packet_bytes,
            packets: self.packets,
            schedule: self.schedule.clone(),
            lasting: self.lasting,
            dscp: self.dscp,
            singletons: Vec::new(),
            rows: 0,
            sender: None,
            receiver: None,
            send_report: None,
            departed: Vec::new(),
            moved: None,
            complete: false,
        }
    }

    /// The document's defaults: 1000 packets of 80 bytes, one each 20 ms, upwards over UDP, five probes a second
    /// apart.
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            legacy: false,
            owamp: false,
            directions: Directions::Up,
            transport: Transport::Udp,
            packet_bytes: jitlat::DEFAULT_PKTLEN,
            packets: Some(u64::from(jitlat::DEFAULT_NPKTS)),
            schedule: FlowSchedule::every(jitlat::DEFAULT_PERIOD_NS),
            dscp: 0,
            source_port: 0,
            destination_port: jitlat::TEST_PORT,
            rtt_probes: 5,
            rtt_interval: Duration::from_secs(1),
            rolling: false,
            key: None,
            queue_patience: Duration::from_secs(600),
            answer_timeout: Duration::from_secs(30),
            stamps: StampWish::Best,
            pace: Pace::Hybrid,
            thread: ThreadSettings::default(),
            late: None,
            lasting: None,
            train: TrainWish::Auto,
            segments: true,
        }
    }
}
