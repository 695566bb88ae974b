#!/usr/bin/env bash
# OWAMP and TWAMP against perfSONAR's programs: owping and twping to our server, our client to owampd and twampd. Takes a
# folder with bin/ of them (github.com/perfsonar/owamp, built by hand; no package of the distribution has them) and the
# quaver to try. All traffic stays on loopback; takes about a minute.
#   scripts/interop/owamp.sh /opt/owamp target/debug/quaver
set -euo pipefail
peers="$1/bin"
quaver="$2"
place="$(mktemp -d)"
started=()
end() {
    kill "${started[@]}" 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT

say() { printf '\n$ %s\n' "$*"; }
ours() {
    say "quaver probe $*"
    "$quaver" probe "$@" --output "$place/runs" 2>&1 | sed -n '/^  Up:/p;/^  Down:/p;/^  sent /p;/^  arrived /p;/^  lost /p;/^  duplicates /p;/^quaver: /p'
}
theirs() {
    say "$*"
    "$peers/$@" 2>&1 | grep -E 'sent|time|delay|jitter|hops|rejected|denied' | grep -v NTP
}

printf 'limit root with disk=0, bandwidth=0, delete_on_fetch=on\nassign default root\n' >"$place/owamp-server.limits"
printf 'limit root with bandwidth=0\nassign default root\n' >"$place/twamp-server.limits"
printf 'testports 20760-21960\nsrcnode 127.0.0.1:23961\ndatadir %s\nvardir %s\n' "$place" "$place" >"$place/owamp-server.conf"
printf 'testports 22760-23560\nsrcnode 127.0.0.1:23962\nvardir %s\n' "$place" >"$place/twamp-server.conf"
"$peers/owampd" -c "$place" -f -Z >"$place/owampd.log" 2>&1 & started+=($!)
"$peers/twampd" -c "$place" -f -Z >"$place/twampd.log" 2>&1 & started+=($!)
"$quaver" serve --bind 127.0.0.1 --port 23971 --test-port 23972 --owamp 23981 --twamp 23982 >"$place/serve.log" 2>&1 & started+=($!)
sleep 2

theirs twping -c 500 -i 0.005f 127.0.0.1:23982
theirs twping -c 200 -i 0.01e -s 1000 -D EF 127.0.0.1:23982
theirs owping -c 500 -i 0.005f 127.0.0.1:23981
theirs owping -c 200 -i 0.01e -s 400 127.0.0.1:23981
theirs owping -t -c 10000 -i 0.001f 127.0.0.1:23981
theirs owping -f -c 10000 -i 0.001f 127.0.0.1:23981
ours 127.0.0.1 --twamp 23962 --period 5ms --count 500
ours 127.0.0.1 --twamp 23962 --period 10ms --count 200 --size 1000 --dscp ef
ours 127.0.0.1 --owamp 23961 --period 5ms --count 500
ours 127.0.0.1 --owamp 23961 --period 10ms --count 200 --size 400 --schedule poisson
ours 127.0.0.1 --owamp 23961 --period 1ms --count 10000 --at-once
ours 127.0.0.1 --owamp 23981 --period 1ms --count 10000 --at-once
say "quaver serve ... (its log)"
sed 's/^[^ ]* //' "$place/serve.log"
