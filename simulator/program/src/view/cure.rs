//! Injected jitter and its cure in the document of a simulated run.

use super::simulated;
use crate::digest::{CureSummary, SeedFigures, TIMER, TimeSlice};
use quaver_dvfs::dvfs::CriticalPath;
use quaver_sim::cure::{BoostRule, CacheKind};
use quaver_sim::inject::{KernelData, Spread};
use quaver_view::{
    Axis, BarSeries, Bars, Block, Cell, Chart, Colour, Data, Document, Numbers, Quantity, Section, Series,
    Shown, Table, Text, Xy, text,
};

/// Colours of what was run without the cure, and with it.
const WITHOUT: Colour = Colour::Series(1);
const WITH: Colour = Colour::Series(0);

/// Adds what became of the program's run time, what was injected, and what the controllers did. In the first run the kernel was
/// active for `kernel_fs`.
pub(super) fn add(document: &mut Document, cure: &CureSummary, program: &[String], kernel_fs: u64) {
    document.section(outcome(cure));
    if !cure.classes.is_empty() {
        document.section(injected(cure, kernel_fs));
    }
    if let Some(recorded) = &cure.recorded {
        document.section(super::recorded::section(recorded, program));
    }
    if !cure.activities.is_empty() {
        document.section(kernel(cure));
    }
    if cure.points.len() > 1 {
        document.section(frequencies(cure));
    }
}

fn note(words: Text) -> Block {
    Block::Note(words)
}

fn optional(share: Option<f64>) -> Cell {
    share.map(Cell::Share).into()
}

fn outcome(cure: &CureSummary) -> Section {
    let runs = match cure.seeds.len() {
        1 => "one seed".to_owned(),
        seeds => format!("{seeds} seeds"),
    };
    let mut spreads = Table::new(["over the seeds", "min", "mean", "max"]);
    let mut row = |name: &str, spread: Option<Spread>| {
        if let Some(one) = spread {
            let cells = [one.min, one.mean, one.max].map(Cell::Share);
            spreads.row([Cell::from(name)].into_iter().chain(cells));
        }
    };
    row("slow-down without cure", cure.slow_down_without);
    row("slow-down with cure", cure.slow_down);
    row("additional core power", cure.power_overhead);
    let mut section = Section::new("cure", "Injected jitter and its cure")
        .note(format!("{}; {runs}", configured(cure)))
        .with(spreads);
    measured(cure).into_iter().for_each(|words| {
        section.push(note(words));
    });
    if let Some(words) = caches(cure) {
        section.push(note(words));
    }
    if cure.seeds.len() > 1 {
        section.push(Block::from(seeds(cure)).only(Shown::HtmlOnly));
    }
    over_time(cure).into_iter().for_each(|chart| {
        section.push(chart);
    });
    debts(cure).into_iter().for_each(|chart| {
        section.push(chart);
    });
    section
}

/// What cures, in a few words: `DVFS (reactive, nominal, k = 1, largest debt passes), OS cache with sharing`.
fn configured(cure: &CureSummary) -> String {
    let config = &cure.config;
    let dvfs = config.dvfs.as_ref().map_or_else(
        || if config.boost.is_some() { String::new() } else { "no DVFS, ".to_owned() },
        |dvfs| {
            let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let policy = word(serde_json::to_value(dvfs.policy).unwrap_or_default());
            let kind = word(serde_json::to_value(dvfs.kind).unwrap_or_default());
            let debt = match dvfs.critical_path {
                CriticalPath::Join => "debt passes at joins alone",
                CriticalPath::Max => "largest debt passes",
                CriticalPath::Slack => "debt passes by slack",
            };
            format!("DVFS ({kind}, {policy}, k = {}, {debt}), ", dvfs.reactivity)
        },
    );
    let budget = config.boost.map_or_else(String::new, |boost| {
        let rule = match boost.rule {
            BoostRule::Debt => "debt",
            BoostRule::Sync => "Booster's SYNC",
            BoostRule::Stack => "criticality stacks",
            BoostRule::Stalls => "stalls",
        };
        format!("a power budget of {} cores by {rule}, ", boost.cores)
    });
    let cache = match (config.cache.kind, config.cache.os_cache_sharing) {
        (CacheKind::Unified, _) => "unified L2",
        (CacheKind::OsCache, true) => "OS cache with sharing",
        (CacheKind::OsCache, false) => "OS cache without sharing",
        (CacheKind::Prefetch, _) => "prefetch buffer",
        (CacheKind::Pinned, _) => "selective pinning",
    };
    format!("{dvfs}{budget}{cache}")
}

