//! `quaver sync --compensate` and `quaver sync what-if` as a user runs them, on a machine of files.

mod sync_run;

use quaver_abi::compensation::{CompensationRecord, CompensationWhy};
use quaver_dvfs::dvfs::ControllerConfig;
use quaver_dvfs::dvfs::what_if::Compensator;
use quaver_store::segments::read_all;
use quaver_sync_analysis::subframes::{Ended, SoFar, Subframe};
use quaver_sync_analysis::sync::{ThreadId, Wakeup};
use quaver_sync_store::{SegmentReader, Tail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use sync_run::{Bench, number};

/// Three threads that work between barriers and pass a baton; then more of them. The argument says how it ends.
const WORKER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>
#define THREADS 3
static pthread_barrier_t all_there;
static pthread_mutex_t baton = PTHREAD_MUTEX_INITIALIZER;
static int rounds = 150;
static volatile unsigned long sink;
static void work(long us)
{
	struct timespec from, now;
	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		for (int i = 0; i < 200; i++)
			sink += i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - from.tv_sec) * 1000000L + (now.tv_nsec - from.tv_nsec) / 1000 < us);
}
static void *run(void *own)
{
	for (int i = 0; i < rounds; i++) {
		work(100 + 60 * (long)own);
		pthread_mutex_lock(&baton);
		work(20);
		pthread_mutex_unlock(&baton);
		pthread_barrier_wait(&all_there);
	}
	return 0;
}
static void generation(void)
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, run, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
}
int main(int count, char **words)
{
	const char *how = count > 1 ? words[1] : "";
	pthread_barrier_init(&all_there, 0, THREADS);
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(how, "long"))
		rounds *= 4;
	generation();
	generation();
	if (!strcmp(how, "crash"))
		abort();
	while (!strcmp(how, "stay"))
		generation();
	puts("done");
	return 7;
}
"#;

const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";

/// A machine of files whose CPUs' frequency can be set, beside the journal about it.
struct Machine {
    bench: Bench,
}

type Listing = BTreeMap<PathBuf, Vec<u8>>;

impl Machine {
    /// One policy for each CPU that there may be.
    fn new(governors: &str) -> Self {
        let machine = Self { bench: Bench::of_text(WORKER, &[]) };
        for cpu in 0..256 {
            for (name, text) in [
                ("affected_cpus", cpu.to_string().as_str()),
                ("scaling_driver", "acpi-cpufreq"),
                ("scaling_governor", "schedutil"),
                ("scaling_available_governors", governors),
                ("scaling_available_frequencies", "2000000 2250000 2500000 2750000 3000000"),
                ("scaling_setspeed", "<unsupported>"),
                ("scaling_min_freq", "2000000"),
                ("scaling_max_freq", "3000000"),
                ("cpuinfo_min_freq", "2000000"),
                ("cpuinfo_max_freq", "3000000"),
                ("cpuinfo_transition_latency", "5000"),
            ] {
                let directory = machine.root().join(CPUFREQ).join(format!("policy{cpu}"));
                std::fs::create_dir_all(&directory).expect("it is ours");
                std::fs::write(directory.join(name), format!("{text}\n")).expect("it is ours");
            }
        }
        machine
    }

    fn root(&self) -> PathBuf {
        self.bench.place().join("machine")
    }

    fn journal(&self) -> PathBuf {
        self.bench.place().join("journal")
    }

    /// What all files say.
    fn listing(&self) -> Listing {
        let mut found = Listing::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("it is there") {
                let path = entry.expect("it can be listed").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = std::fs::read(&path).expect("it can be read");
                    found.insert(path, text);
                }
            }
        }
        found
    }

    /// `quaver sync OPTIONS --compensate -- PROGRAM HOW`, on this machine.
    fn sync(&self, options: &[&str], how: &str) -> Command {
        let (root, journal) = (self.root(), self.journal());
        let mut words = vec!["--root", root.to_str().expect("letters"), "--journal"];
        words.push(journal.to_str().expect("letters"));
        words.extend(["--no-kernel", "--threshold", "1us", "-q"]);
        words.extend(options);
        let mut command = self.bench.sync(&words);
        command.arg(how);
        command
    }

    fn run(&self, options: &[&str], how: &str) -> Output {
        self.sync(options, how).output().expect("it runs")
    }

    fn revert(&self) -> Output {
        let mut command = self.bench.quaver(&["tune", "revert", "--root"]);
        command.arg(self.root()).arg("--journal").arg(self.journal());
        command.output().expect("it runs")
    }

    fn records(&self) -> Vec<CompensationRecord> {
        read_all(&self.bench.last_run().join("sync/compensation.seg")).expect("it can be read")
    }

    fn facts(&self) -> Value {
        self.bench.summary().pointer("/facts/compensation").cloned().expect("it is there")
    }

    /// Some policy is driven.
    fn is_driven(&self) -> bool {
        self.listing().iter().any(|(path, text)| path.ends_with("scaling_governor") && text == b"userspace\n")
    }
}

