#!/usr/bin/env bash
# The simulator: its speed on each bundled trace, how large the traces are, tools of Valgrind on the same programs in the same
# run, and miss counts beside cachegrind's. Called by scripts/bench.sh. About nine minutes.
#   QUAVER_TRACES   directory of the bundled traces [simulator/sim/traces]
set -euo pipefail

rounds=5 peer_rounds=3 peers=("ocean -n256" "radix -n1000000" "water-nsquared -n343") checked=(ocean lu radix)
sized=(barnes fmm lu ocean radix raytrace water-nsquared water-spatial)
[ -z "${BENCH_BRIEF:-}" ] || { rounds=2 peer_rounds=1 peers=("ocean -n32") checked=(ocean) sized=(lu ocean); }
out="$BENCH_OUT/sim"
traces="${QUAVER_TRACES:-simulator/sim/traces}"
kernels="$BENCH_SCRATCH/kernels"
QUAVER_LIBDIR="${QUAVER_LIBDIR:-${QUAVER_BIN%/*}}"
export QUAVER_LIBDIR
make --no-print-directory --silent -C kernels OUT="$kernels"
# As `quaver sync bench` does, so that the traces of both are of the same programs.
small="$(awk -F '|' '/^\| [a-z0-9-]+ \|/ && $5 ~ /[0-9]/ { gsub(/ /, ""); print $2, $5 }' kernels/README.md)"
size_of() {
    awk -v name="$1" '$1 == name { print $2 }' <<<"$small"
}

{
    echo "quaver $("$QUAVER_BIN" --version | awk '{ print $2 }')"
    valgrind --version
    qemu-x86_64 --version 2>/dev/null | head -n 1 || echo "no qemu-x86_64"
} >"$out/versions.txt"

files=("$traces"/*.qtrace*)
[ -e "${files[0]}" ] || {
    echo "sim.sh: there are no traces in $traces" >&2
    exit 3
}
echo "bench: ${#files[@]} traces, $rounds rounds"
echo "round trace instructions elapsed_ns octets threads" >"$out/speed.txt"
for round in $(seq "$rounds"); do
    for file in "${files[@]}"; do
        rm -rf "$BENCH_SCRATCH/runs"
        run "$QUAVER_BIN" sim run "$file" --quiet --json --output "$BENCH_SCRATCH/runs" >"$BENCH_SCRATCH/summary.json"
        python3 -B scripts/bench/sim_speed.py "$round" "$file" "$BENCH_SCRATCH"/runs >>"$out/speed.txt"
    done
done
rm -rf "$BENCH_SCRATCH/runs"

# Bundled traces are of tiny problems, of which the dictionary is a good part: size is judged where a user would begin.
echo "bench: the eight Splash-like programs at their small sizes"
echo "round trace instructions elapsed_ns octets threads" >"$out/sizes.txt"
for name in "${sized[@]}"; do
    run "$QUAVER_BIN" sim trace --quiet -o "$BENCH_SCRATCH/$name.qtrace" -- "$kernels/$name" -p16 "-n$(size_of "$name")" >/dev/null
    run "$QUAVER_BIN" sim run "$BENCH_SCRATCH/$name.qtrace" --quiet --json --output "$BENCH_SCRATCH/runs" >/dev/null
    python3 -B scripts/bench/sim_speed.py 1 "$BENCH_SCRATCH/$name.qtrace" "$BENCH_SCRATCH"/runs >>"$out/sizes.txt"
    rm -rf "$BENCH_SCRATCH/runs" "$BENCH_SCRATCH/$name.qtrace"
done

# Instructions a second of whole programs, the tool's start included; the simulator's own on the same program beside them.
echo "bench: Valgrind on the same programs"
echo "program tool round instructions seconds" >"$out/peers.txt"
peer() { # PROGRAM TOOL ROUND INSTRUCTIONS COMMAND...
    local program="$1" tool="$2" round="$3" instructions="$4"
    shift 4
    run /usr/bin/time -f %e -o "$BENCH_SCRATCH/time" "$@" >"$BENCH_SCRATCH/peer" 2>&1
    echo "$program $tool $round $instructions $(tail -n 1 "$BENCH_SCRATCH/time")" >>"$out/peers.txt"
}
caches=(--I1=32768,2,32 --D1=32768,2,32 --LL=262144,4,64)
for words in "${peers[@]}"; do
    read -r name size <<<"$words"
    program=("$kernels/$name" -p1 "$size")
    valgrind -q --tool=cachegrind "${caches[@]}" --cachegrind-out-file="$BENCH_SCRATCH/cachegrind" "${program[@]}" >/dev/null
    instructions="$(awk '/^summary:/ { print $2 }' "$BENCH_SCRATCH/cachegrind")"
    traced=
    if run "$QUAVER_BIN" sim trace --quiet -o "$BENCH_SCRATCH/peer.qtrace" -- "${program[@]}" >/dev/null 2>"$BENCH_SCRATCH/words"; then
        traced=yes
    else
        echo "$name: not traced: $(tail -n 1 "$BENCH_SCRATCH/words")" >>"$out/missing.txt"
    fi
    for round in $(seq "$peer_rounds"); do
        peer "$name" native "$round" "$instructions" "${program[@]}"
        peer "$name" cachegrind "$round" "$instructions" \
            valgrind -q --tool=cachegrind "${caches[@]}" --cachegrind-out-file=/dev/null "${program[@]}"
        peer "$name" lackey "$round" "$instructions" valgrind -q --tool=lackey "${program[@]}"
        if [ -n "$traced" ]; then
            rm -rf "$BENCH_SCRATCH/runs"
            run "$QUAVER_BIN" sim run "$BENCH_SCRATCH/peer.qtrace" --quiet --json --output "$BENCH_SCRATCH/runs" >/dev/null
            read -r _ _ instructions_traced elapsed_ns _ < <(
                python3 -B scripts/bench/sim_speed.py "$round" "$BENCH_SCRATCH/peer.qtrace" "$BENCH_SCRATCH/runs"
            )
            echo "$name quaver $round $instructions_traced $(awk -v ns="$elapsed_ns" 'BEGIN { print ns / 1e9 }')" >>"$out/peers.txt"
        fi
    done
    rm -rf "$BENCH_SCRATCH/peer.qtrace" "$BENCH_SCRATCH/runs"
done

echo "bench: miss counts beside cachegrind's"
words=()
for name in "${checked[@]}"; do
    words+=("$kernels/$name" -p1 "-n$(size_of "$name")" --)
done
note scripts/bench/sim_cachegrind.sh sim "${words[@]}"
scripts/bench/sim_cachegrind.sh "$out" "${words[@]}" >"$out/cachegrind.txt" || true
# Where nothing has to leave the last level, nothing has to leave the first ones for it: what is still off is of another cause.
LAST_LEVEL_KIB=8192 scripts/bench/sim_cachegrind.sh "$out/all-fits" "${words[@]}" >"$out/cachegrind-all-fits.txt" || true
cat "$out/cachegrind.txt"