/// The headline of a cured run: what sync jitter cost, and what the cure left of it.
pub(super) fn verdict(cure: &CureSummary, cut_short: bool) -> String {
    let of = if cut_short { " of what is whole of a trace that was cut short" } else { "" };
    let (Some(without), Some(with)) = (cure.slow_down_without, cure.slow_down) else {
        let unfinished = |one: &SeedFigures| one.cured_fs.is_none() || one.disturbed_fs.is_none();
        let why = match cure.ideal_fs {
            None => "the ideal run did not finish",
            Some(_) if cure.seeds.iter().all(unfinished) => "no seed has finished with and without the cure",
            Some(_) => "no instruction ran after the warm-up",
        };
        return format!("The slow-down{of} is unknown: {why}.");
    };
    let (seeds, without, with) = (with.runs, Cell::Share(without.mean), Cell::Share(with.mean));
    let config = &cure.config;
    let cures = config.dvfs.is_some() || config.boost.is_some() || config.cache.kind != CacheKind::Unified;
    // Summaries of before 2026-11-29 have no time of timer interrupts, but their class.
    let timer = cure.classes.iter().any(|one| one.injected > 0 && one.class == TIMER);
    let injected = match [cure.injected_fs != [0, 0], cure.timer_fs != [0, 0] || timer] {
        [false, false] if !cures => return "Nothing was injected, and there is no cure.".to_owned(),
        [false, false] => {
            let of = if cut_short { format!(" ({})", of.trim_start()) } else { String::new() };
            return format!("Nothing was injected; the cure alone changes the run time by {with}{of}.");
        }
        [true, false] => "sync jitter",
        [false, true] => "timer interrupts",
        [true, true] => "sync jitter and timer interrupts",
    };
    let seeds = if seeds == 1 { "one seed".to_owned() } else { format!("means of {seeds} seeds") };
    if !cures {
        return format!("Slow-down by {injected}{of}: {without} ({seeds}). There is no cure.");
    }
    let but = not_the_cures(cure.injected_fs).unwrap_or_default();
    format!("Slow-down by {injected}{of}: {without} without the cure, {with} with it ({seeds}).{but}")
}

/// That the runs with the cure had other jitter to cure than those without it: less than nine tenths as much, or more than ten
/// ninths.
pub(super) fn not_the_cures([with_fs, without_fs]: [u64; 2]) -> Option<String> {
    let (with, without) = (u128::from(with_fs), u128::from(without_fs));
    let alike = with * 10 >= without * 9 && without * 10 >= with * 9;
    (!alike).then(|| {
        format!(
            " {} were injected at waits with it and {} without it: not all of the difference is the cure's.",
            simulated(with_fs),
            simulated(without_fs)
        )
    })
}

/// From when on it was measured, and against what.
fn measured(cure: &CureSummary) -> Vec<Text> {
    let mut said = Vec::new();
    let frames = &cure.config.frames;
    if let (Some(warm_up), Some(ideal)) = (cure.warm_up_fs, cure.ideal_fs) {
        let why = if cure.warm_up_shortened {
            let whole_ns = frames.warm_up_subframes.saturating_mul(frames.subframe_ns);
            format!(
                "{} of the run, because {} subframes would be {}",
                Cell::Share(frames.warm_up_permille as f64 / 1e3),
                frames.warm_up_subframes,
                Cell::Duration(whole_ns.cast_signed())
            )
        } else {
            format!("{} subframes", frames.warm_up_subframes)
        };
        said.push(text!(
            "Relative to the ideal run (no jitter, unified L2), which took {}. Measured after a warm-up of {} ({why}), \
             from the same instruction.",
            simulated(ideal),
            simulated(warm_up)
        ));
    }
    if let Some(gain) = cure.cache_gain {
        let change = Cell::Share(-gain);
        said.push(text!("The caches alone change the ideal run by {change}; that is in the figures above."));
    }
    match cure.kernel_epochs {
        _ if cure.config.injection.is_none() => {}
        Some(epochs) => said.push(text!(
            "Injected jitter runs traced kernel code (a library of {} epochs), which also evicts cache lines.",
            Cell::Count(epochs)
        )),
        None => said.push(
            "Injected jitter only took time. With kernel activity (library in the file) it would also evict cache lines."
                .into(),
        ),
    }
    said
}

