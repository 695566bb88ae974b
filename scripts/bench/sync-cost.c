// Nanoseconds of calls of the thread library that need not wait: `sync-cost [THOUSANDS]`. One line a kind: name,
// nanoseconds a call, calls, events that a recorder of events would write for each.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#define COUNTER() __rdtsc()
#else
#define COUNTER() 0
#endif

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

#define MEASURE(name, calls, events, body)                                              \
  if (!only || !strcmp(only, name)) {                                                   \
    double best = 1e18;                                                                 \
    for (int round = 0; round < 5; round++) {                                           \
      double from = now_ns();                                                           \
      for (long i = 0; i < n; i++) { body; }                                            \
      double took = (now_ns() - from) / (double)n / (calls);                            \
      if (took < best) best = took;                                                     \
    }                                                                                   \
    printf("%s %.2f %ld %d\n", name, best, 5 * n * (calls), events);                    \
  }

int main(int argc, char **argv) {
  long n = 1000 * (argc > 1 ? atol(argv[1]) : 200);
  const char *only = argc > 2 ? argv[2] : NULL;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
  pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
  pthread_spinlock_t spin;
  sem_t sem;
  pthread_spin_init(&spin, 0);
  sem_init(&sem, 0, 0);
  pthread_mutex_lock(&held);
  unsigned long sum = 0;
  MEASURE("counter", 1, 0, sum += COUNTER())
  if (sum == 1) return 1;
  MEASURE("lock-unlock", 2, 0, pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex))
  MEASURE("trylock-busy", 1, 0, pthread_mutex_trylock(&held))
  MEASURE("signal", 1, 2, pthread_cond_signal(&cond))
  MEASURE("broadcast", 1, 2, pthread_cond_broadcast(&cond))
  MEASURE("rwlock", 2, 0, pthread_rwlock_rdlock(&rw); pthread_rwlock_unlock(&rw))
  MEASURE("spin", 2, 0, pthread_spin_lock(&spin); pthread_spin_unlock(&spin))
  MEASURE("semaphore", 2, 0, sem_post(&sem); sem_wait(&sem))
  return 0;
}
