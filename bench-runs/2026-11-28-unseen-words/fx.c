#include "clock.h"
typedef atomic_uint word;
static long fut(word*w,int op,unsigned v,void*t,word*w2,unsigned v3){ return syscall(SYS_futex,w,op,v,t,w2,v3); }
static word one, two, ilock, shared_word;
static pthread_barrier_t bar;
/* bitset: waiters of bit 1 and bit 2; the waker wakes bit 2 only, then bit 1 */
static void* bits(void*a){ unsigned bit=(long)a; long w=0; for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); long f=now(); fut(&one,FUTEX_WAIT_BITSET_PRIVATE,0,0,0,bit); w+=now()-f; pthread_barrier_wait(&bar);} printf("bit%u %d 30 %ld\n",bit,TID,w); return 0; }
static void bitset(void){ pthread_t t[2]; pthread_barrier_init(&bar,0,3); pthread_create(t,0,bits,(void*)1); pthread_create(t+1,0,bits,(void*)2);
 for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); ms(3); fut(&one,FUTEX_WAKE_BITSET_PRIVATE,100,0,0,2); ms(4); fut(&one,FUTEX_WAKE_BITSET_PRIVATE,100,0,0,1); pthread_barrier_wait(&bar);} 
 pthread_join(t[0],0);pthread_join(t[1],0); printf("bit-waker %d 0 0\n",TID); }
/* requeue: three wait on one; the mover wakes one and moves two to `two`; the other wakes these there one by one */
static void* rq(void*a){ long w=0; for(int i=0;i<20;i++){ pthread_barrier_wait(&bar); long f=now(); fut(&one,FUTEX_WAIT_PRIVATE,0,0,0,0); w+=now()-f; pthread_barrier_wait(&bar);} printf("rq%ld %d 20 %ld\n",(long)a,TID,w); return 0; }
static void* mover(void*a){ for(int i=0;i<20;i++){ pthread_barrier_wait(&bar); ms(3); fut(&one,FUTEX_CMP_REQUEUE_PRIVATE,1,(void*)100,&two,0); pthread_barrier_wait(&bar);} printf("rq-mover %d 0 0\n",TID); return 0; }
static void requeue(void){ pthread_t t[4]; pthread_barrier_init(&bar,0,5); for(long i=0;i<3;i++) pthread_create(t+i,0,rq,(void*)i); pthread_create(t+3,0,mover,0);
 for(int i=0;i<20;i++){ pthread_barrier_wait(&bar); ms(6); fut(&two,FUTEX_WAKE_PRIVATE,1,0,0,0); ms(3); fut(&two,FUTEX_WAKE_PRIVATE,1,0,0,0); pthread_barrier_wait(&bar);} for(int i=0;i<4;i++)pthread_join(t[i],0); printf("rq-waker %d 0 0\n",TID); }
