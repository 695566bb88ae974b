//! The ledger of contention against programs that measure their waiting themselves: amounts within 2 %, owner, call site and
//! pattern by name.

mod sync_run;

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use sync_run::{Bench, before_others, number};

/// Part of the program's own time by which what is found may differ.
const TOLERANCE: f64 = 0.02;

/// What the programs share: a clock, a lock that is taken with the wait added to the thread's own, and work of a length.
const COMMON: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local long waited;
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
static void take(pthread_mutex_t *lock)
{
	long from = now();
	pthread_mutex_lock(lock);
	waited += now() - from;
}
static void compute(long ns)
{
	for (long until = now() + ns; now() < until;)
		;
}
static int own_number(void) { return syscall(SYS_gettid); }
"#;

/// Two threads hold a mutex for 2 ms each in turns: sleeping, or computing where an argument says so.
const HOLD: &str = r#"
static int sleeps;
static pthread_barrier_t begin;
__attribute__((noinline)) void hold_it(void)
{
	if (sleeps)
		usleep(2000);
	else
		compute(2000000);
	pthread_mutex_unlock(&contended);
	asm volatile("");
}
static void *run(void *unused)
{
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 100; i++) {
		take(&contended);
		hold_it();
		/* The other one comes to its turn. */
		usleep(200);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
int main(int count, char **words)
{
	pthread_t threads[2];
	(void)words;
	sleeps = count < 2;
	pthread_barrier_init(&begin, 0, 2);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, run, 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// On one CPU, a real-time thread takes a mutex again right after it gave it back, four times over, while another one that was
/// woken for it cannot run.
const BARGE: &str = r#"
static pthread_barrier_t begin;
__attribute__((noinline)) void hog_it(void)
{
	compute(1000000);
	pthread_mutex_unlock(&contended);
	asm volatile("");
}
static void *hog(void *unused)
{
	struct sched_param param = { .sched_priority = 10 };
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		exit(3);
	printf("%d 0\n", own_number());
	long overtook = 0;
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&contended);
		pthread_barrier_wait(&begin);
		/* The other one comes and waits. */
		usleep(1000);
		hog_it();
		long from = now();
		for (int hold = 1; hold < 5; hold++) {
			pthread_mutex_lock(&contended);
			hog_it();
		}
		overtook += now() - from;
		pthread_barrier_wait(&begin);
	}
	printf("did %ld\n", overtook);
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
	pthread_create(&other, 0, hog, 0);
	for (int i = 0; i < 20; i++) {
		pthread_barrier_wait(&begin);
		take(&contended);
		pthread_mutex_unlock(&contended);
		pthread_barrier_wait(&begin);
	}
	pthread_join(other, 0);
	printf("%d %ld\n", own_number(), waited);
	return 0;
}
"#;

