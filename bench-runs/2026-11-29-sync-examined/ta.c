#include "clock.h"
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <signal.h>
#include <aio.h>
#include <mqueue.h>
#include <fcntl.h>
#include <poll.h>
static void name(const char*n){ prctl(PR_SET_NAME,n); }
static long w[16]; static int cnt[16];
static pthread_mutex_t M=PTHREAD_MUTEX_INITIALIZER, M2=PTHREAD_MUTEX_INITIALIZER, M3=PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t C=PTHREAD_COND_INITIALIZER, C2=PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t R=PTHREAD_RWLOCK_INITIALIZER; static sem_t S,S2; static pthread_barrier_t B;
static void go(int n,void*(*f)(void*)){ pthread_t t[512]; pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a,65536); for(long i=0;i<n;i++)pthread_create(t+i,&a,f,(void*)i); for(int i=0;i<n;i++)pthread_join(t[i],0); }
static void own(const char*k,double v){ printf("own %s %.3f\n",k,v); }
#define MS(x) ((x)/1e6)
/* two threads, the same comes last each time */
static void*bar2(void*a){ long i=(long)a; name(i?"lastcomer":"early"); for(int r=0;r<60;r++){ ms(i?6:1); TIMED(w[i],pthread_barrier_wait(&B)); } return 0; }
static void*baralt(void*a){ long i=(long)a; name(i?"odd":"even"); for(int r=0;r<60;r++){ ms((r+i)%2?6:1); TIMED(w[i],pthread_barrier_wait(&B)); } return 0; }
/* upgrade: read, then give back and write */
static void*upg(void*a){ long i=(long)a; name((char*[]){"upg0","upg1","upg2"}[i]); for(int r=0;r<25;r++){ TIMED(w[i],pthread_rwlock_rdlock(&R)); ms(2); pthread_rwlock_unlock(&R); TIMED(w[3+i],pthread_rwlock_wrlock(&R)); ms(3); pthread_rwlock_unlock(&R); ms(1);} return 0; }
/* semaphore as a lock that another thread gives back */
static void*semg(void*a){ long i=(long)a; if(i==0){ name("taker"); for(int r=0;r<40;r++){ TIMED(w[0],sem_wait(&S)); sem_post(&S2);} } else { name("giver"); for(int r=0;r<40;r++){ sem_wait(&S2); ms(4); sem_post(&S);} } return 0; }
/* one condition, three predicates, broadcast: two of three wake falsely */
static int turn=-1,done_; static void*mpred(void*a){ long i=(long)a; if(i<3){ name((char*[]){"pa","pb","pc"}[i]); pthread_mutex_lock(&M); for(int r=0;r<30;r++){ int first=1; while(turn!=i){ if(!first)cnt[i]++; first=0; TIMED(w[i],pthread_cond_wait(&C,&M)); cnt[8+i]++; } turn=-1; pthread_cond_signal(&C2);} pthread_mutex_unlock(&M);} else { name("caller"); for(int r=0;r<90;r++){ ms(2); pthread_mutex_lock(&M); while(turn>=0)pthread_cond_wait(&C2,&M); turn=r%3; pthread_cond_broadcast(&C); pthread_mutex_unlock(&M);} } return 0; }
/* pool: one submits, four work, jobs of 8 ms */
static int jobs; static volatile int stop_; static void*pool(void*a){ long i=(long)a; if(i==4){ name("submit"); for(int r=0;r<40;r++){ ms(4); pthread_mutex_lock(&M); jobs++; pthread_cond_signal(&C); pthread_mutex_unlock(&M);} pthread_mutex_lock(&M); stop_=1; pthread_cond_broadcast(&C); pthread_mutex_unlock(&M); return 0;} name((char*[]){"wk0","wk1","wk2","wk3"}[i]); for(;;){ pthread_mutex_lock(&M); while(!jobs&&!stop_){ TIMED(w[i],pthread_cond_wait(&C,&M)); cnt[8+i]++;} if(!jobs){pthread_mutex_unlock(&M); return 0;} jobs--; pthread_mutex_unlock(&M); cnt[i]++; ms(8);} }
/* pool that is overloaded: queue never empty, one worker */
static void*over(void*a){ long i=(long)a; if(i==1){ name("feed"); for(int r=0;r<60;r++){ ms(1); pthread_mutex_lock(&M); jobs++; pthread_cond_signal(&C); pthread_mutex_unlock(&M);} pthread_mutex_lock(&M); stop_=1; pthread_cond_signal(&C); pthread_mutex_unlock(&M); return 0;} name("worker"); for(;;){ pthread_mutex_lock(&M); while(!jobs&&!stop_) TIMED(w[i],pthread_cond_wait(&C,&M)); if(!jobs){pthread_mutex_unlock(&M); return 0;} jobs--; pthread_mutex_unlock(&M); cnt[i]++; ms(5);} }
static int fd[2]; static int kind;
static void*pc(void*a){ long i=(long)a; if(i==0){ name("reader"); for(int r=0;r<50;r++){ char b[128]; long f=now(); if(read(fd[0],b,kind==3?128:8)<=0)perror("read"); w[0]+=now()-f; cnt[0]++; spin(1);} } else { name("writer"); for(int r=0;r<50;r++){ ms(5); if(kind==3)kill(getpid(),SIGUSR1); else { unsigned long one=1; if(write(fd[1],&one,8)!=8)perror("write"); } } } return 0; }
/* chain of four */
static pthread_mutex_t L[4]={PTHREAD_MUTEX_INITIALIZER,PTHREAD_MUTEX_INITIALIZER,PTHREAD_MUTEX_INITIALIZER,PTHREAD_MUTEX_INITIALIZER};
static void*chain(void*a){ long i=(long)a; name((char*[]){"root","mid1","mid2","leaf"}[i]); for(int r=0;r<20;r++){ pthread_barrier_wait(&B); ms(3*i); if(i<3)pthread_mutex_lock(&L[i]); if(i>0){ TIMED(w[i],pthread_mutex_lock(&L[i-1])); pthread_mutex_unlock(&L[i-1]); } else ms(20); if(i<3)pthread_mutex_unlock(&L[i]); } return 0; }
static void*sem3(void*a){ long i=(long)a; for(int r=0;r<20;r++){ TIMED(w[i],sem_wait(&S)); ms(4); sem_post(&S); } return 0; }
/* condition after which the mutex is held by the signaller for long */
static int flag; static void*cmut(void*a){ long i=(long)a; if(!i){ name("waiter"); for(int r=0;r<40;r++){ pthread_mutex_lock(&M); while(flag!=1) TIMED(w[0],pthread_cond_wait(&C,&M)); flag=0; pthread_cond_signal(&C2); pthread_mutex_unlock(&M);} } else { name("signaller"); for(int r=0;r<40;r++){ ms(2); pthread_mutex_lock(&M); while(flag) pthread_cond_wait(&C2,&M); flag=1; pthread_cond_signal(&C); ms(5); pthread_mutex_unlock(&M);} } return 0; }
/* lock on a stack: one address, new lock each round */
static pthread_mutex_t*volatile on; static void*stk(void*a){ long i=(long)a; name(i?"asker":"maker"); for(int r=0;r<40;r++){ if(!i){ pthread_mutex_t m; pthread_mutex_init(&m,0); pthread_mutex_lock(&m); on=&m; pthread_barrier_wait(&B); ms(4); pthread_mutex_unlock(&m); pthread_barrier_wait(&B); pthread_mutex_destroy(&m);} else { pthread_barrier_wait(&B); TIMED(w[1],pthread_mutex_lock(on)); pthread_mutex_unlock(on); pthread_barrier_wait(&B);} } return 0; }
static void*t300(void*a){ long i=(long)a; TIMED(w[0],0); for(int r=0;r<3;r++){ pthread_mutex_lock(&L[i%4]); usleep(200); pthread_mutex_unlock(&L[i%4]); long f=now(); pthread_barrier_wait(&B); __atomic_add_fetch(&w[1],now()-f,0);} return 0; }
static void*shortl(void*a){ long f=now(); pthread_mutex_lock(&M); __atomic_add_fetch(&w[0],now()-f,0); usleep(100); pthread_mutex_unlock(&M); return 0; }
static void*hold(void*a){ long i=(long)a; if(i==0){ name("holder"); pthread_mutex_lock(&M); ms(300); pthread_mutex_unlock(&M);} else { name((char*[]){"","lw","cw","sw","rw"}[i]); ms(10); if(i==1){pthread_mutex_lock(&M);pthread_mutex_unlock(&M);} if(i==2){pthread_mutex_lock(&M2); pthread_cond_wait(&C,&M2);} if(i==3)sem_wait(&S); if(i==4)pthread_rwlock_rdlock(&R);} return 0; }
static void*ring(void*a){ long i=(long)a; char n[8]; snprintf(n,8,"ring%ld",i); name(n); pthread_mutex_lock(&M); for(int r=0;r<30;r++){ while(turn!=i){ TIMED(w[i],pthread_cond_wait(&C,&M)); cnt[i]++; } pthread_mutex_unlock(&M); ms(i==2?4:1); pthread_mutex_lock(&M); turn=(i+1)%5; pthread_cond_broadcast(&C);} pthread_mutex_unlock(&M); return 0; }
static void*pin(void*a){ long i=(long)a; cpu_set_t s; CPU_ZERO(&s); CPU_SET(i==2?1:0,&s); sched_setaffinity(0,sizeof s,&s); name((char*[]){"owner","hog","wants"}[i]); if(i==1){ while(!stop_) spin(1);} else if(i==0){ for(int r=0;r<30;r++){ pthread_mutex_lock(&M); spin(4); pthread_mutex_unlock(&M); ms(2);} stop_=1;} else while(!stop_){ TIMED(w[2],pthread_mutex_lock(&M)); cnt[2]++; pthread_mutex_unlock(&M); ms(1);} return 0; }
static void*rec(void*a){ long i=(long)a; name(i?"rec1":"rec0"); for(int r=0;r<30;r++){ TIMED(w[i],pthread_mutex_lock(&M3)); pthread_mutex_lock(&M3); ms(2); pthread_mutex_unlock(&M3); ms(2); pthread_mutex_unlock(&M3); ms(1);} return 0; }
static void*tmo(void*a){ long i=(long)a; if(!i){ name("keeper"); for(int r=0;r<20;r++){ pthread_rwlock_wrlock(&R); ms(10); pthread_rwlock_unlock(&R); ms(3);} } else { name("timed"); for(int r=0;r<30;r++){ struct timespec t=at_clock(CLOCK_REALTIME,4000000); int e; TIMED(w[1],e=pthread_rwlock_timedrdlock(&R,&t)); if(e)cnt[0]++; else { cnt[1]++; pthread_rwlock_unlock(&R);} ms(1);} } return 0; }
static void*lazy(void*a){ long i=(long)a; name(i?"b":"a"); for(int r=0;r<30;r++){ TIMED(w[i],pthread_mutex_lock(&M)); long u=now()+3000000; while(now()<u)sched_yield(); pthread_mutex_unlock(&M); ms(1);} return 0; }
static void hup(union sigval v){ pthread_mutex_lock(&M); ms(2); pthread_mutex_unlock(&M); cnt[0]++; }
int main(int n,char**v){ char*k=v[1]; setvbuf(stdout,0,_IONBF,0); sem_init(&S,0,0); sem_init(&S2,0,1);
#define IS(x) (!strcmp(k,x))
 if(IS("bar2")||IS("baralt")){ pthread_barrier_init(&B,0,2); go(2,IS("bar2")?bar2:baralt); own("wait0",MS(w[0])); own("wait1",MS(w[1])); }
 else if(IS("upg")){ go(3,upg); own("read",MS(w[0]+w[1]+w[2])); own("write",MS(w[3]+w[4]+w[5])); }
 else if(IS("semg")){ go(2,semg); own("taker",MS(w[0])); }
 else if(IS("mpred")){ go(4,mpred); own("waits",cnt[8]+cnt[9]+cnt[10]); own("false",cnt[0]+cnt[1]+cnt[2]); own("wait",MS(w[0]+w[1]+w[2])); }
 else if(IS("pool")){ go(5,pool); for(int i=0;i<4;i++){ char b[9]; sprintf(b,"idle%d",i); own(b,MS(w[i])); sprintf(b,"jobs%d",i); own(b,cnt[i]); } own("waits",cnt[8]+cnt[9]+cnt[10]+cnt[11]); }
 else if(IS("over")){ go(2,over); own("idle",MS(w[0])); own("jobs",cnt[0]); }
 else if(IS("pipe")||IS("eventfd")||IS("sockpair")||IS("signalfd")){ if(IS("pipe"))pipe(fd); if(IS("eventfd"))fd[0]=fd[1]=eventfd(0,0); if(IS("sockpair"))socketpair(AF_UNIX,SOCK_STREAM,0,fd); if(IS("signalfd")){ kind=3; sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR1); sigprocmask(SIG_BLOCK,&s,0); fd[0]=signalfd(-1,&s,0);} go(2,pc); own("read",MS(w[0])); own("n",cnt[0]); }
 else if(IS("chain")){ pthread_barrier_init(&B,0,4); go(4,chain); own("w1",MS(w[1])); own("w2",MS(w[2])); own("w3",MS(w[3])); }
 else if(IS("sem3")){ sem_init(&S,0,3); go(6,sem3); long t=0; for(int i=0;i<6;i++)t+=w[i]; own("wait",MS(t)); }
 else if(IS("cmut")){ go(2,cmut); own("waiter",MS(w[0])); }
 else if(IS("stk")){ pthread_barrier_init(&B,0,2); go(2,stk); own("asker",MS(w[1])); }
 else if(IS("t300")){ pthread_barrier_init(&B,0,300); go(300,t300); own("bar",MS(w[1])); }
 else if(IS("churn")){ for(int i=0;i<1500;i++)go(2,shortl); own("lock",MS(w[0])); }
 else if(IS("endwait")){ pthread_rwlock_wrlock(&R); pthread_t t; for(long i=0;i<5;i++)pthread_create(&t,0,hold,(void*)i); ms(200); printf("bye\n"); exit(7); }
 else if(IS("endkill")||IS("endabrt")||IS("end_exit")||IS("endpthread")){ pthread_rwlock_wrlock(&R); pthread_t t; for(long i=0;i<(IS("endpthread")?2:5);i++)pthread_create(&t,0,hold,(void*)i); ms(200); printf("bye\n"); if(IS("endkill"))raise(SIGKILL); if(IS("endabrt"))abort(); if(IS("end_exit"))_exit(9); pthread_exit(0); }
 else if(IS("ring")){ turn=0; go(5,ring); long t=0,c=0; for(int i=0;i<5;i++)t+=w[i],c+=cnt[i]; own("wait",MS(t)); own("n",c); }
 else if(IS("pin")){ go(3,pin); own("wants",MS(w[2])); }
 else if(IS("rec")){ pthread_mutexattr_t x; pthread_mutexattr_init(&x); pthread_mutexattr_settype(&x,PTHREAD_MUTEX_RECURSIVE); pthread_mutex_init(&M3,&x); go(2,rec); own("w0",MS(w[0])); own("w1",MS(w[1])); }
 else if(IS("tmo")){ go(2,tmo); own("wait",MS(w[1])); own("out",cnt[0]); own("got",cnt[1]); }
 else if(IS("lazy")){ go(2,lazy); own("w0",MS(w[0])); own("w1",MS(w[1])); }
 else if(IS("forkmid")){ pthread_t t; pthread_create(&t,0,hold,0); ms(20); pid_t p=fork(); if(!p){ name("kid"); for(int i=0;i<3;i++){ memset(w,0,sizeof w); } pthread_mutex_init(&M,0); go(2,lazy); printf("own kid %.3f\n",MS(w[0]+w[1])); execl("/proc/self/exe",v[0],"rec",(char*)0);} int st; waitpid(p,&st,0); pthread_join(t,0); printf("st %d\n",st); return 3; }
 else if(IS("daemon")){ int p[2]; pipe(p); pid_t c=fork(); if(c){ close(p[1]); char b[256]; long m; while((m=read(p[0],b,256))>0)write(1,b,m); return 4;} setsid(); if(fork())_exit(0); dup2(p[1],1); close(p[1]); close(p[0]); name("daemond"); go(2,lazy); own("w0",MS(w[0])); own("w1",MS(w[1])); }
 else if(IS("stop")){ pid_t me=getpid(); pid_t c=fork(); if(!c){ ms(40); kill(me,SIGSTOP); ms(150); kill(me,SIGCONT); _exit(0);} go(2,lazy); own("w0",MS(w[0])); own("w1",MS(w[1])); waitpid(c,0,0); }
 else if(IS("timer")){ timer_t t; struct sigevent e={.sigev_notify=SIGEV_THREAD,.sigev_notify_function=hup}; timer_create(CLOCK_MONOTONIC,&e,&t); struct itimerspec it={{0,5000000},{0,5000000}}; timer_settime(t,0,&it,0); for(int r=0;r<40;r++){ TIMED(w[0],pthread_mutex_lock(&M)); ms(3); pthread_mutex_unlock(&M); ms(1);} timer_delete(t); own("main",MS(w[0])); }
 else if(IS("aio")){ int f=open("aio.dat",O_RDWR|O_CREAT,0600); pipe(fd); for(int r=0;r<20;r++){ char b[8]; struct aiocb a={.aio_fildes=fd[0],.aio_buf=b,.aio_nbytes=1}; aio_read(&a); const struct aiocb*l[1]={&a}; pthread_t t; kind=0; pid_t c=fork(); if(!c){ ms(4); write(fd[1],"x",1); _exit(0);} TIMED(w[0],aio_suspend(l,1,0)); waitpid(c,0,0); } close(f); own("suspend",MS(w[0])); }
 else if(IS("mq")){ struct mq_attr at={.mq_maxmsg=2,.mq_msgsize=8}; mqd_t q=mq_open("/thrq",O_RDWR|O_CREAT,0600,&at); mq_unlink("/thrq"); pid_t c=fork(); if(!c){ for(int r=0;r<40;r++){ ms(4); mq_send(q,"x",1,0);} _exit(0);} char b[8]; for(int r=0;r<40;r++) TIMED(w[0],mq_receive(q,b,8,0)); waitpid(c,0,0); own("recv",MS(w[0])); }
 else if(IS("prshbar")){ pthread_barrier_t*b=mmap(0,4096,3,MAP_SHARED|MAP_ANONYMOUS,-1,0); pthread_barrierattr_t x; pthread_barrierattr_init(&x); pthread_barrierattr_setpshared(&x,1); pthread_barrier_init(b,&x,2); pid_t c=fork(); for(int r=0;r<50;r++){ ms(c?2:6); TIMED(w[0],pthread_barrier_wait(b)); } if(!c)_exit(0); waitpid(c,0,0); own("parent",MS(w[0])); }
 else { printf("no such\n"); return 2; }
 return 0; }
