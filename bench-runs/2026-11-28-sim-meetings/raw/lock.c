#include "clock.h"
static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static int T,R,W; static uint64_t count;
static void*f(void*p){int t=(intptr_t)p;for(int r=0;r<R;r++){work(t,W);pthread_mutex_lock(&m);work(t,W/2);count++;pthread_mutex_unlock(&m);}return 0;}
int main(int c,char**v){T=arg(c,v,1,4);R=arg(c,v,2,400);W=arg(c,v,3,3000);pthread_t h[64];
for(int t=1;t<T;t++)pthread_create(h+t,0,f,(void*)(intptr_t)t);f(0);for(int t=1;t<T;t++)pthread_join(h[t],0);printf("lock %lu\n",count);return 0;}
