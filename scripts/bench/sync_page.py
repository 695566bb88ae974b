"""The part of a bench page on synchronisation between threads."""

import re
import statistics

LIMIT_OCTETS = 8
LIMIT_CALL_NS = 60
LIMIT_EVENT_NS = 30
LIMIT_SECONDS = 30
LIMIT_MIB = 512
PEERS = ("quaver", "perf", "bpftrace", "mutrace", "ltrace")
TITLES = {
    "plain": "without any",
    "quaver": "quaver sync",
    "perf": "perf trace -e futex",
    "bpftrace": "uprobes by bpftrace",
    "mutrace": "mutrace",
    "ltrace": "ltrace",
}


def sync(page, directory):
    import json

    found = json.loads((directory / "programs.json").read_text())
    page.add("## Threads: `quaver sync bench`", "")
    page.add(f"{found['threads']} threads on {found['cpus']} CPUs, threshold {found['threshold_ns'] / 1e3:g} us.", "")
    again = directory / "programs-again.json"
    more = json.loads(again.read_text()) if again.exists() else {"programs": []}
    programs(page, found, {one["program"]: one["cost"] for one in more["programs"]})
    density(page, directory)
    cost(page, directory)
    peers(page, directory)
    analysis(page, directory)


def percent(value):
    return f"{100 * value:+.1f} %"


