#!/usr/bin/env bash
# Browser test of the HTML reports. Needs python3, chromium and chromium-driver; downloads nothing.
#   tests/browser/run.sh                  makes reports of a made-up run, a made-up path and a second of noise, and
#                                         checks them
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

"$built/examples/sample_path_report" "$work/path.html" > "$work/path.json"
python3 tests/browser/path_report_test.py "$work/path.html" "$work/path.json" "${pictures[@]}"

"$built/quaver" noise --for 1s --quiet --output "$work/runs" > "$work/noise.txt"
python3 tests/browser/report_test.py "$work"/runs/*/report.html

"$built/quaver" sim run crates/quaver-sim/traces/radix.qtrace.txt --quiet --output "$work/simulated" > "$work/simulated.txt"
python3 tests/browser/sim_report_test.py "$work"/simulated/* "${pictures[@]}"
