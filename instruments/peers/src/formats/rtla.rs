//! rtla, the kernel's own front end of its timerlat and osnoise tracers: `hist` and `top`.
//!
//! A histogram has a line a bin with its lower end and a count for each column: `IRQ-000`, `Thr-000` and `Usr-000` of timerlat,
//! `CPU-000` of osnoise. `over:`, `count:`, `min:`, `avg:` and `max:` follow. Bins without values are left out unless asked for.
//! A table of `top` has a line a CPU. On a terminal it is written again and again: the last one counts.

use super::Damage;
use super::cyclictest::ascending;
use super::json::US;
use crate::result::{Bins, Figures, Measurement, Quantity, Values};
use quaver_view::Unit;
use std::collections::BTreeMap;

const HISTOGRAMS: [(&str, &str); 2] =
    [("RTLA timerlat histogram", "rtla timerlat"), ("RTLA osnoise histogram", "rtla osnoise")];
const TABLES: [(&str, &str); 3] = [
    ("Timer Latency", "rtla timerlat"),
    ("Operating System Noise", "rtla osnoise"),
    ("Hardware-related Noise", "rtla hwnoise"),
];

/// What a column of timerlat and osnoise measures: its letters, and identifier and name of the quantity.
const WAKE_UP: (&str, &str) = ("wake_up", "wake-up latency");
const WAKE_UP_KERNEL: (&str, &str) = ("wake_up_kernel", "wake-up latency of a kernel thread");
const TIMER_IRQ: (&str, &str) = ("timer_irq", "timer interrupt latency");
const GAP: (&str, &str) = ("gap", "length of gaps");

pub(super) fn is_output(text: &str) -> bool {
    title(text, &HISTOGRAMS).or(title(text, &TABLES)).is_some()
}

