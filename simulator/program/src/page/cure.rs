//! Jitter and its cure on the page of `quaver sim run`.

use super::{figure, simulated};
use crate::digest::{ClassFigures, CureSummary, PointFigures};
use quaver_page::console::{WIDTH, heading};
use quaver_page::table::{Align, Style, Table, wrap};
use quaver_page::units::{bar, count, duration_f64, percent};
use quaver_sim::cure::CacheKind;
use quaver_sim::inject::Spread;

/// Cells of the widest bar of a share.
const SHARE_CELLS: usize = 24;

/// The section.
pub fn section(out: &mut String, cure: &CureSummary, style: Style) {
    let runs = match cure.seeds.len() {
        1 => "one seed".to_owned(),
        seeds => format!("{seeds} seeds"),
    };
    heading(out, style, "Jitter and its cure", &format!("{}; {runs}", configured(cure)));
    table(out, style, &OUTCOME_COLUMNS, outcome_rows(cure));
    for line in wrap(&verdict(cure), WIDTH - 2) {
        out.push_str(&format!("  {}\n", style.bold(&line)));
    }
    said(out, style, &measured(cure));
    if !cure.classes.is_empty() {
        heading(out, style, "What was injected and found", "of the first seed, with the cure");
        table(out, style, &CLASS_COLUMNS, cure.classes.iter().map(class_cells));
    }
    said(out, style, &units(cure));
    frequencies(out, cure, style);
    said(out, style, &caches(cure));
}

fn said(out: &mut String, style: Style, sentences: &[String]) {
    for sentence in sentences {
        for line in wrap(sentence, WIDTH - 2) {
            out.push_str(&format!("  {}\n", style.dim(&line)));
        }
    }
}

fn table(out: &mut String, style: Style, columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut columns: Vec<_> = columns.iter().map(|name| (*name, Align::Right)).collect();
    columns[0].1 = Align::Left;
    let mut table = Table::new(&columns);
    rows.into_iter().for_each(|row| {
        table.row(row);
    });
    out.push_str(&table.render(style));
}

/// What cures, in a few words: `DVFS (nominal, k = 1), OS cache with sharing`.
pub fn configured(cure: &CureSummary) -> String {
    let config = &cure.config;
    let dvfs = config.dvfs.as_ref().map_or_else(
        || "no DVFS".to_owned(),
        |dvfs| {
            let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let policy = word(serde_json::to_value(dvfs.policy).unwrap_or_default());
            let kind = word(serde_json::to_value(dvfs.kind).unwrap_or_default());
            format!("DVFS ({kind}, {policy}, k = {})", dvfs.reactivity)
        },
    );
    let cache = match (config.cache.kind, config.cache.os_cache_sharing) {
        (CacheKind::Unified, _) => "one second level for all",
        (CacheKind::OsCache, true) => "OS cache with sharing",
        (CacheKind::OsCache, false) => "OS cache without sharing",
        (CacheKind::Prefetch, _) => "prefetch buffer",
        (CacheKind::Pinned, _) => "selective pinning",
    };
    format!("{dvfs}, {cache}")
}

