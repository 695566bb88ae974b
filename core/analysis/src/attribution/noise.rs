//! Attribution of a noise run: the same engine, with the loop's thread for the receiver.

use super::actor::{Life, lives};
use super::causes::share;
use super::edges::learn_edge_cost;
use super::engine::{Ask, Engine, Queued};
use super::faults::Faults;
use super::naming::Namer;
use super::settling::settle_edges;
use super::steal::{Steal, Stretch};
use super::timeline::Timeline;
use super::{Books, Piece, unexplained_note};
use crate::model::{Actor, Circumstances, EdgeCost, NoiseLoop, NoiseRun};
use crate::nesting::net_durations;
use crate::summary::{ClassCount, NOISE_SCHEMA, NoiseCpu, NoiseSummary};
use quaver_abi::record::EventKind;
use quaver_arrivals::distribution::distribution;
use std::collections::BTreeMap;

/// What the attribution of noise assumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NoiseOptions {
    /// As [`super::AttributionOptions::entry_exit_cap_ns`].
    pub entry_exit_cap_ns: Option<i64>,
}

/// All that is known of a noise run.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseAnalysis {
    /// The numbers. Tier, completeness and warnings are the caller's to fill in.
    pub summary: NoiseSummary,
    /// Leading cause of each gap, in the order of the gap table; none is unexplained.
    pub causes: Vec<Option<u32>>,
    /// First piece of each gap; one more entry than gaps, so that gap i has the pieces
    /// `first_piece[i]..first_piece[i + 1]` of [`Self::pieces`].
    pub first_piece: Vec<u32>,
    /// The pieces of all gaps.
    pub pieces: Vec<Piece>,
}

/// Names the source of every gap of a run, and counts what the summary holds. The same input gives the same
/// output, byte for byte.
pub fn analyze_noise(run: &NoiseRun, options: &NoiseOptions) -> NoiseAnalysis {
    let timeline = Timeline::new(&run.events);
    let namer = Namer::new(&timeline, &run.names, None);
    let threads: Vec<u32> = run.loops.iter().flat_map(|one| one.actor.threads.iter().copied()).collect();
    let holes = &run.circumstances.holes;
    let lives: Vec<Life<'_>> =
        lives(&run.events, &threads).into_iter().map(|life| life.with_holes(holes)).collect();
    let learned = run.circumstances.edge_cost.or_else(|| own_edge_cost(run));
    let circumstances = Circumstances { edge_cost: learned, ..run.circumstances.clone() };
    let asked =
        super::AttributionOptions { entry_exit_cap_ns: options.entry_exit_cap_ns, ..Default::default() };
    let cap = asked.edge_cap(&circumstances);
    let faults = Faults::new(&run.events, &run.names, &lives);
    let mut engine = Engine::new(&namer, &run.circumstances, &faults);
    let mut books = Books::default();
    let (mut causes, mut first_piece, mut scratch) = (Vec::new(), vec![0], Vec::new());
    let mut cpus = counters(run, &threads);
    let nobody = Actor::default();
    let windows = windows(run);
    let mut steal = Steal::new(&run.events, observed(run));
    for (gap, &(from_ns, to_ns)) in windows.iter().enumerate() {
        let cpu = run.gaps.cpu[gap];
        let one = run.loops.iter().find(|one| one.cpu == cpu);
        engine.drafts.clear();
        let ask = Ask { from_ns, to_ns, shift_ns: 0, cpu };
        let actor = one.map_or(&nobody, |one| &one.actor);
        engine.receiver(ask, actor, one.and_then(|one| life_of(&lives, one)), Queued::No);
        settle_edges(&mut engine.drafts, cap, &mut scratch);
        steal.carve(&mut engine.drafts, &mut engine.causes, namer.names);
        books.unexplained.unplaced_steal_ns += steal.unplaced_ns(&engine.drafts);
        let length = u64::try_from(to_ns - from_ns).unwrap_or(0);
        if length > 0
            && engine.drafts.iter().all(|draft| draft.cause.is_none())
            && let Some(counted) = cpus.iter_mut().find(|counted| counted.cpu == cpu)
        {
            add(&mut counted.hardware, length);
        }
        let own =
            books.book(&engine.drafts, &mut engine.causes, run.gaps.index.get(gap).copied().unwrap_or(0));
        let lead = own.flatten();
        books.lead(lead, &mut engine.causes);
        causes.push(lead);
        first_piece.push(books.pieces.len() as u32);
    }
    let noise_ns = books.late_ns;
    let (ranked, places) = engine.causes.rank(noise_ns, None);
    let place = |cause: &mut Option<u32>| *cause = cause.map(|cause| places[cause as usize]);
    causes.iter_mut().for_each(place);
    books.pieces.iter_mut().for_each(|piece| place(&mut piece.cause));
    let mut unexplained = books.unexplained;
    unexplained.share = share(unexplained.time_ns, noise_ns);
    unexplained.note = unexplained_note(&run.circumstances, &unexplained, false, false);
    measure_gaps(run, &windows, &mut cpus);
    let summary = NoiseSummary {
        schema: NOISE_SCHEMA.to_string(),
        period_ns: run.period_ns,
        threshold_ns: run.threshold_ns,
        cpus,
        causes: ranked,
        unexplained,
        noise_ns,
        dummy: None,
        tier: String::new(),
        tier_reason: None,
        blind: run.circumstances.blind.clone(),
        warnings: Vec::new(),
        complete: true,
    };
    NoiseAnalysis { summary, causes, first_piece, pieces: books.pieces }
}

