#!/usr/bin/env bash
# Takes the sink's CPU offline in the midst of a chase and of a noise run, and checks what is said, the exit status and
# what is kept. Opt-in, as root, on a machine with two CPUs that nobody else measures on: it disturbs every program that is
# bound to that CPU, so it is no part of `make test` (there the same is tested on a made-up machine, `cpu_watch.rs`).
# The CPU is put back on every way out, and by a watchdog should this script be killed.
#
#   scripts/cpu-offline.sh [QUAVER [CPU]]
set -euo pipefail
cd "$(dirname "$0")/.."

quaver="${1:-${CARGO_TARGET_DIR:-target}/release/quaver}"
cpu="${2:-$(sed 's/.*[-,]//' /sys/devices/system/cpu/online)}"
switch="/sys/devices/system/cpu/cpu$cpu/online"
[ "$(id -u)" = 0 ] || { echo "needs root: it takes CPU $cpu offline" >&2; exit 3; }
[ -w "$switch" ] || { echo "CPU $cpu cannot be taken offline here (no $switch)" >&2; exit 3; }

work="$(mktemp -d)"
setsid bash -c "sleep 120; echo 1 > '$switch'" </dev/null >/dev/null 2>&1 &
watchdog=$!
end() {
    echo 1 >"$switch"
    kill -- "-$watchdog" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

failed=0
check() {
    local what="$1"
    shift
    if "$@"; then echo "  ok      $what"; else echo "  FAILED  $what"; failed=1; fi
}

sentence="CPU $cpu, which the"
taken_away() {
    local name="$1" whose="$2" count="$3"
    shift 3
    echo "$name:"
    local out="$work/$name" status=0
    mkdir "$out"
    "$quaver" "$@" --for 20s --output "$out" --quiet >"$out.page" 2>"$out.errors" &
    local pid=$!
    sleep 4
    echo 0 >"$switch"
    wait "$pid" || status=$?
    echo 1 >"$switch"
    local run
    run="$(find "$out" -mindepth 1 -maxdepth 1 -type d)"
    check "ends with 6 (was $status)" [ "$status" = 6 ]
    check "ends early" [ -s "$out.page" ]
    check "page says which CPU, whose, and what to do" grep -qz "$sentence $whose was" <(tr -s '\n ' '  ' <"$out.page")
    check "manifest: incomplete" grep -q '"complete": false' "$run/manifest.json"
    check "manifest: the CPU" grep -q "\"cpu_lost\": $cpu" "$run/manifest.json"
    check "summary: incomplete, with that reason" grep -q "$sentence" "$run/summary.json"
    check "report says it" grep -q "$sentence" "$run/report.html"
    check "$count is kept: $(measured "$run" "$count")" [ "$(measured "$run" "$count")" -gt 1000 ]
    check "it can be analysed again" "$quaver" analyze "$run" >/dev/null
    tr -s '\n ' '  ' <"$out.page" | grep -o "$sentence[^!]*measure again" | head -1 | fold -s -w 100 | sed 's/^/    /'
}

# A number of summary.json, by the last part of its name.
measured() {
    python3 - "$1/summary.json" "$2" <<'EOF'
import json, sys
def find(value, name):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == name and isinstance(inner, int):
                yield inner
            yield from find(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from find(inner, name)
print(next(find(json.load(open(sys.argv[1])), sys.argv[2]), 0))
EOF
}

taken_away chase sink received chase --no-cost --period 100us --sink-cpu "$cpu"
taken_away noise loop turns noise --cpus "$cpu"
[ "$(cat "$switch")" = 1 ] && echo "CPU $cpu is online"
exit "$failed"
