#!/usr/bin/env bash
# Threads: what recording costs the bundled programs, how large a record is, what other tools cost on the same programs, and
# a hundred million events analysed. Called by scripts/bench.sh. About twenty minutes.
set -euo pipefail

pairs=45 more_pairs=200 peer_rounds=5 events=100000000
only=()
[ -z "${BENCH_BRIEF:-}" ] || { pairs=6 more_pairs=8 peer_rounds=1 events=1000000 only=(--only "ocean,raytrace,vips"); }
out="$BENCH_OUT/sync"
kernels="$BENCH_SCRATCH/kernels"
make --no-print-directory --silent -C kernels OUT="$kernels"
QUAVER_LIBDIR="${QUAVER_LIBDIR:-${QUAVER_BIN%/*}}"
export QUAVER_LIBDIR
cpus="$(nproc)"

echo "bench: programs, $pairs pairs each"
run "$QUAVER_BIN" sync bench --kernels "$kernels" --runs "$pairs" "${only[@]}" --json --quiet \
    --output "$BENCH_SCRATCH/runs" >"$out/programs.json"
rm -rf "$BENCH_SCRATCH/runs"

# Those of which that does not tell whether they stay within the limit: once more, from the beginning, with as many pairs as it
# takes with this scatter. Both counts are fixed before, so that the intervals mean what they say.
undecided="$(python3 -B -c 'import json, sys
print(",".join(one["program"] for one in json.load(open(sys.argv[1]))["programs"] if one["cost"] and one["cost"]["verdict"] == "undecided"))' \
    "$out/programs.json")"
if [ -n "$undecided" ]; then
    echo "bench: undecided programs again, $more_pairs pairs each: $undecided"
    run "$QUAVER_BIN" sync bench --kernels "$kernels" --runs "$more_pairs" --only "$undecided" --no-kernel --json --quiet \
        --output "$BENCH_SCRATCH/runs" >"$out/programs-again.json"
    rm -rf "$BENCH_SCRATCH/runs"
fi

# Octets a record once packed: of one run of each program, as `quaver sync` keeps it.
echo "bench: size of records"
: >"$out/density.txt"
for program in "$kernels"/*; do
    [ -x "$program" ] || continue
    rm -rf "$BENCH_SCRATCH/density"
    run "$QUAVER_BIN" sync --quiet --no-kernel --output "$BENCH_SCRATCH/density" -- "$program" "-p$cpus" >/dev/null 2>&1
    python3 scripts/bench/sync_density.py "${program##*/}" "$BENCH_SCRATCH"/density/sync-* >>"$out/density.txt"
done
rm -rf "$BENCH_SCRATCH/density"

echo "bench: cost of an event and of a call"
rounds="$peer_rounds"
QUAVER_PRELOAD="$QUAVER_LIBDIR/libquaver_preload.so" run bash scripts/bench/sync-cost.sh "$rounds" >"$out/cost.txt"

# Each tool writes away from the terminal; the program's own time is taken inside of it, so that no tool's start counts.
libc="$(ldd "$kernels/ocean" | awk '/libc\.so/ { print $3 }')"
calls="pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_signal pthread_cond_broadcast"
probes=""
for call in $calls; do
    probes+="uprobe:$libc:$call { @[probe] = count(); } uretprobe:$libc:$call { @[probe] = count(); } "
done
timed=(/usr/bin/time -a -f %e -o)
try() { # TOOL PROGRAM COMMAND...: the command is run, times go to peers-PROGRAM-TOOL.txt
    local file="$out/peers-$2-$1.txt" status=0
    shift 2
    run timeout -k 5 120 "$@" >"$BENCH_SCRATCH/peer.txt" 2>&1 || status=$?
    [ "$status" -eq 0 ] || echo "ended with $status: $(tail -n 1 "$BENCH_SCRATCH/peer.txt" | cut -c1-200)" >>"$file"
}
there() {
    command -v "$1" >/dev/null || { echo "not installed" >"$out/peers-$2-$1.txt" && return 1; }
}
# A lock at each row of pixels, hardly ever contended; and barriers by condition variables.
for program in "raytrace -n1536" "ocean -n512"; do
    read -r name size <<<"$program"
    words=("$kernels/$name" "-p$cpus" "$size")
    echo "bench: other tools on $name"
    for _ in $(seq "$peer_rounds"); do
        try plain "$name" "${timed[@]}" "$out/peers-$name-plain.txt" "${words[@]}"
        try quaver "$name" "$QUAVER_BIN" sync --quiet --no-kernel --output "$BENCH_SCRATCH/runs" -- \
            "${timed[@]}" "$out/peers-$name-quaver.txt" "${words[@]}"
        rm -rf "$BENCH_SCRATCH/runs"
        if there perf "$name"; then
            try perf "$name" perf trace -e futex -o "$BENCH_SCRATCH/perf.txt" -- \
                "${timed[@]}" "$out/peers-$name-perf.txt" "${words[@]}"
        fi
        if there bpftrace "$name"; then
            try bpftrace "$name" bpftrace -e "$probes" -c "${timed[*]} $out/peers-$name-bpftrace.txt ${words[*]}"
        fi
        if there mutrace "$name"; then
            try mutrace "$name" mutrace "${timed[@]}" "$out/peers-$name-mutrace.txt" "${words[@]}"
        fi
    done
    # Once is enough to see by how much: it stops the program at each call.
    if there ltrace "$name"; then
        try ltrace "$name" ltrace -f -o "$BENCH_SCRATCH/ltrace.txt" -e "${calls// /+}" \
            "${timed[@]}" "$out/peers-$name-ltrace.txt" "${words[@]}"
    fi
done

echo "bench: $events events analysed"
run /usr/bin/time -f '%e s, %M KiB' -o "$out/analysis-time.txt" "$QUAVER_EXAMPLES/sync-scale" "$events" \
    >"$out/analysis.txt" 2>&1
