//! Threads that are watched all the time. Their waits for a CPU are counted as the kernel counts them, and a group that sleeps has
//! none. A long wait becomes an incident that names the thread that ran.

use quaver_store::rows::read_rows;
use quaver_store::run::RunDir;
use quaver_testbed::inject::{schedule, thread};
use quaver_testbed::phase;
use quaver_testbed::privileged::privileged;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Set in the environment of the waiting program: directories of control groups that it moves into, with `:` between them.
const WAITER: &str = "QUAVER_TEST_WATCHED_WAITER";
const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
/// Far above what a shared machine makes a thread wait by itself.
const LIMIT: &str = "150ms";
const BURST: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(30);
const MS: u64 = 1_000_000;

/// Time that all threads of a process have waited for a CPU, and how often, as the kernel counts (`proc_pid_schedstat(5)`).
fn waited(process: u32) -> (u64, u64) {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let waits = tasks.map(|task| of_thread(&task.unwrap().path().display().to_string()));
    waits.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

fn of_thread(directory: &str) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("{directory}/schedstat")).unwrap();
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().unwrap());
    (numbers.nth(1).unwrap(), numbers.next().unwrap())
}

/// The waiting program: on CPU 0, in its groups. What it had waited before it was there, when it was, and at the end.
#[test]
fn a_waiting_program() {
    let Ok(groups) = std::env::var(WAITER) else { return };
    let own = std::process::id();
    let before = waited(own);
    for group in groups.split(':') {
        std::fs::write(Path::new(group).join("cgroup.procs"), own.to_string()).unwrap();
    }
    schedule::bind(0, 0).unwrap();
    // Of a thread's first wait in a group only the part on the last CPU is counted: the main thread of this program is free to
    // move, and does not count for the least.
    let there = of_thread("/proc/thread-self");
    println!("\nthere {} {} {} {}", before.0, before.1, there.0, there.1);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        thread::burn_until(phase::now_ns() + 2 * MS);
        std::thread::sleep(Duration::from_millis(3));
    }
    let end = of_thread("/proc/thread-self");
    println!("end {} {}", end.0, end.1);
    // Nobody writes.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Set in the environment of the locking program.
const LOCKER: &str = "QUAVER_TEST_WATCHED_LOCKER";

