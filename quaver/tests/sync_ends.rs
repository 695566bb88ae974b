//! Waits for locks that no unlock ends, against programs that measure their waiting themselves: time-outs beside a second lock of the
//! same owner, owners that die, deadlocks, words of Rust; and readers that wait behind a writer that goes first.

mod sync_run;

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use sync_run::{Bench, before_others, number};

/// Part of the program's own time by which what is found may differ.
const TOLERANCE: f64 = 0.02;

/// A clock, and calls whose time is added up.
const COMMON: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long waited;
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
#define TIMED(call) ({ long from_ = now(); int result_ = (call); __atomic_fetch_add(&waited, now() - from_, __ATOMIC_RELAXED); result_; })
static int own_number(void) { return syscall(SYS_gettid); }
static pthread_barrier_t begin;
"#;

/// An owner of two locks sleeps longer than others are ready to wait for them.
const BOTH: &str = r#"
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t second = PTHREAD_RWLOCK_INITIALIZER;
static struct timespec soon(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	time.tv_nsec += 4000000;
	if (time.tv_nsec >= 1000000000) {
		time.tv_sec++;
		time.tv_nsec -= 1000000000;
	}
	return time;
}
static void *own(void *unused)
{
	printf("owner %d\n", own_number());
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&first);
		pthread_rwlock_wrlock(&second);
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&begin);
		pthread_rwlock_unlock(&second);
		pthread_mutex_unlock(&first);
		pthread_barrier_wait(&begin);
	}
	return unused;
}
static void *ask(void *for_second)
{
	for (int i = 0; i < 20; i++) {
		pthread_barrier_wait(&begin);
		struct timespec until = soon();
		int result = for_second ? TIMED(pthread_rwlock_clockrdlock(&second, CLOCK_MONOTONIC, &until))
					: TIMED(pthread_mutex_clocklock(&first, CLOCK_MONOTONIC, &until));
		if (result != ETIMEDOUT)
			exit(1);
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&begin);
	}
	return for_second;
}
int main(void)
{
	pthread_t threads[3];
	pthread_barrier_init(&begin, 0, 3);
	pthread_create(&threads[0], 0, own, 0);
	pthread_create(&threads[1], 0, ask, 0);
	pthread_create(&threads[2], 0, ask, &begin);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	printf("waited %ld\n", waited);
	return 0;
}
"#;

/// Owners of a robust mutex end: a thread returns, a process is killed.
const DIE: &str = r#"
static pthread_mutex_t *shared;
static volatile int *has;
static void *end(void *unused)
{
	pthread_mutex_lock(shared);
	*has = own_number();
	usleep(20000);
	return unused;
}
static void *take(void *unused)
{
	if (TIMED(pthread_mutex_lock(shared)) != EOWNERDEAD)
		exit(1);
	pthread_mutex_consistent(shared);
	pthread_mutex_unlock(shared);
	return unused;
}
int main(void)
{
	pthread_mutexattr_t kind;
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
	shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutex_init(shared, &kind);
	has = (int *)shared + 200;
	for (int i = 0; i < 8; i++) {
		pthread_t owner, waiter;
		int child = 0;
		*has = 0;
		if (i & 1) {
			pthread_create(&owner, 0, end, 0);
		} else if (!(child = fork())) {
			pthread_mutex_lock(shared);
			*has = own_number();
			for (;;)
				pause();
		}
		while (!*has)
			;
		printf("owner %d\n", *has);
		fflush(stdout);
		pthread_create(&waiter, 0, take, 0);
		usleep(15000);
		if (child)
			kill(child, SIGKILL);
		pthread_join(waiter, 0);
		if (child)
			waitpid(child, 0, 0);
		else
			pthread_join(owner, 0);
	}
	printf("waited %ld\n", waited);
	return 0;
}
"#;

