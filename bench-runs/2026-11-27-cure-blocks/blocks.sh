#!/bin/bash
# blocks.sh BINARY... : alternates the binaries, prints what a block takes beside what it measures.
port=23456
RECEIVER='import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", int(sys.argv[1])))
while True: s.recv(2048)'
taskset -c 1 python3 -c "$RECEIVER" $port & R=$!
taskset -c 0 chrt -f 40 "$1" source 127.0.0.1:$port --period 500us --pace sleep --for 1h --quiet >/dev/null 2>&1 & S=$!
sleep 1
for round in $(seq 1 ${ROUNDS:-5}); do
  for one in "$@"; do
    rm -rf runs
    $one cure --pid $R --only cstate --for 1s --dry-run --yes --quiet --json --output runs 2>err | python3 -c "
import json,sys,re
s=json.load(sys.stdin)
print(json.dumps({'binary':'$one','round':$round,'outcome':s['outcome'],'load':open('/proc/loadavg').read().split()[0]}))"
  done
done
kill $R $S; wait 2>/dev/null
