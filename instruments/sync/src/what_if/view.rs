//! The document of `quaver sync what-if`: the compensation curve, the thread that lost most, threads and frames.

use crate::compensate::view as compensation;
use crate::what_if::digest::{Column, Curve, CurvePoint, Frames, Program, ThreadHistory, ThreadRow, WhatIf};
use quaver_dvfs::power::Sensitivity;
use quaver_instrument::facts::RunFacts;
use quaver_view::{
    Axis, Block, Cell, Chart, Colour, Data, Document, Numbers, Quantity, Section, Series, Shown, Table, Text,
    Xy, text,
};

/// Threads that the terminal shows, and that the page shows at first.
const FIRST_THREADS: usize = 10;
/// Threads of the page.
const THREADS: usize = 256;

/// The document.
pub fn document(answer: &WhatIf, run: &RunFacts) -> Document {
    let program = answer.program.as_ref().map(program_words).unwrap_or_default();
    let mut document = crate::head::document("quaver sync what-if", run, program);
    // An example has no run, and the version is of who answers.
    if run.name.is_empty() {
        document.title = "example".to_owned();
    }
    document.version = env!("CARGO_PKG_VERSION").to_owned();
    document.verdict = verdict(answer);
    document.incomplete = !answer.complete;
    if let Some(program) = &answer.program {
        document.tile("Lost", time(program.lost_ns), "passed on where threads meet");
        document.tile("On the critical path", time(program.lost_on_path_ns), "as far as known");
        let subframe = time(answer.subframe_ns);
        document.tile("Subframes", Cell::Count(program.subframes), text!("of {subframe}"));
    }
    document.section(model(answer));
    if !answer.curves.is_empty() {
        document.section(slow_down(answer)).section(power(answer)).section(residency(answer));
    }
    if let Some(drawn) = answer.drawn.as_ref().filter(|drawn| !drawn.columns.is_empty()) {
        document.section(over_time(drawn));
    }
    if !answer.threads.is_empty() {
        document.section(threads(&answer.threads));
    }
    if let Some(frames) = &answer.frames {
        document.section(frames_section(frames));
    }
    if let Some(facts) = &answer.compensated {
        document.section(compensation::section(facts));
        document.warnings.extend(compensation::alarms(facts));
    }
    document.warnings.extend(answer.warnings.iter().map(Text::from));
    document
}

fn time(ns: u64) -> Cell {
    Cell::Duration(ns.cast_signed())
}

fn share(share: Option<f64>) -> Cell {
    share.map(Cell::Share).into()
}

/// A frequency over that at rest.
fn factor(value: f64) -> Cell {
    Cell::Number { value, digits: 2 }
}

/// A share in a column of per cents: points of a curve lie close together.
fn per_cent(share: Option<f64>) -> Cell {
    share.map(|share| Cell::Number { value: share * 100.0, digits: 3 }).into()
}

fn program_words(program: &Program) -> Text {
    text!(
        "{}: {}, {}, {}",
        program.words.join(" "),
        time(program.length_ns),
        Cell::several(program.threads, "thread"),
        Cell::several(program.subframes, "subframe")
    )
}

fn verdict(answer: &WhatIf) -> Option<Text> {
    let Some(program) = &answer.program else {
        let frames = answer.frames.as_ref()?;
        let best = frames.with.iter().map(|one| one.deadlines.missed).min()?;
        let (missed, all) = (Cell::Count(frames.without.missed), Cell::Count(frames.without.frames));
        return Some(text!(
            "{missed} of {all} frames miss their deadline without a controller, {} with the best one.",
            Cell::Count(best)
        ));
    };
    let Some(point) = answer.curves.first().and_then(|curve| own_point(answer, curve)) else {
        return Some("Nothing to recover.".into());
    };
    let (without, with) = (program.slow_down?, point.slow_down?);
    Some(text!(
        "Slow-down {} without a controller, {} with up to {} times the frequency at rest.",
        Cell::Share(without),
        Cell::Share(with),
        factor(point.highest)
    ))
}

/// What the program lost, and what is assumed.
fn model(answer: &WhatIf) -> Section {
    let mut section = Section::new("model", "Losses and model");
    if let Some(program) = &answer.program {
        section.push(text!(
            "Lost: {} by the program ({} of the remaining time), {} on the critical path, {} over all threads.",
            time(program.lost_ns),
            share(program.slow_down),
            time(program.lost_on_path_ns),
            time(program.lost_all_ns)
        ));
    }
    let table = &answer.table;
    let memory = match answer.unpaced_share {
        share if share > 0.0 => format!("{} of own work waits for memory", Cell::Share(share)),
        _ => "all own work scales with the clock (change with --memory)".to_owned(),
    };
    section.with(text!(
        "Subframes of {}; frequencies from {} to {} of {} GHz in {} steps; {memory}.",
        time(answer.subframe_ns),
        factor(table.factor(0)),
        factor(table.factor(table.highest())),
        factor(table.points[table.rest].frequency_ghz),
        table.points.len()
    ))
}