/// Two threads each want what the other one has, until the program is ended.
const STUCK: &str = r#"
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void want(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	asm volatile("");
}
static void *run(void *is_second)
{
	printf("owner %d\n", own_number());
	pthread_mutex_lock(is_second ? &right : &left);
	pthread_barrier_wait(&begin);
	want(is_second ? &left : &right);
	return is_second;
}
int main(int count, char **words)
{
	pthread_t threads[2];
	pthread_barrier_init(&begin, 0, 3);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, run, i ? &begin : 0);
	pthread_barrier_wait(&begin);
	long since = now();
	usleep(400000);
	printf("waited %ld\n", 2 * (now() - since));
	fflush(stdout);
	_exit(6);
}
"#;

/// Two threads of Rust each want what the other one has, and a third waits for a condition that was notified before. A signal ends the
/// program. Each prints how long after its start it began to wait; the signal comes a second after that.
const RUST_STUCK: &str = r#"
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
extern "C" { fn alarm(seconds: u32) -> u32; }
static LEFT: Mutex<()> = Mutex::new(());
static RIGHT: Mutex<()> = Mutex::new(());
static EMPTY: Mutex<()> = Mutex::new(());
static NEWS: Condvar = Condvar::new();
fn wants(zero: Instant, has: &Mutex<()>, wants: &Mutex<()>) {
    let _has = has.lock().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    println!("began {}", zero.elapsed().as_nanos());
    let _both = wants.lock().unwrap();
}
fn main() {
    let zero = Instant::now();
    unsafe { alarm(1) };
    NEWS.notify_one();
    std::thread::scope(|scope| {
        scope.spawn(|| wants(zero, &LEFT, &RIGHT));
        scope.spawn(|| wants(zero, &RIGHT, &LEFT));
        scope.spawn(|| {
            let empty = EMPTY.lock().unwrap();
            println!("began {}", zero.elapsed().as_nanos());
            drop(NEWS.wait(empty).unwrap());
        });
    });
}
"#;

/// Of a lock that prefers writers: a slow reader has it, a writer waits, a quick reader comes.
const BEHIND: &str = r#"
static pthread_rwlock_t table;
static void *slow(void *unused)
{
	printf("owner %d\n", own_number());
	for (int i = 0; i < 20; i++) {
		pthread_rwlock_rdlock(&table);
		pthread_barrier_wait(&begin);
		usleep(10000);
		pthread_rwlock_unlock(&table);
		pthread_barrier_wait(&begin);
	}
	return unused;
}
static void *ask(void *writes)
{
	for (int i = 0; i < 20; i++) {
		pthread_barrier_wait(&begin);
		usleep(writes ? 1000 : 4000);
		TIMED(writes ? pthread_rwlock_wrlock(&table) : pthread_rwlock_rdlock(&table));
		pthread_rwlock_unlock(&table);
		pthread_barrier_wait(&begin);
	}
	return writes;
}
int main(void)
{
	pthread_t threads[3];
	pthread_rwlockattr_t kind;
	pthread_rwlockattr_init(&kind);
	pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&table, &kind);
	pthread_barrier_init(&begin, 0, 3);
	pthread_create(&threads[0], 0, slow, 0);
	pthread_create(&threads[1], 0, ask, &begin);
	pthread_create(&threads[2], 0, ask, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	printf("waited %ld\n", waited);
	return 0;
}
"#;

/// A run of one of them.
struct Run {
    /// What its threads waited by its own clock.
    own_ns: u64,
    /// Threads that it waited for, as it says.
    owners: Vec<u64>,
    locks: Vec<Value>,
    summary: Value,
    page: String,
}

