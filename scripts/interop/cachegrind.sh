#!/usr/bin/env bash
# Miss counts of a small program of one thread beside Valgrind's cachegrind: within 1 %, and every difference above that is a
# failure. What they come from is in docs/methodology/simulator.md. `make bench` does the same with larger programs.
# Takes some ten seconds. As root, where scripts/setup.sh installs Valgrind, its absence is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v valgrind >/dev/null; then
    [ -z "${QUAVER_REQUIRE_PRIVILEGED:-}" ] || {
        echo "cachegrind.sh: there is no valgrind; scripts/setup.sh test installs it" >&2
        exit 1
    }
    echo "miss counts beside cachegrind: needs valgrind, which scripts/setup.sh test installs" |
        tee -a "${QUAVER_SKIPPED:-/dev/null}"
    exit 0
fi
built="${CARGO_TARGET_DIR:-target}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
make --no-print-directory --silent -C kernels OUT="$work" "$work/lu"
# As the tests are built: a package by itself would have its dependencies built again with other features.
cargo build --quiet --locked --workspace --all-targets
QUAVER_BIN="$(realpath "$built/debug/quaver")" scripts/bench/sim_cachegrind.sh "$work" "$work/lu" -p1 -n32
