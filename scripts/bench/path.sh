#!/usr/bin/env bash
# The path: 200,000 packets a second over loopback beside peers, how well probes keep to one packet a millisecond, and
# a test under a thousand hostile connections. Called by scripts/bench.sh.
set -euo pipefail

rounds=3 seconds=10 blocks=6 block_seconds=5
[ -z "${BENCH_BRIEF:-}" ] || { rounds=1 seconds=2 blocks=1 block_seconds=3; }
long_seconds=$seconds
out="$BENCH_OUT/path"
loop=quaver-bench-loop
. scripts/bench/link.sh

remove_loop() {
    ip netns del "$loop" 2>/dev/null || true
}
trap 'clean_up; remove_loop' EXIT
remove_loop
run ip netns add "$loop"
run ip -n "$loop" link set lo up

in_loop() { # CPU COMMAND...: runs in the namespace that has loopback only
    ip netns exec "$loop" taskset -c "$1" "${@:2}"
}

serve_in_loop() { # COMMAND...: starts a server on CPU 1; its number is ${started[-1]}
    local command=(ip netns exec "$loop" taskset -c 1 "$@")
    note "${command[@]}" "&"
    "${command[@]}" >"$BENCH_SCRATCH/server.txt" 2>&1 &
    started+=($!)
    sleep 0.5
}

cpu_seconds() { # PID: of the process and its children that have ended
    awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13 + $14 + $15) / tick }' "/proc/$1/stat"
}

# NAME ROUND COMMAND...: the client of the server that was started; judged by the kernel's counters.
load_with() {
    local name="$1" round="$2" server="${started[-1]}"
    shift 2
    in_loop 1 cat /proc/net/snmp >"$BENCH_SCRATCH/snmp-before.txt"
    run timeout -k 5 $((seconds * 4 + 60)) ip netns exec "$loop" taskset -c 0 \
        /usr/bin/time -f "%e %U %S" -o "$BENCH_SCRATCH/client-cpu.txt" "$@" \
        >"$BENCH_SCRATCH/client.txt" 2>"$BENCH_SCRATCH/client-errors.txt" || {
        echo "bench: $name ended with $?: $(tail -n 3 "$BENCH_SCRATCH/client-errors.txt")" >&2
        stop_started
        return 1
    }
    cpu_seconds "$server" >"$BENCH_SCRATCH/server-cpu.txt"
    in_loop 1 cat /proc/net/snmp >"$BENCH_SCRATCH/snmp-after.txt"
    stop_started
    python3 scripts/bench/path_load.py "$name" "$BENCH_SCRATCH" "$out/load-$name-$round.json"
}

load_quaver() {
    serve_in_loop "$QUAVER_BIN" serve
    load_with quaver "$1" "$QUAVER_BIN" probe 127.0.0.1 --period 5us --size 80 --for "${seconds}s" --direction up \
        --rtt-probes 1 --json --quiet --output "$BENCH_SCRATCH/runs"
    rm -rf "$BENCH_SCRATCH/runs"
}

load_iperf2() {
    serve_in_loop iperf -s -u
    load_with iperf2 "$1" iperf -c 127.0.0.1 -u -b 200000pps -l 80 -t "$seconds"
}

load_iperf3() {
    serve_in_loop iperf3 -s
    load_with iperf3 "$1" iperf3 -c 127.0.0.1 -u -b 128M -l 80 -t "$seconds" -J
}

load_sockperf() {
    serve_in_loop sockperf server -i 127.0.0.1
    load_with sockperf "$1" sockperf throughput -i 127.0.0.1 --mps 200000 -m 80 -t "$seconds" --dontwarmup
}

load_irtt() {
    serve_in_loop irtt server -i 1us -d 10m
    load_with irtt "$1" irtt client -i 5us -d "${seconds}s" -l 80 -q 127.0.0.1
}

