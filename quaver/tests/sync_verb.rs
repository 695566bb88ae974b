//! `quaver sync` as a user runs it: what reaches the program, what comes back, what is kept.

mod sync_run;

use quaver_store::run::RunDir;
use quaver_testbed::printed::numbers;
use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use sync_run::{Bench, number};

/// Two threads that hand a baton to each other; the first line is what was read.
const BATON: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
pthread_mutex_t baton_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t baton_passed = PTHREAD_COND_INITIALIZER;
static int turn;
static void *run(void *own)
{
	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&baton_lock);
		while (turn != (own != 0))
			pthread_cond_wait(&baton_passed, &baton_lock);
		turn = !turn;
		pthread_cond_broadcast(&baton_passed);
		pthread_mutex_unlock(&baton_lock);
	}
	return 0;
}
/* Five waits and four of the other kind on a word that has changed, and six wakes of nobody. */
static void own_futexes(void)
{
	unsigned word = 7;

	for (int i = 0; i < 5; i++)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 8, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 8, 0, 0, 1);
	for (int i = 0; i < 6; i++)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
int main(int count, char **words)
{
	pthread_t other;
	char line[100];
	if (count > 2)
		own_futexes();
	if (fgets(line, sizeof(line), stdin))
		fputs(line, stdout);
	fputs("to standard error\n", stderr);
	pthread_create(&other, 0, run, &other);
	run(0);
	pthread_join(other, 0);
	return count > 1 ? atoi(words[1]) : 0;
}
"#;

/// Says that it waits, then waits for a signal that nobody but its user sends.
const WAITS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *nothing(void *unused) { return unused; }
int main(void)
{
	pthread_t other;
	pthread_create(&other, 0, nothing, 0);
	pthread_join(other, 0);
	puts("waiting");
	fflush(stdout);
	for (;;)
		pause();
}
"#;

#[test]
fn input_output_and_status_are_the_programs_own() {
    let bench = Bench::of_text(BATON, &[]);
    let mut command = bench.sync(&["-q", "--threshold", "1ns"]);
    command.arg("77").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"what was read\n").expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(77), "{told}");
    assert_eq!(ended.stdout, b"what was read\n");
    assert!(told.starts_with("to standard error\n"), "{told}");
    assert!(told.contains("broadcast-wait") && told.contains("baton_passed"), "{told}");
    assert!(told.contains("p99.9") && told.contains("Distribution"), "{told}");
    let summary = bench.summary();
    assert_eq!(number(&summary, "/facts/status"), 77);
    assert_eq!(summary["complete"], Value::Bool(true));
    assert_eq!(summary["events_from"], "recorder");
    assert_eq!(number(&summary, "/results/counts/threads"), 2);
    // Each passing ends one wait, unless the other had not yet begun to wait.
    let waits = number(&summary, "/results/coverage/wake_ups");
    assert!((1..=400).contains(&waits), "{waits}");
    assert_eq!(number(&summary, "/results/coverage/matched"), waits);
}

