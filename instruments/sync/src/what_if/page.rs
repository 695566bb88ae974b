//! The page of `quaver sync what-if`: the compensation curve, threads, frames.

use crate::compensate::page as sync_compensation;
use crate::what_if::digest::{Curve, CurvePoint, FrameRow, Frames, Program, ThreadRow, WhatIf};
use quaver_dvfs::dvfs::deadline::Deadlines;
use quaver_page::console::{heading, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{count, duration, duration_f64, percent};
use std::path::Path;

/// Width of the page.
const WIDTH: usize = 100;
/// Threads that the console shows.
const ROWS: usize = 10;

/// The page.
pub fn page(answer: &WhatIf, html: Option<&Path>, style: Style) -> String {
    let mut out = format!("{}\n", style.bold("quaver sync what-if"));
    let mut say = |sentence: &str| {
        wrap(sentence, WIDTH - 2).iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    };
    if let Some(program) = &answer.program {
        say(&program_words(program));
        say(&loss_words(program));
    }
    say(&model_words(answer));
    if !answer.curves.is_empty() {
        let note =
            "of the whole program, by the rule of fork and join; without a controller in the first column";
        heading(&mut out, style, "Slow-down against the highest frequency", note);
        out.push_str(&curve_table(answer).render(style));
        heading(&mut out, style, "Power", "over that of cores that rest; a model's, not measured");
        out.push_str(&power_table(answer).render(style));
        heading(
            &mut out,
            style,
            "Time at each frequency",
            "of the threads' working time, with the table's own highest",
        );
        out.push_str(&residency_table(answer).render(style));
    }
    threads(&mut out, answer, style);
    if let Some(frames) = &answer.frames {
        heading(&mut out, style, "Real-time frames", &frame_words(frames));
        out.push_str(&frame_table(frames).render(style));
    }
    if let Some(facts) = &answer.compensated {
        sync_compensation::write(&mut out, facts, style);
    }
    warnings(&mut out, &answer.warnings, style);
    if let Some(path) = html {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(&path.display().to_string())));
    }
    out
}

/// What was run.
pub fn program_words(program: &Program) -> String {
    format!(
        "{}: {}, {} threads, {} subframes.",
        printable(&program.words.join(" ")),
        duration(program.length_ns.cast_signed()),
        count(program.threads),
        count(program.subframes)
    )
}

/// What it lost.
pub fn loss_words(program: &Program) -> String {
    format!(
        "Lost: {} by the rule of fork and join ({} of the rest of the time), {} on the critical path, {} by all threads together.",
        duration(program.lost_ns.cast_signed()),
        signed(program.slow_down),
        duration(program.lost_on_path_ns.cast_signed()),
        duration(program.lost_all_ns.cast_signed())
    )
}

/// What was assumed.
pub fn model_words(answer: &WhatIf) -> String {
    let table = &answer.table;
    let (lowest, highest) = (table.factor(0), table.factor(table.highest()));
    let memory = match answer.unpaced_share {
        share if share > 0.0 => format!("{} of a thread's own time waits for memory", percent(share)),
        _ => "all of a thread's own time becomes shorter with the clock (--memory says otherwise)".to_owned(),
    };
    format!(
        "Subframes of {}; frequencies from {lowest:.2} to {highest:.2} of {:.2} GHz in {} steps; {memory}.",
        duration(answer.subframe_ns.cast_signed()),
        table.points[table.rest].frequency_ghz,
        table.points.len()
    )
}

/// A share with its sign; `-` where there is none.
pub fn signed(share: Option<f64>) -> String {
    match share {
        // Less than half of the last digit is nothing, of either sign.
        Some(share) if share.abs() < 5e-6 => "0.000 %".to_owned(),
        Some(share) => format!("{:+.3} %", share * 100.0),
        None => "-".to_owned(),
    }
}

/// Heads of a table with a column a limit.
pub fn limit_heads(answer: &WhatIf) -> Vec<String> {
    let points = answer.curves.first().map_or(&[][..], |curve| &curve.points);
    points.iter().map(|point| format!("{:.2}", point.highest)).collect()
}

/// A row a controller, a cell a limit.
pub fn rows_of(answer: &WhatIf, cell: fn(&CurvePoint) -> String) -> Vec<Vec<String>> {
    let row =
        |curve: &Curve| std::iter::once(curve.name.clone()).chain(curve.points.iter().map(cell)).collect();
    answer.curves.iter().map(row).collect()
}

