#include "own.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <spawn.h>
extern char **environ;
/* What is asked for by name: closes all descriptors, chdir and rmdir of where it is, chroot, no descriptors left, no room for files, no address space, seccomp strict, fork storms, double fork, vfork+exec, posix_spawn, exec of itself. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long ns, n; static int sum;
static void *work(void *a) { for (int i = 0; i < 30; i++) { TIMED(ns, n, pthread_mutex_lock(&m)); sum++; usleep(300); pthread_mutex_unlock(&m); } return a; }
static void threads(void) { pthread_t t[3]; for (int i = 0; i < 3; i++) if (pthread_create(&t[i], 0, work, 0)) { dprintf(1, "no thread\n"); _exit(90); } for (int i = 0; i < 3; i++) pthread_join(t[i], 0); }
static void say(const char *w) { dprintf(1, "%s %d\n", w, sum); }
int main(int c, char **v) { const char *how = c > 1 ? v[1] : ""; struct rlimit l;
	if (!strcmp(how, "close")) { threads(); int o = dup(1); (void)o; for (int i = 3; i < 1024; i++) if (i != 500) close(i); threads(); int f = open("/dev/null", O_RDONLY); dprintf(1, "fd %d\n", f); }
	else if (!strcmp(how, "chdir")) { char d[] = "/tmp/own-XXXXXX"; mkdtemp(d); chdir(d); rmdir(d); threads(); if (!fork()) { threads(); _exit(0); } wait(0); }
	else if (!strcmp(how, "chroot")) { char d[] = "/tmp/own-XXXXXX"; mkdtemp(d); chroot(d); chdir("/"); threads(); if (!fork()) { threads(); say("child"); _exit(0); } wait(0); }
	else if (!strcmp(how, "nofile")) { l.rlim_cur = l.rlim_max = 3; setrlimit(RLIMIT_NOFILE, &l); threads(); fflush(0); if (!fork()) { threads(); say("child"); _exit(0); } wait(0); }
	else if (!strcmp(how, "fsize")) { l.rlim_cur = l.rlim_max = 4096; setrlimit(RLIMIT_FSIZE, &l); threads(); if (!fork()) { threads(); say("child"); _exit(0); } int s; wait(&s); dprintf(1, "child %x\n", s); }
	else if (!strcmp(how, "as")) { l.rlim_cur = l.rlim_max = 400L << 20; setrlimit(RLIMIT_AS, &l); threads(); if (!fork()) { threads(); say("child"); _exit(0); } int s; wait(&s); dprintf(1, "child %x\n", s); void *p = mmap(0, 100 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); dprintf(1, "mmap %d\n", p != MAP_FAILED); }
	else if (!strcmp(how, "asexec")) { l.rlim_cur = l.rlim_max = 400L << 20; setrlimit(RLIMIT_AS, &l); execl(v[0], v[0], "maps", (char *)0); }
	else if (!strcmp(how, "maps")) { threads(); void *p = mmap(0, 100 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); dprintf(1, "mmap %d\n", p != MAP_FAILED); }
	else if (!strcmp(how, "mlock")) { l.rlim_cur = l.rlim_max = 64L << 20; setrlimit(RLIMIT_MEMLOCK, &l); if (mlockall(MCL_CURRENT | MCL_FUTURE)) say("no lock"); threads(); }
	else if (!strcmp(how, "nproc")) { for (int i = 0; i < 30; i++) if (!fork()) { threads(); _exit(sum); } int s, k = 0; while (wait(&s) > 0) k += WEXITSTATUS(s); sum = k; }
	else if (!strcmp(how, "daemon")) { int p[2]; pipe(p); if (!fork()) { setsid(); if (!fork()) { threads(); write(p[1], "x", 1); _exit(0); } _exit(0); } wait(0); char x; read(p[0], &x, 1); threads(); }
	else if (!strcmp(how, "vfork")) { for (int i = 0; i < 20; i++) { pid_t p = vfork(); if (!p) { execl(v[0], v[0], "", (char *)0); _exit(9); } int s; waitpid(p, &s, 0); sum += WEXITSTATUS(s); } }
	else if (!strcmp(how, "spawn")) { pid_t p; char *a[] = { v[0], "", 0 }; for (int i = 0; i < 20; i++) { posix_spawn(&p, v[0], 0, 0, a, environ); int s; waitpid(p, &s, 0); sum += WEXITSTATUS(s); } }
	else if (!strcmp(how, "exec")) { threads(); char t[9]; int k = c > 2 ? atoi(v[2]) : 5; sprintf(t, "%d", k - 1); if (k) execl(v[0], v[0], "exec", t, (char *)0); }
	else if (!strcmp(how, "tree")) { int d = c > 2 ? atoi(v[2]) : 3; char t[9]; sprintf(t, "%d", d - 1); threads(); if (d) for (int i = 0; i < 3; i++) if (!fork()) { execl(v[0], v[0], "tree", t, (char *)0); _exit(9); } int s, k = 0; while (wait(&s) > 0) k += WEXITSTATUS(s); sum = k + 1; if (d == 3) say("tree"); _exit(sum); }
	else if (!strcmp(how, "abort")) { threads(); abort(); }
	else if (!strcmp(how, "segv")) { threads(); *(volatile int *)8 = 1; }
	else if (!strcmp(how, "held")) { pthread_mutex_lock(&m); pthread_t t; pthread_create(&t, 0, work, 0); usleep(20000); say("held"); exit(11); }
	else if (!strcmp(how, "texit")) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_exit(0); }
	else if (!strcmp(how, "detach")) { for (int i = 0; i < 50; i++) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_detach(t); } usleep(600000); }
	else if (!strcmp(how, "cancel")) { for (int i = 0; i < 50; i++) { pthread_t t; static pthread_cond_t cc = PTHREAD_COND_INITIALIZER; static pthread_mutex_t mm = PTHREAD_MUTEX_INITIALIZER; extern void *cw(void *); pthread_create(&t, 0, cw, 0); usleep(500); pthread_cancel(t); void *r; pthread_join(t, &r); sum += r == PTHREAD_CANCELED; (void)cc; (void)mm; } }
	else { threads(); }
	say(how); own("lock", n, ns); return 7; }
static pthread_cond_t kc = PTHREAD_COND_INITIALIZER; static pthread_mutex_t km = PTHREAD_MUTEX_INITIALIZER; static void unl(void *a) { pthread_mutex_unlock(a); }
void *cw(void *a) { pthread_mutex_lock(&km); pthread_cleanup_push(unl, &km); for (;;) pthread_cond_wait(&kc, &km); pthread_cleanup_pop(1); return a; }