#[test]
fn a_run_analysed_again_comes_out_the_same() {
    let bench = Bench::of_text(BATON, &[]);
    let ended = bench.run(&["--json", "--call-sites", "--threshold", "1ns"]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let run = bench.last_run();
    let read = |name: &str| std::fs::read(run.join(name)).expect("it was written");
    let (summary, report) = (read("summary.json"), read("report.html"));
    let stored: Value = RunDir::open(&run).and_then(|run| run.read_summary()).expect("JSON");
    assert_eq!(numbers(&ended.stdout), stored, "the program itself says nothing there");
    let path = run.to_str().expect("a path in letters").to_owned();
    let unprivileged = bench.run(&["--no-kernel", "--threshold", "1ns"]);
    let told = String::from_utf8_lossy(&unprivileged.stderr).into_owned();
    let words: Vec<&str> = told.split_whitespace().collect();
    assert!(words.join(" ").contains("run-queue time is included in the classes"), "{told}");
    let again = bench.quaver(&["analyze", &path, "--json"]).output().expect("it runs");
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(numbers(&again.stdout), stored);
    assert_eq!((read("summary.json"), read("report.html")), (summary, report.clone()));
    let drawn = bench.quaver(&["report", &path, "-o", "-"]).output().expect("it runs");
    assert_eq!(drawn.stdout, report);
    let page = String::from_utf8(report).expect("it is text");
    assert!(page.contains("<svg") && page.contains("baton_passed") && !page.contains("<script src"));
    let trace = bench.quaver(&["export", &path, "--perfetto", "-o", "-"]).output().expect("it runs");
    assert_eq!(trace.status.code(), Some(0));
    assert!(trace.stdout.windows(12).any(|part| part == b"baton_passed"));
    // A recording cut in half is refused in a sentence, or read as far as it goes, and never a bug.
    let table = std::fs::read_dir(run.join("sync"))
        .expect("it is there")
        .filter_map(|entry| Some(entry.ok()?.path()));
    let table = table.filter(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    for path in table {
        let whole = std::fs::read(&path).expect("it can be read");
        std::fs::write(&path, &whole[..whole.len() / 2]).expect("it can be written");
    }
    let cut = bench.quaver(&["analyze", &path]).output().expect("it runs");
    assert!(matches!(cut.status.code(), Some(0 | 5)), "{:?}", cut.status);
    assert!(!String::from_utf8_lossy(&cut.stderr).contains("bug"));
}

#[test]
fn a_signal_reaches_the_program_and_what_was_measured_is_kept() {
    let bench = Bench::of_text(WAITS, &[]);
    for (signal, status) in [("INT", 130), ("TERM", 143), ("USR1", 138)] {
        let mut child =
            bench.sync(&["-q"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("it says so");
        assert_eq!(line, "waiting\n");
        let sent = std::process::Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status();
        assert!(sent.expect("kill is there").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(status), "{signal}");
        let mut rest = String::new();
        lines.read_to_string(&mut rest).expect("it ends");
        assert_eq!(rest, "");
        let summary = bench.summary();
        assert_eq!(number(&summary, "/facts/status"), status as u64);
        assert_eq!(number(&summary, "/results/counts/threads"), 2, "what was recorded is kept");
        assert_eq!(summary["complete"], Value::Bool(signal == "USR1"), "{signal}");
    }
}

#[test]
fn what_the_recorder_cannot_see_is_told() {
    let bench = Bench::of_text(BATON, &["-static"]);
    let ended = bench.run(&["--no-kernel"]);
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "it runs all the same: {told}");
    assert!(told.contains("linked statically"), "{told}");
    let summary = bench.summary();
    assert!(summary["warnings"].to_string().contains("linked statically"));
    assert_eq!(summary["processes"], Value::Array(Vec::new()));
}

#[test]
fn without_the_recorder_nothing_is_started() {
    let bench = Bench::of_text(BATON, &[]);
    let mut command = bench.sync(&[]);
    command.env("QUAVER_LIBDIR", bench.place());
    let ended = command.output().expect("it runs");
    assert_eq!(ended.status.code(), Some(3));
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(told.contains("libquaver_preload.so") && told.contains("QUAVER_LIBDIR"), "{told}");
    assert!(!told.contains("to standard error"), "{told}");
    let absent = bench.quaver(&["sync", "--", "no-such-program-of-anybody"]).output().expect("it runs");
    assert_eq!(absent.status.code(), Some(2));
}

#[test]
fn where_the_run_cannot_be_kept_the_program_runs_unrecorded() {
    let bench = Bench::of_text(BATON, &[]);
    let file = bench.place().join("file");
    std::fs::write(&file, "").expect("it can be written");
    let below = file.join("runs");
    let mut command = bench.sync(&["-q", "--no-kernel", "--json", "-o", below.to_str().expect("letters")]);
    command.arg("77").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"what was read\n").expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(77), "{told}");
    assert_eq!(ended.stdout, b"what was read\n", "the program's words and none of ours");
    let ours: Vec<&str> = told.lines().filter(|line| line.starts_with("quaver: ")).collect();
    assert_eq!(ours.len(), 1, "{told}");
    assert!(ours[0].contains("runs unrecorded") && ours[0].contains("file/runs"), "{told}");
    assert!(told.ends_with("to standard error\n"), "{told}");
}

/// What `sh -c` does to the run's directory from inside, and the status that it ends with as a shell shows it.
#[test]
fn the_programs_status_stands_whatever_becomes_of_the_report() {
    let bench = Bench::of_text(BATON, &[]);
    let lost = "rm -r \"$(dirname \"$QUAVER_SYNC_DIR\")\"";
    for (end, status) in [("exit 42", 42), ("exit 0", 0), ("kill -9 $$", 128 + 9)] {
        let script = format!("{lost}; {end}");
        let mut command = bench.quaver(&["sync", "--no-kernel", "--json", "--", "sh", "-c", &script]);
        let ended = command.output().expect("it runs");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(status), "{told}");
        assert_eq!(told.lines().filter(|line| line.starts_with("quaver: ")).count(), 1, "{told}");
        assert_eq!(ended.stdout, b"");
    }
    // Nobody can be told: the device takes not one byte.
    for options in
        [&["--no-kernel"][..], &["--no-kernel", "--json"], &["--no-kernel", "-o", "/dev/null/runs"]]
    {
        let full = || std::fs::File::options().write(true).open("/dev/full").expect("each Linux has it");
        let ended = bench.sync(options).arg("42").stdout(full()).stderr(full()).status().expect("it runs");
        assert_eq!(ended.code(), Some(42), "{options:?}");
    }
}

