//! Stored runs of `quaver noise`.

use crate::digest::{self, NoiseDigest};
use quaver_analysis::attribution::NoiseAnalysis;
use quaver_analysis::model::NoiseLoop;
use quaver_analysis::summary::NoiseCpu;
use quaver_instrument::material::{CauseTime, Material, Samples, Stated, cause_times};
use quaver_instrument::pieces::{COLUMNS, write_piece};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::runs::ExportArgs;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Runs of gaps of loops.
pub(crate) struct GapRuns;

impl RunKind for GapRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["noise"]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for packets; the threshold of a noise run holds from its recording on")
    }

    fn headline(&self) -> &'static [&'static str] {
        &["cpus.0.available_share"]
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/noise.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Gaps(digest::analyze(run)?)))
    }
}

struct Gaps(NoiseDigest);

/// The part of their time that the loops of all CPUs had, as osnoise states it.
fn available(cpus: &[NoiseCpu]) -> Stated {
    let sum = |of: fn(&NoiseCpu) -> i64| cpus.iter().map(of).sum::<i64>() as f64;
    let runtime_ns = sum(|cpu| cpu.runtime_ns);
    let share = 1.0 - sum(|cpu| cpu.noise_ns) / runtime_ns;
    let stated = Stated::share("available", "share of the time left to the loop", share);
    Stated { mean: stated.mean.filter(|_| runtime_ns > 0.0), ..stated }
}

/// Parts of the time of all loops, from the first stamp to the last.
fn causes(analysis: &NoiseAnalysis, loops: &[NoiseLoop]) -> Vec<CauseTime> {
    let start_ns = loops.iter().map(|one| one.start_ns).min().unwrap_or_default();
    let end_ns = loops.iter().map(|one| one.end_ns).max().unwrap_or_default();
    let mut times = cause_times(&analysis.summary.causes, &analysis.pieces, (start_ns, end_ns));
    times
        .iter_mut()
        .flat_map(|cause| &mut cause.shares)
        .for_each(|share| *share /= loops.len().max(1) as f64);
    times
}

impl Analyzed for Gaps {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        self.0.store(run)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.analysis.summary)?)
    }

    fn material(&self) -> Material {
        let (gaps, analysis) = (&self.0.run.gaps, &self.0.analysis);
        let spans = gaps.before_ns.iter().copied().zip(gaps.after_ns.iter().copied());
        Material {
            samples: vec![Samples::durations(
                "gap",
                "length of gaps",
                spans.map(|(before, after)| after - before),
            )],
            stated: vec![available(&analysis.summary.cpus)],
            causes: causes(analysis, &self.0.run.loops),
        }
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(self.0.document())
    }

    fn write_perfetto(&self, _: &RunDir, _: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
        self.0.write_perfetto(out).map(|()| true)
    }

    fn write_late_csv(&self, out: &mut dyn Write) -> anyhow::Result<bool> {
        gaps_csv(&self.0, out).map(|()| true)
    }
}

/// One line for each piece of each gap of a noise run, in the columns of late packets: the number is that of the
/// loop's turn, the lateness the length of the gap.
fn gaps_csv(digest: &NoiseDigest, out: &mut dyn Write) -> anyhow::Result<()> {
    let (gaps, analysis) = (&digest.run.gaps, &digest.analysis);
    writeln!(out, "{COLUMNS}")?;
    for gap in 0..gaps.index.len() {
        let pieces = analysis.first_piece[gap] as usize..analysis.first_piece[gap + 1] as usize;
        for piece in &analysis.pieces[pieces] {
            let length_ns = gaps.after_ns[gap] - gaps.before_ns[gap];
            write_piece(out, gaps.index[gap], length_ns, piece, &analysis.summary.causes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::record::{EventKind, EventRecord};
    use quaver_analysis::attribution::{NoiseOptions, analyze_noise};
    use quaver_analysis::model::{Actor, Circumstances, GapTable, NoiseRun};
    use quaver_analysis::summary::{NOISE_SCHEMA, NoiseSummary};
    use quaver_testbed::schema;

    #[test]
    fn a_cause_is_a_part_of_the_time_of_all_loops() {
        let one = |cpu: u16| NoiseLoop {
            cpu,
            actor: Actor { threads: vec![u32::from(cpu)], cpu: Some(cpu), ..Actor::default() },
            start_ns: 0,
            end_ns: 1_000_000_000,
            turns: 31_821_824,
            shortest_ns: Some(20),
        };
        let measured = NoiseRun {
            threshold_ns: 1_000,
            loops: vec![one(1), one(3)],
            // One gap of 10 ms in a second of two loops.
            gaps: GapTable {
                index: vec![10],
                before_ns: vec![250_000_000],
                after_ns: vec![260_000_000],
                cpu: vec![1],
            },
            events: vec![EventRecord {
                start_ns: 250_000_000,
                end_ns: 260_000_000,
                id: 41,
                cpu: 1,
                kind: EventKind::Irq as u8,
                ..EventRecord::default()
            }],
            circumstances: Circumstances { traced_cpus: vec![1, 3], ..Circumstances::default() },
            ..NoiseRun::default()
        };
        let analysis = analyze_noise(&measured, &NoiseOptions::default());
        let all = causes(&analysis, &measured.loops);
        let part = all.iter().flat_map(|cause| &cause.shares).sum::<f64>() / all[0].shares.len() as f64;
        assert!((part - 0.005).abs() < 1e-9, "{part}");
    }

    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        schema::committed::<NoiseSummary>("noise", NOISE_SCHEMA);
    }
}