/// On one CPU: the least urgent thread has the lock, the most urgent waits for it, and one between them computes.
const INVERSION: &str = r#"
static pthread_barrier_t begin;
static volatile int middle_goes;
static void become(int priority)
{
	struct sched_param param = { .sched_priority = priority };
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		exit(3);
}
__attribute__((noinline)) void hold_low(void)
{
	middle_goes = 1;
	compute(5000000);
	pthread_mutex_unlock(&contended);
	asm volatile("");
}
static void *low(void *unused)
{
	become(10);
	printf("%d 0\n", own_number());
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&contended);
		pthread_barrier_wait(&begin);
		hold_low();
		pthread_barrier_wait(&begin);
	}
	return unused;
}
static void *high(void *unused)
{
	become(30);
	for (int i = 0; i < 5; i++) {
		pthread_barrier_wait(&begin);
		take(&contended);
		pthread_mutex_unlock(&contended);
		pthread_barrier_wait(&begin);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
static void *middle(void *unused)
{
	long computed = 0;
	become(20);
	for (int i = 0; i < 5; i++) {
		pthread_barrier_wait(&begin);
		/* The other two meet at the lock meanwhile. */
		usleep(2000);
		long from = now();
		compute(30000000);
		computed += now() - from;
		pthread_barrier_wait(&begin);
	}
	printf("%d 0\ndid %ld\n", own_number(), computed);
	return unused;
}
int main(void)
{
	pthread_t threads[3];
	void *(*routines[])(void *) = { low, high, middle };
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	setvbuf(stdout, 0, _IOLBF, 0);
	pthread_barrier_init(&begin, 0, 3);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, routines[i], 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// Five threads that sleep a little between holds, so that several always wait.
const CONVOY: &str = r#"
static pthread_barrier_t begin;
__attribute__((noinline)) void short_hold(void)
{
	usleep(1000);
	pthread_mutex_unlock(&contended);
	asm volatile("");
}
static void *run(void *unused)
{
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 40; i++) {
		take(&contended);
		short_hold();
		usleep(500);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
int main(void)
{
	pthread_t threads[5];
	pthread_barrier_init(&begin, 0, 5);
	for (int i = 0; i < 5; i++)
		pthread_create(&threads[i], 0, run, 0);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// A thread waits for `contended`, whose owner waits for `inner`, whose owner sleeps.
const CHAIN: &str = r#"
static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin;
static void *root(void *unused)
{
	printf("%d 0\n", own_number());
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&inner);
		pthread_barrier_wait(&begin);
		usleep(20000);
		pthread_mutex_unlock(&inner);
		pthread_barrier_wait(&begin);
	}
	return unused;
}
static void *between(void *unused)
{
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&contended);
		pthread_barrier_wait(&begin);
		pthread_mutex_lock(&inner);
		pthread_mutex_unlock(&inner);
		pthread_mutex_unlock(&contended);
		pthread_barrier_wait(&begin);
	}
	return unused;
}
int main(void)
{
	pthread_t threads[2];
	pthread_barrier_init(&begin, 0, 3);
	pthread_create(&threads[0], 0, root, 0);
	pthread_create(&threads[1], 0, between, 0);
	for (int i = 0; i < 10; i++) {
		pthread_barrier_wait(&begin);
		take(&contended);
		pthread_mutex_unlock(&contended);
		pthread_barrier_wait(&begin);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	printf("%d %ld\n", own_number(), waited);
	return 0;
}
"#;

/// One thread takes two locks, 20 and 30 times, and holds the second one. Then it takes two more 400,000 times, the
/// first of them thrice as often. A recursive one counts once, and has one hold.
const FREE: &str = r#"
static pthread_mutex_t quick = PTHREAD_MUTEX_INITIALIZER, slow = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t often = PTHREAD_MUTEX_INITIALIZER, seldom = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void *run(void *unused)
{
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct timespec over = { 0, 0 };
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&quick);
		pthread_mutex_unlock(&quick);
	}
	for (int i = 0; i < 30; i++) {
		long from;
		pthread_mutex_lock(&slow);
		from = now();
		usleep(3000);
		waited += now() - from;
		/* A wait on a condition gives it back. */
		if (i % 2)
			pthread_cond_timedwait(&never, &slow, &over);
		pthread_mutex_unlock(&slow);
	}
	pthread_mutex_lock(&recursive);
	pthread_mutex_lock(&recursive);
	pthread_mutex_unlock(&recursive);
	pthread_mutex_unlock(&recursive);
	for (int i = 0; i < 400000; i++) {
		pthread_mutex_t *lock = i % 4 ? &often : &seldom;
		pthread_mutex_lock(lock);
		pthread_mutex_unlock(lock);
	}
	printf("%d %ld\n", own_number(), waited);
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, run, 0);
	pthread_join(thread, 0);
	return 0;
}
"#;

/// A run of one of them.
struct Run {
    /// Number and own wait of each thread that tells, in the order in which they did.
    own: Vec<(u64, u64)>,
    /// How long what the program is about took, where it tells that.
    did_ns: Option<u64>,
    summary: Value,
    page: String,
}

