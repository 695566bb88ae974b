#!/usr/bin/env bash
# Makes the traces that are kept in the tree: programs of kernels/ at 16 threads, traced in QEMU, as text.
# usage: scripts/traces.sh [OUT]      OUT: default simulator/sim/traces
set -euo pipefail
cd "$(dirname "$0")/.."
out="$(realpath -m "${1:-simulator/sim/traces}")"
target="${CARGO_TARGET_DIR:-target}"

# Program, size, other options: small enough that all of them together are a megabyte or so of text.
traces="
barnes 88
fmm 256
lu 96
ocean 16 -bposix
radix 3600
raytrace 32
water-nsquared 64
water-spatial 64
"

cargo build --release --locked --package quaver --package quaver-sim-program --package quaver-preload \
  --package quaver-qemu-plugin
make --no-print-directory -C kernels OUT="$(realpath -m "$target")/kernels"
quaver="$(realpath "$target/release/quaver")"
mkdir -p "$out"
made="$(mktemp -d)"
trap 'rm -r "$made"' EXIT
export PATH="$(realpath "$target/kernels"):$PATH"
while read -r program size other; do
    [ -n "$program" ] || continue
    "$quaver" sim trace -o "$made/$program.qtrace" -- "$program" -p16 "-n$size" ${other:+"$other"}
    "$quaver" sim trace --armour "$made/$program.qtrace" -o "$out/$program.qtrace.txt"
done <<<"$traces"
ls -l "$out"
