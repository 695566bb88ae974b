//! The HTML report of a comparison of stamps: figures 2 to 6 of the timestamping paper for this machine, and every
//! figure in tables.

use crate::compare::page::{
    CompareInput, LOSS_COLUMNS, OVERHEAD_COLUMNS, PEER_COLUMNS, PEER_WORDS, RATIO_COLUMNS, conversion_words,
    loss_rows, loss_words, overhead_cells, paper_cells, pattern_words, peer_cells, placement_words,
    ratio_cells, times, user_series_cells, user_series_columns,
};
use kernel::{KernelArmData, KernelPage};
use quaver_capture_analysis::compare::{
    Density, LogDensity, LossPoint, Overheads, PatternSummary, Placement, Ratio, Sweep, Verdict,
};
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::{ReportError, embed, write_end, write_head};
use quaver_page::units::{duration_f64, percent};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

mod kernel;

const PAGE: &str = include_str!("../../../../core/page/assets/report/compare.html");
const SCRIPTS: [&str; 6] = [
    include_str!("../../../../core/view/assets/uplot/uPlot.iife.min.js"),
    include_str!("../../../../core/page/assets/report/format.js"),
    include_str!("../../../../core/page/assets/report/axes.js"),
    include_str!("../../../../core/page/assets/report/chooser.js"),
    include_str!("../../../../core/page/assets/report/compare_plots.js"),
    include_str!("../../../../core/page/assets/report/compare.js"),
];
/// The ratio that the page is about.
const GENERIC: &str = "inline-clock";
const OURS: &str = "batch";

/// Writes the report: some 100 kB whatever the length of the run.
pub fn write_html(out: &mut dyn Write, input: &CompareInput<'_>) -> Result<(), ReportError> {
    let page = Page::of(input);
    let scripts: &[&str] = if page.drawable { &SCRIPTS } else { &[] };
    write_head(out, PAGE, &page, scripts)?;
    if page.drawable {
        embed::write_json(out, "data", &Data::of(input))?;
    }
    write_end(out, scripts)
}

/// Everything that the template shows. Strings of others are escaped by the template.
#[derive(Serialize)]
struct Page {
    name: String,
    verb: &'static str,
    version: String,
    verdict: String,
    complete: bool,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    drawable: bool,
    in_kernel: bool,
    patterns: Vec<PatternPage>,
    loss: Option<Table>,
    loss_words: Vec<String>,
    peers: Option<Table>,
    cannot: Vec<String>,
    facts: Vec<(String, String)>,
}

#[derive(Serialize)]
struct PatternPage {
    name: String,
    words: String,
    tables: Vec<Table>,
    conversions: Vec<String>,
    kernel: Option<KernelPage>,
}

#[derive(Serialize)]
struct Table {
    title: &'static str,
    lead: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(
        title: &'static str,
        lead: &'static str,
        columns: &[&str],
        rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
    ) -> Self {
        Self {
            title,
            lead,
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: rows.into_iter().map(|row| row.into_iter().map(micro).collect()).collect(),
        }
    }
}

impl Page {
    fn of(input: &CompareInput<'_>) -> Self {
        let (summary, run) = (input.summary, input.run);
        let rows = loss_rows(&summary.loss);
        let drawable =
            summary.patterns.iter().any(|one| one.user.iter().any(|arm| arm.figures.overhead.count > 0));
        Self {
            name: run.name.clone(),
            verb: "capture --compare",
            version: run.version.clone(),
            verdict: verdict(&summary.patterns),
            complete: summary.complete,
            tiles: summary.patterns.iter().flat_map(tiles).collect(),
            warnings: summary.warnings.iter().cloned().map(micro).collect(),
            drawable,
            in_kernel: summary.patterns.iter().any(|one| one.kernel.is_some()),
            patterns: summary.patterns.iter().map(PatternPage::of).collect(),
            loss: (!rows.is_empty()).then(|| Table::new("Loss", LOSS_LEAD, &LOSS_COLUMNS, rows)),
            loss_words: summary.loss.differences.iter().map(loss_words).collect(),
            peers: (!summary.peers.is_empty()).then(|| {
                let rows = summary.peers.iter().map(peer_cells);
                Table::new("Whole captures", PEER_WORDS, &PEER_COLUMNS, rows)
            }),
            cannot: summary.cannot.clone(),
            facts: facts(input),
        }
    }
}

const LOSS_LEAD: &str = "Bursts of packets through each way to stamp, over all sizes and gaps of figure 6. What was lost \
    adds up to the places where it was counted.";

