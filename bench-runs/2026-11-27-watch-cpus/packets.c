/* packets CPU MS: sends packets to itself over loopback, each of which is a NET_RX softirq; prints their number and ns for each. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static double now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int count, char **words)
{
	cpu_set_t cpus;
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
	char byte = 0;
	long packets = 0;
	double start, end;

	if (count != 3)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(words[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) || bind(in, (void *)&at, sizeof(at)) ||
	    getsockname(in, (void *)&at, &length) || connect(out, (void *)&at, length))
		return 1;
	start = now_ns();
	end = start + atof(words[2]) * 1e6;
	while (now_ns() < end) {
		if (send(out, &byte, 1, 0) != 1 || recv(in, &byte, 1, 0) != 1)
			return 1;
		packets++;
	}
	printf("%ld %.1f\n", packets, (now_ns() - start) / packets);
	return 0;
}
