//! `quaver sim trace`: real programs traced in QEMU, to the instruction, the access and the step.

mod kernel_build;
mod simulator;
mod tracing;

use quaver_trace::block::Class;
use quaver_trace::step::{Step, Sync, Thread};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tracing::{Bench, is_skipped};

/// All that threads do to each other, as often in every run: who waits for the condition has posted before, with the mutex held,
/// and the mutex is not to be had until all wait.
const MEETS: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#define THREADS 4
#define ROUNDS 25
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, own[THREADS];
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t ready, tokens;
static int go, sum;

static void *work(void *argument)
{
	long me = (long)argument;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&mutex);
		sum++;
		pthread_mutex_unlock(&mutex);
		if (pthread_mutex_trylock(&own[me]) == 0)
			pthread_mutex_unlock(&own[me]);
		pthread_rwlock_rdlock(&both);
		pthread_rwlock_unlock(&both);
		if (me == 0) {
			pthread_rwlock_wrlock(&both);
			pthread_rwlock_unlock(&both);
		}
		pthread_spin_lock(&spin);
		pthread_spin_unlock(&spin);
		pthread_barrier_wait(&barrier);
	}
	pthread_mutex_lock(&mutex);
	sem_post(&ready);
	while (!go)
		pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	return 0;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_spin_init(&spin, 0);
	pthread_barrier_init(&barrier, 0, THREADS);
	sem_init(&ready, 0, 0);
	sem_init(&tokens, 0, 2);
	sem_wait(&tokens);
	sem_trywait(&tokens);
	sem_trywait(&tokens);
	for (long i = 0; i < THREADS; i++) {
		pthread_mutex_init(&own[i], 0);
		pthread_create(&threads[i], 0, work, (void *)i);
	}
	for (int i = 0; i < THREADS; i++)
		sem_wait(&ready);
	pthread_mutex_lock(&mutex);
	go = 1;
	pthread_cond_broadcast(&condition);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	return sum == THREADS * ROUNDS ? 0 : 1;
}
"#;

