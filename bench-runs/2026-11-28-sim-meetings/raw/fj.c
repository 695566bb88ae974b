#include "clock.h"
/* persistent team: master broadcasts a job, workers post a countdown; last signals master */
static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t go=PTHREAD_COND_INITIALIZER,done=PTHREAD_COND_INITIALIZER;static int gen,left,T,R,W;
static void*f(void*p){int t=(intptr_t)p;for(int r=1;r<=R;r++){pthread_mutex_lock(&m);while(gen<r)pthread_cond_wait(&go,&m);pthread_mutex_unlock(&m);work(t,W);pthread_mutex_lock(&m);if(!--left)pthread_cond_signal(&done);pthread_mutex_unlock(&m);}return 0;}
int main(int c,char**v){T=arg(c,v,1,4);R=arg(c,v,2,200);W=arg(c,v,3,5000);pthread_t h[64];
for(int t=1;t<T;t++)pthread_create(h+t,0,f,(void*)(intptr_t)t);
for(int r=1;r<=R;r++){pthread_mutex_lock(&m);left=T-1;gen=r;pthread_cond_broadcast(&go);pthread_mutex_unlock(&m);work(0,W);pthread_mutex_lock(&m);while(left)pthread_cond_wait(&done,&m);pthread_mutex_unlock(&m);}
for(int t=1;t<T;t++)pthread_join(h[t],0);puts("fj done");return 0;}
