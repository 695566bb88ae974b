//! The paper's own matrix (A. Toussaint, M. Hawari, T. Clausen, "Chasing Linux Jitter Sources for Uncompressed Video", section
//! IV): what each figure shows, and the same measured here.

use super::clusters::{CodePaths, LINEAR_BIN_NS, code_paths, linear_bins};
use super::effects::{Effect, StudyVerdict};
use super::figures::{Figures, StudyLayer};
use super::stamps::StampTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Standard deviation of ΔT of the paper's generator, nanoseconds (section III-B, figure 3).
pub const PAPER_GENERATOR_SD_NS: f64 = 600.0;
/// Packets of one of its experiments.
pub const PAPER_SAMPLES: u64 = 1_000_000;
/// Slices of a time series.
const SLICES: usize = 1_200;
/// Bins of a histogram reach up to so many periods.
const PERIODS: f64 = 3.0;

/// The experiment of figure 8.
const WAKE_UP: &str = "no-idle-poll";
/// Period with which a core's waking up shows where the paper's own lets none fall asleep, nanoseconds.
pub const WAKE_UP_PERIOD_NS: i64 = 200_000;
/// Period of the paper's stream.
const PAPER_PERIOD_NS: i64 = 7_410;

/// One experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperExperiment {
    /// Name, also of the arm that measures it.
    pub id: &'static str,
    /// Number of the figure, or the section where there is none.
    pub figure: &'static str,
    /// What was done.
    pub title: &'static str,
    /// Where ΔT was taken.
    pub layer: StudyLayer,
    /// What the paper saw.
    pub saw: &'static str,
    /// Height of the spikes that it speaks of, nanoseconds.
    pub spike_ns: Option<i64>,
}

const fn experiment(
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    layer: StudyLayer,
    saw: &'static str,
    spike_ns: Option<i64>,
) -> PaperExperiment {
    PaperExperiment { id, figure, title, layer, saw, spike_ns }
}

use StudyLayer::{Application, Isr};

/// The experiments, in the paper's order.
pub const EXPERIMENTS: [PaperExperiment; 14] = [
    experiment(
        "generator",
        "3",
        "the generator, at the ingress of the server",
        Application,
        "standard deviation 0.6 us: constant to 1 us",
        None,
    ),
    experiment(
        "dummy",
        "5",
        "dummy program: 1M turns of 7.41 us without any packet",
        Application,
        "four spikes near 15 us in 1M turns",
        Some(15_000),
    ),
    experiment("baseline", "6a, 7a", "baseline, ISR", Isr, "noise 1 us wide around 7.41 us", Some(15_000)),
    experiment(
        "baseline",
        "6b, 7b",
        "baseline, application",
        Application,
        "spikes as of the dummy program, noise as of the ISR; a little wider than the ISR, in discrete clusters",
        Some(15_000),
    ),
    experiment(
        WAKE_UP,
        "8",
        "without idle=poll: waking an idle core, ISR",
        Isr,
        "many spikes near 15 us",
        Some(15_000),
    ),
    experiment(
        "rerouted-idle",
        "9",
        "interrupts on another core that is idle, ISR",
        Isr,
        "slightly more than the baseline",
        Some(15_000),
    ),
    experiment(
        "rerouted-busy",
        "9",
        "interrupts on another core that is kept busy, ISR",
        Isr,
        "significantly more: frequent spikes near 15 us",
        Some(15_000),
    ),
    experiment(
        "blocking",
        "10",
        "blocking receive with idle=poll, application",
        Application,
        "spikes up to 16 us",
        Some(16_000),
    ),
    experiment(
        "blocking-no-idle-poll",
        "section IV-D",
        "blocking receive without idle=poll, application",
        Application,
        "spikes up to 60 us",
        Some(60_000),
    ),
    experiment(
        "itr",
        "11",
        "interrupt throttling 100 us, polling",
        Application,
        "spikes of 100 us, nearly nothing between them; hides every other source",
        Some(100_000),
    ),
    experiment(
        "itr-blocking",
        "section IV-E",
        "interrupt throttling 100 us, blocking",
        Application,
        "as with polling",
        Some(100_000),
    ),
    experiment(
        "adaptive-itr",
        "section IV-E",
        "adaptive interrupt throttling, polling",
        Application,
        "the default of Linux 4.13; not measured on its own",
        None,
    ),
    experiment(
        "intrl",
        "section IV-E",
        "interrupt rate limit (INTRL), polling",
        Application,
        "always on in Linux 4.17; switched off by a kernel of their own",
        None,
    ),
    experiment(
        "itr-no-idle-poll",
        "section IV-E",
        "interrupt throttling 100 us, blocking, without idle=poll",
        Application,
        "throttling hides the scheduler",
        Some(100_000),
    ),
];