fn seeds(cure: &CureSummary) -> Table {
    let table = Table::of(
        &cure.seeds,
        &[
            ("seed", &|one| Cell::Index(one.seed)),
            ("slow-down without cure", &|one| optional(one.slow_down_without)),
            ("with cure", &|one| optional(one.slow_down)),
            ("power", &|one| optional(one.power_overhead)),
            ("jitter without cure", &|one| one.lost_ns.map(|ns| simulated(ns * 1_000_000)).into()),
        ],
    );
    table.title("By seed")
}

fn injected(cure: &CureSummary, kernel_fs: u64) -> Section {
    let table = Table::of(
        &cure.classes,
        &[
            ("class", &|class| Cell::from(&*class.class)),
            ("occasions", &|class| Cell::Count(class.drawn)),
            ("injected", &|class| Cell::Count(class.injected)),
            ("drawn", &|class| simulated(class.injected_fs)),
            ("mean", &|class| class.injected_fs.checked_div(class.injected).map(simulated).into()),
            ("detected late", &|class| Cell::Count(class.found)),
            ("detected time", &|class| simulated(class.found_ns * 1_000_000)),
        ],
    );
    let mut section = Section::new("injected", "Injected and detected jitter")
        .link("Injected jitter")
        .note("first seed, with the cure; drawn: kernel time as the file says; detected: jitter measured by the units")
        .with(table);
    let drawn_fs: u64 = cure.classes.iter().map(|class| class.injected_fs).sum();
    if drawn_fs > 0 && cure.kernel_epochs.is_some() {
        section.push(note(text!(
            "The kernel was active for {}, {} of what was drawn. Epochs were chosen by their time on an unused core, \
             which is not their time in the run.",
            simulated(kernel_fs),
            Cell::Share(kernel_fs as f64 / drawn_fs as f64)
        )));
    }
    units(cure).into_iter().for_each(|words| {
        section.push(note(words));
    });
    section
}

/// What the kernel's activity touched and waited for.
fn kernel(cure: &CureSummary) -> Section {
    let columns = ["class", "events", "mean", "lines", "again", "own", "common", "for lines", "other cores"];
    let mut table = Table::new(columns);
    for (class, counts) in &cure.activities {
        let lines: u64 = counts.lines.iter().sum();
        let [per_cpu, stack, user, alone, common] = counts.lines;
        let own =
            per_cpu + stack + user + if cure.config.kernel_data == KernelData::Split { alone } else { 0 };
        let own = if cure.config.kernel_data == KernelData::Same { 0 } else { own };
        let share = |part: u64, whole: u64| -> Cell {
            (whole > 0).then(|| Cell::Share(part as f64 / whole as f64)).into()
        };
        table.row([
            Cell::from(&**class),
            Cell::Count(counts.events),
            counts.total_fs.checked_div(counts.events).map(simulated).into(),
            lines.checked_div(counts.events).map(Cell::Count).into(),
            share(counts.again, lines),
            share(own, lines),
            share(common, lines),
            share(counts.refill_fs(), counts.total_fs),
            share(counts.remote_fs, counts.total_fs),
        ]);
    }
    let mut section = Section::new("kernel", "Injected kernel activity")
        .link("Kernel activity")
        .note(
            "first seed, unified cache without the cure, by class. Lines: of data, each event; again: its core's kernel had touched them \
             before; own: of the CPU, the stack or the program; common: several CPUs were seen to touch them. For lines: part of the time \
             that waits for lines of code and data; other cores: for data that those have",
        )
        .with(table);
    if let Some(one) = &cure.refill {
        let [own_cache, prefetch] = one.removable.map(Cell::Share);
        section.push(note(text!(
            "An event costs {}, the threads' further stalls for lines included. A cache of the core's own could remove {own_cache} of that \
             at most, prefetching {prefetch}; {} went with the cure.",
            simulated(one.event_fs as u64),
            optional(one.removed)
        )));
    }
    section
}

/// What the units did.
fn units(cure: &CureSummary) -> Vec<Text> {
    let units = &cure.units;
    if units.transactions == 0 {
        return Vec::new();
    }
    let dropped = match units.overflows {
        0 => "No jitter-unit buffer overflowed".to_owned(),
        1 => "One wait or lock was dropped: buffer full".to_owned(),
        dropped => format!("{} waits and locks were dropped: buffers full", Cell::Count(dropped)),
    };
    let mut said = vec![text!(
        "{dropped} ({} slots). Units sent {} messages ({} of the cycles); at most {} latched at once.",
        cure.config.entries,
        Cell::Count(units.messages),
        optional(units.message_share),
        units.most_latched
    )];
    if cure.config.evictions.is_some() {
        said.push(text!(
            "The kernel evicted {} application lines from L2; these also count as jitter.",
            Cell::Count(cure.evicted_lines)
        ));
    }
    said
}

