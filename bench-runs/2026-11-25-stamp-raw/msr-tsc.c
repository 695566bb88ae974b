// Reads the event msr/tsc from a BPF program (gcc -D_GNU_SOURCE -O2 msr-tsc.c; run as root).
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <stdint.h>
#include <errno.h>
#include <sched.h>
#include <time.h>
#include <x86intrin.h>
#undef bpf
static int bpfx(int c, union bpf_attr*a){return syscall(SYS_bpf,c,a,sizeof *a);}
#define I(c,d,s,o,i) ((struct bpf_insn){.code=c,.dst_reg=d,.src_reg=s,.off=o,.imm=i})
int main(){
 union bpf_attr a; 
 memset(&a,0,sizeof a);a.map_type=BPF_MAP_TYPE_PERF_EVENT_ARRAY;a.key_size=4;a.value_size=4;a.max_entries=2;int pm=bpfx(BPF_MAP_CREATE,&a);
 memset(&a,0,sizeof a);a.map_type=BPF_MAP_TYPE_ARRAY;a.key_size=4;a.value_size=32;a.max_entries=1;int am=bpfx(BPF_MAP_CREATE,&a);
 int t;FILE*f=fopen("/sys/bus/event_source/devices/msr/type","r");fscanf(f,"%d",&t);
 struct perf_event_attr p={.type=t,.size=sizeof p,.config=0};
 int ev[2];
 for(int c=0;c<2;c++){ev[c]=syscall(SYS_perf_event_open,&p,-1,c,-1,PERF_FLAG_FD_CLOEXEC);printf("ev %d %d\n",ev[c],errno);
  memset(&a,0,sizeof a);a.map_fd=pm;a.key=(uint64_t)&c;a.value=(uint64_t)&ev[c];a.flags=BPF_ANY;printf("upd %d\n",bpfx(BPF_MAP_UPDATE_ELEM,&a));}
 struct bpf_insn in[]={
  I(BPF_ST|BPF_MEM|BPF_W,10,0,-4,0),
  I(BPF_LD|BPF_DW|BPF_IMM,1,1,0,am),I(0,0,0,0,0),
  I(BPF_ALU64|BPF_MOV|BPF_X,2,10,0,0),I(BPF_ALU64|BPF_ADD|BPF_K,2,0,0,-4),
  I(BPF_JMP|BPF_CALL,0,0,0,1),
  I(BPF_JMP|BPF_JNE|BPF_K,0,0,1,0),I(BPF_JMP|BPF_EXIT,0,0,0,0),
  I(BPF_ALU64|BPF_MOV|BPF_X,6,0,0,0),
  I(BPF_JMP|BPF_CALL,0,0,0,5),I(BPF_STX|BPF_MEM|BPF_DW,6,0,0,0),
  I(BPF_LD|BPF_DW|BPF_IMM,1,1,0,pm),I(0,0,0,0,0),
  I(BPF_ALU64|BPF_MOV|BPF_K,2,0,0,-1),I(BPF_ALU64|BPF_LSH|BPF_K,2,0,0,32),I(BPF_ALU64|BPF_RSH|BPF_K,2,0,0,32),
  I(BPF_JMP|BPF_CALL,0,0,0,22),I(BPF_STX|BPF_MEM|BPF_DW,6,0,8,0),
  I(BPF_JMP|BPF_CALL,0,0,0,5),I(BPF_STX|BPF_MEM|BPF_DW,6,0,16,0),
  I(BPF_ALU64|BPF_MOV|BPF_K,0,0,0,0),I(BPF_JMP|BPF_EXIT,0,0,0,0)};
 static char log[65536];
 memset(&a,0,sizeof a);a.prog_type=BPF_PROG_TYPE_RAW_TRACEPOINT;a.insns=(uint64_t)in;a.insn_cnt=sizeof in/sizeof*in;a.license=(uint64_t)"GPL";a.log_buf=(uint64_t)log;a.log_size=sizeof log;a.log_level=1;
 int pf=bpfx(BPF_PROG_LOAD,&a);printf("prog %d %s\n",pf,log);
 for(int c=0;c<2;c++){cpu_set_t s;CPU_ZERO(&s);CPU_SET(c,&s);sched_setaffinity(0,sizeof s,&s);
  uint64_t lo=0,hi=~0ull,minw=~0ull,minb=~0ull; int64_t klo=INT64_MIN,khi=INT64_MAX;
  for(int i=0;i<20000;i++){
   uint64_t t0=__rdtsc();memset(&a,0,sizeof a);a.test.prog_fd=pf;uint64_t ctx[1]={0};a.test.ctx_in=(uint64_t)ctx;a.test.ctx_size_in=8;int r=bpfx(BPF_PROG_TEST_RUN,&a);uint64_t t1=__rdtsc();
   if(r){printf("run %d %d\n",r,errno);break;}
   uint64_t v[4];int k=0;memset(&a,0,sizeof a);a.map_fd=am;a.key=(uint64_t)&k;a.value=(uint64_t)v;bpfx(BPF_MAP_LOOKUP_ELEM,&a);
   uint64_t w=v[2]-v[0];if(w<minb)minb=w; if(t1-t0<minw)minw=t1-t0;
   if(t0-v[1]>lo)lo=t0-v[1]; if(t1-v[1]<hi)hi=t1-v[1];
   if(i<3)printf("v %lu %lu %lu\n",v[0],v[1],v[2]);
  }
  printf("cpu %d offset width cycles %ld, min test_run %lu cyc, min ktime bracket %lu ns\n",c,(long)(hi-lo),minw,minb);
 }
}
