//! What a person sees of a noise run: how much of the time the loops did not run, why, and what the CPUs did meanwhile.

mod charts;

use quaver_analysis::attribution::NoiseAnalysis;
use quaver_analysis::model::{GapTable, NoiseRun};
pub use quaver_analysis::summary::{ClassCount, Distribution, DummyProgram, NoiseCpu, NoiseSummary};
use quaver_instrument::causes::{certainty, ranked, said_of};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::head::{Tracing, head};
use quaver_instrument::percentiles::{PERCENTILES, percentiles};
use quaver_view::{Block, Cell, Column, Document, Section, Shown, Table, Text, text};
use std::collections::{BTreeMap, BTreeSet};

/// What the document of a noise run is made from.
#[derive(Clone, Copy, Debug)]
pub struct NoiseInput<'a> {
    /// Results.
    pub analysis: &'a NoiseAnalysis,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// Gaps and events.
    pub measured: &'a NoiseRun,
    /// Every stamp of the dummy program; none for the tight loop.
    pub stamps: Option<&'a GapTable>,
}

impl<'a> NoiseInput<'a> {
    fn summary(&self) -> &'a NoiseSummary {
        &self.analysis.summary
    }

    /// First instant of the first loop, CLOCK_MONOTONIC.
    fn start_ns(&self) -> i64 {
        self.measured.loops.iter().map(|one| one.start_ns).min().unwrap_or(0)
    }

    /// Whether anything of what the CPUs did was recorded: counts of zero would be wrong otherwise.
    fn saw_events(&self) -> bool {
        self.summary().tier != "user" && !self.measured.events.is_empty()
    }
}

/// The document of a run.
pub fn document(input: &NoiseInput<'_>) -> Document {
    let summary = input.summary();
    let tracing =
        Tracing { tier: &summary.tier, reason: summary.tier_reason.as_deref(), blind: &summary.blind };
    let mut document = head(input.run, ("loop", loop_line(input)), Some(tracing));
    document.verdict = verdict(summary);
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    tiles(&mut document, summary);
    if let Some(dummy) = &summary.dummy {
        dummy_program(&mut document, dummy, summary.threshold_ns);
    }
    document.section(noise(input));
    document.section(causes(input));
    charts::add(&mut document, input);
    if input.saw_events() {
        document.section(activity(input));
    }
    document
}

fn loop_line(input: &NoiseInput<'_>) -> Text {
    let cpus: Vec<String> = input.measured.loops.iter().map(|one| one.cpu.to_string()).collect();
    let longest_ns = input.summary().cpus.iter().map(|cpu| cpu.runtime_ns).max().unwrap_or(0);
    let what = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    text!("{} · {what} {} · for {}", input.run.stream, cpus.join(", "), Cell::Duration(longest_ns))
}

/// The part of their time that the loops did not run; none where they never did.
fn noise_share(summary: &NoiseSummary) -> Option<f64> {
    let runtime_ns: i64 = summary.cpus.iter().map(|cpu| cpu.runtime_ns).sum();
    (runtime_ns > 0).then(|| summary.noise_ns as f64 / runtime_ns as f64)
}

fn verdict(summary: &NoiseSummary) -> Option<Text> {
    let share = noise_share(summary)?;
    if summary.noise_ns == 0 {
        return Some(text!("No gap of {} or more.", Cell::Duration(summary.threshold_ns)));
    }
    let loops = if summary.cpus.len() == 1 { "loop" } else { "loops" };
    let lost = format!("The {loops} did not run for {} of the time.", Cell::Share(share));
    let unexplained = summary.unexplained.share;
    Some(match summary.causes.first().filter(|cause| cause.share >= unexplained) {
        Some(cause) => {
            text!("{lost} Largest cause: {}, {} of the noise.", cause.name, Cell::Share(cause.share))
        }
        None => text!("{lost} Most of the noise ({}) is unexplained.", Cell::Share(unexplained)),
    })
}