fn ghz(value: f64) -> String {
    format!("{} GHz", Cell::Number { value, digits: 2 })
}

fn frequencies(cure: &CureSummary) -> Section {
    let table = Table::of(
        cure.points.iter().filter(|point| point.active_share > 0.0 || point.idle_share > 0.0),
        &[
            ("frequency", &|point| ghz(point.ghz).into()),
            ("f/f0", &|point| Cell::Number { value: point.factor, digits: 2 }),
            ("busy", &|point| Cell::Share(point.active_share)),
            ("idle", &|point| Cell::Share(point.idle_share)),
            ("", &|point| Cell::Bars(vec![point.active_share])),
        ],
    );
    let bars = Bars {
        value: Axis::linear("share of the busy time", Quantity::Share),
        categories: cure.points.iter().map(|point| ghz(point.ghz)).collect(),
        series: vec![BarSeries::new(
            "",
            WITH,
            cure.points.iter().map(|point| point.active_share).collect::<Vec<_>>(),
        )],
        ..Bars::default()
    };
    let mut section = Section::new("frequencies", "Frequencies")
        .note("core time by frequency, first seed")
        .with(table)
        .with(Chart::new("residency", "Busy time at each frequency", bars));
    changes(cure).into_iter().for_each(|words| {
        section.push(note(words));
    });
    if !cure.power.is_empty() {
        section.push(Block::from(power(cure)).only(Shown::HtmlOnly));
    }
    section
}

/// Changes, subframes, debt and power.
fn changes(cure: &CureSummary) -> Vec<Text> {
    if cure.config.dvfs.is_none() {
        return Vec::new();
    }
    let debt = |fs: i64| Cell::FineDuration(fs as f64 / 1e6);
    let mut said = vec![text!(
        "{} frequency changes in {} subframes ({} more ended early). Total debt at thread exit: {}.",
        Cell::Count(cure.changes),
        Cell::Count(cure.subframes[0]),
        Cell::Count(cure.subframes[1]),
        debt(cure.owed_fs[0])
    )];
    if cure.beyond_slack_fs > 0.0 {
        said.push(text!(
            "Barriers made a thread owe {} beyond the rule of slack (mean over threads): so much may be given back too much.",
            Cell::FineDuration(cure.beyond_slack_fs / 1e6)
        ));
    }
    if cure.config.frames.dummy_subframes > 0 {
        let (subframes, left) = (cure.config.frames.dummy_subframes, debt(cure.owed_fs[1]));
        said.push(text!("After {subframes} dummy subframes: {left}."));
    }
    let others: Vec<f64> = cure.power.iter().filter_map(|one| one.overhead).collect();
    if let (Some(least), Some(most)) =
        (others.iter().copied().reduce(f64::min), others.iter().copied().reduce(f64::max))
    {
        said.push(text!(
            "Power is modelled (70 % dynamic, idle cores at 0.3 activity). Other assumptions give {}.",
            Cell::interval(Cell::Share(least), Cell::Share(most))
        ));
    }
    said
}

fn power(cure: &CureSummary) -> Table {
    let table = Table::of(
        &cure.power,
        &[
            ("dynamic share", &|one| Cell::Share(one.model.dynamic_share)),
            ("idle activity factor", &|one| Cell::Number { value: one.model.idle_activity, digits: 1 }),
            ("leakage exponent of V", &|one| Cell::Number { value: one.model.leakage_exponent, digits: 0 }),
            ("additional power", &|one| optional(one.overhead)),
        ],
    );
    table.title("Power under several assumptions: P = αCV²f + leakage(V), over the run without the cure")
}

