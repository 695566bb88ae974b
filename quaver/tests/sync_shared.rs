//! Locks, conditions and semaphores of several processes: one object, whoever waits for it and wherever it is mapped.

mod sync_run;

use quaver_testbed::privileged::privileged;
use sync_run::{Bench, before_others, number};

#[test]
fn two_processes_wake_each_other_by_what_they_share() {
    if !privileged("waits of two processes by their own clock") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of("shared");
    let ended = bench.run(&["--threshold", "1ns"]);
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(5), "{told}");
    let own_ns: u64 = String::from_utf8_lossy(&ended.stdout).trim().parse().expect("a time alone");
    let summary = bench.summary();
    // The second one has a recording before it becomes the program again.
    assert_eq!(summary["processes"].as_array().map(Vec::len), Some(3), "{}", summary["processes"]);
    let coverage = &summary["results"]["coverage"];
    // Of each of 60 turns: three semaphores and a condition to wait for at least, and the lock.
    assert!(number(coverage, "/wake_ups") >= 4 * 60, "{coverage}");
    assert_eq!(coverage["matched"], coverage["wake_ups"], "{coverage}: {}", summary["warnings"]);
    for class in ["signal-wait", "lock-unlock"] {
        let waits = summary["results"]["longest"].as_array().expect("a list");
        let of: Vec<_> = waits.iter().filter(|wait| wait["class"] == class).collect();
        assert!(!of.is_empty(), "{class}");
        for wait in of {
            assert_ne!(wait["thread"], wait["waker"], "{wait}");
            assert!(number(wait, "/object") >> 63 == 1, "{wait}");
        }
    }
    let names: Vec<&str> = summary["objects"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    // The mutex (40 bytes on x86-64), the condition (48), two semaphores.
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("shared memory /memfd:queue+0x")), "{names:?}");
    let pid = number(&summary, "/facts/pid");
    let threads = summary["results"]["threads"].as_array().expect("a list");
    let first = threads.iter().find(|thread| number(thread, "/thread") == pid).expect("it waits");
    let found_ns = number(first, "/waited_ns");
    let apart = found_ns.abs_diff(own_ns) as f64 / own_ns as f64;
    assert!(apart <= 0.02, "{found_ns} ns found, {own_ns} ns by its own clock");
    if let Some(spurious) = summary.pointer("/futex/spurious") {
        assert_eq!(*spurious, 0, "a word that another process wakes is woken: {}", summary["futex"]);
    }
}

/// Two processes share a spin lock; the child holds it for 1.5 ms each time and seldom finds it held. It has not seen the lock
/// initialised.
const SPIN: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
struct shared {
	pthread_spinlock_t lock;
	int ready;
};
static long use(struct shared *shared, int hold_us)
{
	long waited = 0;
	for (int i = 0; i < 100; i++) {
		long from = now();
		pthread_spin_lock(&shared->lock);
		waited += now() - from;
		usleep(hold_us);
		pthread_spin_unlock(&shared->lock);
		usleep(400);
	}
	return waited;
}
int main(void)
{
	struct shared *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int child = fork();
	if (!child) {
		while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE))
			;
		shared->ready = 2;
		use(shared, 1500);
		_exit(0);
	}
	pthread_spin_init(&shared->lock, PTHREAD_PROCESS_SHARED);
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) != 2)
		;
	long waited = use(shared, 50);
	waitpid(child, 0, 0);
	printf("%d %ld\n", child, waited);
	return 0;
}
"#;

#[test]
fn a_spin_lock_of_two_processes_has_an_owner() {
    if !privileged("waits of two processes by their own clock") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of_text(SPIN, &[]);
    let ended = bench.run(&[]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let words = String::from_utf8_lossy(&ended.stdout).into_owned();
    let mut own = words.split_whitespace().map(|word| word.parse::<u64>().expect("a number"));
    let (child, own_ns) = (own.next().expect("its number"), own.next().expect("its wait"));
    let summary = bench.summary();
    let lock = &summary["contention"]["locks"][0];
    let pairs = lock["pairs"].as_array().expect("a list");
    let of_child = pairs.iter().filter(|pair| number(pair, "/owner") == child);
    let for_child_ns: u64 = of_child.map(|pair| number(pair, "/total_ns")).sum();
    let waited_ns = number(lock, "/wait/total_ns");
    assert!(for_child_ns.abs_diff(own_ns) * 50 <= own_ns, "{own_ns} ns by its own clock: {lock}");
    assert!(number(lock, "/owner_unknown_ns") * 100 <= waited_ns, "{lock}");
}

/// Each of two processes has one thread, and no call of theirs is free.
const MEET: &str = r#"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	pthread_barrier_t *barrier = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &shared, 2);
	int child = fork();
	for (int round = 0; round < 20; round++)
		pthread_barrier_wait(barrier);
	if (!child)
		_exit(0);
	waitpid(child, 0, 0);
	return 0;
}
"#;

#[test]
fn processes_of_one_thread_each_are_seen_to_wait() {
    if !privileged("futex calls beside recorded calls") {
        return;
    }
    let bench = Bench::of_text(MEET, &[]);
    let ended = bench.run(&[]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary = bench.summary();
    assert_eq!(summary["events_from"], "recorder", "{}", summary["warnings"]);
    assert_eq!(number(&summary["contention"]["barriers"][0], "/rounds"), 20, "{}", summary["contention"]);
}

/// The initial thread leaves. The owner of `named` gives it back once the other thread waits: the C library keeps 2 in the lock then.
const LEFT: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t named = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static void *owns(void *none)
{
	pthread_mutex_lock(&named);
	pthread_barrier_wait(&both);
	while (__atomic_load_n(&named.__data.__lock, __ATOMIC_ACQUIRE) != 2)
		usleep(1000);
	pthread_mutex_unlock(&named);
	return none;
}
static void *waits(void *none)
{
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&named);
	pthread_mutex_unlock(&named);
	return none;
}
int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&both, 0, 2);
	pthread_create(&thread, 0, owns, 0);
	pthread_create(&thread, 0, waits, 0);
	pthread_exit(0);
}
"#;

#[test]
fn locks_have_names_though_the_initial_thread_has_left() {
    let bench = Bench::of_text(LEFT, &[]);
    let ended = bench.run(&[]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary = bench.summary();
    let locks = summary["contention"]["locks"].as_array().expect("a list");
    let names: Vec<_> =
        locks.iter().map(|lock| (lock["name"].as_str(), number(lock, "/wait/count"))).collect();
    assert_eq!(names, [(Some("named"), 1)], "{summary}");
}
