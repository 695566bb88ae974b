//! The paper's figures in the HTML report: each with its plots, beside what the paper saw.

use super::Table;
use crate::page::paper::{
    PAPER_COLUMNS, cluster_words, further_words, generator_words, other_layer, paper_cells, paper_words,
    path_words, possible_words,
};
use quaver_page::html::page::micro;
use quaver_study_analysis::{LINEAR_BIN_NS, PaperReport, Possible};
use serde::Serialize;

/// What the template shows.
#[derive(Serialize)]
pub(super) struct PaperPage {
    generator: Option<String>,
    /// Place among the plots of the generator's own.
    generator_plot: Option<usize>,
    judged_first: bool,
    conclusions: Vec<String>,
    table: Table,
    figures: Vec<FigurePage>,
    clusters: Vec<String>,
    paths: Vec<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct FigurePage {
    /// Its place among the plots; none without any.
    plot: Option<usize>,
    figure: String,
    title: String,
    saw: String,
    how: String,
    say: String,
    further: Vec<String>,
}

/// What the script draws.
#[derive(Serialize)]
pub(super) struct PaperData<'a> {
    period_ns: f64,
    bin_ns: i64,
    figures: Vec<FigureData<'a>>,
}

#[derive(Serialize)]
struct FigureData<'a> {
    count: u64,
    /// Of the stream, where it is not the study's.
    period_ns: Option<i64>,
    bins: &'a [u32],
    series: &'a [(i64, i64)],
}

impl PaperPage {
    pub(super) fn of(report: &PaperReport) -> Self {
        let mut plots = 0;
        let figures = report.figures.iter().map(|figure| {
            let cells = paper_cells(figure).map(micro);
            let plot = figure.here.is_some().then(|| {
                plots += 1;
                plots - 1
            });
            let mut how = possible_words(&figure.possible);
            if let Some(why) = other_layer(figure).filter(|_| figure.here.is_some()) {
                how.push_str("; ");
                how.push_str(why);
            }
            FigurePage {
                plot,
                figure: figure.figure.clone(),
                title: micro(figure.title.clone()),
                saw: micro(figure.saw.clone()),
                how: micro(how),
                further: further_words(figure).into_iter().map(micro).collect(),
                say: match figure.possible {
                    Possible::NotHere(_) => String::new(),
                    _ => paper_words(&cells),
                },
            }
        });
        let figures: Vec<FigurePage> = figures.collect();
        let of_generator = figures.iter().find(|figure| figure.figure == "3");
        let code_paths = report.figures.iter().find_map(|figure| figure.code_paths.as_ref());
        Self {
            generator_plot: of_generator.and_then(|figure| figure.plot),
            judged_first: report.generator.as_ref().is_some_and(|found| found.first),
            generator: report.generator.as_ref().map(|found| micro(generator_words(found))),
            conclusions: report
                .generator
                .iter()
                .flat_map(|found| found.conclusions.iter().cloned().map(micro))
                .collect(),
            table: Table::new(&PAPER_COLUMNS, report.figures.iter().map(paper_cells)),
            figures,
            clusters: code_paths
                .iter()
                .flat_map(|found| found.clusters.iter().map(|one| micro(cluster_words(one))))
                .collect(),
            paths: code_paths.iter().flat_map(|found| path_words(found).into_iter().map(micro)).collect(),
            notes: report.notes.clone(),
        }
    }
}

impl<'a> PaperData<'a> {
    pub(super) fn of(report: &'a PaperReport, period_ns: f64) -> Self {
        let drawn =
            report.figures.iter().filter_map(|figure| Some((figure.own_period_ns, figure.here.as_ref()?)));
        let figures = drawn.map(|(own_period_ns, here)| FigureData {
            period_ns: own_period_ns,
            count: here.figures.count,
            bins: &here.bins,
            series: &here.series,
        });
        Self { period_ns, bin_ns: LINEAR_BIN_NS, figures: figures.collect() }
    }
}
