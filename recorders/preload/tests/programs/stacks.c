/* Waits for a mutex on stacks of all kinds: `stacks MODE`. Another thread has the mutex until 2 ms after it is waited for. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define PLAIN __attribute__((noinline, noclone))
enum { TIMES = 5, PAGE = 4096 };

/* So that a call in a loop stays one call. */
static volatile int times = TIMES;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, held;

/* glibc: 2 is a mutex that somebody waits for. */
static int is_waited_for(void)
{
	return __atomic_load_n(&mutex.__data.__lock, __ATOMIC_ACQUIRE) == 2;
}

static void *hold(void *unused)
{
	for (int i = 0; i < times; i++) {
		sem_wait(&wanted);
		pthread_mutex_lock(&mutex);
		sem_post(&held);
		while (!is_waited_for())
			usleep(100);
		usleep(2000);
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

PLAIN static void take(void)
{
	sem_post(&wanted);
	sem_wait(&held);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void take_all(void)
{
	for (int i = 0; i < times; i++)
		take();
}

static void handle(int number)
{
	(void)number;
	take_all();
}

/* So many pages with one before and one behind that nobody may touch. */
static char *guarded(size_t pages)
{
	char *from = mmap(0, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (from == MAP_FAILED || mprotect(from + PAGE, pages * PAGE, PROT_READ | PROT_WRITE))
		exit(3);
	return from + PAGE;
}

static void on_handlers_stack(void)
{
	stack_t stack = { .ss_sp = guarded(4), .ss_size = 4 * PAGE };
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
	if (sigaltstack(&stack, 0) || sigaction(SIGUSR1, &action, 0))
		exit(3);
	raise(SIGUSR1);
}

static ucontext_t begun, inside;

static void in_coroutine(void)
{
	getcontext(&inside);
	inside.uc_stack.ss_sp = guarded(4);
	inside.uc_stack.ss_size = 4 * PAGE;
	inside.uc_link = &begun;
	makecontext(&inside, take_all, 0);
	swapcontext(&begun, &inside);
}

static void *run(void *unused)
{
	take_all();
	return unused;
}

static void in_small_thread(void)
{
	pthread_t thread;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, guarded(8), 8 * PAGE);
	if (pthread_create(&thread, &attributes, run, 0))
		exit(3);
	pthread_join(thread, 0);
}

#ifdef __x86_64__
/* Takes the mutex with a frame pointer that points nowhere. */
PLAIN static void take_without_frame(uintptr_t frame)
{
	pthread_mutex_t *asked = &mutex;
	sem_post(&wanted);
	sem_wait(&held);
	asm volatile("push %%rbp\n\t"
		     "mov %%rsp, %%rbx\n\t"
		     "and $-16, %%rsp\n\t"
		     "mov %0, %%rbp\n\t"
		     "call pthread_mutex_lock@plt\n\t"
		     "mov %%rbx, %%rsp\n\t"
		     "pop %%rbp"
		     : "+r"(frame), "+D"(asked)
		     :
		     : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	pthread_mutex_unlock(&mutex);
}
#else
PLAIN static void take_without_frame(uintptr_t frame)
{
	(void)frame;
	take();
}
#endif

static void without_frame(void)
{
	static const uintptr_t nowhere[TIMES] = { 0, 1, 0xdeadbeef0000, UINTPTR_MAX, 0x10000 };
	for (int i = 0; i < times; i++)
		take_without_frame(nowhere[i]);
}

int main(int count, char **words)
{
	pthread_t holder;
	const char *mode = count > 1 ? words[1] : "plain";
	sem_init(&wanted, 0, 0);
	sem_init(&held, 0, 0);
	pthread_create(&holder, 0, hold, 0);
	if (!strcmp(mode, "handler"))
		on_handlers_stack();
	else if (!strcmp(mode, "coroutine"))
		in_coroutine();
	else if (!strcmp(mode, "small"))
		in_small_thread();
	else if (!strcmp(mode, "frame"))
		without_frame();
	else
		take_all();
	pthread_join(holder, 0);
	return 0;
}
