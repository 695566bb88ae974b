//! The HTML report of a noise run, from the same parts as that of a chase.

use crate::page::{
    Examples, NoiseInput, class_cells, classes, distribution_cells, for_a_loop, noise_cells, rate_of,
};
use quaver_analysis::model::GapTable;
use quaver_analysis::summary::{DummyProgram, NoiseSummary};
use quaver_page::html::page::{Cause, Tile, UnexplainedRow, cause_row, micro, unexplained_row};
use quaver_page::html::series::{BINS_PER_OCTAVE, clamp_ns};
use quaver_page::html::{ReportError, SCRIPTS, embed, late, write_end, write_head};
use quaver_page::units::{count, duration, percent};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

const PAGE: &str = include_str!("../../../core/page/assets/report/noise.html");

/// Writes the report of a noise run: below 3 MB whatever the length of the run.
pub fn write_html(out: &mut dyn Write, input: &NoiseInput<'_>) -> Result<(), ReportError> {
    write_head(out, PAGE, &Page::of(input), &SCRIPTS)?;
    write_data(out, input)?;
    write_end(out, &SCRIPTS)
}

/// Everything that the template shows. Strings of others are escaped by the template.
#[derive(Serialize)]
struct Page {
    name: String,
    verb: String,
    version: String,
    verdict: String,
    complete: bool,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    causes: Vec<Cause>,
    counted: &'static str,
    share_of: &'static str,
    unexplained: Option<UnexplainedRow>,
    threshold: String,
    dummy: Option<Dummy>,
    gaps: &'static str,
    drawable: bool,
    cpu_columns: [&'static str; 10],
    cpus: Vec<Vec<String>>,
    counters: Vec<Counter>,
    facts: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Dummy {
    spikes: Vec<Vec<String>>,
    stamps: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct Counter {
    cpu: u16,
    class: &'static str,
    cells: Vec<String>,
}

impl Page {
    fn of(input: &NoiseInput<'_>) -> Self {
        let summary = &input.analysis.summary;
        let examples = Examples::of(input);
        let causes = summary.causes.iter().enumerate();
        let shortest = if input.stamps.is_some() { "Least behind" } else { "Shortest turn" };
        Self {
            name: input.run.name.clone(),
            verb: input.run.verb.clone(),
            version: input.run.version.clone(),
            verdict: micro(verdict(input)),
            complete: summary.complete,
            tiles: tiles(input),
            warnings: summary.warnings.clone(),
            causes: causes
                .map(|(at, cause)| {
                    let mut row = cause_row(at + 1, cause, examples.shown(Some(at), cause.example_seq));
                    row.mechanism = row.mechanism.as_deref().map(for_a_loop);
                    row
                })
                .collect(),
            counted: input.gaps_word(),
            share_of: "noise",
            unexplained: (summary.noise_ns > 0).then(|| {
                let rest = &summary.unexplained;
                unexplained_row(rest, rest.example_seq.map(|turn| examples.shown(None, turn)))
            }),
            threshold: micro(duration(summary.threshold_ns)),
            dummy: summary.dummy.as_ref().map(dummy_rows),
            gaps: input.gaps_word(),
            drawable: !input.measured.gaps.is_empty(),
            cpu_columns: [
                "CPU", "Turns", shortest, "Count", "A second", "Noise", "Share", "Median", "p99", "Largest",
            ],
            cpus: summary.cpus.iter().map(|cpu| noise_cells(cpu).into_iter().map(micro).collect()).collect(),
            counters: counters(input),
            facts: facts(input),
        }
    }
}

fn verdict(input: &NoiseInput<'_>) -> String {
    let summary = &input.analysis.summary;
    if summary.noise_ns == 0 {
        return format!("Nothing took the CPU for {} or more.", duration(summary.threshold_ns));
    }
    let head = format!("The loops were kept from running for {} of the time.", percent(noise_share(summary)));
    match summary.causes.first() {
        Some(cause) if cause.share >= summary.unexplained.share => {
            format!("{head} The largest source is {}: {} of the noise.", cause.name, percent(cause.share))
        }
        _ => format!("{head} Most of the noise ({}) is unexplained.", percent(summary.unexplained.share)),
    }
}

fn noise_share(summary: &NoiseSummary) -> f64 {
    let runtime_ns: i64 = summary.cpus.iter().map(|cpu| cpu.runtime_ns).sum();
    summary.noise_ns as f64 / runtime_ns.max(1) as f64
}

fn tiles(input: &NoiseInput<'_>) -> Vec<Tile> {
    let summary = &input.analysis.summary;
    let gaps: u64 = summary.cpus.iter().map(|cpu| cpu.gaps).sum();
    let worst = summary.cpus.iter().max_by_key(|cpu| cpu.gap.max_ns).filter(|cpu| cpu.gaps > 0);
    let mut tiles = vec![
        Tile {
            name: "Noise",
            value: percent(noise_share(summary)),
            note: format!("{} together", duration(summary.noise_ns)),
        },
        Tile {
            name: if input.stamps.is_some() { "Stops" } else { "Gaps" },
            value: count(gaps),
            note: format!("of {} and more", duration(summary.threshold_ns)),
        },
        Tile {
            name: "Largest",
            value: worst.map_or_else(|| "-".to_owned(), |cpu| duration(cpu.gap.max_ns)),
            note: worst.map_or_else(String::new, |cpu| format!("on CPU {}", cpu.cpu)),
        },
    ];
    if let Some(dummy) = &summary.dummy {
        let paper = rate_of(dummy.paper.spikes as f64 * 1e6 / dummy.paper.timestamps as f64);
        let value = rate_of(dummy.spikes_per_million);
        tiles.push(Tile { name: "Spikes in a million", value, note: format!("{paper} in the paper") });
    } else if let Some(turn_ns) = summary.cpus.iter().filter_map(|cpu| cpu.shortest_turn_ns).min() {
        let note = "no gap can be shorter".to_owned();
        tiles.push(Tile { name: "Shortest turn", value: duration(turn_ns), note });
    }
    for tile in &mut tiles {
        tile.value = micro(std::mem::take(&mut tile.value));
        tile.note = micro(std::mem::take(&mut tile.note));
    }
    tiles
}

fn dummy_rows(dummy: &DummyProgram) -> Dummy {
    let paper = &dummy.paper;
    let per_million = paper.spikes as f64 * 1e6 / paper.timestamps as f64;
    let row = |name: &str, stamps: u64, spikes: u64, rate: f64, size: String| {
        vec![name.to_owned(), count(stamps), count(spikes), rate_of(rate), micro(size)]
    };
    let size =
        if dummy.spikes == 0 { "-".to_owned() } else { format!("up to {}", duration(dummy.delta_t.max_ns)) };
    let stamps = [("ΔT", &dummy.delta_t), ("behind its deadline", &dummy.lateness)];
    Dummy {
        spikes: vec![
            row("here", dummy.timestamps, dummy.spikes, dummy.spikes_per_million, size),
            row(
                "in the paper",
                paper.timestamps,
                paper.spikes,
                per_million,
                format!("about {}", duration(paper.spike_ns)),
            ),
        ],
        stamps: stamps
            .map(|(name, distribution)| {
                let cells = distribution_cells(distribution).into_iter().map(micro);
                std::iter::once(name.to_owned()).chain(cells).collect()
            })
            .into(),
    }
}

fn counters(input: &NoiseInput<'_>) -> Vec<Counter> {
    let summary = &input.analysis.summary;
    if !input.saw_events() {
        return Vec::new();
    }
    let virtual_machine = input.measured.circumstances.virtual_machine;
    let rows = summary.cpus.iter().flat_map(|cpu| {
        classes(cpu, virtual_machine).map(|(class, counted)| Counter {
            cpu: cpu.cpu,
            class,
            cells: class_cells(counted, cpu.runtime_ns).into_iter().map(micro).collect(),
        })
    });
    rows.collect()
}

fn facts(input: &NoiseInput<'_>) -> Vec<(String, String)> {
    let (summary, run) = (&input.analysis.summary, input.run);
    let longest_ns = summary.cpus.iter().map(|cpu| cpu.runtime_ns).max().unwrap_or(0);
    let mut rows = vec![
        ("Run".to_owned(), run.directory.clone()),
        ("Command".to_owned(), run.command.clone()),
        ("Started".to_owned(), run.started.clone()),
        ("Duration".to_owned(), duration(longest_ns)),
        ("Host".to_owned(), run.host.clone()),
        ("Loop".to_owned(), micro(run.stream.clone())),
        ("Tracing".to_owned(), summary.tier.clone()),
    ];
    rows.extend(
        summary.tier_reason.iter().map(|reason| ("Why not a better tier".to_owned(), reason.clone())),
    );
    if !summary.blind.is_empty() {
        rows.push(("Blind to".to_owned(), summary.blind.join(", ")));
    }
    rows.extend(run.facts.iter().cloned());
    rows
}

/// What the scripts need besides the blocks of numbers; names are those of a chase, whose scripts draw it.
#[derive(Serialize)]
struct Data<'a> {
    words: Words,
    layered: bool,
    period_ns: f64,
    threshold_ns: i64,
    slices: usize,
    slice_ns: f64,
    bins_per_octave: f64,
    packets: usize,
    late: usize,
    late_drawn: usize,
    layers: Vec<Series>,
    causes: Vec<&'a str>,
    timelines: [u8; 0],
}

#[derive(Serialize)]
struct Words {
    one: &'static str,
    many: &'static str,
    size: &'static str,
    from: &'static str,
    start: &'static str,
    quantity: &'static str,
    unit: &'static str,
    drawn: &'static str,
}

/// A curve of the histogram.
#[derive(Serialize)]
struct Series {
    name: String,
    not_positive: u64,
    bins: Vec<(usize, u64)>,
}

fn words(dummy: bool) -> Words {
    let start = "time since the start";
    if dummy {
        let (one, many, from) = ("stop", "stops", "recorded from here");
        Words { one, many, size: "long", from, start, quantity: "ΔT", unit: "ΔT", drawn: "the longest" }
    } else {
        let (one, many, from) = ("gap", "gaps", "recorded from here");
        Words {
            one,
            many,
            size: "long",
            from,
            start,
            quantity: "length of gap",
            unit: "gaps",
            drawn: "the longest",
        }
    }
}

fn write_data(out: &mut dyn Write, input: &NoiseInput<'_>) -> io::Result<()> {
    let gaps = &input.measured.gaps;
    let start_ns = input.start_ns();
    let end_ns = input.measured.loops.iter().map(|one| one.end_ns).chain(gaps.after_ns.iter().copied()).max();
    let span_ns = (end_ns.unwrap_or(start_ns) - start_ns).max(1);
    let chosen = longest_of_each_slice(gaps, start_ns, span_ns, late::MOST_POINTS);
    let mut columns: [Vec<i32>; 3] = Default::default();
    for row in &chosen {
        let offset_ns = gaps.before_ns[*row] - start_ns;
        columns[0].extend([offset_ns as i32, (offset_ns >> 32) as i32]);
        columns[1].push(clamp_ns(gaps.after_ns[*row] - gaps.before_ns[*row]));
        columns[2].push(input.analysis.causes[*row].map_or(late::UNEXPLAINED, |cause| cause as i32));
    }
    for (id, column) in ["late-time", "late-lateness", "late-cause"].iter().zip(&columns) {
        embed::write_block(out, id, &embed::octets_of(column))?;
    }
    let summary = &input.analysis.summary;
    let data = Data {
        words: words(input.stamps.is_some()),
        layered: false,
        period_ns: summary.period_ns.unwrap_or(summary.threshold_ns as f64),
        threshold_ns: summary.threshold_ns,
        slices: 1,
        slice_ns: span_ns as f64,
        bins_per_octave: BINS_PER_OCTAVE,
        packets: 0,
        late: gaps.len(),
        late_drawn: chosen.len(),
        layers: series(input),
        causes: summary.causes.iter().map(|cause| cause.name.as_str()).collect(),
        timelines: [],
    };
    embed::write_json(out, "data", &data)
}

/// Rows of the gaps that are drawn, in the order of time: all, or of too many the longest of each slice of time.
fn longest_of_each_slice(gaps: &GapTable, start_ns: i64, span_ns: i64, most: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..gaps.len()).collect();
    if gaps.len() > most {
        let mut longest: BTreeMap<i128, usize> = BTreeMap::new();
        let length = |row: usize| gaps.after_ns[row] - gaps.before_ns[row];
        for row in 0..gaps.len() {
            let slice = i128::from(gaps.before_ns[row] - start_ns) * most as i128 / i128::from(span_ns);
            let kept = longest.entry(slice).or_insert(row);
            if length(*kept) < length(row) {
                *kept = row;
            }
        }
        rows = longest.into_values().collect();
    }
    rows.sort_by_key(|row| gaps.before_ns[*row]);
    rows
}

/// For each CPU, the lengths of its gaps or the ΔT of its stamps, counted in bins of equal ratio.
fn series(input: &NoiseInput<'_>) -> Vec<Series> {
    let mut by_cpu: BTreeMap<u16, (u64, BTreeMap<usize, u64>)> = BTreeMap::new();
    let mut add = |cpu: u16, ns: i64| {
        let (not_positive, bins) = by_cpu.entry(cpu).or_default();
        match ns {
            ..=0 => *not_positive += 1,
            _ => *bins.entry(((ns as f64).log2() * BINS_PER_OCTAVE) as usize).or_default() += 1,
        }
    };
    match input.stamps {
        None => {
            let gaps = &input.measured.gaps;
            (0..gaps.len()).for_each(|row| add(gaps.cpu[row], gaps.after_ns[row] - gaps.before_ns[row]));
        }
        Some(stamps) => {
            let mut last: BTreeMap<u16, i64> = BTreeMap::new();
            for (cpu, stamp_ns) in stamps.cpu.iter().zip(&stamps.after_ns) {
                if let Some(before_ns) = last.insert(*cpu, *stamp_ns) {
                    add(*cpu, stamp_ns - before_ns);
                }
            }
        }
    }
    let named = |(cpu, (not_positive, bins)): (u16, (u64, BTreeMap<usize, u64>))| Series {
        name: format!("CPU {cpu}"),
        not_positive,
        bins: bins.into_iter().collect(),
    };
    by_cpu.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_gaps_the_longest_of_each_slice_stay() {
        let count = 1_000;
        let mut gaps = GapTable {
            index: (0..count).collect(),
            before_ns: (0..count as i64).map(|at| 100 * at).collect(),
            after_ns: (0..count as i64).map(|at| 100 * at + 10).collect(),
            cpu: vec![0; count as usize],
        };
        gaps.after_ns[777] += 50;
        let rows = longest_of_each_slice(&gaps, 0, 100_000, 10);
        assert_eq!(rows.len(), 10);
        assert!(rows.contains(&777) && rows.is_sorted());
        assert_eq!(longest_of_each_slice(&gaps, 0, 100_000, 1_000).len(), 1_000);
    }
}
