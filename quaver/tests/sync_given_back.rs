//! Locks and barriers that are futex words, against programs that measure their waiting themselves: who gave a lock back, where, and
//! what that thread did; who came last to a barrier; and nobody blamed where a word is neither.

mod sync_run;

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Output;
use sync_run::{Bench, before_others, number};

/// Part of the program's own time by which what is found may differ.
const TOLERANCE: f64 = 0.02;

/// One thread sleeps 3 ms with a lock, the other computes 9 ms with it. Each prints the numbers of itself and of the other, and for how
/// long it waited until the other gave the lock back by that one's clock. Then three threads meet, the third of them always last: it
/// prints its number and for how long the others waited for it.
const RUST: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};
static LOCK: Mutex<()> = Mutex::new(());
static ZERO: OnceLock<Instant> = OnceLock::new();
static BACK: AtomicU64 = AtomicU64::new(0);
static IDS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static CAME: [[AtomicU64; 20]; 3] = [const { [const { AtomicU64::new(0) }; 20] }; 3];
fn now() -> u64 {
    ZERO.get().unwrap().elapsed().as_nanos() as u64
}
fn own() -> u64 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}
#[inline(always)]
fn turn(me: usize, hold: impl Fn()) {
    IDS[me].store(own(), SeqCst);
    let mut waited = 0;
    for _ in 0..30 {
        let from = now();
        let held = LOCK.lock().unwrap();
        waited += BACK.load(SeqCst).saturating_sub(from);
        hold();
        BACK.store(now(), SeqCst);
        drop(held);
        std::thread::sleep(Duration::from_micros(500));
    }
    println!("lock {} {} {waited}", own(), IDS[1 - me].load(SeqCst));
}
#[inline(never)]
fn short_hold() {
    turn(0, || std::thread::sleep(Duration::from_millis(3)));
}
#[inline(never)]
fn long_hold() {
    turn(1, || {
        let until = now() + 9_000_000;
        while now() < until {}
    });
}
fn meet(all: &Barrier, me: usize) {
    for at in 0..20 {
        std::thread::sleep(Duration::from_millis(if me == 2 { 9 } else { 3 }));
        CAME[me][at].store(now(), SeqCst);
        assert_eq!(all.wait().is_leader(), me == 2);
    }
    if me == 2 {
        let came = |one: usize, at: usize| CAME[one][at].load(SeqCst);
        let waited: u64 = (0..20).map(|at| 2 * came(2, at) - came(0, at) - came(1, at)).sum();
        println!("barrier {} 20 {waited}", own());
    }
}
fn main() {
    ZERO.set(Instant::now()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(short_hold);
        scope.spawn(long_hold);
    });
    let all = Barrier::new(3);
    std::thread::scope(|scope| (0..3).for_each(|me| drop(scope.spawn({ let all = &all; move || meet(all, me) }))));
}
"#;

/// Three threads have a lock for different times, and some take it again before the thread that was woken runs. Whoever has it notes
/// from when to when. From that follows for whom each waited: it prints the numbers of both and the nanoseconds.
const RUST_THREE: &str = r#"
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};
static HOLDS: Mutex<Vec<(u64, u64, u64)>> = Mutex::new(Vec::new());
fn run(zero: Instant, begin: &Barrier, hold_us: u64, pause_us: u64) -> Vec<(u64, u64, u64)> {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    let own: u64 = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let now = || zero.elapsed().as_nanos() as u64;
    begin.wait();
    let mut waits = Vec::new();
    for _ in 0..60 {
        let from = now();
        let mut holds = HOLDS.lock().unwrap();
        let got = now();
        waits.push((own, from, got));
        std::thread::sleep(Duration::from_micros(hold_us));
        holds.push((own, got, now()));
        drop(holds);
        std::thread::sleep(Duration::from_micros(pause_us));
    }
    waits
}
fn main() {
    let (zero, begin) = (Instant::now(), Barrier::new(3));
    let mut waits = Vec::new();
    std::thread::scope(|scope| {
        let kinds: [(u64, u64); 3] = [(3000, 10), (1000, 10), (300, 4000)];
        let begin = &begin;
        let all = kinds.map(|(hold, pause)| scope.spawn(move || run(zero, begin, hold, pause)));
        all.into_iter().for_each(|one| waits.extend(one.join().unwrap()));
    });
    let mut sums = std::collections::BTreeMap::new();
    for (waiter, from, got) in &waits {
        for (owner, since, until) in HOLDS.lock().unwrap().iter() {
            *sums.entry((*waiter, *owner)).or_insert(0) += (*until).min(*got).saturating_sub((*since).max(*from));
        }
    }
    sums.iter().for_each(|((waiter, owner), ns)| println!("lock {waiter} {owner} {ns}"));
}
"#;

