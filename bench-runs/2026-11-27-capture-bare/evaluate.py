"""Medians of measure.py's rows, and ratios to an arm within rounds.   usage: evaluate.py ROWS ARM"""

import json
import random
import statistics
import sys

rows = [json.loads(line) for line in open(sys.argv[1])]
base = sys.argv[2]
random.seed(1)
for period in dict.fromkeys(row["period"] for row in rows):
    of = [row for row in rows if row["period"] == period]
    cost = {(row["name"], row["round"]): row["used_ns"] / max(row["captured"], 1) for row in of}
    for name in dict.fromkeys(row["name"] for row in of):
        mine = [row for row in of if row["name"] == name]
        costs = sorted(cost[name, row["round"]] for row in mine)
        lost = sorted(1 - row["captured"] / row["sent"] for row in mine)
        ratios = [cost[name, row["round"]] / cost[base, row["round"]] for row in mine if (base, row["round"]) in cost]
        draws = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
        print(
            f"{period:8} {name:14} {statistics.median(costs):6.0f} ns a packet ({costs[0]:.0f} to {costs[-1]:.0f})"
            f"  {statistics.median(ratios):.2f} of {base} [{draws[50]:.2f}, {draws[1949]:.2f}]"
            f"  lost {statistics.median(lost):.4%} ({lost[0]:.4%} to {lost[-1]:.4%})  {len(mine)} rounds"
        )