/// A share with its sign.
fn signed(share: f64) -> String {
    let sign = match share {
        share if share.abs() < 5e-5 => "",
        share if share < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{}", percent(share.abs()))
}

/// Columns of the outcome.
pub const OUTCOME_COLUMNS: [&str; 4] = ["over the seeds", "least", "mean", "largest"];

/// Slow-downs and power over all seeds.
pub fn outcome_rows(cure: &CureSummary) -> Vec<Vec<String>> {
    let row = |name: &str, spread: Option<Spread>| {
        spread.map(|one| vec![name.to_owned(), signed(one.min), signed(one.mean), signed(one.max)])
    };
    let rows = [
        row("run time, without the cure", cure.slow_down_without),
        row("run time, with it", cure.slow_down),
        row("power of the cores", cure.power_overhead),
    ];
    rows.into_iter().flatten().collect()
}

/// What became of it, in a sentence.
pub fn verdict(cure: &CureSummary) -> String {
    let (Some(without), Some(with)) = (cure.slow_down_without, cure.slow_down) else {
        return "It is not known what the cure gave: the runs that it is compared with did not come to their ends."
            .to_owned();
    };
    if cure.classes.iter().all(|class| class.injected == 0) && without.max < 1e-3 {
        return format!(
            "Nothing was injected; the cure alone changes the run time by {}.",
            signed(with.mean)
        );
    }
    format!(
        "Jitter made the program {} slower, and {} with the cure (means).",
        percent(without.mean.max(0.0)),
        if with.mean < 0.0 { format!("{} faster", percent(-with.mean)) } else { percent(with.mean) }
    )
}

/// From when on it was measured, and against what.
pub fn measured(cure: &CureSummary) -> Vec<String> {
    let mut said = Vec::new();
    let frames = &cure.config.frames;
    if let (Some(warm_up), Some(ideal)) = (cure.warm_up_fs, cure.ideal_fs) {
        let why = if cure.warm_up_shortened {
            let whole_ns = frames.warm_up_subframes * frames.subframe_ns;
            format!(
                "{} of the run, for {} subframes would be {}",
                percent(frames.warm_up_permille as f64 / 1e3),
                frames.warm_up_subframes,
                duration_f64(whole_ns as f64)
            )
        } else {
            format!("{} subframes", frames.warm_up_subframes)
        };
        said.push(format!(
            "Over the ideal run, which has no jitter, one second level for all and took {}. Measured after a warm-up of \
             {} ({why}), from the same instruction on.",
            simulated(ideal),
            simulated(warm_up)
        ));
    }
    if let Some(gain) = cure.cache_gain {
        said.push(format!(
            "The caches alone change the ideal run by {}; that is in the figures above.",
            signed(-gain)
        ));
    }
    match cure.kernel_epochs {
        _ if cure.config.injection.is_none() => {}
        Some(epochs) => said.push(format!(
            "For injected jitter {} epochs of traced kernel activity ran, so caches suffered too.",
            count(epochs)
        )),
        None => said.push(
            "Injected jitter only took time: without kernel activity (`library` in the file) caches do not suffer."
                .to_owned(),
        ),
    }
    said
}

/// Columns of the table of classes.
pub const CLASS_COLUMNS: [&str; 7] =
    ["class", "occasions", "injected", "time", "mean", "found late", "time found"];

/// The cells of a class, in the order of [`CLASS_COLUMNS`].
pub fn class_cells(class: &ClassFigures) -> Vec<String> {
    let mean_fs = class.injected_fs.checked_div(class.injected);
    vec![
        class.class.clone(),
        count(class.drawn),
        count(class.injected),
        simulated(class.injected_fs),
        mean_fs.map_or("-".to_owned(), simulated),
        count(class.found),
        simulated(class.found_ns * 1_000_000),
    ]
}

/// What the units did, in sentences.
pub fn units(cure: &CureSummary) -> Vec<String> {
    let units = &cure.units;
    if units.transactions == 0 {
        return Vec::new();
    }
    let share = units.message_share.map_or("-".to_owned(), percent);
    let dropped = match units.overflows {
        0 => "No buffer of a unit was ever full".to_owned(),
        1 => "One wait or lock was dropped, for a buffer of a unit was full".to_owned(),
        dropped => format!("{} waits and locks were dropped, for buffers of units were full", count(dropped)),
    };
    let mut said = vec![format!(
        "{dropped} ({} slots). Units sent {} messages, {share} of the cycles; at most {} were latched at once.",
        cure.config.entries,
        count(units.messages),
        units.most_latched
    )];
    if cure.config.evictions.is_some() {
        said.push(format!(
            "The kernel evicted {} lines of the application from second levels; they are counted as jitter too.",
            count(cure.evicted_lines)
        ));
    }
    said
}

/// Columns of the table of operating points.
pub const POINT_COLUMNS: [&str; 4] = ["frequency", "over rest", "with a thread", "idle"];

/// The cells of a point, in the order of [`POINT_COLUMNS`].
pub fn point_cells(point: &PointFigures) -> Vec<String> {
    vec![
        format!("{} GHz", figure(point.ghz)),
        figure(point.factor),
        percent(point.active_share),
        percent(point.idle_share),
    ]
}

fn frequencies(out: &mut String, cure: &CureSummary, style: Style) {
    if cure.points.len() < 2 {
        return;
    }
    heading(out, style, "Frequencies", "where the cores' time went, of the first seed");
    let mut columns: Vec<_> = POINT_COLUMNS.iter().map(|name| (*name, Align::Right)).collect();
    columns.push(("", Align::Left));
    let mut table = Table::new(&columns);
    for point in cure.points.iter().filter(|point| point.active_share > 0.0 || point.idle_share > 0.0) {
        let mut cells = point_cells(point);
        cells.push(bar(point.active_share, SHARE_CELLS));
        table.row(cells);
    }
    out.push_str(&table.render(style));
    said(out, style, &changes(cure));
}

/// Changes, subframes, what is owed, and power, in sentences.
pub fn changes(cure: &CureSummary) -> Vec<String> {
    if cure.config.dvfs.is_none() {
        return Vec::new();
    }
    let owed =
        |fs: i64| if fs < 0 { format!("-{}", simulated(fs.unsigned_abs())) } else { simulated(fs as u64) };
    let mut said = vec![format!(
        "{} changes of frequency in {} subframes ({} more were forced to end). At their ends all threads together owed \
         {}.",
        count(cure.changes),
        count(cure.subframes[0]),
        count(cure.subframes[1]),
        owed(cure.owed_fs[0])
    )];
    if cure.config.frames.dummy_subframes > 0 {
        said.push(format!(
            "After {} dummy subframes it would be {}.",
            cure.config.frames.dummy_subframes,
            owed(cure.owed_fs[1])
        ));
    }
    let others: Vec<f64> = cure.power.iter().filter_map(|one| one.overhead).collect();
    if let (Some(least), Some(most)) =
        (others.iter().copied().reduce(f64::min), others.iter().copied().reduce(f64::max))
    {
        said.push(format!(
            "Power is a model (70 % switching, idle cores 0.3 of busy ones); under others it is {} to {}.",
            signed(least),
            signed(most)
        ));
    }
    said
}

/// What happened in second levels that are not plain, in sentences.
pub fn caches(cure: &CureSummary) -> Vec<String> {
    let Some(counts) = &cure.second_level else { return Vec::new() };
    let [own, kernels] = counts.hits;
    match cure.config.cache.kind {
        CacheKind::Unified => Vec::new(),
        CacheKind::OsCache => vec![format!(
            "OS cache: {} hits, {} misses. The application cache lent it {} lines and got {} from it; {} were found in \
             the other cache, {} looks there were in vain, {} lines found no room, {} dirty ones were copied to memory. \
             {} flushes.",
            count(kernels),
            count(counts.misses[1]),
            count(counts.lent[0]),
            count(counts.lent[1]),
            count(counts.other_hits.iter().sum()),
            count(counts.other_looks_in_vain),
            count(counts.refused),
            count(counts.copied),
            count(counts.flushes)
        )],
        CacheKind::Prefetch => vec![format!(
            "Prefetch buffer: {} active lines were kept when the other side evicted them, {} came back before that side ran \
             again, {} would have evicted active lines and did not, {} found no room.",
            count(counts.kept),
            count(counts.prefetched),
            count(counts.held_back),
            count(counts.forgotten)
        )],
        CacheKind::Pinned => vec![format!(
            "Selective pinning: {} evictions took another line than the one that was not used for longest, in {} hits of the \
             application and {} of the kernel.",
            count(counts.pinned),
            count(own),
            count(kernels)
        )],
    }
}
