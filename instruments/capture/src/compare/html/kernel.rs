//! Stamps in the kernel, on the page: tables, notes and what the plots are drawn from.

use super::Table;
use crate::compare::page::kernel::{
    ARM_WORDS, DIFFERENCE_COLUMNS, KERNEL_COLUMNS, LIMITS, checkpoint_words, difference_cells,
    overhead_cells, ratio_rows,
};
use crate::compare::page::{RATIO_COLUMNS, SERIES_COLUMNS, series_cells};
use quaver_capture_analysis::compare::{Density, KernelSummary, PatternSummary};
use quaver_page::html::page::micro;
use serde::Serialize;

/// Below the tables of user space.
#[derive(Serialize)]
pub(super) struct KernelPage {
    tables: Vec<Table>,
    notes: Vec<String>,
}

impl KernelPage {
    pub(super) fn of(pattern: &PatternSummary, kernel: &KernelSummary) -> Self {
        let tables = vec![
            Table::new(
                "In the kernel: overhead",
                "Time between two of the kernel's own tracepoints, the checkpoints' own taken off (the paper's tables I and \
                 II). Variances in ns²: those of stamp and checkpoints together, and the stamp's part of the trimmed one.",
                &KERNEL_COLUMNS,
                kernel.arms.iter().map(overhead_cells),
            ),
            Table::new(
                "In the kernel: ratios",
                "Kernel time over raw cycles, as far as a stock kernel has both.",
                &RATIO_COLUMNS,
                ratio_rows(pattern, kernel),
            ),
            Table::new(
                "In the kernel: memory and arrival",
                "Autocorrelation of the overheads, their rank correlation with the time since the packet before (between \
                 first checkpoints), and the trimmed deviation of these times.",
                &SERIES_COLUMNS,
                kernel.arms.iter().map(series_cells),
            ),
            Table::new(
                "In the kernel: costs",
                "Differences of trimmed means.",
                &DIFFERENCE_COLUMNS,
                kernel.differences.iter().map(difference_cells),
            ),
        ];
        Self { tables, notes: vec![ARM_WORDS.to_owned(), micro(checkpoint_words(kernel)), LIMITS.to_owned()] }
    }
}

/// An arm of the plots. Its density has bins of equal width, for overheads around nothing are negative as often as not.
#[derive(Serialize)]
pub(super) struct KernelArmData<'a> {
    name: &'a str,
    overhead: &'a Density,
    interarrival: Option<&'a Density>,
    autocorrelation: &'a [f64],
}

/// All arms, the checkpoints alone among them.
pub(super) fn arms(kernel: &KernelSummary) -> Vec<KernelArmData<'_>> {
    let data = kernel.densities.iter().map(|(name, overhead)| {
        let arm = kernel.arms.iter().find(|arm| arm.name == *name);
        KernelArmData {
            name,
            overhead,
            interarrival: arm.map(|arm| &arm.interarrival_density),
            autocorrelation: arm.map_or(&[][..], |arm| &arm.autocorrelation[..]),
        }
    });
    data.collect()
}
