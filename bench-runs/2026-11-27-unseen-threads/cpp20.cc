extern "C" {
#include "own_cc.h"
}
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>
// C++20: latch, barrier with a completion, jthread with stop tokens, call_once, futures, a guard of a static, timed and recursive locks.
using namespace std::chrono_literals;
static std::mutex a, b; static std::shared_mutex table; static std::recursive_timed_mutex deep; static std::once_flag once; static std::atomic<long> an, at, tn, tt, dn, dt, cn, ct, fn, ft, gn, gt, ln, lt, rn, rt; static std::condition_variable_any any; static std::atomic<int> timeouts, sum;
template <class F> static void timed(std::atomic<long> &n, std::atomic<long> &t, F f) { long from = now(); f(); t += now() - from; n++; }
struct Slow { Slow() { nap(8000); } int v = 1; };
static Slow &guarded() { static Slow slow; return slow; }
int main() {
	std::vector<std::jthread> crowd; std::latch begin(3); int phases = 0; std::barrier phase(3, [&]() noexcept { phases++; nap(1000); });
	for (int k = 0; k < 3; k++) crowd.emplace_back([&, k](std::stop_token stop) {
		begin.arrive_and_wait();
		timed(cn, ct, [&] { std::call_once(once, [] { nap(9000); }); });
		timed(gn, gt, [&] { sum += guarded().v; });
		for (int i = 0; i < 15; i++) { timed(an, at, [&] { a.lock(); }); nap(700); a.unlock(); nap(100);
			if (k == 0) { timed(tn, tt, [&] { table.lock(); }); nap(1500); table.unlock(); } else { timed(tn, tt, [&] { table.lock_shared(); }); nap(600); table.unlock_shared(); }
			bool got = false; timed(dn, dt, [&] { got = deep.try_lock_for(2ms); }); if (got) { deep.lock(); deep.unlock(); nap(1500); deep.unlock(); } else timeouts++;
			timed(rn, rt, [&] { phase.arrive_and_wait(); }); }
		std::unique_lock<std::mutex> lock(b); any.wait(lock, stop, [] { return false; }); });
	auto made = std::async(std::launch::async, [] { nap(20000); return 5; }); timed(fn, ft, [&] { sum += made.get(); });
	nap(150000); crowd.clear();
	std::printf("%d phases, sum %d\n", phases, sum.load());
	own("lock:a", an, at); own("lock:table", tn, tt); own("lock:deep", dn, dt); own("once", cn, ct); own("guard", gn, gt); own("future", fn, ft); own("word:barrier", rn, rt); own("timeouts", timeouts, 0);
}