/// The tool of the first line that has one of the titles and nothing else.
fn title(text: &str, titles: &[(&str, &'static str)]) -> Option<&'static str> {
    let bare = |line: &str| line.trim_matches(|c: char| c == '#' || c.is_whitespace()).to_owned();
    text.lines()
        .map(bare)
        .find_map(|line| {
            // A terminal's commands may stand before it.
            titles
                .iter()
                .find(|(title, _)| line == *title || (line.contains('\u{1b}') && line.ends_with(title)))
        })
        .map(|(_, tool)| *tool)
}

pub(super) fn parse(text: &str) -> Result<Measurement, Damage> {
    let mut found = match (title(text, &HISTOGRAMS), title(text, &TABLES)) {
        (Some(tool), _) => Measurement { tool, ..histogram(text)? },
        (_, Some(tool @ "rtla timerlat")) => Measurement { tool, ..latencies(text)? },
        (_, tool) => Measurement { tool: tool.unwrap_or_default(), ..noise(text)? },
    };
    found.quantities.sort_by_key(|quantity| {
        [WAKE_UP.0, WAKE_UP_KERNEL.0, TIMER_IRQ.0].iter().position(|id| *id == quantity.id)
    });
    if found.tool != "rtla timerlat" {
        found.notes.push("noise below the tracer's tolerance (-T) is not in the file".to_owned());
        for quantity in found.quantities.iter_mut().filter(|quantity| quantity.id == GAP.0) {
            // rtla of Linux 6.2 and before divides by the wrong number: no noise lasts less than the tolerance.
            if quantity.figures.mean == Some(0.0) && quantity.figures.max > Some(0.0) {
                quantity.figures.mean = None;
                quantity.parts.iter_mut().for_each(|(_, part)| part.mean = None);
                found.notes.push("its means of 0 are left out, since no noise is that short".to_owned());
            }
        }
    }
    Ok(found)
}

/// Nanoseconds in the unit of the file.
fn unit(text: &str) -> f64 {
    let nanoseconds = ["nanoseconds (ns)", "time is in ns", "Latency (ns)"];
    if nanoseconds.iter().any(|words| text.contains(words)) { 1.0 } else { US }
}

fn histogram(text: &str) -> Result<Measurement, Damage> {
    let unit = unit(text);
    let mut columns: Vec<Column> = Vec::new();
    let (mut indexes, mut finished) = (Vec::new(), false);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let words: Vec<&str> = words.collect();
        match first {
            "Index" => columns = words.iter().map(|name| Column::of(name)).collect::<Result<_, _>>()?,
            // The figures of all CPUs together follow, which those of each CPU give as well.
            "ALL:" | "ALL" => break,
            "over:" | "count:" | "min:" | "avg:" | "max:" => {
                finished |= first == "over:";
                // Without any value there are no columns, and rtla states one 0.
                for (column, word) in columns.iter_mut().zip(&words) {
                    column.state(first, word, unit)?;
                }
            }
            _ if first.starts_with(|c: char| c.is_ascii_digit()) => {
                let index: u64 = whole(first)?;
                if words.len() != columns.len() {
                    return Err(format!(
                        "its bin {index} has {} counts for {} columns",
                        words.len(),
                        columns.len()
                    ));
                }
                indexes.push(index);
                for (column, word) in columns.iter_mut().zip(&words) {
                    column.bins.push((index as f64 * unit, whole(word)?));
                }
            }
            _ => {}
        }
    }
    if !finished {
        return Err("it has no line \"over:\", which follows the bins".to_owned());
    }
    let width =
        indexes.iter().copied().reduce(divisor).filter(|width| *width > 0).map(|width| width as f64 * unit);
    let mut notes = Vec::new();
    if columns.is_empty() {
        notes.push("it has no value".to_owned());
    } else if width.is_none() {
        notes.push("the width of its bins is unknown, since it has one alone".to_owned());
    }
    let mut quantities = Vec::new();
    for (id, name) in [WAKE_UP, WAKE_UP_KERNEL, TIMER_IRQ, GAP] {
        let of: Vec<&Column> = columns.iter().filter(|column| column.quantity == (id, name)).collect();
        if !of.is_empty() {
            quantities.push(quantity_of(id, name, &of, width));
        }
    }
    Ok(Measurement { quantities, notes, ..Measurement::default() })
}

fn quantity_of(id: &'static str, name: &'static str, columns: &[&Column], width: Option<f64>) -> Quantity {
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for (lower, count) in columns.iter().flat_map(|column| &column.bins) {
        let sum = sums.entry(*lower as u64).or_default();
        *sum = sum.saturating_add(*count);
    }
    let counts = ascending(sums.into_iter().map(|(lower, count)| (lower as f64, count)));
    let beyond = columns.iter().fold(0u64, |sum, column| sum.saturating_add(column.over));
    let bins = Bins { width, counts, beyond };
    let parts: Vec<(String, Figures)> =
        columns.iter().map(|column| (column.cpu.clone(), column.figures)).collect();
    let mut figures = Figures::of_parts(
        &parts.iter().filter(|(_, part)| part.count != Some(0)).cloned().collect::<Vec<_>>(),
    );
    figures.count = Some(bins.total());
    Quantity { id, name, unit: Unit::Duration, values: Values::Bins(bins), figures, parts }
}

/// A column of a histogram.
struct Column {
    quantity: (&'static str, &'static str),
    cpu: String,
    bins: Vec<(f64, u64)>,
    over: u64,
    figures: Figures,
}

impl Column {
    fn of(name: &str) -> Result<Self, Damage> {
        let unknown = || format!("its column {name:?} is unknown");
        let (letters, cpu) = name.split_once('-').ok_or_else(unknown)?;
        let quantity = match letters {
            "IRQ" => TIMER_IRQ,
            "Thr" => WAKE_UP_KERNEL,
            "Usr" => WAKE_UP,
            "CPU" => GAP,
            _ => return Err(unknown()),
        };
        let cpu = format!("CPU {}", whole(cpu)?);
        Ok(Self { quantity, cpu, bins: Vec::new(), over: 0, figures: Figures::default() })
    }

    fn state(&mut self, what: &str, word: &str, unit: f64) -> Result<(), Damage> {
        let time = || Ok::<_, Damage>(figure(word)?.map(|value| value * unit));
        match what {
            "over:" => self.over = whole(word)?,
            "count:" => self.figures.count = Some(whole(word)?),
            "min:" => self.figures.min = time()?,
            "avg:" => self.figures.mean = time()?,
            _ => self.figures.max = time()?,
        }
        Ok(())
    }
}

/// A table of timerlat: `0 #1000 | cur min avg max | cur min avg max`, of timer interrupts, threads and returns to user space.
fn latencies(text: &str) -> Result<Measurement, Damage> {
    let unit = unit(text);
    let mut rows: BTreeMap<u64, Vec<Figures>> = BTreeMap::new();
    for line in text.lines() {
        let mut groups = line.split('|');
        let Some((cpu, counted)) = groups.next().and_then(|first| first.split_once('#')) else { continue };
        let Ok(cpu) = cpu.trim().parse() else { continue };
        let count = Some(whole(counted.trim())?);
        let mut found = Vec::new();
        for group in groups {
            let words: Vec<&str> = group.split_whitespace().collect();
            let [_, min, mean, max, ..] = words.as_slice() else {
                return Err(format!("its line of CPU {cpu} is cut"));
            };
            let time = |word: &str| Ok::<_, Damage>(figure(word)?.map(|value| value * unit));
            found.push(Figures { count, min: time(min)?, mean: time(mean)?, max: time(max)? });
        }
        rows.insert(cpu, found);
    }
    let groups = rows.values().map(Vec::len).max().unwrap_or_default();
    if groups == 0 || rows.values().any(|row| row.len() != groups) {
        return Err("it has no whole line of a CPU".to_owned());
    }
    let mut quantities = Vec::new();
    for (group, (id, name)) in [TIMER_IRQ, WAKE_UP_KERNEL, WAKE_UP].into_iter().enumerate().take(groups) {
        let parts: Vec<(String, Figures)> =
            rows.iter().map(|(cpu, row)| (format!("CPU {cpu}"), row[group])).collect();
        let (figures, values) = (Figures::of_parts(&parts), Values::Stated(None));
        quantities.push(Quantity { id, name, unit: Unit::Duration, values, figures, parts });
    }
    Ok(Measurement { quantities, ..Measurement::default() })
}

/// A table of osnoise: CPU, number of periods, runtime, noise, percent available, most noise of a period, longest single noise,
/// then entries of each class.
fn noise(text: &str) -> Result<Measurement, Damage> {
    const CLASSES: [&str; 5] = ["hardware", "nmi", "irq", "softirq", "thread"];
    let unit = unit(text);
    let mut rows: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [cpu, periods, numbers @ ..] = words.as_slice() else { continue };
        let (Ok(cpu), Some(periods)) = (cpu.parse(), periods.strip_prefix('#')) else { continue };
        if numbers.len() < 7 {
            return Err(format!("its line of CPU {cpu} is cut"));
        }
        let available = |at: usize| at == 2;
        let kept = numbers.iter().enumerate().filter(|(at, _)| !available(*at)).map(|(_, word)| whole(word));
        let all: Result<Vec<u64>, Damage> = std::iter::once(whole(periods)).chain(kept).collect();
        rows.insert(cpu, all?);
    }
    let width = rows.values().map(Vec::len).max().unwrap_or_default();
    if width == 0 || rows.values().any(|row| row.len() != width) {
        return Err("it has no whole line of a CPU".to_owned());
    }
    let of = |part: &dyn Fn(&[u64]) -> Figures| -> Vec<(String, Figures)> {
        rows.iter().map(|(cpu, row)| (format!("CPU {cpu}"), part(row))).collect()
    };
    let available = of(&|row| {
        let mean = (row[1] > 0).then(|| 1.0 - row[2] as f64 / row[1] as f64);
        Figures { count: Some(row[0]), mean, ..Figures::default() }
    });
    let longest = of(&|row| Figures { max: Some(row[4] as f64 * unit), ..Figures::default() });
    let quantity = |(id, name), unit, parts: Vec<(String, Figures)>| {
        let (figures, values) = (Figures::of_parts(&parts), Values::Stated(None));
        Quantity { id, name, unit, values, figures, parts }
    };
    let sum = |at: usize| rows.values().fold(0u64, |sum, row| sum.saturating_add(row[at]));
    Ok(Measurement {
        quantities: vec![
            quantity(("available", "share of the time left to the loop"), Unit::Share, available),
            quantity(GAP, Unit::Duration, longest),
        ],
        counts: CLASSES.iter().enumerate().take(width - 5).map(|(at, name)| (*name, sum(at + 5))).collect(),
        ..Measurement::default()
    })
}

fn whole(word: &str) -> Result<u64, Damage> {
    word.parse().map_err(|_| format!("{word:?} stands where a count belongs"))
}

/// A time; `-` is none.
fn figure(word: &str) -> Result<Option<f64>, Damage> {
    match word {
        "-" => Ok(None),
        _ => whole(word).map(|value| Some(value as f64)),
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