/// The locking program: for each line that it reads, a thread on CPU 0 holds a lock for 300 ms or longer while another waits for it. It
/// says `held` as soon as the other sleeps. Then it says how long the wait was: at least from there until the lock is let go, at most
/// from before the call until after it.
#[test]
fn a_locking_program() {
    if std::env::var_os(LOCKER).is_none() {
        return;
    }
    println!();
    for line in std::io::stdin().lines() {
        line.unwrap();
        let lock = Arc::new(Mutex::new(()));
        let (locked, is_locked) = channel();
        let (begins, is_begun) = channel();
        let taken = Arc::clone(&lock);
        let holder = std::thread::Builder::new().name("holder".to_owned()).spawn(move || {
            schedule::bind(0, 0).unwrap();
            // Nothing else on a shared machine takes the CPU from it for long.
            schedule::fifo(0, 50).unwrap();
            let held = taken.lock().unwrap();
            locked.send(()).unwrap();
            let waiter: String = is_begun.recv().unwrap();
            let state = || std::fs::read_to_string(format!("/proc/self/task/{waiter}/stat")).unwrap();
            while !state().rsplit(')').next().unwrap().starts_with(" S") {
                std::thread::sleep(Duration::from_millis(1));
            }
            let asleep_ns = phase::now_ns();
            println!("held");
            thread::burn_until(asleep_ns + 300 * MS);
            let let_go_ns = phase::now_ns();
            drop(held);
            let_go_ns - asleep_ns
        });
        is_locked.recv().unwrap();
        begins.send(rustix::thread::gettid().as_raw_nonzero().to_string()).unwrap();
        let start_ns = phase::now_ns();
        drop(lock.lock().unwrap());
        let most_ns = phase::now_ns() - start_ns;
        println!("waited {} {most_ns}", holder.unwrap().join().unwrap());
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control group, with one below it.
struct Group(PathBuf);

impl Group {
    fn make(hierarchy: &str, name: &str) -> Self {
        let group = Self(Path::new(hierarchy).join(format!("quaver-waits-{}-{name}", std::process::id())));
        std::fs::create_dir_all(group.below()).unwrap();
        group
    }

    fn below(&self) -> PathBuf {
        self.0.join("below")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in [self.below(), self.0.clone()] {
            // Its processes were ended; the kernel lets go of them a moment later.
            let start = Instant::now();
            while std::fs::remove_dir(&directory).is_err() && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(!directory.exists() || std::thread::panicking(), "{} is left", directory.display());
        }
    }
}

/// Hierarchies by which threads can be told apart: that of the controller cpu, and version 2.
fn hierarchies() -> Vec<&'static str> {
    let all = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let found: Vec<_> =
        all.into_iter().filter(|path| Path::new(path).join("cgroup.procs").exists()).collect();
    assert!(!found.is_empty(), "no control groups are mounted below /sys/fs/cgroup");
    found
}

/// One test at a time: the bursts of one would take the CPU from the threads of another.
static ON_CPU_0: Mutex<()> = Mutex::new(());

fn alone_on_cpu_0() -> MutexGuard<'static, ()> {
    ON_CPU_0.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Watch {
    place: tempfile::TempDir,
    daemon: Ended,
}

impl Watch {
    fn start(tables: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().display();
        let settings = format!(
            "directory = '{at}'\nsocket = '{at}/watch.sock'\n[window]\nbefore = '1s'\nafter = '600ms'\n{tables}"
        );
        std::fs::write(place.path().join("watch.toml"), settings).unwrap();
        let log = std::fs::File::create(place.path().join("log")).unwrap();
        let mut daemon = Command::new(QUAVER);
        daemon.args(["watch", "--config"]).arg(place.path().join("watch.toml")).stdin(Stdio::null());
        let daemon = daemon.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Self { place, daemon: Ended(daemon) }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.place.path().join("log")).unwrap()
    }

    fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "{what} did not come:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The sum of all samples of a metric with this label.
    fn metric(&self, name: &str, threads: &str) -> f64 {
        let socket = self.place.path().join("watch.sock");
        let output =
            Command::new(QUAVER).args(["watch", "metrics", "--socket"]).arg(socket).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let beginning = format!("{name}{{threads=\"{threads}\"");
        let samples = text.lines().filter(|line| line.starts_with(&beginning));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Count and time of a table's waits, in nanoseconds.
    fn waits(&self, threads: &str) -> (u64, u64) {
        let seconds = self.metric("quaver_watch_wait_seconds_sum", threads);
        (self.metric("quaver_watch_wait_seconds_count", threads) as u64, (seconds * 1e9).round() as u64)
    }

    fn incidents(&self) -> Vec<RunDir> {
        let entries = std::fs::read_dir(self.place.path().join("incidents")).unwrap();
        entries.map(|entry| RunDir::open(&entry.unwrap().path()).unwrap()).collect()
    }
}

/// What the host took from CPU 0 since boot, in nanoseconds: the eighth number of its line, in hundredths of a second.
fn stolen_ns() -> i64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().find(|line| line.starts_with("cpu0 ")).unwrap();
    line.split_whitespace().nth(8).unwrap().parse::<i64>().unwrap() * 10_000_000
}

