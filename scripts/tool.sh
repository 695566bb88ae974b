#!/usr/bin/env bash
# Builds a program that others wrote, once for this user and not once for each clone, and prints where it is.
# usage: scripts/tool.sh PROGRAM VERSION [OPTION OF cargo install]...
set -euo pipefail

program="$1"
version="$2"
shift 2
cache="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
# Other options make another program.
kept="${cache:-/var/cache}/quaver/tools/$program-$version-$(sha256sum <<<"$*" | cut -c1-12)"
if [ ! -x "$kept/bin/$program" ]; then
    echo "tool: building $program $version into $kept" >&2
    mkdir -p "$(dirname "$kept")"
    part=$(mktemp -d "$kept.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    # Without optimisation: a minute or two on two CPUs instead of many, and what it does here takes seconds either way.
    CARGO_TARGET_DIR="$part/build" CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=0 \
        cargo install --quiet --locked --debug --root "$part" --version "$version" "$@" "$program" >&2
    rm -rf "$part/build"
    # Only a whole one gets the name.
    mv -T "$part" "$kept"
fi
echo "$kept/bin/$program"
