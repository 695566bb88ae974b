//! Threads that have not run since recording began: no switch shows why they are off their CPU, so that is read from `/proc`.

use quaver_abi::record::{EventKind, EventRecord, OffCpu, Sleep, SleepObject};
use quaver_host::root::HostRoot;
use quaver_host::sockets::{ProcessIdentity, ThreadFacts};
use quaver_host::stat::Stat;
use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// What `/proc` tells of a thread at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    /// One letter, as in proc(5).
    state: char,
    /// CPU that it ran on last.
    cpu: u16,
    /// Time on CPUs so far, nanoseconds.
    ran_ns: u64,
    /// Number of the system call that it sleeps in.
    call: Option<u16>,
    /// What that call waits for.
    object: SleepObject,
}

/// The threads of a process at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standings(BTreeMap<u32, Standing>);

impl Standings {
    /// Reads those of `threads`. A thread that cannot be read is left out.
    pub(super) fn read(process: &ProcessIdentity, threads: &[ThreadFacts], root: &HostRoot) -> Self {
        let read = |thread: &ThreadFacts| Some((thread.id, Standing::read(process.pid, thread.id, root)?));
        Self(threads.iter().filter_map(read).collect())
    }

    /// For each thread that has not run since `before`, an interval of 1 ns that ends at `now_ns` with the reason for which the
    /// thread is off its CPU, and what it sleeps at. A thread of which that is not known has none.
    pub(super) fn since(&self, before: &Self, now_ns: u64) -> Vec<EventRecord> {
        let stood = self.0.iter().filter(|(thread, now)| before.0.get(thread) == Some(now));
        stood.flat_map(|(thread, now)| now.records(*thread, now_ns)).collect()
    }
}

impl Standing {
    fn read(pid: u32, thread: u32, root: &HostRoot) -> Option<Self> {
        let folder = format!("proc/{pid}/task/{thread}");
        let stat = Stat::read(root, &folder)?;
        let ran_ns = root.text(&format!("{folder}/schedstat"))?.split_whitespace().next()?.parse().ok()?;
        let text = root.text(&format!("{folder}/syscall")).unwrap_or_default();
        let mut words = text.split_whitespace();
        // `running`, or -1 outside of a call, is no number of one.
        let call = words.next().and_then(|word| word.parse::<u16>().ok());
        let argument = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let link = |number: u64| root.path(&format!("proc/{pid}/fd/{number}"));
        let at = || argument.map_or(SleepObject::Unknown, |number| behind(&link(number)));
        let object = call.map_or(SleepObject::Unknown, |call| awaited(i64::from(call), at));
        Some(Self { state: stat.state, cpu: stat.cpu?, ran_ns, call, object })
    }

    /// Why it is off its CPU, and what it sleeps at.
    fn reason(&self) -> Option<(OffCpu, SleepObject)> {
        match self.state {
            'T' => Some((OffCpu::Stopped, SleepObject::Unknown)),
            't' => Some((OffCpu::Traced, SleepObject::Unknown)),
            'D' => Some((OffCpu::Uninterruptible, self.object)),
            'R' => Some((OffCpu::Preempted, SleepObject::Unknown)),
            'S' if self.object != SleepObject::Unknown => Some((OffCpu::Blocked, self.object)),
            _ => None,
        }
    }

    fn records(&self, thread: u32, now_ns: u64) -> Vec<EventRecord> {
        let Some((reason, object)) = self.reason() else { return Vec::new() };
        let left = EventRecord {
            start_ns: now_ns.saturating_sub(1),
            end_ns: now_ns,
            id: thread,
            cpu: self.cpu,
            kind: EventKind::Thread as u8,
            detail: reason as u8,
            aux: 0,
        };
        let sleep = EventRecord {
            start_ns: now_ns,
            kind: EventKind::Sleep as u8,
            detail: object as u8,
            aux: Sleep { call: self.call, object: 0 }.to_aux(),
            ..left
        };
        let sleeps = object != SleepObject::Unknown;
        [Some(left), Some(sleep).filter(|_| sleeps)].into_iter().flatten().collect()
    }
}

/// What a system call waits for, where `at` says what its first argument is as a descriptor. A socket that is read may be the
/// stream's, so that is not known.
fn awaited(call: i64, at: impl FnOnce() -> SleepObject) -> SleepObject {
    match call {
        libc::SYS_futex => SleepObject::Futex,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => SleepObject::Clock,
        libc::SYS_wait4 | libc::SYS_waitid => SleepObject::Child,
        libc::SYS_flock | libc::SYS_fcntl | libc::SYS_semop | libc::SYS_msgrcv | libc::SYS_msgsnd => {
            SleepObject::Peer
        }
        libc::SYS_connect | libc::SYS_accept | libc::SYS_accept4 | libc::SYS_sendto | libc::SYS_sendmsg => {
            SleepObject::Socket
        }
        libc::SYS_write | libc::SYS_writev => at(),
        libc::SYS_read | libc::SYS_readv | libc::SYS_fsync | libc::SYS_fdatasync => match at() {
            SleepObject::Socket => SleepObject::Unknown,
            object => object,
        },
        _ => SleepObject::Unknown,
    }
}

