//! Drawings of a simulated run: stacked bars of the cores, and threads over time.

use super::{NAMES, simulated};
use crate::digest::{CoreFigures, PARTS, RUNNING_PARTS, SLICES, SimLane, SimLanes, SimSummary};
use crate::intervals::{SimInterval, SimState};
use quaver_view::{
    Arrow, Axis, BarSeries, Bars, Block, Cell, Chart, Colour, Fill, Group, Lane, Quantity, Section, Shown,
    Table, Timeline, text,
};

/// Lanes of the overview.
const MOST_LANES: usize = 32;
/// Arrows of the overview: those of the longest waits.
const MOST_ARROWS: usize = 32;
/// Rows of the longest waits that the page shows first.
const FIRST_WAITS: usize = 8;
/// Colours of stalls that can be told from each other; the last is that of all smaller ones together.
const COLOURS: usize = 8;

/// Parts of the time with a colour of their own, then all other parts in which a thread runs. These are the same in
/// every drawing of a run.
struct Stack {
    parts: Vec<(&'static str, Colour, Vec<usize>)>,
}

impl Stack {
    fn of(summary: &SimSummary) -> Self {
        let fs = |part: &usize| summary.time.get(*part).map_or(0, |part| part.time_fs);
        let mut ran: Vec<usize> = (0..RUNNING_PARTS).filter(|part| fs(part) > 0).collect();
        ran.sort_by_key(|part| (std::cmp::Reverse(fs(part)), *part));
        let own = if ran.len() > COLOURS { COLOURS - 1 } else { ran.len() };
        let smaller = ran.split_off(own);
        ran.sort_unstable();
        let own = ran.into_iter().zip(0..).map(|(part, at)| (NAMES[part].0, Colour::Series(at), vec![part]));
        let mut parts: Vec<_> = own.collect();
        if !smaller.is_empty() {
            parts.push(("smaller stalls", Colour::Series(COLOURS as u8 - 1), smaller));
        }
        Self { parts }
    }

