#!/bin/sh
# run.sh QUAVER FOLDER: a watch of a path through relay.py to `quaver serve --stamp`, for a minute.
set -e
quaver=$1 folder=$2 here=$(dirname "$0")
mkdir -p "$folder"
cat > "$folder/watch.toml" <<T
directory = "$folder/data"
socket = "$folder/watch.sock"
[window]
before = "2s"
after = "1s"
[[path]]
name = "far"
host = "127.0.0.1"
port = 8620
every = "20ms"
late = "20ms"
losses = 5
T
"$quaver" serve --stamp 8621 --port 2671 > "$folder/serve.txt" 2>&1 & serve=$!
python3 "$here/relay.py" & relay=$!
sleep 0.5
"$quaver" watch --config "$folder/watch.toml" > "$folder/watch.txt" 2>&1 & watch=$!
sleep 56
"$quaver" watch status --socket "$folder/watch.sock" > "$folder/status.txt"
"$quaver" watch metrics --socket "$folder/watch.sock" | grep path > "$folder/metrics.txt"
kill $watch $relay $serve
wait $watch || true
