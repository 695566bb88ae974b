#!/usr/bin/env bash
# All tests that CI runs. As root a test that needs privilege fails rather than being skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/phase.sh

# Tests write here what they skip, for the output of one that passes is not shown.
QUAVER_SKIPPED="$(mktemp)"
export QUAVER_SKIPPED
counted="${CARGO_TARGET_DIR:-target}/tests.txt"
rm -f "$counted"

# However it ends: what was skipped, and how many tests passed and failed.
tell() {
    if [ -s "$QUAVER_SKIPPED" ]; then
        echo "Skipped:"
        sort -u "$QUAVER_SKIPPED" | sed 's/^/  /'
    else
        echo "Skipped: nothing"
    fi
    rm -f "$QUAVER_SKIPPED"
    [ ! -e "$counted" ] || cat "$counted"
}
trap tell EXIT

if [ "$(id -u)" -eq 0 ]; then
    export QUAVER_REQUIRE_PRIVILEGED=1
else
    echo "test: not root, so tests that need privilege are skipped, and are listed at the end"
fi

# Built once here, so that the time of the tests is told apart from that of the compiler. `cargo test` by hand does the same as
# `cargo xtask test`, one executable after the other.
phase "build" cargo build --quiet --locked --workspace --all-targets
phase "tests" cargo xtask test
# None of these measures: two at a time, for each waits for a browser or another program most of the time.
beside "report in a browser" tests/browser/run.sh
beside "Python package" scripts/interop/python.sh
beside "book, and in a browser" scripts/book.sh --browse "${CARGO_TARGET_DIR:-target}/debug/quaver"
beside "repository rules" cargo xtask tidy --registry
beside "judges of bench runs" scripts/bench/check.sh
beside "STAMP beside another's" scripts/interop/stamp.sh
beside "miss counts beside cachegrind" scripts/interop/cachegrind.sh
together
phase_report
