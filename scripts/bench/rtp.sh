#!/usr/bin/env bash
# RTP of the profiles at their real rate over loopback into a sink that knows nothing of it. Called by scripts/bench.sh.
set -euo pipefail

seconds=10
[ -z "${BENCH_BRIEF:-}" ] || seconds=2
out="$BENCH_OUT/rtp"
sink=
clean_up() {
    [ -z "$sink" ] || kill "$sink" 2>/dev/null || true
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# What is told of RTP and of losses; of long histograms the sixteen values that came most often.
shorten='
import json, sys

def short(value):
    if isinstance(value, dict) and len(value) > 16 and all(isinstance(count, int) for count in value.values()):
        return dict(sorted(value.items(), key=lambda one: -one[1])[:16])
    return {key: short(part) for key, part in value.items()} if isinstance(value, dict) else value

summary = json.load(sys.stdin)
print(json.dumps({"rtp": short(summary.get("rtp")), "losses": summary["losses"]}, indent=1))
'

# NAME OPTIONS...: a source with these options, and the sink that hears it.
port=31990
one() {
    local name="$1"
    shift
    local receive=("$QUAVER_BIN" sink "127.0.0.1:$port" --for "${seconds}s" --cpu 1 --json --quiet
        --output "$BENCH_SCRATCH/runs")
    note "${receive[@]}" "&"
    "${receive[@]}" >"$BENCH_SCRATCH/sink.json" 2>"$BENCH_SCRATCH/sink.txt" &
    sink=$!
    sleep 0.5
    # Longer than the sink's first look, warm-up and measurement.
    run "$QUAVER_BIN" source "127.0.0.1:$port" "$@" --for "$((seconds + 4))s" --cpu 0 --json \
        >"$out/$name-source.json" || echo "rtp.sh: the source of $name ended with $?" >&2
    if wait "$sink"; then
        python3 -c "$shorten" <"$BENCH_SCRATCH/sink.json" >"$out/$name.json"
    else
        echo "rtp.sh: the sink of $name failed: $(cat "$BENCH_SCRATCH/sink.txt")" >&2
    fi
    sink=
    rm -rf "$BENCH_SCRATCH/runs"
    port=$((port + 1))
}

# A source that was late leaves slots out, and its stream is behind its media clock from then on; with --catch-up it
# keeps up by bursts.
for profile in st2022-6 st2110-20 st2110-20-gapped; do
    one "$profile" --profile "$profile"
    one "$profile-catch-up" --profile "$profile" --catch-up
done
one g711 --profile g711
