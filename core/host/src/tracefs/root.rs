//! Where tracefs is, and files below it. All access goes through a directory descriptor, so that a private mount
//! needs no place in the file system and tests can use a plain folder.

use crate::trace::TraceError;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A directory, by descriptor.
#[derive(Debug)]
pub struct Dir(OwnedFd);

/// How tracefs was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It was mounted here already.
    Mounted(PathBuf),
    /// By a mount of our own that no one else sees.
    Privately,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens the folder at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, DIRECTORY, Mode::empty())?))
    }

    /// Opens a folder below this one.
    pub fn open_dir(&self, path: &str) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(&self.0, path, DIRECTORY, Mode::empty())?))
    }

    /// Opens a file below this one.
    pub fn open_file(&self, path: &str, flags: OFlags) -> io::Result<File> {
        Ok(File::from(rustix::fs::openat(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Whole text of a file below this one.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut file = self.open_file(path, OFlags::RDONLY)?;
        // Some files of tracefs (events/header_page) end after the first read, however little that took; the standard
        // library begins with a little.
        let mut octets = vec![0; 1 << 16];
        let mut length = 0;
        loop {
            match file.read(&mut octets[length..])? {
                0 => break,
                more => length += more,
            }
            if length == octets.len() {
                octets.resize(2 * length, 0);
            }
        }
        octets.truncate(length);
        String::from_utf8(octets).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Writes `text` to an existing file below this one, in one call.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.open_file(path, OFlags::WRONLY | OFlags::TRUNC)?.write_all(text.as_bytes())
    }

    /// Names in a folder below this one, sorted.
    pub fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let listed = rustix::fs::Dir::read_from(self.open_dir(path)?.as_fd())?;
        let mut names = Vec::new();
        for entry in listed {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether there is something at `path` below this folder.
    pub fn has(&self, path: &str) -> bool {
        rustix::fs::statat(&self.0, path, AtFlags::empty()).is_ok()
    }

    /// Makes a folder below this one.
    pub fn make_dir(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, path, Mode::RWXU)?)
    }

    /// Removes a folder below this one.
    pub fn remove_dir(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, path, AtFlags::REMOVEDIR)?)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens tracefs: where it is mounted, or through a detached mount that ends with the descriptor. Mounts nothing that
/// others could see.
pub fn open_tracefs() -> Result<(Dir, Reached), TraceError> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for path in mounted_at(&mounts) {
        if let Ok(dir) = Dir::open(&path).and_then(|dir| dir.read("trace_clock").map(|_| dir)) {
            return Ok((dir, Reached::Mounted(path)));
        }
    }
    let dir = mount_privately().map_err(|source| refused("mounting tracefs privately", source.into()))?;
    Ok((dir, Reached::Privately))
}

/// Where a table of mounts (`/proc/self/mounts`) has tracefs. Looking below debugfs instead would mount it there.
fn mounted_at(mounts: &str) -> Vec<PathBuf> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (path, kind) = (words.next()?, words.next()?);
            (kind == "tracefs").then(|| PathBuf::from(path.replace("\\040", " ")))
        })
        .collect()
}

fn mount_privately() -> Result<Dir, Errno> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    // The mount lives as long as this descriptor.
    Ok(Dir(rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?))
}

/// The error for a refusal, with what to do about it.
pub fn refused(operation: &str, source: io::Error) -> TraceError {
    let operation = operation.to_owned();
    match Errno::from_io_error(&source) {
        Some(Errno::PERM | Errno::ACCESS) => TraceError::NotPermitted {
            operation,
            remedy: "run as root (kernel lockdown forbids tracefs even then)".to_owned(),
        },
        Some(Errno::NODEV | Errno::NOENT) => TraceError::NotSupported {
            operation,
            remedy: "needs a kernel built with CONFIG_FTRACE and CONFIG_TRACING".to_owned(),
        },
        Some(Errno::NOSYS) => TraceError::NotSupported {
            operation,
            remedy: "mount it yourself: mount -t tracefs nodev /sys/kernel/tracing".to_owned(),
        },
        Some(Errno::NOMEM) => TraceError::NotSupported {
            operation,
            remedy: "ask for a smaller event buffer or free memory".to_owned(),
        },
        _ => TraceError::Os { operation, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_mounts_of_tracefs_only() {
        let mounts = "proc /proc proc rw 0 0\n\
            debugfs /sys/kernel/debug debugfs rw 0 0\n\
            tracefs /sys/kernel/tracing tracefs rw,nosuid 0 0\n\
            nodev /mnt/a\\040b tracefs rw 0 0\n";
        let expected = [PathBuf::from("/sys/kernel/tracing"), PathBuf::from("/mnt/a b")];
        assert_eq!(mounted_at(mounts), expected);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let text = |errno: Errno| refused("opening x", errno.into()).to_string();
        assert!(text(Errno::PERM).contains("run as root"));
        assert!(text(Errno::NODEV).contains("CONFIG_FTRACE"));
        assert!(text(Errno::NOSYS).contains("mount -t tracefs"));
        assert!(text(Errno::IO).starts_with("opening x: "));
    }
}