/// What the loops' own gaps tell of entry and exit: the dearest CPU's, for one cap serves all.
fn own_edge_cost(run: &NoiseRun) -> Option<EdgeCost> {
    if run.period_ns.is_some() {
        // Gaps of the dummy program start at deadlines, not where the loop was stopped.
        return None;
    }
    let costs = run.loops.iter().filter_map(|one| {
        let rows = run.gaps.before_ns.iter().zip(&run.gaps.after_ns).zip(&run.gaps.cpu);
        let gaps: Vec<(i64, i64)> =
            rows.filter(|(_, cpu)| **cpu == one.cpu).map(|((&before, &after), _)| (before, after)).collect();
        learn_edge_cost(&gaps, one.cpu, &run.events)
    });
    costs.max_by_key(|cost| (cost.entry_ns + cost.exit_ns, cost.samples))
}

/// The stretches in which a loop did not run. A gap of the dummy program begins at a deadline and says less.
fn observed(run: &NoiseRun) -> impl Iterator<Item = Stretch> + '_ {
    let gaps = if run.period_ns.is_none() { run.gaps.len() } else { 0 };
    (0..gaps).map(|gap| Stretch {
        cpu: run.gaps.cpu[gap],
        start_ns: run.gaps.before_ns[gap],
        end_ns: run.gaps.after_ns[gap],
    })
}

/// The gaps without what an earlier gap of their CPU covers already, so that each instant is blamed once.
fn windows(run: &NoiseRun) -> Vec<(i64, i64)> {
    let mut reached: BTreeMap<u16, i64> = BTreeMap::new();
    let gaps = &run.gaps;
    let rows = gaps.before_ns.iter().zip(&gaps.after_ns).zip(&gaps.cpu);
    rows.map(|((&before, &after), &cpu)| {
        let reached = reached.entry(cpu).or_insert(i64::MIN);
        let from = before.max(*reached);
        *reached = after.max(*reached);
        (from, after.max(from))
    })
    .collect()
}

fn life_of<'a>(lives: &'a [Life<'a>], one: &NoiseLoop) -> Option<&'a Life<'a>> {
    lives.iter().find(|life| one.actor.threads.contains(&life.thread))
}

fn add(count: &mut ClassCount, net_ns: u64) {
    count.count += 1;
    count.net_ns += net_ns;
    count.max_ns = count.max_ns.max(net_ns);
}

/// Entries and net time by class and CPU, of events that began while the loop of their CPU ran.
fn counters(run: &NoiseRun, loop_threads: &[u32]) -> Vec<NoiseCpu> {
    let mut cpus: Vec<NoiseCpu> = run
        .loops
        .iter()
        .map(|one| NoiseCpu {
            cpu: one.cpu,
            runtime_ns: one.end_ns - one.start_ns,
            turns: one.turns,
            shortest_turn_ns: one.shortest_ns,
            ..NoiseCpu::default()
        })
        .collect();
    let net = net_durations(&run.events).net_ns;
    for (event, net_ns) in run.events.iter().zip(net) {
        let Some(index) = run.loops.iter().position(|one| one.cpu == event.cpu) else { continue };
        let (from, to) = (run.loops[index].start_ns.max(0) as u64, run.loops[index].end_ns.max(0) as u64);
        if !(from..to).contains(&event.start_ns) {
            continue;
        }
        let counted = &mut cpus[index];
        match EventKind::from_repr(event.kind) {
            Some(EventKind::Nmi) => add(&mut counted.nmi, net_ns),
            Some(EventKind::Irq | EventKind::Vector) => add(&mut counted.irq, net_ns),
            Some(EventKind::Softirq) => add(&mut counted.softirq, net_ns),
            Some(EventKind::Thread) if !loop_threads.contains(&event.id) => add(&mut counted.thread, net_ns),
            _ => {}
        }
    }
    cpus.sort_by_key(|counted| counted.cpu);
    cpus
}

fn measure_gaps(run: &NoiseRun, windows: &[(i64, i64)], cpus: &mut [NoiseCpu]) {
    let mut lengths: Vec<i64> = Vec::new();
    for counted in cpus {
        lengths.clear();
        counted.noise_ns = 0;
        for (gap, window) in windows.iter().enumerate().filter(|&(gap, _)| run.gaps.cpu[gap] == counted.cpu) {
            lengths.push(run.gaps.after_ns[gap] - run.gaps.before_ns[gap]);
            counted.noise_ns += window.1 - window.0;
        }
        counted.gaps = lengths.len() as u64;
        counted.available_share =
            if counted.runtime_ns > 0 { 1.0 - share(counted.noise_ns, counted.runtime_ns) } else { 0.0 };
        counted.gap = distribution(&mut lengths);
    }
}
