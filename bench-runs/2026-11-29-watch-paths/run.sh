#!/usr/bin/env bash
# A watch of three paths beside a reflector that is stopped for a while.
#
#   run.sh QUAVER FOLDER
set -euo pipefail
quaver="$(realpath "$1")"
here="$(realpath "$(dirname "$0")")"
mkdir -p "$2"
cd "$2"
sed "s#@HERE@#$PWD#" "$here/watch.toml" > watch.toml
"$quaver" serve --port 26660 --stamp 8620 2> serve.log &
server=$!
"$quaver" watch --config watch.toml > ended.txt 2> log.txt &
watch=$!
trap 'kill -CONT $server; kill $server $watch' EXIT
sleep 20
"$quaver" watch status --socket watch.sock > status.txt
kill -STOP $server
stopped="$(date +%s.%N)"
sleep 9
"$quaver" watch status --socket watch.sock >> status.txt
kill -CONT $server
echo "stopped for $(echo "$(date +%s.%N) - $stopped" | bc) s" > stopped.txt
sleep 5
"$quaver" watch status --socket watch.sock >> status.txt
"$quaver" watch metrics --socket watch.sock | grep path_ > metrics.txt
"$quaver" top --plain --socket watch.sock --for 3s > top.txt
trap - EXIT
kill $watch
wait $watch || true
kill $server
