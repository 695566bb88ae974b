//! Who called: waits inside one helper are told apart by its callers, and calls inside a language's library carry the name of the
//! program's own function. Amounts are those of the program's own clock, within 2 %.

mod sync_run;

use quaver_store::run::RunDir;
use quaver_testbed::privileged::{Feature, Lack, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use sync_run::{Bench, before_others};

/// Part of the program's own time by which what is found may differ.
const TOLERANCE: f64 = 0.02;

/// One function takes the lock and one gives it back, each called from three places. The other thread has it for 3, 6 and 9 ms while
/// it is asked for.
const HELPER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#define PLAIN __attribute__((noinline, noclone))
static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;
static long waited[3];
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}
PLAIN void take(int caller)
{
	long from = now();
	pthread_mutex_lock(&contended);
	waited[caller] += now() - from;
}
PLAIN void give(void)
{
	pthread_mutex_unlock(&contended);
	asm volatile("");
}
PLAIN void first(void) { take(0); asm volatile(""); }
PLAIN void second(void) { take(1); asm volatile(""); }
PLAIN void third(void) { take(2); asm volatile(""); }
PLAIN void give_first(void) { give(); asm volatile(""); }
PLAIN void give_second(void) { give(); asm volatile(""); }
PLAIN void give_third(void) { give(); asm volatile(""); }
static void *hold(void *unused)
{
	for (int i = 0; i < 90; i++) {
		pthread_mutex_lock(&contended);
		pthread_barrier_wait(&turn);
		usleep(3000 * (i % 3 + 1));
		if (i % 3 == 0)
			give_first();
		else if (i % 3 == 1)
			give_second();
		else
			give_third();
		pthread_barrier_wait(&turn);
	}
	return unused;
}
int main(void)
{
	pthread_t holder;
	pthread_barrier_init(&turn, 0, 2);
	pthread_create(&holder, 0, hold, 0);
	for (int i = 0; i < 90; i++) {
		pthread_barrier_wait(&turn);
		if (i % 3 == 0)
			first();
		else if (i % 3 == 1)
			second();
		else
			third();
		pthread_mutex_unlock(&contended);
		pthread_barrier_wait(&turn);
	}
	pthread_join(holder, 0);
	printf("first %ld\nsecond %ld\nthird %ld\n", waited[0], waited[1], waited[2]);
	return 0;
}
"#;

/// A run of a program that prints names with the nanoseconds that each waited.
struct Run {
    own: BTreeMap<String, u64>,
    contention: Value,
    page: String,
}

impl Run {
    fn of(bench: &Bench) -> Self {
        let ended = bench.run(&[]);
        let page = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{page}");
        let said = String::from_utf8(ended.stdout).expect("names and numbers");
        let own = said.lines().map(|line| {
            let (name, ns) = line.split_once(' ').expect("a name and a number");
            (name.to_owned(), ns.parse().expect("a number"))
        });
        Self { own: own.collect(), contention: bench.summary()["contention"].clone(), page }
    }

    /// Each name that the program printed has a chain that goes through it, and no other goes there.
    fn assert_told_apart(&self, chains: &Value, through: impl Fn(&str) -> String) {
        assert!(self.own.values().all(|ns| *ns > 50_000_000), "{:?}", self.own);
        for (name, own_ns) in &self.own {
            let through = through(name);
            let of = chains.as_array().expect("a list").iter().filter(|one| text(one).starts_with(&through));
            let found_ns: u64 = of.map(|one| one["total_ns"].as_u64().expect("a number")).sum();
            let apart = found_ns.abs_diff(*own_ns) as f64 / *own_ns as f64;
            assert!(apart <= TOLERANCE, "{found_ns} ns, {own_ns} ns by its own clock: {through}, {chains}");
        }
    }
}

fn text(share: &Value) -> &str {
    share["name"].as_str().expect("a name")
}

