#!/usr/bin/env bash
# STAMP against an implementation that others wrote: their sender to our reflector, our sender to their reflector.
# Installs, the first time, stamp-suite from crates.io into the target directory (some two minutes on two CPUs);
# after that it takes some ten seconds. Needs python3. All traffic stays on loopback.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=1.0.0
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
root="$target/interop/stamp-suite-$version"

if [ ! -x "$root/bin/stamp-suite" ]; then
    echo "interop: installing stamp-suite $version (MIT) from crates.io into $root"
    # Without optimisation: it answers some hundred packets.
    CARGO_TARGET_DIR="$target/interop/build" CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --quiet --locked --debug --version "$version" --features ttl-nix --root "$root" stamp-suite
    rm -rf "$target/interop/build"
fi
# As the tests are built: a package by itself would have its dependencies built again with other features.
cargo build --quiet --locked --workspace --all-targets
python3 scripts/interop/stamp.py "$target/debug/examples/stamp" "$root/bin/stamp-suite"
