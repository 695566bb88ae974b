"""The part of a bench page on the simulator."""

import statistics

from sim_cachegrind import LIMIT, judged
from targets import result, text, without

LEAST_MEDIAN_MIPS = 50
LEAST_MIPS = 30
MOST_KB = 25
SPLASH = ("barnes", "fmm", "lu", "ocean", "radix", "raytrace", "water-nsquared", "water-spatial")
# Of the bundled traces each, and the programs whose misses are counted.
ROUNDS = 5
COUNTED = ("lu", "ocean", "radix")

MEDIAN_SPEED = "sim: median speed over the bundled traces"
SPEED = "sim: speed on each bundled trace"
SIZE = "sim: size of the eight Splash-like traces together"
MISSES = "sim: miss counts beside cachegrind"
MISSES_ALL_FITS = "sim: the same where no line has to leave the last level"
SIM_TARGETS = {
    MEDIAN_SPEED: f"at least {LEAST_MEDIAN_MIPS} MIPS",
    SPEED: f"at least {LEAST_MIPS} MIPS",
    SIZE: f"at most {MOST_KB} kB a million instructions",
    MISSES: f"within {100 * LIMIT:.0f} %",
    MISSES_ALL_FITS: f"within {100 * LIMIT:.0f} %",
}
TOOLS = {
    "native": "without any tool",
    "quaver": "quaver sim run, 16 cores, all of the model",
    "cachegrind": "valgrind --tool=cachegrind, the same caches, one core",
    "lackey": "valgrind --tool=lackey, counts only, no caches",
}
# Figures that others published, each of its own machine and programs; none was measured here.
PUBLISHED = (
    ("zsim, 1,024 simple cores", "up to 1,500 MIPS with 16 host cores", "Sanchez and Kozyrakis, ISCA 2013, abstract"),
    ("zsim, 1,024 out-of-order cores", "up to 300 MIPS with 16 host cores", "the same"),
    ("gem5, Flexus, MARSS", "about 0.2 MIPS", "the same, introduction"),
    ("Sniper, interval model", "up to several MIPS", "Carlson, Heirman and Eeckhout, SC 2011, as its authors sum it up"),
    ("gem5, out-of-order full system", "about 0.1 MIPS", "Sandberg, Hagersten and Black-Schaffer, IISWC 2015, introduction"),
    ("gem5, simplified modes", "1 to 10 MIPS", "the same"),
    ("Graphite", "41 times slower than native at best", "Miller and others, HPCA 2010, abstract"),
)


def sim(page, directory):
    page.expect(SIM_TARGETS)
    page.add("## The simulator: `quaver sim run`", "")
    page.add("```text", text(directory / "versions.txt").rstrip(), "```", "")
    speed(page, lines(directory / "speed.txt"))
    sizes(page, lines(directory / "sizes.txt"))
    peers(page, directory)
    published(page)
    cachegrind(page, directory)


def lines(path):
    """Rows of a table with a head, as dictionaries; numbers are numbers."""
    head, *rows = [line.split() for line in text(path).splitlines()] or [[]]
    number = lambda text: float(text) if text.replace(".", "", 1).isdigit() else text
    return [dict(zip(head, map(number, row))) for row in rows if len(row) == len(head)]


def mips(row):
    return row["instructions"] * 1e3 / row["elapsed_ns"]


def by(rows, key):
    found = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def speed(page, rows):
    page.add("### Speed on the traces in the tree", "")
    page.add("One host thread, the default machine of 16 cores in exact order, traces read and unpacked on the way.",
             "Median of alternating rounds (least to most).", "")
    shown, medians = [], {}
    for trace, rounds in by(rows, "trace").items():
        values = [mips(row) for row in rounds]
        medians[trace] = statistics.median(values)
        first = rounds[0]
        shown.append((trace, f"{first['threads']:.0f}", f"{first['instructions'] / 1e6:.1f}",
                      f"{medians[trace]:.1f} ({min(values):.1f} to {max(values):.1f})"))
    page.table(("trace", "threads", "million instructions", "MIPS"), shown)
    absent = [name for name in SPLASH if len(by(rows, "trace").get(name, [])) < ROUNDS]
    if absent:
        for what in (MEDIAN_SPEED, SPEED):
            page.judge(what, without(absent), None)
        return
    median = statistics.median(medians.values())
    page.judge(MEDIAN_SPEED, f"{median:.1f} MIPS", median >= LEAST_MEDIAN_MIPS)
    slowest = min(medians, key=medians.get)
    page.judge(SPEED, f"least {medians[slowest]:.1f} MIPS ({slowest})", medians[slowest] >= LEAST_MIPS)


