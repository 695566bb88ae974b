#include "clock.h"
#include <omp.h>
static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static mtx_t c11; static sem_t sem; static pthread_barrier_t bar; static int cut; 
static void*lockw(void*a){ for(int i=0;i<40;i++){ pthread_mutex_lock(&m); usleep(cut?2000:4000); pthread_mutex_unlock(&m); usleep(3000);} return 0; }
static void*piw(void*a){ return lockw(a);} 
static int c11w(void*a){ for(int i=0;i<40;i++){ mtx_lock(&c11); usleep(cut?2000:4000); mtx_unlock(&c11); usleep(3000);} return 0; }
static void*barw(void*a){ for(int i=0;i<40;i++){ usleep(a&&!cut?8000:2000); pthread_barrier_wait(&bar);} return 0; }
/* three stages by queues of one condition each */
struct q{ pthread_mutex_t m; pthread_cond_t c; int n; } q[2]={{PTHREAD_MUTEX_INITIALIZER,PTHREAD_COND_INITIALIZER,0},{PTHREAD_MUTEX_INITIALIZER,PTHREAD_COND_INITIALIZER,0}};
static void put(struct q*q){ pthread_mutex_lock(&q->m); q->n++; pthread_cond_signal(&q->c); pthread_mutex_unlock(&q->m);} static void get(struct q*q){ pthread_mutex_lock(&q->m); while(!q->n)pthread_cond_wait(&q->c,&q->m); q->n--; pthread_mutex_unlock(&q->m);} 
static void*s1(void*a){ for(int i=0;i<50;i++){ usleep(1500); put(&q[0]);} return 0;} static void*s2(void*a){ for(int i=0;i<50;i++){ get(&q[0]); usleep(cut?2500:5000); put(&q[1]);} return 0;} static void*s3(void*a){ for(int i=0;i<50;i++){ get(&q[1]); usleep(1000);} return 0;}
static void all(int n,void*(**f)(void*),void**a){ pthread_t t[8]; for(int i=0;i<n;i++)pthread_create(t+i,0,f[i],a[i]); for(int i=0;i<n;i++)pthread_join(t[i],0);} 
int main(int n,char**v){ cut=atoi(v[2]); char*k=v[1]; void*z[8]={0}; long f=now();
 if(!strcmp(k,"lock")||!strcmp(k,"pi")){ if(k[0]=='p'){pthread_mutexattr_t x; pthread_mutexattr_init(&x); pthread_mutexattr_setprotocol(&x,PTHREAD_PRIO_INHERIT); pthread_mutex_init(&m,&x);} void*(*w[])(void*)={lockw,lockw,lockw}; all(3,w,z);} 
 if(!strcmp(k,"c11")){ mtx_init(&c11,0); thrd_t t[3]; for(int i=0;i<3;i++)thrd_create(t+i,c11w,0); for(int i=0;i<3;i++)thrd_join(t[i],0);} 
 if(!strcmp(k,"barrier")){ pthread_barrier_init(&bar,0,3); void*a[]={0,0,&bar}; void*(*w[])(void*)={barw,barw,barw}; all(3,w,a);} 
 if(!strcmp(k,"pipe")){ void*(*w[])(void*)={s1,s2,s3}; all(3,w,z);} 
 if(!strcmp(k,"serial")){ for(int r=0;r<30;r++){ usleep(cut?0:6000);
 #pragma omp parallel num_threads(2)
 usleep(3000);} }
 if(!strcmp(k,"omp")){ 
 #pragma omp parallel num_threads(3)
 { int me=omp_get_thread_num(); for(int i=0;i<40;i++){ usleep(me==2&&!cut?8000:2000);
 #pragma omp barrier
 } } }
 printf("%ld\n",now()-f); }
