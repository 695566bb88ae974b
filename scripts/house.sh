#!/usr/bin/env bash
# Prints what the house costs to change: lines, circles, names, ways through the code, and with --builds what building takes.
# usage: scripts/house.sh [--builds]    (--builds compiles in a directory of its own: ten minutes and 5 GB)
set -euo pipefail
cd "$(dirname "$0")/.."

row() { printf '| %-64s | %14s |\n' "$1" "$2"; }
rust() { git ls-files '*.rs' | grep -vE '/(tests|examples|benches)/|tests?\.rs$|^testbed/|^fuzz/|^xtask/'; }
# Files and lines of the product that match.
files() { rust | xargs grep -lE "$1" | wc -l || true; }
lines() { rust | xargs grep -hE "$1" | wc -l || true; }
types() { lines "^\s*(pub(\([a-z:]+\))? )?(struct|enum) $1\b"; }

sizes="$(cargo xtask size)"
row "what" "today"
row "---" "---:"
row "product lines" "$(awk '$1 == "total" { print $(NF-1) }' <<<"$sizes")"
row "largest crate, lines" "$(awk '$1 ~ /^quaver/ { print $(NF-1), $1 }' <<<"$sizes" | sort -rn | head -1)"
row "circles of imports inside crates" "$(cargo xtask circles | awk '/circles$/ { print $1 }')"
row "lines that name a run's kind outside its instrument" "$(git ls-files 'quaver/src/*.rs' | xargs grep -hE '\bHolds\b|verb == "' | wc -l || true)"
row "lines that take written numbers apart again" "$(lines 'fn micro\(|replace\(" (us|µs|ns|ms)"')"
row "files that write markup of drawings" "$(rust | grep -v '^core/view/' | xargs grep -lE '<svg|<rect|<path ' | wc -l || true)"
for name in Direction ClockStep Place State Page; do
    row "types named $name" "$(types "$name")"
done
row "files that ChaseArgs passes through" "$(files '\bChaseArgs\b')"

[ "${1:-}" = --builds ] || exit 0
work="$(mktemp -d)"
trap 'rm -rf "$work"; git checkout --quiet quaver/src/lib.rs 2>/dev/null || true' EXIT
git diff --quiet quaver/src/lib.rs || { echo "house: quaver/src/lib.rs has changes that are not committed" >&2; exit 1; }
export CARGO_TARGET_DIR="$work"
# CPU time of the shell's children, user and system, in seconds; and the time that passes.
timed() { local TIMEFORMAT='%U %S %R'; { time "$@" >"$work.log" 2>&1; } 2>&1 || { cat "$work.log" >&2; return 1; }; }
whole="$(timed scripts/build.sh)"
row "release build from nothing, CPU-minutes" "$(awk '{ printf "%.1f", ($1 + $2) / 60 }' <<<"$whole")"
row "program, MB" "$(stat -c %s "$work/release/quaver" | awk '{ printf "%.1f", $1 / 1e6 }')"
cargo build --quiet --package quaver
echo "// one line more" >> quaver/src/lib.rs
row "after one line in the program's crate, debug build, s" "$(timed cargo build --package quaver | awk '{ print $3 }')"
row "after one line in the program's crate, release build, s" "$(timed cargo build --release --package quaver | awk '{ print $3 }')"
