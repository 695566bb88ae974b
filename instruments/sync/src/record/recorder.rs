//! Where the recorder is.

use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// File name of the recorder.
pub const FILE_NAME: &str = "libquaver_preload.so";
/// Names the directory that it is looked for in first.
pub const DIRECTORY_VARIABLE: &str = "QUAVER_LIBDIR";
/// Tells the recorder where to write.
pub const OUTPUT_VARIABLE: &str = "QUAVER_SYNC_DIR";
/// Tells the dynamic loader what to load before all else.
pub const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// The recorder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// It is nowhere.
    #[error(
        "the recorder {FILE_NAME} is in none of {}; build it beside the program with `make build` in the source directory, \
         or name its directory in {DIRECTORY_VARIABLE}",
        .looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    Absent {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// The dynamic loader takes its path for several.
    #[error(
        "the recorder's path {} holds a blank or a colon, at which the dynamic loader would cut it; put it elsewhere and \
         name that directory in {DIRECTORY_VARIABLE}",
        .path.display()
    )]
    Unspeakable {
        /// Where it is.
        path: PathBuf,
    },
}

/// Where the recorder is for this program.
///
/// # Errors
/// It is not installed (status 3).
pub fn installed() -> anyhow::Result<PathBuf> {
    let executable = std::env::current_exe().context("finding this program's own path")?;
    let named = std::env::var_os(DIRECTORY_VARIABLE);
    find(named.as_deref(), &executable).map_err(|error| failure(ExitCode::Unsupported, error.to_string()))
}

/// Finds the recorder: in the directory that `QUAVER_LIBDIR` names (and then nowhere else), beside the executable, in
/// `../lib/quaver` of it.
///
/// # Errors
/// It is in none of these, or its path cannot be told to the dynamic loader.
pub fn find(named: Option<&OsStr>, executable: &Path) -> Result<PathBuf, RecorderError> {
    let mut directories = Vec::new();
    match named.filter(|name| !name.is_empty()) {
        Some(named) => directories.push(PathBuf::from(named)),
        None => {
            let beside = executable.parent().unwrap_or(Path::new("/"));
            directories.push(beside.to_owned());
            directories.extend(beside.parent().map(|above| above.join("lib/quaver")));
        }
    }
    let found = directories.iter().map(|directory| directory.join(FILE_NAME)).find(|path| path.is_file());
    let Some(found) = found else { return Err(RecorderError::Absent { looked: directories }) };
    // The program may change its directory before it starts another.
    let path = std::path::absolute(&found).unwrap_or(found);
    let cuts = |octet: &u8| matches!(octet, b':' | b' ' | b'\t' | b'\n');
    match path.as_os_str().as_encoded_bytes().iter().any(cuts) {
        true => Err(RecorderError::Unspeakable { path }),
        false => Ok(path),
    }
}

/// `LD_PRELOAD` with the recorder first and then what the user had there.
pub fn preload(recorder: &Path, existing: Option<&OsStr>) -> OsString {
    let mut value = recorder.as_os_str().to_owned();
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        value.push(":");
        value.push(existing);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorder_is_found_where_it_is_told_beside_the_program_or_in_its_library_directory() {
        let place = tempfile::tempdir().unwrap();
        let (bin, lib) = (place.path().join("bin"), place.path().join("lib/quaver"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        let executable = bin.join("quaver");
        let absent = find(None, &executable).unwrap_err().to_string();
        assert!(absent.contains("lib/quaver") && absent.contains("QUAVER_LIBDIR"), "{absent}");
        std::fs::write(lib.join(FILE_NAME), "").unwrap();
        assert_eq!(find(None, &executable).unwrap(), lib.join(FILE_NAME));
        std::fs::write(bin.join(FILE_NAME), "").unwrap();
        assert_eq!(find(None, &executable).unwrap(), bin.join(FILE_NAME));
        assert_eq!(find(Some(lib.as_os_str()), &executable).unwrap(), lib.join(FILE_NAME));
        assert!(
            find(Some(place.path().as_os_str()), &executable).is_err(),
            "who names a place means that place"
        );
    }

    #[test]
    fn a_path_that_the_loader_would_cut_is_refused() {
        let place = tempfile::Builder::new().prefix("two words").tempdir().unwrap();
        std::fs::write(place.path().join(FILE_NAME), "").unwrap();
        let refused = find(Some(place.path().as_os_str()), Path::new("/bin/quaver"));
        assert!(matches!(refused, Err(RecorderError::Unspeakable { .. })));
    }

    #[test]
    fn what_was_preloaded_before_still_is() {
        assert_eq!(preload(Path::new("/l/q.so"), None), "/l/q.so");
        assert_eq!(preload(Path::new("/l/q.so"), Some(OsStr::new(""))), "/l/q.so");
        assert_eq!(preload(Path::new("/l/q.so"), Some(OsStr::new("a.so b.so"))), "/l/q.so:a.so b.so");
    }
}
