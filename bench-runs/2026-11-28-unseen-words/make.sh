#!/bin/sh
# Builds the programs, and runs each with QUAVER=$1: one JSON object a line.
set -e
for one in fx omp cx dead gain; do gcc -O1 -g -fopenmp -pthread -o $one $one.c; done
g++ -std=c++20 -O1 -g -pthread -o cpp cpp.cc
for one in r1 dead_rs:dead gainr; do rustc -O -g --edition 2021 -o ${one%:*} ${one#*:}.rs; done
for mode in rwlock condvar cvtimeout mpsc once barrier chain trylock; do python3 run.py "$1" ./r1 $mode; done
for mode in bitset requeue ownlock pi waitv futex2 wakeop timeouts procs; do python3 run.py "$1" ./fx $mode; done
for mode in static dyn tasks taskwait crit nest serial single ordered; do
	python3 run.py "$1" --env OMP_WAIT_POLICY=passive ./omp $mode
done
for mode in spin serial crit; do python3 run.py "$1" --env OMP_WAIT_POLICY=active ./omp $mode; done
for mode in c11 cnd11 semclock clocklock piclock pim rob condclock once stdio; do python3 run.py "$1" ./cx $mode; done
for mode in pools wait32 wait64 meet fut shared sem; do python3 run.py "$1" ./cpp $mode; done
for mode in two busy own lost never chan idle held barrier; do python3 run.py "$1" --int 1.5 ./dead_rs $mode; done
for mode in sems barrier cond mix; do python3 run.py "$1" --int 1.5 ./dead $mode; done
