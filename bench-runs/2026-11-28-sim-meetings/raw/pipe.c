#include "clock.h"
static int S,R,W; static sem_t full[64],room[64];
static void*f(void*p){int t=(intptr_t)p;for(int r=0;r<R;r++){if(t)while(sem_wait(full+t));work(t,W);if(t)sem_post(room+t);if(t<S-1){while(sem_wait(room+t+1));sem_post(full+t+1);}}return 0;}
int main(int c,char**v){S=arg(c,v,1,4);R=arg(c,v,2,400);W=arg(c,v,3,5000);for(int i=0;i<64;i++){sem_init(full+i,0,0);sem_init(room+i,0,4);}pthread_t h[64];
for(int t=1;t<S;t++)pthread_create(h+t,0,f,(void*)(intptr_t)t);f(0);for(int t=1;t<S;t++)pthread_join(h[t],0);puts("pipe done");return 0;}
