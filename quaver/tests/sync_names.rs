//! Names that `quaver sync` gives: lines of the source with the functions that were put into one another, where an object on the heap
//! comes from, and what cannot be named.

mod sync_run;

use quaver_testbed::inject::{Injection, schedule};
use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use sync_run::{Bench, before_others};

/// Two locks in one piece of the heap, one of which nobody initialises. Three threads hold them by a function that has no code of
/// its own.
const TWO: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static struct { int before; pthread_mutex_t brief; char between[100]; pthread_mutex_t lengthy; } *both;
static inline __attribute__((always_inline)) void hold(pthread_mutex_t *lock, int us)
{
	pthread_mutex_lock(lock); /* asked */
	usleep(us);
	pthread_mutex_unlock(lock); /* given back */
}
static void *run(void *unused)
{
	for (int i = 0; i < 20; i++) {
		hold(&both->brief, 500); /* hold brief */
		hold(&both->lengthy, 1500); /* hold lengthy */
	}
	return unused;
}
int main(void)
{
	pthread_t threads[3];
	both = calloc(1, sizeof(*both));
	pthread_mutex_init(&both->lengthy, 0); /* make lengthy */
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, run, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// `program.c:LINE` of a remark.
fn line(remark: &str) -> String {
    let at = TWO.lines().position(|line| line.contains(&format!("/* {remark} */"))).expect("it is there");
    format!("program.c:{}", at + 1)
}

fn recorded(flags: &[&str]) -> (Value, String) {
    let bench = Bench::of_text(TWO, flags);
    let ended = bench.run(&[]);
    let page = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{page}");
    (bench.summary()["contention"].clone(), page)
}

/// The lock that was waited for longest, and the other one.
fn locks(contention: &Value) -> [&Value; 2] {
    let locks = contention["locks"].as_array().expect("a list");
    let waited: Vec<&Value> = locks.iter().filter(|lock| lock["wait"]["count"] != 0).collect();
    assert_eq!(waited.len(), 2, "{contention}");
    [waited[0], waited[1]]
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("text: {value}"))
}

#[test]
fn locks_on_the_heap_are_told_apart_by_where_they_come_from() {
    let _alone = before_others();
    let (contention, page) = recorded(&["-g"]);
    let [lengthy, brief] = locks(&contention);
    assert_eq!(lengthy["origin"]["how"], "initialised");
    assert_eq!(lengthy["origin"]["site"], format!("main ({})", line("make lengthy")));
    assert!(text(&lengthy["origin"]["thread"]).starts_with("main ("), "{lengthy}");
    let name = text(&lengthy["name"]);
    assert!(
        name.starts_with("[heap]+0x") && name.ends_with(&format!(" made at {}", line("make lengthy"))),
        "{name}"
    );
    assert_eq!(brief["origin"]["how"], "used");
    let used = format!("hold ({}) inlined in run ({})", line("asked"), line("hold brief"));
    assert_eq!(brief["origin"]["site"], used);
    assert!(text(&brief["origin"]["thread"]).starts_with("run ("), "{brief}");
    let given = format!("hold ({}) inlined in run ({})", line("given back"), line("hold lengthy"));
    assert_eq!(lengthy["owner_functions"][0]["name"], given, "{lengthy}");
    assert!(page.contains(&line("make lengthy")), "{page}");
    assert_eq!(contention["unnamed"], serde_json::json!([]));
}

#[test]
fn what_a_stripped_program_does_not_say_is_told() {
    let _alone = before_others();
    let (contention, page) = recorded(&["-s"]);
    let [lengthy, brief] = locks(&contention);
    let sites = [lengthy, brief].map(|lock| text(&lock["origin"]["site"]));
    assert!(sites[0] != sites[1] && sites.iter().all(|site| site.starts_with("program+0x")), "{sites:?}");
    assert_eq!(lengthy["owner_functions"][0]["name"], "program", "{lengthy}");
    for missing in [
        "Functions of program have no names: no symbols are left there (stripped).",
        "Calls in program have no line: no debug information was found (compile with -g).",
    ] {
        assert!(contention["unnamed"].as_array().expect("a list").iter().any(|one| one == missing));
        assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(missing), "{page}");
    }
}

/// A thread that computes with a mutex on CPU 0, and one that waits for it there.
const BUSY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static void *wait_for_it(void *unused)
{
	pthread_mutex_lock(&held);
	pthread_mutex_unlock(&held);
	return unused;
}
int main(void)
{
	pthread_t waiter;
	struct timespec used = { 0, 0 };
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_mutex_lock(&held);
	pthread_create(&waiter, 0, wait_for_it, 0);
	while (!used.tv_sec && used.tv_nsec < 300000000)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	pthread_mutex_unlock(&held);
	pthread_join(waiter, 0);
	return 0;
}
"#;

#[test]
fn a_thread_that_is_called_as_quaver_is_not_taken_for_its_own() {
    if !privileged("who ran in place of a lock's owner") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of_text(BUSY, &["-g"]);
    let (told, number) = channel();
    let computes = Injection::spawn("quaver", move |stop| {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let bound = schedule::bind(own, 0).map(|()| own);
        told.send(bound).expect("somebody waits for it");
        while !stop.load(Ordering::Relaxed) {}
    })
    .expect("a thread");
    let stranger = number.recv().expect("it said").expect("CPU 0 is there");
    let quaver = bench.sync(&[]).stderr(Stdio::piped()).spawn().expect("quaver");
    let own = quaver.id();
    let ended = quaver.wait_with_output().expect("it ends");
    drop(computes);
    let (summary, page) = (bench.summary(), String::from_utf8_lossy(&ended.stderr).into_owned());
    let lock = &summary["contention"]["locks"][0];
    let kept = lock["preempted_by"].as_array().expect("a list");
    assert!(kept.iter().any(|one| one["thread"] == stranger), "{kept:?}");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("quaver ({stranger})")), "{page}");
    assert!(!words.contains(&format!("own thread quaver ({stranger})")), "{page}");
    let threads = summary["facts"]["own_threads"].as_array().expect("a list");
    assert!(threads.contains(&own.into()) && !threads.contains(&stranger.into()), "{threads:?}");
}
