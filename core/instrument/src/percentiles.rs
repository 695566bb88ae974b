//! Percentiles as a table shows them.

use quaver_arrivals::distribution::Distribution;
use quaver_view::Cell;

/// Headings of [`percentiles`].
pub const PERCENTILES: [&str; 8] = ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max", "sd"];

/// Percentiles, maximum and standard deviation; missing where there are too few samples to tell.
pub fn percentiles(of: &Distribution) -> [Cell; 8] {
    let percentile = |ns, one_in| Cell::percentile(ns, of.count, one_in);
    [
        percentile(of.p50_ns, 1),
        percentile(of.p90_ns, 10),
        percentile(of.p99_ns, 100),
        percentile(of.p99_9_ns, 1_000),
        percentile(of.p99_99_ns, 10_000),
        percentile(of.p99_999_ns, 100_000),
        Cell::Duration(of.max_ns).only_if(of.count > 0),
        Cell::FineDuration(of.sd_ns).only_if(of.count > 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_the_sample_cannot_tell_is_missing() {
        let of =
            Distribution { count: 99_999, p99_99_ns: 74_100, p99_999_ns: 240_000, ..Distribution::default() };
        assert_eq!(percentiles(&of)[4..6], [Cell::Duration(74_100), Cell::Missing]);
        assert!(percentiles(&Distribution::default()).iter().all(|cell| *cell == Cell::Missing));
    }
}
