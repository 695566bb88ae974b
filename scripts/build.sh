#!/usr/bin/env bash
# Builds the program with all that it looks for beside itself: the recorder of `quaver sync`, QEMU's plugin, the threaded programs
# of `quaver sync bench`. Line tables go into a file of their own beside each, where backtraces and debuggers find them.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
cargo build --release --locked --package quaver --package quaver-preload --package quaver-qemu-plugin
for built in quaver libquaver_preload.so libquaver_qemu_plugin.so; do
    scripts/split-debug.sh "$target/release/$built"
done
# One above the program, also where cargo builds elsewhere.
make --no-print-directory -C kernels OUT="$(realpath -m "$target")/kernels"
