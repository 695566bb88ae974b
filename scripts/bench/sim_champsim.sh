#!/usr/bin/env bash
# One core of the simulator beside ChampSim, on thread 0 of each bundled trace: both read the same records.
# usage: QUAVER_SIM_BIN=PATH CHAMPSIM=PATH scripts/bench/sim_champsim.sh OUT
#   CHAMPSIM  ChampSim's program, configured by scripts/bench/sim_champsim.json and built
# Writes OUT/quaver-NAME.json and OUT/champsim-NAME.json.
set -euo pipefail
cd "$(dirname "$0")/../.."

out="${1:?usage: sim_champsim.sh OUT}"
QUAVER_SIM_BIN="${QUAVER_SIM_BIN:?names the quaver-sim to be checked}"
CHAMPSIM="${CHAMPSIM:?names the program of ChampSim}"
mkdir -p "$out"
scratch="$(mktemp -d "${TMPDIR:-/tmp}/quaver-champsim-XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
cargo build -q -p quaver-trace --example champsim

cat >"$scratch/machine.toml" <<'END'
machine = "paper"
chip.cores = 1
core.pipeline = "out-of-order"
core.issue_width = 4
core.rob_entries = 128
core.load_misses = 16
core.store_buffer_entries = 16
core.latency_cycles = { multiply = 1, divide = 1, float = 1, float_multiply = 1, float_divide = 1, serialising = 1 }
l1 = { ways = 8, line_octets = 64 }
l2.ways = 8
END

for trace in simulator/sim/traces/*.qtrace.txt; do
    name="$(basename "$trace" .qtrace.txt)"
    target/debug/examples/champsim "$trace" 0 >"$scratch/$name.champsimtrace"
    instructions=$(($(stat -c %s "$scratch/$name.champsimtrace") / 64))
    "$QUAVER_SIM_BIN" import --quiet --from champsim -o "$scratch/$name.qtrace" "$scratch/$name.champsimtrace"
    "$QUAVER_SIM_BIN" run --quiet --config "$scratch/machine.toml" --output "$scratch/runs" --json "$scratch/$name.qtrace" \
        >"$out/quaver-$name.json"
    xz -0 -k "$scratch/$name.champsimtrace"
    # It runs a trace over and over; the last few instructions never end by themselves.
    "$CHAMPSIM" --warmup-instructions 0 --simulation-instructions $((instructions - 1000)) --hide-heartbeat \
        --json "$out/champsim-$name.json" "$scratch/$name.champsimtrace.xz" >"$scratch/$name.txt"
    rm "$scratch/$name".*
done
