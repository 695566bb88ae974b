//! From a recorded noise run to its results.

use crate::view::{NoiseInput, document};
use quaver_analysis::attribution::{NoiseAnalysis, NoiseOptions, analyze_noise, bear_out};
use quaver_analysis::model::{GapTable, NoiseRun, PacketTable};
use quaver_analysis::paced;
use quaver_instrument::facts::{self, RunFacts, actor_words};
use quaver_store::convert::convert_raw_noise;
use quaver_store::load::load_noise_run;
use quaver_store::manifest::Manifest;
use quaver_store::perfetto::{Drawing, NamedWindow, draw};
use quaver_store::run::RunDir;
use quaver_view::{Cell, Document};
use std::io::Write;

/// A turn is meant to take a small part of the threshold; beyond this part, turns that nothing disturbed are
/// recorded as gaps.
const TURNS_PER_THRESHOLD: i64 = 3;

/// A noise run with its analysis.
pub struct NoiseDigest {
    /// Manifest as stored.
    pub manifest: Manifest,
    /// What was measured; of the dummy program, the stops that made stamps late.
    pub run: NoiseRun,
    /// Every stamp of the dummy program; none for the tight loop.
    pub stamps: Option<GapTable>,
    /// What it says.
    pub analysis: NoiseAnalysis,
    /// Words for the head of a page.
    pub facts: RunFacts,
}

/// Turns the raw segments of a noise run into Parquet; the segments are then removed. Does nothing to a run that was
/// converted before.
pub fn convert(run: &RunDir, manifest: &mut Manifest) -> anyhow::Result<()> {
    if run.gaps().is_file() && run.events().is_file() {
        return Ok(());
    }
    convert_raw_noise(run)?;
    quaver_instrument::names::name_what_is_left(run)?;
    run.write_manifest(manifest)?;
    run.remove_raw()?;
    Ok(())
}

/// Analyses a noise run, from Parquet or (cut short) from its raw segments.
pub fn analyze(run: &RunDir) -> anyhow::Result<NoiseDigest> {
    let loaded = load_noise_run(run)?;
    let (manifest, mut measured) = (loaded.manifest, loaded.run);
    end_killed_loops(&mut measured);
    let mut dummy = None;
    let mut stamps = None;
    if let Some(period_ns) = measured.period_ns {
        dummy = Some(paced::summarize(&measured.gaps, period_ns, measured.threshold_ns));
        let stops = paced::stops(&measured.gaps, measured.threshold_ns);
        stamps = Some(std::mem::replace(&mut measured.gaps, stops));
    }
    let mut analysis = analyze_noise(&measured, &NoiseOptions::default());
    let summary = &mut analysis.summary;
    summary.dummy = dummy;
    let shared = manifest.analysis.clone().unwrap_or_default();
    summary.tier = shared.tier;
    summary.tier_reason = shared.tier_reason;
    summary.blind = shared.blind;
    summary.complete = manifest.complete;
    summary.warnings.extend(warnings(&measured, &manifest));
    let cpus: Vec<u16> = measured.loops.iter().map(|one| one.cpu).collect();
    let host = facts::tickless_host(&manifest);
    // Before remedies get the names of threads.
    quaver_instrument::causes::speak_of("loop", &mut summary.causes, &mut summary.unexplained);
    bear_out(&mut summary.causes, &measured.events, &measured.names, &cpus, &host);
    let cpus: Vec<String> = cpus.iter().map(u16::to_string).collect();
    quaver_instrument::causes::name_cpus(&mut summary.causes, &cpus.join(","));
    let mut facts = facts::run_facts(run, &manifest);
    let loops = manifest.noise.iter().flat_map(|noise| &noise.loops);
    facts.facts.extend(loops.map(|one| ("loop".to_owned(), actor_words(&one.actor))));
    Ok(NoiseDigest { manifest, run: measured, stamps, analysis, facts })
}

