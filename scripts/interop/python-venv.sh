#!/usr/bin/env bash
# Installs what the test of the Python package needs, or another list of packages, into an environment of its own: nothing goes into
# the system.
# usage: python-venv.sh [--where] [LIST]    with --where only says where it is
set -euo pipefail
cd "$(dirname "$0")/../.."

cache="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
where=""
[ "${1:-}" != --where ] || { where=1 && shift; }
# Another list of packages is another environment.
list="${1:-python/requirements-test.txt}"
directory="${cache:-/var/cache}/quaver/python-$(sha256sum "$list" | cut -c1-12)"
if [ -n "$where" ]; then
    echo "$directory"
    exit 0
fi
[ ! -x "$directory/bin/python" ] || exit 0
echo "python: installing $list into $directory"
mkdir -p "$(dirname "$directory")"
part=$(mktemp -d "$directory.XXXXXX")
trap 'rm -rf "$part"' EXIT
python3 -m venv "$part"
"$part/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$list"
# Only a whole one gets the name; programs are started by `python -m`, so that it may move.
mv -T "$part" "$directory"