/// The first cause of a wait has nearly all of it but what the host took, and the parts are the whole.
fn mostly_burst(summary: &serde_json::Value, host_took_ns: i64) {
    let causes = || summary["causes"].as_array().unwrap().iter();
    let time_ns = |cause: &serde_json::Value| cause["time_ns"].as_i64().unwrap();
    // What the host took meanwhile is the host's. It counts that by ticks.
    let steal_ns: i64 = causes().filter(|cause| cause["source"] == "steal").map(time_ns).sum();
    assert!(steal_ns <= host_took_ns + 20_000_000, "{host_took_ns}: {}", summary["causes"]);
    let wait_ns = summary["wait_ns"].as_i64().unwrap();
    assert!(time_ns(&summary["causes"][0]) * 10 > (wait_ns - steal_ns) * 9, "{}", summary["causes"]);
    assert_eq!(causes().map(time_ns).sum::<i64>() + time_ns(&summary["unexplained"]), wait_ns);
}

fn real_time_burst() {
    let burst = std::thread::Builder::new().name("burst".to_owned()).spawn(|| {
        // In this order: a normal thread would wait behind a real-time one on that CPU.
        schedule::fifo(0, 80).unwrap();
        schedule::bind(0, 0).unwrap();
        thread::burn_until(phase::now_ns() + BURST.as_nanos() as u64);
        // Its name is read while it lives.
        std::thread::sleep(Duration::from_secs(5));
    });
    drop(burst.unwrap());
}

/// As the table of exports in docs/formats.md has it.
fn exports_as_documented(run: &RunDir, place: &Path) {
    for (option, there) in [
        ("--perfetto", true),
        ("--csv=events", true),
        ("--json-lines=events", true),
        ("--openmetrics", true),
        ("--hdr", true),
        ("--late-csv", false),
        ("--gnuplot", true),
    ] {
        let target = place.join(option);
        let mut export = Command::new(QUAVER);
        export.arg("export").arg(run.path()).args([option, "-o"]).arg(&target);
        assert_eq!(export.output().unwrap().status.code(), Some(if there { 0 } else { 2 }), "{option}");
        assert_eq!(target.metadata().is_ok_and(|file| file.len() > 0), there, "{option}");
    }
}

/// `waits.parquet` has the wait, piece by piece.
fn pieces_cover_the_wait(run: &RunDir, process: u32, summary: &serde_json::Value) {
    let (mut pieces_ns, mut lengths) = (0, Vec::new());
    let rows = read_rows(&run.waits(), &mut |names, values| {
        let of = |name: &str| &values[names.iter().position(|one| one == name).unwrap()];
        let [start, end, from, to] =
            ["start_ns", "end_ns", "wait_start_ns", "wait_end_ns"].map(|name| of(name).as_i64().unwrap());
        pieces_ns += end - start;
        lengths.push(to - from);
        assert_eq!((of("class").as_str(), of("process").as_u64()), (Some("cpu-wait"), Some(process.into())));
        Ok(())
    });
    rows.unwrap().unwrap();
    assert_eq!(pieces_ns, summary["wait_ns"].as_i64().unwrap(), "the pieces cover the wait");
    assert!(lengths.iter().all(|wait_ns| *wait_ns == pieces_ns), "{lengths:?}");
}