fn subframe(record: &CompensationRecord) -> Option<Subframe> {
    let why = match CompensationWhy::from_repr(record.why)? {
        CompensationWhy::Began | CompensationWhy::Woken => return None,
        CompensationWhy::InTime => Ended::InTime,
        CompensationWhy::AtCreate => Ended::AtCreate,
        CompensationWhy::AtJoin => Ended::AtJoin,
        CompensationWhy::AtExit => Ended::AtExit,
    };
    Some(Subframe {
        thread: ThreadId(record.thread),
        cpu: record.cpu,
        begin_ns: record.begin_ns,
        end_ns: record.end_ns,
        why,
        joined: (record.other != 0).then_some(ThreadId(record.other)),
        own_ns: record.own_ns,
        blocked_ns: record.blocked_ns,
        lost_ns: record.lost_ns,
    })
}

/// The wake-up of a record, and what both threads had done.
fn wakeup(record: &CompensationRecord) -> Option<(Wakeup, SoFar, SoFar)> {
    if CompensationWhy::from_repr(record.why)? != CompensationWhy::Woken {
        return None;
    }
    let wakeup = Wakeup {
        thread: ThreadId(record.thread),
        by: ThreadId(record.other),
        released_ns: record.end_ns,
        waited_ns: record.end_ns - record.begin_ns,
        met: record.point == 1,
    };
    let own = SoFar { own_ns: record.own_ns, blocked_ns: record.blocked_ns, lost_ns: record.lost_ns };
    let others = SoFar { own_ns: record.paced_fs, blocked_ns: record.unpaced_fs, lost_ns: record.stalled_fs };
    Some((wakeup, own, others))
}

/// Lets the pure controllers decide again what was decided live, and compares everything.
fn replay(records: &[CompensationRecord], facts: &Value) {
    let config: ControllerConfig =
        serde_json::from_value(facts["controller"].clone()).expect("it was written by the same type");
    let dry = facts["dry"] == Value::Bool(true);
    let mut compensator = Compensator::new(config, facts["unpaced_share"].as_f64().expect("a number"));
    let (mut subframes, mut met) = (0, 0);
    for record in records {
        if let Some((wakeup, own, others)) = wakeup(record) {
            compensator.woken(&wakeup, &own, &others);
            met += u64::from(wakeup.met);
            continue;
        }
        let Some(subframe) = subframe(record) else {
            compensator.began(record.thread, (record.other != 0).then_some(record.other));
            continue;
        };
        subframes += 1;
        let decision = match dry {
            true => compensator.ended(&subframe),
            false => compensator.ended_at(&subframe, f64::from_bits(record.ratio_bits), record.stalled_fs),
        };
        let ran = (decision.ran.length_fs, decision.ran.paced_fs, decision.ran.unpaced_fs);
        assert_eq!(ran, (record.length_fs, record.paced_fs, record.unpaced_fs), "{record:?}");
        let decided = (decision.point as u32, decision.owed_fs, decision.ratio.to_bits());
        assert_eq!(decided, (record.point, record.owed_fs, record.ratio_bits), "{record:?}");
    }
    let seen = compensator.finish();
    assert_eq!(seen.left_ns.to_bits(), facts["left_ns"].as_f64().expect("a number").to_bits());
    assert_eq!(seen.lost_ns, facts["lost_ns"].as_u64().expect("a number"));
    let told = facts["in_time"].as_u64().unwrap_or(0) + facts["forced"].as_u64().unwrap_or(0);
    assert_eq!(subframes, told);
    assert!(met > 0, "its threads meet at barriers");
}

