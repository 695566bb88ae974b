//! Runtimes that wait by futex calls of their own: what `quaver sync` finds of their waits is what the programs measure themselves.

mod sync_run;

use quaver_testbed::privileged::{Lack, privileged, skip};
use serde_json::Value;
use std::process::Command;
use sync_run::{Bench, before_others, number};

/// Part of the program's own time by which what is found may differ.
const TOLERANCE: f64 = 0.02;

/// Threads of OpenMP that work for unequal times and then wait at a barrier, and what its own clock says of the waiting.
/// The schedule of the loop is `SCHEDULE`.
const OPENMP: &str = r#"
#include <omp.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
int main(void)
{
	long waited = 0;
	#pragma omp parallel num_threads(4) reduction(+ : waited)
	for (int turn = 0; turn < 60; turn++) {
		#pragma omp for schedule(SCHEDULE) nowait
		for (int item = 0; item < 8; item++)
			usleep(item ? 500 : 12000);
		long from = now();
		#pragma omp barrier
		waited += now() - from;
	}
	printf("%ld\n", waited);
	return 0;
}
"#;

/// A thread waits for a C++20 atomic that another one changes.
const ATOMIC: &str = r#"
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
int main()
{
	std::atomic<int> turn{0};
	long waited = 0;
	std::thread waiter([&] {
		for (int want = 1; want <= 50; want++) {
			auto from = std::chrono::steady_clock::now();
			for (int seen = turn.load(); seen < want; seen = turn.load())
				turn.wait(seen);
			waited += std::chrono::nanoseconds(std::chrono::steady_clock::now() - from).count();
		}
	});
	for (int at = 1; at <= 50; at++) {
		std::this_thread::sleep_for(std::chrono::milliseconds(8));
		turn = at;
		turn.notify_all();
	}
	waiter.join();
	std::printf("%ld\n", waited);
}
"#;

/// A thread waits for a mutex of the standard library that another one holds for 8 ms.
const RUST: &str = r#"
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
fn main() {
    let (lock, meet) = (Arc::new(Mutex::new(())), Arc::new(Barrier::new(2)));
    let (theirs, met) = (lock.clone(), meet.clone());
    let holder = std::thread::spawn(move || {
        for _ in 0..50 {
            let held = theirs.lock().unwrap();
            met.wait();
            std::thread::sleep(Duration::from_millis(8));
            drop(held);
            met.wait();
        }
    });
    let mut waited = Duration::ZERO;
    for _ in 0..50 {
        let from = Instant::now();
        meet.wait();
        drop(lock.lock().unwrap());
        meet.wait();
        waited += from.elapsed();
    }
    holder.join().unwrap();
    println!("{}", waited.as_nanos());
}
"#;

/// Goroutines that each keep a thread of the system, and hand a token round.
const GO: &str = r#"
package main

import (
	"fmt"
	"runtime"
	"time"
)

func main() {
	there, back := make(chan int), make(chan int)
	go func() {
		runtime.LockOSThread()
		for turn := range there {
			time.Sleep(5 * time.Millisecond)
			back <- turn
		}
	}()
	runtime.LockOSThread()
	var waited time.Duration
	for turn := 0; turn < 60; turn++ {
		there <- turn
		from := time.Now()
		<-back
		waited += time.Since(from)
	}
	fmt.Println(waited.Nanoseconds())
}
"#;