/// What is behind a descriptor, a link in `/proc`.
fn behind(link: &Path) -> SleepObject {
    let target = std::fs::read_link(link).unwrap_or_default();
    match target.to_str() {
        Some("anon_inode:[timerfd]") => return SleepObject::TimerFd,
        Some(name) if name.starts_with("anon_inode:") => return SleepObject::Anonymous,
        _ => {}
    }
    let Ok(kind) = std::fs::metadata(link).map(|facts| facts.file_type()) else {
        return SleepObject::Unknown;
    };
    match kind {
        _ if kind.is_socket() => SleepObject::Socket,
        _ if kind.is_fifo() => SleepObject::Pipe,
        _ if kind.is_char_device() => SleepObject::Device,
        _ => SleepObject::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process 77 with one thread for each state, time and call.
    fn read(threads: &[(u32, char, u64, &str)]) -> Standings {
        let host = tempfile::tempdir().unwrap();
        for (id, state, ran_ns, call) in threads {
            let (folder, between) = (host.path().join(format!("proc/77/task/{id}")), "0 ".repeat(35));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stat"), format!("{id} (a ) b) {state} {between}3 0 0")).unwrap();
            std::fs::write(folder.join("schedstat"), format!("{ran_ns} 5 6")).unwrap();
            std::fs::write(folder.join("syscall"), call).unwrap();
        }
        let facts = |(id, ..): &(u32, char, u64, &str)| ThreadFacts { id: *id, realtime: false, cpu: None };
        let threads: Vec<ThreadFacts> = threads.iter().map(facts).collect();
        Standings::read(&ProcessIdentity { pid: 77, started_ticks: 1 }, &threads, &HostRoot::at(host.path()))
    }

    #[test]
    fn a_thread_that_never_ran_is_off_its_cpu_for_what_its_state_tells() {
        let (nanosleep, socket) =
            (format!("{} 0x1", libc::SYS_nanosleep), format!("{} 0x1", libc::SYS_socket));
        let standing = read(&[
            (1, 'T', 10, "running"),
            (2, 't', 10, "-1 0x7f 0x7f"),
            (3, 'D', 10, "0 0x3"),
            (4, 'R', 10, "running"),
            (5, 'S', 10, &nanosleep),
            (6, 'S', 10, &socket),
            (7, 'S', 10, "-1 0x7f"),
        ]);
        let records = standing.since(&standing, 900);
        let runs = records.iter().filter(|record| record.kind == EventKind::Thread as u8);
        let found: Vec<(u32, OffCpu)> = runs.map(|r| (r.id, OffCpu::from_raw(r.detail))).collect();
        let expected = [
            (1, OffCpu::Stopped),
            (2, OffCpu::Traced),
            (3, OffCpu::Uninterruptible),
            (4, OffCpu::Preempted),
            (5, OffCpu::Blocked),
        ];
        assert_eq!(found, expected, "what threads 6 and 7 wait for is not known");
        assert_eq!((records[0].start_ns, records[0].end_ns, records[0].cpu), (899, 900, 3));
        let sleep = records.last().unwrap();
        assert_eq!((sleep.kind, sleep.start_ns, sleep.id), (EventKind::Sleep as u8, 900, 5));
        assert_eq!(SleepObject::from_raw(sleep.detail), SleepObject::Clock);
        assert_eq!(Sleep::from_aux(sleep.aux).call, Some(libc::SYS_nanosleep as u16));
    }

    #[test]
    fn a_call_that_stands_waits_for_what_is_behind_its_descriptor() {
        let host = tempfile::tempdir().unwrap();
        let link = |number: u32, target: &Path| {
            let link = host.path().join(number.to_string());
            std::os::unix::fs::symlink(target, &link).unwrap();
            link
        };
        let file = host.path().join("file");
        std::fs::write(&file, "").unwrap();
        let listener = std::os::unix::net::UnixListener::bind(host.path().join("socket")).unwrap();
        let (pipe, _writer) = std::io::pipe().unwrap();
        let pipe = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        let object = |call, target: &Path, number| awaited(call, || behind(&link(number, target)));
        assert_eq!(object(libc::SYS_write, Path::new(&pipe), 1), SleepObject::Pipe);
        assert_eq!(object(libc::SYS_fsync, &file, 2), SleepObject::File);
        assert_eq!(object(libc::SYS_read, Path::new("/dev/null"), 3), SleepObject::Device);
        assert_eq!(object(libc::SYS_write, &host.path().join("socket"), 4), SleepObject::Socket);
        let read = object(libc::SYS_read, &host.path().join("socket"), 5);
        assert_eq!(read, SleepObject::Unknown, "it may be the stream's");
        let clock = object(libc::SYS_read, Path::new("anon_inode:[timerfd]"), 6);
        assert_eq!(clock, SleepObject::TimerFd);
        assert_eq!(object(libc::SYS_read, &host.path().join("gone"), 7), SleepObject::Unknown);
        drop(listener);
    }

    #[test]
    fn one_that_ran_or_came_meanwhile_has_records_of_its_own() {
        let before = read(&[(1, 'T', 10, "running"), (3, 'D', 10, "running")]);
        let now = read(&[(1, 'T', 20, "running"), (3, 'S', 10, "running"), (9, 'T', 10, "running")]);
        assert_eq!(now.since(&before, 900), []);
    }
}
