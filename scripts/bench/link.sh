# Two network namespaces with a link between them, and senders observed where they arrive. To be sourced, after `out`
# (directory of the results) and `long_seconds` (longest run) are set. Senders are on CPU 0, receivers and observer on
# CPU 1, everybody at normal priority.

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

have() {
    command -v "$1" >/dev/null && return 0
    echo "$1 is not installed and could not be measured" | tee -a "$out/missing.txt" >&2
    return 1
}
