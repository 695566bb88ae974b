//! Owners of locks and waits for conditions where it is easy to blame an innocent one, against programs that measure their waiting
//! themselves: nested holds, readers beside readers, a lock that is free while a woken thread is on its way, inversion through a
//! chain, waits that run out, signals that nobody hears.

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
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static _Thread_local long waited;
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
#define TIMED(call) ({ long from_ = now(); int result_ = (call); waited += now() - from_; result_; })
static void compute(long ns)
{
	for (long until = now() + ns; now() < until;)
		;
}
static int own_number(void) { return syscall(SYS_gettid); }
static pthread_barrier_t begin;
"#;

/// Three threads take a recursive mutex, and twice more inside of that, in another function.
const NESTED: &str = r#"
static pthread_mutex_t nested = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
__attribute__((noinline)) void step(void)
{
	pthread_mutex_lock(&nested);
	usleep(700);
	pthread_mutex_unlock(&nested);
	asm volatile("");
}
__attribute__((noinline)) void whole(void)
{
	step();
	step();
	usleep(600);
	pthread_mutex_unlock(&nested);
	asm volatile("");
}
static void *run(void *unused)
{
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 40; i++) {
		TIMED(pthread_mutex_lock(&nested));
		whole();
		usleep(200);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
int main(void)
{
	pthread_t threads[3];
	pthread_barrier_init(&begin, 0, 3);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, run, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// Three readers, and a writer that holds the lock for 8 ms each time.
const READERS: &str = r#"
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static int over;
__attribute__((noinline)) void slow_write(void)
{
	usleep(8000);
	pthread_rwlock_unlock(&table);
	asm volatile("");
}
__attribute__((noinline)) void quick_read(void)
{
	compute(20000);
	pthread_rwlock_unlock(&table);
	asm volatile("");
}
static void *read_it(void *unused)
{
	pthread_barrier_wait(&begin);
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		TIMED(pthread_rwlock_rdlock(&table));
		quick_read();
		usleep(500);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
static void *write_it(void *unused)
{
	pthread_barrier_wait(&begin);
	printf("owner %d\n", own_number());
	for (int i = 0; i < 30; i++) {
		TIMED(pthread_rwlock_wrlock(&table));
		slow_write();
		usleep(2000);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
int main(void)
{
	pthread_t threads[4];
	setvbuf(stdout, 0, _IOLBF, 0);
	pthread_barrier_init(&begin, 0, 4);
	pthread_create(&threads[0], 0, write_it, 0);
	for (int i = 1; i < 4; i++)
		pthread_create(&threads[i], 0, read_it, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// On one CPU, a real-time thread gives the lock back to a waiter, which cannot run, computes for 5 ms without it, and takes it for
/// 100 us more. Nobody holds it in these 5 ms.
const ON_ITS_WAY: &str = r#"
static pthread_mutex_t free_meanwhile = PTHREAD_MUTEX_INITIALIZER;
static void *first(void *unused)
{
	struct sched_param param = { .sched_priority = 10 };
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		exit(3);
	long held = 0;
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&free_meanwhile);
		pthread_barrier_wait(&begin);
		/* The other one comes and waits. */
		usleep(1000);
		pthread_mutex_unlock(&free_meanwhile);
		compute(5000000);
		pthread_mutex_lock(&free_meanwhile);
		long from = now();
		compute(100000);
		held += now() - from;
		pthread_mutex_unlock(&free_meanwhile);
		pthread_barrier_wait(&begin);
	}
	printf("held %ld\n", held);
	return unused;
}
int main(void)
{
	pthread_t other;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_barrier_init(&begin, 0, 2);
	pthread_create(&other, 0, first, 0);
	for (int i = 0; i < 20; i++) {
		pthread_barrier_wait(&begin);
		TIMED(pthread_mutex_lock(&free_meanwhile));
		pthread_mutex_unlock(&free_meanwhile);
		pthread_barrier_wait(&begin);
	}
	pthread_join(other, 0);
	printf("%d %ld\n", own_number(), waited);
	return 0;
}
"#;

/// On one CPU: `high` waits for `outer`, whose owner waits for `inner`, whose owner `hog` keeps from the CPU.
const DEEP_INVERSION: &str = r#"
static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static void become(int priority, const char *name)
{
	struct sched_param param = { .sched_priority = priority };
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		exit(3);
	pthread_setname_np(pthread_self(), name);
}
static void *low(void *unused)
{
	become(10, "low");
	for (int i = 0; i < 6; i++) {
		pthread_mutex_lock(&inner);
		pthread_barrier_wait(&begin);
		compute(4000000);
		pthread_mutex_unlock(&inner);
		pthread_barrier_wait(&begin);
	}
	return unused;
}
static void *between(void *unused)
{
	become(15, "between");
	for (int i = 0; i < 6; i++) {
		pthread_mutex_lock(&outer);
		pthread_barrier_wait(&begin);
		pthread_mutex_lock(&inner);
		pthread_mutex_unlock(&inner);
		pthread_mutex_unlock(&outer);
		pthread_barrier_wait(&begin);
	}
	return unused;
}
static void *high(void *unused)
{
	become(30, "high");
	for (int i = 0; i < 6; i++) {
		pthread_barrier_wait(&begin);
		/* The one between comes to its second lock. */
		usleep(500);
		TIMED(pthread_mutex_lock(&outer));
		pthread_mutex_unlock(&outer);
		pthread_barrier_wait(&begin);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
static void *hog(void *unused)
{
	long computed = 0;
	become(20, "hog");
	for (int i = 0; i < 6; i++) {
		pthread_barrier_wait(&begin);
		usleep(1500);
		long from = now();
		compute(25000000);
		computed += now() - from;
		pthread_barrier_wait(&begin);
	}
	printf("owner %d\nheld %ld\n", own_number(), computed);
	return unused;
}
int main(void)
{
	void *(*routines[])(void *) = { low, between, high, hog };
	pthread_t threads[4];
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	setvbuf(stdout, 0, _IOLBF, 0);
	pthread_barrier_init(&begin, 0, 4);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, routines[i], 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// A thread asks ten times for a mutex that `main` holds from begin to end, and gives up after 4 ms.
const RUNS_OUT: &str = r#"
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static void *ask(void *unused)
{
	int ran_out = 0;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 10; i++) {
		struct timespec until;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += 4000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		ran_out += TIMED(pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &until)) == ETIMEDOUT;
	}
	if (ran_out != 10)
		exit(4);
	printf("%d %ld\n", own_number(), waited);
	pthread_barrier_wait(&begin);
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&begin, 0, 2);
	pthread_mutex_lock(&held);
	pthread_create(&thread, 0, ask, 0);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&begin);
	pthread_mutex_unlock(&held);
	printf("owner %d\n", own_number());
	pthread_join(thread, 0);
	return 0;
}
"#;

/// A signal comes before its waiter, which does not look first and is saved by its time-out of 30 ms.
const UNHEARD: &str = r#"
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
__attribute__((noinline)) int wait_blindly(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 30000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return TIMED(pthread_cond_timedwait(&ready, &guard, &until));
}
static void *wait_for_it(void *unused)
{
	for (int i = 0; i < 8; i++) {
		pthread_barrier_wait(&begin);
		/* The signal has been sent. */
		pthread_barrier_wait(&begin);
		pthread_mutex_lock(&guard);
		if (wait_blindly() != ETIMEDOUT)
			exit(4);
		pthread_mutex_unlock(&guard);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&begin, 0, 2);
	pthread_create(&thread, 0, wait_for_it, 0);
	for (int i = 0; i < 8; i++) {
		pthread_barrier_wait(&begin);
		pthread_mutex_lock(&guard);
		pthread_cond_signal(&ready);
		pthread_mutex_unlock(&guard);
		pthread_barrier_wait(&begin);
	}
	pthread_join(thread, 0);
	return 0;
}
"#;

/// `tardy` sets out for a round when the others are there, and comes 3 ms after them.
const ROUNDS: &str = r#"
static pthread_barrier_t round_end;
static void *run(void *name)
{
	static long came[3];
	static _Atomic int here;
	long who = *(char *)name - '0', behind = 0, owed = 0;
	pthread_setname_np(pthread_self(), (char *)name + 1);
	for (int i = 0; i < 40; i++) {
		while (here % 3 < who)
			usleep(200);
		usleep(who == 2 ? 3000 : who == 1 ? 800 : 200);
		came[who] = now();
		here++;
		TIMED(pthread_barrier_wait(&round_end));
		behind += came[2] - came[1];
		owed += 2 * came[2] - came[1] - came[0];
		pthread_barrier_wait(&begin);
	}
	if (who == 2)
		printf("owner %d\nheld %ld\nowed %ld\n", own_number(), behind, owed);
	printf("%d %ld\n", own_number(), waited);
	return name;
}
int main(void)
{
	pthread_t threads[3];
	char *names[] = { "0early", "1middle", "2tardy" };
	setvbuf(stdout, 0, _IOLBF, 0);
	pthread_barrier_init(&begin, 0, 3);
	pthread_barrier_init(&round_end, 0, 3);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, run, names[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// A run of one of them.
struct Run {
    /// What the threads waited by their own clocks, together.
    own_ns: u64,
    /// The thread that the waiting is for, where the program says so.
    owner: Option<u64>,
    /// How long that is, where the program says so.
    held_ns: Option<u64>,
    /// How long the others waited for it, where the program says so.
    owed_ns: Option<u64>,
    summary: Value,
    page: String,
}

impl Run {
    fn of(text: &str, options: &[&str]) -> Self {
        let bench = Bench::of_text(&format!("{COMMON}{text}"), &[]);
        let ended = bench.run(options);
        let page = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ended.status.code(), Some(0), "{page}");
        let lines = String::from_utf8(ended.stdout).expect("the program's own words, and nothing else");
        let number_after = |word: &str| {
            let found = lines.lines().find_map(|line| line.strip_prefix(word));
            found.map(|number| number.trim().parse().expect("a number"))
        };
        let own = lines
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(first, _)| first.parse::<u64>().is_ok());
        let own_ns = own.map(|(_, ns)| ns.parse::<u64>().expect("a number")).sum();
        Self {
            own_ns,
            owner: number_after("owner "),
            held_ns: number_after("held "),
            owed_ns: number_after("owed "),
            summary: bench.summary(),
            page,
        }
    }

    fn lock(&self, name: &str) -> &Value {
        let locks = self.summary["contention"]["locks"].as_array().expect("a list");
        locks.iter().find(|lock| lock["name"] == name).unwrap_or_else(|| panic!("{name} in {locks:?}"))
    }

    fn assert_waited(&self, wait: &Value) {
        let found_ns = number(wait, "/total_ns");
        assert!(
            near(found_ns, self.own_ns),
            "{found_ns} ns found, {} ns by its own clock: {}",
            self.own_ns,
            self.page
        );
    }
}

fn near(found_ns: u64, own_ns: u64) -> bool {
    found_ns.abs_diff(own_ns) as f64 <= TOLERANCE * own_ns as f64
}

fn has(lock: &Value, pattern: &str) -> bool {
    lock["patterns"].as_array().expect("a list").iter().any(|one| one == pattern)
}

#[test]
fn a_lock_that_its_owner_has_once_more_is_got_and_given_back_once() {
    let _alone = before_others();
    let run = Run::of(NESTED, &["--tier", "user"]);
    let lock = run.lock("nested");
    run.assert_waited(&lock["wait"]);
    assert_eq!(number(lock, "/free") + number(lock, "/contended"), 120, "{lock}");
    let functions = lock["owner_functions"].as_array().expect("a list");
    let names: Vec<&str> = functions.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["whole (program)"], "the inner function keeps it: {lock}");
    assert!(!has(lock, "barging"), "its owner asks for what it has: {lock}");
    // 700 us twice and 600 us.
    assert!(number(lock, "/hold/total_ns") >= number(lock, "/hold/count") * 2_000_000, "{lock}");
}

#[test]
fn readers_wait_for_the_writer_and_not_for_each_other() {
    let _alone = before_others();
    let run = Run::of(READERS, &["--tier", "user"]);
    let lock = run.lock("table");
    run.assert_waited(&lock["wait"]);
    let writer = run.owner.expect("the writer says so");
    for pair in lock["pairs"].as_array().expect("a list") {
        let (waiter, owner) = (number(pair, "/waiter"), number(pair, "/owner"));
        assert!(waiter == writer || owner == writer, "a reader is kept out by a reader: {lock}");
    }
    assert_eq!(lock["owner_functions"][0]["name"], "slow_write (program)", "{lock}");
}

#[test]
fn nobody_holds_a_lock_that_is_on_its_way_to_a_woken_thread() {
    if !privileged("real-time threads") {
        return;
    }
    let _alone = before_others();
    let run = Run::of(ON_ITS_WAY, &[]);
    let lock = run.lock("free_meanwhile");
    run.assert_waited(&lock["wait"]);
    // 100 us twenty times, and the rest of the first millisecond; not the 5 ms after that.
    let late_ns = number(lock, "/overtaken/total_ns");
    let own_ns = run.held_ns.expect("the thread says so");
    assert_eq!(number(lock, "/overtaken/count"), 20, "{lock}");
    assert!(late_ns >= own_ns && late_ns < 2 * own_ns, "{late_ns} found, {own_ns} by its own clock: {lock}");
    assert!(number(lock, "/handed_over_ns") >= 20 * 5_000_000, "{lock}");
}

#[test]
fn an_inversion_at_the_end_of_a_chain_is_named_with_all_locks_on_the_way() {
    if !privileged("real-time threads") {
        return;
    }
    let _alone = before_others();
    let run = Run::of(DEEP_INVERSION, &[]);
    let lock = run.lock("outer");
    run.assert_waited(&lock["wait"]);
    assert!(has(lock, "priority-inversion") && !has(run.lock("inner"), "priority-inversion"), "{lock}");
    assert_eq!(number(lock, "/inverted_by/0/thread"), run.owner.expect("the hog says so"), "{lock}");
    let computed_ns = run.held_ns.expect("the hog says so");
    assert!(near(number(lock, "/inverted_deep_ns"), computed_ns), "{computed_ns}: {lock}");
    let all = run.summary["advice"].as_array().expect("a list");
    let advice = all.iter().find(|one| one["kind"] == "priority-inheritance").expect("that ends it");
    assert_eq!(advice["change"], "Initialise outer and inner with PTHREAD_PRIO_INHERIT.");
    assert!(run.page.contains("the end of the chain waited"), "{}", run.page);
}

#[test]
fn a_wait_that_runs_out_was_for_the_thread_that_goes_on_to_hold_the_lock() {
    let _alone = before_others();
    let run = Run::of(RUNS_OUT, &["--tier", "user"]);
    let lock = run.lock("held");
    run.assert_waited(&lock["wait"]);
    assert_eq!(lock["held_ns"], lock["wait"]["total_ns"], "{lock}");
    assert_eq!(lock["outlasted_ns"], lock["held_ns"], "{lock}");
    assert_eq!(number(lock, "/pairs/0/owner"), run.owner.expect("main says so"), "{lock}");
    assert!(run.page.contains("the wait ended before its owner gave it back"), "{}", run.page);
}

#[test]
fn a_signal_before_its_waiter_is_told() {
    let _alone = before_others();
    let run = Run::of(UNHEARD, &["--tier", "user"]);
    let conditions = run.summary["contention"]["conditions"].as_array().expect("a list");
    let ready = conditions.iter().find(|one| one["name"] == "ready").expect("it was waited for");
    run.assert_waited(&ready["wait"]);
    let count = |pointer: &str| number(ready, pointer);
    assert_eq!((count("/signals"), count("/unheard"), count("/woken")), (8, 8, 0), "{ready}");
    assert_eq!((count("/timed_out/count"), count("/unheard_before/count")), (8, 8), "{ready}");
    assert_eq!(ready["waiter_functions"][0]["name"], "wait_blindly (program)", "{ready}");
    assert!(run.page.contains("it was signalled while nobody waited"), "{}", run.page);
}

#[test]
fn who_comes_last_to_a_barrier_is_named_with_what_that_cost() {
    let _alone = before_others();
    let run = Run::of(ROUNDS, &["--tier", "user"]);
    let all = run.summary["contention"]["barriers"].as_array().expect("a list");
    let one = all.iter().find(|one| one["name"] == "round_end").expect("it was waited at");
    run.assert_waited(&one["wait"]);
    let count = |pointer: &str| number(one, pointer);
    let counts = (count("/wait/count"), count("/rounds"), count("/last/0/rounds"), count("/threads"));
    assert_eq!(counts, (120, 40, 40, 3), "{one}");
    assert_eq!(count("/last/0/thread"), run.owner.expect("it says so"), "{one}");
    assert!(near(count("/last/0/behind_ns"), run.held_ns.expect("it says so")), "{:?}: {one}", run.held_ns);
    assert!(near(count("/last/0/total_ns"), run.owed_ns.expect("it says so")), "{:?}: {one}", run.owed_ns);
    assert_eq!(count("/for_last_ns") + count("/after_ns"), count("/wait/total_ns"), "{one}");
    assert_eq!(one["waiter_functions"][0]["name"], "run (program)", "{one}");
    let advice = run.summary["advice"].as_array().expect("a list");
    let balance = advice.iter().find(|one| one["kind"] == "balance").expect("one thread holds up all");
    assert!(balance["change"].as_str().is_some_and(|words| words.contains("tardy")), "{balance}");
    assert!(run.page.contains("at barriers for the last to come"), "{}", run.page);
}
