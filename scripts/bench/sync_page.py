"""The part of a bench page on synchronisation between threads."""

import re
import statistics

from targets import result, text, without

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


# All that kernels/ has, and the sizes of two of them that other tools run as well.
PROGRAMS = (
    "barnes", "fmm", "lu", "ocean", "radix", "raytrace", "water-nsquared", "water-spatial", "facesim", "ferret", "bodytrack", "x264",
    "raytrace-pool", "vips", "dedup", "fluidanimate", "streamcluster",
)
BESIDE = ("ocean", "raytrace")
ROUNDS = dict.fromkeys(("plain", *PEERS), 5) | {"ltrace": 1}
# Of sync-cost.c, and those of them that are recorded as events.
CALLS = ("counter", "lock-unlock", "trylock-busy", "signal", "broadcast", "rwlock", "spin", "semaphore")
EVENTS = ("signal", "broadcast")
ANALYSED = 100_000_000

WHOLE_TIME = "sync: whole-program time of every bundled program"
MATCHED = "sync: wake-ups matched with their waker"
DENSITY = "sync: octets an event after compaction, all programs together"
CALL = "sync: cost of a wrapped call"
EVENT = "sync: cost of an event"
UPROBE = "sync: cheaper than an uprobe, an event"
ANALYSIS_TIME = "sync: 100 million events analysed"
ANALYSIS_MEMORY = "sync: memory of that"


def beside(tool, program):
    """The target of a peer on a program."""
    return f"sync: cheaper than {'uprobes' if tool == 'bpftrace' else TITLES[tool]} on {program}"


SYNC_TARGETS = {
    WHOLE_TIME: "within 3 % of unrecorded",
    MATCHED: "above 99.999 %",
    DENSITY: f"at most {LIMIT_OCTETS}",
    CALL: f"at most {LIMIT_CALL_NS} ns",
    EVENT: f"at most {LIMIT_EVENT_NS} ns",
    UPROBE: "at least ten times",
    **{beside(tool, program): "at least ten times" if tool == "bpftrace" else "cheaper" for program in BESIDE for tool in PEERS if tool != "quaver"},
    ANALYSIS_TIME: f"under {LIMIT_SECONDS} s",
    ANALYSIS_MEMORY: f"under {LIMIT_MIB} MiB",
}


def sync(page, directory):
    page.expect(SYNC_TARGETS)
    page.add("## Threads: `quaver sync bench`", "")
    found = result(directory / "programs.json")
    if found:
        page.add(f"{found['threads']} threads on {found['cpus']} CPUs, threshold {found['threshold_ns'] / 1e3:g} us.", "")
        more = result(directory / "programs-again.json") or {"programs": []}
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
        if not cost or not one["runs"]:
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
    absent = [program for program in PROGRAMS if program not in [row[0] for row in rows]]
    if absent or not found["complete"]:
        told = without(absent) if absent else "broken off"
        page.judge(WHOLE_TIME, told, None)
        page.judge(MATCHED, told, None)
        return
    told = f"worst {percent(max(cost['overhead'] for cost in costs))}"
    if above:
        told += "; above: " + ", ".join(above)
    if undecided:
        told += "; undecided: " + ", ".join(undecided)
    page.judge(WHOLE_TIME, told, not above and not undecided)
    matched, waits = (sum(column) for column in zip(*coverage))
    if waits:
        page.judge(MATCHED, f"{100 * matched / waits:.4f} % of {waits}", matched / waits > 0.99999)


def density(page, directory):
    rows = [row for row in (line.split() for line in text(directory / "density.txt").splitlines()) if len(row) == 4]
    page.add("### Octets a record, packed", "")
    page.table(("program", "events", "octets", "octets an event"), rows)
    events, octets = ({row[0]: int(row[column]) for row in rows} for column in (1, 2))
    absent = [program for program in PROGRAMS if not events.get(program)]
    if absent:
        page.judge(DENSITY, without(absent), None)
        return
    mean = sum(octets.values()) / sum(events.values())
    page.judge(DENSITY, f"{mean:.2f}", mean <= LIMIT_OCTETS)