impl Run {
    fn of(text: &str, words: &[&str], options: &[&str]) -> Self {
        let bench = Bench::of_text(&format!("{COMMON}{text}"), &[]);
        let mut command = bench.sync(options);
        let ended = command.args(words).output().expect("the program runs");
        let page = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{page}");
        let lines = String::from_utf8(ended.stdout).expect("the program's own words, and nothing else");
        let numbers = |line: &str| {
            let (thread, ns) = line.split_once(' ')?;
            Some((thread.parse().ok()?, ns.parse().ok()?))
        };
        let did = |line: &str| line.strip_prefix("did ").map(|ns| ns.parse().expect("a number"));
        let did_ns = lines.lines().find_map(did);
        let own = lines.lines().filter(|line| did(line).is_none());
        let own = own.map(|line| numbers(line).expect("two numbers")).collect();
        let run = Self { own, did_ns, summary: bench.summary(), page };
        run.conserves();
        run
    }

    fn own_ns(&self) -> u64 {
        self.own.iter().map(|(_, ns)| ns).sum()
    }

    fn lock(&self, name: &str) -> &Value {
        let locks = self.summary["contention"]["locks"].as_array().expect("a list");
        locks.iter().find(|lock| lock["name"] == name).unwrap_or_else(|| panic!("{name} in {locks:?}"))
    }

    /// Each nanosecond of each thread is in one place.
    fn conserves(&self) {
        // Instants, and what lies within another part.
        let others = ["first_ns", "last_ns", "unsampled_ns"];
        for thread in self.summary["contention"]["threads"].as_array().expect("a list") {
            let fields = thread.as_object().expect("an object").iter();
            let parts = fields.filter(|(key, _)| key.ends_with("_ns") && !others.contains(&key.as_str()));
            let sum: u64 = parts.filter_map(|(_, ns)| ns.as_u64()).sum();
            assert_eq!(sum, number(thread, "/last_ns") - number(thread, "/first_ns"), "{thread}");
        }
    }

    /// Advice of this kind, all of which says what bears it out.
    fn advice(&self, kind: &str) -> Option<&Value> {
        let all = self.summary["advice"].as_array().expect("a list");
        assert!(all.iter().all(|one| !one["evidence"].as_array().expect("a list").is_empty()), "{all:?}");
        all.iter().find(|one| one["kind"] == kind)
    }

    fn assert_waited(&self, lock: &Value) {
        let (found_ns, own_ns) = (number(lock, "/wait/total_ns"), self.own_ns());
        assert!(
            apart(found_ns, own_ns) <= TOLERANCE,
            "{found_ns} ns found, {own_ns} ns by its own clock: {lock}"
        );
        assert!(
            self.page.contains("Waiting for locks") && self.page.contains("Threads waited"),
            "{}",
            self.page
        );
    }
}

fn apart(one: u64, other: u64) -> f64 {
    one.abs_diff(other) as f64 / other.max(1) as f64
}

fn has(lock: &Value, pattern: &str) -> bool {
    lock["patterns"].as_array().expect("a list").iter().any(|one| one == pattern)
}

/// The owner's activities: ran, run queue, slept, waited, unknown.
fn owner_ns(lock: &Value, activity: usize) -> u64 {
    number(lock, &format!("/owner_ns/{activity}"))
}

