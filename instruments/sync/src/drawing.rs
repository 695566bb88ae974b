//! Drawings that several documents have.

use quaver_sync_analysis::sync::{Bin, SyncClass};
use quaver_view::{Axis, Binned, Colour, Distribution, DistributionView, Quantity};

/// Colour of a class.
pub(crate) fn class_colour(class: SyncClass) -> Colour {
    Colour::Series(class as u8)
}

/// Late operations by size: name, colour and bins of each series. Bins that hold nothing may be missing.
pub(crate) fn distribution<'a>(
    series: impl Iterator<Item = (impl Into<String>, Colour, &'a [Bin])>,
) -> Distribution {
    let series: Vec<(String, Colour, &[Bin])> =
        series.map(|(name, colour, bins)| (name.into(), colour, bins)).collect();
    Distribution {
        x: sizes(series.iter().flat_map(|(_, _, bins)| *bins)),
        of: "operations".to_owned(),
        views: vec![DistributionView::Histogram, DistributionView::Tail, DistributionView::Cdf],
        series: series.into_iter().map(|(name, colour, bins)| binned(name, colour, bins)).collect(),
        guides: Vec::new(),
    }
}

/// The axis of sizes that all these bins lie on: between two powers of ten.
pub(crate) fn sizes<'a>(bins: impl Iterator<Item = &'a Bin>) -> Axis {
    let (mut least, mut most) = (f64::MAX, 1.0_f64);
    for bin in bins {
        least = least.min(bin.from_ns.max(1.0));
        most = most.max(bin.to_ns);
    }
    let least = least.min(most).log10().floor();
    let most = most.log10().ceil().max(least + 1.0);
    Axis::log("late by", Quantity::Duration).range(10_f64.powf(least), 10_f64.powf(most))
}

fn binned(name: String, colour: Colour, bins: &[Bin]) -> Binned {
    Binned::logarithmic(name, colour, bins.iter().map(|bin| (bin.from_ns, bin.to_ns, bin.count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_bins_are_empty_ones() {
        let bin = |from_ns, to_ns, count| Bin { from_ns, to_ns, count };
        let bins = [bin(0.0, 10.0, 2), bin(10.0, 100.0, 3), bin(1_000.0, 2_000.0, 1)];
        let drawn = distribution([("a", Colour::Muted, &bins[..])].into_iter());
        assert_eq!(drawn.x.range, Some((1.0, 10_000.0)));
        assert_eq!(drawn.series[0].edges[..], [1.0, 10.0, 100.0, 1_000.0, 2_000.0]);
        assert_eq!(drawn.series[0].counts[..], [2.0, 3.0, 0.0, 1.0]);
    }
}