/// The same with `omp critical`, `omp_set_lock` and `omp barrier`.
const OPENMP: &str = r#"
#define _GNU_SOURCE
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
static omp_lock_t lock;
static long back, waited[2], came[3][20], for_last;
static int ids[3];
static void hold(int me, long from)
{
	waited[me] += back > from ? back - from : 0;
	if (me == 0)
		usleep(3000);
	else
		for (long until = now() + 9000000; now() < until;)
			;
	back = now();
}
static void turns(int me, int by_critical)
{
	waited[me] = 0;
	for (int i = 0; i < 30; i++) {
		long from = now();
		if (by_critical) {
#pragma omp critical
			hold(me, from);
		} else {
			omp_set_lock(&lock);
			hold(me, from);
			omp_unset_lock(&lock);
		}
		usleep(500);
	}
}
int main(void)
{
	omp_init_lock(&lock);
	for (int by_critical = 0; by_critical < 2; by_critical++) {
		back = 0;
#pragma omp parallel num_threads(2)
		{
			ids[omp_get_thread_num()] = gettid();
			turns(omp_get_thread_num(), by_critical);
		}
		printf("%s %d %d %ld\n", by_critical ? "critical" : "lock", ids[0], ids[1], waited[0]);
		printf("%s %d %d %ld\n", by_critical ? "critical" : "lock", ids[1], ids[0], waited[1]);
	}
#pragma omp parallel num_threads(3)
	{
		int me = omp_get_thread_num();
		ids[me] = gettid();
		for (int i = 0; i < 20; i++) {
			usleep(me == 2 ? 9000 : 3000);
			came[me][i] = now();
#pragma omp barrier
		}
	}
	for (int i = 0; i < 20; i++)
		for_last += 2 * came[2][i] - came[0][i] - came[1][i];
	printf("barrier %d 20 %ld\n", ids[2], for_last);
	return 0;
}
"#;

/// Three threads meet at a barrier and, the second of them last, at a latch. Then two hand a word to each other one by one, as if it
/// were a lock, and three wait for a flag that the initial thread sets.
const CPP: &str = r#"
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <latch>
#include <thread>
#include <unistd.h>
#include <vector>
static std::barrier<> all{3};
static std::latch done{3};
static std::atomic<int> turn{0}, flag{0};
static long came[3][21];
static long now()
{
	return std::chrono::steady_clock::now().time_since_epoch().count();
}
static void meet(int me)
{
	for (int i = 0; i < 20; i++) {
		usleep(me == 2 ? 9000 : 3000);
		came[me][i] = now();
		all.arrive_and_wait();
	}
	usleep(me == 1 ? 20000 : 1000);
	came[me][20] = now();
	done.arrive_and_wait();
	long waited = 0;
	for (int i = 0; i < 20; i++)
		waited += 2 * came[2][i] - came[0][i] - came[1][i];
	if (me == 2)
		std::printf("barrier %d 20 %ld\n", gettid(), waited);
	if (me == 1)
		std::printf("latch %d 1 %ld\n", gettid(), 2 * came[1][20] - came[0][20] - came[2][20]);
}
static void hand_on(int me)
{
	for (int i = 0; i < 20; i++) {
		while (turn.load() != me)
			turn.wait(1 - me);
		usleep(2000);
		turn.store(1 - me);
		turn.notify_one();
	}
}
static void follow()
{
	for (int seen = 0; seen < 10; seen++)
		flag.wait(seen);
}
int main()
{
	std::vector<std::thread> threads;
	for (int me = 0; me < 3; me++)
		threads.emplace_back(meet, me);
	for (int me = 0; me < 2; me++)
		threads.emplace_back(hand_on, me);
	for (int me = 0; me < 3; me++)
		threads.emplace_back(follow);
	for (int i = 0; i < 10; i++) {
		usleep(10000);
		flag++;
		flag.notify_all();
	}
	for (auto &thread : threads)
		thread.join();
	return 0;
}
"#;

