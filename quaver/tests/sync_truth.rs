//! Waits that a program ends late by amounts that it measures itself come back from `quaver sync` with these amounts, in the
//! right class and by the right cause.

mod sync_run;

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use sync_run::{Bench, before_others, number};

/// Part of the injected time by which the measured may differ.
const TOLERANCE: f64 = 0.05;

/// Sixteen threads draw jobs, as those of a ray tracer do, and add up what comes of them.
const JOBS: &str = r#"
#include <pthread.h>
static pthread_mutex_t draw = PTHREAD_MUTEX_INITIALIZER, add = PTHREAD_MUTEX_INITIALIZER;
static int next;
static long sum;
static void spin(int turns)
{
	for (volatile int turn = 0; turn < turns; turn++)
		;
}
static void *run(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&draw);
		int job = next++;
		spin(200);
		pthread_mutex_unlock(&draw);
		if (job >= 300000)
			return unused;
		spin(500 + job % 7 * 100);
		pthread_mutex_lock(&add);
		sum += job;
		spin(50);
		pthread_mutex_unlock(&add);
	}
}
int main(void)
{
	pthread_t threads[16];
	for (int i = 0; i < 16; i++)
		pthread_create(&threads[i], 0, run, 0);
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// What the program says of one wait.
#[derive(Debug)]
struct Injected {
    how: String,
    class: String,
    thread: u64,
    signalled_ns: u64,
    after_ns: u64,
    let_go_ns: u64,
    returned_ns: u64,
}

impl Injected {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap_or_else(|_| panic!("{line}"));
        Self {
            how: words[0].to_owned(),
            class: words[1].to_owned(),
            thread: number(2),
            signalled_ns: number(3),
            after_ns: number(4),
            let_go_ns: number(5),
            returned_ns: number(6),
        }
    }

    fn allowed_ns(&self) -> u64 {
        ((self.let_go_ns - self.signalled_ns) as f64 * TOLERANCE) as u64
    }

    /// Whether a duration lies between two that the program's own clock gives, give or take the tolerance. They are apart
    /// where something else held the signalling or the waiting thread up between its call and its look at the clock.
    fn agrees(&self, found_ns: u64, least_ns: u64, most_ns: u64) -> bool {
        (least_ns.saturating_sub(self.allowed_ns())..=most_ns + self.allowed_ns()).contains(&found_ns)
    }
}

/// Time of a wait's pieces with one of these causes, between two instants.
fn caused_ns(wait: &Value, causes: &[&str], from_ns: u64, to_ns: u64) -> u64 {
    let pieces = wait["pieces"].as_array().expect("a list");
    let of = pieces.iter().filter(|piece| causes.contains(&piece["cause"].as_str().expect("a name")));
    of.map(|piece| {
        number(piece, "/end_ns").min(to_ns).saturating_sub(number(piece, "/start_ns").max(from_ns))
    })
    .sum()
}

fn assert_found(injected: &Injected, waits: &[Value]) {
    let during = |wait: &&Value| {
        number(wait, "/thread") == injected.thread
            && (injected.signalled_ns..injected.returned_ns).contains(&number(wait, "/released_ns"))
    };
    let found: Vec<&Value> = waits.iter().filter(during).collect();
    assert_eq!(found.len(), 1, "{injected:?}: {found:?}");
    let wait = found[0];
    assert_eq!(wait["class"], injected.class.as_str(), "{injected:?}: {wait}");
    // The wait was over when it was let go and before the program saw it return.
    let took_ns = number(wait, "/ended_ns") - number(wait, "/released_ns");
    let (least_ns, most_ns) =
        (injected.let_go_ns - injected.after_ns, injected.returned_ns - injected.signalled_ns);
    assert!(injected.agrees(took_ns, least_ns, most_ns), "{injected:?}: {took_ns}: {wait}");
    let moved = wait["entered_cpu"] != wait["ended_cpu"];
    let (causes, case): (&[&str], bool) = match injected.how.as_str() {
        "held" => (&["mutex-held"], !moved),
        // What the call that ends the wait touches is away for a while.
        "late" => (&["waker-late"], !moved),
        "hog" => (&["other-thread-first", "run-queue"], !moved && number(wait, "/case") != 3),
        "moved" => (&["other-thread-first", "run-queue", "migrated"], moved && number(wait, "/case") == 3),
        other => panic!("{other} is not known"),
    };
    assert!(case, "{injected:?}: {wait}");
    // The injected delay is from the wake-up, which happens within the call of signal, until the waiter was let go. Interrupts
    // that its CPU took meanwhile lie inside it.
    let causes: Vec<&str> = causes.iter().copied().chain(["interrupt"]).collect();
    let caused = caused_ns(wait, &causes, injected.signalled_ns, injected.let_go_ns);
    let most_ns = injected.let_go_ns - injected.signalled_ns;
    assert!(injected.agrees(caused, least_ns, most_ns), "{injected:?}: {caused}: {wait}");
}

