#include "../2026-11-24-unseen-programs/own.h"
static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static void *run(void *a) { for (int i = 0; i < 100; i++) { pthread_mutex_lock(&hot); spin_ns(2000000); pthread_mutex_unlock(&hot); spin_ns(1000000); } return a; }
int main(void) { pthread_t t[2]; for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, run, 0); for (int i = 0; i < 2; i++) pthread_join(t[i], 0); return 0; }
