//! What host and guest say to each other: a request that the guest finds in its file system, and a line of JSON for each answer.

use crate::cmd::study::asked::Asked;
use crate::cmd::study::cell::Measured;
use serde::{Deserialize, Serialize};

/// What a guest is to do.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::cmd) struct Request {
    /// Parameters of the interfaces' driver.
    pub(in crate::cmd) parameters: String,
    /// Words that have to be on the kernel's command line.
    pub(in crate::cmd) words: Vec<String>,
    /// What it is to do.
    pub(in crate::cmd) task: Task,
}

/// What a guest does.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cmd) enum Task {
    /// Measures cells of a study, in this order.
    Study {
        /// The study.
        asked: Asked,
        /// Block and arm, by its place in the plan, of each.
        cells: Vec<(u32, usize)>,
    },
}

/// What a guest says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cmd) enum Said {
    /// A cell was measured; its position is not known to the guest.
    Cell(Box<Measured>),
    /// It could not do what it was asked, and ends.
    Failed(String),
}
