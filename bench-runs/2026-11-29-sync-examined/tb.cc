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
#include <stop_token>
#include <thread>
#include <vector>
using namespace std; using C=chrono::steady_clock; static double w[16]; static int n_[16];
static void ms(int n){ this_thread::sleep_for(chrono::milliseconds(n)); }
template<class F> static void timed(int i,F f){ auto a=C::now(); f(); w[i]+=chrono::duration<double,milli>(C::now()-a).count(); n_[i]++; }
static void own(const char*k,double v){ printf("own %s %.3f\n",k,v); }
static mutex m,m2; static shared_mutex sm; static condition_variable_any cva; static condition_variable cv; static timed_mutex tm_;
int main(int,char**v){ string k=v[1];
 if(k=="scoped"){ thread a([]{ for(int r=0;r<40;r++){ timed(0,[]{ m.lock(); }); ms(3); m.unlock(); ms(1);} }), b([]{ for(int r=0;r<40;r++){ timed(1,[]{ std::lock(m,m2); }); ms(2); m.unlock(); m2.unlock(); ms(1);} }), c([]{ for(int r=0;r<40;r++){ timed(2,[]{ m2.lock(); }); ms(2); m2.unlock(); ms(1);} }); a.join();b.join();c.join(); own("m",w[0]); own("both",w[1]); own("m2",w[2]); }
 if(k=="stop"){ vector<jthread> t; for(int i=0;i<3;i++) t.emplace_back([i](stop_token s){ unique_lock l(m); while(!s.stop_requested()) timed(i,[&]{ cva.wait(l,s,[]{return false;}); }); }); ms(150); t.clear(); own("w",w[0]+w[1]+w[2]); }
 if(k=="sems"){ counting_semaphore<4> s(0); binary_semaphore b(1); thread p([&]{ for(int r=0;r<40;r++){ timed(1,[&]{ b.acquire(); }); ms(4); s.release(); } }), c([&]{ for(int r=0;r<40;r++){ timed(0,[&]{ s.acquire(); }); b.release(); } }); p.join(); c.join(); own("acquire",w[0]); }
 if(k=="latch"){ for(int r=0;r<20;r++){ latch l(3); auto f=[&](int i){ ms(2+3*i); l.count_down(); }; thread a(f,0),b(f,1),c(f,2); timed(0,[&]{ l.wait(); }); a.join();b.join();c.join(); } own("latch",w[0]); }
 if(k=="bar2"){ barrier b(2,[]()noexcept{}); auto f=[&](int i){ for(int r=0;r<50;r++){ ms(i?6:1); timed(i,[&]{ b.arrive_and_wait(); }); } }; thread a(f,0),c(f,1); a.join(); c.join(); own("w0",w[0]); own("w1",w[1]); }
 if(k=="async"){ for(int r=0;r<20;r++){ auto f=async(launch::async,[]{ ms(6); return 1; }); timed(0,[&]{ f.get(); }); } own("get",w[0]); }
 if(k=="upg"){ auto f=[&](int i){ for(int r=0;r<25;r++){ timed(i,[]{ sm.lock_shared(); }); ms(2); sm.unlock_shared(); timed(3+i,[]{ sm.lock(); }); ms(2); sm.unlock(); } }; thread a(f,0),b(f,1),c(f,2); a.join();b.join();c.join(); own("read",w[0]+w[1]+w[2]); own("write",w[3]+w[4]+w[5]); }
 if(k=="timed"){ thread a([]{ for(int r=0;r<20;r++){ tm_.lock(); ms(8); tm_.unlock(); ms(2);} }), b([]{ for(int r=0;r<40;r++){ bool g; timed(0,[&]{ g=tm_.try_lock_for(chrono::milliseconds(3)); }); n_[g?1:2]++; if(g) tm_.unlock(); ms(1);} }); a.join(); b.join(); own("wait",w[0]); own("got",n_[1]); own("out",n_[2]); }
 if(k=="wait"){ atomic<int> x{0}; thread a([&]{ for(int r=1;r<=40;r++){ ms(4); x.store(r); x.notify_all(); } }); vector<thread> t; for(int i=0;i<2;i++) t.emplace_back([&,i]{ int last=0; while(last<40){ timed(i,[&]{ x.wait(last); }); last=x.load(); } }); a.join(); for(auto&q:t)q.join(); own("w",w[0]+w[1]); }
}
