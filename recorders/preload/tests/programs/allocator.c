// An allocator of its own that takes a lock in every call, also below `dlsym`.
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char arena[8 << 20] __attribute__((aligned(64)));
static size_t used;

void *malloc(size_t octets) {
  pthread_mutex_lock(&mutex);
  size_t at = used;
  used += 16 + (octets + 15) / 16 * 16;
  void *result = used <= sizeof arena ? arena + at + 16 : NULL;
  if (result) *(size_t *)(arena + at) = octets;
  pthread_mutex_unlock(&mutex);
  return result;
}
void free(void *p) {
  (void)p;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}
void *calloc(size_t count, size_t each) { return malloc(count * each); }
void *realloc(void *p, size_t octets) {
  void *result = malloc(octets);
  if (result && p) {
    size_t before = *(size_t *)((char *)p - 16);
    memcpy(result, p, before < octets ? before : octets);
  }
  return result;
}
static void *work(void *a) {
  for (int i = 0; i < 1000; i++) free(malloc(16));
  return a;
}
int main(void) {
  pthread_t t;
  if (pthread_create(&t, 0, work, 0) != 0) return 9;
  work(0);
  return pthread_join(t, 0) == 0 ? 0 : 9;
}
