use super::*;
use quaver_abi::kernel_side::{FutexOperation, KernelSideKind, WakingContext};
use quaver_launch::launch::{Launch, Launched};
use quaver_testbed::privileged::privileged;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Waits on a broadcast and on a signal, on futexes that have changed (EAGAIN), and wakes nobody: numbers that are known.
const PROGRAM: &str = r#"
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waiting, told, tids[3];
static void *wait(void *unused) {
	pthread_mutex_lock(&lock);
	tids[waiting++] = syscall(SYS_gettid);
	while (!told)
		pthread_cond_wait(&condition, &lock);
	pthread_mutex_unlock(&lock);
	return unused;
}
/* Called with the lock held by the caller, so that who waits for the condition can sleep in nothing else. */
static int sleeps(int tid) {
	char path[64], state = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	FILE *file = fopen(path, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'S';
}
int main(void) {
	pthread_t threads[3];
	unsigned word = 7;
	int ready = 0;
	for (int i = 0; i < 5; i++)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 8, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 8, 0, 0, 1);
	for (int i = 0; i < 6; i++)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, wait, 0);
	while (!ready) {
		pthread_mutex_lock(&lock);
		ready = waiting == 3 && sleeps(tids[0]) && sleeps(tids[1]) && sleeps(tids[2]);
		if (ready) {
			told = 1;
			pthread_cond_broadcast(&condition);
		}
		pthread_mutex_unlock(&lock);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// Takes long on the CPU in readv seven times, sleeps in read six times until a child answers, sleeps as it asks for four times,
/// and calls getppid very often.
const CALLS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
int main(void) {
	struct timespec time = { 0, 5000000 };
	size_t length = 32 << 20;
	char *memory = malloc(length), octet = 0;
	struct iovec vector = { memory, length };
	int zero = open("/dev/zero", O_RDONLY), ask[2], answer[2];
	memset(memory, 1, length);
	for (int i = 0; i < 7; i++)
		if (readv(zero, &vector, 1) != (ssize_t)length)
			return 1;
	if (pipe(ask) || pipe(answer))
		return 2;
	if (!fork()) {
		close(ask[1]);
		while (read(ask[0], &octet, 1) == 1) {
			nanosleep(&time, 0);
			if (write(answer[1], &octet, 1) != 1)
				_exit(3);
		}
		_exit(0);
	}
	for (int i = 0; i < 6; i++)
		if (write(ask[1], &octet, 1) != 1 || read(answer[0], &octet, 1) != 1)
			return 4;
	close(ask[1]);
	wait(0);
	for (int i = 0; i < 4; i++)
		nanosleep(&time, 0);
	for (int i = 0; i < 5000; i++)
		syscall(SYS_getppid);
	return 0;
}
"#;

/// A thread sleeps fifty times on a CPU where the program's first thread computes, who then wakes it by a futex.
const TIMER: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile int slept;
static int word;
static void *sleeper(void *unused) {
	struct timespec time = { 0, 2000000 };
	for (int i = 0; i < 50; i++)
		nanosleep(&time, 0);
	slept = 1;
	while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	return unused;
}
int main(void) {
	cpu_set_t all, one;
	pthread_t thread;
	int last = 0;
	sched_getaffinity(0, sizeof(all), &all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all))
			last = cpu;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_create(&thread, 0, sleeper, 0);
	while (!slept)
		;
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
	while (!syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0))
		if (pthread_tryjoin_np(thread, 0) == 0)
			return 0;
	pthread_join(thread, 0);
	return 0;
}
"#;

fn run_under(tier: Tier) -> (Vec<KernelSideRecord>, KernelCounts, u32) {
    run_program(PROGRAM, tier, 10_000)
}

fn run_program(text: &str, tier: Tier, call_ns: u64) -> (Vec<KernelSideRecord>, KernelCounts, u32) {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("waits.c");
    std::fs::write(&source, text).unwrap();
    let program = place.path().join("waits");
    let compiled = Command::new("cc").arg("-pthread").arg("-o").arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    let mut source = start(Some(tier), Followed::Children, call_ns).unwrap().source.unwrap();
    let words = [OsString::from(&program)];
    let launch = Launch { words: &words, preload: None, directory: Path::new("/"), signals: None };
    let mut launched = Launched::start(&launch).unwrap();
    let mut records = Vec::new();
    let pid = launched.pid();
    while launched.wait(Duration::from_millis(10), None).unwrap().is_none() {
        source.drain(&mut |record| records.push(record)).unwrap();
    }
    let counts = source.finish(&mut |record| records.push(record)).unwrap();
    (records, counts, pid)
}