#[test]
fn steps_of_synchronisation_are_those_of_the_machine_itself_to_the_last() {
    if is_skipped("steps_of_synchronisation_are_those_of_the_machine_itself_to_the_last") {
        return;
    }
    let bench = Bench::of(MEETS, &[]);
    let trace = bench.traced(&[]);
    let found = trace.counts();
    // Of what the recorder cannot tell: which unlocks were of readers, and who ended a wait. Four waits for the condition were
    // ended by the broadcast and four for the semaphore by posts; the other two took what it was made with.
    assert_eq!((found.read_unlocks, found.woken), (100, 8));
    let of_the_recorder = quaver_trace::summary::SyncCounts {
        unlocks: found.unlocks + found.read_unlocks,
        read_unlocks: 0,
        woken: 0,
        ..found
    };
    assert_eq!(of_the_recorder, bench.recorded(&[]));
    assert_eq!((found.creates, found.joins, found.barriers, found.broadcasts), (4, 4, 100, 1));
    assert_eq!((found.waits, found.signals), (10, 4));

    assert_eq!(trace.reader.threads().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(trace.reader.facts.program, [bench.program().to_str().unwrap()]);
    assert!(!trace.reader.cut_short);
    let syncs: Vec<Sync> = trace
        .steps(0)
        .into_iter()
        .filter_map(|(step, _)| if let Step::Sync(sync) = step { Some(sync) } else { None })
        .collect();
    let created: Vec<Thread> = syncs
        .iter()
        .filter_map(|sync| if let Sync::Create { thread } = sync { Some(*thread) } else { None })
        .collect();
    assert_eq!(created, [1, 2, 3, 4].map(Thread), "threads are numbered in the order of creation");
    let joined =
        syncs.iter().filter_map(|sync| if let Sync::Join { thread } = sync { Some(*thread) } else { None });
    assert_eq!(joined.collect::<Vec<_>>(), created);
    // Between two meetings all do the same but for the first, however long they waited while they were traced.
    let each = [2, 3, 4].map(|thread| trace.instructions(thread));
    assert!(each.iter().all(|count| count.abs_diff(each[0]) < 500), "{each:?}");
}

/// Eight threads draw 400 lots of equal work.
const DRAWS: &str = r#"
#include <pthread.h>
#define THREADS 8
#define LOTS 400
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int next;

static void *work(void *argument)
{
	int lot = 0;
	pthread_barrier_wait(&barrier);
	while (lot < LOTS) {
		pthread_mutex_lock(&mutex);
		lot = next++;
		pthread_mutex_unlock(&mutex);
		for (volatile int i = 0; lot < LOTS && i < 5000; i++)
			;
	}
	return argument;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&barrier, 0, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, work, 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

#[test]
fn work_that_is_drawn_is_divided_as_if_each_thread_had_a_processor() {
    if is_skipped("work_that_is_drawn_is_divided_as_if_each_thread_had_a_processor") {
        return;
    }
    let trace = Bench::of(DRAWS, &[]).traced(&[]);
    let each: Vec<u64> = (1..=8).map(|thread| trace.instructions(thread)).collect();
    let fair = each.iter().sum::<u64>() / 8;
    assert!(each.iter().all(|count| *count > fair / 2 && *count < fair * 2), "{each:?}");
}

/// A loop of exactly 1000 turns over an array.
const LOOP: &str = r#"
#include <stdio.h>
static long numbers[1000] __attribute__((aligned(64))), counter;
int main(void)
{
	long *at = numbers, count = 1000;
	printf("%p\n", (void *)numbers);
	fflush(stdout);
	__asm__ volatile("1: movq (%0), %%rax\n\taddq $3, %%rax\n\tmovq %%rax, (%0)\n\taddq $8, %0\n\tlock incq %2\n\t"
			 "decq %1\n\tjnz 1b"
			 : "+r"(at), "+r"(count), "+m"(counter) : : "rax", "memory", "cc");
	return numbers[999] == 3 ? 7 : 1;
}
"#;

#[test]
fn each_turn_of_a_loop_is_there_with_its_accesses() {
    if is_skipped("each_turn_of_a_loop_is_there_with_its_accesses") {
        return;
    }
    let bench = Bench::of(LOOP, &[]);
    let output = bench.run(&["with", "arguments"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let array = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap();
    let trace = bench.read();
    assert_eq!(trace.reader.facts.program[1..], ["with", "arguments"]);
    let blocks = &trace.reader.dictionary.blocks;
    let mut turns = 0;
    for (step, accesses) in trace.steps(0) {
        let Step::Block { number } = step else { continue };
        let block = &blocks[number as usize];
        let Some(at) = accesses.iter().position(|access| access.address == array + turns * 8) else {
            continue;
        };
        if block.instructions.last().is_none_or(|last| last.class != Class::Branch) || accesses.len() < at + 4
        {
            continue;
        }
        // A load and a store of the element, then both of the counter, which one locked instruction does.
        let four = &accesses[at..at + 4];
        let element = array + turns * 8;
        assert_eq!([four[0].address, four[1].address], [element; 2]);
        assert_eq!(four[2].address, four[3].address);
        assert_eq!(four.iter().map(|access| access.write).collect::<Vec<_>>(), [false, true, false, true]);
        assert!(four.iter().all(|access| access.octets == 8));
        assert_eq!(four[3].instruction, four[2].instruction);
        let locked = block.instructions[usize::from(four[2].instruction)];
        assert!(locked.class == Class::Serialising && locked.loads && locked.stores);
        turns += 1;
    }
    assert_eq!(turns, 1000);
}

/// Runs until it is ended; prints a line once it runs.
const FOREVER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static void *sleeper(void *argument)
{
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&never, &mutex);
	return argument;
}
int main(int count, char **words)
{
	pthread_t thread;
	volatile unsigned long turns = 0;
	pthread_create(&thread, 0, sleeper, 0);
	puts("runs");
	fflush(stdout);
	while (count == 1 || turns < 100000)
		turns++;
	if (count == 2)
		abort();
	return words[0][0] == 0;
}
"#;

#[test]
fn what_was_traced_until_ctrl_c_is_kept() {
    if is_skipped("what_was_traced_until_ctrl_c_is_kept") {
        return;
    }
    let bench = Bench::of(FOREVER, &[]);
    let mut running =
        bench.tracing(&[bench.program().to_str().unwrap()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "runs\n");
    let signalled = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let trace = bench.read();
    assert!(!trace.reader.cut_short, "it was ended, not cut");
    assert_eq!(trace.reader.threads().collect::<Vec<_>>(), [0, 1]);
    assert!(trace.instructions(0) > 100);
    // The lock that the sleeper holds is given back at its end, so that a replay does not wait for it.
    let counts = trace.counts();
    assert_eq!((counts.locks, counts.unlocks), (1, 1));
}

#[test]
fn a_program_that_is_killed_leaves_what_was_traced() {
    if is_skipped("a_program_that_is_killed_leaves_what_was_traced") {
        return;
    }
    let bench = Bench::of(FOREVER, &[]);
    let output = bench.run(&["aborts"]);
    assert_eq!(output.status.code(), Some(128 + 6), "{output:?}");
    assert!(bench.read().instructions(0) > 100_000);
}

#[test]
fn what_cannot_be_traced_is_refused_with_a_sentence() {
    if is_skipped("what_cannot_be_traced_is_refused_with_a_sentence") {
        return;
    }
    let bench = Bench::of("int main(void) { return 0; }", &["-static"]);
    let program = bench.program().to_str().unwrap();
    let script = bench.trace().with_extension("sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let cases = [
        (bench.run(&[]), 3, "linked statically"),
        (
            bench.tracing(&[script.to_str().unwrap()]).output().unwrap(),
            3,
            "is a script; trace what runs it: /bin/sh",
        ),
        (bench.tracing(&["/nowhere/prog"]).output().unwrap(), 2, "no such program"),
        (
            bench.tracing(&["/bin/true"]).env("QUAVER_QEMU_USER", "/nowhere/qemu").output().unwrap(),
            3,
            "apt-get install qemu-user",
        ),
        (
            bench.tracing(&["/bin/true"]).env("QUAVER_QEMU_USER", program).output().unwrap(),
            3,
            "is of no use for plugins (it is linked statically)",
        ),
    ];
    for (output, status, said) in cases {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(told.contains(said), "{told}");
    }
    assert!(!bench.trace().exists());
}

/// The programs after Splash, small, at 16 threads: the traces of all together take at most 25 kB a million instructions.
#[test]
fn traces_are_small() {
    if is_skipped("traces_are_small") {
        return;
    }
    let programs = [
        ("barnes", "-n128"),
        ("fmm", "-n256"),
        ("lu", "-n96"),
        ("ocean", "-n16"),
        ("radix", "-n2000"),
        ("raytrace", "-n32"),
        ("water-nsquared", "-n64"),
        ("water-spatial", "-n64"),
    ];
    let (mut octets, mut instructions) = (0, 0);
    for (name, size) in programs {
        let bench = Bench::at(kernel_build::kernel(name));
        let trace = bench.traced(&["-p16", size]);
        octets += trace.reader.octets;
        instructions += trace.reader.threads().map(|thread| trace.instructions(thread)).sum::<u64>();
    }
    let per_million = octets as f64 / 1e3 / (instructions as f64 / 1e6);
    assert!(
        per_million <= 25.0,
        "{octets} bytes for {instructions} instructions: {per_million:.1} kB a million"
    );
}
