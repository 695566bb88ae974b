#!/usr/bin/env bash
# Measures speed and accuracy on this machine, beside peers, and writes bench-runs/<date>-<name>/.
# usage: scripts/bench.sh [chase|sink|source|path|path_long|skew|rtp|capture|sync|study|sim|analysis|query|spark|clickhouse|readme]...
#        (none: all but path_long, skew, rtp, capture, sync, study, sim, query, spark and clickhouse, which take minutes)
#   BENCH_NAME   name of the machine in the directory [virtualisation and count of CPUs]
#   BENCH_BRIEF  set: runs of one second, to try the script; writes into a temporary directory
#   QUAVER_BIN   a release quaver with its examples/ beside it, instead of building
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(chase sink source path analysis)
for part in "${parts[@]}"; do
    case "$part" in
    chase | sink | source | path | path_long | skew | rtp | capture | sync | study | sim | analysis | query | spark | clickhouse | readme) ;;
    *)
        echo "bench.sh: unknown part '$part'; use chase, sink, source, path, path_long, skew, rtp, capture, sync, study, sim, analysis, query, spark, clickhouse or readme" >&2
        exit 2
        ;;
    esac
done

if [ -z "${QUAVER_BIN:-}" ]; then
    cargo build --release --locked --package quaver --bin quaver --example big_run
    cargo build --release --locked --package quaver-probe --package quaver-capture --package quaver-clock --example sink_cost --example pipeline_cost --example clock_bound
    cargo build --release --locked --package quaver-pcapng --example pcapng_speed
    cargo build --release --locked --package quaver-testbed --bin relay
    cargo build --release --locked --package quaver-sim-program --bin quaver-sim
    cargo build --release --locked --package quaver-preload
    cargo build --release --locked --package quaver-qemu-plugin
    cargo build --release --locked --package quaver-sync-analysis --example sync-scale
    QUAVER_BIN="${CARGO_TARGET_DIR:-target}/release/quaver"
fi
QUAVER_BIN="$(realpath "$QUAVER_BIN")"
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "bench.sh: namespaces, priorities and kernel tracing need root, and there is no sudo; run it as root" >&2
        exit 3
    fi
    echo "bench: running by sudo, for namespaces, priorities and kernel tracing need root"
    status=0
    sudo env "QUAVER_BIN=$QUAVER_BIN" "BENCH_NAME=${BENCH_NAME:-}" "BENCH_BRIEF=${BENCH_BRIEF:-}" "$0" "$@" || status=$?
    sudo chown -R "$(id -u):$(id -g)" bench-runs
    exit "$status"
fi

export QUAVER_BIN
export QUAVER_EXAMPLES="${QUAVER_BIN%/*}/examples"
scratch="$(mktemp -d "${TMPDIR:-/tmp}/quaver-bench-XXXXXX")"
export BENCH_SCRATCH="$scratch"
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

name="${BENCH_NAME:-$(lscpu | awk -F ': *' '/^Hypervisor vendor/ { print tolower($2) }')}"
[ -n "$name" ] || name=bare
[ -n "${BENCH_NAME:-}" ] || name="$name-$(nproc)cpu"
BENCH_OUT="bench-runs/$(date -u +%F)-$name"
if [ -n "${BENCH_BRIEF:-}" ]; then
    BENCH_OUT="${TMPDIR:-/tmp}/quaver-bench-brief"
fi
export BENCH_OUT
mkdir -p "$BENCH_OUT"
[ $# -gt 0 ] || rm -f "$BENCH_OUT/commands.txt"

# Writes a command as one would type it into commands.txt.
note() {
    local shown="$*"
    shown="${shown//$QUAVER_EXAMPLES\//}"
    shown="${shown//$QUAVER_BIN/quaver}"
    shown="${shown//$BENCH_SCRATCH/SCRATCH}"
    # Python of an environment of its own lies in somebody's home.
    echo "${shown//$BENCH_OUT\//}" | sed -E 's#[^ ]*/bin/python #python #' >>"$BENCH_OUT/commands.txt"
}
run() {
    note "$@"
    "$@"
}
export -f note run

# A page that judges wrongly would cost all that follows.
scripts/bench/check.sh

for part in "${parts[@]}"; do
    [ "$part" != readme ] || continue
    echo "bench: $part ($(date -u +%T))"
    rm -rf "${BENCH_OUT:?}/$part"
    mkdir "$BENCH_OUT/$part"
    echo "# $part, $(date -u +%FT%TZ), load average $(cut -d' ' -f1-3 /proc/loadavg)" >>"$BENCH_OUT/commands.txt"
    python3 scripts/bench/machine.py >"$BENCH_OUT/machine.txt"
    bash "scripts/bench/$part.sh"
done
# Status 1 where data of a target are missing, as they are when the script is but tried.
status=0
python3 scripts/bench/readme.py "$BENCH_OUT" >"$BENCH_OUT/README.md" || status=$?
echo "bench: see $BENCH_OUT/README.md"
[ -n "${BENCH_BRIEF:-}" ] || exit "$status"
