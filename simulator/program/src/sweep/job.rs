//! The job of Slurm that a sweep was submitted as.

use super::place::SweepDirectory;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A job that was submitted (`slurm/job.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// As Slurm names it.
    pub(super) id: String,
    /// Parts of the sweep.
    pub(super) parts: u32,
    /// Tasks of the array.
    pub(super) tasks: u32,
}

impl Job {
    pub(super) fn file(place: &SweepDirectory) -> PathBuf {
        place.path().join("slurm").join("job.json")
    }

    /// The last one of a sweep.
    pub(super) fn read(place: &SweepDirectory) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::file(place)).ok()?).ok()
    }
}
