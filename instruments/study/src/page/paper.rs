//! The paper's figures beside what was measured, as words: shared by the console page and the HTML report.

use quaver_page::units::{duration_f64, percent};
use quaver_study_analysis::{Cluster, CodePaths, Generator, Metric, PaperFigure, Possible, StudyLayer};

/// Columns of the figures.
pub(crate) const PAPER_COLUMNS: [&str; 12] = [
    "figure",
    "experiment",
    "here",
    "layer",
    "lt.5T",
    "gt1.5T",
    "p10",
    "p90",
    "p99",
    "sd (as in figure 3)",
    "spikes in a million",
    "the paper saw",
];

/// How an experiment was done.
pub(crate) fn possible_words(possible: &Possible) -> String {
    match possible {
        Possible::Measured => "measured".to_owned(),
        Possible::Emulated(by) => format!("emulated: {by}"),
        Possible::NotHere(reason) => format!("not possible here: {reason}"),
    }
}

/// The same in a word.
const fn possible_word(possible: &Possible) -> &'static str {
    match possible {
        Possible::Measured => "measured",
        Possible::Emulated(_) => "emulated",
        Possible::NotHere(_) => "not possible",
    }
}

/// A figure as a row.
pub(crate) fn paper_cells(figure: &PaperFigure) -> [String; 12] {
    let of = |metric: Metric| {
        let value = figure.here.as_ref().map(|here| metric.of(&here.figures));
        let words: fn(f64) -> String = if metric.is_share() { percent } else { duration_f64 };
        value.map_or_else(|| "-".to_owned(), words)
    };
    let layer = match figure.id.as_str() {
        "generator" => "send call",
        "dummy" => "loop",
        _ if figure.here.is_none() => "-",
        _ => figure.layer.words(),
    };
    let spikes = figure.here.as_ref().and_then(|here| here.spikes_per_million);
    [
        figure.figure.clone(),
        figure.title.clone(),
        possible_word(&figure.possible).to_owned(),
        layer.to_owned(),
        of(Metric::BelowHalf),
        of(Metric::AboveHalf),
        of(Metric::P10),
        of(Metric::P90),
        of(Metric::P99),
        if figure.gives_sd() { of(Metric::Sd) } else { "-".to_owned() },
        spikes.map_or_else(|| "-".to_owned(), |spikes| format!("{spikes:.0}")),
        figure.saw.clone(),
    ]
}

/// The figures of a row, without those that it has not.
pub(crate) fn paper_words(cells: &[String; 12]) -> String {
    let named = PAPER_COLUMNS.iter().zip(cells).skip(4).take(7).filter(|(_, cell)| *cell != "-");
    named.map(|(name, cell)| format!("{name} {cell}")).collect::<Vec<_>>().join(", ")
}

/// What the generator is, in one sentence.
pub(crate) fn generator_words(found: &Generator) -> String {
    format!(
        "standard deviation {} (the paper's: {}), {} within 1 us of the period",
        duration_f64(found.sd_ns),
        duration_f64(found.paper_sd_ns),
        percent(found.within_1_us)
    )
}

/// What else is to be known of a figure: the same without what it is about, and whether its spikes are the sender's own.
pub(crate) fn further_words(figure: &PaperFigure) -> Vec<String> {
    let mut words = Vec::new();
    if let Some((what, figures)) = &figure.beside {
        let of = |metric: Metric| duration_f64(metric.of(figures));
        words.push(format!(
            "beside it, {what}: p10 {}, p90 {}, p99 {}",
            of(Metric::P10),
            of(Metric::P90),
            of(Metric::P99)
        ));
    }
    if let Some(own) = figure.sender_spikes_per_million.filter(|_| figure.is_the_senders()) {
        words.push(format!(
            "nothing is concluded from the spikes: the sender itself makes {own:.0} in a million that are as high"
        ));
    }
    words
}

/// One cluster of figure 7b with its ways.
pub(crate) fn cluster_words(cluster: &Cluster) -> String {
    let paths: Vec<String> = cluster
        .paths
        .iter()
        .take(3)
        .map(|path| format!("{} ({})", path.words, percent(path.share)))
        .collect();
    let most = cluster.stages.iter().max_by(|a, b| a.mean_ns.abs().total_cmp(&b.mean_ns.abs()));
    let stage = most.map_or_else(String::new, |part| {
        let sign = if part.mean_ns < 0.0 { "-" } else { "+" };
        format!("; most of it {}: {sign}{}", part.stage, duration_f64(part.mean_ns.abs()))
    });
    format!(
        "around {}: {} of the packets; {}{stage}",
        duration_f64(cluster.p50_ns),
        percent(cluster.share),
        paths.join(", ")
    )
}

/// All ways, in sentences.
pub(crate) fn path_words(found: &CodePaths) -> Vec<String> {
    found
        .paths
        .iter()
        .map(|path| {
            format!("{}: {}, median ΔT {}", path.words, percent(path.share), duration_f64(path.p50_ns))
        })
        .collect()
}

/// Why the figure shows another layer than the paper's, where it does: no experiment of the paper is about these two.
pub(crate) const fn other_layer(figure: &PaperFigure) -> Option<&'static str> {
    match figure.layer {
        StudyLayer::Softirq => Some("at the softirq, since this interface has no interrupts of its own"),
        StudyLayer::Stack => Some("where the stack takes the packet over, since nothing below it was traced"),
        StudyLayer::Isr | StudyLayer::Application => None,
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    //! Two experiments, one of them not possible.

    use quaver_study_analysis::{PaperArm, PaperBeside, PaperReport, Possible, StampTable, paper_report};

    pub(crate) fn report() -> PaperReport {
        let count = 5_000i64;
        let sent: Vec<i64> = (0..count).map(|at| 9_000 + at * 7_410 + at % 3 * 50).collect();
        let on = |extra: i64| sent.iter().map(|ns| ns + extra).collect::<Vec<i64>>();
        let held = |at: i64| if at % 50 == 7 { 9_000 } else { 0 };
        let table = StampTable {
            key: (0..count as u64).collect(),
            isr_ns: vec![0; count as usize],
            softirq_ns: on(300),
            stack_ns: on(400),
            queued_ns: on(500),
            application_ns: sent.iter().zip(0..).map(|(ns, at)| ns + 900 + held(at)).collect(),
            path: (0..count).map(|at| if held(at) > 0 { 4 } else { 0 }).collect(),
            sent_ns: sent,
        };
        let arm = |id: &str, arm: Option<&str>, possible| PaperArm {
            id: id.to_owned(),
            arm: arm.map(str::to_owned),
            possible,
        };
        let planned = [
            arm("generator", Some("baseline"), Possible::Measured),
            arm("dummy", None, Possible::Measured),
            arm("baseline", Some("baseline"), Possible::Measured),
            arm("blocking", Some("blocking"), Possible::Emulated("<i>a spinner".to_owned())),
            arm("intrl", None, Possible::NotHere("no such <b>NIC".to_owned())),
        ];
        let beside = PaperBeside { dummy: Some(&table), ..PaperBeside::default() };
        paper_report(&planned, 7_410.0, beside, |_| Some(table.clone()))
    }
}