load_owping() {
    serve_in_loop owampd -Z -S 127.0.0.1 -U nobody -G nogroup
    load_with owping "$1" owping -c $((seconds * 200000)) -i 0.000005f -s 66 -t 127.0.0.1
}

# Probes at one packet a millisecond, observed where they arrive.
pace_quaver() {
    receive_with "$QUAVER_BIN" serve
    send_with pace-quaver "$1" 2667 "$QUAVER_BIN" probe "$address" --period 1ms --size 200 --for "${seconds}s" \
        --direction up --rtt-probes 1 --json --quiet --output "$BENCH_SCRATCH/runs"
    rm -rf "$BENCH_SCRATCH/runs"
}

pace_iperf2() {
    receive_with iperf -s -u
    send_with pace-iperf2 "$1" 5001 iperf -c "$address" -u -b 1000pps -l 200 -t "$seconds"
}

pace_iperf3() {
    receive_with iperf3 -s
    send_with pace-iperf3 "$1" 5201 iperf3 -c "$address" -u -b 1600k -l 200 -t "$seconds"
}

pace_sockperf() {
    receive_with sockperf server -i "$address"
    send_with pace-sockperf "$1" 11111 sockperf throughput -i "$address" --mps 1000 -m 200 -t "$seconds" --dontwarmup
}

pace_irtt() {
    receive_with irtt server -i 1ms -d 10m
    send_with pace-irtt "$1" 2112 irtt client -i 1ms -d "${seconds}s" -l 200 -q "$address"
}

# KIND ROUND: a test of 5 s, beside it nothing (quiet), a thousand hostile connections to another server (elsewhere),
# or to the same (here). What the hostile program itself costs is in the last two kinds alike.
hostile_block() {
    local kind="$1" round="$2" port=2666
    serve_in_loop "$QUAVER_BIN" serve --bind 127.0.0.1
    serve_in_loop "$QUAVER_BIN" serve --bind 127.0.0.1 --port 2766 --test-port 2767
    [ "$kind" != elsewhere ] || port=2766
    local probe=(ip netns exec "$loop" taskset -c 0 "$QUAVER_BIN" probe 127.0.0.1 --period 1ms --size 80
        --for "${block_seconds}s" --direction up --rtt-probes 1 --json --quiet --output "$BENCH_SCRATCH/runs")
    note "${probe[@]}" "&"
    "${probe[@]}" >"$out/hostile-$kind-$round.json" &
    local probing=$!
    started+=("$probing")
    sleep 1
    if [ "$kind" != quiet ]; then
        run ip netns exec "$loop" taskset -c 1 python3 scripts/bench/hostile.py 127.0.0.1 "$port" 1000 \
            $((block_seconds - 2)) >"$out/opened-$kind-$round.json"
    fi
    wait "$probing" || echo "bench: the probe ended with $?" >&2
    stop_started
    rm -rf "$BENCH_SCRATCH/runs"
}

for program in ip taskset tcpdump python3 /usr/bin/time; do
    have "$program" || exit 3
done
for round in $(seq "$rounds"); do
    # Each comes in each place in turn.
    for place in 0 1 2 3 4 5; do
        case $(((round + place) % 6)) in
        0) load_quaver "$round" && pace_quaver "$round" || exit 1 ;;
        1) if have iperf; then load_iperf2 "$round" && pace_iperf2 "$round"; fi ;;
        2) if have iperf3; then load_iperf3 "$round" && pace_iperf3 "$round"; fi ;;
        3) if have sockperf; then load_sockperf "$round" && pace_sockperf "$round"; fi ;;
        4) if have irtt; then load_irtt "$round" && pace_irtt "$round"; fi ;;
        5) if have owping && have owampd; then load_owping "$round"; fi ;;
        esac
    done
done
for round in $(seq "$blocks"); do
    for place in 0 1 2; do
        case $(((round + place) % 3)) in
        0) hostile_block quiet "$round" ;;
        1) hostile_block elsewhere "$round" ;;
        2) hostile_block here "$round" ;;
        esac
    done
done
