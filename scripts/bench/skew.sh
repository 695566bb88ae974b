#!/usr/bin/env bash
# Skew of two clocks over real sockets: 60 s of packets through the impairment relay, which shows the sender's clock fast
# or slow and lets them wait at a busy link. Several at a time, each with a seed, a server and a relay of its own.
# Called by scripts/bench.sh.
set -euo pipefail

seeds=(1 2 3 4) seconds=60
[ -z "${BENCH_BRIEF:-}" ] || { seeds=(1) seconds=5; }
out="$BENCH_OUT/skew"
relay="${QUAVER_BIN%/*}/relay"
if [ ! -x "$relay" ]; then
    echo "skew.sh: no relay beside $QUAVER_BIN: cargo build --release --package quaver-testbed --bin relay" >&2
    exit 3
fi
started=()

stop_started() {
    local process
    for process in "${started[@]}"; do
        kill -INT "$process" 2>/dev/null || true
    done
    for process in "${started[@]}"; do
        wait "$process" 2>/dev/null || true
    done
    started=()
}
trap stop_started EXIT
trap 'exit 130' INT TERM HUP

probes=()
for seed in "${seeds[@]}"; do
    script="$out/seed-$seed.toml"
    {
        echo "seed = $seed"
        for way in up:50.0 down:-50.0; do
            echo "[[${way%%:*}]]"
            echo 'delay = { queue = { drain = "20ms", load = 0.9, shape = 1.5, most = "1s" } }'
            echo "clock = { rate_ppm = ${way##*:} }"
        done
    } >"$script"
    server=$((31000 + 10 * seed))
    # Numbers of background programs as they are, for Ctrl-C is how a relay is ended and told to count.
    set -m
    note "$QUAVER_BIN" serve --bind 127.0.0.1 --port "$server" --test-port $((server + 1)) "&"
    "$QUAVER_BIN" serve --bind 127.0.0.1 --port "$server" --test-port $((server + 1)) 2>/dev/null &
    started+=($!)
    note "$relay" "127.0.0.1:$server" --server-test-port $((server + 1)) --control-port $((server + 2)) \
        --test-port $((server + 3)) --script "$script" "&"
    "$relay" "127.0.0.1:$server" --server-test-port $((server + 1)) --control-port $((server + 2)) \
        --test-port $((server + 3)) --script "$script" >"$out/relay-$seed.txt" 2>/dev/null &
    started+=($!)
    set +m
done
sleep 1
for seed in "${seeds[@]}"; do
    probe=("$QUAVER_BIN" probe 127.0.0.1 --port $((31000 + 10 * seed + 2)) --period 20ms --for "${seconds}s" --json
        --quiet --output "$BENCH_SCRATCH/runs-$seed")
    note "${probe[@]}" "&"
    "${probe[@]}" >"$out/probe-$seed.json" &
    probes+=($!)
done
for probe in "${probes[@]}"; do
    wait "$probe" || echo "skew.sh: a probe ended with $?" >&2
done
