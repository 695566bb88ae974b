#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static pthread_barrier_t b; static int n, rounds, mode; 
static void spin(long us){ struct timespec a,c; clock_gettime(CLOCK_THREAD_CPUTIME_ID,&a); do clock_gettime(CLOCK_THREAD_CPUTIME_ID,&c); while((c.tv_sec-a.tv_sec)*1000000000L+c.tv_nsec-a.tv_nsec<us*1000); }
static void*f(void*p){ long i=(long)p; for(int r=0;r<rounds;r++){ spin(mode==0?300: mode==1? (i==n-1?900:300) : (i==r%n?900:300)); pthread_barrier_wait(&b);} return 0;}
int main(int c,char**v){ n=atoi(v[1]); rounds=atoi(v[2]); mode=atoi(v[3]); pthread_t t[32]; pthread_barrier_init(&b,0,n); for(long i=0;i<n;i++) pthread_create(&t[i],0,f,(void*)i); for(int i=0;i<n;i++) pthread_join(t[i],0); }