    /// A series for each part that is there, of the cores' values by part.
    fn series(&self, cores: &[Vec<f64>]) -> Vec<BarSeries> {
        let of = |parts: &[usize]| -> Vec<f64> {
            cores.iter().map(|core| parts.iter().filter_map(|part| core.get(*part)).sum()).collect()
        };
        let all = self.parts.iter().map(|(name, colour, parts)| BarSeries::new(*name, *colour, of(parts)));
        all.filter(|series| series.values.iter().any(|value| *value > 0.0)).collect()
    }
}

fn names(cores: &[&CoreFigures]) -> Vec<String> {
    cores.iter().map(|core| format!("core {}", core.core)).collect()
}

fn stacked(value: Axis, categories: Vec<String>, series: Vec<BarSeries>) -> Bars {
    Bars { value, categories, series, stacked: true, horizontal: true }
}

/// What each core's whole time went to.
pub(super) fn core_time(summary: &SimSummary) -> Chart {
    let cores: Vec<&CoreFigures> = summary.cores.iter().collect();
    let mut stack = Stack::of(summary);
    let idle = [Colour::Ink, Colour::Muted, Colour::Faint].into_iter().zip(RUNNING_PARTS..PARTS.len());
    stack.parts.extend(idle.map(|(colour, part)| (NAMES[part].0, colour, vec![part])));
    let whole = summary.chip.duration_fs as f64;
    let shares: Vec<Vec<f64>> =
        cores.iter().map(|core| core.parts_fs.iter().map(|fs| *fs as f64 / whole).collect()).collect();
    let axis = Axis::linear("share of the time", Quantity::Share).range(0.0, 1.0);
    Chart::new("core-time", "By core", stacked(axis, names(&cores), stack.series(&shares)))
}

/// CPI of each core that ran something, in parts.
pub(super) fn cpi(summary: &SimSummary, used: &[&CoreFigures]) -> Chart {
    let stacks: Vec<Vec<f64>> = used.iter().map(|core| core.cpi_stack(summary.chip.cycle_fs)).collect();
    let axis = Axis::linear("cycles per instruction", Quantity::Number);
    let bars = stacked(axis, names(used), Stack::of(summary).series(&stacks));
    Chart::new("cpi", "CPI stack by core", bars)
}

/// Misses over lookups of each core.
pub(super) fn miss_rates(used: &[&CoreFigures]) -> Group {
    let chart = |id: &str, title: &str, of: fn(&CoreFigures) -> (u64, u64)| {
        let rate = |core: &&CoreFigures| {
            let (misses, lookups) = of(core);
            misses as f64 / lookups.max(1) as f64
        };
        let series = BarSeries::new("", Colour::Series(0), used.iter().map(rate).collect::<Vec<_>>());
        let axis = Axis::linear("misses over accesses", Quantity::Share);
        Chart::new(id, format!("{title}: miss rate by core"), stacked(axis, names(used), vec![series]))
    };
    Group::beside([
        chart("l1-data", "L1 data", |core| (core.data_misses, core.data_looks)),
        chart("l1-instructions", "L1 instructions", |core| (core.fetch_misses, core.fetches)),
    ])
}

/// Lines that each core needed from elsewhere, per 1000 of its instructions.
pub(super) fn traffic(used: &[&CoreFigures]) -> Chart {
    let series = |name: &str, at: u8, of: fn(&CoreFigures) -> u64| {
        let rate = |core: &&CoreFigures| of(core) as f64 * 1e3 / core.instructions.max(1) as f64;
        BarSeries::new(name, Colour::Series(at), used.iter().map(rate).collect::<Vec<_>>())
    };
    let series = vec![
        series("DRAM", 0, |core| core.from_memory),
        series("cache-to-cache", 1, |core| core.from_remote),
        series("upgrades", 2, |core| core.upgrades),
    ];
    let axis = Axis::linear("lines per 1000 instructions", Quantity::Number);
    Chart::new("traffic", "Coherence traffic and DRAM", stacked(axis, names(used), series))
        .note("Lines from outside the core's own caches.")
}

fn colour(state: SimState) -> Colour {
    Colour::Series(state as u8)
}

/// Adds each thread as a row, each slice of time filled with what the thread did, and the longest waits.
pub(super) fn over_time(section: &mut Section, lanes: &SimLanes) {
    let chosen: Vec<&SimLane> = lanes.lanes.iter().take(MOST_LANES).collect();
    if chosen.is_empty() || lanes.end_fs == 0 {
        return;
    }
    let waits = longest_waits(lanes, &chosen);
    let row = |thread: u32| chosen.iter().position(|lane| lane.thread == thread);
    let arrow = |(span, by): &(&SimInterval, u32)| {
        let at = span.end_fs as f64 / 1e6;
        Some(Arrow { from: (at, row(*by)?), to: (at, row(span.thread?)?) })
    };
    // The last slice ends where the drawing does.
    let slices = (lanes.end_fs.div_ceil(lanes.slice_fs) as usize).min(SLICES);
    let there = |state: &SimState| {
        chosen.iter().any(|lane| lane.slices.iter().any(|slice| slice[*state as usize] > 0))
    };
    let states: Vec<SimState> = SimState::ALL.into_iter().filter(there).collect();
    let plot = Timeline {
        span: (0.0, slices as f64 * lanes.slice_fs as f64 / 1e6),
        lanes: chosen.iter().map(|lane| drawn(lane, &states, slices, lanes.slice_fs)).collect(),
        arrows: waits.iter().filter_map(arrow).collect(),
        keys: states.iter().map(|state| (state.name().to_owned(), colour(*state))).collect(),
        ..Timeline::default()
    };
    let more = lanes.lanes.len() - chosen.len() + lanes.threads_left_out.len();
    let more = match more {
        0 => String::new(),
        more => format!(" {} more threads are not shown.", Cell::Count(more as u64)),
    };
    let note = text!(
        "Each row is a thread, from start to end, in simulated time. Each column is {}, coloured by what the thread did. \
         Arrows go from waker to waiter for the longest waits.{more}",
        simulated(lanes.slice_fs)
    );
    section.push(Chart::new("threads-over-time", "Threads over time", plot).note(note));
    if !waits.is_empty() {
        section.push(Block::from(table(&waits)).only(Shown::HtmlOnly));
    }
}

fn drawn(lane: &SimLane, states: &[SimState], slices: usize, slice_fs: u64) -> Lane {
    let fill = |state: &SimState| {
        let fs = |at: usize| lane.slices.get(at).map_or(0, |slice| slice[*state as usize]);
        Fill {
            colour: colour(*state),
            shares: (0..slices).map(|at| fs(at) as f64 / slice_fs as f64).collect(),
        }
    };
    Lane {
        name: format!("thread {}", lane.thread),
        fills: states.iter().map(fill).collect(),
        ..Lane::default()
    }
}

/// The longest waits that another thread which is drawn ended, the longest first, each with that thread.
fn longest_waits<'a>(lanes: &'a SimLanes, chosen: &[&SimLane]) -> Vec<(&'a SimInterval, u32)> {
    let known = |thread: u32| chosen.iter().any(|lane| lane.thread == thread);
    let mut waits: Vec<(&SimInterval, u32)> = lanes
        .spans
        .iter()
        .filter_map(|span| Some((span, span.thread?, span.woken_by?)))
        .filter(|(_, thread, by)| thread != by && known(*thread) && known(*by))
        .map(|(span, _, by)| (span, by))
        .collect();
    waits.sort_by_key(|(span, _)| (std::cmp::Reverse(span.length_fs()), span.end_fs));
    waits.truncate(MOST_ARROWS);
    waits
}

