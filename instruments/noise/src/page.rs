//! The page that `quaver noise` prints when it is done.

use quaver_analysis::attribution::NoiseAnalysis;
use quaver_analysis::distribution::Distribution;
use quaver_analysis::model::{GapTable, NoiseRun};
use quaver_analysis::summary::{ClassCount, DummyProgram, NoiseCpu};
use quaver_page::RunFacts;
use quaver_page::console::{Ranked, Tracing, cut_short, head, heading, percentiles, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{count, duration, duration_f64, percent};
use std::collections::BTreeMap;

/// What the pages of a noise run are made from.
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
    /// Path of the HTML report, where one was written.
    pub report_path: Option<&'a str>,
}

impl NoiseInput<'_> {
    /// First instant of the first loop, CLOCK_MONOTONIC.
    pub(super) fn start_ns(&self) -> i64 {
        self.measured.loops.iter().map(|one| one.start_ns).min().unwrap_or(0)
    }

    /// Whether anything of what the CPUs did was recorded: counts of zero would be wrong otherwise.
    pub(super) fn saw_events(&self) -> bool {
        self.analysis.summary.tier != "user" && !self.measured.events.is_empty()
    }

    /// What the gaps are called.
    pub(super) fn gaps_word(&self) -> &'static str {
        if self.stamps.is_some() { "stops" } else { "gaps" }
    }
}

/// A sentence about a receiver of packets, said of a loop.
pub fn for_a_loop(text: &str) -> String {
    text.replace("receiver", "loop")
}

