//! Semaphores and futex words, of which nobody records an owner, against programs that measure their waiting themselves: counts
//! equal, amounts within 2 %, and each wait in one row.

mod sync_run;

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::process::Output;
use sync_run::{Bench, before_others, number};

/// Part of the program's own time by which what is found may differ.
const TOLERANCE: f64 = 0.02;

/// Three threads hold a mutex of Rust's standard library for 4 ms each in turns. Each prints the nanoseconds that it waited, and how
/// often it went to sleep for it by the kernel's count.
const RUST_MUTEX: &str = r#"
use std::sync::Mutex;
use std::time::{Duration, Instant};
static LOCK: Mutex<()> = Mutex::new(());
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}
fn run() {
    let (mut waited, mut slept) = (Duration::ZERO, 0);
    for _ in 0..40 {
        let (before, from) = (sleeps(), Instant::now());
        let held = LOCK.lock().unwrap();
        waited += from.elapsed();
        slept += sleeps() - before;
        std::thread::sleep(Duration::from_millis(4));
        drop(held);
        std::thread::sleep(Duration::from_micros(500));
    }
    println!("{} {slept}", waited.as_nanos());
}
fn main() {
    let named = |at: usize| std::thread::Builder::new().name(format!("holder-{at}"));
    let threads: Vec<_> = (0..3).map(|at| named(at).spawn(run).unwrap()).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
"#;

/// A thread of Rust parks until another one has work for it, and does nothing else that sleeps.
const RUST_PARK: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
static WORK: AtomicU64 = AtomicU64::new(0);
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}
fn main() {
    let worker = std::thread::spawn(|| {
        let (mut waited, before) = (Duration::ZERO, sleeps());
        for want in 1..=40 {
            let from = Instant::now();
            while WORK.load(Ordering::Acquire) < want {
                std::thread::park();
            }
            waited += from.elapsed();
        }
        println!("{} {}", waited.as_nanos(), sleeps() - before);
    });
    for item in 1..=40 {
        std::thread::sleep(Duration::from_millis(5));
        WORK.store(item, Ordering::Release);
        worker.thread().unpark();
    }
    worker.join().unwrap();
}
"#;

/// Three threads hold a C++20 semaphore of one in turns, as a lock. Then four wait for a word that the initial thread changes ten
/// times.
const CPP: &str = r#"
#include <atomic>
#include <chrono>
#include <cstdio>
#include <semaphore>
#include <sys/resource.h>
#include <thread>
#include <vector>
using namespace std::chrono;
static std::binary_semaphore gate{1};
static std::atomic<int> generation{0};
static long sleeps()
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}
template <typename Wait> static void timed(long &waited, long &slept, Wait wait)
{
	long before = sleeps();
	auto from = steady_clock::now();
	wait();
	waited += nanoseconds(steady_clock::now() - from).count();
	slept += sleeps() - before;
}
static void hold()
{
	long waited = 0, slept = 0;
	for (int i = 0; i < 40; i++) {
		timed(waited, slept, [] { gate.acquire(); });
		std::this_thread::sleep_for(milliseconds(4));
		gate.release();
		std::this_thread::sleep_for(microseconds(500));
	}
	std::printf("%ld %ld\n", waited, slept);
}
static void follow()
{
	long waited = 0, slept = 0;
	for (int seen = 0; seen < 10; seen++)
		timed(waited, slept, [seen] { generation.wait(seen); });
	std::printf("%ld %ld\n", waited, slept);
}
static void all(std::vector<std::thread> &threads)
{
	for (auto &thread : threads)
		thread.join();
	std::fflush(stdout);
	threads.clear();
}
int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 3; i++)
		threads.emplace_back(hold);
	all(threads);
	for (int i = 0; i < 4; i++)
		threads.emplace_back(follow);
	for (int i = 0; i < 10; i++) {
		std::this_thread::sleep_for(milliseconds(10));
		generation++;
		generation.notify_all();
	}
	all(threads);
}
"#;