fn table(waits: &[(&SimInterval, u32)]) -> Table {
    let mut table = Table::new(["waiter", "waited for", "waker", "woken after", "wait"])
        .title("Longest waits")
        .first_rows(FIRST_WAITS);
    for (span, by) in waits {
        table.row([
            span.thread.map(|thread| text!("thread {thread}")).into(),
            Cell::from(span.state.name()),
            text!("thread {by}").into(),
            simulated(span.end_fs),
            simulated(span.length_fs()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::fixture;

    #[test]
    fn of_too_many_stalls_the_smaller_ones_share_a_colour() {
        let mut summary = fixture::summary();
        let colours = |stack: &Stack| stack.parts.iter().map(|part| part.1).collect::<Vec<_>>();
        let few = Stack::of(&summary);
        assert_eq!(few.parts.last().map(|part| part.0), Some("synchronization"));
        summary.time.iter_mut().enumerate().for_each(|(at, part)| part.time_fs = 1_000 - at as u64);
        let many = Stack::of(&summary);
        assert_eq!(colours(&many), (0..8).map(Colour::Series).collect::<Vec<_>>());
        assert_eq!(many.parts[7].2, [7, 8, 9, 10]);
        let series = many.series(&[(0..PARTS.len()).map(|at| at as f64 + 1.0).collect()]);
        assert_eq!((series[7].name.as_str(), series[7].values[0]), ("smaller stalls", 38.0));
        // Base took no time on this core.
        assert_eq!(many.series(&[vec![0.0, 1.0]]).len(), 1);
    }

    #[test]
    fn waits_are_of_threads_that_are_drawn() {
        let lanes = fixture::lanes();
        let mut section = Section::new("threads", "Threads");
        over_time(&mut section, &lanes);
        let Some(Block::Chart(chart)) = section.blocks.first() else { panic!("no chart") };
        let quaver_view::Plot::Timeline(plot) = &chart.plot else { panic!("no timeline") };
        assert_eq!((plot.lanes.len(), plot.arrows.len()), (2, 2));
        assert_eq!(plot.span, (0.0, 1_000.0));
        let chosen: Vec<&SimLane> = lanes.lanes.iter().take(1).collect();
        assert_eq!(longest_waits(&lanes, &chosen), []);
    }
}
