#include "own.h"
#include <omp.h>
static int fib(int n) { int a, b; if (n < 2) return n; if (n < 18) return fib(n - 1) + fib(n - 2);
	#pragma omp task shared(a)
	a = fib(n - 1);
	#pragma omp task shared(b)
	b = fib(n - 2);
	#pragma omp taskwait
	return a + b; }
int main(void) { int r = 0; long c = 0, n = 0;
	#pragma omp parallel num_threads(4)
	#pragma omp single
	r = fib(32);
	#pragma omp parallel num_threads(4)
	for (int i = 0; i < 20; i++) { long f = now();
		#pragma omp critical
		{ __atomic_fetch_add(&c, now() - f, __ATOMIC_RELAXED); n++; usleep(2000); } }
	printf("%d %ld\n", r, n); own("critical", n, c); return 0; }