impl PatternPage {
    fn of(pattern: &PatternSummary) -> Self {
        let ratios = pattern.ratios.iter().map(ratio_cells).chain(paper_cells(pattern));
        let tables = vec![
            Table::new(
                "Overhead",
                "Time between two checkpoints around a stamp in user space, the checkpoints' own taken off (the paper's \
                 tables I and II). Trimmed: without the lowest and the highest 1 %. Variances in ns².",
                &OVERHEAD_COLUMNS,
                pattern.user.iter().map(overhead_cells),
            ),
            Table::new(
                "Ratios",
                "How many times the overhead of the kernel's clock is that of another way. Intervals are drawn from \
                 whole rounds; the clock against itself must come out as 1.",
                &RATIO_COLUMNS,
                ratios,
            ),
            Table::new(
                "Memory and arrival",
                "Autocorrelation of the overheads, their rank correlation with the time since the packet before, the \
                 trimmed deviation of these times, and what a stamp costs the receiver afterwards.",
                &user_series_columns(),
                pattern.user.iter().map(user_series_cells),
            ),
        ];
        Self {
            name: pattern.facts.name.clone(),
            words: micro(pattern_words(pattern)),
            tables,
            conversions: pattern.conversions.iter().map(conversion_words).map(micro).collect(),
            kernel: pattern.kernel.as_ref().map(|kernel| KernelPage::of(pattern, kernel)),
        }
    }
}

fn main_ratio(pattern: &PatternSummary) -> Option<&Ratio> {
    pattern.ratios.iter().find(|ratio| ratio.of == GENERIC && ratio.to == OURS)
}

fn verdict(patterns: &[PatternSummary]) -> String {
    let said = patterns.iter().filter_map(|pattern| Some((pattern, main_ratio(pattern)?))).map(
        |(pattern, ratio)| {
            let name = &pattern.facts.name;
            match ratio.verdict {
                Verdict::Larger => format!("pattern {name}: {} less", times(ratio.mean)),
                Verdict::Smaller => {
                    format!("pattern {name}: more, {} of the clock's is left", times(ratio.mean))
                }
                Verdict::NoDifference => format!("pattern {name}: no difference"),
                Verdict::Unknown => format!("pattern {name}: too few rounds to tell"),
            }
        },
    );
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return "No pattern was measured to its end.".to_owned();
    }
    format!("Raw cycles, converted in batches, against the kernel's clock: {}.", said.join("; "))
}

fn tiles(pattern: &PatternSummary) -> Vec<Tile> {
    let Some(ratio) = main_ratio(pattern) else { return Vec::new() };
    let mean = |name: &str| {
        pattern
            .user
            .iter()
            .map(|arm| &arm.figures)
            .find(|arm| arm.name == name)
            .map(|arm| arm.overhead.mean_ns)
    };
    let words = |name| mean(name).map_or_else(|| "-".to_owned(), duration_f64);
    let paper = pattern.paper.as_ref();
    let beside =
        |value: Option<f64>| value.map_or_else(String::new, |value| format!("; paper {}", times(value)));
    let (first, second) = match pattern.facts.name.as_str() {
        "1" => ("Mean, pattern 1", "Variance, pattern 1"),
        "2" => ("Mean, pattern 2", "Variance, pattern 2"),
        _ => ("Mean, 100 kpps", "Variance, 100 kpps"),
    };
    vec![
        Tile {
            name: first,
            value: times(ratio.mean),
            note: format!(
                "{} over {}{}",
                words(GENERIC),
                words(OURS),
                beside(paper.map(|one| one.mean_ratio()))
            ),
        },
        Tile {
            name: second,
            value: times(ratio.trimmed_variance),
            note: format!("trimmed{}", beside(paper.map(|one| one.variance_ratio()))),
        },
    ]
}

fn facts(input: &CompareInput<'_>) -> Vec<(String, String)> {
    let (summary, run) = (input.summary, input.run);
    let from = summary.from.clone().unwrap_or_default();
    let known = [
        ("Streams from", &from),
        ("CPUs", &summary.cores),
        ("Run", &run.directory),
        ("Command", &run.command),
        ("Started", &run.started),
        ("Host", &run.host),
    ];
    let known = known.into_iter().filter(|(_, text)| !text.is_empty());
    known.map(|(name, text)| (name.to_owned(), text.clone())).chain(run.facts.iter().cloned()).collect()
}

/// What the plots are drawn from.
#[derive(Serialize)]
struct Data<'a> {
    patterns: Vec<PatternData<'a>>,
    loss: Vec<LossCurve>,
}

#[derive(Serialize)]
struct PatternData<'a> {
    name: &'a str,
    period_ns: f64,
    arms: Vec<ArmData<'a>>,
    kernel: Vec<KernelArmData<'a>>,
}

#[derive(Serialize)]
struct ArmData<'a> {
    name: &'a str,
    density: &'a LogDensity,
    interarrival: &'a Density,
    autocorrelation: &'a [f64],
}

impl<'a> ArmData<'a> {
    fn of(arm: &'a Overheads) -> Self {
        Self {
            name: &arm.name,
            density: &arm.density,
            interarrival: &arm.interarrival_density,
            autocorrelation: &arm.autocorrelation,
        }
    }
}

/// Loss of one pipeline under one placement, over sizes or gaps: (octets, share).
#[derive(Serialize)]
struct LossCurve {
    sweep: Sweep,
    placement: &'static str,
    arm: String,
    points: Vec<(f64, f64)>,
    words: Vec<String>,
}