/// A table with a row a controller and a column a limit.
fn by_limit(answer: &WhatIf, cell: fn(&CurvePoint) -> Cell) -> Table {
    let points = answer.curves.first().map_or(&[][..], |curve| &curve.points);
    let limits = points.iter().map(|point| factor(point.highest).to_string());
    let mut table = Table::new(std::iter::once("max f/f0".to_owned()).chain(limits));
    for curve in &answer.curves {
        table.row(std::iter::once(Cell::from(&*curve.name)).chain(curve.points.iter().map(cell)));
    }
    table
}

fn slow_down(answer: &WhatIf) -> Section {
    let section = Section::new("curve", "Slow-down over maximum frequency, %")
        .link("Curve")
        .note("whole program, debt passes by slack where threads meet; first column without a controller");
    let section = match answer.program.as_ref().and_then(|program| program.slow_down) {
        Some(without) => section.with(curve(answer, without)),
        None => section,
    };
    section.with(by_limit(answer, |point| per_cent(point.slow_down)))
}

/// A line a controller, and one without.
fn curve(answer: &WhatIf, without: f64) -> Chart {
    let mut plot = Xy::new(
        Axis::linear("max f/f0", Quantity::Number),
        Axis::linear("slow-down of the whole program", Quantity::Share),
    )
    .guide_y(without, "without a controller");
    for (at, curve) in answer.curves.iter().enumerate() {
        let x = curve.points.iter().map(|point| point.highest).collect();
        let y = curve.points.iter().map(|point| point.slow_down.unwrap_or(f64::NAN)).collect();
        let colour = Colour::Series(u8::try_from(at).unwrap_or(u8::MAX));
        plot = plot.with(Series::new(&curve.name, colour, Data::Line { x, y, marks: true }));
    }
    Chart::new("slow-down", "Slow-down by controller", plot)
}

fn power(answer: &WhatIf) -> Section {
    let table = by_limit(answer, |point| per_cent(point.power_overhead));
    let others = Block::from(sensitivity(&answer.power)).only(Shown::HtmlOnly);
    Section::new("power", "Additional power, %")
        .note("over cores at f0; modelled, not measured")
        .with(table)
        .with(others)
}

fn sensitivity(all: &[Sensitivity]) -> Table {
    let table = Table::of(
        all,
        &[
            ("dynamic share", &|one| Cell::Share(one.model.dynamic_share)),
            ("idle activity factor", &|one| Cell::Number { value: one.model.idle_activity, digits: 1 }),
            ("leakage exponent", &|one| Cell::Number { value: one.model.leakage_exponent, digits: 0 }),
            ("additional power", &|one| share(one.overhead)),
        ],
    );
    table.title("Under other assumptions (reactive, k = 1)")
}

/// The point of a curve at the table's own highest frequency.
fn own_point<'a>(answer: &WhatIf, curve: &'a Curve) -> Option<&'a CurvePoint> {
    let own = answer.table.factor(answer.table.highest());
    curve.points.iter().rev().find(|point| point.highest <= own + 1e-9)
}

fn residency(answer: &WhatIf) -> Section {
    let points: Vec<(&Curve, &CurvePoint)> =
        answer.curves.iter().filter_map(|curve| Some((curve, own_point(answer, curve)?))).collect();
    let ratios = points.first().map_or(&[][..], |(_, point)| &point.residency);
    let headings = ratios.iter().map(|(ratio, _)| factor(*ratio).to_string());
    let mut table = Table::new(std::iter::once("f/f0".to_owned()).chain(headings));
    for (curve, point) in &points {
        let shares = point.residency.iter().map(|(_, share)| Cell::Share(*share));
        table.row(std::iter::once(Cell::from(&*curve.name)).chain(shares));
    }
    Section::new("residency", "Time at each frequency")
        .note("of the threads' working time, up to the table's own maximum")
        .with(table)
}

