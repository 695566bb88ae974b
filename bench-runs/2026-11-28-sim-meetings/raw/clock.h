#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <time.h>
static inline uint64_t now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1000000000ull+t.tv_nsec;}
static volatile uint64_t sink[64*64];
static inline void work(int t,int n){uint64_t x=t+1;for(int i=0;i<n;i++)x=x*6364136223846793005ull+1;sink[t*64]+=x;}
static inline int arg(int c,char**v,int i,int d){return c>i?atoi(v[i]):d;}
