#!/bin/sh
# sh compare.sh QUAVER FOLDER      --compare that is asked to end, and on disks that are full or fill up
Q=$1; cd "$2" || exit 1
ask="capture --compare --pattern 2 --packets 60 --rounds 3 --no-loss"
rm -rf runs-i runs-j
for at in 0.3 1.5 4; do for sig in INT TERM HUP; do
    $Q $ask --starts 5 --runs runs-i --json > i.json 2> i.err & p=$!
    sleep $at; kill -$sig $p; wait $p
    echo "$sig after $at s: status $?, $(python3 -c "import json; p = json.load(open('i.json'))['patterns'][0]; print(p['sent'], 'sent,', p['user'][0]['overhead']['count'], 'stamps of the first arm')")"
done; done
$Q $ask --starts 2 --runs runs-j --json > a.json 2> /dev/null
$Q analyze runs-j/* --json > b.json; cmp a.json b.json && echo "analysed again: the same bytes"
python3 -c "
import json; p = json.load(open('a.json'))['patterns'][0]
print('sent', p['sent'], 'past the checkpoints of the kernel', sum(arm[1]['count'] for arm in p['kernel']['between']))"
mkdir -p full
for size in 8k 100k 40m; do
    mount -t tmpfs -o size=$size cmpfull full
    $Q $ask --starts 4 --runs full > f.txt 2> f.err & p=$!
    sleep 1.2; dd if=/dev/zero of=full/hog bs=4k 2> /dev/null; wait $p
    echo "disk of $size: status $?, $(tail -1 f.err)"; grep -A4 "kernel part\|Kernel part" f.txt
    umount full
done