def number(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def programs(page, found, again):
    """`again`: cost by program, of those that were measured a second time with more pairs."""
    rows, above, undecided, coverage, costs = [], [], [], [], []
    for one in found["programs"]:
        cost, row = again.get(one["program"]) or one["cost"], one["row"] or {}
        if not cost:
            continue
        costs.append(cost)
        interval = cost["interval"]
        told = f"{percent(interval['low'])} to {percent(interval['high'])}" if interval else "-"
        runs = one["runs"]
        waits, matched = sum(run["wake_ups"] for run in runs), sum(run["matched"] for run in runs)
        coverage.append((matched, waits))
        rows.append((one["program"], f"{cost['unrecorded_ns'] / 1e6:.1f}", f"{cost['recorded_ns'] / 1e6:.1f}",
                     percent(cost["overhead"]), told, cost["pairs"], cost["verdict"], sum(run["events"] for run in runs) // len(runs),
                     f"{matched} of {waits}", number(row.get("events_per_ms")), number(row.get("mean_us"), "{:.1f}"),
                     number(row.get("late_us_per_ms"), "{:.1f}"), number(row.get("slowdown_percent")),
                     number(one["sync_share"])))
        if cost["verdict"] == "above":
            above.append(one["program"])
        elif cost["verdict"] == "undecided":
            undecided.append(one["program"])
    if again:
        page.add("Those that 45 pairs left undecided were measured again with 200, and only that is shown.", "")
    page.table(("program", "unrecorded ms", "recorded ms", "overhead", "95 %", "pairs", "verdict", "events", "wake-ups matched",
                "late/ms", "mean us", "jitter us/ms", "slowdown %", "sync share"), rows)
    worst = max((cost["overhead"] for cost in costs), default=0)
    told = f"worst {percent(worst)}"
    if above:
        told += "; above: " + ", ".join(above)
    if undecided:
        told += "; undecided: " + ", ".join(undecided)
    page.target("sync: whole-program time of every bundled program", "within 3 % of unrecorded", told, not above and not undecided)
    matched, waits = (sum(column) for column in zip(*coverage))
    share = matched / waits if waits else 0
    page.target("sync: wake-ups matched with their waker", "above 99.999 %", f"{100 * share:.4f} % of {waits}", share > 0.99999)


def density(page, directory):
    rows = [line.split() for line in (directory / "density.txt").read_text().splitlines()]
    events, octets = (sum(int(row[column]) for row in rows) for column in (1, 2))
    page.add("### Octets a record, packed", "")
    page.table(("program", "events", "octets", "octets an event"), rows)
    mean = octets / max(events, 1)
    page.target("sync: octets an event after compaction, all programs together", f"at most {LIMIT_OCTETS}",
                f"{mean:.2f}", mean <= LIMIT_OCTETS)


def cost(page, directory):
    path = directory / "cost.txt"
    if not path.exists():
        return
    text = path.read_text().rstrip()
    page.add("### A call and an event", "", "Nanoseconds; the least disturbed of the rounds.", "", "```text", text, "```", "")
    rows = [line.split() for line in text.splitlines() if re.fullmatch(r"\S+( +(-|-?[\d.]+)){4}", line.strip())]
    calls = {row[0]: float(row[3]) for row in rows}
    events = {row[0]: float(row[4]) for row in rows if row[4] != "-"}
    if calls:
        worst = max(calls, key=calls.get)
        page.target("sync: cost of a wrapped call", f"at most {LIMIT_CALL_NS} ns", f"worst {calls[worst]:.1f} ns ({worst})",
                    calls[worst] <= LIMIT_CALL_NS)
    if events:
        worst = max(events, key=events.get)
        page.target("sync: cost of an event", f"at most {LIMIT_EVENT_NS} ns", f"worst {events[worst]:.1f} ns ({worst})",
                    events[worst] <= LIMIT_EVENT_NS)
    told = re.search(r"^uprobe: .* (\d+) times an event recorded", text, re.M)
    if told:
        page.target("sync: cheaper than an uprobe, an event", "at least ten times", f"{told[1]} times", int(told[1]) >= 10)


def times(directory, program, tool):
    path = directory / f"peers-{program}-{tool}.txt"
    lines = path.read_text().split("\n") if path.exists() else []
    values = [float(line) for line in lines if re.fullmatch(r"[\d.]+", line.strip())]
    told = next((line for line in lines if line.strip() and not re.fullmatch(r"[\d.]+", line.strip())), "")
    return values, told


def peers(page, directory):
    page.add("### Other tools on the same programs", "", "Seconds that the program takes inside of each tool (median).", "")
    names = sorted({path.name.split("-")[1] for path in directory.glob("peers-*-plain.txt")})
    for program in names:
        plain, _ = times(directory, program, "plain")
        base = statistics.median(plain)
        rows, added = [("without any", f"{base:.2f}", "", "")], {}
        for tool in PEERS:
            values, told = times(directory, program, tool)
            if not values:
                rows.append((TITLES[tool], "-", "-", told or "not run"))
                continue
            middle = statistics.median(values)
            added[tool] = middle - base
            rows.append((TITLES[tool], f"{middle:.2f}", percent(middle / base - 1), told))
        page.add(f"**{program}**", "")
        page.table(("tool", "seconds", "more than without", ""), rows)
        judge_peers(page, program, added, base)


def judge_peers(page, program, added, base):
    # The time is taken in steps of 10 ms: less than one of them is not told apart from nothing.
    ours = max(added.get("quaver", base), 0.01)
    if "bpftrace" in added:
        ratio = added["bpftrace"] / ours
        page.target(f"sync: cheaper than uprobes on {program}", "at least ten times", f"{ratio:.0f} times (or more)", ratio >= 10)
    for tool in ("perf", "mutrace", "ltrace"):
        if tool in added:
            page.target(f"sync: cheaper than {TITLES[tool]} on {program}", "cheaper",
                        f"{added[tool] * 1e3:.0f} ms against {max(added.get('quaver', base), 0) * 1e3:.0f} ms",
                        added.get("quaver", base) < added[tool] or added.get("quaver", base) < 0.01)


def analysis(page, directory):
    told = (directory / "analysis.txt").read_text().strip()
    seconds, kib = re.search(r"([\d.]+) s, (\d+) KiB", (directory / "analysis-time.txt").read_text()).groups()
    mib = int(kib) / 1024
    page.add("### A long history analysed", "", "```text", told, f"whole program: {seconds} s, {mib:.0f} MiB", "```", "")
    page.target("sync: 100 million events analysed", f"under {LIMIT_SECONDS} s", f"{seconds} s", float(seconds) < LIMIT_SECONDS)
    page.target("sync: memory of that", f"under {LIMIT_MIB} MiB", f"{mib:.0f} MiB", mib < LIMIT_MIB)
