//! How late late operations were, as lines of text: percentiles and a histogram a class (figures 7 and 8 of the paper).

use super::percentile;
use quaver_page::console::heading;
use quaver_page::table::{Align, Style, Table};
use quaver_page::units::{duration_f64, supports};
use quaver_sync_analysis::sync::{Bin, ClassFigures};

/// Widest histogram, in signs.
const SIGNS: usize = 40;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The table, where anything was late.
pub(super) fn write(out: &mut String, classes: &[ClassFigures], style: Style) {
    let Some(range) = Range::of(classes.iter().flat_map(|one| &one.bins)) else { return };
    let note = format!(
        "by how much; the histogram goes from {} to {}, {} a decade",
        duration_f64(range.from_ns),
        duration_f64(range.to_ns),
        match range.bins_a_sign {
            1 => "ten signs".to_owned(),
            bins => format!("{:.1} signs", 10.0 / bins as f64),
        }
    );
    heading(out, style, "Distribution", &note);
    let right = ["p50", "p90", "p99", "p99.9"].map(|name| (name, Align::Right));
    let mut columns = vec![("class", Align::Left)];
    columns.extend(right);
    columns.push(("", Align::Left));
    let mut table = Table::new(&columns);
    for one in classes.iter().filter(|one| one.late.count > 0) {
        table.row([
            format!("{:<2}  {}", one.class.short(), one.class.name()),
            percentile(one, 1, one.p50_ns),
            percentile(one, 10, one.p90_ns),
            percentile(one, 100, one.p99_ns),
            percentile(one, 1_000, one.p99_9_ns),
            range.histogram(&one.bins),
        ]);
    }
    let few = classes.iter().any(|one| one.late.count > 0 && !supports(one.late.count, 1_000));
    out.push_str(&table.render(style));
    if few {
        out.push_str(&format!("  {}\n", style.dim("- of too few late operations to say it")));
    }
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

    /// A sign as high as its part of the highest; blank where there is nothing.
    fn histogram(&self, bins: &[Bin]) -> String {
        let first = (self.from_ns.log10() * 10.0).round() as usize;
        let mut counts = vec![0; self.signs];
        for bin in bins {
            counts[(place(bin) - first) / self.bins_a_sign] += bin.count;
        }
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let sign = |count: &u64| match *count {
            0 => ' ',
            count => HEIGHTS[(count as usize * HEIGHTS.len()).div_ceil(most as usize) - 1],
        };
        counts.iter().map(sign).collect()
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
        assert_eq!(range.histogram(&one), "█▁  ");
        assert_eq!(range.histogram(&other), "   █");
        assert!((range.from_ns - 1e4).abs() < 1e-6);
    }

    #[test]
    fn a_wide_range_has_no_more_signs_than_there_is_room_for() {
        let wide = [bin(0, 1), bin(1, 1), bin(119, 4)];
        let range = Range::of(wide.iter()).unwrap();
        assert_eq!((range.bins_a_sign, range.signs), (3, 40));
        let drawn = range.histogram(&wide);
        assert_eq!(
            (drawn.chars().count(), drawn.chars().next(), drawn.chars().last()),
            (40, Some('▄'), Some('█'))
        );
        assert!(Range::of([].iter()).is_none());
    }
}