/// Whether an experiment could be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "status", content = "reason")]
pub enum Possible {
    /// As in the paper.
    Measured,
    /// By something that does the same, and what.
    Emulated(String),
    /// Not here, and why.
    NotHere(String),
}

/// What was planned of one experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaperArm {
    /// Its name.
    pub id: String,
    /// Arm of the study that measures it; none: not measured as an arm.
    pub arm: Option<String>,
    /// Whether and how.
    #[serde(flatten)]
    pub possible: Possible,
}

/// ΔT of one cell, ready to be drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperDrawing {
    /// Figures of this cell.
    pub figures: Figures,
    /// ΔT as far above the period as the spikes that the paper speaks of, in a million.
    pub spikes_per_million: Option<f64>,
    /// Count of ΔT in bins of 20 ns from 0; the last holds the rest.
    pub bins: Vec<u32>,
    /// Least and largest ΔT of slices of equally many packets.
    pub series: Vec<(i64, i64)>,
}

/// One figure of the paper and the same here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperFigure {
    /// Experiment.
    pub id: String,
    /// Number of the figure, or the section.
    pub figure: String,
    /// What was done.
    pub title: String,
    /// Where ΔT was taken here; may be another layer than the paper's, which is then said.
    pub layer: StudyLayer,
    /// What the paper saw.
    pub saw: String,
    /// Whether and how it was measured.
    #[serde(flatten)]
    pub possible: Possible,
    /// What was seen here.
    pub here: Option<PaperDrawing>,
    /// Period of the stream, where it is another than the study's, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_period_ns: Option<i64>,
    /// The same without what the experiment is about, where the study's baseline is not that: what was done, and its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<(String, Figures)>,
    /// ΔT of the sender's own send calls that are as far above its period as the paper's spikes, in a million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_spikes_per_million: Option<f64>,
    /// Clusters tied to code paths (figure 7b).
    pub code_paths: Option<CodePaths>,
}

/// The generator against the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Standard deviation of ΔT of its send calls, nanoseconds.
    pub sd_ns: f64,
    /// The paper's.
    pub paper_sd_ns: f64,
    /// Share of ΔT within 1 us of the period.
    pub within_1_us: f64,
    /// The middle 99 % of ΔT, nanoseconds.
    pub middle_99_ns: (f64, f64),
    /// Whether it is as constant as the paper's.
    pub as_good: bool,
    /// Whether it was judged before anything else was measured; else by the stream of a baseline's cell.
    #[serde(default)]
    pub first: bool,
    /// What follows, in sentences.
    pub conclusions: Vec<String>,
}

impl PaperFigure {
    /// Whether the paper's own figure gives a standard deviation: of a single run it says little, and is told nowhere else.
    pub fn gives_sd(&self) -> bool {
        self.figure == "3"
    }