/// A line of a program: what is meant, two numbers and nanoseconds.
type Own = BTreeMap<String, Vec<(u64, u64, u64)>>;

fn own(ended: &Output) -> Own {
    let page = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{page}");
    let mut own = Own::new();
    for line in String::from_utf8_lossy(&ended.stdout).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().expect("a number");
        own.entry(words[0].to_owned()).or_default().push((number(1), number(2), number(3)));
    }
    own
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a Vec<Value> {
    value.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

/// How long these threads stood in run queues. That may be between a stamp of their own and the call that it is meant for.
fn queued_ns(summary: &Value, threads: &[u64]) -> u64 {
    let all = list(summary, "/contention/threads").iter();
    let such = all.filter(|one| threads.contains(&number(one, "/thread")));
    such.map(|one| number(one, "/run_queue_ns")).sum()
}

fn assert_near(found_ns: u64, own_ns: u64, queued_ns: u64, of: &Value) {
    let most_ns = (own_ns as f64 * TOLERANCE) as u64 + queued_ns;
    let apart_ns = found_ns.abs_diff(own_ns);
    assert!(
        apart_ns <= most_ns,
        "{found_ns} ns found, {own_ns} ns by its own clock, {queued_ns} ns queued: {of}"
    );
}

/// The row of a lock says of each thread for whom it waited, and where those gave it back. The first thread of `own` sleeps with the
/// lock, the second computes.
fn assert_owners(summary: &Value, word: &Value, own: &[(u64, u64, u64)], functions: [&str; 2]) {
    let queued_ns = queued_ns(summary, &[own[0].0, own[1].0]);
    let lock = &word["given_back"];
    let pairs = list(lock, "/pairs");
    assert_eq!((pairs.len(), own.len()), (2, 2), "{lock}");
    let functions_of = list(lock, "/owner_functions");
    for ((waiter, owner, own_ns), at) in own.iter().zip(functions) {
        let pair = pairs.iter().find(|pair| number(pair, "/waiter") == *waiter).expect("it waited");
        assert_eq!(number(pair, "/owner"), *owner, "{lock}");
        assert_near(number(pair, "/total_ns"), *own_ns, queued_ns, lock);
        assert!(functions_of.iter().any(|one| one["name"].to_string().contains(at)), "{at}: {lock}");
    }
    let parts = ["held_ns", "handed_over_ns", "owner_unknown_ns"].map(|part| lock[part].as_u64().unwrap());
    assert_eq!(parts.iter().sum::<u64>(), number(word, "/wait/total_ns"), "{lock}");
    // The second thread waited for the one that sleeps, which may stand in a run queue afterwards.
    let [ran, queued, slept] = [0, 1, 2].map(|at| lock["owner_ns"][at].as_u64().expect("a number"));
    let most = |ns: u64| ns + ns / 50 + queued_ns;
    assert!(slept <= most(own[1].2) && 2 * slept > own[1].2, "{slept} ns asleep: {lock}");
    assert!(ran <= most(own[0].2) && 2 * ran > own[0].2, "{ran} ns on a CPU: {lock}");
    assert_eq!(ran + queued + slept, number(lock, "/held_ns"), "{lock}");
    assert_eq!(lock["owner_calls"][0]["name"], "clock_nanosleep", "{lock}");
}

/// The row of a barrier says who came last. `more`: rounds without its own clock, in which all come at once.
fn assert_last(summary: &Value, barrier: &Value, (thread, rounds, own_ns): (u64, u64, u64), more: u64) {
    let last = &barrier["last"][0];
    assert_eq!((number(last, "/thread"), number(barrier, "/rounds")), (thread, rounds + more), "{barrier}");
    assert!((rounds..=rounds + more).contains(&number(last, "/rounds")), "{barrier}");
    let threads = list(summary, "/contention/threads").iter().map(|one| number(one, "/thread"));
    let queued_ns = queued_ns(summary, &threads.collect::<Vec<_>>());
    assert_near(number(last, "/total_ns"), own_ns, queued_ns, barrier);
    assert_eq!(number(barrier, "/threads"), 3, "{barrier}");
}

/// Rows of words and barriers whose runtime is this.
fn of<'a>(rows: &'a [Value], label: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["name"].as_str().is_some_and(|name| name.starts_with(label))).collect()
}

