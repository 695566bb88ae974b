#!/bin/sh
# Builds the programs, and runs each bare and under $QUAVER.
set -e
# The clock and `gain` are those of another entry.
words=../2026-11-28-unseen-words
gcc -I$words -O1 -g -pthread -o ta ta.c -lrt
gcc -I$words -O1 -g -fopenmp -pthread -o gain $words/gain.c
gcc -I$words -O1 -g -pthread -o outs outs.c
g++ -I$words -std=c++20 -O1 -g -pthread -o tb tb.cc
rustc -O -g --edition 2021 -o rs rs.rs
go build -o conds conds.go
javac J.java
for m in bar2 baralt upg semg mpred pool over pipe eventfd sockpair signalfd chain sem3 cmut stk ring pin rec tmo lazy t300 churn endwait \
	endkill endabrt end_exit endpthread forkmid daemon stop timer aio mq prshbar; do python3 ex.py ./ta $m; done
for m in scoped stop sems latch bar2 async upg timed wait; do python3 ex.py ./tb $m; done
for m in park rendez cvpred upg bar2 endwait panic; do python3 ex.py ./rs $m; done
for m in chan select rw; do python3 ex.py ./conds $m; done
for m in gil queue bar pool lock; do python3 ex.py python3 P.py $m; done
for m in sync fj exch; do python3 ex.py java J $m; done
