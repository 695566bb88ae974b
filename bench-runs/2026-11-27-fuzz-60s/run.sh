#!/usr/bin/env bash
# Fuzzers for 60 s each, two at a time on one CPU. usage: run.sh BUILD_DIRECTORY TARGET...
# They have been built there by: cargo +nightly fuzz build --target-dir BUILD_DIRECTORY --features libfuzzer
set -uo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export here build="$1" root="$(cd "$here/../.." && pwd)"
shift
cd "$here/../../fuzz" || exit
mkdir -p "$here/logs" "$build/artifacts"
one() {
    local target="$1" seeds=() host
    host="$(rustc +nightly -vV | sed -n 's/^host: //p')"
    mkdir -p "$build/corpus/$target"
    [ ! -d "seeds/$target" ] || seeds=("seeds/$target")
    nice -n 5 taskset -c 1 "$build/$host/release/$target" "$build/corpus/$target" "${seeds[@]}" -max_total_time=60 -seed=1 \
        -max_len=4096 -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$build/artifacts/$target-" -print_final_stats=1 \
        2>&1 | sed -e "s|$build/||g" -e "s|$root/||g" >"$here/logs/$target.txt"
    echo "$target: status ${PIPESTATUS[0]}" | tee -a "$here/logs/$target.txt"
}
export -f one
printf '%s\n' "$@" | xargs -P 2 -I TARGET bash -c 'one TARGET'
