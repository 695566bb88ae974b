//! Copies of runs that are there as a whole or not at all.

use crate::exit_code::{ExitCode, failure};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a copy is made before it takes its place; removed with all that is in it unless it was put there.
pub(crate) struct Stage {
    folder: PathBuf,
    copy: PathBuf,
}

impl Stage {
    /// Makes it beside `target`, where the copy of `run` is to lie.
    ///
    /// # Errors
    /// `target` exists, is part of the run, or cannot be made.
    pub(crate) fn beside(target: &Path, run: &Path) -> anyhow::Result<Self> {
        let unwritable = |why: &str| {
            failure(
                ExitCode::Output,
                format!("make {}: {why}; name another place with --output", target.display()),
            )
        };
        if target.symlink_metadata().is_ok() {
            return Err(unwritable("it exists"));
        }
        let name = target.file_name().ok_or_else(|| unwritable("it names no directory"))?;
        let parent =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if parent.canonicalize().is_ok_and(|parent| parent.starts_with(run)) {
            return Err(unwritable("it would be part of the run"));
        }
        let folder = parent.join(format!(".{}.part", name.to_string_lossy()));
        // A verb that was killed leaves its half of a copy here, and nothing else.
        if let Ok(mut left) = fs::read_dir(&folder) {
            if left.any(|entry| entry.is_ok_and(|entry| entry.file_name() != *name)) {
                return Err(unwritable(&format!("{} is in the way", folder.display())));
            }
            fs::remove_dir_all(&folder).map_err(|error| unwritable(&error.to_string()))?;
        }
        let copy = folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| unwritable(&error.to_string()))?;
        let stage = Self { folder, copy };
        fs::create_dir(&stage.copy).map_err(|error| unwritable(&error.to_string()))?;
        Ok(stage)
    }

    /// The copy, as long as it is made.
    pub(crate) fn copy(&self) -> &Path {
        &self.copy
    }

    /// Gives the copy its place.
    ///
    /// # Errors
    /// It cannot be moved there.
    pub(crate) fn put(self, target: &Path) -> anyhow::Result<()> {
        let moved = fs::rename(&self.copy, target);
        moved.map_err(|error| {
            let message = format!("make {}: {error}; name another place with --output", target.display());
            failure(ExitCode::Output, message)
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What matters was said already; the next copy of this run removes what is left.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