/// Subframes of each thread follow each other without a hole.
fn contiguous(records: &[CompensationRecord]) {
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    for record in records.iter().filter(|record| wakeup(record).is_none()) {
        match subframe(record) {
            None => drop(ends.insert(record.thread, record.begin_ns)),
            Some(one) => {
                assert_eq!(ends.insert(record.thread, one.end_ns), Some(one.begin_ns), "{one:?}");
            }
        }
    }
}

#[test]
fn a_program_is_sped_up_while_it_runs_and_all_is_as_before_afterwards() {
    for governors in ["schedutil userspace", "performance powersave"] {
        let machine = Machine::new(governors);
        let before = machine.listing();
        // Longer than a disk that is written to by others keeps the recordings' pages to itself: seen for a third of a second.
        let ended = machine.run(&["--compensate"], "long");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(7), "the program's own status: {told}");
        assert!(ended.stdout.ends_with(b"done\n"));
        assert_eq!(machine.listing(), before, "byte for byte");
        for words in ["DVFS compensation", "writes", "monitoring cost", "f0 was 2.50 GHz"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        let facts = machine.facts();
        assert!(number(&facts, "/writes") > 0 && number(&facts, "/writes_refused") == 0, "{facts}");
        // Main, and two generations of three.
        assert_eq!(number(&facts, "/threads"), 7);
        // Six creations, six joins, and the end of each thread.
        assert_eq!(number(&facts, "/forced"), 6 + 6 + 7);
        assert_eq!(facts["not_put_back"], Value::Array(vec![]));
        let records = machine.records();
        contiguous(&records);
        replay(&records, &facts);
        let again =
            machine.bench.quaver(&["analyze"]).arg(machine.bench.last_run()).output().expect("it runs");
        assert!(String::from_utf8_lossy(&again.stdout).contains("DVFS compensation"));
        let undone = machine.revert();
        assert_eq!(undone.status.code(), Some(0));
        assert_eq!(machine.listing(), before, "there was nothing left to put back");
    }
}

#[test]
fn a_dry_run_decides_the_same_way_and_sets_nothing() {
    let bench = Bench::of_text(WORKER, &[]);
    let journal = bench.place().join("journal");
    let mut command = bench.sync(&["--compensate=dry", "--no-kernel", "--threshold", "1us"]);
    let ended = command.env("QUAVER_TUNE_JOURNAL", &journal).output().expect("it runs");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(7), "{told}");
    assert!(told.contains("dry run: nothing was set") && told.contains("remaining"), "{told}");
    assert!(!journal.exists(), "no setting was thought of");
    let summary = bench.summary();
    let facts = &summary["facts"]["compensation"];
    assert_eq!((number(facts, "/writes"), number(facts, "/threads")), (0, 7));
    let records: Vec<CompensationRecord> =
        read_all(&bench.last_run().join("sync/compensation.seg")).expect("it can be read");
    contiguous(&records);
    replay(&records, facts);
}

#[test]
fn a_machine_without_frequencies_says_so_before_the_program_starts() {
    let bench = Bench::of_text(WORKER, &[]);
    let (root, journal) = (bench.place().join("empty"), bench.place().join("journal"));
    std::fs::create_dir(&root).expect("it is ours");
    let mut words = vec!["--compensate", "--root", root.to_str().expect("letters")];
    words.extend(["--journal", journal.to_str().expect("letters")]);
    let ended = bench.run(&words);
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(3), 0), "{told}");
    assert!(told.contains("cpufreq") && told.contains("--compensate=dry"), "{told}");
    assert!(!bench.place().join("runs").exists() && !journal.exists());
}

/// A program of ours that is ended whatever becomes of the test.
struct Started {
    quaver: Child,
    program: u32,
    _out: BufReader<ChildStdout>,
}

impl Started {
    /// Starts it and waits until frequencies are driven.
    fn new(machine: &Machine, how: &str) -> Self {
        let mut command = machine.sync(&["--compensate"], how);
        let mut quaver = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = BufReader::new(quaver.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("the program speaks");
        let program = line.trim().strip_prefix("pid ").and_then(|pid| pid.parse().ok()).expect("its number");
        let started = Self { quaver, program, _out: out };
        let begun = Instant::now();
        while !machine.is_driven() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing was set");
            std::thread::sleep(Duration::from_millis(5));
        }
        started
    }

