//! The paper's own matrix (A. Toussaint, M. Hawari, T. Clausen, "Chasing Linux Jitter Sources for Uncompressed Video", section
//! IV): what each figure shows, and the same measured here.

use super::clusters::{CodePaths, LINEAR_BIN_NS, code_paths, linear_bins};
use super::figures::{Figures, StudyLayer};
use super::stamps::StampTable;
use serde::{Deserialize, Serialize};

/// Standard deviation of ΔT of the paper's generator, nanoseconds (section III-B, figure 3).
pub const PAPER_GENERATOR_SD_NS: f64 = 600.0;
/// Packets of one of its experiments.
pub const PAPER_SAMPLES: u64 = 1_000_000;
/// Slices of a time series.
const SLICES: usize = 1_200;
/// Bins of a histogram reach up to so many periods.
const PERIODS: f64 = 3.0;

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
    experiment("no-idle-poll", "8", "without idle=poll, ISR", Isr, "many spikes near 15 us", Some(15_000)),
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperDrawing {
    /// Figures of this cell.
    pub figures: Figures,
    /// ΔT above the height that the paper speaks of, in a million.
    pub spikes_per_million: Option<f64>,
    /// Count of ΔT in bins of 20 ns from 0; the last holds the rest.
    pub bins: Vec<u32>,
    /// Least and largest ΔT of slices of equally many packets.
    pub series: Vec<(i64, i64)>,
}

/// One figure of the paper and the same here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Clusters tied to code paths (figure 7b).
    pub code_paths: Option<CodePaths>,
}

/// The generator against the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What follows, in sentences.
    pub conclusions: Vec<String>,
}

impl PaperFigure {
    /// Whether the paper's own figure gives a standard deviation: of a single run it says little, and is told nowhere else.
    pub fn gives_sd(&self) -> bool {
        self.figure == "3"
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
            "The generator is as constant as the paper's ({} against {}): what is larger than that is the receiver's.",
            us(figures.sd_ns),
            us(PAPER_GENERATOR_SD_NS)
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
        "Differences between arms can be concluded from, since the same generator feeds all of them in random order; \
         absolute figures of this host cannot be held against those of the paper's."
            .to_owned(),
    ];
    Some(Generator {
        sd_ns: figures.sd_ns,
        paper_sd_ns: PAPER_GENERATOR_SD_NS,
        within_1_us: within as f64 / deltas.len() as f64,
        middle_99_ns,
        as_good,
        conclusions,
    })
}

