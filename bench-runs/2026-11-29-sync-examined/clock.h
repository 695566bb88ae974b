#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
static long now(void){ struct timespec t; clock_gettime(CLOCK_MONOTONIC,&t); return t.tv_sec*1000000000L+t.tv_nsec; }
static void spin(int n){ long u=now()+n*1000000L; while(now()<u); }
static void ms(int n){ usleep(n*1000); }
static struct timespec at_clock(clockid_t c,long in){ struct timespec t; clock_gettime(c,&t); t.tv_nsec+=in; t.tv_sec+=t.tv_nsec/1000000000; t.tv_nsec%=1000000000; return t; }
#define TIMED(w,call) ({ long f_=now(); __typeof__(call) r_=(call); (w)+=now()-f_; r_; })
#define TID ((int)syscall(SYS_gettid))
