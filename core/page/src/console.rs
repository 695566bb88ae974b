//! The page that `quaver chase` and `quaver sink` print when they are done.

use super::table::{Align, Style, Table, cut, printable, wrap};
use super::units::{bar, count, duration, duration_f64, percent, rate, supports};
use super::{PageInput, RunFacts};
use quaver_analysis::distribution::Distribution;
use quaver_analysis::model::Layer;
use quaver_analysis::summary::{CauseSummary, ChaseSummary, Losses, ProbeCost, Remedy, Unexplained};

/// Widest line of the page, in characters.
pub const WIDTH: usize = 100;

/// Causes below this share are counted together, unless there are only a few.
const SHARE_SHOWN: f64 = 0.001;

/// Most causes that are shown one by one.
const CAUSES_SHOWN: usize = 12;

/// The page for a run: what was measured, what was lost, how late packets were, and what made them late.
pub fn chase(input: &PageInput<'_>, style: Style) -> String {
    let summary = input.summary;
    let mut out = String::new();
    header(&mut out, summary, input.run, style);
    packets(&mut out, &summary.losses, style);
    if let Some(far) = &summary.far_source {
        super::far_source::section(&mut out, far, style);
    }
    if let Some(rtp) = &summary.rtp {
        super::rtp::section(&mut out, rtp, style);
    }
    delta_t(&mut out, summary, style);
    lateness(&mut out, summary, style);
    stages(&mut out, summary, style);
    causes(&mut out, summary, style);
    own_cost(&mut out, summary, style);
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = input.report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

pub fn heading(out: &mut String, style: Style, title: &str, note: &str) {
    out.push('\n');
    out.push_str(&style.bold(title));
    if !note.is_empty() {
        out.push_str(&style.dim(&format!("  {note}")));
    }
    out.push('\n');
}

fn header(out: &mut String, summary: &ChaseSummary, run: &RunFacts, style: Style) {
    let mut stream = Vec::new();
    if !run.stream.is_empty() {
        stream.push(run.stream.clone());
    }
    let learned = if summary.period_learned { " (learned from the stream)" } else { "" };
    stream.push(format!("one packet every {}{learned}", duration_f64(summary.period_ns)));
    stream.extend(rate(summary.period_ns));
    stream.push(format!("for {}", duration(summary.duration_ns)));
    let about =
        Tracing { tier: &summary.tier, reason: summary.tier_reason.as_deref(), blind: &summary.blind };
    head(out, &format!("quaver {}", run.verb), run, ("stream", stream.join(" · ")), &about, style);
    cut_short(out, summary.complete, style);
}

/// What saw the causes.
pub struct Tracing<'a> {
    pub tier: &'a str,
    pub reason: Option<&'a str>,
    pub blind: &'a [String],
}

/// The first lines of a page: the run, its host, what was measured, and what saw the causes.
pub fn head(
    out: &mut String,
    title: &str,
    run: &RunFacts,
    what: (&str, String),
    tracing: &Tracing<'_>,
    style: Style,
) {
    out.push_str(&format!("{} · {}\n", style.bold(title), printable(&run.name)));
    let mut lines = Vec::new();
    if !run.host.is_empty() {
        lines.push(("host", run.host.clone()));
    }
    lines.push(what);
    let tier = if tracing.tier == "user" { "user space only" } else { tracing.tier };
    lines.push(("tracing", tier.to_owned()));
    if let Some(reason) = tracing.reason {
        lines.push(("", format!("not better, because: {reason}")));
    }
    if !tracing.blind.is_empty() {
        lines.push(("blind to", tracing.blind.join(", ")));
    }
    for (name, text) in lines {
        for (at, line) in wrap(&printable(&text), WIDTH - 12).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push_str(&format!("  {}  {line}\n", style.dim(&format!("{name:<8}"))));
        }
    }
}

pub fn cut_short(out: &mut String, complete: bool, style: Style) {
    if !complete {
        let text = "This run was cut short; what follows covers what was kept.";
        out.push_str(&format!("  {}\n", style.alarm(text)));
    }
}

