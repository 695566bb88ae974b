#include "clock.h"
static sem_t s1,s2; static pthread_barrier_t bar; static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c=PTHREAD_COND_INITIALIZER;
static void*sa(void*a){ sem_wait(&s1); sem_post(&s2); return 0;} static void*sb(void*a){ sem_wait(&s2); sem_post(&s1); return 0;}
static void*bw(void*a){ pthread_barrier_wait(&bar); return 0;}
static void*cw(void*a){ pthread_mutex_lock(&m); pthread_cond_wait(&c,&m); pthread_mutex_unlock(&m); return 0;}
static void*mix1(void*a){ pthread_mutex_lock(&m); ms(50); sem_wait(&s1); pthread_mutex_unlock(&m); return 0;}
static void*mix2(void*a){ ms(20); pthread_mutex_lock(&m); sem_post(&s1); pthread_mutex_unlock(&m); return 0;}
static void two(void*(*x)(void*),void*(*y)(void*)){ pthread_t t[2]; pthread_create(t,0,x,0); pthread_create(t+1,0,y,0); pthread_join(t[0],0); pthread_join(t[1],0);} 
int main(int n,char**v){ char*k=v[1]; sem_init(&s1,0,0); sem_init(&s2,0,0); pthread_barrier_init(&bar,0,3);
 if(!strcmp(k,"sems"))two(sa,sb); if(!strcmp(k,"barrier"))two(bw,bw); if(!strcmp(k,"cond"))two(cw,cw); if(!strcmp(k,"mix"))two(mix1,mix2); return 0; }