impl Run {
    fn of(text: &str, options: &[&str], status: i32) -> Self {
        let bench = Bench::of_text(&format!("{COMMON}{text}"), &["-g"]);
        let ended = bench.run(options);
        let page = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ended.status.code(), Some(status), "{page}");
        let lines = String::from_utf8(ended.stdout).expect("the program's own words, and nothing else");
        let after = |word: &str| -> Vec<u64> {
            let found = lines.lines().filter_map(|line| line.strip_prefix(word));
            found.map(|number| number.parse().expect("a number")).collect()
        };
        let summary = bench.summary();
        let locks = summary["contention"]["locks"].as_array().expect("a list").clone();
        Self { own_ns: after("waited ")[0], owners: after("owner "), locks, summary, page }
    }

    /// The sum of a figure over all locks.
    fn sum(&self, pointer: &str) -> u64 {
        self.locks.iter().map(|lock| number(lock, pointer)).sum()
    }

    fn is_own(&self, found_ns: u64) -> bool {
        found_ns.abs_diff(self.own_ns) as f64 <= TOLERANCE * self.own_ns as f64
    }

    /// What was waited for these owners.
    fn for_owners(&self) -> u64 {
        let pairs = self.locks.iter().flat_map(|lock| lock["pairs"].as_array().expect("a list"));
        let own = pairs.filter(|pair| self.owners.contains(&number(pair, "/owner")));
        own.map(|pair| number(pair, "/total_ns")).sum()
    }
}

#[test]
fn waits_that_run_out_were_for_an_owner_of_several_locks() {
    let _alone = before_others();
    let run = Run::of(BOTH, &["--tier", "user"], 0);
    assert!(run.is_own(run.sum("/wait/total_ns")), "{} ns: {}", run.own_ns, run.page);
    assert_eq!((run.sum("/wait/count"), run.sum("/owner_unknown_ns")), (40, 0), "{}", run.page);
    assert_eq!(run.for_owners(), run.sum("/outlasted_ns"));
    assert!(run.is_own(run.for_owners()), "{} ns: {}", run.own_ns, run.page);
}

#[test]
fn an_owner_that_dies_is_named() {
    let _alone = before_others();
    let run = Run::of(DIE, &["--tier", "user"], 0);
    assert_eq!(number(&run.summary, "/results/counts/owners_died"), 8);
    assert!(run.is_own(run.sum("/wait/total_ns")), "{} ns: {}", run.own_ns, run.page);
    assert_eq!(run.sum("/owner_unknown_ns"), 0, "{}", run.page);
    assert!(run.is_own(run.for_owners()), "{} ns: {}", run.own_ns, run.page);
}

/// Each of the two waited for the other one, in this function, from then to the end.
fn assert_stuck(run: &Run) {
    assert!(run.is_own(run.sum("/wait/total_ns")), "{} ns: {}", run.own_ns, run.page);
    assert_eq!(run.locks.len(), 2);
    for lock in &run.locks {
        assert_eq!(lock["patterns"], serde_json::json!(["deadlock"]), "{lock}");
        let pair = ["/deadlock/waiter", "/deadlock/owner"].map(|pointer| number(lock, pointer));
        assert!(pair[0] != pair[1] && pair.iter().all(|one| run.owners.contains(one)), "{lock}");
        // What an owner does that waits itself: 99 % of it at least, as it came a little later.
        let waited_ns = number(lock, "/owner_ns/3");
        assert!(waited_ns * 100 >= number(lock, "/held_ns") * 99, "{lock}");
        let function = lock["waiter_functions"][0]["name"].as_str().expect("it has a name");
        assert!(function.starts_with("want (program.c:"), "{lock}");
    }
    let advice = run.summary["advice"].as_array().expect("a list");
    let kinds: Vec<&Value> = advice.iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["lock-order"], "shorter holds end no deadlock");
    let change = advice[0]["change"].as_str().expect("words");
    assert!(change.contains("left") && change.contains("right"), "{change}");
    assert!(run.page.contains("Deadlock: for the last"), "{}", run.page);
    let unnamed = run.summary["contention"]["unnamed"].as_array().expect("a list");
    let of_program = |words: &&Value| words.as_str().is_some_and(|words| words.contains("program"));
    assert_eq!(unnamed.iter().find(of_program), None, "it has debug information");
}

#[test]
fn a_deadlock_is_named_with_both_threads_and_its_time() {
    let _alone = before_others();
    assert_stuck(&Run::of(STUCK, &["--tier", "user"], 6));
}

#[test]
fn a_deadlock_is_the_same_with_the_kernels_side() {
    if !privileged("the kernel's side of a deadlock") {
        return;
    }
    let _alone = before_others();
    assert_stuck(&Run::of(STUCK, &[], 6));
}