#[test]
fn a_full_disk_takes_nothing_from_the_program() {
    if !privileged("mounting a file system of a few pages") {
        return;
    }
    let bench = Bench::of_text(BATON, &[]);
    let room = bench.place().join("room");
    std::fs::create_dir(&room).expect("it can be made");
    // From no room for a manifest, over room for one but for no recording, to room for all but the report.
    let mut kept = Vec::new();
    for pages in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        // In a name space of the test's own: what is mounted there goes with the last process in it.
        let script = format!("mount -t tmpfs -o size={}k none \"$1\" && shift && exec \"$@\"", 4 * pages);
        let sync = bench.sync(&["--no-kernel", "--json", "-o", room.to_str().expect("letters")]);
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]).arg(&room);
        command.arg(sync.get_program()).args(sync.get_args()).arg("42").stdin(Stdio::null());
        command.envs(sync.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = command.output().expect("it runs");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(42), "{pages} pages: {told}");
        assert!(told.contains("to standard error"), "{pages} pages: {told}");
        let said = told.lines().any(|line| line.starts_with("quaver: "));
        assert!(said || !ended.stdout.is_empty(), "{pages} pages: results or a reason: {told}");
        kept.push(!ended.stdout.is_empty());
    }
    assert_eq!((kept[0], kept[8]), (false, true), "{kept:?}");
}

#[test]
fn futex_calls_of_recorder_and_kernel_agree() {
    if !privileged("counting futex calls in the kernel") {
        return;
    }
    let bench = Bench::of_text(BATON, &[]);
    let ended = bench.sync(&["-q"]).args(["0", "own"]).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary = bench.summary();
    let futex = &summary["futex"];
    let kernel = &summary["facts"]["kernel"];
    assert_eq!(number(kernel, "/lost"), 0);
    let calls = number(futex, "/calls");
    if kernel["tier"] == "bpf" {
        assert_eq!(number(kernel, "/futex_calls"), calls, "every entry of a futex call has its record");
        assert_eq!(number(kernel, "/futex_returns"), number(futex, "/returns"));
    }
    assert_eq!(number(futex, "/returns") - number(futex, "/returns_alone"), calls);
    let operations = futex["operations"].as_array().expect("a list");
    let sum = |field: &str| operations.iter().map(|one| number(one, &format!("/{field}"))).sum::<u64>();
    let ends = ["woken", "changed", "timeouts", "interrupted", "woke_nobody", "failed", "open"];
    assert_eq!(ends.iter().map(|field| sum(field)).sum::<u64>(), calls, "each call has one end: {futex}");
    let of = |operation: &str, field: &str| {
        let one = operations.iter().find(|one| one["operation"] == operation);
        one.map_or(0, |one| number(one, &format!("/{field}")))
    };
    // Its own calls, exactly, by the recorder; the kernel sees those of the C library besides.
    assert_eq!(number(&summary, "/results/counts/busy"), 9, "waits on words that had changed");
    // Besides the six, the C library wakes nobody where a thread that was about to wait did not have to.
    let for_nobody = number(&summary, "/results/counts/signals_for_nobody");
    assert!((6..=of("FUTEX_WAKE", "woke_nobody")).contains(&for_nobody), "{for_nobody}: {futex}");
    assert!(of("FUTEX_WAIT", "changed") >= 5 && of("FUTEX_WAIT_BITSET", "changed") >= 4, "{futex}");
    assert!(of("FUTEX_WAKE", "woke_nobody") >= 6, "{futex}");
    // Waits on conditions are FUTEX_WAIT_BITSET, which tools that know FUTEX_WAIT only do not see. A wait that was ended
    // before it came to the kernel makes no call; of the many here at least one slept.
    assert!(of("FUTEX_WAIT_BITSET", "woken") >= 1, "{futex}");
    assert!(number(&summary, "/results/coverage/wake_ups") >= 1);
    // Whoever waits in the kernel does so inside a call that was recorded, the program's own futexes too.
    let both = &futex["reconciled"];
    let waits: u64 = ["FUTEX_WAIT", "FUTEX_WAIT_BITSET"].iter().map(|one| of(one, "calls")).sum();
    assert_eq!(number(both, "/waits_outside"), 0, "{futex}");
    assert_eq!(number(both, "/waits_inside"), waits, "{futex}");
    let wakes: u64 = number(both, "/wakes_inside") + number(both, "/wakes_outside");
    assert_eq!(waits + wakes, calls, "{futex}");
    assert!(number(both, "/calls_without_kernel") <= number(both, "/calls"), "{futex}");
}

