//! Waits that had not ended when the run did, with names.

use super::names::SyncNames;
use crate::record::runtimes;
use quaver_sync_analysis::sync::{Spending, UnendedWait};
use schemars::JsonSchema;
use serde::Serialize;

/// A wait that had not ended when the run did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnendedSummary {
    /// What it was for: the name of the object; of a join `the end of a thread`.
    pub name: String,
    /// The function that waited, with who called it where that is known.
    pub caller: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: UnendedWait,
}

impl UnendedSummary {
    pub(super) fn of(wait: UnendedWait, names: &SyncNames) -> Self {
        let runtime = names.runtime(wait.process, wait.address);
        // A semaphore keeps its posts, and a lock is free: only who waits for a condition may have missed it.
        let is_condition = wait.waits_for == Spending::Condition
            || runtime.is_some_and(|label| runtimes::is_condition(label));
        let name = match wait.waits_for {
            Spending::Join => "the end of a thread".to_owned(),
            _ => names.object(wait.process, wait.address),
        };
        Self {
            name,
            caller: names.calls(wait.process, wait.call_site),
            figures: UnendedWait { after_unheard: wait.after_unheard && is_condition, ..wait },
        }
    }
}
