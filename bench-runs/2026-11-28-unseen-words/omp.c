#include "clock.h"
#include <omp.h>
static long came[8]; static int ids[8];
/* static: thread 2 has four times the work; own clock: wait at the barrier = last came - came */
static void stat(int by_spin){ long w[8]={0}; 
 #pragma omp parallel num_threads(3)
 { int me=omp_get_thread_num(); ids[me]=TID; for(int i=0;i<20;i++){ if(by_spin)spin(me==2?8:2); else ms(me==2?8:2); long f=now();
 #pragma omp barrier
 w[me]+=now()-f; } }
 for(int i=0;i<3;i++) printf("static %d 20 %ld\n",ids[i],w[i]); }
static void dyn(void){ long w[8]={0};
 #pragma omp parallel num_threads(3)
 { int me=omp_get_thread_num(); ids[me]=TID; for(int r=0;r<10;r++){ 
 #pragma omp for schedule(dynamic,1) nowait
 for(int i=0;i<9;i++) ms(i==8?20:2);
 long f=now();
 #pragma omp barrier
 w[me]+=now()-f; } }
 for(int i=0;i<3;i++) printf("dynamic %d 10 %ld\n",ids[i],w[i]); }
/* tasks: one thread makes tasks slowly (5 ms each), others run them (1 ms each) while they wait at the end of single */
static void tasks(void){ long w[8]={0},x[8]={0};
 #pragma omp parallel num_threads(3)
 { int me=omp_get_thread_num(); ids[me]=TID; for(int r=0;r<5;r++){
   #pragma omp master
   { for(int i=0;i<10;i++){ ms(5);
     #pragma omp task
     { long f=now(); ms(1); __atomic_fetch_add(&x[omp_get_thread_num()],now()-f,0); } } }
   long f=now();
   #pragma omp barrier
   w[me]+=now()-f; } }
 for(int i=0;i<3;i++) printf("tasks-at-barrier%s %d 5 %ld of which in tasks %ld\n",i?"":"-maker",ids[i],w[i],x[i]); }
static void taskwait(void){ long w=0;
 #pragma omp parallel num_threads(3)
 { ids[omp_get_thread_num()]=TID;
 #pragma omp single
 for(int r=0;r<20;r++){ 
   #pragma omp task
   ms(8);
   #pragma omp task
   ms(2);
   long f=now();
   #pragma omp taskwait
   w+=now()-f; } }
 printf("taskwait %d 20 %ld\n",ids[0],w); for(int i=0;i<3;i++)printf("id %d %d 0\n",ids[i],i);}
static void crit(void){ long w[8]={0};
 #pragma omp parallel num_threads(3)
 { int me=omp_get_thread_num(); ids[me]=TID; for(int i=0;i<30;i++){ long f=now();
 #pragma omp critical
 { w[me]+=now()-f; if(me==1)spin(6); else ms(2);} ms(1);} }
 for(int i=0;i<3;i++) printf("critical %d 30 %ld\n",ids[i],w[i]); }
static void nest(void){ long w[8]={0}; omp_nest_lock_t l; omp_init_nest_lock(&l);
 #pragma omp parallel num_threads(2)
 { int me=omp_get_thread_num(); ids[me]=TID; for(int i=0;i<30;i++){ long f=now(); omp_set_nest_lock(&l); w[me]+=now()-f; omp_set_nest_lock(&l); if(me==1)spin(6); else ms(2); omp_unset_nest_lock(&l); omp_unset_nest_lock(&l); usleep(500);} }
 for(int i=0;i<2;i++) printf("nest %d 30 %ld\n",ids[i],w[i]); }
/* serial part between regions: 10 ms by the initial thread, then 4 ms by all */
static void serial(void){ 
 for(int r=0;r<20;r++){ spin(10);
 #pragma omp parallel num_threads(2)
 { ids[omp_get_thread_num()]=TID; spin(4);} }
 printf("serial %d 20 200000000\n",ids[0]); }
static void single(void){ long w[8]={0};
 #pragma omp parallel num_threads(3)
 { int me=omp_get_thread_num(); ids[me]=TID; for(int r=0;r<20;r++){ int who=0; long f=now();
 #pragma omp single
 { who=1; ms(8);}
 if(!who) w[me]+=now()-f; } }
 for(int i=0;i<3;i++) printf("single %d 20 %ld\n",ids[i],w[i]); }
static void ordered(void){ long w[8]={0};
 #pragma omp parallel num_threads(3)
 { int me=omp_get_thread_num(); ids[me]=TID;
 #pragma omp for ordered schedule(static,1)
 for(int i=0;i<60;i++){ ms(1); long f=now();
 #pragma omp ordered
 { w[me]+=now()-f; ms(3);} } }
 for(int i=0;i<3;i++) printf("ordered %d 20 %ld\n",ids[i],w[i]); }
int main(int n,char**v){ char*m=v[1];
#define M(x) if(!strcmp(m,#x)) x();
 if(!strcmp(m,"static"))stat(0); if(!strcmp(m,"spin"))stat(1); M(dyn)M(tasks)M(taskwait)M(crit)M(nest)M(serial)M(single)M(ordered) return 0; }
