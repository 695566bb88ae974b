// Threads by the names of C11: two hand a turn to and fro, `n` times each way. Status 9 is a wrong answer.
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#define MUST(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); _Exit(9); } } while (0)

static mtx_t mutex;
static cnd_t cond;
static int n, turn;
static long waits;

static void take_turns(int mine) {
  for (int i = 0; i < n; i++) {
    MUST(mtx_lock(&mutex) == thrd_success);
    while (turn != mine) {
      waits++;
      MUST(cnd_wait(&cond, &mutex) == thrd_success);
    }
    turn = !mine;
    MUST((i % 2 ? cnd_signal(&cond) : cnd_broadcast(&cond)) == thrd_success);
    MUST(mtx_unlock(&mutex) == thrd_success);
  }
}

static int other(void *given) {
  take_turns(1);
  MUST(mtx_trylock(given) == thrd_busy);
  struct timespec past = {0};
  MUST(mtx_timedlock(given, &past) == thrd_timedout);
  return -77;
}

static int leave(void *given) {
  (void)given;
  thrd_exit(-5);
}

int main(int argc, char **argv) {
  thrd_t thread;
  mtx_t held;
  int result = 0;
  n = argc > 1 ? atoi(argv[1]) : 100;
  MUST(mtx_init(&mutex, mtx_plain) == thrd_success && cnd_init(&cond) == thrd_success);
  MUST(mtx_init(&held, mtx_timed) == thrd_success);
  MUST(mtx_trylock(&held) == thrd_success);
  MUST(thrd_create(&thread, other, &held) == thrd_success);
  take_turns(0);
  MUST(thrd_join(thread, &result) == thrd_success && result == -77);
  MUST(thrd_create(&thread, leave, 0) == thrd_success);
  MUST(thrd_join(thread, &result) == thrd_success && result == -5);
  MUST(thrd_create(&thread, leave, 0) == thrd_success && thrd_join(thread, 0) == thrd_success);
  struct timespec past = {0};
  MUST(cnd_timedwait(&cond, &held, &past) == thrd_timedout);
  MUST(mtx_unlock(&held) == thrd_success);
  printf("%ld\n", waits);
  return 0;
}
