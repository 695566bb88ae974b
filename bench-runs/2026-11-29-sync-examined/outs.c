#include "clock.h"
/* the advice, applied: the same sleep without the lock */
static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER, L[4]={PTHREAD_MUTEX_INITIALIZER,PTHREAD_MUTEX_INITIALIZER,PTHREAD_MUTEX_INITIALIZER,PTHREAD_MUTEX_INITIALIZER}; static pthread_barrier_t B; static int out;
static void*lockw(void*a){ for(int i=0;i<40;i++){ pthread_mutex_lock(&m); if(!out)usleep(4000); pthread_mutex_unlock(&m); if(out)usleep(4000); usleep(3000);} return 0; }
static void*keeper(void*a){ for(int r=0;r<20;r++){ pthread_mutex_lock(&m); if(!out)ms(8); pthread_mutex_unlock(&m); if(out)ms(8); ms(2);} return 0; }
static void*asks(void*a){ for(int r=0;r<40;r++){ struct timespec t=at_clock(CLOCK_REALTIME,3000000); if(!pthread_mutex_timedlock(&m,&t))pthread_mutex_unlock(&m); ms(1);} return 0; }
static void*chain(void*a){ long i=(long)a; for(int r=0;r<20;r++){ pthread_barrier_wait(&B); ms(3*i); if(i<3)pthread_mutex_lock(&L[i]); if(i>0){ pthread_mutex_lock(&L[i-1]); pthread_mutex_unlock(&L[i-1]); } else if(!out)ms(20); if(i<3)pthread_mutex_unlock(&L[i]); if(!i&&out)ms(20);} return 0; }
int main(int n,char**v){ out=atoi(v[2]); pthread_t t[4]; long f=now(); int k=0; char*w=v[1]; pthread_barrier_init(&B,0,4);
 if(!strcmp(w,"three")) for(;k<3;k++)pthread_create(t+k,0,lockw,0);
 if(!strcmp(w,"keeper")){ pthread_create(t+k++,0,keeper,0); pthread_create(t+k++,0,asks,0); }
 if(!strcmp(w,"chain")) for(long i=0;i<4;i++)pthread_create(t+k++,0,chain,(void*)i);
 while(k--)pthread_join(t[k],0); printf("%ld\n",now()-f); }
