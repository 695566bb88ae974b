#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <netdb.h>
static volatile int what; static int s; static int port; static char*heap; static size_t H=200u<<20;
static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static sem_t go, held;
static void on(int g,siginfo_t*i,void*u){what=i->si_value.sival_int;}
static long now(){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1000000000L+t.tv_nsec;}
static void msleep(int ms){struct timespec t={ms/1000,ms%1000*1000000L};while(nanosleep(&t,&t)&&errno==EINTR);}
static void bindp(int p){s=socket(AF_INET,SOCK_DGRAM,0);struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(p)};a.sin_addr.s_addr=htonl(INADDR_LOOPBACK);int one=1;setsockopt(s,SOL_SOCKET,SO_REUSEADDR,&one,4);struct timeval tv={0,200000};setsockopt(s,SOL_SOCKET,SO_RCVTIMEO,&tv,sizeof tv);if(bind(s,(void*)&a,sizeof a)){perror("bind");exit(1);}}
static void* writer(void*x){prctl(PR_SET_NAME,"journal");for(;;){sem_wait(&go);pthread_mutex_lock(&m);sem_post(&held);int f=open("journal.dat",O_CREAT|O_TRUNC|O_WRONLY,0600);long e=now()+60000000;while(now()<e){if(write(f,heap,8<<20)<0)break;fsync(f);}close(f);pthread_mutex_unlock(&m);}}
static void* mapper(void*x){prctl(PR_SET_NAME,"mapper");for(;;)pause();}
static void* idle(void*x){for(;;)pause();}
static void deed(int d){long t=now();
 switch(d){
 case 1: madvise(heap,H,MADV_DONTNEED);for(size_t i=0;i<H;i+=4096)heap[i]=1;break;
 case 2: sem_post(&go);sem_wait(&held);pthread_mutex_lock(&m);pthread_mutex_unlock(&m);break;
 case 3: close(s);port++;bindp(port);break;
 case 4: {int p=fork();if(!p)_exit(0);waitpid(p,0,0);for(size_t i=0;i<H;i+=4096)heap[i]=2;}break;
 case 5: {int f=open("lockfile",O_CREAT|O_RDWR,0600);flock(f,LOCK_EX);close(f);}break;
 case 6: {int f=open("cold.dat",O_RDONLY);posix_fadvise(f,0,0,POSIX_FADV_DONTNEED);static char b[1<<20];while(read(f,b,sizeof b)>0);close(f);}break;
 case 7: {FILE*p=popen("sleep 0.05; true","r");pclose(p);}break;
 case 8: {volatile double x=1;long e=now()+40000000;while(now()<e)for(int i=0;i<1000;i++)x=x*1.0000001;}break;
 case 9: raise(SIGSTOP);break;
 case 10:{char b[65536];int f=open("/dev/urandom",O_RDONLY);for(int i=0;i<200;i++)read(f,b,sizeof b);close(f);}break;
 case 11: munmap(heap,H);heap=mmap(0,H,3,MAP_PRIVATE|MAP_ANONYMOUS|MAP_POPULATE,-1,0);break;
 case 12: {int f=open("out.fifo",O_WRONLY|O_NONBLOCK);fcntl(f,F_SETFL,0);char b[4096]={0};for(int i=0;i<40;i++)write(f,b,4096);close(f);}break;
 case 13: msleep(40);break;
 case 14: {struct addrinfo*r;getaddrinfo("no-such.invalid","80",0,&r);}break;
 }
 fprintf(stderr,"deed %d took %.2f ms\n",d,(now()-t)/1e6);}
int main(int c,char**v){port=atoi(v[1]);int nt=c>2?atoi(v[2]):0;heap=mmap(0,H,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);memset(heap,1,H);sem_init(&go,0,0);sem_init(&held,0,0);
 struct sigaction a={.sa_sigaction=on,.sa_flags=SA_SIGINFO};sigaction(SIGUSR2,&a,0);bindp(port);
 pthread_t p;sigset_t b,o;sigemptyset(&b);sigaddset(&b,SIGUSR2);pthread_sigmask(SIG_BLOCK,&b,&o);pthread_create(&p,0,writer,0);for(int i=0;i<nt;i++)pthread_create(&p,0,idle,0);pthread_sigmask(SIG_SETMASK,&o,0);
 char buf[2048];for(;;){recv(s,buf,sizeof buf,0);if(what){int d=what;what=0;deed(d);}}}
