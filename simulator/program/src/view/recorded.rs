//! What was injected from a recording, beside what was recorded.

use crate::digest::{RecordedClass, RecordedFigures};
use quaver_sim::inject::JointCounts;
use quaver_view::{Block, Cell, Section, Shown, Table, Text, text};

pub(super) fn section(recorded: &RecordedFigures, program: &[String]) -> Section {
    let columns = ["class", "recorded", "late", "mean", "simulated", "injected", "mean", "distance"];
    let mut table = Table::new(columns);
    recorded.classes.iter().for_each(|class| {
        table.row(class_cells(class));
    });
    let mut section = Section::new("recorded", "Injected from a recording")
        .note(format!(
            "{}; {} threads, {}; first seed, with the cure",
            recorded.recording.run,
            recorded.threads,
            Cell::Duration(recorded.span_ns.cast_signed())
        ))
        .with(table);
    if let Some(words) = another(&recorded.program, program) {
        section.push(Block::Note(words));
    }
    for words in notes(recorded) {
        section.push(Block::Note(words));
    }
    if let Some(drawn) = &recorded.drawn_joint {
        section.push(Block::from(together(&recorded.joint, drawn)).only(Shown::HtmlOnly));
    }
    section
}

fn share(part: u64, whole: u64) -> Cell {
    (whole > 0).then(|| Cell::Share(part as f64 / whole as f64)).into()
}

fn mean(sum_ns: u64, count: u64) -> Cell {
    sum_ns.checked_div(count).map(|ns| Cell::Duration(ns.cast_signed())).into()
}

fn class_cells(class: &RecordedClass) -> [Cell; 8] {
    [
        Cell::from(&*class.class),
        Cell::Count(class.timed),
        share(class.late, class.timed),
        mean(class.late_ns, class.late),
        Cell::Count(class.drawn),
        share(class.injected, class.drawn),
        mean(class.injected_ns, class.injected),
        class.distance.map(|value| Cell::Number { value, digits: 3 }).into(),
    ]
}

/// That the recorded program was not called as the traced one; none where it was, or where one of both is not known.
pub(super) fn another(recorded: &[String], traced: &[String]) -> Option<Text> {
    let ((program, arguments), (other, others)) = (recorded.split_first()?, traced.split_first()?);
    let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
    let same = name(program) == name(other) && arguments == others;
    (!same).then(|| text!("The recording is of {}, the trace of {}.", recorded.join(" "), traced.join(" ")))
}

fn notes(recorded: &RecordedFigures) -> Vec<Text> {
    let mut said = Vec::new();
    if let Some(drawn) = &recorded.drawn_joint {
        said.push(text!("Recorded: {}. Injected: {}.", joint_words(&recorded.joint), joint_words(drawn)));
        if drawn.other_size > 0 {
            said.push(text!(
                "{} broadcasts are drawn from ones that woke another number of threads, since few or none woke as many.",
                Cell::Count(drawn.other_size)
            ));
        }
        if drawn.left_out > 0 {
            said.push(text!(
                "{} latenesses ({}) are of threads that did not wait in the simulation, and are not injected.",
                Cell::Count(drawn.left_out),
                Cell::Duration(drawn.left_out_ns.cast_signed())
            ));
        }
    }
    if let [Some(there), Some(here)] = recorded.late_per_thread_ms {
        said.push(text!(
            "Late operations per thread and millisecond: {} recorded, {} injected in simulated time. The rate per \
             operation is the recorded one.",
            Cell::Figure(there),
            Cell::Figure(here)
        ));
    }
    if recorded.held_ns > 0 {
        let held = Cell::Duration(recorded.held_ns.cast_signed());
        said.push(text!(
            "In late waits, the mutex was held for {held}. That is not injected, because simulated mutexes are held too."
        ));
    }
    if let Some(cpus) = recorded.cpus.filter(|cpus| recorded.threads > *cpus) {
        said.push(text!(
            "The recorded program had {} threads on {} CPUs. They waited for each other's CPUs, and that is \
             injected too.",
            Cell::Count(u64::from(recorded.threads)),
            Cell::Count(u64::from(cpus))
        ));
    }
    if recorded.records_lost > 0 {
        let lost = Cell::Count(recorded.records_lost);
        said.push(text!("The recording lacks {lost} records, which found no room."));
    }
    said
}

/// `1,200 broadcasts and barriers, 12.0 % with late threads, of these 3.40 late together`
fn joint_words(joint: &JointCounts) -> String {
    let (all, late) = (joint.broadcasts(), joint.late());
    let mut words = format!("{} broadcasts and barriers", Cell::Count(all));
    if late > 0 {
        words.push_str(&format!(
            ", {} with late threads, {} threads late together on average",
            share(late, all),
            Cell::Figure(joint.late_threads() as f64 / late as f64)
        ));
    }
    words
}

fn together(recorded: &JointCounts, drawn: &JointCounts) -> Table {
    let sizes: std::collections::BTreeSet<u32> =
        recorded.by_late.keys().chain(drawn.by_late.keys()).copied().collect();
    let count = |of: &JointCounts, size: &u32| of.by_late.get(size).copied().unwrap_or(0);
    let table = Table::of(
        sizes,
        &[
            ("late together", &|size| Cell::Count(u64::from(*size))),
            ("recorded", &|size| Cell::Count(count(recorded, size))),
            ("share", &|size| share(count(recorded, size), recorded.broadcasts())),
            ("injected", &|size| Cell::Count(count(drawn, size))),
            ("share", &|size| share(count(drawn, size), drawn.broadcasts())),
        ],
    );
    table.title("Broadcasts and barriers by late threads")
}
