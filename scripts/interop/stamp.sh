#!/usr/bin/env bash
# STAMP against an implementation that others wrote: their sender to our reflector, our sender to their reflector.
# Builds, the first time, stamp-suite from crates.io (some two minutes on two CPUs); after that it takes some ten seconds.
# Needs python3. All traffic stays on loopback.
set -euo pipefail
cd "$(dirname "$0")/../.."

stamp_suite="$(scripts/tool.sh stamp-suite 1.0.0 --features ttl-nix)"
# As the tests are built: a package by itself would have its dependencies built again with other features.
cargo build --quiet --locked --workspace --all-targets
python3 scripts/interop/stamp.py "${CARGO_TARGET_DIR:-target}/debug/examples/stamp" "$stamp_suite"
