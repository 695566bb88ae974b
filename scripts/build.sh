#!/usr/bin/env bash
# Builds the program with all that it looks for beside itself: the simulator, the recorder of `quaver sync`, QEMU's plugin, the threaded programs
# of `quaver sync bench`.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --package quaver --package quaver-sim-program --package quaver-preload \
  --package quaver-qemu-plugin
# One above the program, also where cargo builds elsewhere.
make --no-print-directory -C kernels OUT="$(realpath -m "${CARGO_TARGET_DIR:-target}")/kernels"
