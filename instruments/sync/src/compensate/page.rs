//! What `quaver sync --compensate` did: on the console and on the page of a run.

use crate::digest::CompensationFacts;
use quaver_dvfs::dvfs::Kind;
use quaver_page::console::heading;
use quaver_page::table::{Align, Style, Table, wrap};
use quaver_page::units::{count, duration, duration_f64, percent};

/// Width of the page.
const WIDTH: usize = 100;

/// Adds the section.
pub fn write(out: &mut String, facts: &CompensationFacts, style: Style) {
    heading(out, style, "Given back by speed", &note(facts));
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
    rows(facts).into_iter().for_each(|(name, value)| {
        table.row([name.to_owned(), value]);
    });
    out.push_str(&table.render(style));
    let (heads, rows) = steps(facts);
    if !rows.is_empty() {
        let columns: Vec<(&str, Align)> = heads.iter().map(|head| (head.as_str(), Align::Right)).collect();
        let mut table = Table::new(&columns);
        rows.into_iter().for_each(|row| {
            table.row(row);
        });
        out.push_str(&table.render(style));
    }
    for sentence in sentences(facts) {
        for line in wrap(&sentence, WIDTH - 2) {
            out.push_str(&format!("  {}\n", style.dim(&line)));
        }
    }
    for sentence in alarms(facts) {
        for line in wrap(&sentence, WIDTH - 2) {
            out.push_str(&format!("  {}\n", style.alarm(&line)));
        }
    }
}

/// Which controller, by which files.
pub fn note(facts: &CompensationFacts) -> String {
    let kind = match facts.controller.kind {
        Kind::Reactive => "reactive",
        Kind::Predictive => "predictive",
    };
    let way = match facts.dry {
        true => "computed only, nothing was set".to_owned(),
        false => format!("{} by {}", facts.driver, facts.way),
    };
    format!(
        "{kind} controller, k = {}, subframes of {}; {way}",
        facts.controller.reactivity,
        duration(facts.controller.subframe_ns.cast_signed())
    )
}

/// The figures: name and value.
pub fn rows(facts: &CompensationFacts) -> Vec<(&'static str, String)> {
    let late = if facts.dry { "would be left" } else { "left" };
    let mut rows = vec![
        ("threads", count(facts.threads)),
        (
            "subframes",
            format!("{} in time, {} at creates, joins and ends", count(facts.in_time), count(facts.forced)),
        ),
        ("lost", format!("{} ({})", duration(facts.lost_ns.cast_signed()), signed(facts.slow_down_without))),
        (late, format!("{} ({})", duration_f64(facts.left_ns), signed(facts.slow_down_with))),
        ("power, by the model", signed(facts.power_overhead)),
    ];
    if !facts.dry {
        rows.push((
            "writes",
            format!(
                "{}, {} refused; {} each, the longest {}",
                count(facts.writes),
                count(facts.writes_refused),
                mean(facts.write_total_ns, facts.writes),
                duration(facts.write_max_ns.cast_signed())
            ),
        ));
        rows.push((
            "from what called for it to the write",
            format!(
                "{}, the longest {}",
                facts.delay_mean_ns.map_or("-".to_owned(), duration_f64),
                duration(facts.delay_max_ns.cast_signed())
            ),
        ));
    }
    rows.push((
        "cost of looking",
        format!(
            "{} of CPU time, {} of one CPU, in {} looks",
            duration(facts.own_cpu_ns.cast_signed()),
            percent(facts.own_cpu_ns as f64 / facts.own_ns.max(1) as f64),
            count(facts.looks)
        ),
    ));
    rows
}

fn mean(total_ns: u64, number: u64) -> String {
    if number == 0 { "-".to_owned() } else { duration_f64(total_ns as f64 / number as f64) }
}

/// Time at each step: heads and rows.
pub fn steps(facts: &CompensationFacts) -> (Vec<String>, Vec<Vec<String>>) {
    let share = |times: &[u64]| {
        let total: u64 = times.iter().sum();
        move |ns: u64| percent(ns as f64 / total.max(1) as f64)
    };
    if facts.dry {
        let table = &facts.controller.table;
        let of = share(&facts.decided_ns);
        let row = |(point, ns): (usize, &u64)| {
            vec![format!("{:.2}", table.factor(point)), duration(ns.cast_signed()), of(*ns)]
        };
        let heads = ["frequency over rest", "threads' time", "share"].map(str::to_owned).to_vec();
        let there = facts.decided_ns.iter().enumerate().filter(|(_, ns)| **ns > 0);
        return (heads, there.map(row).collect());
    }
    let mut rows = Vec::new();
    for (policy, times) in facts.policies.iter().zip(&facts.set_ns) {
        let of = share(times);
        for (khz, ns) in policy.steps_khz.iter().zip(times).filter(|(_, ns)| **ns > 0) {
            rows.push(vec![
                cpus(&policy.cpus),
                format!("{:.2} GHz", *khz as f64 / 1e6),
                format!("{:.2}", *khz as f64 / policy.rest_khz.max(1) as f64),
                duration(ns.cast_signed()),
                of(*ns),
            ]);
        }
    }
    (["CPU", "frequency", "over rest", "time", "share"].map(str::to_owned).to_vec(), rows)
}

fn cpus(cpus: &[u16]) -> String {
    quaver_host::settings::knob::cpu_list(cpus)
}

/// What to know.
pub fn sentences(facts: &CompensationFacts) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(policy) = facts.policies.first() {
        let highest = policy.steps_khz.last().copied().unwrap_or(0);
        sentences.push(format!(
            "Rest was {:.2} GHz, the highest {:.2} GHz: without losses the program ran at rest, slower than a machine that always runs \
             at its highest.",
            policy.rest_khz as f64 / 1e6,
            highest as f64 / 1e6
        ));
    }
    sentences.push(
        "Counted live is what the recorder sees (the six classes, starts and joins); interrupts and preemption outside of calls are not."
            .to_owned(),
    );
    if facts.looks_beside > 0 {
        sentences.push(format!(
            "At {} of looks a thread of the program had been on the CPU that looked: there was no other.",
            percent(facts.looks_beside as f64 / facts.looks.max(1) as f64)
        ));
    }
    if facts.late_events > 0 || facts.holes > 0 {
        sentences.push(format!(
            "{} events came after their time had been judged, {} never came.",
            count(facts.late_events),
            count(facts.holes)
        ));
    }
    if !facts.recovered.is_empty() {
        sentences.push(format!(
            "Put back first, since a killed run had left them: {}.",
            facts.recovered.join(", ")
        ));
    }
    sentences
}

/// What went wrong.
pub fn alarms(facts: &CompensationFacts) -> Vec<String> {
    let broke = facts.broke_off.iter().map(|why| format!("Broke off while the program ran: {why}"));
    let left = facts
        .not_put_back
        .iter()
        .map(|what| format!("Not put back: {what} (quaver tune status; sudo quaver tune revert)"));
    broke.chain(left).collect()
}

/// A share with its sign; `-` where there is none.
fn signed(share: Option<f64>) -> String {
    match share {
        // Less than half of the last digit is nothing, of either sign.
        Some(share) if share.abs() < 5e-6 => "0.000 %".to_owned(),
        Some(share) => format!("{:+.3} %", share * 100.0),
        None => "-".to_owned(),
    }
}
