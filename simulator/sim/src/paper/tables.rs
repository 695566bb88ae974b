//! Tables 4 to 8.

use quaver_sync_analysis::bench::paper::{PROGRAMS, PaperProgram, Suite};
use quaver_sync_analysis::bench::pearson;

/// Section 6.1.1: means of tables 4 (without lu and radix) and 5, percent.
pub const SHARES_PERCENT: [f64; 2] = [93.0, 91.0];
/// Section 6.2: mean slow-down with the unified cache, Splash2 and Parsec, ten runs each, percent.
pub const UNIFIED_PERCENT: [f64; 2] = [14.5, 6.4];
/// Section 6.2: the same with DVFS and OS cache.
pub const OVERHEAD_WITH_BOTH_PERCENT: [f64; 2] = [1.0, -1.5];

/// Correlation of the slow-down with columns 1, 2 and 3 of tables 6 and 7. None of fewer than three rows.
pub type Correlations = [Option<f64>; 3];

/// Column 3 over the product of columns 1 and 2, less 1.
pub fn product_error(row: &PaperProgram) -> f64 {
    row.late_us_per_ms / (row.events_per_ms * row.mean_us) - 1.0
}

/// Correlations of the slow-down of these rows with their other columns.
pub fn correlations<'a>(rows: impl Iterator<Item = &'a PaperProgram> + Clone) -> Correlations {
    let columns: [fn(&PaperProgram) -> f64; 3] =
        [|row| row.events_per_ms, |row| row.mean_us, |row| row.late_us_per_ms];
    columns.map(|column| {
        let pairs: Vec<(f64, f64)> = rows.clone().map(|row| (column(row), row.slowdown_percent)).collect();
        pearson(&pairs)
    })
}

fn of(suite: Suite) -> impl Iterator<Item = &'static PaperProgram> + Clone {
    PROGRAMS.iter().filter(move |row| row.suite == suite)
}

/// Table 8 from tables 6 and 7: Splash2 without lu and radix, then Parsec.
pub fn table_8() -> [Correlations; 2] {
    Suite::ALL.map(|suite| correlations(of(suite).filter(|row| !row.left_out)))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Means of table 4 (without lu and radix) or 5, percent.
pub fn sync_share_percent(suite: Suite) -> f64 {
    mean(of(suite).filter(|row| !row.left_out).map(|row| row.sync_share_percent))
}

/// Mean of column 4 of table 6 or 7, percent.
pub fn mean_slowdown_percent(suite: Suite) -> f64 {
    mean(of(suite).map(|row| row.slowdown_percent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_sync_analysis::bench::paper::CORRELATIONS;

    #[test]
    fn table_8_follows_from_tables_6_and_7() {
        for (ours, printed) in table_8().into_iter().zip(CORRELATIONS) {
            for (ours, printed) in ours.into_iter().zip(printed) {
                assert!((ours.unwrap() - printed).abs() <= 0.01, "{ours:?} {printed}");
            }
        }
    }

    #[test]
    fn the_third_column_is_the_product_within_4_percent() {
        for row in &PROGRAMS {
            assert!(product_error(row).abs() < 0.04, "{}: {}", row.paper, product_error(row));
        }
    }

    #[test]
    fn the_means_of_tables_4_and_5_are_as_printed_but_not_those_of_the_runs() {
        let shares = Suite::ALL.map(|suite| sync_share_percent(suite).round());
        assert_eq!(shares, SHARES_PERCENT);
        // Tables 6 and 7 are one run each; 14.5 and 6.4 are means of ten.
        let [splash, parsec] = Suite::ALL.map(mean_slowdown_percent);
        assert!((splash - 15.299).abs() < 0.001 && (parsec - 6.546).abs() < 0.001, "{splash} {parsec}");
    }
}