/// Three threads hold a semaphore for 5 ms each in turns, as a lock, and a mutex for 2 ms. A wait counts if the thread went to
/// sleep in it by the kernel's count.
const SEMAPHORE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
static sem_t gate;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
static long sleeps(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}
static void *run(void *by_mutex)
{
	long waited = 0, waits = 0;
	for (int i = 0; i < 40; i++) {
		long before = sleeps(), from = now();
		if (by_mutex)
			pthread_mutex_lock(&mutex);
		else
			sem_wait(&gate);
		waited += now() - from;
		waits += sleeps() > before;
		usleep(by_mutex ? 2000 : 5000);
		if (by_mutex)
			pthread_mutex_unlock(&mutex);
		else
			sem_post(&gate);
		usleep(500);
	}
	printf("%ld %ld\n", waited, waits);
	return 0;
}
int main(void)
{
	pthread_t threads[3];
	sem_init(&gate, 0, 1);
	for (long by_mutex = 0; by_mutex < 2; by_mutex++) {
		for (int i = 0; i < 3; i++)
			pthread_create(&threads[i], 0, run, (void *)by_mutex);
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], 0);
		fflush(stdout);
	}
	return 0;
}
"#;

/// The same with a lock of Python's.
const PYTHON: &str = r#"
import resource, threading, time
def sleeps():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
lock = threading.Lock()
told = []
def run():
    waited = waits = 0
    for _ in range(40):
        before, since = sleeps(), time.monotonic_ns()
        lock.acquire()
        waited += time.monotonic_ns() - since
        waits += sleeps() > before
        time.sleep(0.004)
        lock.release()
        time.sleep(0.0005)
    told.append(f"{waited} {waits}")
threads = [threading.Thread(target=run) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\n".join(told))
"#;

/// A run of one of them.
struct Run {
    /// Nanoseconds and waits of each thread, by its own account.
    own: Vec<(u64, u64)>,
    summary: Value,
    page: String,
}

impl Run {
    fn of(ended: &Output, summary: Value) -> Self {
        let page = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{page}");
        let numbers = |line: &str| {
            let (ns, waits) = line.split_once(' ').expect("two words");
            (ns.parse().expect("a number"), waits.parse().expect("a number"))
        };
        let own = String::from_utf8_lossy(&ended.stdout).lines().map(numbers).collect();
        let run = Self { own, summary, page };
        run.conserves();
        run
    }

    fn by(compiler: &str, file: &str, text: &str, flags: &[&str]) -> Self {
        let bench = Bench::by(compiler, file, text, flags);
        Self::of(&bench.run(&[]), bench.summary())
    }

    fn words(&self) -> &[Value] {
        self.summary["contention"]["words"].as_array().expect("a list")
    }

    /// Rows that took a part of the waiting that is worth a look: runtimes wait on a word or two of their own.
    fn large(&self) -> Vec<&Value> {
        let all_ns = number(&self.summary, "/contention/word_wait/total_ns");
        self.words().iter().filter(|word| number(word, "/wait/total_ns") * 50 > all_ns).collect()
    }

    /// Each wait of the kernel's side is in one row, or inside a call for another object, or said to be in none.
    fn conserves(&self) {
        let sum = |pointer: &str| self.words().iter().map(|word| number(word, pointer)).sum::<u64>();
        let contention = &self.summary["contention"];
        assert_eq!(number(contention, "/words_left_out"), 0);
        assert_eq!(sum("/wait/count"), number(contention, "/word_wait/count"));
        assert_eq!(sum("/wait/total_ns"), number(contention, "/word_wait/total_ns"));
        let is_futex = |word: &&Value| word["kind"] == "futex-word";
        let on_words: u64 =
            self.words().iter().filter(is_futex).map(|word| number(word, "/wait/count")).sum();
        let both = &self.summary["futex"]["reconciled"];
        let found = number(both, "/waits_inside_futex") + number(both, "/waits_followed");
        assert_eq!((on_words, number(&self.summary, "/facts/kernel/lost")), (found, 0), "{both}");
        assert_eq!(number(both, "/waits_outside"), number(both, "/waits_followed"), "{both}");
        for word in self.words() {
            let ends = number(word, "/woken") + number(word, "/changed") + number(word, "/given_up");
            assert_eq!(ends, number(word, "/wait/count"), "{word}");
            let by_threads: u64 = word["wakers"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|waker| number(waker, "/wake_ups"))
                .sum();
            assert_eq!(by_threads + number(word, "/waker_unknown"), number(word, "/woken"), "{word}");
        }
    }

    /// The row has what these threads say. `counted`: the waits of the row that they count.
    fn assert_agrees(&self, word: &Value, own: &[(u64, u64)], counted: &str) {
        let own_ns: u64 = own.iter().map(|one| one.0).sum();
        let waits: u64 = own.iter().map(|one| one.1).sum();
        let found_ns = number(word, "/wait/total_ns");
        let apart = found_ns.abs_diff(own_ns) as f64 / own_ns as f64;
        assert!(apart <= TOLERANCE, "{found_ns} ns found, {own_ns} ns by its own clock: {word}");
        assert_eq!(number(word, counted), waits, "{word}");
        assert_eq!(number(word, "/threads"), own.len() as u64, "{word}");
        // The kernel recorded each wake-up.
        let wakers = word["wakers"].as_array().expect("a list");
        let certain: u64 = wakers.iter().map(|waker| number(waker, "/certain")).sum();
        assert_eq!(certain, number(word, "/woken"), "{word}");
    }

    /// The verdict and the advice have the word, as an inferred lock. `owned`: who gave it back is known.
    fn assert_is_told_as_a_lock(&self, name: &str, owned: bool) {
        let contention = &self.summary["contention"];
        assert_eq!(contention["words"][0]["used_like"], "lock", "{contention}");
        let page = self.page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("for locks (") && page.contains("inferred"), "{page}");
        let verdict = if owned { " gave it back in program::run" } else { "Its owner is not known" };
        assert!(page.contains(verdict), "{page}");
        assert_eq!(contention["words"][0]["given_back"].is_null(), !owned, "{contention}");
        let advice = self.summary["advice"].as_array().expect("a list");
        let one = advice.iter().find(|one| one["kind"] == "contended-word").expect("most of the run is this");
        let change = one["change"].as_str().expect("words");
        assert!(change.starts_with("Hold ") && change.contains(name), "{change}");
        let evidence = if owned { "had it until then is inferred" } else { "Who held it is not known" };
        assert!(one["evidence"].to_string().contains(evidence), "{one}");
    }
}

