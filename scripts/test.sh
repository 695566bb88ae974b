#!/usr/bin/env bash
# All tests that CI runs. As root a test that needs privilege fails rather than being skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/phase.sh

if [ "$(id -u)" -eq 0 ]; then
    export QUAVER_REQUIRE_PRIVILEGED=1
else
    echo "test: not root, so tests that need privilege are skipped and say so (SKIPPED ...)"
fi

# Built once here, so that the time of the tests is told apart from that of the compiler.
phase "build" cargo build --quiet --locked --workspace --all-targets
phase "tests" cargo test --quiet --locked --workspace --no-fail-fast
phase "repository rules" cargo xtask tidy --registry
phase "judges of bench runs" scripts/bench/check.sh
if [ -x tests/browser/run.sh ]; then
    phase "report in a browser" tests/browser/run.sh
fi
phase "miss counts beside cachegrind" scripts/interop/cachegrind.sh
phase "STAMP beside another's" scripts/interop/stamp.sh
phase_report
