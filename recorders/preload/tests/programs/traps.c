// Programs under measurement, one a mode: `traps MODE [N]`. Each does a known number of calls, so that the
// recording can be held to the exact count, and each judges for itself that the thread library still does
// what it ought to; exit status 9 is a wrong answer.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); _exit(9); } } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER;
static int n = 1000;
static long shared;

// Runs before main, maybe before the recorder's own constructor.
__attribute__((constructor)) static void before_main(void) {
  MUST(pthread_mutex_lock(&early) == 0);
  MUST(pthread_mutex_unlock(&early) == 0);
}

static struct timespec in_ms(clockid_t clock, long ms) {
  struct timespec t;
  clock_gettime(clock, &t);
  t.tv_nsec += ms % 1000 * 1000000;
  t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

static void lock_n(int count) {
  for (int i = 0; i < count; i++) {
    MUST(pthread_mutex_lock(&mutex) == 0);
    shared++;
    MUST(pthread_mutex_unlock(&mutex) == 0);
  }
}

// One thread, every call that need not wait, n times each.
static void quiet(void) {
  pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
  pthread_spinlock_t spin;
  pthread_barrier_t barrier;
  sem_t sem;
  MUST(pthread_spin_init(&spin, 0) == 0 && pthread_barrier_init(&barrier, 0, 1) == 0 && sem_init(&sem, 0, 0) == 0);
  for (int i = 0; i < n; i++) {
    errno = 77;
    struct timespec real = in_ms(CLOCK_REALTIME, 60000), mono = in_ms(CLOCK_MONOTONIC, 60000);
    MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_trylock(&mutex) == EBUSY && pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_mutex_timedlock(&mutex, &real) == 0 && pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &mono) == 0 && pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_cond_signal(&cond) == 0 && pthread_cond_broadcast(&cond) == 0);
    MUST(pthread_rwlock_rdlock(&rw) == 0 && pthread_rwlock_tryrdlock(&rw) == 0 && pthread_rwlock_trywrlock(&rw) == EBUSY);
    MUST(pthread_rwlock_timedrdlock(&rw, &real) == 0 && pthread_rwlock_clockrdlock(&rw, CLOCK_MONOTONIC, &mono) == 0);
    for (int k = 0; k < 4; k++) MUST(pthread_rwlock_unlock(&rw) == 0);
    MUST(pthread_rwlock_wrlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
    MUST(pthread_rwlock_timedwrlock(&rw, &real) == 0 && pthread_rwlock_unlock(&rw) == 0);
    MUST(pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &mono) == 0 && pthread_rwlock_unlock(&rw) == 0);
    MUST(pthread_spin_lock(&spin) == 0 && pthread_spin_trylock(&spin) == EBUSY && pthread_spin_unlock(&spin) == 0);
    MUST(pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
    for (int k = 0; k < 4; k++) MUST(sem_post(&sem) == 0);
    MUST(sem_wait(&sem) == 0 && sem_trywait(&sem) == 0 && sem_timedwait(&sem, &real) == 0);
    MUST(sem_clockwait(&sem, CLOCK_MONOTONIC, &mono) == 0);
    MUST(errno == 77);
    MUST(sem_trywait(&sem) == -1 && errno == EAGAIN);
  }
}

// Two threads hand a turn to and fro, n times each way.
static int turn;
static long waits;
static void take_turns(int mine) {
  for (int i = 0; i < n; i++) {
    pthread_mutex_lock(&mutex);
    while (turn != mine) {
      waits++;
      MUST(pthread_cond_wait(&cond, &mutex) == 0);
    }
    turn = !mine;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
  }
}
static void *other_turn(void *a) { take_turns(1); return a; }
static void turns(void) {
  pthread_t t;
  MUST(pthread_create(&t, 0, other_turn, &cond) == 0);
  take_turns(0);
  void *got;
  MUST(pthread_join(t, &got) == 0 && got == &cond);
  printf("%ld\n", waits);
}

// Four threads fight for one lock, n times each; every tenth time by trying.
static void *fight(void *a) {
  for (int i = 0; i < n; i++) {
    if (i % 10 == 0) {
      while (pthread_mutex_trylock(&mutex) == EBUSY) sched_yield();
    } else {
      MUST(pthread_mutex_lock(&mutex) == 0);
    }
    shared++;
    if (i % 16 == 0) sched_yield();
    MUST(pthread_mutex_unlock(&mutex) == 0);
  }
  return a;
}
static void contended(void) {
  pthread_t t[4];
  for (int k = 0; k < 4; k++) MUST(pthread_create(&t[k], 0, fight, 0) == 0);
  for (int k = 0; k < 4; k++) MUST(pthread_join(t[k], 0) == 0);
  MUST(shared == 4L * n);
}

