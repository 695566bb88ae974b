//! What a person sees of a mesh: its pairs, a map of each figure, and the tests.

use super::digest::{MeshDigest, MeshSummary, TESTS};
use super::facts::{MeshTest, Pair};
use crate::dscp;
use quaver_view::{
    Block, Cell, Chart, Document, Group, Matrix, Quantity, Section, Shown, Table, Text, Tone, text,
};

/// Most hosts whose map fits a page.
const MOST_HOSTS: usize = 64;

/// Tests that the page lists at first.
const FIRST_TESTS: usize = 20;

/// A figure of a pair, where it has one.
type Figure = fn(&Pair) -> Option<f64>;

/// The document of a mesh.
pub(super) fn document(digest: &MeshDigest) -> Document {
    let MeshDigest { summary, run } = digest;
    let mut document = Document::new("quaver probe", &run.name);
    document.version.clone_from(&run.version);
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    document.fact("host", text!("{}: {}", summary.here, run.host));
    document.fact("started", &run.started);
    document.html_fact("run", &run.directory);
    document.html_fact("command", Text::default().code(&run.command));
    for (name, value) in &run.facts {
        document.html_fact(name, value);
    }
    document.verdict = Some(verdict(summary));
    let worst = &summary.worst;
    document.tile("Worst loss", worst.loss_share.map(Cell::Share), "of a pair of hosts");
    document.tile("Worst PDV p99", worst.pdv_p99_ns.map(Cell::Duration), "above the minimum delay");
    document.tile(
        "Worst one-way delay p50",
        worst.delay_p50_ns.map(Cell::Duration),
        "where the clocks are known",
    );
    document.tile("Unreachable", Cell::Count(summary.unreachable.len() as u64), "hosts");
    document.section(pairs(summary));
    document.sections.extend(maps(summary));
    document.section(tests(summary));
    document
}

fn verdict(summary: &MeshSummary) -> Text {
    let worst = |figure: Figure| {
        let known = summary.pairs.iter().filter_map(|pair| Some((pair, figure(pair)?)));
        known.max_by(|one, other| one.1.total_cmp(&other.1))
    };
    let mut words = match worst(|pair| pair.loss_share) {
        None => "No packet was sent.".to_owned(),
        Some((_, 0.0)) => "No loss.".to_owned(),
        Some((pair, share)) => format!("Worst loss: {}, {}.", Cell::Share(share), between(pair)),
    };
    if let Some((pair, ns)) = worst(|pair| Some(pair.pdv_p99_ns()? as f64)) {
        words += &format!(" Worst PDV p99: {}, {}.", Cell::Duration(ns as i64), between(pair));
    }
    if !summary.unreachable.is_empty() {
        words = format!("Not measured: {}. {words}", summary.unreachable.join(", "));
    }
    words.into()
}

fn between(pair: &Pair) -> String {
    let class = if pair.dscp == 0 { String::new() } else { format!(" ({})", dscp::name(pair.dscp)) };
    format!("{} to {}{class}", pair.from, pair.to)
}

fn pairs(summary: &MeshSummary) -> Section {
    let several = summary.pairs.iter().any(|pair| pair.dscp != 0);
    let joined = summary.pairs.iter().any(|pair| pair.measured_by != summary.here);
    let mut heads = vec!["from", "to"];
    heads.extend(several.then_some("DSCP"));
    heads.extend(joined.then_some("measured by"));
    heads.extend(["tests", "sent", "loss", "PDV p50", "PDV p99", "delay p50", "±"]);
    let mut table = Table::new(heads).empty("No pair was measured.");
    for pair in &summary.pairs {
        let pdv = pair.pdv.as_ref();
        let mut cells: Vec<Cell> = vec![pair.from.as_str().into(), pair.to.as_str().into()];
        cells.extend(several.then(|| dscp::name(pair.dscp).into()));
        cells.extend(joined.then(|| pair.measured_by.as_str().into()));
        cells.extend([
            Cell::Count(pair.tests),
            Cell::Count(pair.sent),
            pair.loss_share.map(Cell::Share).into(),
            pdv.map(|pdv| Cell::Duration(pdv.p50_ns)).into(),
            pair.pdv_p99_ns().map(Cell::Duration).into(),
            pair.delay.as_ref().map(|delay| Cell::Duration(delay.p50_ns)).into(),
            pair.delay_bound_ns.map(Cell::Duration).into(),
        ]);
        table.toned(if pair.tests == 0 { Tone::Caution } else { Tone::Plain }, cells);
        if let Some(reason) =
            pair.reason.as_ref().filter(|_| pair.from == pair.measured_by || pair.failed == 0)
        {
            let times = if pair.failed > 1 { format!(" ({} times)", pair.failed) } else { String::new() };
            table.note(format!("{}: {reason}{times}", pair.to));
        }
    }
    Section::new("pairs", "Pairs of hosts")
        .note(
            "All rounds together. PDV is above the least delay of each test (RFC 5481). A dash below delay: the clocks' \
             bound (±) exceeds it.",
        )
        .with(table)
}

