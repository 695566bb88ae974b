#!/usr/bin/env bash
# Runs a fuzzer without cargo-fuzz, which does the same: needs nightly Rust and a C++ compiler.
# usage: fuzz/run.sh TARGET [SECONDS [SEEDS...]]      SEEDS: directories of inputs to begin with
# What it finds is kept in fuzz/artifacts/TARGET, what it learnt in fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "$0")"

target="${1:?usage: run.sh TARGET [SECONDS [SEEDS...]]}" seconds="${2:-600}"
shift $(($# < 2 ? $# : 2))
features="$(sed -n "/^name = \"$target\"/,/^\$/s/^required-features = \[\(.*\)\]/\1/p" Cargo.toml | tr -d '" ')"
host="$(rustc +nightly -vV | sed -n 's/^host: //p')"
# As libFuzzer wants it: edges counted, compared values told, memory errors found.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS="--cfg fuzzing $coverage -Zsanitizer=address -Ccodegen-units=1" \
    cargo +nightly build --release --locked --features "$features" --bin "$target" --target "$host"
mkdir -p "corpus/$target" "artifacts/$target"
exec nice -n 19 "${CARGO_TARGET_DIR:-target}/$host/release/$target" "corpus/$target" "$@" -max_total_time="$seconds" \
    -max_len=4096 -timeout=20 -rss_limit_mb=2048 -artifact_prefix="artifacts/$target/" -print_final_stats=1