#[test]
fn three_callers_of_one_helper_are_told_apart() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("who called the caller", Lack::Feature(Feature::X86_64));
    }
    let _alone = before_others();
    let builds: [&[&str]; 3] =
        [&["-O0"], &["-O2", "-fno-omit-frame-pointer"], &["-O2", "-fomit-frame-pointer"]];
    for flags in builds {
        let bench = Bench::of_text(HELPER, flags);
        let run = Run::of(&bench);
        let lock = &run.contention["locks"][0];
        assert_eq!(lock["name"], "contended");
        run.assert_told_apart(&lock["waiter_chains"], |name| {
            format!("take (program) from {name} (program) from main (program)")
        });
        let owners = &lock["owner_chains"];
        for (at, name) in ["give_third", "give_second", "give_first"].into_iter().enumerate() {
            let chain = format!("give (program) from {name} (program) from hold (program)");
            assert_eq!(owners[at]["name"], chain, "{owners}");
        }
        let functions = [&lock["waiter_functions"], &lock["owner_functions"]];
        assert_eq!(functions.map(|one| one[0]["name"].clone()), ["take (program)", "give (program)"]);
        let again = bench.quaver(&["analyze"]).arg(bench.last_run()).output().expect("it runs");
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        assert_eq!(bench.summary()["contention"], run.contention, "the chains are kept with the run");
        let page = run.page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("Waited for in take (program) from third (program) from main"), "{page}");
    }
}

/// Each kind of wait of C++, asked for by a function of the program's own; nobody else calls the library.
const CPP: &str = r#"
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>
#define PLAIN __attribute__((noinline, noclone))
using namespace std::chrono;
/* Before it waits, the library gives its CPU to others a few times. Nobody waits for these, and they may stay for long. */
extern "C" int sched_yield() noexcept { return 0; }
static std::mutex lock;
static std::mutex of_condition;
static std::condition_variable condition;
static bool is_set;
static std::atomic<int> word;
static std::counting_semaphore<8> semaphore{0};
static std::barrier turn{2};
static long now() { return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count(); }
static void pass(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }
PLAIN void wants_lock() { std::lock_guard<std::mutex> held(lock); asm volatile(""); }
PLAIN void wants_condition()
{
	std::unique_lock<std::mutex> held(of_condition);
	condition.wait(held, [] { return is_set; });
	is_set = false;
}
PLAIN void wants_word(int i) { word.wait(i); asm volatile(""); }
PLAIN void wants_semaphore() { semaphore.acquire(); asm volatile(""); }
PLAIN void wants_latch(std::latch &latch) { latch.wait(); asm volatile(""); }
int main()
{
	long waited[5] = {};
	const char *names[5] = { "wants_lock", "wants_condition", "wants_word", "wants_semaphore", "wants_latch" };
	constexpr int times = 20;
	std::latch *latch = nullptr;
	std::thread other([&] {
		for (int i = 0; i < times; i++) {
			lock.lock();
			turn.arrive_and_wait();
			pass(8);
			lock.unlock();
			turn.arrive_and_wait();
			pass(8);
			{
				std::lock_guard<std::mutex> held(of_condition);
				is_set = true;
			}
			condition.notify_one();
			turn.arrive_and_wait();
			pass(8);
			word = i + 1;
			word.notify_one();
			turn.arrive_and_wait();
			pass(8);
			semaphore.release();
			turn.arrive_and_wait();
			pass(8);
			latch->count_down();
			turn.arrive_and_wait();
		}
	});
	for (int i = 0; i < times; i++) {
		std::latch once(1);
		latch = &once;
		turn.arrive_and_wait();
		for (int kind = 0; kind < 5; kind++) {
			long from = now();
			switch (kind) {
			case 0: wants_lock(); break;
			case 1: wants_condition(); break;
			case 2: wants_word(i); break;
			case 3: wants_semaphore(); break;
			case 4: wants_latch(once); break;
			}
			waited[kind] += now() - from;
			turn.arrive_and_wait();
		}
	}
	other.join();
	for (int kind = 0; kind < 5; kind++)
		std::printf("%s %ld\n", names[kind], waited[kind]);
	return 0;
}
"#;

#[test]
fn the_programs_own_function_is_named_and_not_that_of_a_library() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("who called a library", Lack::Feature(Feature::X86_64));
    }
    let _alone = before_others();
    for flags in [&["-std=c++20", "-pthread", "-O0", "-g"][..], &["-std=c++20", "-pthread", "-O2", "-g"]] {
        let run = Run::of(&Bench::by("c++", "program.cc", CPP, flags));
        let lists =
            ["locks", "conditions", "words"].map(|list| run.contention[list].as_array().expect("a list"));
        let chains: Vec<Value> = lists
            .into_iter()
            .flatten()
            .flat_map(|one| one["waiter_chains"].as_array().expect("a list").clone())
            .collect();
        run.assert_told_apart(&Value::Array(chains), |name| format!("{name} (program.cc:"));
    }
}

