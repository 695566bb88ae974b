//! Whole captures by our own program and by others, of the same streams in turn.

use super::model::{PeerPoint, Placement};
use super::ratio::{Comparison, too_wide};
use quaver_analysis::rounds::{LEAST_STARTS, Rounds, Verdict, interval_over_starts};
use schemars::JsonSchema;
use serde::Serialize;

/// The name of our own program, and the same of the arm that it is compared with itself by.
const OURS: &str = "quaver";
const AGAIN: &str = "quaver again";

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
    /// That time over Quaver's, stream by stream, which are starts of both; none of Quaver itself.
    pub to_quaver: Option<Comparison>,
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
    keys.sort_by_key(|(placement, program)| (*placement, !program.starts_with(OURS), *program));
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
            to_quaver: (program != OURS).then(|| to_quaver(points, placement, program)),
            startup_cpu_ns: sum(|one| one.startup_cpu_ns) as f64 / own().count().max(1) as f64,
        }
    };
    keys.into_iter().map(total).collect()
}

/// One program's CPU time over Quaver's, with the reasons why that is no result.
fn to_quaver(points: &[PeerPoint], placement: Placement, program: &str) -> Comparison {
    let mut found = over_quaver(points, placement, program);
    let again = if program == AGAIN { found.clone() } else { over_quaver(points, placement, AGAIN) };
    match (again.verdict, again.interval) {
        (Verdict::Larger | Verdict::Smaller, Some(interval)) => found.refusals.push(format!(
            "{OURS} against itself: {:.2} to {:.2}, which excludes 1",
            interval.low, interval.high
        )),
        (_, Some(_)) => {}
        (_, None) => found.refusals.push(format!("{OURS} could not be compared with itself")),
    }
    found.refusals.extend(found.interval.and_then(too_wide));
    found
}

/// The same, over the streams that both captured.
fn over_quaver(points: &[PeerPoint], placement: Placement, program: &str) -> Comparison {
    let of = |program: &str, round: u32, frame_bytes: u32| {
        let same = |one: &&PeerPoint| {
            one.placement == placement
                && one.program == program
                && (one.round, one.frame_bytes) == (round, frame_bytes)
        };
        per_packet(points.iter().find(same).into_iter())
    };
    let theirs = points.iter().filter(|one| one.placement == placement && one.program == program);
    let pairs: Vec<(f64, f64)> = theirs
        .filter_map(|one| {
            Some((of(program, one.round, one.frame_bytes)?, of(OURS, one.round, one.frame_bytes)?))
        })
        .collect();
    let side = |value: fn(&(f64, f64)) -> f64| {
        let values: Vec<(usize, f64)> = pairs.iter().map(value).enumerate().collect();
        Rounds::of(&values, pairs.len()).all
    };
    let sides = [side(|pair| pair.0), side(|pair| pair.1)];
    let starts: Vec<_> = (0..pairs.len()).map(|start| start..start + 1).collect();
    let interval =
        interval_over_starts(&[&sides[0], &sides[1]], &starts, |sums| sums[0].mean() / sums[1].mean());
    let sum = |value: fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>();
    let mut found = Comparison::of(sum(|pair| pair.0) / sum(|pair| pair.1), interval);
    if pairs.len() < LEAST_STARTS {
        found.refusals.push(format!("{} of at least {LEAST_STARTS} streams", pairs.len()));
    }
    found
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

    /// Streams with these CPU times, by program.
    fn streams(times_ns: &[(&str, &[u64])]) -> Vec<PeerTotal> {
        let point = |program: &str, round: usize, ns: u64| PeerPoint {
            program: program.to_owned(),
            placement: Placement::Apart,
            round: round as u32,
            frame_bytes: 76,
            sent: 1_000,
            captured: 1_000,
            dropped: 0,
            startup_cpu_ns: 0,
            steady_sent: 1_000,
            steady_cpu_ns: ns * 1_000,
        };
        let all = times_ns.iter().flat_map(|(program, times)| {
            times.iter().enumerate().map(move |(round, ns)| point(program, round, *ns))
        });
        totals(&all.collect::<Vec<_>>())
    }

    #[test]
    fn a_ratio_to_quaver_is_a_result_only_where_quaver_equals_itself_and_the_interval_is_narrow() {
        let ours: [u64; 6] = [100, 104, 96, 102, 98, 100];
        let (again, twice) = ([101, 103, 97, 101, 99, 99], ours.map(|ns| 2 * ns));
        let found = streams(&[("quaver", &ours), ("quaver again", &again), ("tcpdump", &twice)]);
        assert_eq!(found[0].to_quaver, None);
        let [again, twice] = [1, 2].map(|at| found[at].to_quaver.as_ref().unwrap());
        assert_eq!((again.result(), twice.result()), (Some(1.0), Some(2.0)));
        assert_eq!((again.verdict, twice.verdict), (Verdict::NoDifference, Verdict::Larger));
        // Nothing is said where it differs from itself, or was not compared.
        let slower = ours.map(|ns| ns + 20);
        let found =
            streams(&[("quaver", &ours), ("quaver again", &slower), ("tcpdump", &ours.map(|ns| 2 * ns))]);
        for total in &found[1..] {
            let refusals = &total.to_quaver.as_ref().unwrap().refusals;
            assert!(refusals[0].contains("quaver against itself") && refusals.len() == 1, "{refusals:?}");
        }
        let found = streams(&[("quaver", &ours), ("tcpdump", &ours)]);
        assert_eq!(
            found[1].to_quaver.as_ref().unwrap().refusals,
            ["quaver could not be compared with itself"]
        );
        let wide = [40, 400, 60, 300, 50, 350];
        let found = streams(&[("quaver", &ours), ("quaver again", &ours), ("dumpcap", &wide)]);
        let refusals = &found[2].to_quaver.as_ref().unwrap().refusals;
        assert!(refusals.len() == 1 && refusals[0].contains("more than a factor of two"), "{refusals:?}");
        let few = &ours[..4];
        let found = streams(&[("quaver", few), ("quaver again", few), ("dumpcap", few)]);
        let refusals = &found[2].to_quaver.as_ref().unwrap().refusals;
        assert_eq!(refusals[0], "4 of at least 5 streams");
    }

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