/// What the paper's matrix came to: `cells` gives the packets of an arm, of its first cell that counts; `dummy` the stamps
/// of the dummy program.
pub fn paper_report(
    planned: &[PaperArm],
    period_ns: f64,
    dummy: Option<&StampTable>,
    mut cells: impl FnMut(&str) -> Option<StampTable>,
) -> PaperReport {
    let mut figures = Vec::new();
    let mut judged = None;
    for experiment in &EXPERIMENTS {
        let plan = planned.iter().find(|one| one.id == experiment.id);
        let mut possible = plan
            .map_or_else(|| Possible::NotHere("it was not planned".to_owned()), |plan| plan.possible.clone());
        let mut layer = experiment.layer;
        let table = plan.and_then(|plan| plan.arm.as_deref()).and_then(&mut cells);
        let deltas = match (experiment.id, &table) {
            ("dummy", _) => dummy.map(|stamps| stamps.deltas(Application)).unwrap_or_default(),
            ("generator", Some(table)) => {
                let own = table.sender_deltas();
                judged = generator(&own, period_ns);
                own
            }
            (_, Some(table)) => {
                let mut deltas = table.deltas(layer);
                if layer == Isr {
                    // Interfaces without interrupts: the softirq is the first that software sees of a packet. Where nobody
                    // traces, the kernel's own stamp is.
                    for next in [StudyLayer::Softirq, StudyLayer::Stack] {
                        if deltas.is_empty() {
                            layer = next;
                            deltas = table.deltas(layer);
                        }
                    }
                }
                deltas
            }
            _ => Vec::new(),
        };
        let here = drawing(&deltas, period_ns, experiment.spike_ns);
        if here.is_none() && !matches!(possible, Possible::NotHere(_)) {
            possible = Possible::NotHere(match experiment.layer {
                Isr => "nobody traced: stamps below the socket need BPF".to_owned(),
                _ => "no cell of it counts, or its stamps were not kept".to_owned(),
            });
        }
        let with_paths = experiment.id == "baseline" && layer == Application;
        figures.push(PaperFigure {
            id: experiment.id.to_owned(),
            figure: experiment.figure.to_owned(),
            title: experiment.title.to_owned(),
            layer,
            saw: experiment.saw.to_owned(),
            possible,
            here,
            code_paths: table.filter(|_| with_paths).and_then(|table| code_paths(&table, period_ns)),
        });
    }
    PaperReport { generator: judged, figures, notes: vec![FIGURE_9_NOTE.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(softirq: bool) -> StampTable {
        let count = 1_000;
        let sent: Vec<i64> = (0..count).map(|at| 5_000 + at * 7_410 + at % 3 * 100).collect();
        let on = |extra: i64| sent.iter().map(|ns| ns + extra).collect::<Vec<i64>>();
        StampTable {
            key: (0..count as u64).collect(),
            isr_ns: vec![0; count as usize],
            softirq_ns: if softirq { on(300) } else { vec![0; count as usize] },
            stack_ns: on(400),
            queued_ns: on(500),
            application_ns: on(900),
            path: vec![0; count as usize],
            sent_ns: sent,
        }
    }

    fn planned() -> Vec<PaperArm> {
        let arm = |id: &str, arm: &str| PaperArm {
            id: id.to_owned(),
            arm: Some(arm.to_owned()),
            possible: Possible::Measured,
        };
        vec![arm("generator", "baseline"), arm("baseline", "baseline"), arm("blocking", "blocking")]
    }

    #[test]
    fn every_experiment_of_the_paper_is_told_and_what_was_not_done_has_a_reason() {
        let report = paper_report(&planned(), 7_410.0, Some(&table(true)), |arm| {
            (arm == "baseline").then(|| table(true))
        });
        assert_eq!(report.figures.len(), EXPERIMENTS.len());
        let of = |figure: &str| report.figures.iter().find(|one| one.figure == figure).unwrap();
        assert_eq!((of("6a, 7a").layer, of("6b, 7b").layer), (StudyLayer::Softirq, Application));
        assert!(of("6b, 7b").code_paths.is_some() && of("6a, 7a").code_paths.is_none());
        assert_eq!(of("5").possible, Possible::NotHere("it was not planned".to_owned()));
        for figure in &report.figures {
            let told = matches!(&figure.possible, Possible::NotHere(reason) if !reason.is_empty());
            assert!(figure.here.is_some() || told, "{figure:?}");
        }
        assert!(report.notes[0].contains("Figure 9"));
        let generator = report.generator.unwrap();
        assert!(generator.as_good && generator.within_1_us == 1.0, "{generator:?}");
        assert_eq!(generator.middle_99_ns, (7_210.0, 7_510.0));
    }

    #[test]
    fn without_tracing_the_interrupt_is_not_measured_and_a_worse_generator_is_told() {
        let report = paper_report(&planned(), 7_410.0, None, |_| Some(table(false)));
        let of = |report: &PaperReport, figure: &str| {
            report.figures.iter().find(|one| one.figure == figure).unwrap().clone()
        };
        assert_eq!(of(&report, "6a, 7a").layer, StudyLayer::Stack);
        let bare = StampTable { stack_ns: vec![0; 1_000], ..table(false) };
        let isr = of(&paper_report(&planned(), 7_410.0, None, |_| Some(bare.clone())), "6a, 7a");
        assert!(matches!(&isr.possible, Possible::NotHere(reason) if reason.contains("BPF")));
        let mut deltas = vec![7_410; 999];
        deltas.push(60_000);
        let judged = generator(&deltas, 7_410.0).unwrap();
        assert!(!judged.as_good && judged.conclusions[0].contains("not as constant"), "{judged:?}");
        assert_eq!(judged.within_1_us, 0.999);
        let drawn = drawing(&deltas, 7_410.0, Some(15_000)).unwrap();
        assert_eq!(drawn.spikes_per_million, Some(1_000.0));
        assert_eq!(drawn.bins.iter().map(|count| u64::from(*count)).sum::<u64>(), 1_000);
        assert_eq!(drawn.series.len(), 1_000);
    }
}
