"""Medians of blocks.jsonl, and of the differences to `off` of the same round with a 95 % interval of the median (binomial)."""

import collections
import json
import pathlib
import statistics

blocks = [json.loads(line) for line in (pathlib.Path(__file__).parent / "blocks.jsonl").open()]
rounds = collections.defaultdict(dict)
for one in blocks:
    rounds[one["round"]][one["arm"]] = one
whole = [arms for arms in rounds.values() if len(arms) == len(rounds[0])]


def interval(values):
    """Order statistics that hold the median of 95 % of samples."""
    values, n = sorted(values), len(values)
    share, rank = 0.5**n, 0
    term = share
    while share < 0.025 and rank < n // 2:
        rank += 1
        term = term * (n - rank + 1) / rank
        share += term
    return values[max(rank - 1, 0)], values[min(n - rank, n - 1)]


print("arm            switch+wake-up  more than off [95 %]        BPF runs/switch  BPF ns/run")
for arm in rounds[0]:
    own = [arms[arm] for arms in whole]
    more = [arms[arm]["switch_ns"] - arms["off"]["switch_ns"] for arms in whole]
    low, high = interval(more)
    runs = sum(one["runs"] for one in own)
    each = sum(one["run_ns"] for one in own) / runs if runs else 0
    switches = sum(one["switches"] for one in own)
    time = statistics.median(one["switch_ns"] for one in own)
    print(
        f"{arm:14} {time:9.0f} ns   {statistics.median(more):7.0f} ns [{low:6.0f}, {high:6.0f}]"
        f"   {runs / switches:10.2f}   {each:10.1f}"
    )