    fn signal(pid: u32, number: i32) {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("no zero");
        let signal = rustix::process::Signal::from_named_raw(number).expect("a signal");
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    fn is_alive(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.quaver.kill();
        let _ = self.quaver.wait();
        if Self::is_alive(self.program) {
            Self::signal(self.program, 9);
        }
    }
}

#[test]
fn ctrl_c_ends_the_program_and_puts_all_back() {
    let machine = Machine::new("schedutil userspace");
    let before = machine.listing();
    let mut started = Started::new(&machine, "stay");
    assert_ne!(machine.listing(), before);
    Started::signal(started.quaver.id(), 2);
    let status = started.quaver.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(machine.listing(), before);
    replay(&machine.records(), &machine.facts());
}

#[test]
fn a_program_that_crashes_leaves_nothing_set() {
    let machine = Machine::new("schedutil userspace");
    let before = machine.listing();
    let ended = machine.run(&["--compensate", "--compensate-reactivity", "2"], "crash");
    assert_eq!(ended.status.code(), Some(134), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(machine.listing(), before);
    replay(&machine.records(), &machine.facts());
}

#[test]
fn after_kill_9_the_program_goes_on_and_revert_puts_all_back() {
    let machine = Machine::new("schedutil userspace");
    let before = machine.listing();
    let mut started = Started::new(&machine, "stay");
    Started::signal(started.quaver.id(), 9);
    started.quaver.wait().expect("it is gone");
    assert!(Started::is_alive(started.program), "the program is none of ours to end");
    assert_ne!(machine.listing(), before, "nobody was there to put it back");
    let undone = machine.revert();
    assert_eq!(undone.status.code(), Some(0), "{}", String::from_utf8_lossy(&undone.stderr));
    assert_eq!(machine.listing(), before);
    drop(started);
    // Whoever comes next puts back what a killed one left, and says so.
    let mut started = Started::new(&machine, "stay");
    Started::signal(started.quaver.id(), 9);
    started.quaver.wait().expect("it is gone");
    drop(started);
    let ended = machine.run(&["--compensate"], "");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(told.contains("left by a killed run"), "{told}");
    assert_eq!(machine.listing(), before);
}

#[test]
fn one_at_a_time_sets_frequencies() {
    let machine = Machine::new("schedutil userspace");
    let before = machine.listing();
    let mut started = Started::new(&machine, "stay");
    let second = machine.run(&["--compensate"], "");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_ne!(second.status.code(), Some(7), "the program did not start: {told}");
    assert!(told.contains("is changing settings of this machine") && second.stdout.is_empty(), "{told}");
    Started::signal(started.quaver.id(), 15);
    started.quaver.wait().expect("it ends");
    assert_eq!(machine.listing(), before);
}

/// What the tail of a recording gives is what is read of it afterwards.
#[test]
fn a_recording_read_while_it_grows_is_the_recording() {
    let bench = Bench::of_text(WORKER, &[]);
    let place = bench.place().join("recording");
    std::fs::create_dir(&place).expect("it is ours");
    let recorder = bench.quaver(&["--version"]);
    let library = recorder.get_envs().find(|(name, _)| *name == "QUAVER_LIBDIR").and_then(|(_, value)| value);
    let library = Path::new(library.expect("it is set")).join("libquaver_preload.so");
    let mut program = Command::new(bench.program())
        .env("LD_PRELOAD", library)
        .env("QUAVER_SYNC_DIR", &place)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut followed: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    let mut tail = None;
    let mut path = PathBuf::new();
    let mut ended = false;
    loop {
        if tail.is_none()
            && let Some(found) = std::fs::read_dir(&place).expect("it is there").find_map(|entry| {
                Some(entry.ok()?.path()).filter(|path| path.extension().is_some_and(|one| one == "seg"))
            })
        {
            tail = Tail::open(&found).expect("it can be read");
            path = found;
        }
        if let Some(tail) = &mut tail {
            tail.poll(&mut |tid, record| followed.entry(tid).or_default().push(record))
                .expect("it can be read");
        }
        if ended {
            break;
        }
        ended = program.try_wait().expect("it is our child").is_some();
    }
    let segment = SegmentReader::open(&path).expect("it can be read");
    assert_eq!(segment.threads().len(), 7);
    assert_eq!(tail.expect("it was found").holes(), 0);
    for (place, thread) in segment.threads().iter().enumerate() {
        let mut live = followed.remove(&thread.tid).expect("it was seen");
        live.sort_by_key(|record| record.cycles);
        assert_eq!(live, segment.records(place).expect("it can be read"), "thread {}", thread.tid);
    }
}

#[test]
fn the_curve_of_a_recorded_program_falls_and_its_frames_are_judged() {
    let bench = Bench::of_text(WORKER, &[]);
    let ended = bench.run(&["--no-kernel", "--threshold", "1us", "-q"]);
    assert_eq!(ended.status.code(), Some(7));
    let run = bench.last_run();
    let html = bench.place().join("what-if.html");
    let what_if = |words: &[&str]| {
        let mut command = bench.quaver(&["sync", "what-if"]);
        command.arg(&run).args(words).output().expect("it runs")
    };
    let ended = what_if(&["--json", "--deadline", "5ms", "--html", html.to_str().expect("letters")]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let answer: Value = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    assert_eq!(answer["schema"], "quaver.sync-what-if/1");
    let curves = answer["curves"].as_array().expect("they are there");
    assert_eq!(curves.len(), 4);
    let without = answer["program"]["slow_down"].as_f64().expect("a number");
    assert!(without > 0.0);
    for curve in curves {
        let points = curve["points"].as_array().expect("they are there");
        assert_eq!(points.len(), 7);
        let at = |place: usize| points[place]["slow_down"].as_f64().expect("a number");
        assert!((at(0) - without).abs() < 1e-9, "at rest nothing is given back: {curve}");
        assert!(at(4) < without, "{curve}");
        let share: f64 = points[4]["residency"]
            .as_array()
            .expect("they are there")
            .iter()
            .map(|pair| pair[1].as_f64().expect("a number"))
            .sum();
        assert!((share - 1.0).abs() < 1e-9);
    }
    let frames = &answer["frames"];
    assert!(number(frames, "/without/frames") > 0);
    assert_eq!(frames["with"].as_array().expect("they are there").len(), 24);
    let page = std::fs::read_to_string(&html).expect("it was written");
    assert!(page.contains("<svg") && page.contains("Real-time frames") && !page.contains("<script src"));
    let text = String::from_utf8(what_if(&["--example", "wimax"]).stdout).expect("it is text");
    for words in ["Slow-down over maximum frequency", "predictive, k = 1", "miss rate", "this run's losses"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(what_if(&["--json"]).stdout, what_if(&["--json"]).stdout);
    // A table of one's own; one that cannot be is named.
    let table = bench.place().join("table.toml");
    let point = |ghz: f64| format!("{{ frequency_ghz = {ghz}, supply_v = {ghz} }}");
    let text = |rest: usize| {
        let points = [1.0, 2.0, 3.0].map(point).join(", ");
        format!("rest = {rest}\npll_lock_us = 1.0\nramp_us = 0.0\npoints = [{points}]\n")
    };
    std::fs::write(&table, text(1)).expect("it is ours");
    let path = table.to_str().expect("letters");
    let own: Value = serde_json::from_slice(&what_if(&["--json", "--table", path, "--highest", "2"]).stdout)
        .expect("it is JSON");
    let highest = |place: usize| own["curves"][0]["points"][place]["highest"].as_f64();
    assert_eq!((highest(0), highest(1), highest(2)), (Some(1.0), Some(1.5), Some(2.0)));
    std::fs::write(&table, text(7)).expect("it is ours");
    let bad = what_if(&["--table", path]);
    assert_eq!(bad.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("rest is no point of it"));
}

#[test]
fn packets_of_wimax_need_no_run() {
    let bench = Bench::of_text("int main(void) { return 0; }", &[]);
    let ended = bench.quaver(&["sync", "what-if", "--example", "wimax", "--json"]).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let answer: Value = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    let frames = &answer["frames"];
    assert_eq!((frames["of"].as_str(), number(frames, "/deadline_ns")), (Some("wimax-made-up"), 5_000_000));
    let missed = number(frames, "/without/missed");
    let with = frames["with"].as_array().expect("they are there");
    assert!(missed > 0 && with.iter().all(|row| number(row, "/deadlines/missed") <= missed), "{frames}");
    let without = bench.quaver(&["sync", "what-if"]).output().expect("it runs");
    assert_eq!(without.status.code(), Some(2));
}
