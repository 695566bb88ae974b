#!/usr/bin/env bash
# Stamps and captures: what a stamp costs, the comparison of ways to stamp, the clock's bound, how fast captures are written
# and read, and 200,000 packets a second through `quaver capture` beside dumpcap and tcpdump. Called by scripts/bench.sh;
# takes a quarter of an hour.
set -euo pipefail

# Three runs of pattern 2 are judged: two on their own, and that of the whole comparison.
rounds=3 load_rounds=2 seconds=10 sizes="64 512 1500" bound_seconds=60 compare="" stamps=2001 passes=31
[ -z "${BENCH_BRIEF:-}" ] || { rounds=1 load_rounds=1 seconds=2 sizes="64 1500" bound_seconds=3 compare=--quick stamps=51 passes=3; }
long_seconds=$seconds
out="$BENCH_OUT/capture"

for round in $(seq "$rounds"); do
    run taskset -c 1 "$QUAVER_EXAMPLES/pipeline_cost" "$stamps" >"$out/stamps-$round.txt"
    [ "$round" -lt 3 ] || continue
    # shellcheck disable=SC2086 # one word or none
    run "$QUAVER_BIN" capture --compare $compare --pattern 2 --no-loss --quiet --json --runs "$BENCH_SCRATCH/runs" \
        >"$out/compare-pattern2-$round.json"
done
# All patterns, figure 6 with 20,000 packets a point, and other programs on the same streams.
# shellcheck disable=SC2086 # one word or none
run "$QUAVER_BIN" capture --compare $compare --quiet --json --runs "$BENCH_SCRATCH/runs" >"$out/compare-all.json"
run "$QUAVER_EXAMPLES/clock_bound" "$bound_seconds" >"$out/clock-bound.json"
run "$QUAVER_EXAMPLES/pcapng_speed" "$passes" >"$out/pcapng-speed.json"
rm -rf "$BENCH_SCRATCH/runs"

. scripts/bench/link.sh

# NAME ROUND SIZE COMMAND...: a capture of the stream from the other namespace, which is made anew for each.
capture_with() {
    local name="$1" round="$2" size="$3"
    shift 3
    receive_with python3 scripts/bench/capture_watch.py "$BENCH_SCRATCH/watched.json" "$@"
    local watcher="${started[-1]}"
    sleep 0.7
    # Ethernet, IPv4 and UDP headers take 42 octets of a packet; our own need 32 more.
    local payload=$((size - 42 < 32 ? 32 : size - 42))
    run timeout -k 5 $((seconds + 60)) ip netns exec "$from" "$QUAVER_BIN" source "$address:2680" --period 5us \
        --size "$payload" --for "${seconds}s" --pace spin --catch-up --cpu 0 --json \
        >"$BENCH_SCRATCH/source.json" || echo "bench: the source ended with $?" >&2
    # tcpdump looks at what lies in its buffer after a second at the latest, and drops it uncounted at an interruption.
    sleep 1.5
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" || true
    started=()
    python3 scripts/bench/capture_judge.py "$name" "$size" "$seconds" "$BENCH_SCRATCH" \
        "$out/load-$name-$size-$round.json"
    rm -rf "$BENCH_SCRATCH/runs" "$BENCH_SCRATCH"/captured.*
}

load_quaver() {
    capture_with quaver "$1" "$2" "$QUAVER_BIN" capture -i veth0 -o "$BENCH_SCRATCH/captured.pcapng" -s 128 \
        --layers none --json --quiet udp port 2680
}

load_layers() {
    capture_with layers "$1" "$2" "$QUAVER_BIN" capture -i veth0 -o "$BENCH_SCRATCH/captured.pcapng" -s 128 \
        --layers auto --json --quiet udp port 2680
}

# Each packet by itself: a wake-up and a stamp for each.
load_immediate() {
    capture_with immediate "$1" "$2" "$QUAVER_BIN" capture -i veth0 -o "$BENCH_SCRATCH/captured.pcapng" -s 128 \
        --layers none --immediate --json --quiet udp port 2680
}

load_dumpcap() {
    have dumpcap || return 0
    capture_with dumpcap "$1" "$2" dumpcap -i veth0 -w "$BENCH_SCRATCH/captured.pcapng" -s 128 -B 64 -q \
        -f "udp port 2680"
}

load_tcpdump() {
    have tcpdump || return 0
    capture_with tcpdump "$1" "$2" tcpdump -i veth0 -n --time-stamp-precision=nano -s 128 -B 65536 \
        -w "$BENCH_SCRATCH/captured.pcap" "udp port 2680"
}

# Somebody has to own the port, or each packet would be answered by an error message; nobody reads.
receive_with python3 -c "import socket, time
holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
holder.bind(('', 2680))
time.sleep(86400)"
drain="${started[-1]}"
started=()
trap 'kill "$drain" 2>/dev/null || true; clean_up' EXIT
programs=(quaver layers immediate dumpcap tcpdump)
for round in $(seq "$load_rounds"); do
    for size in $sizes; do
        # Another one first each time, so that what changes on the machine hits all alike.
        programs=("${programs[@]:1}" "${programs[0]}")
        for name in "${programs[@]}"; do
            # What a wake-up costs does not depend on the size.
            [ "$name" != immediate ] || [ "$size" = "${sizes%% *}" ] || continue
            "load_$name" "$round" "$size"
        done
    done
done
