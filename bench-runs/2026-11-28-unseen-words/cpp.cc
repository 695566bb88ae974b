#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>
#include <unistd.h>
#include <vector>
using namespace std;
static long now(){ return chrono::steady_clock::now().time_since_epoch().count(); }
static void ms(int n){ usleep(n*1000); }
static void spin(int n){ long u=now()+n*1000000L; while(now()<u); }
template<class F> static void timed(long&w,F f){ long a=now(); f(); w+=now()-a; }
static vector<thread> ts; static void all(){ for(auto&t:ts)t.join(); ts.clear(); fflush(stdout);} 
static counting_semaphore<3> pool{2}; static atomic<int> a32{0}; static atomic<long> a64{0}; static atomic_flag flag; static std::barrier<> bar{3}; static latch la{3};
static void pools(){ for(int i=0;i<4;i++) ts.emplace_back([i]{ long w=0; for(int k=0;k<20;k++){ timed(w,[]{pool.acquire();}); ms(4); pool.release(); usleep(300);} printf("pool %d 20 %ld\n",gettid(),w);}); all(); }
static void wait32(){ ts.emplace_back([]{ long w=0; for(int i=0;i<30;i++) timed(w,[i]{ a32.wait(i);}); printf("a32 %d 30 %ld\n",gettid(),w);}); for(int i=0;i<30;i++){ ms(5); a32++; a32.notify_one();} all(); printf("a32-waker %d 0 0\n",gettid()); }
static void wait64(){ for(int k=0;k<2;k++)ts.emplace_back([]{ long w=0; for(int i=0;i<30;i++) timed(w,[i]{ a64.wait(i);}); printf("a64 %d 30 %ld\n",gettid(),w);}); for(int i=0;i<30;i++){ ms(5); a64++; a64.notify_all();} all(); printf("a64-waker %d 0 0\n",gettid()); }
static void meet(){ for(int m=0;m<3;m++)ts.emplace_back([m]{ long w=0; for(int i=0;i<30;i++){ if(m==2)spin(8); else ms(2); timed(w,[]{bar.arrive_and_wait();}); } printf("barrier%d %d 30 %ld\n",m,gettid(),w);}); all(); }
static void fut(){ long w=0; int id=0; for(int i=0;i<20;i++){ promise<int> p; auto f=p.get_future(); thread t([&]{ id=gettid(); ms(5); p.set_value(1);}); timed(w,[&]{f.get();}); t.join(); } printf("future %d 20 %ld\n",gettid(),w); }
static shared_mutex sm; static mutex m; static condition_variable_any cva;
static void shared(){ ts.emplace_back([]{ long w=0; for(int i=0;i<30;i++){ timed(w,[]{sm.lock();}); ms(6); sm.unlock(); ms(3);} printf("sm-writer %d 30 %ld\n",gettid(),w);}); for(int k=0;k<2;k++)ts.emplace_back([]{ long w=0; for(int i=0;i<60;i++){ timed(w,[]{sm.lock_shared();}); ms(1); sm.unlock_shared(); ms(1);} printf("sm-reader %d 60 %ld\n",gettid(),w);}); all(); }
/* a semaphore as a lock (binary) between two: one sleeps 3, one spins 6 */
static binary_semaphore gate{1};
static void sem(){ for(int m=0;m<2;m++)ts.emplace_back([m]{ long w=0; for(int i=0;i<30;i++){ timed(w,[]{gate.acquire();}); if(m)spin(6); else ms(3); gate.release(); usleep(500);} printf("gate%d %d 30 %ld\n",m,gettid(),w);}); all(); }
int main(int n,char**v){ char*c=v[1];
#define M(x) if(!strcmp(c,#x)) x();
 M(pools)M(wait32)M(wait64)M(meet)M(fut)M(shared)M(sem) return 0; }
