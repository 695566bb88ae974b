#!/bin/sh
# The programs of this run, below build/. usage: make.sh
set -e
mkdir -p build
for one in c11 writers timed robustpi ceiling spin barrier semfork shmcond once events signals dl execs cancel short300 unmap smallstack deadlock many jail atfork chan hang forkheld cost; do
	cc -g -O1 -w -pthread -o build/$one $one.c -lrt -ldl
done
cc -g -O1 -w -shared -fPIC -pthread -o build/dl-lib.so dl-lib.c
cc -g -O1 -w -static -pthread -o build/static static.c
sed "s/#include <stdatomic.h>//" own.h >own_cc.h
c++ -std=c++20 -g -O1 -w -pthread -o build/cpp20 cpp20.cc
gcc -g -O2 -w -fopenmp -o build/omp-gomp omp.c
go build -o build/conds conds.go
javac -d build Locks.java
mkdir -p rs/src; cp rust.toml rs/Cargo.toml; cp rust.rs rs/src/main.rs
cargo build --quiet --release --manifest-path rs/Cargo.toml --target-dir build/rs
cp build/rs/release/rs build/rust
