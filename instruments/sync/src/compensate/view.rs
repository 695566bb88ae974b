//! What `quaver sync --compensate` did, as a section of a document.

use crate::digest::CompensationFacts;
use quaver_dvfs::dvfs::Kind;
use quaver_view::{Block, Cell, Section, Table, Text, text};

/// The section.
pub fn section(facts: &CompensationFacts) -> Section {
    let section = Section::new("compensation", "DVFS compensation").note(note(facts)).with(figures(facts));
    let steps = if facts.dry { decided(facts) } else { set(facts) };
    let section = if steps.rows.is_empty() { section } else { section.with(steps) };
    section.with(Block::List(remarks(facts)))
}

/// What went wrong.
pub fn alarms(facts: &CompensationFacts) -> Vec<Text> {
    let stopped = facts.broke_off.iter().map(|why| text!("Compensation stopped early: {why}"));
    let left = facts
        .not_put_back
        .iter()
        .map(|what| text!("Not restored: {what} (quaver tune status; sudo quaver tune revert)"));
    stopped.chain(left).collect()
}

/// Which controller, by which files.
fn note(facts: &CompensationFacts) -> Text {
    let kind = match facts.controller.kind {
        Kind::Reactive => "reactive",
        Kind::Predictive => "predictive",
    };
    let way = match facts.dry {
        true => "dry run: nothing was set".to_owned(),
        false => format!("{} by {}", facts.driver, facts.way),
    };
    let subframe = Cell::Duration(facts.controller.subframe_ns.cast_signed());
    text!("{kind} controller, k = {}, subframes of {subframe}; {way}", facts.controller.reactivity)
}

fn figures(facts: &CompensationFacts) -> Table {
    let time = |ns: u64| Cell::Duration(ns.cast_signed());
    let share = |share: Option<f64>| Cell::from(share.map(Cell::Share));
    let mut table = Table::bare(2);
    let mut row = |name: &str, value: Text| {
        table.row([Cell::from(name), value.into()]);
    };
    row("threads", text!("{}", Cell::Count(facts.threads)));
    let (full, early) = (Cell::Count(facts.in_time), Cell::Count(facts.forced));
    row("subframes", text!("{full} full, {early} ended early (create, join, exit)"));
    row("lost", text!("{} ({})", time(facts.lost_ns), share(facts.slow_down_without)));
    let remaining = (Cell::FineDuration(facts.left_ns), share(facts.slow_down_with));
    row(if facts.dry { "remaining" } else { "left" }, text!("{} ({})", remaining.0, remaining.1));
    row("power (model)", text!("{}", share(facts.power_overhead)));
    if !facts.dry {
        let mean = Cell::FineDuration(facts.write_total_ns as f64 / facts.writes as f64);
        let writes = text!(
            "{}, {} refused; mean {mean}, max {}",
            Cell::Count(facts.writes),
            Cell::Count(facts.writes_refused),
            time(facts.write_max_ns)
        );
        row("writes", writes);
        let mean = Cell::from(facts.delay_mean_ns.map(Cell::FineDuration));
        row("from demand to write", text!("mean {mean}, max {}", time(facts.delay_max_ns)));
    }
    let cost = text!(
        "{} of CPU time, {} of one CPU, in {} polls",
        time(facts.own_cpu_ns),
        Cell::part(facts.own_cpu_ns, facts.own_ns),
        Cell::Count(facts.looks)
    );
    row("monitoring cost", cost);
    table
}

/// Time of all threads at each point of the table, as the controllers decided.
fn decided(facts: &CompensationFacts) -> Table {
    let mut table = Table::new(["f/f0", "threads' time", "share"]);
    let total_ns: u64 = facts.decided_ns.iter().sum();
    for (point, ns) in facts.decided_ns.iter().enumerate().filter(|(_, ns)| **ns > 0) {
        let factor = Cell::Number { value: facts.controller.table.factor(point), digits: 2 };
        table.row([factor, Cell::Duration(ns.cast_signed()), Cell::part(*ns, total_ns)]);
    }
    table
}

/// Time of each policy at each frequency that was set.
fn set(facts: &CompensationFacts) -> Table {
    let mut table = Table::new(["CPU", "GHz", "f/f0", "time", "share"]);
    for (policy, times) in facts.policies.iter().zip(&facts.set_ns) {
        let total_ns: u64 = times.iter().sum();
        for (khz, ns) in policy.steps_khz.iter().zip(times).filter(|(_, ns)| **ns > 0) {
            table.row([
                quaver_host::settings::knob::cpu_list(&policy.cpus).into(),
                Cell::Number { value: *khz as f64 / 1e6, digits: 2 },
                Cell::Number { value: *khz as f64 / policy.rest_khz.max(1) as f64, digits: 2 },
                Cell::Duration(ns.cast_signed()),
                Cell::part(*ns, total_ns),
            ]);
        }
    }
    table
}

/// What to know.
fn remarks(facts: &CompensationFacts) -> Vec<Text> {
    let mut remarks = Vec::new();
    let ghz = |khz: u64| Cell::Number { value: khz as f64 / 1e6, digits: 2 };
    if let Some(policy) = facts.policies.first() {
        let highest = policy.steps_khz.last().copied().unwrap_or(0);
        remarks.push(text!(
            "f0 was {} GHz, the maximum {} GHz. Without losses the program ran at f0, slower than at the maximum.",
            ghz(policy.rest_khz),
            ghz(highest)
        ));
    }
    remarks.push(
        "Live accounting covers what the recorder sees: the six classes, starts and joins. It excludes interrupts and preemption \
         outside of calls."
            .into(),
    );
    if facts.looks_beside > 0 {
        let share = Cell::part(facts.looks_beside, facts.looks);
        remarks.push(text!("{share} of polls shared a CPU with the program: no other was available."));
    }
    if facts.late_events > 0 || facts.holes > 0 {
        let (late, never) = (Cell::Count(facts.late_events), Cell::Count(facts.holes));
        remarks.push(text!("{late} events arrived after their subframe was judged, {never} never arrived."));
    }
    if !facts.recovered.is_empty() {
        remarks.push(text!("Restored first, left by a killed run: {}.", facts.recovered.join(", ")));
    }
    remarks
}