// A try that fails for as long as another holds the lock, counted here.
static pthread_barrier_t pair;
static void *hold(void *a) {
  pthread_mutex_lock(&mutex);
  pthread_barrier_wait(&pair);
  pthread_barrier_wait(&pair);
  pthread_mutex_unlock(&mutex);
  return a;
}
static void tries(void) {
  pthread_t t;
  pthread_barrier_init(&pair, 0, 2);
  pthread_create(&t, 0, hold, 0);
  pthread_barrier_wait(&pair);
  for (int i = 0; i < n; i++) MUST(pthread_mutex_trylock(&mutex) == EBUSY);
  struct timespec soon = in_ms(CLOCK_REALTIME, 5);
  MUST(pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT);
  pthread_barrier_wait(&pair);
  MUST(pthread_join(t, 0) == 0);
}

// Timed waits by each clock. A condition of glibc 2.2.5 could not be told its clock.
static void timed(void) {
  pthread_condattr_t attr;
  pthread_cond_t by_monotonic;
  pthread_condattr_init(&attr);
  MUST(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
  MUST(pthread_cond_init(&by_monotonic, &attr) == 0);
  pthread_mutex_lock(&mutex);
  struct timespec until = in_ms(CLOCK_MONOTONIC, 10), now;
  MUST(pthread_cond_timedwait(&by_monotonic, &mutex, &until) == ETIMEDOUT);
  clock_gettime(CLOCK_MONOTONIC, &now);
  MUST(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
  until = in_ms(CLOCK_REALTIME, 10);
  MUST(pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT);
  until = in_ms(CLOCK_MONOTONIC, 10);
  MUST(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  pthread_mutex_unlock(&mutex);
}

// The waiter is woken while the waker still holds the mutex, which the wait must take again; others want it too.
static void *waiter(void *a) {
  pthread_mutex_lock(&mutex);
  shared++;
  pthread_cond_signal(&cond);
  while (turn == 0) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
  return a;
}
static void relock(void) {
  pthread_t t;
  pthread_mutex_lock(&mutex);
  pthread_create(&t, 0, waiter, 0);
  while (shared == 0) pthread_cond_wait(&cond, &mutex);
  turn = 1;
  pthread_cond_signal(&cond);
  usleep(5000);
  pthread_mutex_unlock(&mutex);
  MUST(pthread_join(t, 0) == 0);
}

// Threads that come and go, 50 at a time.
static void *one_lock(void *a) { lock_n(1); return a; }
static void many(void) {
  for (int done = 0; done < n; done += 50) {
    pthread_t t[50];
    for (int k = 0; k < 50; k++) MUST(pthread_create(&t[k], 0, one_lock, 0) == 0);
    for (int k = 0; k < 50; k++) MUST(pthread_join(t[k], 0) == 0);
  }
  MUST(shared == n);
}

/* A mutex with the ceiling of a priority that no thread of this policy can have: refused, however often it is asked for. */
static void ceiling(void) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  struct timespec now = {0, 0};
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT);
  pthread_mutexattr_setprioceiling(&attributes, 5);
  pthread_mutex_init(&mutex, &attributes);
  int lock = pthread_mutex_lock(&mutex);
  if (lock == 0) pthread_mutex_unlock(&mutex);
  printf("%d %d\n", lock, pthread_mutex_timedlock(&mutex, &now));
}

static void nested(void) {
  pthread_mutex_t *locks = malloc(n * sizeof *locks), again;
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&again, &attr);
  for (int i = 0; i < n; i++) pthread_mutex_init(&locks[i], 0);
  for (int i = 0; i < n; i++) MUST(pthread_mutex_lock(&locks[i]) == 0 && pthread_mutex_lock(&again) == 0);
  for (int i = n; i-- > 0;) MUST(pthread_mutex_unlock(&again) == 0 && pthread_mutex_unlock(&locks[i]) == 0);
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_t strict;
  pthread_mutex_init(&strict, &attr);
  MUST(pthread_mutex_lock(&strict) == 0 && pthread_mutex_lock(&strict) == EDEADLK && pthread_mutex_unlock(&strict) == 0);
  MUST(pthread_mutex_unlock(&strict) == EPERM);
}

// A handler that posts and waits, as often as the timer rings, in the middle of everything.
static sem_t posted, gate;
static volatile sig_atomic_t rings;
static void on_alarm(int s) {
  (void)s;
  int before = errno;
  rings++;
  sem_post(&posted);
  errno = before;
}
static void *wait_all(void *a) {
  for (int i = 0; i < n; i++) while (sem_wait(&posted) != 0) MUST(errno == EINTR);
  sem_post(&gate);
  return a;
}
static void handlers(void) {
  pthread_t t;
  sem_init(&posted, 0, 0);
  sem_init(&gate, 0, 0);
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, 0);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarms, 0);
  pthread_create(&t, 0, wait_all, 0);
  pthread_sigmask(SIG_UNBLOCK, &alarms, 0);
  struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &every, 0);
  long locks = 0;
  while (rings < n) {
    lock_n(100);
    pthread_cond_signal(&cond);
    locks += 100;
  }
  setitimer(ITIMER_REAL, &never, 0);
  pthread_sigmask(SIG_BLOCK, &alarms, 0);
  while (sem_wait(&gate) != 0) MUST(errno == EINTR);
  MUST(pthread_join(t, 0) == 0);
  printf("%ld %d\n", locks, (int)rings);
}

