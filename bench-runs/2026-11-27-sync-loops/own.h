#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <time.h>
#include <pthread.h>
static inline int64_t now_ns(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1000000000LL+t.tv_nsec;}
static inline void cpu_ns(int64_t ns){struct timespec t;clock_gettime(CLOCK_THREAD_CPUTIME_ID,&t);int64_t e=t.tv_sec*1000000000LL+t.tv_nsec+ns;do{clock_gettime(CLOCK_THREAD_CPUTIME_ID,&t);}while(t.tv_sec*1000000000LL+t.tv_nsec<e);}
static inline void slp(int64_t ns){struct timespec t={ns/1000000000,ns%1000000000};nanosleep(&t,0);}
