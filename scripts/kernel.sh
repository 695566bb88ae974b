#!/usr/bin/env bash
# Makes the library of kernel activity that is kept in the tree: what the kernel of a guest of the QEMU lab did, as text.
# usage: scripts/kernel.sh [OUT [OCTETS]]      OUT: default simulator/sim/kernel; OCTETS of the library before it is text
set -euo pipefail
cd "$(dirname "$0")/.."
out="$(realpath -m "${1:-simulator/sim/kernel}")"
octets="${2:-280k}"
target="${CARGO_TARGET_DIR:-target}"

cargo build --release --locked --package quaver --package quaver-sim-program --package quaver-preload \
  --package quaver-qemu-plugin
quaver="$(realpath "$target/release/quaver")"
"$quaver" lab fetch
mkdir -p "$out"
made="$(mktemp -d)"
trap 'rm -r "$made"' EXIT
"$quaver" sim trace --system --entries 50M --for 10m -o "$made/kernel.qepochs"
"$quaver" sim trace --thin "$made/kernel.qepochs" --octets "$octets" -o "$made/small.qepochs"
"$quaver" sim trace --armour "$made/small.qepochs" -o "$out/kernel.qepochs.txt"
"$quaver" sim trace --info "$out/kernel.qepochs.txt"
ls -l "$out"
