#!/usr/bin/env bash
# Analyses a made-up run of ten million packets and as many events, three times. Called by scripts/bench.sh.
set -euo pipefail

rows=10000000
[ -z "${BENCH_BRIEF:-}" ] || rows=100000
made="$(run "$QUAVER_EXAMPLES/big_run" "$BENCH_SCRATCH/big" "$rows")"
for round in 1 2 3; do
    run /usr/bin/time -v -o "$BENCH_OUT/analysis/time-$round.txt" "$QUAVER_BIN" analyze "$made" \
        >"$BENCH_OUT/analysis/page.txt"
    # The command line names a directory of this machine only.
    sed -i '/Command being timed/d' "$BENCH_OUT/analysis/time-$round.txt"
done
sed -i "s|$BENCH_SCRATCH/||g" "$BENCH_OUT/analysis/page.txt"
stat -c '%n %s' "$made"/* | sed 's|.*/||' >"$BENCH_OUT/analysis/files.txt"
cp "$made/summary.json" "$BENCH_OUT/analysis/summary.json"
# All of it, where it is long.
[ ! -f "$made/details.json" ] || cp "$made/details.json" "$BENCH_OUT/analysis/summary.json"
