#!/usr/bin/env bash
# Builds the book into target/book and follows all of its links; with --browse also opens it in a browser.
# usage: scripts/book.sh [--browse] [QUAVER]    (the program whose help becomes pages; default: built here)
set -euo pipefail
cd "$(dirname "$0")/.."

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
# One version for everybody, as of cargo-deny in lint.sh.
mdbook="$(scripts/tool.sh mdbook 0.5.4 --no-default-features --features search)"
browse=""
[ "${1:-}" != --browse ] || { browse=1 && shift; }
quaver="${1:-}"
if [ -z "$quaver" ]; then
    cargo build --quiet --locked --package quaver --package quaver-sim-program
    quaver="$target/debug/quaver"
fi
cargo xtask book "$mdbook" "$quaver" "$target/book"
[ -z "$browse" ] || PYTHONDONTWRITEBYTECODE=1 tests/browser/book_test.py "$target/book"