/// One thread waits, the other wakes it by a broadcast once it sleeps, twenty times over.
const BROADCASTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int turn, awaited = -1, waiter;
static void *wait_for_it(void *unused)
{
	pthread_mutex_lock(&lock);
	waiter = syscall(SYS_gettid);
	for (int i = 0; i < 20; i++) {
		awaited = i;
		while (turn <= i)
			pthread_cond_wait(&told, &lock);
	}
	pthread_mutex_unlock(&lock);
	return unused;
}
/* With the lock held and the next turn awaited: who sleeps now does so in its wait, and not for the lock. */
static int sleeps(void)
{
	char path[64], state = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", waiter);
	FILE *file = fopen(path, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'S';
}
int main(void)
{
	pthread_t other;
	pthread_create(&other, 0, wait_for_it, 0);
	for (int done = 0; done < 20;) {
		pthread_mutex_lock(&lock);
		int ready = awaited == turn && sleeps();
		if (ready)
			done = ++turn;
		pthread_mutex_unlock(&lock);
		if (ready)
			pthread_cond_broadcast(&told);
		usleep(200);
	}
	pthread_join(other, 0);
	return 0;
}
"#;

/// bcc's futexctn, perf's futex-contention and SystemTap's futexes look at FUTEX_WAIT alone (`op & FUTEX_CMD_MASK == FUTEX_WAIT`):
/// of waits on conditions they see none.
#[test]
fn waits_that_a_look_at_futex_wait_alone_misses_are_counted() {
    if !privileged("counting futex calls in the kernel") {
        return;
    }
    let bench = Bench::of_text(BROADCASTS, &[]);
    let ended = bench.run(&["-q", "--threshold", "1ns"]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary = bench.summary();
    let classes = summary["results"]["classes"].as_array().expect("a list");
    let class = classes.iter().find(|one| one["class"] == "broadcast-wait").expect("all are listed");
    assert_eq!(number(class, "/timed/count"), 20, "{summary}");
    let operations = summary["futex"]["operations"].as_array().expect("a list");
    let woken = |name: &str| {
        let found = operations.iter().find(|one| one["operation"] == name);
        found.map_or(0, |one| number(one, "/woken"))
    };
    assert!(woken("FUTEX_WAIT_BITSET") >= 20, "{operations:?}");
    // Only who finds the lock taken makes a FUTEX_WAIT, which hardly ever happens here.
    assert!(woken("FUTEX_WAIT") < 20, "{operations:?}");
}

#[test]
fn a_process_that_runs_is_looked_at_from_the_kernel() {
    if !privileged("looking at a process that runs") {
        return;
    }
    // For as long as it is let, and not so fast that there is much to read.
    let text =
        BATON.replace("i < 200", "i < 2000000000").replace("turn = !turn;", "turn = !turn, usleep(200);");
    let bench = Bench::of_text(&text, &[]);
    let mut program = std::process::Command::new(bench.program())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = program.id().to_string();
    let look = |options: &[&str]| {
        let words =
            [&["sync", "--json", "--threshold", "1ns", "--pid", &pid, "--for", "300ms"], options].concat();
        bench.quaver(&words).output().expect("it runs")
    };
    let ended = look(&[]);
    let probed = look(&["--uprobes"]);
    program.kill().expect("it still runs");
    program.wait().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary: Value = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    assert_eq!(summary["events_from"], "kernel");
    assert!(number(&summary, "/futex/calls") > 0);
    assert!(summary["warnings"].to_string().contains("only system calls"));
    assert!(summary["facts"]["kernel"]["uprobes"].is_null());
    if cfg!(all(feature = "bpf", target_arch = "x86_64")) {
        assert_probed(&probed);
    }
}

/// The passing of the baton is told by conditions and not by futexes, and what that cost is told.
fn assert_probed(ended: &std::process::Output) {
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{told}");
    let summary: Value = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    let probes = &summary["facts"]["kernel"]["uprobes"];
    assert!(probes["functions"].to_string().contains("pthread_cond_broadcast"), "{probes}");
    assert!(number(probes, "/calls") > 0, "{probes}");
    let (emulated, stepped) = (number(probes, "/emulated_ns"), number(probes, "/stepped_ns"));
    assert!(0 < emulated && emulated < stepped, "{probes}");
    assert!(summary["warnings"].to_string().contains("probes stopped it"), "{}", summary["warnings"]);
    let classes = summary["results"]["classes"].as_array().expect("a list");
    let timed = |class: &str| {
        number(classes.iter().find(|one| one["class"] == class).expect("listed"), "/timed/count")
    };
    assert!(timed("broadcast-wait") > 0 && timed("broadcast") > 0, "{classes:?}");
}