// Cancelled inside a wait, whose cleanup must find the mutex held.
static volatile int cleaned;
static void unlock_it(void *a) { cleaned++; MUST(pthread_mutex_unlock(a) == 0); }
static void *wait_for_ever(void *a) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock_it, &mutex);
  shared = 1;
  pthread_cond_signal(&cond);
  for (;;) pthread_cond_wait((pthread_cond_t *)a, &mutex);
  pthread_cleanup_pop(0);
  return 0;
}
static void *post_then_wait(void *a) {
  sem_post(a);
  while (sem_wait(&gate) == 0) {}
  return a;
}
static void *join_it(void *a) { sem_post(&posted); pthread_join(*(pthread_t *)a, 0); return 0; }
static void *leave(void *a) { lock_n(1); pthread_exit(a); }
static void cancelled(void) {
  pthread_t t, u;
  void *got;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_create(&t, 0, wait_for_ever, &never);
  while (!shared) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
  MUST(pthread_cancel(t) == 0 && pthread_join(t, &got) == 0 && got == PTHREAD_CANCELED && cleaned == 1);
  sem_init(&posted, 0, 0);
  sem_init(&gate, 0, 0);
  pthread_create(&t, 0, post_then_wait, &posted);
  sem_wait(&posted);
  pthread_create(&u, 0, join_it, &t);
  sem_wait(&posted);
  MUST(pthread_cancel(u) == 0 && pthread_join(u, &got) == 0 && got == PTHREAD_CANCELED);
  MUST(pthread_cancel(t) == 0 && pthread_join(t, &got) == 0 && got == PTHREAD_CANCELED);
  MUST(pthread_create(&t, 0, leave, &cond) == 0 && pthread_join(t, &got) == 0 && got == &cond);
}

static void *signal_n(void *a) {
  for (int i = 0; i < n; i++) pthread_cond_signal(&cond);
  return a;
}
// n signals by a second thread, then an end of the given kind.
static void ends(const char *how) {
  pthread_t t;
  pthread_create(&t, 0, signal_n, 0);
  pthread_join(t, 0);
  signal_n(0);
  if (!strcmp(how, "_exit")) _exit(3);
  if (!strcmp(how, "segv")) { signal(SIGSEGV, SIG_DFL); *(volatile int *)8 = 1; }
  if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "raw")) syscall(SYS_exit_group, 4);
  if (!strcmp(how, "main")) pthread_exit(0);
  exit(0);
}

static void fork_one(int raw) {
  pid_t child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
  MUST(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 2 * n; i++) pthread_cond_signal(&cond);
    pthread_t t;
    MUST(pthread_create(&t, 0, signal_n, 0) == 0 && pthread_join(t, 0) == 0);
    exit(0);
  }
  int status;
  MUST(waitpid(child, &status, 0) == child && status == 0);
}
static void forks(void) {
  signal_n(0);
  fork_one(0);
  signal_n(0);
  fork_one(1);
  signal_n(0);
  pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", (char *)0);
    _exit(127);
  }
  int status;
  MUST(waitpid(child, &status, 0) == child && status == 0);
  child = vfork();
  if (child == 0) _exit(0);
  MUST(waitpid(child, &status, 0) == child && status == 0);
  signal_n(0);
}

static void closes(void) {
  signal_n(0);
  for (int fd = 3; fd < 256; fd++) close(fd);
  signal_n(0);
  lock_n(n);
}

// Locks its memory: only what is used may be locked.
static void locked(void) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) MUST(errno == ENOMEM || errno == EPERM);
  signal_n(0);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (argc > 2) n = atoi(argv[2]);
  if (!strcmp(mode, "quiet")) quiet();
  else if (!strcmp(mode, "turns")) turns();
  else if (!strcmp(mode, "contended")) contended();
  else if (!strcmp(mode, "tries")) tries();
  else if (!strcmp(mode, "timed")) timed();
  else if (!strcmp(mode, "relock")) relock();
  else if (!strcmp(mode, "many")) many();
  else if (!strcmp(mode, "ceiling")) ceiling();
  else if (!strcmp(mode, "nested")) nested();
  else if (!strcmp(mode, "handlers")) handlers();
  else if (!strcmp(mode, "cancelled")) cancelled();
  else if (!strcmp(mode, "ends")) ends(argv[3]);
  else if (!strcmp(mode, "forks")) forks();
  else if (!strcmp(mode, "closes")) closes();
  else if (!strcmp(mode, "locked")) locked();
  else if (!strcmp(mode, "exec")) {
    signal_n(0);
    execl(argv[0], argv[0], "quiet", argv[2], (char *)0);
    return 9;
  } else return 8;
  return 0;
}
