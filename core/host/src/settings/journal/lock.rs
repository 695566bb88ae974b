//! One Quaver at a time changes settings.

use super::super::error::TuneError;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Held while settings are changed, and for as long as they have to be put back by this process. The kernel lets go of
/// it when the process ends, in whatever way.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing the file would not do: a child that another thread forks at this moment has it, too, until it runs its program.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`TuneError::Busy`] with the verb and process of who has it.
    pub(super) fn take(directory: &Path, verb: &str) -> Result<Self, TuneError> {
        let path = directory.join("tune.lock");
        let failed = |error| TuneError::at("opening", &path, error);
        let mut file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed)?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(TuneError::new(format!("locking {}", path.display()), error.into()));
            }
            let mut holder = String::new();
            // The holder may be between taking the lock and writing its name.
            let named = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder = if named { holder.trim().to_owned() } else { "another quaver".to_owned() };
            return Err(TuneError::Busy { holder });
        }
        let name = format!("quaver {verb} (process {})\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(name.as_bytes()))
            .map_err(failed)?;
        Ok(Self { file })
    }

    /// Who has the lock; none if nobody has it, or it cannot be asked. Takes no lock itself, not even for a moment, since
    /// that would be in somebody's way.
    pub(super) fn holder(directory: &Path) -> Option<String> {
        let path = directory.join("tune.lock");
        let place = format!(":{}", std::fs::metadata(&path).ok()?.ino());
        // proc_locks(5): number, FLOCK, ADVISORY, WRITE, process, device and file, range.
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        let ours = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(1) == Some(&"FLOCK") && words.get(5).is_some_and(|file| file.ends_with(&place))
        };
        locks.lines().any(ours).then_some(())?;
        Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
    }
}

/// Makes the directory of the journal and checks that nobody else can write a journal into it, for what it says is written
/// to the machine with our rights.
pub(super) fn prepare(directory: &Path) -> Result<(), TuneError> {
    let failed = |error| TuneError::at("making", directory, error);
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o755);
    builder.create(directory).map_err(failed)?;
    let about = std::fs::metadata(directory).map_err(failed)?;
    let owner = about.uid();
    let ours = owner == rustix::process::geteuid().as_raw() || owner == 0;
    if !ours || about.permissions().mode() & 0o022 != 0 {
        return Err(TuneError::BadJournal {
            path: directory.to_owned(),
            reason: "others may write here, so its journal cannot be trusted; chown it to the user who runs quaver and \
                     chmod go-w it"
                .to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_the_file_does_not_keep_the_lock() {
        let place = tempfile::tempdir().unwrap();
        let lock = Lock::take(place.path(), "tune apply").unwrap();
        // What a child has between fork and exec.
        let shared = lock.file.try_clone().unwrap();
        assert!(Lock::take(place.path(), "capture").is_err());
        drop(lock);
        Lock::take(place.path(), "capture").unwrap();
        drop(shared);
    }
}
