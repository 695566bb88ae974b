#!/usr/bin/env bash
# Browser test of the HTML reports. Needs python3, chromium and chromium-driver; downloads nothing.
#   tests/browser/run.sh                  makes reports of a made-up run, a made-up path, a second of noise, simulated
#                                         runs, sweeps, the paper's runs and what-ifs, and checks them
#   tests/browser/run.sh REPORT.html      checks that report (less is known about it, so less is checked)
# QUAVER_PICTURES=FOLDER also writes pictures of the page there.
set -euo pipefail
cd "$(dirname "$0")/../.."

export PYTHONDONTWRITEBYTECODE=1
pictures=()
[ -z "${QUAVER_PICTURES:-}" ] || pictures=(--pictures "$QUAVER_PICTURES")

if [ $# -gt 0 ]; then
  exec python3 tests/browser/report_test.py "$1" "${pictures[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# All at once, as the tests are built: a package by itself would have its dependencies built again with other features.
cargo build --quiet --locked --workspace --all-targets
built="${CARGO_TARGET_DIR:-target}/debug"
"$built/examples/sample_report" "$work/report.html" > "$work/facts.json"
python3 tests/browser/report_test.py "$work/report.html" "$work/facts.json" "${pictures[@]}"

"$built/examples/gallery" "$work/gallery.html" > "$work/gallery.txt"
python3 tests/browser/view_test.py "$work/gallery.html" "${pictures[@]}"

"$built/examples/sample_path_report" "$work/path.html" > "$work/path.json"
python3 tests/browser/path_report_test.py "$work/path.html" "$work/path.json" "${pictures[@]}"

"$built/quaver" noise --for 1s --quiet --output "$work/runs" > "$work/noise.txt"
python3 tests/browser/document_test.py noise "$work"/runs/*/{report.html,summary.json} "${pictures[@]}"

"$built/quaver" sim run simulator/sim/traces/radix.qtrace.txt --quiet --output "$work/simulated" > "$work/simulated.txt"
python3 tests/browser/sim_report_test.py "$work"/simulated/* "${pictures[@]}"

sweep() {
  local name="$1"
  shift
  printf '%s\n' "[sweep]" "traces = ['$PWD/simulator/sim/traces/radix.qtrace.txt', '$PWD/simulator/sim/traces/raytrace.qtrace.txt']" \
    "seeds = 2" "[cure.injection.classes.broadcast-wait]" "kind = 'exceedance'" "probability = 0.2" "over_ns = 10000" \
    "mean_ns = 40000" "sigma = 0.8" "$@" > "$work/$name.toml"
  "$built/quaver" sim sweep run "$work/$name.toml" --quiet --output "$work/swept" > "$work/$name.txt"
  python3 tests/browser/drawn_report_test.py sweep "$work/swept/sweep-$name"/{report.html,summary.json} "${pictures[@]}"
}
reactivity=("[[axis]]" "key = 'cure.dvfs.reactivity'" "values = [1, 2, 4]")
sizes=("[[axis]]" "key = 'machine.l2.kib'" "values = [128, 512]")
scales=("[[axis]]" "key = 'cure.kernel_scales'" "values = [false, true]")
sweep lines "${reactivity[@]}"
sweep maps "${reactivity[@]}" "${sizes[@]}"
sweep table "${reactivity[@]}" "${sizes[@]}" "${scales[@]}"

"$built/quaver" sim paper --quick --length 50us --no-tracing --programs barnes,fmm --seeds 1 --quiet --output "$work/paper" > "$work/paper.txt"
python3 tests/browser/drawn_report_test.py paper "$work"/paper/*/{report.html,summary.json} "${pictures[@]}"

head -c 2000000 "$built/quaver" > "$work/octets"
"$built/quaver" sync --quiet --output "$work/synced" -- xz -0 -T3 --block-size=64KiB --stdout "$work/octets" > "$work/octets.xz" 2> "$work/sync.txt"
python3 tests/browser/document_test.py sync "$work"/synced/*/{report.html,summary.json} "${pictures[@]}"
"$built/quaver" sync what-if "$work"/synced/* --deadline 1ms --html "$work/what-if.html" --json > "$work/what-if.json"
python3 tests/browser/document_test.py what-if "$work"/what-if.{html,json} "${pictures[@]}"
"$built/quaver" sync what-if --example wimax --html "$work/example.html" --json > "$work/example.json"
python3 tests/browser/document_test.py example "$work"/example.{html,json} "${pictures[@]}"
