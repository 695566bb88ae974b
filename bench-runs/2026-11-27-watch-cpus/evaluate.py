"""Results of blocks.jsonl: medians, differences to `off` of the same round with a 95 % interval, and the cost of each program."""

import collections
import json
import pathlib
import statistics

blocks = [json.loads(line) for line in (pathlib.Path(__file__).parent / "blocks.jsonl").open()]
rounds = collections.defaultdict(dict)
for one in blocks:
    rounds[one["round"]][one["load"], one["arm"]] = one


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


print(f"{len(rounds)} rounds\n\nload     arm        an operation   more than off [95 %]")
for load in ("pipe", "packets"):
    for arm in ("off", "off-again", "on"):
        own = [cells[load, arm]["op_ns"] for cells in rounds.values()]
        more = [cells[load, arm]["op_ns"] - cells[load, "off"]["op_ns"] for cells in rounds.values()]
        low, high = interval(more)
        print(f"{load:8} {arm:10} {statistics.median(own):9.0f} ns   {statistics.median(more):7.0f} ns [{low:.0f}, {high:.0f}]")

print("\nprogram                        runs   ns a run")
sums = collections.defaultdict(lambda: [0, 0])
for one in blocks:
    for name, (runs, ns) in one["programs"].items():
        sums[name][0] += runs
        sums[name][1] += ns
for name, (runs, ns) in sums.items():
    print(f"{name:27} {runs:9} " + (f"{ns / runs:10.1f}" if runs else "         -"))
each = {name: ns / runs for name, (runs, ns) in sums.items() if runs}
timer = each["local_timer_entry"] + each["local_timer_exit"]
softirq = each["softirq_entry"] + each["softirq_exit"]
switch = each["sched_switch"]
print(f"\na timer interrupt, at its low rate, {timer:.0f} ns; a softirq {softirq:.0f} ns; a switch {switch:.0f} ns")
low, high = ((50_000 * switch + 100_000 * one) / 1e7 for one in (softirq, timer))
print(f"50,000 switches and 100,000 interrupts a second: {low:.1f} % of a CPU if an interrupt costs what a frequent")
print(f"softirq does, and {high:.1f} % if it costs what a rare timer interrupt does")
print(f"series of 2 CPUs: {max(one['series'] for one in blocks)} at most")
