//! Files that a verb writes for other programs: whole, or not at all.

use crate::exit_code::{ExitCode, failure};
use anyhow::Context;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Says on standard error where the file is, unless it went to standard output.
pub fn say_written(target: &Path) {
    if target != Path::new("-") {
        crate::tell!("written: {}", target.display());
    }
}

/// Writes to `target`: `-` is standard output, a device or pipe is written as it is, and a file appears whole or
/// not at all.
pub fn deliver(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if target == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        return write(&mut out).and_then(|()| Ok(out.flush()?)).context("writing to standard output");
    }
    let into = |path: &Path| -> anyhow::Result<()> {
        let file = File::create(path).map_err(|error| unwritable(target, &error))?;
        let mut out = BufWriter::new(file);
        write(&mut out)
            .and_then(|()| Ok(out.flush()?))
            .with_context(|| format!("writing {}", target.display()))
    };
    if target.exists() && !target.is_file() {
        return into(target);
    }
    let mut beside = target.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written =
        into(&beside).and_then(|()| fs::rename(&beside, target).map_err(|error| unwritable(target, &error)));
    if written.is_err() {
        // Half a file is of no use; the error that matters is the one at hand.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn unwritable(target: &Path, error: &io::Error) -> anyhow::Error {
    let message = format!("writing {}: {error}; choose another place with -o", target.display());
    failure(ExitCode::Output, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_file_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("x.csv");
        let failed = deliver(&target, |out| {
            out.write_all(b"half")?;
            Err(failure(ExitCode::Output, "disc full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        deliver(&target, |out| Ok(out.write_all(b"whole")?)).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }
}
