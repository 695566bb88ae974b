//! Cells on disk: each is a file of its own, which is there as a whole or not at all.

use super::cell::Measured;
use crate::stamps::write_study_stamps;
use anyhow::Context;
use quaver_analysis::summary::ProbeCost;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_store::run::RunDir;
use quaver_study_analysis::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

/// Directory of the cells of a run.
pub(super) fn directory(run: &RunDir) -> PathBuf {
    run.path().join("cells")
}

fn file(run: &RunDir, block: u32, position: u32) -> PathBuf {
    directory(run).join(format!("b{block:04}-p{position:03}.json"))
}

/// The cell, if it was measured.
pub(super) fn read(run: &RunDir, block: u32, position: u32) -> anyhow::Result<Option<Cell>> {
    let path = file(run, block, position);
    match fs::read(&path) {
        Ok(text) => {
            let message = || format!("{} is no cell; remove it, and it is measured again", path.display());
            let cell = serde_json::from_slice(&text).map_err(|_| failure(ExitCode::BadInput, message()))?;
            Ok(Some(cell))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Puts a cell on disk: first its stamps, if they are kept, then its figures, with which it counts as measured.
pub(super) fn keep(run: &RunDir, measured: &Measured, with_stamps: bool) -> anyhow::Result<()> {
    let cell = &measured.cell;
    let path = file(run, cell.block, cell.position);
    if with_stamps {
        write_study_stamps(&path.with_extension("parquet"), &measured.stamps)?;
    }
    let beside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut out = File::create(&beside)?;
        out.write_all(&serde_json::to_vec(cell)?)?;
        out.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(directory(run))?.sync_all()
    };
    write().with_context(|| format!("keeping {}", path.display()))
}

/// File of what tracing costs.
pub(super) const COST: &str = "cost.json";
/// File of the dummy program's stamps.
pub(super) const DUMMY: &str = "dummy.parquet";
/// File of the stream by which the generator was judged.
pub(super) const GENERATOR: &str = "generator.parquet";
/// Files of packets far apart: to a core that idles between them, and to one that is kept awake.
pub(super) const WAKE_UP: [&str; 2] = ["wake-up-idle.parquet", "wake-up-awake.parquet"];

/// Where a file besides the cells lies. (Not in their directory, which holds cells only.)
pub(super) fn beside(run: &RunDir, name: &str) -> PathBuf {
    run.path().join(name)
}

/// Keeps what tracing costs; also that it could not be told, so that nobody tries again.
pub(super) fn keep_cost(run: &RunDir, cost: Option<&ProbeCost>) -> anyhow::Result<()> {
    let path = beside(run, COST);
    fs::write(&path, serde_json::to_vec(&cost)?).with_context(|| format!("keeping {}", path.display()))
}

/// Keeps other processes out of the run while the file lives.
pub(super) fn lock(run: &RunDir) -> anyhow::Result<File> {
    fs::create_dir_all(directory(run)).with_context(|| format!("making {}", directory(run).display()))?;
    let file = File::open(directory(run)).context("opening the directory of cells")?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("{} is being measured by another process", run.path().display()))?;
    Ok(file)
}
