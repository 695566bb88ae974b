//! Waits in a program's own loops, against what the program counts itself: tries of a lock until one gets it, and waits on a
//! condition that begin again at once.

mod sync_run;

use quaver_view::Cell;
use serde_json::Value;
use sync_run::{Bench, before_others, number};

/// Two threads try in loops: one sleeps between two tries, the other gives its CPU away. A third tries too, and locks another lock
/// between two tries: its time is not that of a loop of tries alone. Each prints its name, its rows, their time and the failed tries.
const TRIES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t tried = PTHREAD_MUTEX_INITIALIZER, broken = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
static void *hold(void *lock)
{
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(lock);
		usleep(2000);
		pthread_mutex_unlock(lock);
		usleep(300);
	}
	return 0;
}
static void *try(void *sleeps)
{
	long rows = 0, ns = 0, failed = 0;
	for (int i = 0; i < 50; i++) {
		long from = now(), before = failed;
		while (pthread_mutex_trylock(&tried)) {
			failed++;
			if (sleeps)
				usleep(100);
			else
				sched_yield();
		}
		if (failed > before) {
			rows++;
			ns += now() - from;
		}
		pthread_mutex_unlock(&tried);
		usleep(500);
	}
	printf("%ld %ld %ld\n", rows, ns, failed);
	return 0;
}
static void *try_beside(void *unused)
{
	for (int i = 0; i < 50; i++) {
		while (pthread_mutex_trylock(&broken)) {
			pthread_mutex_lock(&other);
			pthread_mutex_unlock(&other);
			usleep(100);
		}
		pthread_mutex_unlock(&broken);
		usleep(500);
	}
	return unused;
}
int main(void)
{
	pthread_t threads[5];
	pthread_create(&threads[0], 0, hold, &tried);
	pthread_create(&threads[1], 0, hold, &broken);
	pthread_create(&threads[2], 0, try, &tried);
	pthread_create(&threads[3], 0, try, 0);
	pthread_create(&threads[4], 0, try_beside, 0);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// Items are told to all of four workers; each gives the mutex back before it works. Items of another condition are taken by one
/// thread, which gives its mutex back for each. The program prints how often a worker waited again without an item.
const HERD: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t herd = PTHREAD_COND_INITIALIZER, single = PTHREAD_COND_INITIALIZER;
static int items, singles, over;
static long again;
static void *work(void *unused)
{
	pthread_mutex_lock(&mutex);
	while (!over || items) {
		int first = 1;
		while (!items && !over) {
			again += !first;
			first = 0;
			pthread_cond_wait(&herd, &mutex);
		}
		if (items) {
			items--;
			pthread_mutex_unlock(&mutex);
			usleep(50);
			pthread_mutex_lock(&mutex);
		}
	}
	pthread_mutex_unlock(&mutex);
	return unused;
}
static void *take(void *unused)
{
	for (int taken = 0; taken < 100; taken++) {
		pthread_mutex_lock(&own);
		while (!singles)
			pthread_cond_wait(&single, &own);
		singles--;
		pthread_mutex_unlock(&own);
	}
	return unused;
}
int main(void)
{
	pthread_t threads[5];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, 0);
	pthread_create(&threads[4], 0, take, 0);
	for (int i = 0; i < 100; i++) {
		usleep(2000);
		pthread_mutex_lock(&mutex);
		items++;
		pthread_cond_broadcast(&herd);
		pthread_mutex_unlock(&mutex);
		pthread_mutex_lock(&own);
		singles++;
		pthread_cond_signal(&single);
		pthread_mutex_unlock(&own);
	}
	pthread_mutex_lock(&mutex);
	over = 1;
	pthread_cond_broadcast(&herd);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], 0);
	printf("%ld\n", again);
	return 0;
}
"#;

/// What a program said, its summary and its page. The kernel's side is not needed, so that no privilege is.
fn run(text: &str) -> (Vec<Vec<u64>>, Value, String) {
    let bench = Bench::of_text(text, &[]);
    let ended = bench.sync(&["--tier", "user"]).output().expect("the program runs");
    let page = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{page}");
    let words = String::from_utf8(ended.stdout).expect("the program's own words, and nothing else");
    let line = |line: &str| line.split(' ').map(|one| one.parse().expect("a number")).collect();
    (words.lines().map(line).collect(), bench.summary(), page)
}

fn advice<'a>(summary: &'a Value, kind: &str) -> Option<&'a Value> {
    summary["advice"].as_array().expect("a list").iter().find(|one| one["kind"] == kind)
}

#[test]
fn tries_in_a_loop_are_a_wait_as_long_as_the_program_says() {
    let _alone = before_others();
    let (own, summary, page) = run(TRIES);
    let [rows, own_ns, failed] = [0, 1, 2].map(|at| own.iter().map(|one| one[at]).sum::<u64>());
    let locks = summary["contention"]["locks"].as_array().expect("a list");
    let named = |name: &str| locks.iter().find(|lock| lock["name"] == name);
    let tried = named("tried").expect("it was tried for");
    let found_ns = number(tried, "/tried/total_ns");
    assert_eq!((number(tried, "/tried/count"), number(tried, "/failed_tries")), (rows, failed));
    assert!(rows > 20 && found_ns.abs_diff(own_ns) <= own_ns / 50, "{found_ns} ns found, {own_ns} ns own");
    // Between two tries the third thread gets another lock: what it does there is not known to be a wait.
    let broken = named("broken").map_or(0, |lock| number(lock, "/tried/count"));
    assert_eq!(broken, 0);
    let change = &advice(&summary, "lock-not-try").expect("most of the run is tries")["change"];
    assert_eq!(change, "Wait for tried in a call that blocks rather than in a loop of tries.");
    assert!(page.contains("in loops of tries"), "{page}");
    // Each gain says that it is without them.
    let left_out = format!("The replay leaves out {} tries that failed.", Cell::Count(failed));
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&left_out) || !words.contains("If halved:"), "{left_out}: {page}");
    for one in summary["advice"].as_array().expect("a list").iter().filter(|one| !one["gain"].is_null()) {
        assert!(one["evidence"].to_string().contains(&left_out), "{one}");
    }
}

#[test]
fn who_waits_again_at_once_is_counted() {
    let _alone = before_others();
    let (own, summary, page) = run(HERD);
    let conditions = summary["contention"]["conditions"].as_array().expect("a list");
    let again: Vec<&Value> = conditions.iter().filter(|one| number(one, "/again") > 0).collect();
    let [herd] = again[..] else { panic!("the thread of the other one finds its item each time: {again:?}") };
    assert_eq!((herd["name"].as_str(), number(herd, "/again")), (Some("herd"), own[0][0]), "{herd}");
    assert_eq!((number(herd, "/broadcasts"), number(herd, "/signals")), (101, 0));
    assert!(own[0][0] > 50, "they were woken together");
    let change = &advice(&summary, "signal-one").expect("three of four had nothing to do")["change"];
    assert_eq!(
        change,
        "Signal herd rather than broadcast it, if any waiter will do. If not, give each predicate a condition of its own."
    );
    assert!(page.contains("Signal herd rather than broadcast it"), "{page}");
}
