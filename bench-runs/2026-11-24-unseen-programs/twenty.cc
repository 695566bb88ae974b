// C++20: latch, barrier with a completion, counting_semaphore, jthread with stop token, condition_variable_any, shared_mutex, future, call_once.
#include "own.h"
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>
#include <vector>
using namespace std::chrono_literals;
static long latch_ns, latch_n, bar_ns, bar_n, sem_ns, sem_n, shared_ns, shared_n, fut_ns, fut_n, any_ns, any_n;
#define T(a, b, call) do { long f_ = now(); call; __atomic_fetch_add(&a, now() - f_, __ATOMIC_RELAXED); __atomic_fetch_add(&b, 1, __ATOMIC_RELAXED); } while (0)
std::shared_mutex wide; std::counting_semaphore<4> slots(2);
int main() {
	std::latch start(4); int phases = 0; std::barrier meet(4, [&]() noexcept { phases++; });
	{ std::vector<std::jthread> all; for (int i = 0; i < 4; i++) all.emplace_back([&, i] {
		std::this_thread::sleep_for(10ms * i); T(latch_ns, latch_n, start.arrive_and_wait());
		for (int k = 0; k < 20; k++) { std::this_thread::sleep_for(1ms * (i + 1)); T(bar_ns, bar_n, meet.arrive_and_wait()); }
		for (int k = 0; k < 10; k++) { T(sem_ns, sem_n, slots.acquire()); std::this_thread::sleep_for(3ms); slots.release(); }
		for (int k = 0; k < 10; k++) if (i) { T(shared_ns, shared_n, wide.lock_shared()); std::this_thread::sleep_for(2ms); wide.unlock_shared(); } else { T(shared_ns, shared_n, wide.lock()); std::this_thread::sleep_for(4ms); wide.unlock(); } }); }
	std::mutex m; std::condition_variable_any c; std::jthread stopped([&](std::stop_token t) { std::unique_lock l(m); T(any_ns, any_n, c.wait(l, t, [] { return false; })); });
	std::this_thread::sleep_for(25ms); stopped.request_stop(); stopped.join();
	auto f = std::async(std::launch::async, [] { std::this_thread::sleep_for(15ms); return 42; }); int got; T(fut_ns, fut_n, got = f.get());
	printf("%d %d\n", phases, got); own("latch", latch_n, latch_ns); own("barrier", bar_n, bar_ns); own("semaphore", sem_n, sem_ns); own("shared_mutex", shared_n, shared_ns); own("cv_any stop", any_n, any_ns); own("future", fut_n, fut_ns); return 9; }