    /// Whether the sender alone makes more than half as many spikes: then nothing can be concluded from them.
    pub fn is_the_senders(&self) -> bool {
        let here = self.here.as_ref().and_then(|here| here.spikes_per_million);
        self.sender_spikes_per_million.zip(here).is_some_and(|(own, here)| own > 0.0 && own * 2.0 > here)
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperReport {
    /// The generator.
    pub generator: Option<Generator>,
    /// The figures, in the paper's order.
    pub figures: Vec<PaperFigure>,
    /// What to know of the paper itself.
    pub notes: Vec<String>,
}

/// The paper contradicts itself here.
pub const FIGURE_9_NOTE: &str = "Figure 9 of the paper: its captions call (a) \"with infinite loop\" and (b) \"without\", its text takes \
     (a) for the idle core and (b) for the busy one. Here the experiments are told by what was done, not by letter.";

/// Another machine than the paper's.
const OTHER_HOST_NOTE: &str =
    "Absolute figures of this host cannot be held against those of the paper's: it is another machine.";

/// ΔT ready to be drawn; none of no ΔT.
pub fn drawing(deltas: &[i64], period_ns: f64, spike_ns: Option<i64>) -> Option<PaperDrawing> {
    let length = deltas.len().div_ceil(SLICES).max(1);
    let ends = |slice: &[i64]| {
        let (least, most) = (slice.iter().min(), slice.iter().max());
        (least.copied().unwrap_or_default(), most.copied().unwrap_or_default())
    };
    let above = |height: i64| deltas.iter().filter(|delta| **delta >= height).count() as f64;
    let count = (PERIODS * period_ns / LINEAR_BIN_NS as f64).ceil() as usize + 1;
    Some(PaperDrawing {
        spikes_per_million: spike_ns.map(|height| above(height) * 1e6 / deltas.len().max(1) as f64),
        bins: linear_bins(deltas, count),
        series: deltas.chunks(length).map(ends).collect(),
        figures: Figures::of(&mut deltas.to_vec(), period_ns, (period_ns * 10.0) as i64)?,
    })
}

/// Judges the generator by ΔT of its send calls; none of no ΔT.
pub fn generator(deltas: &[i64], period_ns: f64) -> Option<Generator> {
    let figures = Figures::of(&mut deltas.to_vec(), period_ns, i64::MAX)?;
    let within = deltas.iter().filter(|delta| (**delta as f64 - period_ns).abs() <= 1_000.0).count();
    let mut sorted = deltas.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize] as f64;
    let middle_99_ns = (at(0.005), at(0.995));
    let as_good = figures.sd_ns <= PAPER_GENERATOR_SD_NS;
    let us = |ns: f64| format!("{:.2} us", ns / 1_000.0);
    let first = if as_good {
        format!(
            "The generator is as constant as the paper's (standard deviation {} against {}): of ΔT, only what is larger than its \
             own largest, {}, can be the receiver's alone.",
            us(figures.sd_ns),
            us(PAPER_GENERATOR_SD_NS),
            us(figures.max_ns)
        )
    } else {
        format!(
            "The generator is not as constant as the paper's (standard deviation {} against {}): spikes of single arms cannot be \
             blamed on the receiver, for some are the sender's own.",
            us(figures.sd_ns),
            us(PAPER_GENERATOR_SD_NS)
        )
    };
    let conclusions = vec![
        first,
        format!(
            "ΔT of the sender lies between {} and {} in 99 of 100 cases; nothing finer can be told of the receiver.",
            us(middle_99_ns.0),
            us(middle_99_ns.1)
        ),
    ];
    Some(Generator {
        first: false,
        sd_ns: figures.sd_ns,
        paper_sd_ns: PAPER_GENERATOR_SD_NS,
        within_1_us: within as f64 / deltas.len() as f64,
        middle_99_ns,
        as_good,
        conclusions,
    })
}

/// What was measured beside the arms.
#[derive(Clone, Copy, Debug, Default)]
pub struct PaperBeside<'a> {
    /// The dummy program.
    pub dummy: Option<&'a StampTable>,
    /// The stream by which the generator was judged before all else.
    pub generator: Option<&'a StampTable>,
    /// A sink that sleeps between packets [`WAKE_UP_PERIOD_NS`] apart: on a core that idles meanwhile, and on one kept awake.
    pub wake_up: Option<(&'a StampTable, &'a StampTable)>,
    /// The baseline against itself.
    pub controls: &'a [Effect],
}

/// Whether differences between arms can be concluded from: only where each control (the baseline against itself) is quiet.
fn concluded(controls: &[Effect]) -> String {
    const NOT: &str = "Differences between arms are not judged";
    let figures = |control: &Effect| {
        let (ranked, name) = (&control.ranked, control.ranked.metric.name());
        let number = |value: f64| match ranked.metric.is_share() {
            true => format!("{:+.3} %", value * 100.0),
            false => format!("{:+.2} us", value / 1_000.0),
        };
        let interval = ranked.interval.map_or_else(String::new, |interval| {
            format!(" (95 %: {} to {})", number(interval.low), number(interval.high))
        });
        format!(
            "{name} differs by {}{interval}, p {:.3}, {} block{}",
            number(ranked.difference),
            control.p_corrected,
            ranked.blocks,
            if ranked.blocks == 1 { "" } else { "s" }
        )
    };
    let quiet = |control: &&Effect| control.verdict == StudyVerdict::NoDifference;
    match (controls.iter().find(|control| !quiet(control)), controls.first()) {
        (_, None) => format!("{NOT}: no block holds the baseline against itself."),
        (Some(loud), _) => format!(
            "{NOT}: the baseline against itself came out as {} ({}).",
            loud.verdict.words(),
            figures(loud)
        ),
        (None, Some(control)) => format!(
            "Differences between arms can be concluded from: the baseline against itself shows none ({}), and one generator feeds \
             all arms in random order.",
            figures(control)
        ),
    }
}

