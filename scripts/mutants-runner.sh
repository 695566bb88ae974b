#!/usr/bin/env bash
# Runs a test program for scripts/mutants.sh: first the tests of the module that was changed, then all.
set -euo pipefail
program=$1
shift
tree=$(git rev-parse --show-toplevel)
file=$(git -C "$tree" diff --name-only -- '*.rs' | head -n 1)
crate=$(sed -n 's/^name = "\(.*\)"/\1/p' "$tree/${file%%/src/*}/Cargo.toml" | head -n 1 | tr - _)
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
