"""Medians of the differences in `runs.jsonl` within a round, with the interval in which 95 % of medians of redrawn rounds lie.

usage: judge.py runs.jsonl
"""

import collections
import json
import random
import statistics
import sys

found = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    one = json.loads(line)
    found[one["kind"], one["round"]][one["arm"]] = one["ns"]
draw = random.Random(20)
for kind in ["lock-unlock", "spin"]:
    rounds = [arms for (of, _), arms in found.items() if of == kind and len(arms) == 4]
    alone = statistics.median(arms["alone"] for arms in rounds)
    before = statistics.median(arms["before"] for arms in rounds)
    print(f"{kind}: {len(rounds)} rounds; a call takes {alone:.2f} ns alone, {before:.2f} ns with the recorder before")
    for name, one, other in [("now - before", "now", "before"), ("again - before (A/A)", "again", "before")]:
        differences = [arms[one] - arms[other] for arms in rounds]
        middle = statistics.median(differences)
        redrawn = sorted(statistics.median(draw.choices(differences, k=len(differences))) for _ in range(4000))
        low, high = redrawn[100], redrawn[3899]
        print(f"  {name}: {middle:+.3f} ns a call [{low:+.3f}, {high:+.3f}], {2 * middle:+.3f} ns a lock and its unlock")
