//! Threads that have not run since recording began: no switch shows why they are off their CPU, so that is read from `/proc`.

use quaver_abi::record::{EventKind, EventRecord, OffCpu, Sleep, SleepObject};
use quaver_host::root::HostRoot;
use quaver_host::sockets::{ProcessIdentity, ThreadFacts};
use quaver_host::stat::Stat;
use std::collections::BTreeMap;

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
        // `running`, or -1 outside of a call, is no number of one.
        let call = root.text(&format!("{folder}/syscall"));
        let call = call.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Some(Self { state: stat.state, cpu: stat.cpu?, ran_ns, call })
    }

    /// Why it is off its CPU, and what it sleeps at.
    fn reason(&self) -> Option<(OffCpu, SleepObject)> {
        let awake = |reason| Some((reason, SleepObject::Unknown));
        match self.state {
            'T' => awake(OffCpu::Stopped),
            't' => awake(OffCpu::Traced),
            'D' => awake(OffCpu::Uninterruptible),
            'R' => awake(OffCpu::Preempted),
            'S' => match i64::from(self.call?) {
                libc::SYS_futex => Some((OffCpu::Blocked, SleepObject::Futex)),
                libc::SYS_nanosleep | libc::SYS_clock_nanosleep => {
                    Some((OffCpu::Blocked, SleepObject::Clock))
                }
                libc::SYS_wait4 | libc::SYS_waitid => Some((OffCpu::Blocked, SleepObject::Child)),
                _ => None,
            },
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
    fn one_that_ran_or_came_meanwhile_has_records_of_its_own() {
        let before = read(&[(1, 'T', 10, "running"), (3, 'D', 10, "running")]);
        let now = read(&[(1, 'T', 20, "running"), (3, 'S', 10, "running"), (9, 'T', 10, "running")]);
        assert_eq!(now.since(&before, 900), []);
    }
}