/// What a thread lost and owed, and its frequency.
fn over_time(drawn: &ThreadHistory) -> Section {
    // A column's values hold from the end of the one before to its own.
    let ends = drawn.columns.iter().map(|column| column.at_ns as f64);
    let x: Numbers = std::iter::once(0.0).chain(ends).collect();
    let series = |name: &str, colour: u8, value: fn(&Column) -> f64| {
        let y = drawn.columns.iter().chain(drawn.columns.last()).map(value).collect();
        Series::new(name, Colour::Series(colour), Data::Steps { x: x.clone(), y })
    };
    let axis = || Axis::linear("time since the thread's start", Quantity::Duration);
    let debt = Xy::new(axis(), Axis::linear("time", Quantity::Duration))
        .with(series("cumulative loss", 2, |column| column.lost_so_far_ns as f64))
        .with(series("debt", 0, |column| column.owed_ns.round()));
    let speed =
        Xy::new(axis(), Axis::linear("f/f0", Quantity::Number))
            .with(series("frequency", 1, |column| column.ratio));
    Section::new("thread", format!("Thread {} over time", drawn.thread))
        .link("A thread over time")
        .note("The thread with the largest loss: loss without a controller, debt with one (reactive, k = 1).")
        .with(Chart::new("debt", "Cumulative loss and debt", debt).linked("thread"))
        .with(Chart::new("speed", "Frequency", speed).linked("thread"))
}

fn threads(all: &[ThreadRow]) -> Section {
    let table = Table::of(
        all.iter().take(THREADS),
        &[
            ("thread", &|one| Cell::Index(one.thread.into())),
            ("life", &|one| time(one.length_ns)),
            ("waited", &|one| time(one.blocked_ns)),
            ("lost", &|one| time(one.lost_ns)),
            ("left", &|one| Cell::FineDuration(one.left_ns)),
            ("slow-down without controller", &|one| share(one.slow_down_without)),
            ("slow-down with", &|one| share(one.slow_down_with)),
            ("mean f/f0", &|one| one.mean_ratio.map(|value| Cell::Number { value, digits: 3 }).into()),
        ],
    );
    let table = table.first_rows(FIRST_THREADS).terminal_first(FIRST_THREADS);
    Section::new("threads", "Threads")
        .note(
            "reactive, k = 1, up to the table's own maximum; a thread that recovers its creator's debt wins more than it lost",
        )
        .with(table)
}

fn frames_section(frames: &Frames) -> Section {
    let (period, deadline) = (time(frames.period_ns), time(frames.deadline_ns));
    let note = match frames.of {
        "own" => text!("own work of each {period}, deadline {deadline}"),
        "wimax" => text!("packets of {period} of work with this run's losses, deadline {deadline}"),
        _ => text!("packets of {period} of work with synthetic losses, deadline {deadline}"),
    };
    let with = frames.with.iter().map(|one| (&*one.name, one.highest, &one.deadlines));
    let table = Table::of(
        std::iter::once(("none", 1.0, &frames.without)).chain(with),
        &[
            ("controller", &|(name, ..)| (*name).into()),
            ("max f/f0", &|(_, highest, _)| factor(*highest)),
            ("frames", &|(.., seen)| Cell::Count(seen.frames)),
            ("missed", &|(.., seen)| Cell::Count(seen.missed)),
            ("miss rate", &|(.., seen)| share(seen.miss_rate())),
            ("mean slack", &|(.., seen)| Cell::FineDuration(seen.mean_slack_ns)),
            ("min slack", &|(.., seen)| Cell::FineDuration(seen.least_slack_ns)),
        ],
    );
    Section::new("frames", "Real-time frames").note(note).with(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::digest::{Question, of_example};
    use quaver_dvfs::dvfs::deadline::Deadlines;

    #[test]
    fn an_example_says_what_becomes_of_its_frames() {
        let question = Question {
            table: Default::default(),
            highest: 1.05,
            subframe_ns: 330_000,
            unpaced_share: 0.25,
            frames: None,
        };
        let mut answer = of_example(&question, 1);
        let frames = answer.frames.as_mut().expect("an example has frames");
        let seen =
            |missed| Deadlines { frames: 2_000, missed, least_slack_ns: -1_500.0, mean_slack_ns: 80_000.0 };
        frames.without = seen(40);
        frames.with.truncate(1);
        frames.with[0].deadlines = seen(9);
        let wanted = "\
quaver sync what-if · example

  40 of 2,000 frames miss their deadline without a controller, 9 with the best one.

Losses and model
  Subframes of 330 µs; frequencies from 0.80 to 1.20 of 3.00 GHz in 9 steps; 25.0 % of own work
  waits for memory.

Real-time frames  packets of 4.60 ms of work with synthetic losses, deadline 5.00 ms
  controller       max f/f0  frames  missed  miss rate  mean slack  min slack
  none                 1.00   2,000      40      2.0 %     80.0 µs   -1.50 µs
  reactive, k = 1      1.05   2,000       9     0.45 %     80.0 µs   -1.50 µs

Warnings
  ! the losses of these packets are made up (seed 1); quaver sync what-if RUN --example wimax takes
    those of a program
";
        assert_eq!(quaver_view::plain(&document(&answer, &RunFacts::default())), wanted);
    }
}