fn assert_all_is_seen(records: &[KernelSideRecord], counts: KernelCounts, pid: u32) {
    assert_eq!(counts.lost, 0);
    let of = |kind: KernelSideKind| records.iter().filter(move |record| record.kind == kind as u8);
    let forks: BTreeSet<u32> = of(KernelSideKind::Fork).map(|record| record.other).collect();
    assert_eq!(forks.len(), 4, "the program and three threads: {forks:?}");
    assert!(forks.contains(&pid));
    let entries: Vec<_> = of(KernelSideKind::FutexEnter).collect();
    assert!(entries.iter().all(|entry| forks.contains(&entry.thread)));
    let operations =
        |operation| entries.iter().filter(move |entry| entry.futex_call().operation == operation);
    // Five of our own; the joins and a contended lock wait likewise.
    assert!(operations(FutexOperation::Wait).count() >= 5);
    // Four of our own, and each thread at least once in its condition: what tools that know FUTEX_WAIT only do not see.
    assert!(operations(FutexOperation::WaitBitset).count() >= 4 + 3);
    assert!(operations(FutexOperation::Wake).count() > 6);
    const EAGAIN: i64 = -11;
    let refused = of(KernelSideKind::FutexExit).filter(|record| record.value.cast_signed() == EAGAIN).count();
    assert!(refused >= 9, "{refused}");
    let returns = of(KernelSideKind::FutexExit).count();
    assert_eq!(returns, entries.len(), "no thread was killed inside a call");
    if let (Some(calls), Some(back)) = (counts.futex_calls, counts.futex_returns) {
        assert_eq!((calls, back), (entries.len() as u64, returns as u64));
    }
    assert!(of(KernelSideKind::Wakeup).filter(|record| forks.contains(&record.thread)).count() >= 3);
    // The first thread broadcasts, and hands the lock over: it is named.
    let wakings = of(KernelSideKind::Waking).filter(|record| forks.contains(&record.thread));
    let by_a_task = wakings.filter(|record| record.detail == WakingContext::Task as u8);
    assert!(by_a_task.filter(|record| record.other == pid).count() >= 1);
    assert!(of(KernelSideKind::Switch).any(|record| forks.contains(&record.other)));
    assert!(of(KernelSideKind::Exit).count() >= 4);
}

#[test]
fn every_futex_call_of_a_program_is_seen_by_bpf() {
    if cfg!(feature = "bpf") && privileged("watching a program by BPF") {
        let (records, counts, pid) = run_under(Tier::Bpf);
        assert_all_is_seen(&records, counts, pid);
        assert!(counts.futex_calls.is_some());
    }
}

#[test]
fn every_futex_call_of_a_program_is_seen_by_tracefs() {
    if privileged("watching a program by tracefs") {
        let (records, counts, pid) = run_under(Tier::Tracefs);
        assert_all_is_seen(&records, counts, pid);
    }
}

/// The number of an interrupt or a softirq is known to BPF only.
fn assert_a_timer_names_no_thread(tier: Tier) {
    let (records, counts, pid) = run_program(TIMER, tier, 60_000_000_000);
    assert_eq!(counts.lost, 0);
    let of = |kind: KernelSideKind| records.iter().filter(move |record| record.kind == kind as u8);
    let made = |record: &&KernelSideRecord| record.thread == pid;
    let sleeper = of(KernelSideKind::Fork).find(made).expect("the program makes a thread").other;
    let wakings: Vec<_> = of(KernelSideKind::Waking).filter(|record| record.thread == sleeper).collect();
    let within = |context| wakings.iter().filter(move |record| record.detail == context as u8);
    let by_timer = within(WakingContext::Interrupt).chain(within(WakingContext::Softirq));
    assert!(by_timer.clone().all(|record| record.other == 0), "{wakings:?}");
    // One may end before it sleeps, if its CPU is taken away for long.
    assert!(by_timer.count() >= 40, "{wakings:?}");
    assert_eq!(within(WakingContext::Unknown).count(), 0);
    if tier == Tier::Bpf {
        assert!(within(WakingContext::Interrupt).all(|record| record.value > 0), "{wakings:?}");
    }
    let named: BTreeSet<u32> = within(WakingContext::Task).map(|record| record.other).collect();
    assert!(named.is_subset(&[0, pid].into()), "{named:?}");
    assert!(of(KernelSideKind::Wakeup).all(|record| record.other == 0));
}

