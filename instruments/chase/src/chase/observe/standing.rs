//! Threads that did nothing from before the run to its end: stopped, held, or runnable without ever getting a CPU. No switch
//! shows them, so their state is read from `/proc` at both ends.

use quaver_abi::record::{EventKind, EventRecord, OffCpu};
use quaver_host::root::HostRoot;
use quaver_host::sockets::{ProcessIdentity, ThreadFacts};
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

    /// An interval of 1 ns for each thread of which `later` shows that it never ran since: it ends at `start_ns`, with the
    /// reason for which the thread is off its CPU. One that was stopped or held at the start has one in any case.
    pub(super) fn records(&self, later: &Self, start_ns: u64) -> Vec<EventRecord> {
        let record = |(thread, before): (&u32, &Standing)| {
            let still = later
                .0
                .get(thread)
                .is_some_and(|after| (after.ran_ns, after.state) == (before.ran_ns, before.state));
            let reason = match before.state {
                'T' => OffCpu::Stopped,
                't' => OffCpu::Traced,
                'D' if still => OffCpu::Uninterruptible,
                'R' if still => OffCpu::Preempted,
                _ => return None,
            };
            Some(EventRecord {
                start_ns: start_ns.saturating_sub(1),
                end_ns: start_ns,
                id: *thread,
                cpu: before.cpu,
                kind: EventKind::Thread as u8,
                detail: reason as u8,
                aux: 0,
            })
        };
        self.0.iter().filter_map(record).collect()
    }
}

impl Standing {
    fn read(pid: u32, thread: u32, root: &HostRoot) -> Option<Self> {
        let folder = format!("proc/{pid}/task/{thread}");
        // The name before the third field is in brackets and may hold any character.
        let stat = root.text(&format!("{folder}/stat"))?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ran_ns = root.text(&format!("{folder}/schedstat"))?.split_whitespace().next()?.parse().ok()?;
        Some(Self { state: fields.first()?.chars().next()?, cpu: fields.get(39 - 3)?.parse().ok()?, ran_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process 77 with one thread for each state and time.
    fn read(threads: &[(u32, char, u64)]) -> Standings {
        let host = tempfile::tempdir().unwrap();
        for (id, state, ran_ns) in threads {
            let (folder, between) = (host.path().join(format!("proc/77/task/{id}")), "0 ".repeat(35));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stat"), format!("{id} (a ) b) {state} {between}3 0 0")).unwrap();
            std::fs::write(folder.join("schedstat"), format!("{ran_ns} 5 6")).unwrap();
        }
        let facts = |(id, ..): &(u32, char, u64)| ThreadFacts { id: *id, realtime: false, cpu: None };
        let threads: Vec<ThreadFacts> = threads.iter().map(facts).collect();
        Standings::read(&ProcessIdentity { pid: 77, started_ticks: 1 }, &threads, &HostRoot::at(host.path()))
    }

    #[test]
    fn a_thread_that_never_ran_is_off_its_cpu_for_what_its_state_tells() {
        let before = read(&[(1, 'T', 10), (2, 't', 10), (3, 'D', 10), (4, 'R', 10), (5, 'S', 10)]);
        let found: Vec<(u32, OffCpu)> =
            before.records(&before, 900).iter().map(|r| (r.id, OffCpu::from_raw(r.detail))).collect();
        let expected =
            [(1, OffCpu::Stopped), (2, OffCpu::Traced), (3, OffCpu::Uninterruptible), (4, OffCpu::Preempted)];
        assert_eq!(found, expected, "what a sleeping thread waits for is not known");
        let first = before.records(&before, 900)[0];
        assert_eq!((first.start_ns, first.end_ns, first.cpu), (899, 900, 3));
    }

    #[test]
    fn one_that_ran_meanwhile_has_records_of_its_own() {
        let before = read(&[(1, 'T', 10), (3, 'D', 10), (4, 'R', 10)]);
        let ran = read(&[(1, 'R', 20), (3, 'D', 20), (4, 'R', 20)]);
        let found = before.records(&ran, 900);
        assert_eq!(found.iter().map(|record| record.id).collect::<Vec<_>>(), [1], "it was stopped at first");
        assert_eq!(before.records(&Standings::default(), 900).len(), 1);
    }
}
