#!/usr/bin/env bash
# The sink against bare receive loops, three times. Called by scripts/bench.sh.
set -euo pipefail

blocks=100
[ -z "${BENCH_BRIEF:-}" ] || blocks=4
for round in 1 2 3; do
    run "$QUAVER_EXAMPLES/sink_cost" "$blocks" >"$BENCH_OUT/sink/cost-$round.json"
done
