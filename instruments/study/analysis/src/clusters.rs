//! Clusters of ΔT at the application, and which way through the code the packets of each took (Chasing, figure 7b: "each
//! cluster could correspond to a possible code path").

use super::stamps::{StampTable, path_flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Width of a bin of linear histograms, nanoseconds.
pub const LINEAR_BIN_NS: i64 = 20;
/// Bins to each side over which a count is averaged before peaks are looked for.
const SMOOTH: usize = 3;
/// A peak that holds a smaller share is no cluster of its own.
const LEAST_SHARE: f64 = 0.002;
/// Two peaks are two clusters where the count between them falls below this share of the lower one.
const VALLEY: f64 = 0.6;
/// Most clusters that are told.
const MOST_CLUSTERS: usize = 12;
/// Most paths that are told of a cluster, or at all.
const MOST_PATHS: usize = 8;

/// Packets that went the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodePath {
    /// Which way, in words.
    pub words: String,
    /// Share of all packets (of a cluster's packets where it stands in one).
    pub share: f64,
    /// Median ΔT of these at the application, nanoseconds.
    pub p50_ns: f64,
}

/// How much one part of the way adds to ΔT, on average over a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagePart {
    /// Which part.
    pub stage: String,
    /// Mean of what this packet took longer in it than the one before, nanoseconds. Of the sender: its ΔT less the period.
    pub mean_ns: f64,
}

/// ΔT that lie together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// From this ΔT on, nanoseconds.
    pub low_ns: i64,
    /// Up to this one, not included.
    pub high_ns: i64,
    /// Share of all ΔT.
    pub share: f64,
    /// Median.
    pub p50_ns: f64,
    /// Ways that its packets took, the most frequent first.
    pub paths: Vec<CodePath>,
    /// Where its ΔT comes from. They add up to the mean ΔT less the period.
    pub stages: Vec<StagePart>,
}

/// Ways and clusters of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodePaths {
    /// ΔT looked at.
    pub packets: u64,
    /// Ways, the most frequent first.
    pub paths: Vec<CodePath>,
    /// Clusters, ascending.
    pub clusters: Vec<Cluster>,
}

/// One ΔT with its way.
struct Step {
    delta_ns: i64,
    path: u16,
    stages: Option<[i64; STAGES.len()]>,
}

const STAGES: [&str; 6] = [
    "the sender",
    "from the send call to the interrupt or softirq",
    "from the interrupt to the softirq",
    "from the softirq to the stack",
    "from the stack to the socket's queue",
    "from the queue to the application",
];
/// Set in a [`Step`]'s path where the packet before had been disturbed, so that this one seems early.
const AFTER: u16 = 1 << 14;
const DISTURBED: u16 = path_flags::SINK_TICK
    | path_flags::SINK_INTERRUPT
    | path_flags::SINK_SOFTIRQ
    | path_flags::SINK_THREAD
    | path_flags::STACK_DISTURBED;

/// Counts of ΔT in bins of [`LINEAR_BIN_NS`] from 0; the last holds all that is larger, the first what is below 0.
pub fn linear_bins(deltas: &[i64], bins: usize) -> Vec<u32> {
    let mut counts = vec![0u32; bins.max(1)];
    let last = counts.len() - 1;
    for delta in deltas {
        let bin = usize::try_from(delta.max(&0) / LINEAR_BIN_NS).unwrap_or(last).min(last);
        counts[bin] = counts[bin].saturating_add(1);
    }
    counts
}

/// Ways and clusters of a cell; none where nobody saw the ways, or of fewer than 100 packets.
pub fn code_paths(table: &StampTable, period_ns: f64) -> Option<CodePaths> {
    let steps = steps(table, period_ns);
    if steps.len() < 100 || steps.iter().all(|step| step.path & path_flags::UNSEEN != 0) {
        return None;
    }
    let deltas: Vec<i64> = steps.iter().map(|step| step.delta_ns).collect();
    let bins = (3.0 * period_ns / LINEAR_BIN_NS as f64).ceil() as usize + 1;
    let edges = edges(&linear_bins(&deltas, bins));
    let all: Vec<&Step> = steps.iter().collect();
    let cluster = |pair: &[i64]| {
        let (low_ns, high_ns) = (pair[0], pair[1]);
        let own: Vec<&Step> =
            steps.iter().filter(|step| (low_ns..high_ns).contains(&step.delta_ns.max(0))).collect();
        (own.len() as f64 >= LEAST_SHARE * steps.len() as f64).then(|| Cluster {
            low_ns,
            high_ns,
            share: own.len() as f64 / steps.len() as f64,
            p50_ns: median(own.iter().map(|step| step.delta_ns)),
            paths: paths(&own),
            stages: stages(&own),
        })
    };
    let mut clusters: Vec<Cluster> = edges.windows(2).filter_map(cluster).collect();
    while clusters.len() > MOST_CLUSTERS {
        let least = (0..clusters.len()).min_by(|a, b| clusters[*a].share.total_cmp(&clusters[*b].share));
        clusters.remove(least.unwrap_or(0));
    }
    Some(CodePaths { packets: steps.len() as u64, paths: paths(&all), clusters })
}

