#!/usr/bin/env bash
# Builds the book into target/book and follows all of its links.
# usage: scripts/book.sh [QUAVER]    (the program whose help becomes pages; default: built here)
set -euo pipefail
cd "$(dirname "$0")/.."

# One version for everybody, as of cargo-deny in lint.sh.
mdbook_version=0.5.4
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
tools="$target/tools"
mdbook="$tools/bin/mdbook"

if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$mdbook_version" ]; then
    # Without optimisation, as cargo-deny: the book itself takes seconds.
    env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=0 \
        cargo install --quiet --locked --debug --no-default-features --features search \
        --version "$mdbook_version" --root "$tools" mdbook
fi
quaver="${1:-}"
if [ -z "$quaver" ]; then
    cargo build --quiet --locked --package quaver --package quaver-sim-program
    quaver="$target/debug/quaver"
fi
cargo xtask book "$mdbook" "$quaver" "$target/book"