/// Three threads hold a monitor and then a lock of `java.util.concurrent` for 3 ms each in turns.
const JAVA: &str = r#"
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.locks.ReentrantLock;
public class Program {
	static final Object monitor = new Object();
	static final ReentrantLock lock = new ReentrantLock();
	static final CyclicBarrier all = new CyclicBarrier(3);
	static void meet() {
		try {
			all.await();
		} catch (Exception broken) {
			throw new Error(broken);
		}
	}
	/* Asleep: beside a holder that runs, the next one spins for as long as it has a CPU, and does not wait. */
	static void pass() {
		try {
			Thread.sleep(3);
		} catch (InterruptedException never) {
			throw new Error(never);
		}
	}
	static void wantsMonitor() {
		synchronized (monitor) {
			pass();
		}
	}
	static void wantsLock() {
		lock.lock();
		pass();
		lock.unlock();
	}
	public static void main(String[] words) throws Exception {
		Thread[] threads = new Thread[3];
		for (int i = 0; i < 3; i++) {
			threads[i] = new Thread(() -> {
				meet();
				for (int turn = 0; turn < 40; turn++)
					wantsMonitor();
				meet();
				for (int turn = 0; turn < 40; turn++)
					wantsLock();
			});
			threads[i].start();
		}
		for (Thread thread : threads)
			thread.join();
	}
}
"#;

/// Chains of all conditions that begin so, with their nanoseconds, and the sentences about what is not named.
fn java(options: &[&str]) -> (BTreeMap<String, u64>, String) {
    let place = tempfile::tempdir().expect("a directory");
    let source = place.path().join("Program.java");
    std::fs::write(&source, JAVA).expect("it can be written");
    let compiled =
        Command::new("javac").arg("-d").arg(place.path()).arg(&source).output().expect("it can be run");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let bench = Bench::of_text("int main(void) { return 0; }", &[]);
    let mut sync = bench.quaver(&["sync", "--", "java"]);
    let ended = sync.args(options).arg("-cp").arg(place.path()).arg("Program").output().expect("it runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let run = RunDir::open(&bench.last_run()).expect("a run");
    let details = std::fs::read(run.path().join("details.json")).expect("it was written");
    let details: Value = serde_json::from_slice(&details).expect("JSON");
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", details["processes"][0]["pid"]));
    let mut chains = BTreeMap::new();
    for one in details["contention"]["conditions"].as_array().expect("a list") {
        for chain in one["waiter_chains"].as_array().expect("a list") {
            *chains.entry(text(chain).to_owned()).or_default() +=
                chain["total_ns"].as_u64().expect("a number");
        }
    }
    (chains, details["contention"]["unnamed"].to_string())
}

#[test]
fn waits_of_java_have_their_deed_and_the_function_that_a_perf_map_names() {
    let name = "who waits in Java";
    if cfg!(not(target_arch = "x86_64")) {
        return skip(name, Lack::Feature(Feature::X86_64));
    }
    if Command::new("javac").arg("-version").output().is_err() {
        return skip(name, Lack::Installed("javac"));
    }
    let _alone = before_others();
    let ns = |chains: &BTreeMap<String, u64>, deed: &str, function: &str| -> u64 {
        let of = chains.iter().filter(|(chain, _)| chain.starts_with(deed) && chain.contains(function));
        of.map(|(_, ns)| ns).sum()
    };
    // Three threads begin at once and hold it for 120 ms each, so the last one waits 240 ms, whoever comes first.
    let least_ns = 100_000_000;
    let (plain, unnamed) = java(&[]);
    for deed in ["Java synchronized", "Java LockSupport.park"] {
        assert!(ns(&plain, deed, "") > least_ns, "{deed}: {plain:?}");
        assert_eq!(ns(&plain, deed, " from Program"), 0, "nothing says so: {plain:?}");
    }
    assert!(unnamed.contains("Functions of Java have no names: it left no map of its code"), "{unnamed}");
    let compiled = ["-Xcomp", "-XX:-TieredCompilation", "-XX:-Inline"];
    let named = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+PreserveFramePointer", "-XX:+DumpPerfMapAtExit"];
    let (chains, _) = java(&[&compiled[..], &named].concat());
    assert!(ns(&chains, "Java synchronized", " from Program.wantsMonitor") > least_ns, "{chains:?}");
    assert!(ns(&chains, "Java LockSupport.park", " from Program.wantsLock") > least_ns, "{chains:?}");
}