#[test]
fn who_gave_back_a_lock_of_rust_is_known_and_who_came_last() {
    if !privileged("who woke the waiters of a futex word") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::by("rustc", "program.rs", RUST, &["-O", "-g"]);
    let ended = bench.run(&[]);
    let (own, summary) = (own(&ended), bench.summary());
    let words = list(&summary, "/contention/words");
    let word = of(words, "Rust lock, program::LOCK")[0];
    // Who sleeps with it is printed first or second: both threads end at any time.
    let mut locks = own["lock"].clone();
    let barrier = own["barrier"][0];
    let longest = locks.iter().map(|one| one.2).max();
    locks.sort_by_key(|one| Some(one.2) != longest);
    assert_owners(&summary, word, &locks, ["program::long_hold", "program::short_hold"]);
    assert_last(&summary, of(list(&summary, "/contention/barriers"), "Rust barrier")[0], barrier, 0);
    let page = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("gave it back in program::turn"), "{page}");
    assert!(page.contains("It came last in 20 of 20 rounds"), "{page}");
}

#[test]
fn each_of_three_threads_waited_for_each_as_long_as_that_had_the_lock() {
    if !privileged("who woke the waiters of a futex word") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::by("rustc", "program.rs", RUST_THREE, &["--edition", "2021", "-O"]);
    let (own, summary) = (own(&bench.run(&[])), bench.summary());
    let word = of(list(&summary, "/contention/words"), "Rust lock, program::HOLDS")[0];
    let pairs = list(word, "/given_back/pairs");
    let threads: Vec<u64> = own["lock"].iter().map(|one| one.0).collect();
    let queued_ns = queued_ns(&summary, &threads);
    // Who waited 10 ms and more for one thread.
    let long: Vec<_> = own["lock"].iter().filter(|one| one.2 >= 10_000_000).collect();
    assert!(long.len() >= 3, "{own:?}");
    for (waiter, owner, own_ns) in long {
        let such = |pair: &&Value| (number(pair, "/waiter"), number(pair, "/owner")) == (*waiter, *owner);
        assert_near(
            number(pairs.iter().find(such).expect("it waited"), "/total_ns"),
            *own_ns,
            queued_ns,
            word,
        );
    }
    assert!(pairs.iter().all(|pair| pair["waiter"] != pair["owner"]), "{word}");
}

#[test]
fn who_gave_back_a_lock_of_openmp_is_known_and_who_came_last() {
    if !privileged("who woke the waiters of a futex word") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of_text(OPENMP, &["-fopenmp"]);
    let ended = bench.sync(&[]).env("OMP_WAIT_POLICY", "passive").output().expect("the program runs");
    let (own, summary) = (own(&ended), bench.summary());
    let locks = of(list(&summary, "/contention/words"), "OpenMP (libgomp) lock");
    let (named, others): (Vec<&Value>, Vec<&Value>) =
        locks.into_iter().partition(|word| word["name"] == "OpenMP (libgomp) lock, lock");
    assert_owners(&summary, named[0], &own["lock"], ["libgomp."; 2]);
    assert_owners(&summary, others[0], &own["critical"], ["libgomp."; 2]);
    assert_last(
        &summary,
        of(list(&summary, "/contention/barriers"), "OpenMP (libgomp) barrier")[0],
        own["barrier"][0],
        1,
    );
}

#[test]
fn barriers_of_cpp_have_a_last_thread_and_its_atomics_have_no_owner() {
    if !privileged("who woke the waiters of a futex word") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::by("c++", "program.cc", CPP, &["-std=c++20", "-O1", "-g", "-pthread"]);
    let ended = bench.run(&[]);
    let (own, summary) = (own(&ended), bench.summary());
    let barriers = list(&summary, "/contention/barriers");
    assert_last(&summary, of(barriers, "C++ barrier")[0], own["barrier"][0], 0);
    assert_last(&summary, of(barriers, "C++ latch")[0], own["latch"][0], 0);
    assert!(barriers.iter().all(|one| !one["name"].to_string().contains("atomic wait")), "{barriers:?}");
    let words = list(&summary, "/contention/words");
    // The C library has locks of its own, which do have owners.
    let atomics = of(words, "C++");
    assert!(atomics.iter().all(|word| word["given_back"].is_null()), "{atomics:?}");
    let turn = words.iter().find(|word| word["name"] == "C++ atomic wait, turn").expect("two waited on it");
    assert!(number(turn, "/woken") >= 20, "{turn}");
}
