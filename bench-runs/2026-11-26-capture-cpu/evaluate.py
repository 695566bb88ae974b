"""Medians of CPU time a packet, by arm, and of the quotients within a round, with 95 % intervals (bootstrap over rounds).

usage: evaluate.py ROWS.jsonl BASE
"""

import json
import random
import statistics
import sys


def interval(values):
    random.seed(1)
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(4000))
    return medians[100], medians[-101]


rows = [json.loads(line) for line in open(sys.argv[1])]
base = sys.argv[2]
cost = {(row["name"], row["round"]): (row["user_s"] + row["system_s"]) / row["sent"] * 1e6 for row in rows}
rounds = sorted({row["round"] for row in rows})
for name in dict.fromkeys(row["name"] for row in rows):
    own = [cost[name, each] for each in rounds]
    quotients = [cost[name, each] / cost[base, each] for each in rounds]
    low, high = interval(quotients)
    size = next(row["file_bytes"] / row["sent"] for row in rows if row["name"] == name)
    print(f"{name:14} {statistics.median(own):.3f} us a packet ({min(own):.3f} to {max(own):.3f})"
          f"   {statistics.median(quotients):.2f} of {base} [{low:.2f}, {high:.2f}]   {size:.0f} bytes of file")
