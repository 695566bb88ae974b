#include "own.h"
#include <tbb/tbb.h>
int main() { tbb::global_control g(tbb::global_control::max_allowed_parallelism, 4); long s = tbb::parallel_reduce(tbb::blocked_range<long>(0, 40000000, 1000), 0L, [](auto &r, long a) { for (long i = r.begin(); i < r.end(); i++) a += i % 7; return a; }, std::plus<>());
	tbb::concurrent_bounded_queue<int> q; q.set_capacity(4); long ns = 0, n = 0; std::thread p([&] { for (int i = 0; i < 100; i++) { usleep(1000); q.push(i); } }); int v, t = 0; for (int i = 0; i < 100; i++) { long f = now(); q.pop(v); ns += now() - f; n++; t += v; } p.join();
	printf("%ld %d\n", s, t); own("bounded queue pop", n, ns); }
