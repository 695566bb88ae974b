//! What the manifest of a mesh tells. Each test is a run of its own below it.

use quaver_arrivals::distribution::Distribution;
use quaver_arrivals::path::direction::Direction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts of a mesh.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeshFacts {
    /// Name of the host that measured.
    pub here: String,
    /// Ways that were measured.
    pub ways: Vec<Direction>,
    /// Rounds that began.
    pub rounds: u64,
    /// Time from the start of a round to that of the next, nanoseconds; none: they follow each other at once.
    pub every_ns: Option<u64>,
    /// Rounds that began late, since the one before had not ended.
    pub late_rounds: u64,
    /// Tests, in the order of their end.
    pub tests: Vec<MeshTest>,
    /// Pairs of meshes that other hosts measured.
    pub joined: Vec<Pair>,
}

/// A test of a mesh.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeshTest {
    /// Number of its round, from 0.
    pub round: u64,
    /// Name of the host that was measured to.
    pub host: String,
    /// DSCP asked for.
    pub dscp: u8,
    /// When it began, UTC nanoseconds of this host's clock.
    pub started_ns: i64,
    /// Name of its run in `tests/`; none where nothing was measured.
    pub run: Option<String>,
    /// Why nothing was measured, or why it was cut short; none: it went its full length.
    pub reason: Option<String>,
}

/// Packets from one host to another, of all rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// `FROM-TO`, with `-DSCP` where it is not 0; what is no letter, digit or `_` is `-`. For `--fail-if`.
    pub id: String,
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// DSCP asked for.
    pub dscp: u8,
    /// Name of the host that measured, one of the two.
    pub measured_by: String,
    /// Tests that measured something.
    pub tests: u64,
    /// Tests that measured nothing.
    pub failed: u64,
    /// Why the last of them measured nothing, or was cut short.
    pub reason: Option<String>,
    /// Packets sent.
    pub sent: u64,
    /// Packets of which no copy arrived.
    pub lost: u64,
    /// The same as a part of the packets sent; none where none was sent.
    pub loss_share: Option<f64>,
    /// Extra copies.
    pub duplicate: u64,
    /// First copies that came after one sent later.
    pub reordered: u64,
    /// PDV (RFC 5481) above the least delay of each test; none where nothing arrived.
    pub pdv: Option<Distribution>,
    /// One-way delay by one clock; none where a test's clocks are not known well enough for it.
    pub delay: Option<Distribution>,
    /// The largest bound of the clocks in these tests, nanoseconds.
    pub delay_bound_ns: Option<i64>,
}

/// Sender and receiver of packets that go one way in a test between `here` and `host`.
pub(super) fn ends<'a>(here: &'a str, host: &'a str, way: Direction) -> (&'a str, &'a str) {
    match way {
        Direction::Up => (here, host),
        Direction::Down => (host, here),
    }
}

impl Pair {
    /// 99th percentile of PDV, nanoseconds; none of fewer than 100 packets, where it would be the maximum.
    pub(super) fn pdv_p99_ns(&self) -> Option<i64> {
        self.pdv.as_ref().filter(|pdv| pdv.count >= 100).map(|pdv| pdv.p99_ns)
    }
}
