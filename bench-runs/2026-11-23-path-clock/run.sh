#!/bin/bash
# usage: run.sh OUT.jsonl ADDRESS PORT [prefix...]
out=$1; address=$2; port=$3; shift 3
for i in $(seq 1 20); do
  d=$(mktemp -d)
  "$@" quaver probe $address --port $port --count 1000 --period 1ms --json --quiet --output $d 2>/dev/null | python3 -c "
import json,sys; s=json.load(sys.stdin); print(json.dumps({'run':$i,'clock':s['clock'],'up':s['up']['delay'],'down':s['down']['delay'],'pdv_p99_ns':[s[w]['variation']['pdv']['p99_ns'] for w in ('up','down')],'mos':[s[w]['advice']['voice'][0]['mos'] for w in ('up','down')],'warnings':s['warnings']}))" >> $out
  rm -rf $d
done