fn steps(table: &StampTable, period_ns: f64) -> Vec<Step> {
    let mut found = Vec::new();
    for at in 1..table.len() {
        let before = at - 1;
        let (now, then) = (table.application_ns[at], table.application_ns[before]);
        if table.key[before] + 1 != table.key[at] || now == 0 || then == 0 {
            continue;
        }
        let after = if table.path[before] & DISTURBED != 0 { AFTER } else { 0 };
        let chain = |row: usize| {
            let isr = table.isr_ns[row];
            let first = if isr != 0 { isr } else { table.softirq_ns[row] };
            let known = [
                table.sent_ns[row],
                first,
                table.softirq_ns[row],
                table.stack_ns[row],
                table.queued_ns[row],
                table.application_ns[row],
            ];
            known.iter().all(|ns| *ns != 0).then_some(known)
        };
        let stages = chain(before).zip(chain(at)).map(|(earlier, later)| {
            let mut parts = [0; STAGES.len()];
            parts[0] = later[0] - earlier[0] - period_ns.round() as i64;
            for stage in 1..STAGES.len() {
                parts[stage] = (later[stage] - later[stage - 1]) - (earlier[stage] - earlier[stage - 1]);
            }
            parts
        });
        found.push(Step { delta_ns: now - then, path: table.path[at] | after, stages });
    }
    found
}

/// Where clusters begin and end: the least counts between peaks, and both ends.
fn edges(counts: &[u32]) -> Vec<i64> {
    let smooth: Vec<f64> = (0..counts.len())
        .map(|at| {
            let window = &counts[at.saturating_sub(SMOOTH)..(at + SMOOTH + 1).min(counts.len())];
            window.iter().map(|count| f64::from(*count)).sum::<f64>() / window.len() as f64
        })
        .collect();
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let enough = total * LEAST_SHARE / (4.0 * SMOOTH as f64);
    let mut found = vec![0];
    let mut peak: Option<f64> = None;
    let (mut lowest, mut lowest_at) = (f64::INFINITY, 0);
    for (at, &count) in smooth.iter().enumerate() {
        match peak {
            None if count >= enough => peak = Some(count),
            None => {}
            Some(height) => {
                if count < lowest {
                    (lowest, lowest_at) = (count, at);
                }
                if lowest < VALLEY * height.min(count) && count >= enough {
                    found.push(lowest_at as i64 * LINEAR_BIN_NS);
                    (peak, lowest) = (Some(count), count);
                } else if count > height {
                    (peak, lowest) = (Some(count), count);
                }
            }
        }
    }
    found.push(i64::MAX);
    found
}

fn paths(steps: &[&Step]) -> Vec<CodePath> {
    let mut groups: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
    for step in steps {
        groups.entry(step.path).or_default().push(step.delta_ns);
    }
    let mut found: Vec<CodePath> = groups
        .into_iter()
        .map(|(path, deltas)| CodePath {
            words: words(path),
            share: deltas.len() as f64 / steps.len().max(1) as f64,
            p50_ns: median(deltas.into_iter()),
        })
        .collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.words.cmp(&b.words)));
    found.truncate(MOST_PATHS);
    found
}

fn stages(steps: &[&Step]) -> Vec<StagePart> {
    let known: Vec<&[i64; STAGES.len()]> = steps.iter().filter_map(|step| step.stages.as_ref()).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mean = |stage: usize| known.iter().map(|parts| parts[stage] as f64).sum::<f64>() / known.len() as f64;
    let part = |(at, name): (usize, &&str)| StagePart { stage: (*name).to_owned(), mean_ns: mean(at) };
    STAGES.iter().enumerate().map(part).collect()
}

