#!/usr/bin/env bash
# The paper's matrix (`quaver study paper`) between two namespaces and in the QEMU lab, and our attribution of noise beside the
# kernel's own tracer. Called by scripts/bench.sh; takes some nine minutes for the first, twelve for the second, one for the third.
set -euo pipefail

# A million as in the paper; in a guest, where time goes slower, as many as fit into a quarter of an hour.
samples=1000000 qemu_samples=4000 loops=900ms
few=()
[ -z "${BENCH_BRIEF:-}" ] || { samples=5000 qemu_samples=1000 loops=300ms few=(--blocks 5); }
out="$BENCH_OUT/study"

# Tells how far a study is until the process has ended.
watch_cells() { # PID DIRECTORY
    local planned cells
    while kill -0 "$1" 2>/dev/null; do
        sleep 15
        cells="$(find "$2" -path '*/cells/*.json' 2>/dev/null | wc -l)"
        planned="$(python3 -B scripts/bench/study_cells.py --planned "$2" 2>/dev/null || echo '?')"
        echo "bench: $cells of $planned cells ($(date -u +%T))"
    done
}

paper() { # LAB SAMPLES
    local lab="$1" runs="$BENCH_SCRATCH/study-$1" began status=0 watcher study
    mkdir "$out/$lab"
    began="$(date +%s)"
    echo "bench: study paper, $lab lab, $2 samples of each experiment in each block"
    note "$QUAVER_BIN" study paper --lab "$lab" --samples "$2" "${few[@]}" --json
    # In a session of its own, which it can weigh: niceness does nothing against the work of other sessions.
    setsid -w "$QUAVER_BIN" study paper --lab "$lab" --samples "$2" "${few[@]}" --json --output "$runs" \
        >"$BENCH_SCRATCH/$lab.json" </dev/null &
    study=$!
    watch_cells "$study" "$runs" &
    watcher=$!
    wait "$study" || status=$?
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    if [ "$status" -ne 0 ]; then
        echo "bench: study paper ended with $status in the $lab lab" >&2
        echo "ended with status $status" >"$out/$lab/failed.txt"
        return 0
    fi
    python3 -B scripts/bench/study_cells.py "$runs" "$out/$lab"
    "$QUAVER_BIN" analyze "$runs"/study-* >"$out/$lab/page.txt"
    echo "$(($(date +%s) - began))" >"$out/$lab/seconds.txt"
    # Too large to be kept with the figures, and drawn from nothing else.
    cp "$runs"/study-*/report.html "${TMPDIR:-/tmp}/quaver-study-$lab.html"
    echo "bench: $lab lab done after $(cat "$out/$lab/seconds.txt") s; the report is ${TMPDIR:-/tmp}/quaver-study-$lab.html"
    rm -rf "$runs"
}

paper netns "$samples"
if "$QUAVER_BIN" lab doctor qemu >"$BENCH_SCRATCH/doctor.txt"; then
    paper qemu "$qemu_samples"
    echo "bench: our attribution beside the kernel's tracer"
    run "$QUAVER_BIN" lab osnoise --for "$loops" --json >"$out/osnoise.json" ||
        echo "bench: lab osnoise ended with $?" >&2
else
    echo "bench: there is no QEMU lab here; \`quaver lab fetch\` gets it" >&2
    cp "$BENCH_SCRATCH/doctor.txt" "$out/no-qemu.txt"
fi
