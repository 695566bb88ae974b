use super::*;
use crate::sync::launch::{Launch, Launched};
use quaver_abi::kernel_side::{FutexOperation, KernelSideKind};
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

/// Whether the test goes on; where a privileged test is required, it must.
fn privileged(name: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    assert!(
        root || std::env::var_os("QUAVER_REQUIRE_PRIVILEGED").is_none(),
        "{name} must not be skipped here"
    );
    if !root {
        eprintln!("skipped: {name} needs root");
    }
    root
}

fn run_under(tier: Tier) -> (Vec<KernelSideRecord>, KernelCounts, u32) {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("waits.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = place.path().join("waits");
    let compiled = Command::new("cc").arg("-pthread").arg("-o").arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    let mut source = start(Some(tier), Followed::Children).unwrap().source.unwrap();
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
    let operations = |operation| {
        entries.iter().filter(move |entry| FutexOperation::of_operand(entry.operand) == operation)
    };
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
