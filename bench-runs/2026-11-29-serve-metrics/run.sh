#!/usr/bin/env bash
# What Prometheus reads of a server and a mesh, beside what their own pages and logs say; and what scrapes cost.
#   run.sh QUAVER FOLDER      as root: everything runs in a network namespace that is made and removed here
set -euo pipefail
quaver=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
mkdir -p "$2"
cd "$2"
name=quaver-serve-metrics
ip netns add $name
inside() { ip netns exec $name "$@"; }
pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; wait; ip netns del $name' EXIT
inside ip link set lo up
ip netns exec $name "$quaver" serve --stamp 8620 --metrics 127.0.0.1:9471 2> server.log &
pids+=($!)
sleep 1
cost() { inside curl -s http://127.0.0.1:9471/metrics | awk '/^quaver_serve_cpu_seconds_total/ { print $2 }'; }
# At rest: blocks of 10 s, without and with a scrape each second.
for block in 1 2 3; do
  for scrapes in 0 10; do
    before=$(cost)
    for _ in $(seq 10); do
      if [ $scrapes = 10 ]; then inside curl -s http://127.0.0.1:9471/metrics > page.txt; fi
      sleep 1
    done
    echo "$block $scrapes $(cost) $before" | awk '{ printf "block %d, %d scrapes: %.4f CPU seconds\n", $1, $2, $3 - $4 }'
  done
done > cost.txt
ip netns exec $name prometheus --config.file="$here/prometheus.yml" --storage.tsdb.path=tsdb --web.listen-address=127.0.0.1:9490 2> prometheus.log &
pids+=($!)
sleep 3
ip netns exec $name "$quaver" probe --mesh "$here/hosts.toml" --here oslo --every 8s --rounds 3 --for 2s --period 1ms --quiet -o runs \
  --metrics 127.0.0.1:9472 > mesh.txt 2> mesh.log &
mesh=$!
inside "$quaver" probe 127.0.0.1:8620 --stamp --period 1ms --for 15s --quiet -o runs > stamp.txt
# A flood that the reflector's socket has no room for, while the reflector is stopped.
kill -STOP "${pids[0]}"
inside python3 - <<'P'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(60000):
    s.sendto(b"short", ("127.0.0.1", 8620))
P
kill -CONT "${pids[0]}"
sleep 2
query() {
  inside curl -sG http://127.0.0.1:9490/api/v1/query --data-urlencode "query=$1" |
    python3 -c 'import json,sys
for one in json.load(sys.stdin)["data"]["result"]:
    labels = {k: v for k, v in one["metric"].items() if k not in ("job", "instance")}
    print(labels.pop("__name__"), labels, one["value"][1])'
}
query '{__name__=~"quaver_mesh_(tests|failed_tests|packets|lost_packets|pdv_seconds_count|rounds).*",__name__!~".*bucket"}' > mesh-read.txt
wait $mesh || true
sleep 2
query '{__name__=~"quaver_serve_.*"}' > serve-read.txt
inside curl -s http://127.0.0.1:9490/api/v1/targets | python3 -c 'import json,sys
for one in json.load(sys.stdin)["data"]["activeTargets"]: print(one["scrapeUrl"], one["health"], one["lastError"])' > targets.txt
rm -rf tsdb runs page.txt
