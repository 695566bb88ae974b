#!/usr/bin/env bash
# Injects known interference into running chases and checks that each kind is named, then judges receivers of other makers
# (`truth.sh matrix` does only that), what `quaver cure` keeps of planted causes (`truth.sh cures`), and what is left of it after kills
# (`truth.sh kills`). Needs root and two CPUs.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --package quaver
cargo build --release --locked --package quaver-testbed --bins --example inject_preload
truth="${CARGO_TARGET_DIR:-target}/release/truth"
cures() { python3 scripts/truth_cures.py "${CARGO_TARGET_DIR:-target}/release/quaver" target/truth/cures "$@"; }
if [ "${1:-}" = cures ]; then
    cures "${@:2}"
    exit
fi
kills() { python3 scripts/truth_cure_kills.py "${CARGO_TARGET_DIR:-target}/release/quaver" target/truth/kills "$@"; }
if [ "${1:-}" = kills ]; then
    kills "${@:2}"
    exit
fi
[ $# -eq 0 ] || exec "$truth" "$@"
failed=0
"$truth" || failed=$?
"$truth" matrix || failed=$?
cures || failed=$?
kills || failed=$?
exit "$failed"