fn packets(out: &mut String, losses: &Losses, style: Style) {
    heading(out, style, "Packets", "");
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Right)]);
    let known = |value: Option<u64>| value.map_or_else(|| "not known".to_owned(), count);
    let share = |value: Option<u64>| match (value, losses.sent) {
        (Some(value), Some(sent)) if sent > 0 && value > 0 => percent(value as f64 / sent as f64),
        _ => String::new(),
    };
    table.row(["sent".to_owned(), known(losses.sent)]);
    table.row(["received".to_owned(), count(losses.received), share(Some(losses.received))]);
    if losses.duplicates > 0 {
        table.row(["  of them copies", &count(losses.duplicates)]);
    }
    if losses.reordered > 0 {
        table.row(["  of them out of order", &count(losses.reordered)]);
    }
    for (place, lost) in places(losses) {
        table.row([format!("lost {place}"), known(lost), share(lost)]);
    }
    out.push_str(&table.render(style));
}

/// Places where a packet can be lost, in the packet's order, with the count where it is known.
pub(super) fn places(losses: &Losses) -> Vec<(String, Option<u64>)> {
    let mut places =
        vec![("in the network".to_owned(), losses.network), ("in the NIC ring".to_owned(), losses.nic_ring)];
    places.extend(
        losses
            .stack
            .iter()
            .map(|(reason, lost)| (format!("in the stack ({})", printable(reason)), Some(*lost))),
    );
    if losses.stack.is_empty() {
        // Who saw every packet at the stack's entry saw the stack drop them too.
        places.push(("in the stack".to_owned(), losses.network.map(|_| 0)));
    }
    places.push(("at the socket buffer".to_owned(), losses.socket_buffer));
    places.push(("by this tool".to_owned(), Some(losses.ours)));
    places.push(("at an unknown place".to_owned(), Some(losses.unaccounted)));
    places
}

