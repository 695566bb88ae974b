//! Who else writes files of settings, while they are watched (fanotify(7)).

use crate::root::HostRoot;
use rustix::io::Errno;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A file system and a file in it.
type Identity = (u64, u64);

/// The head of an event, as the kernel writes it.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Event {
    length: u32,
    version: u8,
    reserved: u8,
    head_length: u16,
    mask: u64,
    file: RawFd,
    process: i32,
}

/// Files that are watched.
#[derive(Debug)]
pub struct Writers {
    events: OwnedFd,
    files: Vec<(Identity, PathBuf)>,
}

/// A process that wrote a watched file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The file.
    pub path: PathBuf,
    /// The process; 0 where it is of another namespace of processes.
    pub process: u32,
    /// Its command, where it still ran when it was asked for.
    pub command: Option<String>,
}

impl fmt::Display for Writer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.command, self.process) {
            (_, 0) => out.write_str("a process of another namespace"),
            (Some(command), process) => write!(out, "{command} (process {process})"),
            (None, process) => write!(out, "process {process} (which has ended)"),
        }
    }
}

impl Writers {
    /// Watches these files from now on. One that is not there is left out.
    ///
    /// # Errors
    /// The kernel has no fanotify, or does not let this process use it.
    pub fn watch(paths: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let flags = libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_CLASS_NOTIF;
        // SAFETY: the call takes numbers alone.
        let events = unsafe { libc::fanotify_init(flags, (libc::O_RDONLY | libc::O_CLOEXEC) as u32) };
        if events < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave us this descriptor, and nobody else has it.
        let mut watched = Self { events: unsafe { OwnedFd::from_raw_fd(events) }, files: Vec::new() };
        for path in paths {
            let Ok(facts) = std::fs::metadata(&path) else { continue };
            watched.mark(&path)?;
            watched.files.push(((facts.dev(), facts.ino()), path));
        }
        Ok(watched)
    }

    fn mark(&self, path: &std::path::Path) -> io::Result<()> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let group = self.events.as_raw_fd();
        // SAFETY: `name` ends with a zero and lives through the call, which keeps nothing of it.
        let marked = unsafe {
            libc::fanotify_mark(group, libc::FAN_MARK_ADD, libc::FAN_MODIFY, libc::AT_FDCWD, name.as_ptr())
        };
        if marked < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Other processes that wrote watched files since this was last asked.
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn others(&mut self) -> io::Result<Vec<Writer>> {
        let mut found = Vec::new();
        let mut buffer = [0; 4_096];
        loop {
            let length = match rustix::io::read(&self.events, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(found),
                Ok(length) => length,
                Err(error) => return Err(error.into()),
            };
            let mut rest = &buffer[..length];
            while let Ok((event, _)) = Event::read_from_prefix(rest) {
                rest = rest.get(event.length.max(size_of::<Event>() as u32) as usize..).unwrap_or_default();
                found.extend(self.writer(event).filter(|writer| !found.contains(writer)));
            }
        }
    }

    /// Who made an event; none where that was this process.
    fn writer(&self, event: Event) -> Option<Writer> {
        if event.file < 0 {
            return None;
        }
        // SAFETY: the kernel made this descriptor for us with the event, and nobody else has it.
        let facts = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(event.file) }).metadata().ok()?;
        let identity = (facts.dev(), facts.ino());
        let process = u32::try_from(event.process).unwrap_or(0);
        let (_, path) = self.files.iter().find(|(known, _)| *known == identity)?;
        let command = HostRoot::system().text(&format!("proc/{process}/comm"));
        let command = command.map(|text| text.trim().to_owned());
        (process != std::process::id()).then(|| Writer { path: path.clone(), process, command })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_testbed::privileged::privileged;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn another_process_is_named_and_this_one_is_not() {
        if !privileged("another_process_is_named_and_this_one_is_not") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        for path in [&one, &other] {
            std::fs::write(path, "0\n").unwrap();
        }
        let mut writers = Writers::watch([one.clone(), directory.path().join("none")]).unwrap();
        std::fs::write(&one, "1\n").unwrap();
        assert_eq!(writers.others().unwrap(), []);
        // It says that it wrote, and stays until its input ends.
        let script = "echo 2 > \"$0\"; echo 2 > \"$1\"; echo done; read wait";
        let mut writer = Command::new("sh")
            .args(["-c", script])
            .args([&one, &other])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(writer.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let process = writer.id();
        let expected = Writer { path: one.clone(), process, command: Some("sh".to_owned()) };
        assert_eq!(
            writers.others().unwrap(),
            std::slice::from_ref(&expected),
            "once, and nobody of what is not watched"
        );
        assert_eq!(expected.to_string(), format!("sh (process {process})"));
        assert_eq!(writers.others().unwrap(), []);
        drop(writer.stdin.take());
        writer.wait().unwrap();
        let gone = Writer { command: None, ..expected };
        assert_eq!(gone.to_string(), format!("process {process} (which has ended)"));
    }
}