#[test]
fn a_mutex_of_rust_has_a_row() {
    if !privileged("who woke the waiters of a futex word") {
        return;
    }
    let _alone = before_others();
    let run = Run::by("rustc", "program.rs", RUST_MUTEX, &["-O", "-g"]);
    let [word] = run.large()[..] else { panic!("{:?}", run.words()) };
    run.assert_agrees(word, &run.own, "/woken");
    assert_eq!((&word["kind"], &word["runtime"]), (&"futex-word".into(), &"Rust lock".into()), "{word}");
    assert_eq!(word["used_like_from"], "runtime");
    assert!(word["waiter_functions"][0]["name"].to_string().contains("program::run"), "{word}");
    run.assert_is_told_as_a_lock("Rust lock", true);
    // Rust names its threads after their start.
    assert!(run.page.contains("holder-"), "{}", run.page);
    // No lock of the thread library was waited for.
    assert_eq!(number(&run.summary, "/contention/wait/count"), 0);
}

#[test]
fn a_parked_thread_waits_for_no_lock() {
    if !privileged("who woke the waiters of a futex word") {
        return;
    }
    let _alone = before_others();
    let run = Run::by("rustc", "program.rs", RUST_PARK, &["-O"]);
    let [word] = run.large()[..] else { panic!("{:?}", run.words()) };
    run.assert_agrees(word, &run.own, "/woken");
    assert_eq!((&word["used_like"], number(word, "/passed_on")), (&"signal".into(), 0), "{word}");
    assert_eq!(word["runtime"], "Rust parked thread", "{word}");
    assert_eq!(number(&run.summary, "/contention/lock_like_wait/count"), 0);
    assert!(!run.page.contains("for locks (") && !run.page.contains("may be locks"), "{}", run.page);
    let advice = run.summary["advice"].as_array().expect("a list");
    assert!(advice.iter().all(|one| one["kind"] != "contended-word"), "{advice:?}");
}

#[test]
fn semaphores_and_atomics_of_cpp_have_rows_and_are_told_apart() {
    if !privileged("who woke the waiters of a futex word") {
        return;
    }
    let _alone = before_others();
    let run = Run::by("c++", "program.cc", CPP, &["-std=c++20", "-O1", "-pthread"]);
    let [lock, generation] = run.large()[..] else { panic!("{:?}", run.words()) };
    run.assert_agrees(lock, &run.own[..3], "/woken");
    run.assert_agrees(generation, &run.own[3..], "/woken");
    assert_eq!(lock["used_like_from"], "wake-ups");
    assert_eq!(generation["used_like"], "broadcast", "{generation}");
    // The barrier is no lock, as the C library's own locks are.
    let locks = run.words().iter().filter(|word| word["used_like"] == "lock");
    let found_ns: u64 = locks.map(|word| number(word, "/wait/total_ns")).sum();
    assert_eq!(number(&run.summary, "/contention/lock_like_wait/total_ns"), found_ns);
    // Its library wakes all for each hold: who does not get it waits again at once.
    let missed = number(lock, "/woken") - number(lock, "/passed_on");
    assert!(number(lock, "/again_at_once") * 10 >= missed * 9 && missed >= 60, "{lock}");
    run.assert_is_told_as_a_lock("gate", false);
}

