#!/usr/bin/env bash
# Builds the module, and compares ways to stamp in a guest. usage: run.sh QUAVER DIRECTORY [OPTION]...   (options of --compare)
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
quaver="$(realpath "$1")" out="$2"
shift 2
mkdir -p "$out/kmod"
cp "$here"/../../kmod/{quaver_stamp.c,Kbuild} "$out/kmod/"
make -s -C "$("$here/../../kmod/headers.sh" --there)" M="$(realpath "$out/kmod")" modules
cat >"$out/guest.sh" <<S
set -e
ip link set lo up
/init capture --compare --no-loss --seed 7 --runs /tmp/runs -q --json $* >/tmp/json
cd /tmp/runs/capture-compare*
echo "=== json"
cat /tmp/json
echo "=== manifest"
cat manifest.json
echo "=== page"
/init analyze . 2>/dev/null
echo "=== samples"
base64 -w 0 samples.parquet
S
"$quaver" lab run --boot tsc=reliable --boot clocksource=tsc --module veth --module "$(realpath "$out/kmod/quaver_stamp.ko")" \
    --file "$(command -v ip)" --file /bin/cat --file /bin/sh --file /usr/bin/base64 --file "$(realpath "$out/guest.sh")" \
    -- /bin/sh "$(realpath "$out/guest.sh")" >"$out/said.txt"
