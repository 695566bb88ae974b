#include "clock.h"
static pthread_barrier_t b; static int R,W,T; static uint64_t (*in)[64],(*out)[64];
static void*f(void*p){int t=(intptr_t)p;for(int r=0;r<R;r++){work(t,W);in[r][t]=now();pthread_barrier_wait(&b);out[r][t]=now();}return 0;}
int main(int c,char**v){T=arg(c,v,1,4);R=arg(c,v,2,200);W=arg(c,v,3,5000);in=calloc(R,512);out=calloc(R,512);pthread_barrier_init(&b,0,T);pthread_t h[64];
for(int t=1;t<T;t++)pthread_create(h+t,0,f,(void*)(intptr_t)t);f(0);for(int t=1;t<T;t++)pthread_join(h[t],0);
uint64_t late=0,n=0,rounds=0;for(int r=0;r<R;r++){int last=0,any=0;for(int t=1;t<T;t++)if(in[r][t]>in[r][last])last=t;for(int t=0;t<T;t++)if(t!=last){uint64_t d=out[r][t]-in[r][last];if(d>10000){late+=d;n++;any=1;}}rounds+=any;}
printf("bar late %lu sum_us %lu rounds %lu of %d\n",n,late/1000,rounds,R);return 0;}
