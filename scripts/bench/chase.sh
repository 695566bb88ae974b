#!/usr/bin/env bash
# Three chases of a stream at 7.41 us. Called by scripts/bench.sh.
set -euo pipefail

length=10s
[ -z "${BENCH_BRIEF:-}" ] || length=1s
for round in 1 2 3; do
    run "$QUAVER_BIN" chase --for "$length" --period 7.41us --json --quiet --output "$BENCH_SCRATCH/runs" \
        >"$BENCH_OUT/chase/summary-$round.json"
    rm -rf "$BENCH_SCRATCH/runs"
done
