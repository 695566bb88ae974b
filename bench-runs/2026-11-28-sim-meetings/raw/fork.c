#include "clock.h"
static int T,R,W;static void*f(void*p){work((intptr_t)p,W);return 0;}
int main(int c,char**v){T=arg(c,v,1,4);R=arg(c,v,2,1);W=arg(c,v,3,20000);pthread_t h[64];
for(int r=0;r<R;r++){for(int t=1;t<T;t++)pthread_create(h+t,0,f,(void*)(intptr_t)t);f(0);for(int t=1;t<T;t++)pthread_join(h[t],0);}puts("fork done");return 0;}