/// Two threads of OpenMP that compute for unequal times and then wait at a barrier. It tells what CPU time that took, and what time.
const UNEQUAL: &str = r#"
#include <omp.h>
#include <stdio.h>
#include <time.h>
static long by(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
static volatile long sum;
int main(void)
{
	long spun = 0, waited = 0;
	#pragma omp parallel num_threads(2) reduction(+ : spun, waited)
	for (int turn = 0; turn < 100; turn++) {
		long until = by(CLOCK_THREAD_CPUTIME_ID) + (omp_get_thread_num() ? 4000000 : 16000000);
		while (by(CLOCK_THREAD_CPUTIME_ID) < until)
			for (int i = 0; i < 2000; i++)
				sum += i;
		long from = by(CLOCK_THREAD_CPUTIME_ID), since = by(CLOCK_MONOTONIC);
		#pragma omp barrier
		spun += by(CLOCK_THREAD_CPUTIME_ID) - from;
		waited += by(CLOCK_MONOTONIC) - since;
	}
	printf("%ld %ld\n", spun, waited);
	return 0;
}
"#;

/// Two threads on one CPU. One computes; the other gives its CPU away until that is done. It tells how long it waited so.
const YIELDS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
static long by(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
static volatile int done;
static volatile long sum;
static void *compute(void *none)
{
	for (int turn = 1; turn <= 40; turn++) {
		long until = by(CLOCK_THREAD_CPUTIME_ID) + 10000000;
		while (by(CLOCK_THREAD_CPUTIME_ID) < until)
			for (int i = 0; i < 2000; i++)
				sum += i;
		done = turn;
	}
	return none;
}
int main(void)
{
	cpu_set_t one;
	pthread_t other;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_create(&other, 0, compute, 0);
	long from = by(CLOCK_MONOTONIC);
	while (done < 40)
		sched_yield();
	printf("%ld\n", by(CLOCK_MONOTONIC) - from);
	pthread_join(other, 0);
	return 0;
}
"#;

/// Time that threads spent in waits which are known.
fn waited_ns(summary: &Value) -> u64 {
    let threads = summary["results"]["threads"].as_array().expect("a list");
    threads.iter().map(|thread| number(thread, "/waited_ns")).sum()
}

fn own_ns(output: &std::process::Output) -> u64 {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("the program's own time alone")
}

fn assert_agrees(found_ns: u64, own_ns: u64, summary: &Value) {
    let apart = found_ns.abs_diff(own_ns) as f64 / own_ns as f64;
    assert!(apart <= TOLERANCE, "{found_ns} ns found, {own_ns} ns by its own clock: {}", summary["results"]);
}

fn assert_openmp(schedule: &str) {
    let text = OPENMP.replace("SCHEDULE", schedule);
    let bench = Bench::of_text(&text, &["-fopenmp"]);
    let ended = bench.sync(&["--threshold", "1ns"]).env("OMP_WAIT_POLICY", "passive").output();
    let ended = ended.expect("the program runs");
    let summary = bench.summary();
    assert_agrees(waited_ns(&summary), own_ns(&ended), &summary);
    let both = &summary["futex"]["reconciled"];
    assert!(number(both, "/waits_outside") >= 100, "{both}");
    assert_eq!(both["waits_outside"], both["waits_followed"], "{both}");
    let classes = summary["results"]["classes"].as_array().expect("a list");
    let class = classes.iter().find(|one| one["class"] == "broadcast-wait").expect("all are listed");
    assert!(number(class, "/late/count") >= 100, "{class}");
    let worst = summary["objects"][0]["name"].as_str().expect("it has a name");
    assert!(worst.starts_with("OpenMP (libgomp) barrier"), "{worst}");
    assert!(!summary["warnings"].to_string().contains("in no figure"), "{}", summary["warnings"]);
    let coverage = &summary["results"]["coverage"];
    assert_eq!(coverage["wake_ups"], coverage["matched"], "{coverage}");
}

#[test]
fn waits_of_openmp_are_those_that_the_program_measures() {
    if !privileged("waits of OpenMP") {
        return;
    }
    let _alone = before_others();
    assert_openmp("static");
    assert_openmp("dynamic, 1");
}

/// What UNEQUAL says of its CPU time and its time at the barrier, and what is found of spinning and of futex waits.
fn unequal(policy: &str) -> ([u64; 2], [u64; 2], Value) {
    let bench = Bench::of_text(UNEQUAL, &["-fopenmp"]);
    let ended = bench.sync(&[]).env("OMP_WAIT_POLICY", policy).output().expect("the program runs");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let text = String::from_utf8_lossy(&ended.stdout);
    let own: Vec<u64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let summary = bench.summary();
    let threads = summary["contention"]["threads"].as_array().expect("a list");
    let sum = |key: &str| threads.iter().map(|thread| number(thread, key)).sum::<u64>();
    ([own[0], own[1]], [sum("/spin_ns"), sum("/futex_ns")], summary)
}

#[test]
fn active_waiting_is_spinning_and_not_execution() {
    if !privileged("samples of threads that spin") {
        return;
    }
    let _alone = before_others();
    let ([spun_ns, _], [found_ns, slept_ns], summary) = unequal("active");
    let threads = summary["contention"]["threads"].as_array().expect("a list");
    let sum = |key: &str| threads.iter().filter_map(|thread| thread[key].as_u64()).sum::<u64>();
    let unsampled_ns = sum("unsampled_ns");
    // A thousand samples of a share of 0.75: six standard deviations. A host that holds timers up takes samples away, which the
    // run says.
    assert!(
        found_ns.abs_diff(spun_ns) <= spun_ns / 10 + unsampled_ns,
        "{found_ns} ns found, {spun_ns} ns by its own clock, {unsampled_ns} ns without samples"
    );
    let warned = summary["warnings"].to_string().contains("did not come when due");
    let ran_ns = sum("execution_ns") + sum("spin_ns");
    assert_eq!(warned, unsampled_ns * 10 > ran_ns, "{unsampled_ns} of {ran_ns}: {}", summary["warnings"]);
    assert!(spun_ns > 600_000_000 && slept_ns * 20 < spun_ns, "{slept_ns} ns in futex waits: {spun_ns}");
    let path = &summary["results"]["critical_path"];
    let parts = ["execution", "sync_jitter", "other", "blocked", "slept", "spun"];
    let sum: u64 = parts.iter().map(|part| number(path, &format!("/{part}_ns"))).sum();
    assert_eq!(sum, number(path, "/length_ns"), "{path}");
    let ([spun_ns, waited_ns], [found_ns, slept_ns], _) = unequal("passive");
    assert!(
        found_ns * 20 <= waited_ns && spun_ns * 20 <= waited_ns,
        "{found_ns} and {spun_ns} ns of {waited_ns}"
    );
    assert!(slept_ns * 10 >= waited_ns * 8, "{slept_ns} ns in futex waits of {waited_ns}");
}

#[test]
fn a_thread_that_gives_its_cpu_away_waits_for_others_and_for_no_cpu() {
    if !privileged("threads that give their CPUs away") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of_text(YIELDS, &["-pthread"]);
    let ended = bench.sync(&[]).output().expect("the program runs");
    let waited_ns = own_ns(&ended);
    let summary = bench.summary();
    let threads = summary["contention"]["threads"].as_array().expect("a list");
    let pid = number(&summary, "/facts/pid");
    let initial = threads.iter().find(|thread| number(thread, "/thread") == pid).expect("it waits");
    // Entry and return of the calls are execution.
    assert!(
        waited_ns > 400_000_000 && number(initial, "/spin_ns") * 10 >= waited_ns * 8,
        "{waited_ns}: {initial}"
    );
    assert!(number(initial, "/run_queue_ns") * 20 <= waited_ns, "{waited_ns}: {initial}");
    let computes = threads.iter().find(|thread| number(thread, "/thread") != pid).expect("it computes");
    assert!(number(computes, "/execution_ns") > 390_000_000, "{computes}");
    assert!(number(computes, "/spin_ns") * 20 < waited_ns, "{computes}");
}

#[test]
fn without_the_kernels_side_a_sentence_counts_what_was_not_seen() {
    let _alone = before_others();
    let text = OPENMP.replace("SCHEDULE", "static");
    let bench = Bench::of_text(&text, &["-fopenmp"]);
    let ended = bench.sync(&["--tier", "user"]).env("OMP_WAIT_POLICY", "passive").output();
    own_ns(&ended.expect("the program runs"));
    let warnings = bench.summary()["warnings"].to_string();
    assert!(warnings.contains("in no figure") && warnings.contains("OpenMP (libgomp)"), "{warnings}");
}

#[test]
fn waits_of_atomics_in_cpp_are_those_that_the_program_measures() {
    if !privileged("waits of C++ atomics") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::by("c++", "program.cc", ATOMIC, &["-std=c++20", "-O1", "-pthread"]);
    let ended = bench.run(&["--threshold", "1ns"]);
    let summary = bench.summary();
    let own_ns = own_ns(&ended);
    // The main thread joins the other one at the end, which takes no time to speak of.
    assert_agrees(waited_ns(&summary), own_ns, &summary);
    assert!(number(&summary, "/results/classes/2/late/count") >= 40, "{}", summary["results"]["classes"]);
}

#[test]
fn waits_of_rusts_own_locks_are_those_that_the_program_measures() {
    if !privileged("waits of Rust's locks") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::by("rustc", "program.rs", RUST, &["-O"]);
    let ended = bench.run(&["--threshold", "1ns"]);
    let summary = bench.summary();
    // One word is the mutex; the holder and the waiter meet at another twice a turn.
    let own_ns = own_ns(&ended);
    let threads = summary["results"]["threads"].as_array().expect("a list");
    let initial = threads.iter().min_by_key(|thread| number(thread, "/first_ns")).expect("there are two");
    assert_agrees(number(initial, "/waited_ns"), own_ns, &summary);
    assert!(number(&summary, "/results/classes/0/late/count") >= 40, "{}", summary["results"]["classes"]);
}

#[test]
fn waits_of_go_are_those_that_the_program_measures() {
    let name = "waits of Go";
    if !privileged(name) {
        return;
    }
    if Command::new("go").arg("version").output().is_err() {
        return skip(name, Lack::Installed("go"));
    }
    let _alone = before_others();
    let bench = Bench::by("go", "program.go", GO, &["build"]);
    let ended = bench.run(&["--threshold", "1ns"]);
    let (summary, own_ns) = (bench.summary(), own_ns(&ended));
    assert_eq!(summary["events_from"], "kernel");
    // Threads of its pool wait for other things as well; the initial one only for its turn.
    let pid = number(&summary, "/facts/pid");
    let threads = summary["results"]["threads"].as_array().expect("a list");
    let initial = threads.iter().find(|thread| number(thread, "/thread") == pid).expect("it waits");
    assert_agrees(number(initial, "/waited_ns"), own_ns, &summary);
}
