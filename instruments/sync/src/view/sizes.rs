//! How late late operations were: percentiles and a histogram a class (figures 7 and 8 of the paper).

use super::late::class_name;
use crate::drawing::{class_colour, distribution};
use quaver_sync_analysis::sync::{Bin, ClassFigures};
use quaver_view::{Cell, Chart, Column, Section, Shown, Table, text};

/// Widest histogram in a table, in signs.
const SIGNS: usize = 40;

/// The section; none where nothing was late.
pub(super) fn section(classes: &[ClassFigures]) -> Option<Section> {
    let range = Range::of(classes.iter().flat_map(|one| &one.bins))?;
    let note = text!(
        "by lateness; histogram from {} to {}, {} bins per decade",
        Cell::FineDuration(range.from_ns),
        Cell::FineDuration(range.to_ns),
        Cell::Figure(10.0 / range.bins_a_sign as f64)
    );
    let late = || classes.iter().filter(|one| one.late.count > 0);
    // The page has the drawing below.
    let histogram = Column { shown: Shown::TerminalOnly, ..Column::default() };
    let columns = ["class", "p50", "p90", "p99", "p99.9"].map(Column::from).into_iter().chain([histogram]);
    let mut table = Table::new(columns);
    for one in late() {
        let percentile = |ns: Option<u64>, one_in: u64| {
            Cell::from(ns.map(|ns| Cell::percentile(ns.cast_signed(), one.late.count, one_in)))
        };
        table.row([
            class_name(one.class),
            percentile(one.p50_ns, 1),
            percentile(one.p90_ns, 10),
            percentile(one.p99_ns, 100),
            percentile(one.p99_9_ns, 1_000),
            Cell::Heights(range.histogram(&one.bins)),
        ]);
    }
    if late().any(|one| one.late.count < 1_000) {
        table.note("-: too few late operations");
    }
    let series = late().map(|one| (one.class.name(), class_colour(one.class), &one.bins[..]));
    let chart = Chart::new("sizes-drawn", "Late operations by size", distribution(series));
    Some(Section::new("sizes", "Distribution").note(note).with(table).with(chart))
}

/// The bins that histograms have in common.
struct Range {
    from_ns: f64,
    to_ns: f64,
    bins_a_sign: usize,
    signs: usize,
}

/// Place of a bin: ten a decade, from 1 ns on.
fn place(bin: &Bin) -> usize {
    (bin.from_ns.log10() * 10.0).round() as usize
}

impl Range {
    fn of<'a>(bins: impl Iterator<Item = &'a Bin>) -> Option<Self> {
        let (mut from_ns, mut to_ns, mut first, mut last) = (f64::MAX, 0.0_f64, usize::MAX, 0);
        for bin in bins {
            (from_ns, to_ns) = (from_ns.min(bin.from_ns), to_ns.max(bin.to_ns));
            (first, last) = (first.min(place(bin)), last.max(place(bin)));
        }
        let bins = (last + 1).checked_sub(first)?;
        let bins_a_sign = bins.div_ceil(SIGNS);
        Some(Self { from_ns, to_ns, bins_a_sign, signs: bins.div_ceil(bins_a_sign) })
    }

    /// Operations of each sign.
    fn histogram(&self, bins: &[Bin]) -> Vec<u64> {
        let first = (self.from_ns.log10() * 10.0).round() as usize;
        let mut counts = vec![0; self.signs];
        for bin in bins {
            counts[(place(bin) - first) / self.bins_a_sign] += bin.count;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(place: i32, count: u64) -> Bin {
        let bound = |place: i32| 10f64.powf(f64::from(place) / 10.0);
        Bin { from_ns: bound(place), to_ns: bound(place + 1), count }
    }

    #[test]
    fn histograms_of_one_range_stand_below_each_other() {
        let (one, other) = ([bin(40, 8), bin(41, 1)], [bin(43, 5)]);
        let range = Range::of(one.iter().chain(&other)).unwrap();
        assert_eq!((range.bins_a_sign, range.signs), (1, 4));
        assert_eq!(range.histogram(&one), [8, 1, 0, 0]);
        assert_eq!(range.histogram(&other), [0, 0, 0, 5]);
        assert!((range.from_ns - 1e4).abs() < 1e-6);
    }

    #[test]
    fn a_wide_range_has_no_more_signs_than_there_is_room_for() {
        let wide = [bin(0, 1), bin(1, 1), bin(119, 4)];
        let range = Range::of(wide.iter()).unwrap();
        assert_eq!((range.bins_a_sign, range.signs), (3, 40));
        let drawn = range.histogram(&wide);
        assert_eq!((drawn.len(), drawn[0], drawn[39], drawn.iter().sum::<u64>()), (40, 2, 4, 6));
        assert!(Range::of([].iter()).is_none());
    }
}