/// The columns of a percentile table, each with how many samples it needs.
pub fn percentiles(distribution: &Distribution) -> [(&'static str, String); 6] {
    let shown = |one_in: u64, ns: i64| {
        if supports(distribution.count, one_in) { duration(ns) } else { "-".to_owned() }
    };
    [
        ("p50", shown(1, distribution.p50_ns)),
        ("p90", shown(10, distribution.p90_ns)),
        ("p99", shown(100, distribution.p99_ns)),
        ("p99.9", shown(1_000, distribution.p99_9_ns)),
        ("p99.99", shown(10_000, distribution.p99_99_ns)),
        ("p99.999", shown(100_000, distribution.p99_999_ns)),
    ]
}

fn delta_t(out: &mut String, summary: &ChaseSummary, style: Style) {
    heading(out, style, "ΔT", "time between successive packets, at each place where they were stamped");
    let names = ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max", "sd"];
    let mut columns = vec![("layer", Align::Left)];
    columns.extend(names.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for layer in &summary.layers {
        let d = &layer.delta_t;
        let mut cells = vec![layer.layer.name().to_owned()];
        cells.extend(percentiles(d).map(|(_, cell)| cell));
        cells.push(if d.count > 0 { duration(d.max_ns) } else { "-".to_owned() });
        cells.push(if d.count > 0 { duration_f64(d.sd_ns) } else { "-".to_owned() });
        table.row(cells);
    }
    if summary.layers.is_empty() {
        out.push_str("  No two successive packets were received, so there is no ΔT.\n");
    } else {
        out.push_str(&table.render(style));
    }
}

fn lateness(out: &mut String, summary: &ChaseSummary, style: Style) {
    let late = &summary.lateness;
    heading(out, style, "Late packets", "");
    if late.packets == 0 {
        out.push_str(&format!(
            "  None: no packet was more than {} later than it usually is.\n",
            duration(late.threshold_ns)
        ));
        return;
    }
    let received = summary.losses.received.max(1);
    let text = format!(
        "{} of {} ({}) were more than {} later than usual. Together they cost {} ({} of the run).",
        count(late.packets),
        count(summary.losses.received),
        percent(late.packets as f64 / received as f64),
        duration(late.threshold_ns),
        duration(late.time_ns),
        percent(late.time_ns as f64 / summary.duration_ns.max(1) as f64)
    );
    for line in wrap(&text, WIDTH - 2) {
        out.push_str(&format!("  {line}\n"));
    }
    if late.distribution.count > 0 {
        out.push_str(&format!(
            "  The worst was late by {}.\n",
            style.bold(&duration(late.distribution.max_ns))
        ));
    }
}

fn stages(out: &mut String, summary: &ChaseSummary, style: Style) {
    if summary.stages.is_empty() || summary.lateness.packets == 0 {
        return;
    }
    heading(out, style, "Where late packets wait", "time beyond that of packets on time, stage by stage");
    let mut table = Table::new(&[
        ("stage", Align::Left),
        ("share", Align::Right),
        ("", Align::Left),
        ("on time", Align::Right),
        ("late p50", Align::Right),
        ("late max", Align::Right),
    ]);
    for stage in &summary.stages {
        table.row([
            stage_name(stage.from, stage.to),
            percent(stage.excess_share),
            format!("{:<20}", bar(stage.excess_share, 20)),
            duration(stage.on_time.p50_ns),
            duration(stage.late.p50_ns),
            duration(stage.late.max_ns),
        ]);
    }
    out.push_str(&table.render(style));
}

/// `receive → enqueued`.
pub(super) fn stage_name(from: Layer, to: Layer) -> String {
    format!("{} → {}", from.name(), to.name())
}

fn causes(out: &mut String, summary: &ChaseSummary, style: Style) {
    if summary.lateness.packets == 0 {
        return;
    }
    heading(out, style, "What made them late", "ranked; shares are of the late time");
    let ranked = Ranked {
        causes: &summary.causes,
        unexplained: &summary.unexplained,
        counted: "late packets",
        example: &|_, seq| format!("#{seq}"),
    };
    ranked.render(out, style);
}

/// Causes in rank order, each with what removes it, and what stayed unexplained.
pub struct Ranked<'a> {
    pub causes: &'a [CauseSummary],
    pub unexplained: &'a Unexplained,
    /// What a cause leads so many of.
    pub counted: &'a str,
    /// How an example is shown, given its cause (none: unexplained) and number.
    pub example: &'a dyn Fn(Option<usize>, u64) -> String,
}

impl Ranked<'_> {
    /// The table.
    pub fn render(&self, out: &mut String, style: Style) {
        let shown = self
            .causes
            .iter()
            .take_while(|cause| cause.share >= SHARE_SHOWN)
            .count()
            .clamp(self.causes.len().min(3), CAUSES_SHOWN);
        let (shown, rest) = self.causes.split_at(shown.min(self.causes.len()));
        let mut table = Table::new(&[
            ("#", Align::Right),
            ("share", Align::Right),
            ("time", Align::Right),
            (self.counted, Align::Right),
            ("worst", Align::Right),
            ("example", Align::Right),
            ("source", Align::Left),
        ]);
        for (at, cause) in shown.iter().enumerate() {
            let told = shown[..at].iter().position(|earlier| earlier.remedy == cause.remedy).map(|at| at + 1);
            let example = (self.example)(Some(at), cause.example_seq);
            cause_rows(&mut table, at + 1, cause, (example, told), style);
        }
        if !rest.is_empty() {
            table.row([
                String::new(),
                percent(rest.iter().map(|cause| cause.share).sum()),
                duration(rest.iter().map(|cause| cause.time_ns).sum()),
                count(rest.iter().map(|cause| cause.packets).sum()),
                duration(rest.iter().map(|cause| cause.worst_ns).max().unwrap_or(0)),
                String::new(),
                format!("{} smaller sources (see the report)", rest.len()),
            ]);
        }
        let unexplained = self.unexplained;
        table.row([
            "?".to_owned(),
            percent(unexplained.share),
            duration(unexplained.time_ns),
            count(unexplained.packets),
            duration(unexplained.worst_ns),
            unexplained.example_seq.map(|seq| (self.example)(None, seq)).unwrap_or_default(),
            "unexplained".to_owned(),
        ]);
        indented(&mut table, "", &unexplained.note, |line| style.dim(line));
        out.push_str(&table.render(style));
    }
}