#[test]
fn waits_are_those_that_the_kernel_counts_and_a_long_one_becomes_an_incident() {
    if !privileged("waits_are_those_that_the_kernel_counts_and_a_long_one_becomes_an_incident") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let hierarchies = hierarchies();
    let groups: Vec<Group> = hierarchies.iter().map(|at| Group::make(at, "works")).collect();
    let asleep = Group::make(hierarchies[hierarchies.len() - 1], "sleeps");
    let mut tables = String::from("[[threads]]\nname = 'cpu'\ncpus = '0'\n");
    for (number, group) in groups.iter().enumerate() {
        let limit = if number == 0 { format!("wait = '{LIMIT}'\n") } else { String::new() };
        tables += &format!("[[threads]]\nname = 'works-{number}'\ngroup = '{}'\n{limit}", group.0.display());
    }
    tables += &format!("[[threads]]\nname = 'sleeps'\ngroup = '{}'\n", asleep.0.display());
    let watch = Watch::start(&tables);
    let sleeper = Ended(Command::new("sleep").arg("600").spawn().unwrap());
    let sleeping = format!("/proc/{}/stat", sleeper.0.id());
    watch.wait("sleep", || std::fs::read_to_string(&sleeping).unwrap().contains("(sleep) S"));
    std::fs::write(asleep.below().join("cgroup.procs"), sleeper.0.id().to_string()).unwrap();
    watch.wait("counting", || watch.log().matches("watching waits of ").count() == groups.len() + 2);

    let hog = thread::normal_hog(0).unwrap();
    let below: Vec<String> = groups.iter().map(|group| group.below().display().to_string()).collect();
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_waiting_program", "--nocapture"])
        .env(WAITER, below.join(":"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut program = Ended(program.unwrap());
    let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines();
    let mut numbers = |beginning: &str| -> Vec<u64> {
        let line = lines.find_map(|line| line.unwrap().strip_prefix(beginning).map(str::to_owned)).unwrap();
        line.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    let begun = numbers("there ");
    let host_before_ns = stolen_ns();
    std::thread::sleep(Duration::from_millis(phase::now_ns() / 1_000 % 700));
    real_time_burst();
    let end = numbers("end ");
    let host_took_ns = stolen_ns() - host_before_ns;
    drop(hog);

    // No less than between two instants within the counting, and no more than between two around it.
    let least = (end[1] - begun[3], end[0] - begun[2]);
    for number in 0..groups.len() {
        let name = format!("works-{number}");
        watch.wait("all waits", || watch.waits(&name).0 >= least.0 && watch.waits(&name).1 >= least.1);
        let (counted, now) = (watch.waits(&name), waited(program.0.id()));
        let most = (now.1 - begun[1], now.0 - begun[0]);
        assert!(counted.0 <= most.0 && counted.1 <= most.1, "{name}: {counted:?} in {least:?} to {most:?}");
        assert!(counted.1 > BURST.as_nanos() as u64 / 2, "{counted:?}");
        assert_eq!(watch.metric("quaver_watch_cpu_waits_total", &name) as u64, watch.waits(&name).0);
    }
    assert!(watch.waits("cpu").0 > 100 && watch.waits("cpu").1 > BURST.as_nanos() as u64 / 2);
    assert_eq!(watch.waits("sleeps"), (0, 0), "a process that sleeps waits for no CPU");

    let of_burst = |run: &RunDir| {
        let summary: serde_json::Value = run.read_summary().unwrap();
        (summary["causes"][0]["source"] == "rt-thread").then_some(summary)
    };
    watch.wait("the incident", || watch.incidents().iter().any(|run| of_burst(run).is_some()));
    let run = watch.incidents().into_iter().find(|run| of_burst(run).is_some()).unwrap();
    let summary = of_burst(&run).unwrap();
    assert!(summary["causes"][0]["name"].as_str().unwrap().contains("burst"), "{}", summary["causes"]);
    mostly_burst(&summary, host_took_ns);
    assert_eq!((&summary["threads"], &summary["process"]), (&"works-0".into(), &program.0.id().into()));
    // It is counted a moment after it is there.
    watch.wait("its count", || watch.metric("quaver_watch_wait_incidents_total", "works-0") >= 1.0);
    assert_eq!(watch.metric("quaver_watch_wait_triggers_total", "cpu"), 0.0, "it has no limit");
    let page = Command::new(QUAVER).arg("analyze").arg(run.path()).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("waited") && page.contains("thread burst"), "{page}");

    pieces_cover_the_wait(&run, program.0.id(), &summary);
    exports_as_documented(&run, watch.place.path());

    let mut watch = watch;
    kill_process(Pid::from_child(&watch.daemon.0), Signal::TERM).unwrap();
    assert!(watch.daemon.0.wait().unwrap().success(), "{}", watch.log());
    drop((program, sleeper, groups, asleep));
}

#[test]
fn a_group_that_is_not_there_is_said_and_found_once_it_is() {
    if !privileged("a_group_that_is_not_there_is_said_and_found_once_it_is") {
        return;
    }
    let hierarchy = hierarchies()[0];
    let group = Group::make(hierarchy, "comes");
    let path = group.0.display().to_string();
    drop(group);
    let watch = Watch::start(&format!("[[threads]]\nname = 'comes'\ngroup = '{path}'\n"));
    watch.wait("the word", || watch.log().contains("comes: not watched: "));
    assert_eq!(watch.metric("quaver_watch_threads_watched", "comes"), 0.0);
    let group = Group::make(hierarchy, "comes");
    watch.wait("the group", || watch.metric("quaver_watch_threads_watched", "comes") > 0.0);
    drop((watch, group));
}

#[test]
fn waits_for_locks_are_those_of_the_program_and_a_long_one_names_what_its_holder_did() {
    if !privileged("waits_for_locks_are_those_of_the_program_and_a_long_one_names_what_its_holder_did") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_locking_program", "--nocapture"])
        .env(LOCKER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut program = Ended(program.unwrap());
    let process = program.0.id();
    let watch = Watch::start(&format!("[[threads]]\nname = 'locks'\npid = {process}\nlock = '{LIMIT}'\n"));
    let words = format!("watching waits of the threads of process {process} (");
    watch.wait("counting", || watch.log().contains(&words));
    let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines();
    let mut hear = |beginning: &str| {
        lines.find_map(|line| line.unwrap().strip_prefix(beginning).map(str::to_owned)).unwrap()
    };
    let mut stdin = program.0.stdin.take().unwrap();
    let (mut least_ns, mut most_ns) = (0, 0);
    let found = |cause: &str| {
        let summaries =
            watch.incidents().into_iter().map(|run| run.read_summary::<serde_json::Value>().unwrap());
        summaries.into_iter().find(|summary| summary["causes"][0]["source"] == cause)
    };
    // A holder that works all the time, and one that a real-time thread takes the CPU from.
    for (cause, injected_ns) in [("own-code", 300 * MS), ("rt-thread", BURST.as_nanos() as u64)] {
        writeln!(stdin).unwrap();
        hear("held");
        if cause == "rt-thread" {
            real_time_burst();
        }
        let waited = hear("waited ");
        let bounds: Vec<u64> = waited.split(' ').map(|word| word.parse().unwrap()).collect();
        (least_ns, most_ns) = (least_ns + bounds[0], most_ns + bounds[1]);
        watch.wait(cause, || found(cause).is_some());
        let summary = found(cause).unwrap();
        let wait_ns = summary["wait_ns"].as_u64().unwrap();
        assert!((bounds[0]..=bounds[1]).contains(&wait_ns), "{wait_ns} in {bounds:?}");
        let time_ns = summary["causes"][0]["time_ns"].as_u64().unwrap();
        assert!(time_ns > injected_ns / 10 * 9, "{}", summary["causes"]);
        // No record says since when the holder had the lock.
        let inferred_ns: u64 = ["inferred_ns", "entry_exit_ns", "catch_up_ns"]
            .iter()
            .filter_map(|key| summary["causes"][0][key].as_u64())
            .sum();
        assert_eq!(inferred_ns, time_ns, "{}", summary["causes"]);
        let lock = &summary["lock"];
        assert_eq!((&lock["holder_process"], &lock["holder_comm"]), (&process.into(), &"holder".into()));
        assert!(lock["address"].as_str().unwrap().starts_with("0x"), "{lock}");
    }
    let of = |name: &str| watch.metric(name, "locks\",end=\"lock");
    watch.wait("both waits", || of("quaver_watch_futex_seconds_count") == 2.0);
    let sum_ns = (of("quaver_watch_futex_seconds_sum") * 1e9).round() as u64;
    assert!((least_ns..=most_ns).contains(&sum_ns), "{sum_ns} ns in {least_ns} to {most_ns}");
    let page = Command::new(QUAVER).arg("analyze").arg(watch.incidents()[0].path()).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("for a lock that thread holder"), "{page}");
}