fn median(values: impl Iterator<Item = i64>) -> f64 {
    let mut values: Vec<i64> = values.collect();
    if values.is_empty() {
        return 0.0;
    }
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable(middle).1 as f64
}

/// A way in words.
fn words(path: u16) -> String {
    if path & path_flags::UNSEEN != 0 {
        return "not seen".to_owned();
    }
    let known = [
        (path_flags::BATCHED, "in the softirq run of the packet before"),
        (path_flags::SOFTIRQ_THREAD, "softirq in ksoftirqd"),
        (path_flags::SINK_SLEPT, "sink woken"),
        (path_flags::SINK_TICK, "timer interrupt on the sink's CPU"),
        (path_flags::SINK_INTERRUPT, "interrupt on the sink's CPU"),
        (path_flags::SINK_SOFTIRQ, "softirq on the sink's CPU"),
        (path_flags::SINK_THREAD, "another thread on the sink's CPU"),
        (path_flags::STACK_DISTURBED, "interrupt or thread on the stack's CPU"),
        (AFTER, "after a disturbed packet"),
    ];
    let found: Vec<&str> =
        known.iter().filter(|(flag, _)| path & flag != 0).map(|(_, words)| *words).collect();
    if found.is_empty() { "nothing else seen".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets each 7.41 us, of which every tenth is held up by a timer interrupt of 3 us and the next one seems early.
    fn table() -> StampTable {
        let mut table = StampTable::default();
        for number in 0..10_000u64 {
            let sent = 1_000_000 + number as i64 * 7_410;
            let held = if number % 10 == 5 { 3_000 } else { 0 };
            table.key.push(number);
            table.sent_ns.push(sent);
            table.isr_ns.push(0);
            table.softirq_ns.push(sent + 300);
            table.stack_ns.push(sent + 500);
            table.queued_ns.push(sent + 700);
            table.application_ns.push(sent + 1_000 + held + (number as i64 * 7) % 60);
            table.path.push(if held > 0 { path_flags::SINK_TICK } else { 0 });
        }
        table
    }

    #[test]
    fn clusters_are_told_apart_and_tied_to_their_ways() {
        let found = code_paths(&table(), 7_410.0).unwrap();
        assert_eq!(found.packets, 9_999);
        let middles: Vec<i64> =
            found.clusters.iter().map(|one| (one.p50_ns / 100.0).round() as i64).collect();
        assert_eq!(middles, [44, 74, 104], "{found:#?}");
        let first = |at: usize| found.clusters[at].paths[0].words.as_str();
        assert_eq!(
            [first(0), first(1), first(2)],
            ["after a disturbed packet", "nothing else seen", "timer interrupt on the sink's CPU"]
        );
        assert!(found.clusters.iter().all(|one| one.paths[0].share > 0.99), "{found:#?}");
        assert!((found.clusters.iter().map(|one| one.share).sum::<f64>() - 1.0).abs() < 1e-12);
        for cluster in &found.clusters {
            let sum: f64 = cluster.stages.iter().map(|part| part.mean_ns).sum();
            assert!((sum - (cluster.p50_ns - 7_410.0)).abs() < 40.0, "{cluster:#?}");
            let most = cluster.stages.iter().max_by(|a, b| a.mean_ns.abs().total_cmp(&b.mean_ns.abs()));
            if cluster.p50_ns < 7_000.0 || cluster.p50_ns > 8_000.0 {
                assert_eq!(most.unwrap().stage, "from the queue to the application");
            }
        }
        assert_eq!(found.paths[0].words, "nothing else seen");
        assert!((found.paths[0].share - 0.8).abs() < 0.001);
    }

    #[test]
    fn nothing_is_told_of_packets_that_nobody_traced() {
        let mut table = table();
        table.path.fill(path_flags::UNSEEN);
        assert_eq!(code_paths(&table, 7_410.0), None);
        assert_eq!(code_paths(&StampTable::default(), 7_410.0), None);
    }

    #[test]
    fn linear_bins_keep_every_delta() {
        assert_eq!(linear_bins(&[-5, 0, 19, 20, 41, 1_000_000], 3), [3, 1, 2]);
    }
}