/// A map of each figure and DSCP, for the page.
fn maps(summary: &MeshSummary) -> Option<Section> {
    let mut names: Vec<&str> = Vec::new();
    let mut codes: Vec<u8> = Vec::new();
    for pair in &summary.pairs {
        for name in [pair.from.as_str(), pair.to.as_str()] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if !codes.contains(&pair.dscp) {
            codes.push(pair.dscp);
        }
    }
    if names.len() > MOST_HOSTS {
        return None;
    }
    let figures: [(&str, Quantity, Figure); 3] = [
        ("Loss", Quantity::Share, |pair| pair.loss_share),
        ("PDV p99", Quantity::Duration, |pair| Some(pair.pdv_p99_ns()? as f64)),
        ("One-way delay p50", Quantity::Duration, |pair| Some(pair.delay.as_ref()?.p50_ns as f64)),
    ];
    let mut charts = Vec::new();
    for code in &codes {
        for (at, (head, quantity, figure)) in figures.iter().enumerate() {
            let values = map(&summary.pairs, &names, *code, *figure);
            if values.iter().all(|value| value.is_nan()) {
                continue;
            }
            let plot = Matrix {
                row_label: "from".into(),
                column_label: "to".into(),
                rows: names.iter().map(|name| (*name).to_owned()).collect(),
                columns: names.iter().map(|name| (*name).to_owned()).collect(),
                quantity: *quantity,
                log: false,
                values: values.into(),
            };
            let class = if codes.len() > 1 { format!(", DSCP {}", dscp::name(*code)) } else { String::new() };
            charts.push(Chart::new(format!("map-{code}-{at}"), format!("{head}{class}"), plot).still());
        }
    }
    let blank = "An empty cell was not measured.";
    let section = Section::new("map", "From each host to each").note(blank).shown(Shown::HtmlOnly);
    (!charts.is_empty()).then(|| section.with(Block::Charts(Group::beside(charts))))
}

/// Row by row; of two measurements of a pair the sender's.
fn map(pairs: &[Pair], names: &[&str], code: u8, figure: Figure) -> Vec<f64> {
    let mut values = vec![f64::NAN; names.len() * names.len()];
    let place = |name: &str| names.iter().position(|known| *known == name);
    for pair in pairs.iter().filter(|pair| pair.dscp == code) {
        if let (Some(from), Some(to), Some(value)) = (place(&pair.from), place(&pair.to), figure(pair)) {
            let cell = &mut values[from * names.len() + to];
            if cell.is_nan() || pair.measured_by == pair.from {
                *cell = value;
            }
        }
    }
    values
}

fn tests(summary: &MeshSummary) -> Section {
    let mut table =
        Table::new(["round", "host", "DSCP", "page", "cut short"]).first_rows(FIRST_TESTS).empty("No test.");
    for MeshTest { round, host, dscp, run, reason, .. } in &summary.tests {
        let page = run.as_ref().map_or(Cell::Missing, |name| Cell::Link {
            words: name.clone(),
            path: format!("{TESTS}/{name}/report.html"),
        });
        let tone = if run.is_none() { Tone::Caution } else { Tone::Plain };
        let reason = reason.as_deref().unwrap_or_default();
        table.toned(
            tone,
            [Cell::Index(round + 1), host.as_str().into(), dscp::name(*dscp).into(), page, reason.into()],
        );
    }
    Section::new("tests", "Tests").note("Each is a run of its own.").with(table).shown(Shown::HtmlOnly)
}

#[cfg(test)]
mod tests_of_maps {
    use super::*;

    #[test]
    fn of_two_measurements_the_senders_counts() {
        let pair = |from: &str, to: &str, by: &str, share| Pair {
            from: from.into(),
            to: to.into(),
            measured_by: by.into(),
            loss_share: share,
            ..Pair::default()
        };
        let pairs = [
            pair("a", "b", "b", Some(0.1)),
            pair("a", "b", "a", Some(0.2)),
            pair("b", "a", "b", Some(0.3)),
            pair("b", "a", "a", Some(0.4)),
            pair("a", "c", "a", None),
        ];
        let values = map(&pairs, &["a", "b", "c"], 0, |pair| pair.loss_share);
        let known: Vec<(usize, f64)> =
            values.into_iter().enumerate().filter(|(_, value)| !value.is_nan()).collect();
        assert_eq!(known, [(1, 0.2), (3, 0.3)]);
    }
}
