//! What randomised blocks say about remedies: which one helps, by how much, and which one does harm.
//!
//! A trial is a switchback experiment. A round holds one block with no remedy and one block with each remedy, in an order
//! drawn from a seed. The unit is the block and not the packet. A block's figures are compared with those of the bare block
//! of the same round, so that slow drift cancels.
//!
//! A trial weighs evidence by e-values, so that it may be looked at after each round and end early for a remedy. They are
//! valid for a remedy without effect even where another remedy's effect carries over into the next block: exchanging the two
//! names in a round then changes no figure. The e-BH procedure takes account of the number of remedies.
//!
//! What helped is proven by fresh rounds, whose number is fixed before: by the sign-flip test (R. A. Fisher, 1935).
#![forbid(unsafe_code)]

mod evidence;
mod guard;
mod judge;
mod plan;
#[cfg(test)]
mod simulated;

pub use evidence::Settled;
pub use guard::{BlockFigures, Burden, Guard, Harm, Waits, gross_harm};
pub use judge::{Block, Effect, TrialVerdict, harm_so_far, judge, judge_proof, settled};
pub use plan::{
    LEAST_PROOF_ROUNDS, TrialPlan, least_time, more_rounds, plan, plan_runs, smallest_detectable,
};
pub use quaver_study_analysis::block_order;

/// Level of every test here: the chance that a trial, or a proof, finds an effect where none is.
pub const LEVEL: f64 = 0.05;