#[test]
fn a_semaphore_has_a_row_beside_the_locks() {
    if !privileged("who woke the waiters of a semaphore") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of_text(SEMAPHORE, &[]);
    let run = Run::of(&bench.run(&[]), bench.summary());
    let [word] = run.large()[..] else { panic!("{:?}", run.words()) };
    run.assert_agrees(word, &run.own[..3], "/wait/count");
    assert_eq!((&word["name"], &word["kind"]), (&"gate".into(), &"semaphore".into()), "{word}");
    run.assert_is_told_as_a_lock("gate", false);
    // The mutex is a lock of the thread library, whose futex word is no second row.
    let lock = &run.summary["contention"]["locks"][0];
    let own_ns: u64 = run.own[3..].iter().map(|one| one.0).sum();
    assert_eq!((&lock["name"], run.words().len()), (&"mutex".into(), 1), "{lock}");
    assert_eq!(number(lock, "/wait/count"), run.own[3..].iter().map(|one| one.1).sum::<u64>());
    assert!(number(lock, "/wait/total_ns").abs_diff(own_ns) * 50 <= own_ns, "{own_ns}: {lock}");
}

/// Who gives a semaphore back often takes it again before the thread that was woken runs.
const TAKEN_AGAIN: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static sem_t gate;
static long posted;
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
static void *run(void *unused)
{
	long after = 0, waits = 0;
	for (int i = 0; i < 60; i++) {
		if (sem_trywait(&gate)) {
			long from = now();
			sem_wait(&gate);
			after += now() - (posted > from ? posted : from);
			waits++;
		}
		usleep(700);
		posted = now();
		sem_post(&gate);
		if (i % 3 == 2)
			usleep(500);
	}
	printf("%ld %ld\n", after, waits);
	return unused;
}
int main(void)
{
	pthread_t threads[4];
	sem_init(&gate, 0, 1);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, run, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

#[test]
fn a_post_that_another_thread_took_is_not_what_the_waiter_was_late_after() {
    if !privileged("who woke the waiters of a semaphore") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of_text(TAKEN_AGAIN, &[]);
    let run = Run::of(&bench.run(&["--threshold", "1ns", "--count-all"]), bench.summary());
    let classes = run.summary["results"]["classes"].as_array().expect("a list");
    let waits = classes.iter().find(|one| one["class"] == "signal-wait").expect("it is there");
    let own_ns: u64 = run.own.iter().map(|one| one.0).sum();
    let own_waits: u64 = run.own.iter().map(|one| one.1).sum();
    assert_eq!(number(&run.words()[0], "/wait/count"), own_waits);
    // With the first post after its beginning for each wait, it is a hundred times as much.
    let found_ns = number(waits, "/late/total_ns");
    assert!(found_ns <= 2 * own_ns, "{found_ns} ns found, {own_ns} ns by its own clock: {}", run.page);
}

#[test]
fn without_the_kernels_side_who_woke_is_inferred() {
    let _alone = before_others();
    let bench = Bench::of_text(SEMAPHORE, &[]);
    let ended = bench.run(&["--tier", "user"]);
    let summary = bench.summary();
    let word = &summary["contention"]["words"][0];
    assert_eq!((&word["name"], &word["used_like"]), (&"gate".into(), &"lock".into()), "{word}");
    let wakers = word["wakers"].as_array().expect("a list");
    assert!(wakers.iter().all(|waker| number(waker, "/certain") == 0), "{word}");
    assert_eq!(number(word, "/waker_unknown"), 0, "{word}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("times, inferred)"), "{ended:?}");
}

#[test]
fn a_lock_of_python_has_a_row() {
    if !privileged("who woke the waiters of a lock of Python") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of_text("int main(void) { return 0; }", &[]);
    let script = bench.place().join("program.py");
    std::fs::write(&script, PYTHON).expect("it can be written");
    let mut command = bench.quaver(&["sync", "--", "python3"]);
    let ended = command.arg(&script).output().expect("the program runs");
    let run = Run::of(&ended, bench.summary());
    // Each thread has a lock of its own that the initial one waits on for its end.
    let word = run.words().iter().max_by_key(|word| number(word, "/wait/count")).expect("they waited");
    run.assert_agrees(word, &run.own, "/wait/count");
    assert_eq!(word["kind"], "semaphore", "{word}");
    run.assert_is_told_as_a_lock("", false);
}
