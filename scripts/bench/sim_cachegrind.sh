#!/usr/bin/env bash
# Miss counts of programs of one thread beside `valgrind --tool=cachegrind` with caches of the same shape. Both see the same
# instructions and addresses: those that Valgrind's lackey prints are what the simulator runs.
# usage: QUAVER_BIN=PATH scripts/bench/sim_cachegrind.sh OUT PROGRAM [ARGUMENT]... [-- PROGRAM [ARGUMENT]...]...
#   LAST_LEVEL_KIB  size of the last level for both [256]: where it holds all, no line has to leave the first levels for it
# Writes OUT/cachegrind-NAME.json for each program, and judges: status 1 if one is more than 1 % off.
set -euo pipefail
cd "$(dirname "$0")/../.."

out="${1:?usage: sim_cachegrind.sh OUT PROGRAM [ARGUMENT]... [-- PROGRAM [ARGUMENT]...]...}"
shift
QUAVER_BIN="${QUAVER_BIN:?names the quaver to be checked}"
command -v valgrind >/dev/null || {
    echo "sim_cachegrind.sh: there is no valgrind; scripts/setup.sh bench installs it" >&2
    exit 3
}
mkdir -p "$out"
scratch="$(mktemp -d "${TMPDIR:-/tmp}/quaver-cachegrind-XXXXXX")"
trap 'rm -rf "$scratch"' EXIT

# Of lines on their way to a store, cachegrind knows nothing: it has no time. So every level answers at once here; what is
# counted is then up to the caches alone.
last_kib="${LAST_LEVEL_KIB:-256}"
at_once=(--set machine=paper --set "l2.kib=$last_kib" --set l1.hit_cycles=1 --set l2.hit_cycles=1 --set "memory.latency=1 cycles")
# First level 32 KiB, 2 ways, 32 octets a line; last level 4 ways, 64 octets, and 256 KiB if nothing else is said: the simulator's default. The paper's machine: nothing queues there.
caches=(--I1=32768,2,32 --D1=32768,2,32 "--LL=$((last_kib * 1024)),4,64")

# An environment of the same size for both, or the stacks would lie at different addresses.
under() {
    env -i PATH=/usr/bin:/bin valgrind -q "$@"
}

compare() {
    local name="${1##*/}"
    under --tool=cachegrind "${caches[@]}" --cachegrind-out-file="$scratch/cachegrind" "$@" >/dev/null 2>"$scratch/words"
    mkfifo "$scratch/again"
    python3 -B scripts/bench/sim_cachegrind.py twice <"$scratch/again" >"$scratch/twice.json" &
    under --tool=lackey --basic-counts=no --trace-mem=yes --log-fd=9 "$@" 9>&1 >/dev/null 2>&1 | tee "$scratch/again" |
        "$QUAVER_BIN" sim import --quiet --from lackey -o "$scratch/trace.qtrace" --json - >"$scratch/imported.json"
    wait
    "$QUAVER_BIN" sim run "$scratch/trace.qtrace" --set chip.cores=1 "${at_once[@]}" --quiet --json --output "$scratch/run" \
        >"$scratch/summary.json"
    python3 -B scripts/bench/sim_cachegrind.py join "$name" "$scratch/cachegrind" "$scratch/imported.json" \
        "$scratch/summary.json" "$scratch/twice.json" >"$out/cachegrind-$name.json"
    rm -rf "$scratch/run" "$scratch/again"
}

words=() results=()
for word in "$@" --; do
    if [ "$word" = -- ]; then
        if [ ${#words[@]} -gt 0 ]; then
            compare "${words[@]}"
            results+=("$out/cachegrind-${words[0]##*/}.json")
        fi
        words=()
    else
        words+=("$word")
    fi
done
python3 -B scripts/bench/sim_cachegrind.py judge "${results[@]}"
