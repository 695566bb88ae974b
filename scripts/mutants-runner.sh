#!/usr/bin/env bash
# Runs a test program for scripts/mutants.sh: first the tests of the module that was changed, then all.
set -euo pipefail
program=$1
shift
tree=$(git rev-parse --show-toplevel)
file=$(git -C "$tree" diff --name-only -- crates | head -n 1)
crate=$(basename "$(dirname "${file%%/src/*}/x")" | tr - _)
case $(basename "$program") in
"$crate"-*)
    # The first folder or file below src is the first part of the tests' paths.
    module=${file#*/src/}
    module=${module%%/*}
    module=${module%.rs}
    if [ "$module" != lib ]; then
        "$program" "$module::" "$@"
    fi
    ;;
esac
exec "$program" "$@"