fn tiles(document: &mut Document, summary: &NoiseSummary) {
    let gaps = summary.cpus.iter().map(|cpu| cpu.gaps).sum();
    let worst = summary.cpus.iter().max_by_key(|cpu| cpu.gap.max_ns).filter(|cpu| cpu.gaps > 0);
    document.tile(
        "Noise",
        noise_share(summary).map(Cell::Share),
        text!("{} together", Cell::Duration(summary.noise_ns)),
    );
    document.tile("Gaps", Cell::Count(gaps), text!("of {} or more", Cell::Duration(summary.threshold_ns)));
    document.tile(
        "Largest",
        worst.map(|cpu| Cell::Duration(cpu.gap.max_ns)),
        worst.map_or(Text::default(), |cpu| text!("on CPU {}", cpu.cpu)),
    );
    if let Some(dummy) = &summary.dummy {
        let note = text!("paper: {}", papers_rate(dummy));
        document.tile("Spikes per million", Cell::Frequency(dummy.spikes_per_million), note);
    } else if let Some(turn_ns) = summary.cpus.iter().filter_map(|cpu| cpu.shortest_turn_ns).min() {
        document.tile("Shortest iteration", Cell::Duration(turn_ns), "resolution limit");
    }
}

fn papers_rate(dummy: &DummyProgram) -> Cell {
    Cell::Frequency(dummy.paper.spikes as f64 * 1e6 / dummy.paper.timestamps as f64)
}

fn dummy_program(document: &mut Document, dummy: &DummyProgram, threshold_ns: i64) {
    let mut stamps = Table::new([""].into_iter().chain(PERCENTILES));
    for (name, of) in [("ΔT", &dummy.delta_t), ("lateness", &dummy.lateness)] {
        stamps.row([name.into()].into_iter().chain(percentiles(of)));
    }
    let late = text!(
        "{} of {} stamps ({}) were at least {} late.",
        Cell::Count(dummy.late),
        Cell::Count(dummy.timestamps),
        Cell::part(dummy.late, dummy.timestamps),
        Cell::Duration(threshold_ns)
    );
    document.section(
        Section::new("stamps", "Stamps")
            .note("one per deadline; ΔT is the time between successive stamps")
            .with(stamps)
            .with(late),
    );
    let paper = &dummy.paper;
    let mut spikes = Table::new(["", "stamps", "spikes", "per million", "size"]);
    let size = text!("up to {}", Cell::Duration(dummy.delta_t.max_ns));
    spikes.row([
        "here".into(),
        Cell::Count(dummy.timestamps),
        Cell::Count(dummy.spikes),
        Cell::Frequency(dummy.spikes_per_million),
        Cell::from(size).only_if(dummy.spikes > 0),
    ]);
    spikes.row([
        "paper".into(),
        Cell::Count(paper.timestamps),
        Cell::Count(paper.spikes),
        papers_rate(dummy),
        text!("about {}", Cell::Duration(paper.spike_ns)).into(),
    ]);
    spikes.note("paper: “Chasing Linux Jitter Sources for Uncompressed Video”, section IV-B, figure 5: a tuned machine");
    document.section(
        Section::new("spikes", "Compared with the paper")
            .note("A spike is a ΔT of at least two periods: it contains a missed deadline.")
            .with(spikes),
    );
}

fn noise(input: &NoiseInput<'_>) -> Section {
    let threshold = Cell::Duration(input.summary().threshold_ns);
    let (note, shortest) = if input.stamps.is_some() {
        (text!("time by which stamps were late, from {threshold}"), "min lateness")
    } else {
        (
            text!("time in which the loop did not run: iterations of at least {threshold}"),
            "shortest iteration",
        )
    };
    // 80 characters have no room for the others.
    let page_only = |heading| Column::new(heading).html_only();
    let mut table = Table::new([
        "CPU".into(),
        "iterations".into(),
        shortest.into(),
        "gaps".into(),
        page_only("per second"),
        "noise".into(),
        "share".into(),
        page_only("median"),
        page_only("p99"),
        "largest".into(),
    ]);
    for cpu in &input.summary().cpus {
        table.row(noise_row(cpu));
    }
    Section::new("cpus", "Noise by CPU").note(note).with(table)
}

fn noise_row(cpu: &NoiseCpu) -> [Cell; 10] {
    let seconds = cpu.runtime_ns as f64 / 1e9;
    let ran = cpu.runtime_ns > 0;
    [
        Cell::Index(cpu.cpu.into()),
        if cpu.turns > 0 { Cell::Count(cpu.turns) } else { Cell::Unknown },
        cpu.shortest_turn_ns.map(Cell::Duration).into(),
        Cell::Count(cpu.gaps),
        Cell::Frequency(cpu.gaps as f64 / seconds).only_if(ran),
        Cell::Duration(cpu.noise_ns),
        Cell::Share(cpu.noise_ns as f64 / cpu.runtime_ns as f64).only_if(ran),
        Cell::Duration(cpu.gap.p50_ns).only_if(cpu.gaps > 0),
        Cell::percentile(cpu.gap.p99_ns, cpu.gap.count, 100),
        Cell::Duration(cpu.gap.max_ns).only_if(cpu.gaps > 0),
    ]
}