#[test]
fn holds_are_waited_for_as_long_as_the_program_says() {
    if !privileged("the owner of a lock while others wait") {
        return;
    }
    let _alone = before_others();
    for words in [&[][..], &["compute"]] {
        let run = Run::of(HOLD, words, &[]);
        let lock = run.lock("contended");
        run.assert_waited(lock);
        assert!(run.own_ns() > 20_000_000, "they waited for each other");
        assert_eq!(lock["owner_functions"][0]["name"], "hold_it (program)", "{lock}");
        let held_ns = number(lock, "/held_ns");
        let (ran_ns, queued_ns, slept_ns) = (owner_ns(lock, 0), owner_ns(lock, 1), owner_ns(lock, 2));
        if words.is_empty() {
            // A sleeper that is awake waits for a CPU as long as others of this machine run.
            assert!((slept_ns + queued_ns) as f64 > 0.95 * held_ns as f64, "{lock}");
            assert!(slept_ns > 10 * ran_ns, "{lock}");
            assert_eq!(lock["owner_calls"][0]["name"], "clock_nanosleep", "{lock}");
            let advice = run.advice("sleep-outside").expect("the lock is the run");
            assert_eq!(advice["change"], "Sleep in clock_nanosleep without contended.");
            assert!(advice["gain"].as_f64().is_some_and(|gain| gain > 0.3), "{advice}");
            assert!(run.page.contains("Sleep in clock_nanosleep without contended."), "{}", run.page);
        } else {
            assert!((ran_ns + queued_ns) as f64 > 0.95 * held_ns as f64, "{lock}");
        }
        // Sleep with the lock is no execution of anybody.
        let path = &run.summary["results"]["critical_path"];
        if words.is_empty() {
            assert!(number(path, "/execution_ns") * 5 < number(path, "/length_ns"), "{path}");
            assert!(number(path, "/slept_ns") * 2 > number(path, "/length_ns"), "{path}");
        }
        // Each waits for the other.
        let threads: Vec<u64> = run.own.iter().map(|(thread, _)| *thread).collect();
        for pair in lock["pairs"].as_array().expect("a list") {
            let (waiter, owner) = (number(pair, "/waiter"), number(pair, "/owner"));
            assert!(waiter != owner && threads.contains(&waiter) && threads.contains(&owner), "{pair}");
        }
    }
}

#[test]
fn without_the_kernels_side_the_wait_is_as_long() {
    let _alone = before_others();
    let run = Run::of(HOLD, &[], &["--tier", "user"]);
    let lock = run.lock("contended");
    run.assert_waited(lock);
    assert_eq!(run.summary["contention"]["kernel_seen"], false);
    assert!(run.page.contains("the kernel was not traced, so execution has sleep"), "{}", run.page);
}

#[test]
fn barging_has_its_amount_and_its_culprit() {
    if !privileged("the owner of a lock while others wait") {
        return;
    }
    let _alone = before_others();
    let run = Run::of(BARGE, &[], &[]);
    let lock = run.lock("contended");
    run.assert_waited(lock);
    assert!(has(lock, "barging") && !has(lock, "convoy") && !has(lock, "priority-inversion"), "{lock}");
    let hog = run.own[0].0;
    let pair = &lock["pairs"][0];
    assert_eq!(
        (number(pair, "/owner"), pair["total_ns"].as_u64()),
        (hog, lock["held_ns"].as_u64()),
        "{lock}"
    );
    // Four of five holds, of 1 ms each at least, twenty times over.
    assert_eq!(number(lock, "/overtaken/count"), 80, "{lock}");
    let overtook_ns = run.did_ns.expect("the hog tells");
    assert!(overtook_ns >= 80_000_000, "{overtook_ns}");
    assert!(apart(number(lock, "/overtaken/total_ns"), overtook_ns) <= TOLERANCE, "{overtook_ns}: {lock}");
    assert_eq!(lock["owner_functions"][0]["name"], "hog_it (program)", "{lock}");
    assert!(run.page.contains("Barging:"), "{}", run.page);
    assert_eq!(run.advice("priority-inheritance"), None);
}

#[test]
fn priority_inversion_names_who_ran_in_place_of_the_owner() {
    if !privileged("real-time threads") {
        return;
    }
    let _alone = before_others();
    let run = Run::of(INVERSION, &[], &[]);
    let lock = run.lock("contended");
    run.assert_waited(lock);
    assert!(has(lock, "priority-inversion"), "{lock}");
    let low = run.own[0].0;
    let middle = run.own.iter().find(|(thread, ns)| *thread != low && *ns == 0).expect("it tells").0;
    assert_eq!(number(lock, "/inverted_by/0/thread"), middle, "{lock}");
    // 30 ms at least, five times over.
    let computed_ns = run.did_ns.expect("the one in the middle tells");
    assert!(computed_ns >= 150_000_000, "{computed_ns}");
    assert!(apart(number(lock, "/inverted_ns"), computed_ns) <= TOLERANCE, "{computed_ns}: {lock}");
    assert_eq!(number(lock, "/pairs/0/owner"), low, "{lock}");
    assert_eq!(lock["owner_functions"][0]["name"], "hold_low (program)", "{lock}");
    let page = run.page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("Priority inversion:") && page.contains("middle"), "{page}");
    let advice = run.advice("priority-inheritance").expect("that ends it");
    assert_eq!(advice["change"], "Initialise contended with PTHREAD_PRIO_INHERIT.");
    assert!(advice["evidence"][0].as_str().is_some_and(|words| words.contains("middle (")), "{advice}");
}