def cost(page, directory):
    told = text(directory / "cost.txt").rstrip()
    page.add("### A call and an event", "", "Nanoseconds; the least disturbed of the rounds.", "", "```text", told, "```", "")
    rows = [line.split() for line in told.splitlines() if re.fullmatch(r"\S+( +(-|-?[\d.]+)){4}", line.strip())]
    calls = {row[0]: float(row[3]) for row in rows}
    events = {row[0]: float(row[4]) for row in rows if row[4] != "-"}
    for what, names, found, limit in ((CALL, CALLS, calls, LIMIT_CALL_NS), (EVENT, EVENTS, events, LIMIT_EVENT_NS)):
        absent = [name for name in names if name not in found]
        if absent:
            page.judge(what, without(absent), None)
            continue
        worst = max(found, key=found.get)
        page.judge(what, f"worst {found[worst]:.1f} ns ({worst})", found[worst] <= limit)
    times_told = re.search(r"^uprobe: .* (\d+) times an event recorded", told, re.M)
    if times_told:
        page.judge(UPROBE, f"{times_told[1]} times", int(times_told[1]) >= 10)


def times(directory, program, tool):
    path = directory / f"peers-{program}-{tool}.txt"
    lines = text(path).split("\n")
    values = [float(line) for line in lines if re.fullmatch(r"[\d.]+", line.strip())]
    told = next((line for line in lines if line.strip() and not re.fullmatch(r"[\d.]+", line.strip())), "")
    return values, told


def peers(page, directory):
    page.add("### Other tools on the same programs", "", "Seconds that the program takes inside of each tool (median).", "")
    for program in BESIDE:
        found = {tool: times(directory, program, tool) for tool in ("plain", *PEERS)}
        seconds = {tool: statistics.median(values) for tool, (values, _) in found.items() if len(values) >= ROUNDS[tool]}
        base = seconds.get("plain")
        rows = []
        for tool, (_, told) in found.items():
            if tool not in seconds:
                told = told or "not run as often as asked"
                rows.append((TITLES[tool], "-", "-", told))
                if beside(tool, program) in SYNC_TARGETS:
                    page.judge(beside(tool, program), told, None)
            else:
                rows.append((TITLES[tool], f"{seconds[tool]:.2f}", percent(seconds[tool] / base - 1) if base and tool != "plain" else "", told))
        page.add(f"**{program}**", "")
        page.table(("tool", "seconds", "more than without", ""), rows)
        if base is not None:
            judge_peers(page, program, {tool: value - base for tool, value in seconds.items()})


def judge_peers(page, program, added):
    """`added`: seconds by tool, of those that ran as often as asked."""
    ours = added.get("quaver")
    for tool in PEERS:
        if tool == "quaver" or tool not in added or ours is None:
            continue
        if tool == "bpftrace":
            # The time is taken in steps of 10 ms: less than one of them is not told apart from nothing.
            ratio = added[tool] / max(ours, 0.01)
            page.judge(beside(tool, program), f"{ratio:.0f} times (or more)", ratio >= 10)
        else:
            page.judge(beside(tool, program), f"{added[tool] * 1e3:.0f} ms against {max(ours, 0) * 1e3:.0f} ms", ours < added[tool] or ours < 0.01)


def analysis(page, directory):
    told = text(directory / "analysis.txt").strip()
    events = re.match(r"(\d+) events:", told)
    time = re.search(r"([\d.]+) s, (\d+) KiB", text(directory / "analysis-time.txt"))
    if not events or not time:
        return
    seconds, mib = float(time[1]), int(time[2]) / 1024
    page.add("### A long history analysed", "", "```text", told, f"whole program: {time[1]} s, {mib:.0f} MiB", "```", "")
    if int(events[1]) < ANALYSED:
        for what in (ANALYSIS_TIME, ANALYSIS_MEMORY):
            page.judge(what, f"{int(events[1]):,} events only", None)
        return
    page.judge(ANALYSIS_TIME, f"{time[1]} s", seconds < LIMIT_SECONDS)
    page.judge(ANALYSIS_MEMORY, f"{mib:.0f} MiB", mib < LIMIT_MIB)