#[test]
fn injected_delays_come_back_in_the_right_class_and_cause() {
    if !privileged("injecting delays with real-time threads") {
        return;
    }
    let bench = Bench::of("truth");
    let ended = bench.run(&[]);
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{told}");
    let lines = String::from_utf8(ended.stdout).expect("the program's own words, and nothing else");
    let injected: Vec<Injected> = lines.lines().map(Injected::parse).collect();
    // Three of each; nobody takes a mutex again after it was let in by an unlock.
    assert_eq!(injected.len(), 3 * (4 + 4 + 3), "{lines}");
    let summary = bench.summary();
    assert_eq!(summary["schema"], "quaver.sync/1");
    assert_eq!(number(&summary, "/facts/kernel/lost"), 0, "{told}");
    let waits = summary["results"]["longest"].as_array().expect("a list").clone();
    for one in &injected {
        assert_found(one, &waits);
    }
    let coverage = &summary["results"]["coverage"];
    assert_eq!(number(coverage, "/matched"), number(coverage, "/wake_ups"));
    let names: Vec<&Value> = (0..2).map(|at| &summary["objects"][at]["name"]).collect();
    assert!(names.contains(&&Value::from("told")), "{names:?}");
}

/// A thread that sleeps in read until another answers, eight times; that computes without a pause; and that takes long in a system
/// call without sleeping. It prints how long it was in read in all.
const LOST: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int answer[2];
static atomic_int asked;
static long long now(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}
static void *work(void *memory) {
	long long inside = 0, until;
	char octet;
	int zero = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < 8; i++) {
		long long from = now();
		atomic_fetch_add(&asked, 1);
		if (read(answer[0], &octet, 1) != 1)
			exit(1);
		inside += now() - from;
	}
	for (int i = 0; i < 4; i++)
		if (read(zero, memory, 32 << 20) != 32 << 20)
			exit(2);
	for (until = now() + 300000000; now() < until;)
		;
	printf("%lld\n", inside);
	fflush(stdout);
	return 0;
}
int main(void) {
	struct timespec time = { 0, 20000000 };
	pthread_t thread;
	char *memory = malloc(32 << 20);
	memset(memory, 1, 32 << 20);
	if (pipe(answer) || pthread_create(&thread, 0, work, memory))
		return 3;
	for (int i = 0; i < 8; i++) {
		while (atomic_load(&asked) <= i)
			;
		nanosleep(&time, 0);
		if (write(answer[1], "", 1) != 1)
			return 4;
	}
	pthread_join(thread, 0);
	return 0;
}
"#;

/// Number and nanoseconds of a class outside the six.
fn lost(summary: &Value, class: &str) -> (u64, u64) {
    let others = summary["results"]["others"].as_array().expect("a list");
    let one = others.iter().find(|one| one["class"] == class).expect("all are listed");
    (number(one, "/lost/count"), number(one, "/lost/total_ns"))
}

#[test]
fn sleep_in_system_calls_and_interrupts_is_lost_time_of_other_kinds() {
    if !privileged("looking at system calls and interrupts") {
        return;
    }
    let bench = Bench::of_text(LOST, &[]);
    let ended = bench.run(&["--tier", "bpf", "--system-call-threshold", "5ms"]);
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{told}");
    let inside_ns: u64 = String::from_utf8_lossy(&ended.stdout).trim().parse().expect("a number");
    let summary = bench.summary();
    assert_eq!(number(&summary, "/facts/system_call_threshold_ns"), 5_000_000);
    assert_eq!(number(&summary, "/facts/kernel/lost"), 0, "{told}");
    // Neither the sleep that was asked for nor the long reads that did not sleep.
    let (count, slept_ns) = lost(&summary, "system-call");
    assert_eq!(count, 8, "{told}");
    let allowed_ns = (inside_ns as f64 * TOLERANCE) as u64;
    assert!((inside_ns - allowed_ns..=inside_ns).contains(&slept_ns), "{slept_ns} of {inside_ns}");
    // The thread computes for longer than a CPU is looked at without a switch.
    let (ticks, ticked_ns) = lost(&summary, "timer");
    assert!(ticks > 0 && ticked_ns > 0, "{told}");
    let blind = summary["facts"]["kernel"]["blind"].as_array().expect("a list");
    assert!(blind.iter().any(|one| one.as_str().is_some_and(|one| one.contains("memory bus"))));

    let ended = bench.run(&["--tier", "bpf", "--system-call-threshold", "60s"]);
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(lost(&bench.summary(), "system-call"), (0, 0));
}

#[test]
fn each_of_many_threads_on_few_cpus_has_its_waker() {
    let _alone = before_others();
    let (mut wake_ups, mut alone) = (0, 0);
    for _ in 0..3 {
        let bench = Bench::of_text(JOBS, &[]);
        assert_eq!(bench.run(&["--tier", "user"]).status.code(), Some(0));
        let coverage = &bench.summary()["results"]["coverage"];
        wake_ups += number(coverage, "/wake_ups");
        alone += number(coverage, "/without_waker");
    }
    // The clocks of two threads are compared to some ten nanoseconds. Where unlocks were stamped too early, one in twenty to one in
    // a hundred had no waker.
    assert!(wake_ups > 100 && alone * 1_000 <= wake_ups, "{alone} of {wake_ups}");
}