#[test]
fn a_reader_behind_a_writer_waits_for_the_reader_that_has_the_lock() {
    let _alone = before_others();
    let run = Run::of(BEHIND, &["--tier", "user"], 0);
    assert_eq!(run.locks[0]["name"], "table");
    assert!(run.is_own(run.sum("/wait/total_ns")), "{} ns: {}", run.own_ns, run.page);
    // The writer has it for no time.
    assert!(run.is_own(run.for_owners()), "{} of {} ns: {}", run.for_owners(), run.own_ns, run.page);
}

#[test]
fn a_program_all_of_whose_threads_wait_on_words_stood_still() {
    if !privileged("waits on futex words") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::by("rustc", "program.rs", RUST_STUCK, &["--edition", "2021", "-O"]);
    let ended = bench.run(&[]);
    let page = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ended.status.code(), Some(128 + 14), "{page}");
    let lines = String::from_utf8_lossy(&ended.stdout).into_owned();
    let began = lines.lines().map(|line| line["began ".len()..].parse::<u64>().expect("a number"));
    let own_ns: u64 = began.map(|began_ns| 1_000_000_000 - began_ns).sum();
    let contention = &bench.summary()["contention"];
    // The initial thread waits for the other three, parked.
    let all = contention["unended"].as_array().expect("a list");
    assert_eq!(all.len(), 4, "{all:?}");
    let of = |name: &str| -> Vec<&Value> {
        all.iter().filter(|one| one["name"].as_str().is_some_and(|words| words.starts_with(name))).collect()
    };
    let (locks, conditions) = (of("Rust lock, program::"), of("Rust condition, program::NEWS"));
    assert_eq!((locks.len(), conditions.len()), (2, 1), "{all:?}");
    let found_ns: u64 = locks.iter().chain(&conditions).map(|one| number(one, "/total_ns")).sum();
    assert!(found_ns.abs_diff(own_ns) as f64 <= TOLERANCE * own_ns as f64, "{own_ns} ns: {all:?}");
    // Only who waits for a condition may have missed what was said before.
    let unheard: Vec<&Value> = all.iter().filter(|one| one["after_unheard"] == true).collect();
    assert_eq!(unheard, conditions, "{page}");
    assert_eq!(number(contention, "/standstills/0/threads"), 4, "{page}");
    let still_ns = number(contention, "/standstills/0/total_ns");
    assert_eq!(Some(still_ns), all.iter().map(|one| number(one, "/total_ns")).min(), "{page}");
    assert!(
        page.contains("The program stood still for its last") && page.contains("may have been lost"),
        "{page}"
    );
    // Shorter holds end no such wait, and a run that stood still is no base for a replay.
    let advice = bench.summary()["advice"].as_array().expect("a list").clone();
    assert!(advice.iter().all(|one| one["kind"] != "contended-word" && one["gain"].is_null()), "{advice:?}");
}

/// A worker that has no work when the program ends in order. The first call of it came before it waited.
const IDLE_AT_THE_END: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static void *worker(void *none)
{
	usleep(20000);
	pthread_mutex_lock(&lock);
	for (;;)
		pthread_cond_wait(&work, &lock);
	return none;
}
int main(void)
{
	pthread_t one;
	pthread_create(&one, 0, worker, 0);
	pthread_mutex_lock(&lock);
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	usleep(100000);
	return 0;
}
"#;

#[test]
fn of_a_wait_at_an_end_in_order_no_lost_signal_is_suspected() {
    let bench = Bench::of_text(IDLE_AT_THE_END, &["-g"]);
    let ended = bench.run(&[]);
    let page = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ended.status.code(), Some(0), "{page}");
    let contention = &bench.summary()["contention"];
    assert_eq!(
        (&contention["unended"][0]["after_unheard"], &contention["standstills"]),
        (&Value::Bool(true), &serde_json::json!([]))
    );
    assert!(page.contains("Waits that had not ended") && !page.contains("may have been lost"), "{page}");
}