/// What happened in L2s that are not plain.
fn caches(cure: &CureSummary) -> Option<Text> {
    let counts = cure.second_level.as_ref()?;
    let (count, [own, kernels]) = (Cell::Count, counts.hits);
    match cure.config.cache.kind {
        CacheKind::Unified => None,
        CacheKind::OsCache => Some(text!(
            "OS cache: {} hits, {} misses. {} lines lent by the application cache, {} lent to it; {} hits in the other \
             cache, {} fruitless lookups, {} refused, {} dirty lines written back. {} flushes.",
            count(kernels),
            count(counts.misses[1]),
            count(counts.lent[0]),
            count(counts.lent[1]),
            count(counts.other_hits.iter().sum()),
            count(counts.other_looks_in_vain),
            count(counts.refused),
            count(counts.copied),
            count(counts.flushes)
        )),
        CacheKind::Prefetch => Some(text!(
            "Prefetch buffer: {} evicted active lines kept, {} prefetched back, {} held back (would evict active lines), \
             {} dropped.",
            count(counts.kept),
            count(counts.prefetched),
            count(counts.held_back),
            count(counts.forgotten)
        )),
        CacheKind::Pinned => Some(text!(
            "Selective pinning: {} evictions deviated from LRU, in {} hits of the application and {} of the kernel.",
            count(counts.pinned),
            count(own),
            count(kernels)
        )),
    }
}

/// Jitter of subframes without the cure and with it, and frequencies, over time.
fn over_time(cure: &CureSummary) -> Vec<Chart> {
    let axis = || Axis::linear("simulated time", Quantity::Duration);
    // A slice's value holds from the end of the one before to its own.
    let ends = |slices: &[TimeSlice]| -> Numbers {
        std::iter::once(0.0).chain(slices.iter().map(|slice| slice.end_fs as f64 / 1e6)).collect()
    };
    let steps = |slices: &[TimeSlice], of: &dyn Fn(&TimeSlice) -> f64| Data::Steps {
        x: ends(slices),
        y: slices.iter().chain(slices.last()).map(of).collect(),
    };
    // A subframe that ends in a slice began before it; so a slice in which none ended belongs to the next.
    let ended = |slices: &[TimeSlice]| -> Vec<TimeSlice> {
        slices.iter().filter(|slice| slice.subframes > 0).copied().collect()
    };
    let mut charts = Vec::new();
    let lost = |slice: &TimeSlice| slice.lost_fs as f64 / slice.subframes as f64 / 1e6;
    let (without, with) = (&ended(&cure.over_time_without), &ended(&cure.over_time));
    if without.iter().chain(with).any(|slice| slice.lost_fs > 0) {
        let mut plot = Xy::new(axis(), Axis::linear("jitter of a subframe, mean", Quantity::Duration));
        for (name, slices, colour) in [("without cure", without, WITHOUT), ("with cure", with, WITH)] {
            if !slices.is_empty() {
                plot = plot.with(Series::new(name, colour, steps(slices, &lost)));
            }
        }
        charts.push(Chart::new("jitter-over-time", "Jitter per subframe over time", plot).linked("cure"));
    }
    let factors: Vec<f64> = cure.points.iter().map(|point| point.factor).collect();
    if let (Some(least), Some(most)) = (factors.first(), factors.last())
        && most > least
        && !with.is_empty()
    {
        let (x, y) =
            (with.iter().map(|slice| slice.end_fs as f64 / 1e6), with.iter().map(|slice| slice.factor));
        let line = Data::Line { x: x.collect(), y: y.collect(), marks: false };
        let plot = Xy::new(axis(), Axis::linear("f/f0", Quantity::Number).range(*least, *most))
            .with(Series::new("frequency", WITH, line))
            .guide_y(1.0, "f0");
        let title = "Frequency ratio f/f0, mean per subframe";
        charts.push(Chart::new("frequency-over-time", title, plot).linked("cure"));
    }
    charts
}

/// What each thread owed over time: those that meet move together.
fn debts(cure: &CureSummary) -> Option<Block> {
    if cure.debts.iter().flat_map(|line| &line.points).all(|(_, owed_fs)| *owed_fs == 0) {
        return None;
    }
    let mut plot =
        Xy::new(Axis::linear("simulated time", Quantity::Duration), Axis::linear("debt", Quantity::Duration))
            .guide_y(0.0, "");
    for (line, colour) in cure.debts.iter().zip((0..=u8::MAX).map(Colour::Series)) {
        let x = line.points.iter().map(|(at_fs, _)| *at_fs as f64 / 1e6).collect();
        let y = line.points.iter().map(|(_, owed_fs)| *owed_fs as f64 / 1e6).collect();
        let data = Data::Line { x, y, marks: false };
        plot = plot.with(Series::new(format!("thread {}", line.thread), colour, data));
    }
    let chart = Chart::new("debt-over-time", "Debt of each thread over time", plot).linked("cure");
    Some(Block::from(chart).only(Shown::HtmlOnly))
}
