#!/bin/sh
# Programs under wrappers: status and output bare and recorded, and the verdict. QUAVER names the program.
printf './gain lock 0\ntrue\n' > gain.sh
runs=$(mktemp -d)
while read -r words; do
	$words > bare 2> /dev/null; bare=$?
	QUAVER_RUNS=$runs ${QUAVER:-quaver} sync -- $words > recorded 2> page; recorded=$?
	grep -v -e own -e '^[0-9]*$' bare > bare.rest; grep -v -e own -e '^[0-9]*$' recorded > recorded.rest
	same=differs; cmp -s bare.rest recorded.rest && same=same
	echo "$words | $bare $recorded $same | $(grep -A1 -E 'Threads waited|No synch' page | head -2 | tr -s ' \n' ' ')"
	grep -E ' % +(Sleep|Hold|Split)' page
done << 'W'
timeout 0.2 ./ta endpthread
timeout 20 ./gain lock 0
timeout 20 sh gain.sh
setsid -w ./ta bar2
nice -n 5 ./ta semg
env -i ./ta semg
stdbuf -oL ./ta rec
chrt -f 5 ./ta rec
taskset -c 0,1 ./gain lock 0
setpriv --reuid=65534 --clear-groups ./ta rec
unshare -p -f ./ta rec
W
