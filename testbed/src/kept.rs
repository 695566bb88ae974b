//! Runs that are kept among the tests.

use std::fs;
use std::path::Path;

/// Copies a run with its folders to a place that is not there yet.
///
/// # Panics
/// Where that cannot be done.
pub fn copy(run: &Path, target: &Path) {
    fs::create_dir(target).expect("a new directory");
    for entry in fs::read_dir(run).expect("a run") {
        let path = entry.expect("listed").path();
        let there = target.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &there);
        } else {
            fs::copy(&path, &there).expect("a copy");
        }
    }
}
