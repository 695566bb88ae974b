/* Two threads of a process on one CPU hand a byte to and fro: each hand-over is a wake-up and a switch.
 * pipe CPU MILLISECONDS prints how many switches there were and the nanoseconds for each. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];

static void *answer(void *unused)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return unused;
}

static long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **words)
{
	cpu_set_t cpus;
	pthread_t thread;
	long long start, end;
	long switches = 0;
	char byte = 0;

	if (count != 3 || pipe(there) || pipe(back))
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(words[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) || pthread_create(&thread, 0, answer, 0))
		return 2;
	start = now_ns();
	end = start + atoi(words[2]) * 1000000LL;
	while (now_ns() < end) {
		for (int i = 0; i < 64; i++)
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				return 1;
		switches += 128;
	}
	printf("%ld %.1f\n", switches, (double)(now_ns() - start) / switches);
	return 0;
}
