#include "clock.h"
static mtx_t mtx; static cnd_t cnd; static int items;
static int c11_own(void*a){ long w=0; for(int i=0;i<30;i++){ long f=now(); mtx_lock(&mtx); w+=now()-f; if(a)spin(6); else ms(3); mtx_unlock(&mtx); usleep(500);} printf("mtx%ld %d 30 %ld\n",(long)a,TID,w); return 0; }
static int c11_timed(void*a){ long w=0; for(int i=0;i<30;i++){ struct timespec t=at_clock(CLOCK_REALTIME,1000000); long f=now(); int r=mtx_timedlock(&mtx,&t); w+=now()-f; if(r==thrd_success)mtx_unlock(&mtx); usleep(500);} printf("mtx-timed %d 30 %ld\n",TID,w); return 0; }
static void c11(void){ thrd_t t[3]; mtx_init(&mtx,mtx_timed); thrd_create(t,c11_own,0); thrd_create(t+1,c11_own,(void*)1); thrd_create(t+2,c11_timed,0); for(int i=0;i<3;i++)thrd_join(t[i],0); }
static int cnd_c(void*a){ long w=0; mtx_lock(&mtx); for(int i=0;i<30;i++){ while(!items){ long f=now(); cnd_wait(&cnd,&mtx); w+=now()-f;} items--; } mtx_unlock(&mtx); printf("cnd %d 30 %ld\n",TID,w); return 0; }
static void cnd11(void){ thrd_t t; mtx_init(&mtx,mtx_plain); cnd_init(&cnd); thrd_create(&t,cnd_c,0); for(int i=0;i<30;i++){ ms(5); mtx_lock(&mtx); items++; mtx_unlock(&mtx); cnd_signal(&cnd);} thrd_join(t,0); printf("cnd-signaller %d 0 0\n",TID);}
static sem_t sem; static pthread_mutex_t pm; static pthread_cond_t pc=PTHREAD_COND_INITIALIZER;
static void* semc(void*a){ long w=0,ran=0; for(int i=0;i<40;i++){ struct timespec t=at_clock(CLOCK_MONOTONIC,a?3000000:100000000); long f=now(); int r=sem_clockwait(&sem,CLOCK_MONOTONIC,&t); w+=now()-f; ran+=r!=0; } printf("sem_clockwait%s %d 40 %ld ran-out %ld\n",a?"-short":"",TID,w,ran); return 0; }
static void semclock(void){ pthread_t t; sem_init(&sem,0,0); pthread_create(&t,0,semc,0); for(int i=0;i<40;i++){ ms(5); sem_post(&sem);} pthread_join(t,0); pthread_create(&t,0,semc,(void*)1); pthread_join(t,0); printf("sem-poster %d 0 0\n",TID);}
static void* mown(void*a){ for(int i=0;i<30;i++){ pthread_mutex_lock(&pm); if(a)spin(6);else ms(6); pthread_mutex_unlock(&pm); ms(1);} printf("m-owner %d 0 0\n",TID); return 0; }
static void* mclk(void*a){ long w=0,got=0; for(int i=0;i<60;i++){ struct timespec t=at_clock(CLOCK_MONOTONIC,3000000); long f=now(); int r=pthread_mutex_clocklock(&pm,CLOCK_MONOTONIC,&t); w+=now()-f; if(!r){got++; pthread_mutex_unlock(&pm);} usleep(300);} printf("clocklock %d 60 %ld got %ld\n",TID,w,got); return 0; }
static void mk(int pi,int rob){ pthread_mutexattr_t k; pthread_mutexattr_init(&k); if(pi)pthread_mutexattr_setprotocol(&k,PTHREAD_PRIO_INHERIT); if(rob)pthread_mutexattr_setrobust(&k,PTHREAD_MUTEX_ROBUST); pthread_mutex_init(&pm,&k);}
static void clocklock(void){ pthread_t t[2]; mk(0,0); pthread_create(t,0,mown,0); pthread_create(t+1,0,mclk,0); for(int i=0;i<2;i++)pthread_join(t[i],0);}
static void piclock(void){ pthread_t t[2]; mk(1,0); pthread_create(t,0,mown,0); pthread_create(t+1,0,mclk,0); for(int i=0;i<2;i++)pthread_join(t[i],0);}
static void* mw(void*a){ long w=0; for(int i=0;i<30;i++){ long f=now(); int r=pthread_mutex_lock(&pm); w+=now()-f; if(r==EOWNERDEAD)pthread_mutex_consistent(&pm); if(a)spin(2); pthread_mutex_unlock(&pm); usleep(300);} printf("m-wait %d 30 %ld\n",TID,w); return 0; }
static void pim(void){ pthread_t t[3]; mk(1,0); pthread_create(t,0,mown,0); pthread_create(t+1,0,mw,0); pthread_create(t+2,0,mw,(void*)1); for(int i=0;i<3;i++)pthread_join(t[i],0);}
static void rob(void){ pthread_t t[3]; mk(1,1); pthread_create(t,0,mown,0); pthread_create(t+1,0,mw,0); pthread_create(t+2,0,mw,(void*)1); for(int i=0;i<3;i++)pthread_join(t[i],0);}
static void* cclk(void*a){ long w=0,ran=0; pthread_mutex_lock(&pm); for(int i=0;i<30;i++){ struct timespec t=at_clock(CLOCK_MONOTONIC,i%3?100000000:3000000); long f=now(); int r=pthread_cond_clockwait(&pc,&pm,CLOCK_MONOTONIC,&t); w+=now()-f; ran+=r!=0;} pthread_mutex_unlock(&pm); printf("cond_clockwait %d 30 %ld ran-out %ld\n",TID,w,ran); return 0; }
static void condclock(void){ pthread_t t; mk(0,0); pthread_create(&t,0,cclk,0); for(int i=0;i<20;i++){ ms(10); pthread_mutex_lock(&pm); pthread_cond_signal(&pc); pthread_mutex_unlock(&pm);} pthread_join(t,0); printf("cond-signaller %d 0 0\n",TID);}
static pthread_once_t o=PTHREAD_ONCE_INIT; static void init(void){ ms(40);} 
static void* onc(void*a){ usleep((long)a*3000); long w=0; long f=now(); pthread_once(&o,init); w+=now()-f; printf("once%ld %d 1 %ld\n",(long)a,TID,w); return 0; }
static void once(void){ pthread_t t[3]; for(long i=0;i<3;i++)pthread_create(t+i,0,onc,(void*)i); for(int i=0;i<3;i++)pthread_join(t[i],0);}
/* malloc/stdio lock: two threads printing with the stream locked by flockfile while sleeping */
static void* fl(void*a){ long w=0; for(int i=0;i<30;i++){ long f=now(); flockfile(stderr); w+=now()-f; if(a)spin(5); else ms(3); funlockfile(stderr); usleep(500);} printf("stdio%ld %d 30 %ld\n",(long)a,TID,w); return 0; }
static void stdio(void){ pthread_t t[2]; for(long i=0;i<2;i++)pthread_create(t+i,0,fl,(void*)i); for(int i=0;i<2;i++)pthread_join(t[i],0);}
int main(int n,char**v){ char*m=v[1];
#define M(x) if(!strcmp(m,#x)) x();
 M(c11)M(cnd11)M(semclock)M(clocklock)M(piclock)M(pim)M(rob)M(condclock)M(once)M(stdio) return 0; }