/// Loops of a killed run have no end in the manifest: they ran at least as long as something was recorded.
fn end_killed_loops(run: &mut NoiseRun) {
    for one in run.loops.iter_mut().filter(|one| one.end_ns < one.start_ns) {
        let gaps = run.gaps.cpu.iter().zip(&run.gaps.after_ns).filter(|(cpu, _)| **cpu == one.cpu);
        let events = run.events.iter().filter(|event| event.cpu == one.cpu).map(|event| event.end_ns as i64);
        let last_ns = gaps.map(|(_, after_ns)| *after_ns).chain(events).max();
        one.end_ns = last_ns.unwrap_or(one.start_ns).max(one.start_ns);
    }
}

/// What the reader should know before believing the numbers, each with what to do about it.
fn warnings(run: &NoiseRun, manifest: &Manifest) -> Vec<String> {
    let mut warnings = facts::warnings_of_any(manifest);
    if run.gaps_lost > 0 {
        warnings.push(format!(
            "{} gaps dropped (buffer full), missing below; raise --threshold or measure for a shorter time",
            Cell::Count(run.gaps_lost)
        ));
    }
    for one in run.loops.iter().filter(|_| run.period_ns.is_none()) {
        if let Some(turn_ns) = one.shortest_ns.filter(|ns| ns * TURNS_PER_THRESHOLD > run.threshold_ns) {
            warnings.push(format!(
                "the loop on CPU {} needs at least {} per iteration, so many gaps are the loop itself; raise \
                 --threshold to {} or more",
                one.cpu,
                Cell::Duration(turn_ns),
                Cell::Duration(turn_ns * TURNS_PER_THRESHOLD)
            ));
        }
    }
    warnings.extend(facts::notes(manifest));
    warnings
}

impl NoiseDigest {
    /// Writes `summary.json` and `report.html`.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.analysis.summary)?;
        quaver_instrument::results::store_report(run, &self.document())
    }

    /// What a person sees of it.
    pub fn document(&self) -> Document {
        document(&NoiseInput {
            analysis: &self.analysis,
            run: &self.facts,
            measured: &self.run,
            stamps: self.stamps.as_ref(),
        })
    }

    /// Writes a timeline for ui.perfetto.dev: the events of each CPU, and the gaps with their leading causes.
    pub fn write_perfetto(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let gaps = &self.run.gaps;
        let name = |cause: &Option<u32>| match cause {
            Some(cause) => self.analysis.summary.causes[*cause as usize].name.as_str(),
            None => "unexplained",
        };
        let windows: Vec<NamedWindow<'_>> = (0..gaps.len())
            .map(|row| NamedWindow {
                start_ns: gaps.before_ns[row],
                end_ns: gaps.after_ns[row],
                name: name(&self.analysis.causes[row]),
                seq: gaps.index[row],
            })
            .collect();
        let drawing = Drawing {
            events: &self.run.events,
            names: &self.run.names,
            packets: &PacketTable::default(),
            windows: &windows,
            between_ns: None,
        };
        draw(&drawing, out)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_analysis::model::NoiseLoop;

    #[test]
    fn a_killed_loop_ends_with_what_was_recorded_last() {
        let mut run = NoiseRun {
            loops: vec![
                NoiseLoop { cpu: 1, start_ns: 100, ..NoiseLoop::default() },
                NoiseLoop { cpu: 2, start_ns: 100, ..NoiseLoop::default() },
                NoiseLoop { cpu: 3, start_ns: 100, end_ns: 200, ..NoiseLoop::default() },
            ],
            gaps: GapTable { index: vec![5], before_ns: vec![300], after_ns: vec![400], cpu: vec![1] },
            ..NoiseRun::default()
        };
        end_killed_loops(&mut run);
        let ends: Vec<i64> = run.loops.iter().map(|one| one.end_ns).collect();
        assert_eq!(ends, [400, 100, 200]);
    }

    #[test]
    fn a_threshold_within_reach_of_a_turn_is_warned_of() {
        let one = NoiseLoop { shortest_ns: Some(20), ..NoiseLoop::default() };
        let run = |threshold_ns| NoiseRun { threshold_ns, loops: vec![one.clone()], ..NoiseRun::default() };
        let mut manifest = Manifest::begin("0", "noise", serde_json::json!({}), serde_json::json!({}), 0);
        manifest.end(1, None);
        assert!(warnings(&run(40), &manifest)[0].contains("raise --threshold to 60 ns"));
        assert!(warnings(&run(60), &manifest).is_empty());
    }
}