fn causes(input: &NoiseInput<'_>) -> Section {
    let summary = input.summary();
    let title = if input.stamps.is_some() { "Causes of late stamps" } else { "Causes of noise" };
    let section = Section::new("causes", title).link("Causes");
    if summary.noise_ns == 0 {
        return section.with(text!("None: no gap of {} or more.", Cell::Duration(summary.threshold_ns)));
    }
    let examples = examples(input);
    let mut causes = ranked(&summary.causes, &summary.unexplained, "gaps", |cause, turn| {
        examples.get(&(cause, turn)).map_or(Cell::Empty, |ns| Cell::Instant(*ns))
    });
    for detail in causes.causes.iter_mut().flat_map(|cause| &mut cause.html_details) {
        *detail = said_of("loop", &detail.to_string()).into();
    }
    let section =
        section.note("by share; each gap counts for its largest cause; example: time after the start");
    let section = match certainty("noise", &summary.causes, &summary.unexplained) {
        Some(certainty) => section.with(certainty),
        None => section,
    };
    section.with(causes).with(
        Block::Note("Noise that no recorded event explains is called unexplained.".into())
            .only(Shown::HtmlOnly),
    )
}

/// When the example gap of each cause was, in time after the start, by cause (none: unexplained) and turn.
fn examples(input: &NoiseInput<'_>) -> BTreeMap<(Option<usize>, u64), i64> {
    let (gaps, analysis, summary) = (&input.measured.gaps, input.analysis, input.summary());
    let wanted = summary.causes.iter().enumerate().map(|(at, cause)| (Some(at), cause.example_seq));
    let wanted: BTreeSet<_> =
        wanted.chain(summary.unexplained.example_seq.map(|turn| (None, turn))).collect();
    let turns: BTreeSet<u64> = wanted.iter().map(|(_, turn)| *turn).collect();
    let mut found = BTreeMap::new();
    for row in (0..gaps.len()).filter(|row| turns.contains(&gaps.index[*row])) {
        // Loops of several CPUs have equal turns, so the gap is the one with a piece of the cause.
        let pieces = analysis.first_piece[row] as usize..analysis.first_piece[row + 1] as usize;
        for piece in &analysis.pieces[pieces] {
            let key = (piece.cause.map(|cause| cause as usize), gaps.index[row]);
            if wanted.contains(&key) {
                found.entry(key).or_insert(gaps.before_ns[row] - input.start_ns());
            }
        }
    }
    found
}

fn activity(input: &NoiseInput<'_>) -> Section {
    let virtual_machine = input.measured.circumstances.virtual_machine;
    let hardware = if virtual_machine { "hypervisor or hardware" } else { "hardware" };
    let mut table = Table::new(["CPU", "class", "entries", "per second", "time", "mean", "longest"]);
    for cpu in &input.summary().cpus {
        let classes = [
            (hardware, &cpu.hardware),
            ("NMI", &cpu.nmi),
            ("interrupts", &cpu.irq),
            ("softirqs", &cpu.softirq),
            ("other threads", &cpu.thread),
        ];
        for (at, (name, counted)) in classes.into_iter().enumerate() {
            let number = if at == 0 { Cell::Index(cpu.cpu.into()) } else { Cell::Empty };
            table.row([number, name.into()].into_iter().chain(class_row(counted, cpu.runtime_ns)));
        }
    }
    table.note("time is net: NMIs are subtracted from interrupts, these from softirqs, these from threads");
    Section::new("activity", "Activity on these CPUs")
        .note("every entry, however short, as the osnoise tracer counts")
        .with(table)
}

/// Entries, entries per second, time, mean and longest of a class.
fn class_row(counted: &ClassCount, runtime_ns: i64) -> [Cell; 5] {
    let any = counted.count > 0;
    let count = counted.count as f64;
    [
        Cell::Count(counted.count),
        Cell::Frequency(count * 1e9 / runtime_ns as f64).only_if(any && runtime_ns > 0),
        Cell::Duration(counted.net_ns as i64).only_if(any),
        Cell::FineDuration(counted.net_ns as f64 / count).only_if(any),
        Cell::Duration(counted.max_ns as i64).only_if(any),
    ]
}

#[cfg(test)]
mod tests;
