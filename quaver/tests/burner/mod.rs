//! A disturber of a CPU, for tests that look for its name.

use quaver_testbed::phase::now_ns;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The last CPU that this process may use.
pub(crate) fn last_cpu() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).rfind(|cpu| allowed.is_set(*cpu)).unwrap()
}

/// Keeps the calling thread on one CPU.
pub(crate) fn bind_to(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
}

/// Puts the calling thread under SCHED_FIFO, where that is permitted.
pub(crate) fn real_time(priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the call reads the parameters, which live through it, and concerns the calling thread alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// When a burner had its CPU: CLOCK_MONOTONIC in nanoseconds, in order.
pub(crate) type Bursts = Vec<Range<i64>>;

/// A thread of high priority, called `burner`, that takes the last CPU for 3 of each 20 ms.
pub(crate) struct Burner(Arc<AtomicBool>, Option<JoinHandle<Bursts>>);

impl Burner {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let burn = move || {
            bind_to(last_cpu());
            assert!(real_time(50));
            let mut bursts = Bursts::new();
            while !stopping.load(Ordering::Relaxed) {
                burst(3_000_000, || now_ns() as i64, &mut bursts);
                std::thread::sleep(Duration::from_millis(17));
            }
            bursts
        };
        let thread = std::thread::Builder::new().name("burner".into()).spawn(burn).unwrap();
        Self(stop, Some(thread))
    }

    /// Ends it.
    pub(crate) fn stop(mut self) -> Bursts {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().unwrap().join().unwrap()
    }
}

/// Takes the CPU for a time, and notes when it had it: a host, an interrupt or the scheduler's limit on real-time threads may
/// take it away in between, which lasts longer than from one reading of the clock to the next.
fn burst(length_ns: i64, mut now_ns: impl FnMut() -> i64, bursts: &mut Bursts) {
    const AWAY_NS: i64 = 20_000;
    let mut last_ns = now_ns();
    let (end_ns, mut start_ns) = (last_ns + length_ns, last_ns);
    while last_ns < end_ns {
        let read_ns = now_ns();
        if read_ns - last_ns > AWAY_NS {
            bursts.push(start_ns..last_ns);
            start_ns = read_ns;
        }
        last_ns = read_ns;
    }
    bursts.push(start_ns..last_ns);
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

/// Late time during bursts, by whose it is said to be.
#[derive(Debug, Default, PartialEq)]
struct Blame {
    /// The burner's.
    right_ns: i64,
    /// That of each other name.
    wrong_ns: std::collections::BTreeMap<String, i64>,
    /// Without a cause.
    unexplained_ns: i64,
}

impl Blame {
    /// At least 80 % is the burner's and at most 10 % one other name's. Less than three bursts of late time proves nothing.
    fn holds(&self) -> bool {
        let wrong_ns = self.wrong_ns.values().copied().max().unwrap_or(0);
        let all_ns = self.right_ns + self.wrong_ns.values().sum::<i64>() + self.unexplained_ns;
        all_ns >= 9_000_000 && self.right_ns * 10 >= all_ns * 8 && wrong_ns * 10 <= all_ns
    }
}

/// From what `quaver export --late-csv` writes.
fn blame(csv: &str, bursts: &[Range<i64>]) -> Blame {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|found| *found == name).unwrap();
    let (start, end, source, name) = (column("start_ns"), column("end_ns"), column("source"), column("name"));
    let mut blame = Blame::default();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let (start_ns, end_ns): (i64, i64) = (cells[start].parse().unwrap(), cells[end].parse().unwrap());
        let within = |burst: &Range<i64>| (end_ns.min(burst.end) - start_ns.max(burst.start)).max(0);
        let late_ns: i64 = bursts.iter().map(within).sum();
        match (cells[source], cells[name]) {
            ("rt-thread", name) if name.contains("burner") => blame.right_ns += late_ns,
            ("", _) => blame.unexplained_ns += late_ns,
            (source, name) => *blame.wrong_ns.entry(format!("{source} {name}")).or_default() += late_ns,
        }
    }
    blame
}

/// The time in which the burner had the CPU and packets were late is the burner's. The rest of the run is this machine's own,
/// whatever it was. `runs` holds the run.
#[track_caller]
pub(crate) fn assert_blamed(quaver: &str, runs: &Path, bursts: &[Range<i64>]) {
    let run = std::fs::read_dir(runs)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .unwrap();
    let csv = Command::new(quaver).arg("export").arg(run).args(["--late-csv", "-o", "-"]).output().unwrap();
    assert!(csv.status.success(), "{}", String::from_utf8_lossy(&csv.stderr));
    let found = blame(std::str::from_utf8(&csv.stdout).unwrap(), bursts);
    assert!(found.holds(), "{found:?}");
}

#[test]
fn a_burst_is_the_time_in_which_the_thread_had_its_cpu() {
    let mut readings = [0, 10_000, 30_000, 50_001, 60_000, 900_000, 1_000_000, 1_000_001].into_iter();
    let mut bursts = Bursts::new();
    burst(1_000_000, || readings.next().unwrap(), &mut bursts);
    assert_eq!(bursts, [0..30_000, 50_001..60_000, 900_000..900_000, 1_000_000..1_000_000]);
}

#[test]
fn a_fifth_that_is_not_named_or_a_tenth_that_is_named_wrong_is_too_much() {
    let holds = |right_ns, wrong: &[i64], unexplained_ns| {
        let wrong_ns = wrong.iter().enumerate().map(|(at, ns)| (at.to_string(), *ns)).collect();
        Blame { right_ns, wrong_ns, unexplained_ns }.holds()
    };
    assert!(holds(80_000_000, &[10_000_000, 10_000_000], 0) && holds(80_000_000, &[], 20_000_000));
    assert!(!holds(79_999_999, &[10_000_000, 10_000_000], 1) && !holds(89_000_000, &[11_000_000], 0));
    assert!(holds(9_000_000, &[], 0) && !holds(8_999_999, &[], 0));
}

#[test]
fn late_time_during_bursts_is_divided_by_name() {
    let csv = "seq,start_ns,end_ns,source,name,place\n\
        1,0,100,tick,tick,receiver\n\
        2,90,150,rt-thread,real-time thread burner/7,receiver\n\
        2,150,260,rt-thread,real-time thread other/8,receiver\n\
        3,250,400,,,receiver\n";
    let found = blame(csv, &[100..200, 240..300]);
    let wrong_ns =
        [("rt-thread real-time thread other/8".to_owned(), 70), ("tick tick".to_owned(), 0)].into();
    assert_eq!(found, Blame { right_ns: 50, wrong_ns, unexplained_ns: 50 });
}