/// `told` is the rank of an earlier cause with the same remedy.
fn cause_rows(
    table: &mut Table,
    rank: usize,
    cause: &CauseSummary,
    (example, told): (String, Option<usize>),
    style: Style,
) {
    table.row([
        rank.to_string(),
        percent(cause.share),
        duration(cause.time_ns),
        count(cause.packets),
        duration(cause.worst_ns),
        example,
        cut(&printable(&cause.name), 36),
    ]);
    indented(table, "", &format!("[{}] {}", cause.source, split_of(cause)), |line| style.dim(line));
    let remedies = remedies(&cause.remedy);
    if let Some(earlier) = told.filter(|_| !remedies.is_empty()) {
        indented(table, "", &format!("remedy: as for {earlier}"), |line| style.remedy(line));
        return;
    }
    for (label, text) in remedies {
        indented(table, label, text, |line| style.remedy(line));
    }
}

/// `12 times: 3.10 ms inside, 200 us getting in and out, 1.10 ms catching up afterwards`.
pub(super) fn split_of(cause: &CauseSummary) -> String {
    let inside = cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns;
    let mut parts = vec![format!("{} inside", duration(inside))];
    if cause.entry_exit_ns > 0 {
        parts.push(format!("{} getting in and out", duration(cause.entry_exit_ns)));
    }
    if cause.catch_up_ns > 0 {
        parts.push(format!("{} catching up afterwards", duration(cause.catch_up_ns)));
    }
    let times =
        if cause.intervals == 1 { "once".to_owned() } else { format!("{} times", count(cause.intervals)) };
    format!("{times}: {}", parts.join(", "))
}

/// What to do, with a label that says when it takes effect.
pub(super) fn remedies(remedy: &Remedy) -> Vec<(&'static str, &str)> {
    let mut all = Vec::new();
    if let Some(setting) = &remedy.setting {
        all.push(("now:  ", setting.as_str()));
    }
    if let Some(boot) = &remedy.boot {
        all.push(("boot: ", boot.as_str()));
    }
    if let Some(known) = &remedy.known {
        all.push(("known: ", known.as_str()));
    }
    all
}

fn indented(table: &mut Table, label: &str, text: &str, colour: impl Fn(&str) -> String) {
    const INDENT: usize = 7;
    for (at, line) in wrap(&printable(text), WIDTH - INDENT - label.len()).iter().enumerate() {
        let label = if at == 0 { label.to_owned() } else { " ".repeat(label.len()) };
        table.note(format!("{}{}", " ".repeat(INDENT), colour(&format!("{label}{line}"))));
    }
}

fn own_cost(out: &mut String, summary: &ChaseSummary, style: Style) {
    heading(out, style, "Cost of the probes", "");
    match &summary.probe_cost {
        Some(cost) => out.push_str(&format!("  {}\n", cost_of(cost))),
        None => out.push_str("  not measured in this run\n"),
    }
}

/// The probes' cost in one sentence.
pub(super) fn cost_of(cost: &ProbeCost) -> String {
    format!(
        "{} a packet (95 % interval {} to {}), from {} blocks with and {} without probes",
        duration_f64(cost.per_packet_ns),
        duration_f64(cost.interval_ns.0),
        duration_f64(cost.interval_ns.1),
        cost.blocks,
        cost.blocks
    )
}

pub fn warnings(out: &mut String, warnings: &[String], style: Style) {
    if warnings.is_empty() {
        return;
    }
    heading(out, style, "Warnings", "");
    for warning in warnings {
        for (at, line) in wrap(&printable(warning), WIDTH - 4).iter().enumerate() {
            let mark = if at == 0 { style.caution("!") } else { " ".to_owned() };
            out.push_str(&format!("  {mark} {line}\n"));
        }
    }
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
