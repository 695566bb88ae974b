#!/usr/bin/env bash
# Injects known interference into running chases and checks that each kind is named. Needs root and two CPUs.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --package quaver
cargo build --release --locked --package quaver-testbed --bins --example inject_preload
exec "${CARGO_TARGET_DIR:-target}/release/truth" "$@"
