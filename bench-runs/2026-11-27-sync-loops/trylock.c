#define _GNU_SOURCE
#include "own.h"
#include <unistd.h>
#include <sched.h>
static pthread_mutex_t slow_lock=PTHREAD_MUTEX_INITIALIZER; static int64_t waited[8]; static long tries[8];
static void*holder(void*p){for(int i=0;i<200;i++){pthread_mutex_lock(&slow_lock);slp(3000000);pthread_mutex_unlock(&slow_lock);cpu_ns(1000000);}return 0;}
static void*trier(void*p){long k=(long)p;for(int i=0;i<150;i++){int64_t a=now_ns();while(pthread_mutex_trylock(&slow_lock)){tries[k]++; if(k&1)usleep(200);else sched_yield();}waited[k]+=now_ns()-a;cpu_ns(100000);pthread_mutex_unlock(&slow_lock);slp(1000000);}return 0;}
int main(){pthread_t t[3];pthread_create(t,0,holder,0);for(long k=1;k<3;k++)pthread_create(t+k,0,trier,(void*)k);for(int k=0;k<3;k++)pthread_join(t[k],0);for(int k=1;k<3;k++)fprintf(stderr,"own: trier %d waited %.1f ms, %ld failed tries\n",k,waited[k]/1e6,tries[k]);}
