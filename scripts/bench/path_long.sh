#!/usr/bin/env bash
# As many packets as 24 hours of a telephone call have (50 a second: 4,320,000), through tests that keep figures in
# place of packets: resident memory of both ends on the way. Called by scripts/bench.sh.
set -euo pipefail

packets=4320000
[ -z "${BENCH_BRIEF:-}" ] || packets=60000
out="$BENCH_OUT/path_long"
loop=quaver-bench-loop
server=

clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    server=
    ip netns del "$loop" 2>/dev/null || true
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
ip netns del "$loop" 2>/dev/null || true
run ip netns add "$loop"
run ip -n "$loop" link set lo up

# NAME PACKETS/S OPTIONS...: a test with a server of its own, both watched.
watch() {
    local name="$1" rate="$2"
    shift 2
    local serve=(ip netns exec "$loop" taskset -c 1 "$QUAVER_BIN" serve --max-rolling-rate 250000 --stamp 862
        --max-stamp-rate 100000)
    note "${serve[@]}" "&"
    "${serve[@]}" >"$BENCH_SCRATCH/server.txt" 2>&1 &
    server=$!
    sleep 0.5
    run python3 scripts/bench/path_long.py "$out/$name.json" "$server" "$packets" \
        ip netns exec "$loop" taskset -c 0 "$QUAVER_BIN" probe 127.0.0.1 --rate "${rate}pps" --size 80 \
        --count "$packets" --rolling --json-lines --quiet --rtt-probes 1 --output "$BENCH_SCRATCH/runs" "$@"
    kill "$server"
    wait "$server" || true
    server=
    rm -rf "$BENCH_SCRATCH/runs"
}

watch down 72000 --direction down
watch up 72000 --direction up
watch stamp 40000 --stamp 862
