#include "own.h"
#include <omp.h>
/* OpenMP: critical, ordered, tasks with dependences, taskloop, locks (simple and nested), single, reduction, cancel. */
static long cn, ct, on, ot, ln, lt; static int sum; static void work(void) { nap(800); }
int main(void) { omp_lock_t l; omp_nest_lock_t d; omp_init_lock(&l); omp_init_nest_lock(&d); omp_set_num_threads(3);
	#pragma omp parallel
	{ for (int i = 0; i < 20; i++) { long f = now();
		#pragma omp critical(table)
		{ __atomic_fetch_add(&ct, now() - f, __ATOMIC_RELAXED); cn++; sum++; work(); }
		f = now(); omp_set_lock(&l); __atomic_fetch_add(&lt, now() - f, __ATOMIC_RELAXED); ln++; work(); omp_unset_lock(&l); omp_set_nest_lock(&d); omp_set_nest_lock(&d); sum++; omp_unset_nest_lock(&d); omp_unset_nest_lock(&d); }
	#pragma omp for ordered schedule(static, 1)
	for (int i = 0; i < 30; i++) { nap(300); long f = now();
		#pragma omp ordered
		{ __atomic_fetch_add(&ot, now() - f, __ATOMIC_RELAXED); on++; sum += i; nap(500); } }
	#pragma omp single
	{
		#pragma omp taskloop grainsize(2) reduction(+: sum)
		for (int i = 0; i < 20; i++) { nap(400); sum += i; }
		int x = 0;
		for (int i = 0; i < 10; i++) {
			#pragma omp task depend(inout: x)
			{ nap(300); x++; } }
		#pragma omp taskwait
		sum += x; } }
	printf("%d\n", sum); own("word:critical", cn, ct); own("word:ordered", on, ot); own("word:lock", ln, lt); return 0; }
