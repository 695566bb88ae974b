#!/usr/bin/env bash
# Builds everything that is given away, into target/dist/packages: an archive, a Debian package, an RPM, a container image, the
# debug information, a bill of materials and checksums. Two builds of one commit by the same tools are equal, wherever they are.
set -euo pipefail
cd "$(dirname "$0")/.."

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist"
static="$target/static"
mkdir -p "$static"
# The linker meets these before the shared ones, so that the program needs no library but the compiler's and the C library. These stay shared:
# capture filters load libpcap into the program, and the recorder of `quaver sync` is loaded into those of others.
for library in elf z; do
    found="$(cc -print-file-name="lib$library.a")"
    if [ ! -f "$found" ]; then
        echo "dist: lib$library.a is missing: run scripts/setup.sh dist" >&2
        exit 3
    fi
    ln -sf "$found" "$static/lib$library.a"
done

# No folder of this machine is named in the programs.
rust="$(rustc --print sysroot)/lib/rustlib/src/rust"
export CARGO_ENCODED_RUSTFLAGS
CARGO_ENCODED_RUSTFLAGS="$(printf '%s\x1f%s\x1f%s' "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/usr/src/cargo" \
    "--remap-path-prefix=$rust=/usr/src/rust" "--remap-path-prefix=$PWD=/usr/src/quaver")"
export CPPFLAGS="-ffile-prefix-map=$PWD=/usr/src/quaver"
export CARGO_INCREMENTAL=0 LIBBPF_SYS_LIBRARY_PATH="$static"
# Optimised as one piece, the installed program is a fifth smaller, and takes longer to build.
export CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH
CARGO_TARGET_DIR="$target" scripts/build.sh

rm -rf "$target/packages"
packaging/pack.sh "$target/release" "$target/packages" tar debug deb rpm oci
