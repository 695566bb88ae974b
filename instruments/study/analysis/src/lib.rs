//! Studies: what each source of lateness costs, by restoring one at a time against a baseline (Chasing, section IV).
//!
//! A study is a randomised complete block design: each block runs the baseline, every factor, and the baseline once more
//! under another name (the control, A/A), each once and in an order drawn from a seed. An effect is the mean over blocks of
//! the difference between an arm and the baseline *of the same block*, so that what drifts slowly cancels.
#![forbid(unsafe_code)]

mod carry_over;
mod clusters;
mod design;
mod effects;
mod figures;
mod model;
mod paper;
mod stamps;
mod summary;
#[cfg(test)]
mod tests;

pub use carry_over::CarryOver;
pub use clusters::{Cluster, CodePath, CodePaths, LINEAR_BIN_NS, StagePart, code_paths, linear_bins};
pub use design::{LEAST_BLOCKS, block_order, blocks_needed, boot_order};
pub use effects::{Contrast, Effect, Interaction, StudyVerdict};
pub use figures::{BINS_PER_DECADE, Figures, LayerFigures, Metric, StudyLayer};
pub use model::{Arm, Cell, Role, SourceClass, StudyFacts};
pub use paper::{
    EXPERIMENTS, FIGURE_9_NOTE, Generator, PAPER_GENERATOR_SD_NS, PAPER_SAMPLES, PaperArm, PaperBeside,
    PaperDrawing, PaperExperiment, PaperFigure, PaperReport, Possible, WAKE_UP_PERIOD_NS, drawing, generator,
    paper_report,
};
pub use quaver_analysis::intervals::{effect_size, holm, interval, sign_flip_p};
pub use stamps::{StampTable, deltas, path_flags};
pub use summary::{ArmSummary, ClassRanking, Discarded, SCHEMA, StudySummary, leading_pairs, summarize};
