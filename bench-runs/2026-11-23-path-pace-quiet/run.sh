#!/usr/bin/env bash
# Senders at 500,000 and 2,000,000 packets a second, CPU time at equal rates, and one packet a millisecond, beside peers.
# usage: QUAVER_BIN=... bench-runs/2026-11-23-path-pace-quiet/run.sh [PART...], as root. Parts: rate trains equal pace.
set -euo pipefail
cd "$(dirname "$0")/../.."
export BENCH_SCRATCH
BENCH_SCRATCH=$(mktemp -d)
out=bench-runs/2026-11-23-path-pace-quiet/data long_seconds=10 seconds=2
mkdir -p "$out"
note() { printf '%q ' "$@" >>"$out/commands.txt"; echo >>"$out/commands.txt"; }
run() { note "$@"; "$@"; }
. scripts/bench/link.sh
loop=quaver-bench-loop
remove_loop() { ip netns del "$loop" 2>/dev/null || true; }
trap 'clean_up; remove_loop; rm -rf "$BENCH_SCRATCH"' EXIT
remove_loop
run ip netns add "$loop"
run ip -n "$loop" link set lo up

serve_in_loop() {
    ip netns exec "$loop" taskset -c 1 "$@" >"$BENCH_SCRATCH/server.txt" 2>&1 &
    started+=($!)
    sleep 0.5
}
cpu_seconds() {
    awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13 + $14 + $15) / tick }' "/proc/$1/stat"
}
# NAME ROUND COMMAND...: the client of the server that was started; counted by the namespace's own counters.
load_with() {
    local name="$1" round="$2" server="${started[-1]}"
    shift 2
    ip netns exec "$loop" cat /proc/net/snmp >"$BENCH_SCRATCH/snmp-before.txt"
    run timeout -k 5 90 ip netns exec "$loop" taskset -c 0 bash -c 'TIMEFORMAT="%R %U %S"; time "$@"' _ "$@" \
        >"$BENCH_SCRATCH/client.txt" 2>"$BENCH_SCRATCH/client-errors.txt" ||
        echo "$name ended with $?: $(tail -n 2 "$BENCH_SCRATCH/client-errors.txt" | head -c 300)" >&2
    tail -n 1 "$BENCH_SCRATCH/client-errors.txt" >"$BENCH_SCRATCH/client-cpu.txt"
    cpu_seconds "$server" >"$BENCH_SCRATCH/server-cpu.txt"
    ip netns exec "$loop" cat /proc/net/snmp >"$BENCH_SCRATCH/snmp-after.txt"
    stop_started
    python3 bench-runs/2026-11-23-path-pace-quiet/load.py "$name" "$round" "$BENCH_SCRATCH" >>"$out/loads.jsonl"
    tail -n 1 "$out/loads.jsonl" | cut -c1-400
}
quaver_at() { # NAME ROUND OPTIONS...
    local name="$1" round="$2"
    shift 2
    serve_in_loop "$QUAVER_BIN" serve --bind 127.0.0.1 --max-rate 3000000
    load_with "$name" "$round" "$QUAVER_BIN" probe 127.0.0.1 --size 80 --direction up --rtt-probes 1 --json --quiet \
        --output "$BENCH_SCRATCH/runs" "$@"
    rm -rf "$BENCH_SCRATCH/runs"
}
iperf2_at() { serve_in_loop iperf -s -u; load_with "$1" "$2" iperf -c 127.0.0.1 -u -b "$3"pps -l 80 -t "$4"; }
iperf3_at() { serve_in_loop iperf3 -s; load_with "$1" "$2" iperf3 -c 127.0.0.1 -u -b $(($3 * 640)) -l 80 -t "$4" -J; }

part_rate() {
    for round in 1 2 3 4 5; do
        quaver_at rate-quaver "$round" --rate 500kpps --for 10s
        iperf2_at rate-iperf2 "$round" 500000 4
        iperf3_at rate-iperf3 "$round" 500000 4
    done
}
part_trains() {
    for round in 1 2 3; do quaver_at trains-quaver "$round" --rate 2Mpps --train 64 --for 2s; done
}
part_equal() {
    for round in 1 2 3; do
        quaver_at equal-quaver "$round" --rate 100kpps --for 4s
        iperf2_at equal-iperf2 "$round" 100000 4
        quaver_at equal-quaver-sleep "$round" --rate 100kpps --for 4s --pace sleep
    done
}
observe() { # NAME ROUND PORT COMMAND...
    local name="$1" round="$2" port="$3"
    shift 3
    send_with "pace-$name" "$round" "$port" "$@" || echo "$name: no result" >&2
}
part_pace() {
    for round in $(seq 9); do
        receive_with "$QUAVER_BIN" serve
        observe quaver "$round" 2667 "$QUAVER_BIN" probe "$address" --period 1ms --size 200 --for 3s --direction up \
            --rtt-probes 1 --json --quiet --output "$BENCH_SCRATCH/runs"
        rm -rf "$BENCH_SCRATCH/runs"
        receive_with irtt server -i 1ms -d 10m
        observe irtt "$round" 2112 irtt client -i 1ms -d 3s -l 200 --timer=busy -q "$address"
        receive_with iperf -s -u
        observe iperf2 "$round" 5001 iperf -c "$address" -u -b 1000pps -l 200 -t 3
        receive_with sockperf server -i "$address"
        observe sockperf "$round" 11111 sockperf throughput -i "$address" --mps 1000 -m 200 -t 3 --dontwarmup
    done
}
cat /proc/loadavg >>"$out/loadavg.txt"
for part in "${@:-rate trains equal pace}"; do for one in $part; do "part_$one"; done; done
cat /proc/loadavg >>"$out/loadavg.txt"
