#!/usr/bin/env bash
# Moves the debug information of a program or shared object into FILE.debug beside it, and links the two.
# usage: scripts/split-debug.sh FILE
set -euo pipefail

file="$1"
# Read whole: a pipe to grep -q fails where grep ends before readelf has written all.
sections="$(readelf --section-headers --wide "$file")"
[[ "$sections" == *" .debug_line "* ]] || exit 0
cd "$(dirname "$file")"
name="$(basename "$file")"
objcopy --only-keep-debug "$name" "$name.debug"
# Replaced as a whole: cargo holds the first file under another name, too.
objcopy --strip-all --add-gnu-debuglink="$name.debug" "$name" "$name.stripped"
mv "$name.stripped" "$name"
