//! Whole captures by our own program and by others, of the same streams in turn.

use super::model::{PeerPoint, Placement};
use schemars::JsonSchema;
use serde::Serialize;

/// All streams that one program captured under one placement.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PeerTotal {
    /// Where softirq and capture ran.
    pub placement: Placement,
    /// Program.
    pub program: String,
    /// Packets sent.
    pub sent: u64,
    /// Captured, by the program's own count.
    pub captured: u64,
    /// Dropped, by the program's own count.
    pub dropped: u64,
    /// Sent, and neither captured nor told as dropped. Negative where a program counts drops twice or of others.
    pub unaccounted: i64,
    /// CPU time at steady state, nanoseconds a captured packet; none where nothing was captured.
    pub cpu_ns_per_packet: Option<f64>,
    /// Least and most of the single streams.
    pub cpu_range_ns: Option<(f64, f64)>,
    /// CPU time of a start until the program captures, nanoseconds; mean.
    pub startup_cpu_ns: f64,
}

/// Sums: our own first, then by name.
pub(super) fn totals(points: &[PeerPoint]) -> Vec<PeerTotal> {
    let mut keys: Vec<(Placement, &str)> = Vec::new();
    for point in points {
        let key = (point.placement, point.program.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // Programs take turns at going first; the table must not.
    keys.sort_by_key(|(placement, program)| (*placement, *program != "quaver", *program));
    let total = |(placement, program): (Placement, &str)| {
        let own = || points.iter().filter(|one| one.placement == placement && one.program == program);
        let sum = |of: fn(&PeerPoint) -> u64| own().map(of).sum::<u64>();
        let (sent, captured) = (sum(|one| one.sent), sum(|one| one.captured));
        let dropped = sum(|one| one.dropped);
        PeerTotal {
            placement,
            program: program.to_owned(),
            sent,
            captured,
            dropped,
            unaccounted: sent as i64 - captured as i64 - dropped as i64,
            cpu_ns_per_packet: per_packet(own()),
            cpu_range_ns: own().filter_map(|one| per_packet(std::iter::once(one))).fold(None, |range, ns| {
                let (low, high) = range.unwrap_or((ns, ns));
                Some((ns.min(low), ns.max(high)))
            }),
            startup_cpu_ns: sum(|one| one.startup_cpu_ns) as f64 / own().count().max(1) as f64,
        }
    };
    keys.into_iter().map(total).collect()
}

/// CPU time of the steady parts over the packets captured in them, at each stream's share of captured packets.
fn per_packet<'a>(points: impl Iterator<Item = &'a PeerPoint>) -> Option<f64> {
    let (packets, ns) = points.fold((0.0, 0.0), |(packets, ns), one| {
        let share = one.captured as f64 / one.sent.max(1) as f64;
        (packets + one.steady_sent as f64 * share, ns + one.steady_cpu_ns as f64)
    });
    (packets > 0.0).then(|| ns / packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_conserve_packets_and_put_our_own_first() {
        let point = |program: &str, round, captured, dropped| PeerPoint {
            program: program.to_owned(),
            placement: Placement::Apart,
            round,
            frame_bytes: 76,
            sent: 1_000,
            captured,
            dropped,
            startup_cpu_ns: 20_000_000,
            steady_sent: 900,
            steady_cpu_ns: 450_000,
        };
        let points = [
            point("dumpcap", 0, 990, 10),
            point("quaver", 0, 1_000, 0),
            point("quaver", 1, 900, 70),
            point("tcpdump", 0, 0, 0),
        ];
        let found = totals(&points);
        let names: Vec<&str> = found.iter().map(|one| one.program.as_str()).collect();
        assert_eq!(names, ["quaver", "dumpcap", "tcpdump"]);
        assert_eq!((found[0].sent, found[0].captured, found[0].dropped), (2_000, 1_900, 70));
        assert_eq!((found[0].unaccounted, found[1].unaccounted), (30, 0));
        let ours = found[0].cpu_ns_per_packet.unwrap();
        assert!((ours - 900_000.0 / (900.0 + 810.0)).abs() < 1e-9, "start-up is no part of it: {ours}");
        let (low, high) = found[0].cpu_range_ns.unwrap();
        assert!((low - 500.0).abs() < 1e-9 && (high - 450_000.0 / 810.0).abs() < 1e-9);
        assert_eq!(found[0].startup_cpu_ns, 20e6);
        assert_eq!((found[2].unaccounted, found[2].cpu_ns_per_packet), (1_000, None));
    }
}
