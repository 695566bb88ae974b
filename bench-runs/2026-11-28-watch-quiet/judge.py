# judge.py DIRECTORY LIMIT_MS: of each trigger of the watch, whether the receiver itself read a packet that late at that time.
# A window lasts a second after its first trigger, and names the worst packet in it. True: the receiver read a packet as late, within 0.15 ms.
import sys, json, re, glob, datetime
place, limit = sys.argv[1], float(sys.argv[2])
own = []
for line in open(f"{place}/recv.log"):
    found = re.match(r"([\d.]+) packet \d+ held ([\d.]+) ms late ([\d.]+) ms", line)
    if found: own.append(tuple(map(float, found.groups())))
load = [(float(line.split()[0]), line.split(" ", 1)[1].split(" rss")[0]) for line in open(f"{place}/load.log")]
triggers = []
for path in glob.glob(f"{place}/data/incidents/*/manifest.json"):
    asked = json.load(open(path))["asked"]
    triggers.append((asked["trigger_realtime_ns"] / 1e9, "kept", asked["trigger"]))
for line in open(f"{place}/watch.log"):
    found = re.search(r"the incident of (\S+)Z is lost: .*?: (a packet .*|the program .*|nobody .*)", line)
    if found:
        at = datetime.datetime.fromisoformat(found[1]).replace(tzinfo=datetime.timezone.utc).timestamp()
        triggers.append((at, "lost", found[2]))
false, worst = 0, 0.0
for at, fate, words in sorted(triggers):
    said = [float(number) for number in re.findall(r"([\d.]+) ms", words)]
    near = [value for when, held, late in own if -0.1 < when - at < 1.1 for value in (held, late)]
    off, best = min(((abs(value - ms), value) for value in near for ms in said), default=(9.9, None))
    true = off < 0.15
    false += not true
    if true: worst = max(worst, off)
    then = min(load, key=lambda one: abs(one[0] - at), default=(0, ""))[1]
    print(f"{at:.3f} {fate} {words}: the receiver's own: {best} ms: {'true' if true else 'FALSE'}; {then}")
print(f"{len(triggers)} triggers, {false} false; amounts of the others differ by {worst:.3f} ms at most")