#[test]
fn a_convoy_is_named() {
    if !privileged("the owner of a lock while others wait") {
        return;
    }
    let _alone = before_others();
    let run = Run::of(CONVOY, &[], &[]);
    let lock = run.lock("contended");
    run.assert_waited(lock);
    assert!(has(lock, "convoy"), "{lock}");
    assert_eq!(lock["owner_functions"][0]["name"], "short_hold (program)", "{lock}");
    assert_eq!(lock["owner_calls"][0]["name"], "clock_nanosleep", "{lock}");
}

#[test]
fn a_chain_leads_to_the_thread_that_waits_for_nobody() {
    if !privileged("the owner of a lock while others wait") {
        return;
    }
    let _alone = before_others();
    let run = Run::of(CHAIN, &[], &[]);
    let lock = run.lock("contended");
    run.assert_waited(lock);
    let root = &lock["roots"][0];
    assert_eq!((number(root, "/thread"), number(root, "/depth")), (run.own[0].0, 2), "{lock}");
    assert_eq!(root["activity"], "slept", "{lock}");
    assert_eq!(lock["owner_waits"][0]["name"], "inner", "{lock}");
    let roots = lock["roots"].as_array().expect("a list");
    let total_ns =
        |roots: &mut dyn Iterator<Item = &Value>| roots.map(|root| number(root, "/total_ns")).sum();
    let (all_ns, held_ns): (u64, u64) = (total_ns(&mut roots.iter()), number(lock, "/held_ns"));
    assert_eq!(all_ns, held_ns, "{lock}");
    // When its sleep is over it may stand in the run queue, and so may the next owner of the inner lock.
    let ends = [(run.own[0].0, 2), (number(lock, "/pairs/0/owner"), 1)];
    let deep = |root: &&Value| (number(root, "/thread"), number(root, "/depth")) == ends[0];
    let handed = |root: &&Value| {
        (number(root, "/thread"), number(root, "/depth")) == ends[1] && root["activity"] == "waited"
    };
    let deep_ns: u64 = total_ns(&mut roots.iter().filter(deep));
    let handed_ns: u64 = total_ns(&mut roots.iter().filter(handed));
    assert!(apart(deep_ns + handed_ns, held_ns) < 0.05 && 2 * deep_ns > held_ns, "{lock}");
    assert!(run.page.contains("Chain of 2 locks"), "{}", run.page);
}

#[test]
fn free_locks_and_their_holds_are_sampled() {
    let _alone = before_others();
    let run = Run::of(FREE, &[], &["--tier", "user"]);
    let free = |name: &str| number(run.lock(name), "/free");
    assert_eq!(
        (free("quick"), free("slow"), free("recursive")),
        (20, 30, 1),
        "the first 512 of a thread count exactly"
    );
    let slow = run.lock("slow");
    // Fifteen waits on the condition took it again.
    assert_eq!(number(slow, "/hold/count"), 45);
    let (found_ns, own_ns) = (number(slow, "/hold/total_ns"), run.own_ns());
    assert!(
        apart(found_ns, own_ns) <= TOLERANCE,
        "{found_ns} ns found, {own_ns} ns by its own clock: {slow}"
    );
    assert_eq!(number(run.lock("recursive"), "/hold/count"), 1);
    // Some 4,900 samples, most of which stand for 128 to 512 locks: six standard deviations of the sums.
    let (often, seldom) = (free("often"), free("seldom"));
    assert!(apart(often + seldom, 400_000) <= 0.1, "{often} and {seldom}");
    assert!(apart(seldom, 100_000) <= 0.3, "{often} and {seldom}");
}
