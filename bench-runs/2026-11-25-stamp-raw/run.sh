#!/usr/bin/env bash
# usage: run.sh [QUAVER] [NAME]; as root
set -e
Q=${1:-quaver}; OUT=${2:-capture}
ip netns add qs-a; ip netns add qs-b
trap 'ip netns del qs-a; ip netns del qs-b' EXIT
ip link add va netns qs-a type veth peer name vb netns qs-b
ip -n qs-a addr add 10.77.0.1/24 dev va; ip -n qs-b addr add 10.77.0.2/24 dev vb
ip -n qs-a link set va up; ip -n qs-b link set vb up; ip -n qs-b link set lo up
ip netns exec qs-b $Q capture -i vb -o $OUT.pcapng --json --stamp raw --pipeline threaded --direction in udp dst port 9 > $OUT.capture.json 2>$OUT.err &
P=$!
for i in $(seq 100); do grep -q '^capturing on' $OUT.err && break; sleep 0.1; done
ip netns exec qs-a python3 - <<'P'
import socket,time
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
for i in range(100000):
    try: s.sendto(b'x'*22,('10.77.0.2',9))
    except OSError: pass
P
sleep 0.5; kill -INT $P; wait $P
$Q analyze $OUT.pcapng --json > $OUT.analyze.json