#[test]
fn a_timer_that_wakes_a_thread_does_not_name_the_thread_that_it_interrupts() {
    if !privileged("a_timer_that_wakes_a_thread_does_not_name_the_thread_that_it_interrupts") {
        return;
    }
    if cfg!(feature = "bpf") {
        assert_a_timer_names_no_thread(Tier::Bpf);
    }
    assert_a_timer_names_no_thread(Tier::Tracefs);
}

/// readv, read, getppid, nanosleep and what the C library calls for it.
const NUMBERS: [u16; 5] =
    if cfg!(target_arch = "x86_64") { [19, 0, 110, 35, 230] } else { [65, 63, 173, 101, 115] };

/// How long the thread was off its CPU by its own will while inside a call, by the switches alone.
fn slept_ns(records: &[KernelSideRecord], call: &KernelSideRecord, inside_ns: u64) -> u64 {
    const BLOCKED: u8 = 2;
    let inside = call.at_ns - inside_ns..=call.at_ns;
    let switches = records
        .iter()
        .filter(|record| record.kind == KernelSideKind::Switch as u8 && inside.contains(&record.at_ns));
    let (mut slept_ns, mut asleep_ns) = (0, None);
    for switch in switches {
        if switch.thread == call.thread && switch.detail == BLOCKED {
            asleep_ns = Some(switch.at_ns);
        } else if switch.other == call.thread {
            slept_ns += asleep_ns.take().map_or(0, |asleep_ns| switch.at_ns - asleep_ns);
        }
    }
    slept_ns
}

#[test]
fn long_system_calls_are_told_of_one_by_one_and_short_ones_are_not() {
    if !cfg!(feature = "bpf") || !privileged("watching system calls by BPF") {
        return;
    }
    const LONG_NS: u64 = 200_000;
    let (records, counts, pid) = run_program(CALLS, Tier::Bpf, LONG_NS);
    assert_eq!(counts.lost, 0);
    let [readv, read, getppid, sleep, clock_sleep] = NUMBERS;
    let calls: Vec<_> = records
        .iter()
        .filter(|record| record.thread == pid)
        .filter_map(KernelSideRecord::system_call)
        .collect();
    for call in &calls {
        assert!(call.inside_ns > LONG_NS && call.blocked_ns <= call.inside_ns, "{call:?}");
    }
    let of = |numbers: &[u16]| -> Vec<_> {
        calls.iter().copied().filter(|call| numbers.contains(&call.number)).collect()
    };
    let on_cpu = of(&[readv]);
    assert_eq!(on_cpu.len(), 7, "{calls:?}");
    assert!(
        on_cpu.iter().all(|call| !call.only_waits && call.blocked_ns < call.inside_ns / 10),
        "{on_cpu:?}"
    );
    // What a call slept is what the thread's switches say, to the nanosecond. A CPU that its host takes away as a sleep begins
    // gives it back when the sleep is over: then the thread did not sleep.
    for record in records.iter().filter(|record| record.thread == pid) {
        if let Some(call) = record.system_call() {
            assert_eq!(call.blocked_ns, slept_ns(&records, record, call.inside_ns), "{call:?}");
        }
    }
    let answered = of(&[read]);
    assert!(answered.iter().filter(|call| call.blocked_ns > LONG_NS).count() >= 3, "{calls:?}");
    assert!(answered.iter().all(|call| !call.only_waits));
    let slept = of(&[sleep, clock_sleep]);
    assert_eq!(slept.len(), 4, "{calls:?}");
    assert!(slept.iter().all(|call| call.only_waits && call.inside_ns >= 5_000_000), "{slept:?}");
    // One may have been interrupted for so long, but they are no flood.
    assert!(of(&[getppid]).len() < 50);

    let (records, counts, _) = run_program(CALLS, Tier::Bpf, 60_000_000_000);
    assert_eq!(counts.lost, 0);
    assert_eq!(records.iter().filter_map(KernelSideRecord::system_call).count(), 0);
}

#[test]
fn what_no_source_tells_of_is_said() {
    if !privileged("starting the kernel's side") {
        return;
    }
    for tier in [Tier::Bpf, Tier::Tracefs] {
        if tier == Tier::Bpf && !cfg!(feature = "bpf") {
            continue;
        }
        let source = start(Some(tier), Followed::Children, 10_000).unwrap().source.unwrap();
        let blind = source.blind();
        assert!(NOT_TOLD.iter().all(|one| blind.iter().any(|said| said == one)), "{blind:?}");
        let calls = blind.iter().any(|said| said.starts_with("system calls but those of futexes"));
        assert_eq!(calls, tier == Tier::Tracefs, "{blind:?}");
    }
}