/// The page for a run: how much the loops were kept from running, by what, and what the CPUs did meanwhile.
pub fn page(input: &NoiseInput<'_>, style: Style) -> String {
    let summary = &input.analysis.summary;
    let mut out = String::new();
    let about =
        Tracing { tier: &summary.tier, reason: summary.tier_reason.as_deref(), blind: &summary.blind };
    head(&mut out, "quaver noise", input.run, ("loop", loop_line(input)), &about, style);
    cut_short(&mut out, summary.complete, style);
    if let Some(dummy) = &summary.dummy {
        dummy_program(&mut out, dummy, summary.threshold_ns, style);
    }
    noise(&mut out, input, style);
    causes(&mut out, input, style);
    counters(&mut out, input, style);
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = input.report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

fn loop_line(input: &NoiseInput<'_>) -> String {
    let cpus: Vec<String> = input.measured.loops.iter().map(|one| one.cpu.to_string()).collect();
    let longest = input.analysis.summary.cpus.iter().map(|cpu| cpu.runtime_ns).max().unwrap_or(0);
    let plural = if cpus.len() == 1 { "" } else { "s" };
    format!("{} · CPU{plural} {} · for {}", input.run.stream, cpus.join(", "), duration(longest))
}

fn paragraph(out: &mut String, text: &str) {
    for line in wrap(text, quaver_page::console::WIDTH - 2) {
        out.push_str(&format!("  {line}\n"));
    }
}

fn dummy_program(out: &mut String, dummy: &DummyProgram, threshold_ns: i64, style: Style) {
    heading(out, style, "Stamps", "one at each deadline; ΔT is the time between two that follow each other");
    let names = ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max", "sd"];
    let mut columns = vec![("", Align::Left)];
    columns.extend(names.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (name, distribution) in [("ΔT", &dummy.delta_t), ("behind its deadline", &dummy.lateness)] {
        let mut cells = vec![name.to_owned()];
        cells.extend(distribution_cells(distribution));
        table.row(cells);
    }
    out.push_str(&table.render(style));
    let share = percent(dummy.late as f64 / dummy.timestamps.max(1) as f64);
    let text = format!(
        "{} of {} stamps ({share}) came {} or more after their deadline.",
        count(dummy.late),
        count(dummy.timestamps),
        duration(threshold_ns)
    );
    paragraph(out, &text);
    heading(
        out,
        style,
        "Spikes",
        "ΔT of twice the period or more: at least one deadline came and went within it",
    );
    let mut table = Table::new(&[
        ("", Align::Left),
        ("stamps", Align::Right),
        ("spikes", Align::Right),
        ("in a million", Align::Right),
        ("size", Align::Right),
    ]);
    let size =
        if dummy.spikes == 0 { "-".to_owned() } else { format!("up to {}", duration(dummy.delta_t.max_ns)) };
    let rate = rate_of(dummy.spikes_per_million);
    table.row(["here".to_owned(), count(dummy.timestamps), count(dummy.spikes), rate, size]);
    let paper = &dummy.paper;
    table.row([
        "in the paper".to_owned(),
        count(paper.timestamps),
        count(paper.spikes),
        rate_of(paper.spikes as f64 * 1e6 / paper.timestamps as f64),
        format!("about {}", duration(paper.spike_ns)),
    ]);
    table.note(style.dim("  the paper: \"Chasing Linux Jitter Sources for Uncompressed Video\", IV-B, figure 5: a tuned machine"));
    out.push_str(&table.render(style));
}

/// A count in a million.
pub(super) fn rate_of(per_million: f64) -> String {
    if per_million > 0.0 && per_million < 10.0 {
        format!("{per_million:.2}")
    } else {
        count(per_million.round() as u64)
    }
}

/// Percentiles, maximum and standard deviation.
pub(super) fn distribution_cells(distribution: &Distribution) -> Vec<String> {
    let mut cells: Vec<String> = percentiles(distribution).into_iter().map(|(_, cell)| cell).collect();
    let any = distribution.count > 0;
    cells.push(if any { duration(distribution.max_ns) } else { "-".to_owned() });
    cells.push(if any { duration_f64(distribution.sd_ns) } else { "-".to_owned() });
    cells
}

fn noise(out: &mut String, input: &NoiseInput<'_>, style: Style) {
    let summary = &input.analysis.summary;
    let threshold = duration(summary.threshold_ns);
    let note = if input.stamps.is_some() {
        format!("time for which a stamp was held up beyond its deadline by {threshold} or more")
    } else {
        format!("time in which the loop did not run: turns that took {threshold} or more")
    };
    heading(out, style, "Noise", &note);
    let shortest = if input.stamps.is_some() { "least behind" } else { "shortest turn" };
    let mut table = Table::new(&[
        ("CPU", Align::Right),
        ("turns", Align::Right),
        (shortest, Align::Right),
        (input.gaps_word(), Align::Right),
        ("a second", Align::Right),
        ("noise", Align::Right),
        ("share", Align::Right),
        ("median", Align::Right),
        ("p99", Align::Right),
        ("largest", Align::Right),
    ]);
    for cpu in &summary.cpus {
        table.row(noise_cells(cpu));
    }
    out.push_str(&table.render(style));
}

/// One CPU's noise, cell by cell.
pub(super) fn noise_cells(cpu: &NoiseCpu) -> Vec<String> {
    let seconds = cpu.runtime_ns as f64 / 1e9;
    let per_second = if seconds > 0.0 { cpu.gaps as f64 / seconds } else { 0.0 };
    let gap = |ns: i64| if cpu.gaps > 0 { duration(ns) } else { "-".to_owned() };
    vec![
        cpu.cpu.to_string(),
        if cpu.turns > 0 { count(cpu.turns) } else { "not known".to_owned() },
        cpu.shortest_turn_ns.map_or_else(|| "-".to_owned(), duration),
        count(cpu.gaps),
        rate_of(per_second),
        duration(cpu.noise_ns),
        if cpu.runtime_ns > 0 {
            percent(cpu.noise_ns as f64 / cpu.runtime_ns as f64)
        } else {
            "-".to_owned()
        },
        gap(cpu.gap.p50_ns),
        percentiles(&cpu.gap)[2].1.clone(),
        gap(cpu.gap.max_ns),
    ]
}

fn causes(out: &mut String, input: &NoiseInput<'_>, style: Style) {
    let summary = &input.analysis.summary;
    let what = if input.stamps.is_some() { "What made the stamps late" } else { "What stopped the loops" };
    heading(out, style, what, "ranked; shares are of the noise; examples are times after the start");
    if summary.noise_ns == 0 {
        let threshold = duration(summary.threshold_ns);
        paragraph(out, &format!("Nothing: nobody kept the loops from running for {threshold} or more."));
        return;
    }
    let examples = Examples::of(input);
    let ranked = Ranked {
        causes: &summary.causes,
        unexplained: &summary.unexplained,
        counted: input.gaps_word(),
        example: &|cause, turn| examples.shown(cause, turn),
    };
    ranked.render(out, style);
}

/// When the example gap of each cause was.
pub(super) struct Examples(BTreeMap<(Option<usize>, u64), i64>);

impl Examples {
    pub(super) fn of(input: &NoiseInput<'_>) -> Self {
        let summary = &input.analysis.summary;
        let wanted = summary.causes.iter().enumerate().map(|(at, cause)| (Some(at), cause.example_seq));
        let wanted: Vec<_> = wanted.chain(summary.unexplained.example_seq.map(|turn| (None, turn))).collect();
        let turns: std::collections::BTreeSet<u64> = wanted.iter().map(|(_, turn)| *turn).collect();
        let (gaps, analysis) = (&input.measured.gaps, input.analysis);
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
        Self(found)
    }

    /// `at 3.217412 s`.
    pub(super) fn shown(&self, cause: Option<usize>, turn: u64) -> String {
        self.0.get(&(cause, turn)).map_or_else(String::new, |ns| format!("{:.6} s", *ns as f64 / 1e9))
    }
}

/// The classes of the kernel's osnoise tracer, in its order, by their names on our pages.
pub(super) fn classes(cpu: &NoiseCpu, virtual_machine: bool) -> [(&'static str, &ClassCount); 5] {
    let hardware = if virtual_machine { "hypervisor or hardware" } else { "hardware" };
    [
        (hardware, &cpu.hardware),
        ("NMI", &cpu.nmi),
        ("interrupts", &cpu.irq),
        ("softirqs", &cpu.softirq),
        ("other threads", &cpu.thread),
    ]
}

fn counters(out: &mut String, input: &NoiseInput<'_>, style: Style) {
    let summary = &input.analysis.summary;
    if !input.saw_events() {
        return;
    }
    heading(
        out,
        style,
        "What ran on these CPUs",
        "every entry, however short, as the kernel's osnoise tracer counts",
    );
    let mut table = Table::new(&[
        ("CPU", Align::Right),
        ("class", Align::Left),
        ("entries", Align::Right),
        ("a second", Align::Right),
        ("time", Align::Right),
        ("mean", Align::Right),
        ("longest", Align::Right),
    ]);
    for cpu in &summary.cpus {
        for (at, (name, counted)) in
            classes(cpu, input.measured.circumstances.virtual_machine).into_iter().enumerate()
        {
            let number = if at == 0 { cpu.cpu.to_string() } else { String::new() };
            let mut cells = vec![number, name.to_owned()];
            cells.extend(class_cells(counted, cpu.runtime_ns));
            table.row(cells);
        }
    }
    let note = "time is net: an NMI is taken out of the interrupt that it hit, that out of the softirq, that out of the thread";
    for line in wrap(note, quaver_page::console::WIDTH - 2) {
        table.note(style.dim(&format!("  {line}")));
    }
    out.push_str(&table.render(style));
}

/// Entries, entries a second, time, mean and longest of a class.
pub(super) fn class_cells(counted: &ClassCount, runtime_ns: i64) -> Vec<String> {
    let seconds = runtime_ns as f64 / 1e9;
    let known = |text: String| if counted.count > 0 { text } else { "-".to_owned() };
    vec![
        count(counted.count),
        known(if seconds > 0.0 { rate_of(counted.count as f64 / seconds) } else { "-".to_owned() }),
        known(duration(counted.net_ns as i64)),
        known(duration_f64(counted.net_ns as f64 / counted.count.max(1) as f64)),
        known(duration(counted.max_ns as i64)),
    ]
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
