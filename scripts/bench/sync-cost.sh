#!/usr/bin/env bash
# What the recorder of synchronisation costs a call and an event, alternating with the program alone, and beside
# other means of seeing the same calls (those that are installed and permitted).
# usage: scripts/bench/sync-cost.sh [ROUNDS]   QUAVER_PRELOAD=path of libquaver_preload.so
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-5}
recorder=${QUAVER_PRELOAD:-${CARGO_TARGET_DIR:-target}/release/libquaver_preload.so}
[ -f "$recorder" ] || { echo "sync-cost.sh: $recorder is missing; cargo build --release -p quaver-preload" >&2; exit 3; }
recorder=$(readlink -f "$recorder")
work=$(mktemp -d "${TMPDIR:-/dev/shm}/sync-cost.XXXXXX")
trap 'rm -rf "$work"' EXIT
cc -O2 -pthread -o "$work/program" scripts/bench/sync-cost.c

tell() { # label, then what to put before the program, then its arguments
    local label=$1 arguments=$2
    shift 2
    # shellcheck disable=SC2086 # several arguments
    "$@" "$work/program" $arguments | sed "s/^/$label /" >>"$work/all" || true
}

for _ in $(seq "$rounds"); do
    tell plain 20 env
    tell unset 20 env "LD_PRELOAD=$recorder"
    mkdir "$work/records"
    tell recorded 20 env "LD_PRELOAD=$recorder" "QUAVER_SYNC_DIR=$work/records"
    rm -r "$work/records"
done

# Each peer once, on fewer calls: they cost microseconds.
libc=$(ldd "$work/program" | awk '/libc.so/ { print $3 }')
if command -v bpftrace >/dev/null && [ "$(id -u)" = 0 ]; then
    bpftrace -q -o "$work/bpftrace" -e "uprobe:$libc:pthread_mutex_lock, uprobe:$libc:pthread_mutex_unlock { @ = count(); }" \
        -c "$work/program 20 lock-unlock" 2>/dev/null | grep '^lock' | sed 's/^/uprobe /' >>"$work/all" || true
fi
if command -v ltrace >/dev/null; then
    ltrace -o "$work/ltrace" -e pthread_mutex_lock+pthread_mutex_unlock "$work/program" 1 lock-unlock 2>/dev/null |
        sed 's/^/ltrace /' >>"$work/all" || true
fi
if command -v mutrace >/dev/null; then
    mutrace "$work/program" 20 lock-unlock 2>/dev/null | grep '^lock' | sed 's/^/mutrace /' >>"$work/all" || true
fi

python3 - "$work/all" <<'PY'
import collections, sys

found = collections.defaultdict(list)
events = {}
for line in open(sys.argv[1]):
    label, kind, ns, _, count = line.split()
    found[label, kind].append(float(ns))
    events[kind] = int(count)
# The least disturbed round of each: other work on the machine only ever adds.
least = {key: min(values) for key, values in found.items()}
print(f"{'calls':14} {'alone ns':>9} {'unset +ns':>10} {'recorded +ns':>13} {'an event ns':>12}")
for kind, count in events.items():
    plain = least["plain", kind]
    more = least["recorded", kind] - plain
    an_event = f"{more / count:12.1f}" if count else f"{'-':>12}"
    print(f"{kind:14} {plain:9.1f} {least['unset', kind] - plain:10.1f} {more:13.1f} {an_event}")
ours = least["recorded", "lock-unlock"] - least["plain", "lock-unlock"]
ours_event = (least["recorded", "signal"] - least["plain", "signal"]) / 2
for label in ("uprobe", "ltrace", "mutrace"):
    if (label, "lock-unlock") in least:
        more = least[label, "lock-unlock"] - least["plain", "lock-unlock"]
        print(f"{label}: {more:.0f} ns more a call; {more / ours:.0f} times a call counted by us, {more / ours_event:.0f} times an event recorded")
    else:
        print(f"{label}: not measured (not installed, or not permitted)")
PY
