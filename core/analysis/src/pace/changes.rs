//! Where a sender sends faster than its period: stretches with a period of their own.
//!
//! Of a stream that goes faster than the period by which it is judged, each packet but the last would be late. A slower one
//! skips slots, which makes nobody late. A sender or a receiver that catches up is fast too, but makes good for what came before: it
//! keeps its schedule, and what it sends then is late.

use super::{Arrivals, HORIZON_NS, Pace, learn};
use quaver_arrivals::distribution::median;
use std::ops::Range;

/// Packets whose distances are judged together.
const BLOCK: usize = 128;
/// Distances are taken over so many packets: several that arrive at once are no pace.
const LAG: usize = 32;
/// A block is fast where its packets follow each other within this part of the period.
const FAST: f64 = 0.9;

/// A part of a stream by its rows, in order of arrival.
pub(crate) struct Part {
    pub(crate) rows: Range<usize>,
    /// What was learned of it; none where it keeps to the stream's own period.
    pub(crate) own: Option<Pace>,
}

/// Cuts a stream where its sender becomes faster than `period_ns`, and where it goes back.
pub(crate) fn parts(
    arrivals: &Arrivals<'_>,
    period_ns: f64,
    tolerance_ns: &impl Fn(f64) -> i64,
) -> Vec<Part> {
    let rows = arrivals.seq.len();
    let mut parts = Vec::new();
    let mut from = 0;
    let mut block = 0;
    while block + BLOCK <= rows {
        let is_fast = |at: usize| {
            at + BLOCK <= rows && pace_of(arrivals, at..at + BLOCK).is_some_and(|own| own < FAST * period_ns)
        };
        let first = block;
        while is_fast(block) {
            block += BLOCK;
        }
        if block == first {
            block += BLOCK;
            continue;
        }
        let part = widened(arrivals, first..block, from, period_ns);
        let own = arrivals.part(part.clone(), |inside| learn(inside, None, tolerance_ns));
        let own = own.filter(|own| own.steady() && own.period_ns < FAST * period_ns);
        let Some(own) = own.filter(|own| !catches_up(arrivals, &part, own.period_ns, period_ns)) else {
            continue;
        };
        if from < part.start {
            parts.push(Part { rows: from..part.start, own: None });
        }
        from = part.end;
        block = block.max(part.end);
        parts.push(Part { rows: part, own: Some(own) });
    }
    if from < rows {
        parts.push(Part { rows: from..rows, own: None });
    }
    parts
}

/// Time per packet, by the median over [`LAG`] packets; none where too few were stamped.
fn pace_of(arrivals: &Arrivals<'_>, rows: Range<usize>) -> Option<f64> {
    let mut distances: Vec<i64> = (rows.start..rows.end - LAG)
        .filter_map(|row| {
            let numbers = arrivals.seq[row + LAG].checked_sub(arrivals.seq[row])?;
            let time = (arrivals.at)(row + LAG)?.saturating_sub((arrivals.at)(row)?);
            Some(time / i64::try_from(numbers).ok().filter(|numbers| *numbers > 0)?)
        })
        .collect();
    (distances.len() * 2 >= BLOCK - LAG).then(|| median(&mut distances)).flatten().map(|time| time as f64)
}

/// The rows of fast blocks with those beside them that follow as closely, but none before `from`.
fn widened(arrivals: &Arrivals<'_>, rows: Range<usize>, from: usize, period_ns: f64) -> Range<usize> {
    let own = pace_of(arrivals, rows.start..rows.start + BLOCK).unwrap_or(period_ns);
    let middle_ns = (own + period_ns) / 2.0;
    let follows = |row: usize| {
        let distance = || Some((arrivals.at)(row)?.saturating_sub((arrivals.at)(row - 1)?));
        distance().is_some_and(|time| (time as f64) < middle_ns)
    };
    let Range { mut start, mut end } = rows;
    while start > from && follows(start) {
        start -= 1;
    }
    // A block may have begun before the sender became faster, and the last one may end after it.
    let runs_on = |row: usize| (row + 1..row + 4).all(|next| next < end && follows(next));
    let first = (start..end).find(|row| runs_on(*row)).unwrap_or(start);
    if first > start {
        start = first;
    }
    while end < arrivals.seq.len() && follows(end) {
        end += 1;
    }
    while end > start + BLOCK / 2 && !follows(end - 1) {
        end -= 1;
    }
    start..end
}

/// Whether these rows only make good what was late before them: then the last of them is not earlier, by the period, than the
/// earliest of those that came within a second before.
fn catches_up(arrivals: &Arrivals<'_>, rows: &Range<usize>, own_ns: f64, period_ns: f64) -> bool {
    let residual = |row: usize| {
        let steps = arrivals.seq[row].wrapping_sub(arrivals.seq[rows.start]).cast_signed() as f64;
        Some((arrivals.at)(row)? as f64 - steps * period_ns)
    };
    let Some(begun_ns) = (arrivals.at)(rows.start) else { return false };
    let recent = |row: &usize| {
        let near = (arrivals.at)(*row).is_none_or(|at| begun_ns.saturating_sub(at) <= HORIZON_NS);
        near || rows.start - row <= BLOCK
    };
    let before = (0..rows.start).rev().take_while(recent).filter_map(residual).reduce(f64::min);
    let last = rows.clone().rev().find_map(residual);
    let gained_ns = (period_ns - own_ns) * rows.len() as f64;
    before.zip(last).is_some_and(|(before, last)| before - last < gained_ns / 2.0)
}