/* a lock of the program's own: raw, 0 free 1 taken 2 contended */
static void lk(word*l){ unsigned c=0; if(atomic_compare_exchange_strong(l,&c,1))return; if(c!=2)c=atomic_exchange(l,2); while(c){ fut(l,FUTEX_WAIT_PRIVATE,2,0,0,0); c=atomic_exchange(l,2);} }
static void ul(word*l){ if(atomic_exchange(l,0)==2) fut(l,FUTEX_WAKE_PRIVATE,1,0,0,0); }
static void* own(void*a){ long w=0; for(int i=0;i<40;i++){ long f=now(); lk(&ilock); w+=now()-f; if(a)spin(6); else ms(2); ul(&ilock); usleep(300);} printf("own%ld %d 40 %ld\n",(long)a,TID,w); return 0; }
static void ownlock(void){ pthread_t t[2]; for(long i=0;i<2;i++)pthread_create(t+i,0,own,(void*)i); for(int i=0;i<2;i++)pthread_join(t[i],0); }
/* PI */
static word pil;
static void plk(void){ unsigned c=0; if(!atomic_compare_exchange_strong(&pil,&c,TID)) fut(&pil,FUTEX_LOCK_PI_PRIVATE,0,0,0,0); }
static void pul(void){ unsigned c=TID; if(!atomic_compare_exchange_strong(&pil,&c,0)) fut(&pil,FUTEX_UNLOCK_PI_PRIVATE,0,0,0,0); }
static void* pown(void*a){ long w=0; for(int i=0;i<40;i++){ long f=now(); plk(); w+=now()-f; if((long)a==1)spin(6); else ms(2); pul(); usleep(300);} printf("pi%ld %d 40 %ld\n",(long)a,TID,w); return 0; }
static void pi(void){ pthread_t t[3]; for(long i=0;i<3;i++)pthread_create(t+i,0,pown,(void*)i); for(int i=0;i<3;i++)pthread_join(t[i],0); }
/* waitv */
static void* wv(void*a){ long w=0; for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); struct futex_waitv v[2]={{.uaddr=(unsigned long)&one,.flags=FUTEX_32|FUTEX_PRIVATE_FLAG},{.uaddr=(unsigned long)&two,.flags=FUTEX_32|FUTEX_PRIVATE_FLAG}}; long f=now(); long r=syscall(SYS_futex_waitv,v,2,0,0,0); w+=now()-f; if(r!=(i&1))fprintf(stderr,"waitv %ld\n",r); pthread_barrier_wait(&bar);} printf("waitv %d 30 %ld\n",TID,w); return 0; }
static void waitv(void){ pthread_t t; pthread_barrier_init(&bar,0,2); pthread_create(&t,0,wv,0); for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); ms(5); fut(i&1?&two:&one,FUTEX_WAKE_PRIVATE,1,0,0,0); pthread_barrier_wait(&bar);} pthread_join(t,0); printf("waitv-waker %d 0 0\n",TID);}
/* futex2 calls */
static void* f2(void*a){ long w=0; for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); long f=now(); long r=syscall(455,&one,0UL,~0u,FUTEX_32|FUTEX_PRIVATE_FLAG,0,0); if(r)perror("futex_wait"); w+=now()-f; pthread_barrier_wait(&bar);} printf("f2 %d 30 %ld\n",TID,w); return 0; }
static void futex2(void){ pthread_t t; pthread_barrier_init(&bar,0,2); pthread_create(&t,0,f2,0); for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); ms(5); syscall(454,&one,~0u,1,FUTEX_32|FUTEX_PRIVATE_FLAG); pthread_barrier_wait(&bar);} pthread_join(t,0); printf("f2-waker %d 0 0\n",TID);}
/* WAKE_OP: adds to two, wakes one of one; and if two was 0, one of two */
static void* wo(void*a){ word*l=a; long w=0; for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); long f=now(); fut(l,FUTEX_WAIT_PRIVATE,0,0,0,0); w+=now()-f; pthread_barrier_wait(&bar);} printf("wakeop%d %d 30 %ld\n",l==&two,TID,w); return 0; }
static void wakeop(void){ pthread_t t[2]; pthread_barrier_init(&bar,0,3); pthread_create(t,0,wo,&one); pthread_create(t+1,0,wo,&two); for(int i=0;i<30;i++){ pthread_barrier_wait(&bar); ms(5); fut(&one,FUTEX_WAKE_OP_PRIVATE,1,(void*)1,&two,FUTEX_OP(FUTEX_OP_ADD,0,FUTEX_OP_CMP_EQ,0)); pthread_barrier_wait(&bar);} pthread_join(t[0],0);pthread_join(t[1],0); printf("wakeop-waker %d 0 0\n",TID);}
/* timer-ended waits, interrupted, EAGAIN */
static void* to(void*a){ long w=0; struct timespec r={0,4000000}; for(int i=0;i<30;i++){ long f=now(); fut(&one,FUTEX_WAIT_PRIVATE,0,&r,0,0); w+=now()-f; fut(&one,FUTEX_WAIT_PRIVATE,7,0,0,0);} printf("timeout %d 60 %ld\n",TID,w); return 0; }
static void timeouts(void){ pthread_t t; pthread_create(&t,0,to,0); pthread_join(t,0); }
/* between processes, by a shared mapping at two addresses */
static void procs(void){ int fd=memfd_create("w",0); ftruncate(fd,4096); word*a=mmap(0,4096,3,MAP_SHARED,fd,0); int c=fork(); if(!c){ word*b=mmap((void*)0x200000000000,4096,3,MAP_SHARED,fd,0); long w=0; for(int i=1;i<=30;i++){ long f=now(); while(atomic_load(b)<i) fut(b,FUTEX_WAIT,i-1,0,0,0); w+=now()-f;} printf("proc-child %d 30 %ld\n",TID,w); exit(0);} for(int i=0;i<30;i++){ ms(5); atomic_fetch_add(a,1); fut(a,FUTEX_WAKE,1,0,0,0);} waitpid(c,0,0); printf("proc-waker %d 0 0\n",TID);}
int main(int n,char**v){ setvbuf(stdout,0,_IOLBF,0); char*m=v[1];
#define M(x) if(!strcmp(m,#x)) x();
 M(bitset)M(requeue)M(ownlock)M(pi)M(waitv)M(futex2)M(wakeop)M(timeouts)M(procs) return 0; }
