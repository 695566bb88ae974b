#!/usr/bin/env bash
# Sources at one packet a millisecond, one after the other, from one network namespace to another, observed where
# they arrive. Called by scripts/bench.sh. Everybody sends from CPU 0 at normal priority; receivers and observer
# are on CPU 1.
set -euo pipefail

rounds=3 seconds=10 long_seconds=60
[ -z "${BENCH_BRIEF:-}" ] || { rounds=1 seconds=2 long_seconds=2; }
out="$BENCH_OUT/source"
from=quaver-bench-from to=quaver-bench-to
address=198.51.100.2
started=()

remove_namespaces() {
    ip netns del "$from" 2>/dev/null || true
    ip netns del "$to" 2>/dev/null || true
}

stop_started() {
    local process
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    started=()
}

clean_up() {
    stop_started
    remove_namespaces
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# What a killed run may have left.
remove_namespaces
run ip netns add "$from"
run ip netns add "$to"
run ip -n "$from" link add veth0 type veth peer name veth0 netns "$to"
run ip -n "$from" address add 198.51.100.1/24 dev veth0
run ip -n "$to" address add "$address/24" dev veth0
for namespace in "$from" "$to"; do
    run ip -n "$namespace" link set lo up
    run ip -n "$namespace" link set veth0 up
done

receive_with() { # COMMAND...: starts a receiver
    local command=(ip netns exec "$to" taskset -c 1 "$@")
    note "${command[@]}" "&"
    # Started without a function around it, so that $! is the program's own number.
    "${command[@]}" >"$BENCH_SCRATCH/receiver.txt" 2>&1 &
    started+=($!)
    sleep 0.3
}

# NAME ROUND PORT COMMAND...: one sender, observed at the receiving end of the link.
send_with() {
    local name="$1" round="$2" port="$3"
    shift 3
    local observe=(ip netns exec "$to" taskset -c 1 tcpdump -i veth0 -n --time-stamp-precision=nano -s 96 -B 65536
        -w "$BENCH_SCRATCH/observed.pcap" "udp and dst $address and dst port $port")
    note "${observe[@]}" "&"
    "${observe[@]}" 2>"$BENCH_SCRATCH/tcpdump.txt" &
    local observer=$!
    started+=("$observer")
    sleep 0.7
    run timeout -k 5 $((long_seconds + 60)) ip netns exec "$from" taskset -c 0 \
        /usr/bin/time -f "%e %U %S" -o "$BENCH_SCRATCH/cpu.txt" "$@" \
        >"$BENCH_SCRATCH/sender.txt" 2>&1 || echo "bench: $name ended with $?" >&2
    sleep 0.5
    # Bash lets what it starts in the background ignore SIGINT.
    kill "$observer" 2>/dev/null || true
    wait "$observer" || true
    python3 scripts/bench/pcap_schedule.py "$name" "$BENCH_SCRATCH" "$out/$name-$round"
    stop_started
}

quaver_source() { # NAME ROUND SECONDS PACE
    receive_with python3 scripts/bench/drain.py 2670
    send_with "$1" "$2" 2670 "$QUAVER_BIN" source "$address:2670" --period 1ms --size 200 --for "$3s" --pace "$4" \
        --json --quiet
}

iperf2() { # ROUND
    receive_with iperf -s -u
    send_with iperf2 "$1" 5001 iperf -c "$address" -u -b 1000pps -l 200 -t "$seconds"
}

sockperf_throughput() { # ROUND
    receive_with sockperf server -i "$address"
    send_with sockperf "$1" 11111 sockperf throughput -i "$address" --mps 1000 -m 200 -t "$seconds" --dontwarmup
}

irtt_busy() { # ROUND
    receive_with irtt server -i 1ms -d 10m
    send_with irtt "$1" 2112 irtt client -i 1ms -d "${seconds}s" -l 200 --timer=busy --tstamp=none --stats=none -q \
        "$address"
}

have() {
    command -v "$1" >/dev/null && return 0
    echo "$1 is not installed and could not be measured" | tee -a "$out/missing.txt" >&2
    return 1
}

for program in ip taskset tcpdump python3 /usr/bin/time; do
    have "$program" || exit 3
done
for round in $(seq "$rounds"); do
    # Each comes in each place in turn.
    for place in 0 1 2 3 4; do
        case $(((round + place) % 5)) in
        0) quaver_source quaver-spin "$round" "$seconds" spin ;;
        1) if have iperf; then iperf2 "$round"; fi ;;
        2) quaver_source quaver-hybrid "$round" "$seconds" hybrid ;;
        3) if have sockperf; then sockperf_throughput "$round"; fi ;;
        4) if have irtt; then irtt_busy "$round"; fi ;;
        esac
    done
done
quaver_source slope-spin 1 "$long_seconds" spin
quaver_source slope-hybrid 1 "$long_seconds" hybrid