/// What the paper's matrix came to: `cells` gives the packets of an arm, of its first cell that counts.
pub fn paper_report(
    planned: &[PaperArm],
    period_ns: f64,
    beside: PaperBeside<'_>,
    mut cells: impl FnMut(&str) -> Option<StampTable>,
) -> PaperReport {
    let notes = vec![FIGURE_9_NOTE.to_owned(), OTHER_HOST_NOTE.to_owned()];
    let mut report = PaperReport { generator: None, figures: Vec::new(), notes };
    for experiment in &EXPERIMENTS {
        let plan = planned.iter().find(|one| one.id == experiment.id);
        let table = plan.and_then(|plan| plan.arm.as_deref()).and_then(&mut cells);
        let mut figure = PaperFigure {
            id: experiment.id.to_owned(),
            figure: experiment.figure.to_owned(),
            title: experiment.title.to_owned(),
            layer: experiment.layer,
            saw: experiment.saw.to_owned(),
            possible: plan.map_or_else(
                || Possible::NotHere("it was not planned".to_owned()),
                |plan| plan.possible.clone(),
            ),
            here: None,
            own_period_ns: None,
            beside: None,
            sender_spikes_per_million: None,
            code_paths: None,
        };
        let spike_ns = experiment.spike_ns.map(|height| as_far_above(height, period_ns as i64));
        match experiment.id {
            "dummy" => {
                let deltas = beside.dummy.map(|stamps| stamps.deltas(Application)).unwrap_or_default();
                figure.here = drawing(&deltas, period_ns, spike_ns);
            }
            "generator" => {
                let own = beside.generator.or(table.as_ref()).map(StampTable::sender_deltas);
                let own = own.unwrap_or_default();
                let judged = generator(&own, period_ns);
                report.generator = judged.map(|mut found| {
                    found.first = beside.generator.is_some();
                    found.conclusions.push(concluded(beside.controls));
                    found
                });
                figure.here = drawing(&own, period_ns, spike_ns);
            }
            WAKE_UP if table.is_none() => wake_up(&mut figure, beside.wake_up, experiment.spike_ns),
            _ => {
                if let Some(table) = &table {
                    of_an_arm(&mut figure, table, period_ns, spike_ns);
                }
            }
        }
        if figure.here.is_none() && !matches!(figure.possible, Possible::NotHere(_)) {
            figure.possible = Possible::NotHere(match experiment.layer {
                Isr if experiment.id == WAKE_UP && plan.is_some_and(|plan| plan.arm.is_none()) => {
                    "it was not measured to its end".to_owned()
                }
                Isr => "nobody traced: stamps below the socket need BPF".to_owned(),
                _ => "no cell of it counts, or its stamps were not kept".to_owned(),
            });
        }
        report.figures.push(figure);
    }
    report
}

/// The figure of an arm's packets.
fn of_an_arm(figure: &mut PaperFigure, table: &StampTable, period_ns: f64, spike_ns: Option<i64>) {
    let mut deltas = table.deltas(figure.layer);
    if figure.layer == Isr {
        // Interfaces without interrupts: the softirq is the first that software sees of a packet. Where nobody traces, the
        // kernel's own stamp is.
        for next in [StudyLayer::Softirq, StudyLayer::Stack] {
            if deltas.is_empty() {
                figure.layer = next;
                deltas = table.deltas(next);
            }
        }
    }
    figure.here = drawing(&deltas, period_ns, spike_ns);
    figure.sender_spikes_per_million = senders_own(table, spike_ns).filter(|_| figure.here.is_some());
    if figure.id == "baseline" && figure.layer == Application {
        figure.code_paths = code_paths(table, period_ns);
    }
}

/// What is as far above this period as the paper's spikes of that height are above its own.
fn as_far_above(height_ns: i64, period_ns: i64) -> i64 {
    height_ns - PAPER_PERIOD_NS + period_ns
}

fn senders_own(table: &StampTable, spike_ns: Option<i64>) -> Option<f64> {
    let (own, height) = (table.sender_deltas(), spike_ns?);
    let above = own.iter().filter(|delta| **delta >= height).count();
    (!own.is_empty()).then(|| above as f64 * 1e6 / own.len() as f64)
}

/// Figure 8 where the paper's own period lets no core fall asleep: at a longer one, the spikes as far above it.
fn wake_up(figure: &mut PaperFigure, tables: Option<(&StampTable, &StampTable)>, spike_ns: Option<i64>) {
    let Some((idle, awake)) = tables else { return };
    let own_ns = WAKE_UP_PERIOD_NS as f64;
    let spike_ns = spike_ns.map(|height| as_far_above(height, WAKE_UP_PERIOD_NS));
    figure.layer = Application;
    figure.own_period_ns = Some(WAKE_UP_PERIOD_NS);
    figure.here = drawing(&idle.deltas(Application), own_ns, spike_ns);
    figure.sender_spikes_per_million = senders_own(idle, spike_ns);
    let kept = drawing(&awake.deltas(Application), own_ns, spike_ns);
    figure.beside = kept.map(|kept| ("the core kept awake".to_owned(), kept.figures));
}

#[cfg(test)]
mod tests;
