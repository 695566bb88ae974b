// Receives UDP on loopback and does one deed each 250 packets: `receiver WAITING PORT DEED FOLDER`.
// WAITING is block, poll, busy or threads. FOLDER takes the file of the deeds that need one.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { DEED_EACH_PACKETS = 250, DEED_NS = 3000000, FAULT_PAGES = 2000, PAGE_BYTES = 4096, WRITTEN_BYTES = 2 << 20 };

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static long queued;
static const char *deed;
static int deed_file = -1, question[2], answer[2];
static char *pages;

static void fail(const char *operation) {
    perror(operation);
    exit(1);
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void compute(void) {
    long end_ns = now_ns() + DEED_NS;
    while (now_ns() < end_ns) {
    }
}

static void write_to_disk(void) {
    if (pwrite(deed_file, pages, WRITTEN_BYTES, 0) != WRITTEN_BYTES || fsync(deed_file) != 0)
        fail("writing the deed's file");
}

static void touch_pages(void) {
    if (madvise(pages, (size_t)FAULT_PAGES * PAGE_BYTES, MADV_DONTNEED) != 0)
        fail("madvise");
    for (long page = 0; page < FAULT_PAGES; page++)
        ((volatile char *)pages)[page * PAGE_BYTES] = 1;
}

static void wait_for_timer(void) {
    struct itimerspec in = {.it_value.tv_nsec = DEED_NS};
    unsigned long expirations;
    if (timerfd_settime(deed_file, 0, &in, NULL) != 0 || read(deed_file, &expirations, sizeof expirations) < 0)
        fail("timerfd");
}

static void ask_peer(void) {
    char byte = 0;
    if (write(question[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1)
        fail("asking the peer");
}

static void do_deed(void) {
    if (!strcmp(deed, "sleep"))
        usleep(DEED_NS / 1000);
    else if (!strcmp(deed, "timerfd"))
        wait_for_timer();
    else if (!strcmp(deed, "compute"))
        compute();
    else if (!strcmp(deed, "disk"))
        write_to_disk();
    else if (!strcmp(deed, "faults"))
        touch_pages();
    else if (!strcmp(deed, "pipe"))
        ask_peer();
}

// Answers each question after the deed's time, from a process of its own.
static void start_peer(void) {
    if (pipe(question) != 0 || pipe(answer) != 0)
        fail("pipe");
    if (fork() != 0)
        return;
    close(question[1]);
    char byte;
    while (read(question[0], &byte, 1) == 1) {
        usleep(DEED_NS / 1000);
        if (write(answer[1], &byte, 1) != 1)
            break;
    }
    _exit(0);
}

static void prepare(const char *folder) {
    pages = mmap(NULL, (size_t)FAULT_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        fail("mmap");
    madvise(pages, (size_t)FAULT_PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
    if (!strcmp(deed, "disk")) {
        char path[4096];
        snprintf(path, sizeof path, "%s/deed.%d", folder, getpid());
        deed_file = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
        if (deed_file < 0 || unlink(path) != 0)
            fail(path);
    } else if (!strcmp(deed, "timerfd")) {
        deed_file = timerfd_create(CLOCK_MONOTONIC, 0);
    } else if (!strcmp(deed, "pipe")) {
        start_peer();
    }
}

// Empties the queue; with the deed `lock` or `lock-sleep` it keeps the reader out for the deed's time, each 50 ms.
static void *work(void *unused) {
    (void)unused;
    // Away from the reader: else the reader waits for the worker's CPU and not for its lock.
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0)
        fail("sched_setaffinity");
    bool computes = !strcmp(deed, "lock"), sleeps = !strcmp(deed, "lock-sleep");
    for (long done = 0;;) {
        pthread_mutex_lock(&queue_lock);
        while (queued == 0)
            pthread_cond_wait(&queue_filled, &queue_lock);
        done += queued;
        queued = 0;
        if (done >= DEED_EACH_PACKETS) {
            done = 0;
            if (computes)
                compute();
            else if (sleeps)
                usleep(DEED_NS / 1000);
        }
        pthread_mutex_unlock(&queue_lock);
    }
    return NULL;
}

static void hand_over(void) {
    pthread_mutex_lock(&queue_lock);
    queued++;
    pthread_cond_signal(&queue_filled);
    pthread_mutex_unlock(&queue_lock);
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: receiver WAITING PORT DEED FOLDER\n");
        return 2;
    }
    const char *waiting = words[1];
    deed = words[3];
    prepare(words[4]);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("bind");
    bool threads = !strcmp(waiting, "threads");
    pthread_t worker;
    if (threads && pthread_create(&worker, NULL, work, NULL) != 0)
        fail("pthread_create");
    int flags = strcmp(waiting, "busy") ? 0 : MSG_DONTWAIT;
    bool polls = !strcmp(waiting, "poll");
    char packet[65536];
    for (long received = 0;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (polls && poll(&readable, 1, -1) < 0)
            continue;
        if (recv(fd, packet, sizeof packet, flags) < 0)
            continue;
        if (threads)
            hand_over();
        if (++received % DEED_EACH_PACKETS == 0)
            do_deed();
    }
}