fn wide(answer: &WhatIf, cell: fn(&CurvePoint) -> String) -> Table {
    let heads = limit_heads(answer);
    let mut columns = vec![("highest", Align::Left)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    rows_of(answer, cell).into_iter().for_each(|row| {
        table.row(row);
    });
    table
}

/// The slow-down at one limit.
pub fn slow_down_cell(point: &CurvePoint) -> String {
    signed(point.slow_down)
}

/// The power at one limit.
pub fn power_cell(point: &CurvePoint) -> String {
    signed(point.power_overhead)
}

fn curve_table(answer: &WhatIf) -> Table {
    wide(answer, slow_down_cell)
}

fn power_table(answer: &WhatIf) -> Table {
    wide(answer, power_cell)
}

/// The point of a curve at the table's own highest frequency.
fn own_point<'a>(answer: &WhatIf, curve: &'a Curve) -> Option<&'a CurvePoint> {
    let own = answer.table.factor(answer.table.highest());
    curve.points.iter().rev().find(|point| point.highest <= own + 1e-9)
}

/// Heads and rows of the time at each frequency.
pub fn residency_rows(answer: &WhatIf) -> (Vec<String>, Vec<Vec<String>>) {
    let mut heads = vec!["over rest".to_owned()];
    let mut rows = Vec::new();
    for curve in &answer.curves {
        let Some(point) = own_point(answer, curve) else { continue };
        if heads.len() == 1 {
            heads.extend(point.residency.iter().map(|(ratio, _)| format!("{ratio:.2}")));
        }
        let shares = point.residency.iter().map(|(_, share)| percent(*share));
        rows.push(std::iter::once(curve.name.clone()).chain(shares).collect());
    }
    (heads, rows)
}

fn residency_table(answer: &WhatIf) -> Table {
    let (heads, rows) = residency_rows(answer);
    let align = |(at, head)| (head, if at == 0 { Align::Left } else { Align::Right });
    let columns: Vec<(&str, Align)> = heads.iter().map(String::as_str).enumerate().map(align).collect();
    let mut table = Table::new(&columns);
    rows.into_iter().for_each(|row| {
        table.row(row);
    });
    table
}

/// Columns of the table of threads.
pub const THREAD_COLUMNS: [&str; 8] =
    ["thread", "life", "waited", "lost", "left", "slow-down without", "with", "mean frequency"];

/// The cells of a thread, in the order of [`THREAD_COLUMNS`].
pub fn thread_cells(one: &ThreadRow) -> Vec<String> {
    vec![
        one.thread.to_string(),
        duration(one.length_ns.cast_signed()),
        duration(one.blocked_ns.cast_signed()),
        duration(one.lost_ns.cast_signed()),
        duration_f64(one.left_ns),
        signed(one.slow_down_without),
        signed(one.slow_down_with),
        one.mean_ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
    ]
}

fn threads(out: &mut String, answer: &WhatIf, style: Style) {
    if answer.threads.is_empty() {
        return;
    }
    heading(
        out,
        style,
        "Threads",
        "reactive, k = 1, with the table's own highest; who gives back what its maker lost wins more than it lost",
    );
    let columns: Vec<(&str, Align)> = THREAD_COLUMNS.iter().map(|name| (*name, Align::Right)).collect();
    let mut table = Table::new(&columns);
    answer.threads.iter().take(ROWS).for_each(|one| {
        table.row(thread_cells(one));
    });
    if answer.threads.len() > ROWS {
        table.row([format!("and {} more", answer.threads.len() - ROWS)]);
    }
    out.push_str(&table.render(style));
}

/// What the frames are.
pub fn frame_words(frames: &Frames) -> String {
    let (deadline, period) =
        (duration(frames.deadline_ns.cast_signed()), duration(frames.period_ns.cast_signed()));
    match frames.of {
        "own" => format!("each thread's own work of {period}, to be done in {deadline}"),
        "wimax" => format!("packets of {period} of work with this run's losses, to be done in {deadline}"),
        _ => format!("packets of {period} of work with made-up losses, to be done in {deadline}"),
    }
}

/// Columns of the table of frames.
pub const FRAME_COLUMNS: [&str; 7] =
    ["controller", "highest", "frames", "missed", "miss rate", "mean slack", "least slack"];

/// Rows of the table of frames, the one without a controller first.
pub fn frame_rows(frames: &Frames) -> Vec<Vec<String>> {
    let cells = |name: &str, highest: String, seen: &Deadlines| {
        vec![
            name.to_owned(),
            highest,
            count(seen.frames),
            count(seen.missed),
            seen.miss_rate().map_or("-".to_owned(), percent),
            duration_f64(seen.mean_slack_ns),
            duration_f64(seen.least_slack_ns),
        ]
    };
    let row = |one: &FrameRow| cells(&one.name, format!("{:.2}", one.highest), &one.deadlines);
    std::iter::once(cells("none", "1.00".to_owned(), &frames.without))
        .chain(frames.with.iter().map(row))
        .collect()
}

fn frame_table(frames: &Frames) -> Table {
    let align =
        |(at, name): (usize, &&'static str)| (*name, if at == 0 { Align::Left } else { Align::Right });
    let columns: Vec<(&str, Align)> = FRAME_COLUMNS.iter().enumerate().map(align).collect();
    let mut table = Table::new(&columns);
    frame_rows(frames).into_iter().for_each(|row| {
        table.row(row);
    });
    table
}
