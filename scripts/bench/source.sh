#!/usr/bin/env bash
# Sources at one packet a millisecond, one after the other, from one network namespace to another, observed where
# they arrive. Called by scripts/bench.sh. Everybody sends from CPU 0 at normal priority; receivers and observer
# are on CPU 1.
set -euo pipefail

rounds=3 seconds=10 long_seconds=60
[ -z "${BENCH_BRIEF:-}" ] || { rounds=1 seconds=2 long_seconds=2; }
out="$BENCH_OUT/source"
. scripts/bench/link.sh

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