def sizes(page, rows):
    page.add("### Size of traces, and speed on larger ones", "")
    page.add("The Splash-like programs at 16 threads and the small sizes of `kernels/README.md`, traced in this run; each simulated once.", "")
    shown = []
    octets = instructions = 0
    for row in rows:
        kb = row["octets"] / 1e3 / (row["instructions"] / 1e6)
        shown.append((row["trace"], f"{row['instructions'] / 1e6:.1f}", f"{row['octets']:.0f}", f"{kb:.1f}", f"{mips(row):.1f}"))
        octets += row["octets"]
        instructions += row["instructions"]
    page.table(("trace", "million instructions", "octets", "kB a million instructions", "MIPS"), shown)
    absent = [name for name in SPLASH if name not in [row["trace"] for row in rows]]
    if absent:
        page.judge(SIZE, without(absent), None)
        return
    kb = octets / 1e3 / (instructions / 1e6)
    page.judge(SIZE, f"{kb:.1f} kB", kb <= MOST_KB)


def peers(page, directory):
    page.add("### Peers in the same run", "")
    page.add("Programs of one thread; millions of their instructions a second, the tool's start included (median). Valgrind's tools",
             "run the program itself; the simulator reads a trace of it and does not run it.", "")
    shown = []
    for program, rows in by(lines(directory / "peers.txt"), "program").items():
        for tool, rounds in by(rows, "tool").items():
            value = statistics.median(row["instructions"] / 1e6 / max(row["seconds"], 0.005) for row in rounds)
            shown.append((program, TOOLS.get(tool, tool), f"{rounds[0]['instructions'] / 1e6:.0f}", f"{value:.1f}"))
    page.table(("program", "tool", "million instructions", "MIPS"), shown)
    missing = text(directory / "missing.txt").splitlines()
    if missing:
        page.add("Not measured: " + "; ".join(missing) + ".", "")


def published(page):
    page.add("### What others published", "")
    page.add("Not measured here: each figure is its authors', of their machine, programs and model.", "")
    page.table(("simulator", "published speed", "where"), PUBLISHED)


def cachegrind(page, directory):
    page.add("### Miss counts beside cachegrind", "")
    page.add("The same instructions and addresses for both (those that lackey prints), and every level of the simulator answers at",
             "once, for cachegrind knows no time. An access over the end of a line of which both lines miss is two misses for the",
             "simulator and one for cachegrind: these are counted from lackey's words and taken off. What is left: the second level",
             "holds all that the first levels hold, so that a line that leaves it leaves them too.", "")
    judge(page, directory, MISSES)
    page.add("The same with a last level of 8 MiB for both, which no line of these programs has to leave:", "")
    judge(page, directory / "all-fits", MISSES_ALL_FITS)


def judge(page, directory, what):
    counted = {name: result(directory / f"cachegrind-{name}.json") for name in COUNTED}
    absent = [name for name, one in counted.items() if one is None]
    worst, met = misses(page, [one for one in counted.values() if one is not None])
    if absent:
        page.judge(what, without(absent), None)
    else:
        page.judge(what, f"worst {100 * worst:.3f} % of {len(counted)} programs", met)


def misses(page, counted):
    """Shows the counts; how far the worst is off, and whether all are within the limit."""
    shown, worst, met = [], 0, True
    for one in counted:
        for what, theirs, ours, share, within in judged(one):
            shown.append((one["program"], what, theirs, ours, f"{100 * share:.3f} %"))
            met &= within
            worst = max(worst, share)
    page.table(("program", "count", "cachegrind", "quaver", "off"), shown)
    return worst, met