impl<'a> Data<'a> {
    fn of(input: &CompareInput<'a>) -> Self {
        let patterns = input.summary.patterns.iter().map(|pattern| PatternData {
            name: &pattern.facts.name,
            period_ns: pattern.facts.period_ns,
            arms: pattern.user.iter().map(|arm| ArmData::of(&arm.figures)).collect(),
            kernel: pattern.kernel.as_ref().map_or_else(Vec::new, kernel::arms),
        });
        Self { patterns: patterns.collect(), loss: curves(&input.summary.loss.points) }
    }
}

/// Sums over the repetitions of a point.
#[derive(Default)]
struct Sum {
    sent: u64,
    received: u64,
    achieved_ns: f64,
    count: u64,
}

fn curves(points: &[LossPoint]) -> Vec<LossCurve> {
    let mut found: BTreeMap<(Sweep, Placement, &str), BTreeMap<u64, Sum>> = BTreeMap::new();
    for point in points {
        let octets = match point.sweep {
            Sweep::Size => u64::from(point.frame_bytes),
            Sweep::Gap => point.gap_bytes,
        };
        let curve = found.entry((point.sweep, point.placement, &point.arm)).or_default();
        let sum = curve.entry(octets).or_default();
        sum.sent += point.sent;
        sum.received += point.received;
        sum.achieved_ns += point.achieved_ns;
        sum.count += 1;
    }
    let curve = |((sweep, placement, arm), points): ((Sweep, Placement, &str), BTreeMap<u64, Sum>)| {
        let share = |sum: &Sum| sum.sent.saturating_sub(sum.received) as f64 / sum.sent.max(1) as f64;
        LossCurve {
            sweep,
            placement: placement_words(placement),
            arm: arm.to_owned(),
            words: points
                .values()
                .map(|sum| {
                    let mean_ns = sum.achieved_ns / sum.count.max(1) as f64;
                    micro(format!("{} lost, one each {}", percent(share(sum)), duration_f64(mean_ns)))
                })
                .collect(),
            points: points.iter().map(|(octets, sum)| (*octets as f64, share(sum))).collect(),
        }
    };
    found.into_iter().map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page::fixture;
    use quaver_page::RunFacts;

    fn page() -> String {
        let summary = fixture::summary();
        let run = RunFacts { name: "capture-compare-x".to_owned(), ..RunFacts::default() };
        let mut out = Vec::new();
        write_html(&mut out, &CompareInput { summary: &summary, run: &run, report_path: None }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_page_has_every_table_and_fetches_nothing() {
        let page = page();
        for text in
            ["Overhead", "Ratios", "Memory and arrival", "Not possible here", "21.6×", "id=\"compare-place\""]
        {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.contains("pattern 2: 3.64× less"));
        assert!(page.contains("Whole captures") && page.contains("39,000"));
        assert!(page.contains("href=\"#peers\"") && page.contains("192.0.2.9, port 1991"));
        assert!(page.contains("&lt;b&gt;this machine") && !page.contains("<b>this machine"));
        assert!(page.contains("default-src &#x27;none&#x27;") || page.contains("default-src 'none'"));
        assert!(page.ends_with("</body>\n</html>\n") && page.len() < 1 << 20);
    }

    #[test]
    fn the_kernel_has_its_own_tables_and_plots() {
        let page = page();
        for text in ["overhead", "ratios", "memory and arrival", "costs"] {
            assert!(page.contains(&format!("<h3>In the kernel: {text}</h3>")), "{text}");
        }
        assert_eq!(page.matches("paper, table II").count(), 2);
        assert!(page.contains("Not measurable in a stock kernel"));
        let summary = fixture::summary();
        let run = RunFacts::default();
        let input = CompareInput { summary: &summary, run: &run, report_path: None };
        let data = serde_json::to_value(Data::of(&input)).unwrap();
        let arms = data["patterns"][0]["kernel"].as_array().unwrap();
        let names: Vec<&str> = arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["off", "stamping", "second-cycles", "second-mono"]);
        for arm in arms {
            let overhead = &arm["overhead"];
            let shares = overhead["shares"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap());
            let rest = overhead["below"].as_f64().unwrap() + overhead["above"].as_f64().unwrap();
            assert!((shares.sum::<f64>() + rest - 1.0).abs() < 1e-9, "{arm}");
        }
        assert!(arms[0]["interarrival"].is_null() && arms[1]["interarrival"]["shares"].is_array());
    }

    #[test]
    fn curves_join_repetitions_of_a_point() {
        let summary = fixture::summary();
        let found = curves(&summary.loss.points);
        assert_eq!(found.len(), 8, "two sweeps, two placements, two pipelines");
        let together = found.iter().find(|curve| curve.placement.ends_with("one CPU")).unwrap();
        assert!(together.points.iter().all(|(_, share)| *share == 0.25));
        assert_eq!(found[0].points.len(), 3);
        assert_eq!(found.last().unwrap().points.len(), 1, "the gaps are all alike");
    }

    #[test]
    fn a_run_without_packets_still_has_a_page() {
        let run = RunFacts::default();
        let mut out = Vec::new();
        let summary = quaver_capture_analysis::compare::CompareSummary::default();
        write_html(&mut out, &CompareInput { summary: &summary, run: &run, report_path: None }).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("No pattern was measured to its end."));
    }
}
