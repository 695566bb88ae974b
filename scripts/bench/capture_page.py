"""The part of a bench run's page that is about stamps and captures."""

import json
import statistics

from targets import result, results, text

# Runs of the stamps in a batch and of pattern 2 that went their full length; rounds of each capture.
RUNS, LOAD_ROUNDS = 3, 2
# Octets of the packets, of all sizes at which captures are judged, and for how long where a result does not tell.
SIZES, SECONDS = (64, 512, 1500), 10
# As capture_judge.py has them.
TITLES = {"quaver": "quaver", "layers": "quaver with layers", "immediate": "quaver --immediate", "dumpcap": "dumpcap", "tcpdump": "tcpdump"}

HOT = "Hot raw stamp in a batch, median"
HOT_BESIDE_VDSO = "Hot raw stamp over vDSO clock_gettime"
BRACKET = "Conversions that meet the kernel's bracket"
BOUND = "Bound of a conversion, median"
BY_ITSELF = "Capture of each packet by itself (--immediate)"


def of_pattern(moment):
    return f"Pattern 2: {moment} of raw cycles over inline clock, {RUNS} runs"


def of_capture(size, name):
    return f"Capture of {size} octets, {TITLES[name]}"


def cpu_of(size):
    return f"Capture of {size} octets: CPU of a million packets beside dumpcap, both by the kernel's stamp alone"


def accounts(what):
    return {f"{what}: unaccounted": "0", f"{what}: ended": "well"}


def capture_targets(size):
    found = {}
    for name in ("quaver", "layers"):
        what = of_capture(size, name)
        found |= accounts(what) | {f"{what}: length of the stream": f"{SECONDS} s", f"{what}: packets a second": "200,000"}
    return found | {cpu_of(size): "at most dumpcap's"}


CAPTURE_TARGETS = {
    HOT: "at most 12 ns",
    HOT_BESIDE_VDSO: "at most 0.6",
    of_pattern("mean"): "at most 0.4 in each",
    of_pattern("trimmed variance"): "at most 0.05 in each",
    BRACKET: "99.9 %",
    BOUND: "at most 200 ns",
    **{what: wanted for size in SIZES for what, wanted in capture_targets(size).items()},
    **accounts(BY_ITSELF),
}


def capture(page, directory):
    page.expect(CAPTURE_TARGETS)
    missing = []
    for part in (stamps, patterns, bound, files, load):
        if not part(page, directory):
            missing.append(part.__doc__)
    missing += sorted({line.rstrip(".") for line in text(directory / "missing.txt").splitlines()})
    if missing:
        page.add("Not measured in the part about captures: " + "; ".join(missing) + ".", "")
    page.add("## What tests hold, and no bench run can", "", *(f"- {line}" for line in BY_TESTS), "")


BY_TESTS = (
    "no unmarked step back in ten million conversions with 600 anchors, conversions between as many held against the kernel's clock: `core/clock/tests/clock_live.rs`",
    "steps of a second, leap second, slew, 1 ppm of frequency, jumps of the counter, CPUs 1 us apart, each marked within an anchor period: `core/clock/src/live/tests`",
    "XDP before kernel before TC before application for every packet, files read back to the last digit by tshark and tcpdump, captured and dropped make up what was sent: `quaver/tests/capture_live`, `quaver-store/tests/pcapng_tools.rs`",
    "no capture makes the reader panic: `quaver-store/tests/pcapng_random.rs`, and the fuzzers",
)


def stamps(page, directory):
    """stamps in a batch"""
    runs = []
    for path in sorted(directory.glob("stamps-*.txt")):
        lines = [line.split() for line in path.read_text().splitlines()]
        run = {line[0]: (float(line[1]), float(line[2])) for line in lines if len(line) == 3}
        if {"batch", "vdso-clock_gettime"} <= run.keys():
            runs.append(run)
    if len(runs) >= RUNS:
        worst = max(run["batch"][0] for run in runs)
        page.judge(HOT, f"{worst:.1f} ns", worst <= 12)
        ratio = max(run["batch"][0] / run["vdso-clock_gettime"][0] for run in runs)
        page.judge(HOT_BESIDE_VDSO, f"{ratio:.2f}", ratio <= 0.6)
    if not runs:
        return False
    page.add("## Stamps: in a batch", "", "Nanoseconds a stamp, medians of interleaved batches (least in brackets):", "")
    rows = [(name, *(f"{run[name][0]:.1f} ({run[name][1]:.1f})" for run in runs)) for name in runs[0]]
    page.table(("way", *(f"run {number}" for number in range(1, len(runs) + 1))), rows)
    return True


def patterns(page, directory):
    """stamps beside real packets"""
    seconds, whole = (results(directory, name) for name in ("compare-pattern2-*.json", "compare-all.json"))
    # A run's number, and its results; only those that went their full length.
    runs = [(number, run) for number, run in enumerate(seconds + whole, 1) if run["complete"]]
    found = [(number, pattern) for number, run in runs for pattern in run["patterns"]]
    second_pattern(page, found)
    if not found:
        return False
    page.add("## Stamps: beside real packets", "", "By the paper's checkpoint method in user space; the checkpoints' own time is taken off.", "")
    rows = []
    for number, pattern in found:
        for arm in pattern["user"]:
            over = arm["overhead"]
            moments = (f"{over[key]:.1f}" for key in ("mean_ns", "variance_ns2", "trimmed_mean_ns", "trimmed_variance_ns2", "p50_ns"))
            rows.append((number, pattern["name"], arm["name"], over["count"], *moments, f"{arm['resolve_ns']:.1f}"))
    page.table(("run", "pattern", "way", "stamps", "mean (ns)", "variance (ns²)", "trimmed mean", "trimmed variance", "median", "afterwards, a stamp (ns)"), rows)
    hand_off(page, found)
    ratios(page, found)
    in_kernel(page, found)
    for _, run in runs:
        losses(page, run["loss"])
        peers(page, run.get("peers", []))
    return True


def hand_off(page, found):
    """Whether handing stamps to a thread costs more than converting them at once; absent in older results."""
    side = lambda one, key: (f"{one[key]['ns']:+.1f}", interval(one[key]["interval"]), one[key]["verdict"])
    rows = [(number, pattern["name"], f"{one['of']} less {one['to']}", *side(one, "hot"), *side(one, "whole")) for number, pattern in found for one in pattern.get("conversions", [])]
    if rows:
        page.add("Where conversion is done, ns a stamp (trimmed means): on the hot path alone, and with what the receiver spends afterwards:", "")
        page.table(("run", "pattern", "difference", "hot path", "95 %", "verdict", "whole", "95 %", "verdict"), rows)
    for of, to, claimed, claim in (
        ("threaded", "inline-cycles", "larger", "Handing a stamp to a converter thread costs more than inline conversion"),
        ("batch", "inline-cycles", "smaller", "Conversion in batches costs less than inline conversion"),
    ):
        said = [one["whole"]["verdict"] for _, pattern in found for one in pattern.get("conversions", []) if (one["of"], one["to"]) == (of, to)]
        if said:
            page.add(f"{claim} (found earlier, hot path and afterwards together): {confirmed(said, claimed)}.", "")


def confirmed(said, claimed):
    """Of all runs and patterns."""
    contrary = {"larger": "smaller", "smaller": "larger"}[claimed]
    so, not_so = (sum(one == verdict for one in said) for verdict in (claimed, contrary))
    words = "confirmed" if so == len(said) else "refuted" if not_so == len(said) else "neither confirmed nor refuted"
    return f"{words} ({so} of {len(said)} runs and patterns say so, {not_so} the contrary, {len(said) - so - not_so} tell no difference)"


# Tables I and II: nanoseconds and ns², ktime and raw cycles.
PAPER = {"1": (195.2762, 73.49326, 176.0954, 3.793385), "2": (173.3606, 70.84912, 177.1197, 8.197374)}


def beside_the_paper(page, found):
    """The paper's ratios (2.4 to 2.7 of means, 22 to 46 of variances) and ours."""
    rows = []
    for name, (ktime, raw, ktime_variance, raw_variance) in PAPER.items():
        ours = [(number, ratio) for number, pattern in found if pattern["name"] == name for ratio in pattern["ratios"] if (ratio["of"], ratio["to"]) == ("inline-clock", "batch")]
        rows.append((name, "paper", f"{ktime / raw:.2f}", f"{ktime_variance / raw_variance:.1f}", f"{ktime:.1f} and {raw:.1f} ns"))
        for number, ratio in ours:
            means, variances = shown(ratio["mean"], ratio["mean_interval"]), shown(ratio["trimmed_variance"], ratio["trimmed_variance_interval"])
            arms = {arm["name"]: arm["overhead"] for _, pattern in found if _ == number and pattern["name"] == name for arm in pattern["user"]}
            rows.append((name, f"here, run {number}", means, variances, " and ".join(f"{arms[way]['mean_ns']:.1f}" for way in ("inline-clock", "batch")) + " ns"))
    page.add("Kernel's clock over raw cycles, the paper's beside ours (variances trimmed here):", "")
    page.table(("pattern", "whose", "means", "variances", "means themselves"), rows)


def ratios(page, found):
    beside_the_paper(page, found)
    rows = [
        (number, pattern["name"], f"{ratio['of']} over {ratio['to']}", shown(ratio["mean"], ratio["mean_interval"]), shown(ratio["trimmed_variance"], ratio["trimmed_variance_interval"]), ratio["verdict"])
        for number, pattern in found
        for ratio in pattern["ratios"]
    ]
    page.add("All ratios with 95 % intervals:", "")
    page.table(("run", "pattern", "ratio", "means", "trimmed variances", "verdict"), rows)


def second_pattern(page, found):
    """Raw cycles over the inline clock, in each of three runs: one that was not made or broke off has met nothing."""
    ratios = [ratio for _, pattern in found if pattern["name"] == "2" for ratio in pattern["ratios"] if (ratio["of"], ratio["to"]) == ("inline-clock", "batch")]
    for what, key, most, digits in (("mean", "mean", 0.4, 3), ("trimmed variance", "trimmed_variance", 0.05, 4)):
        # Nothing is known where nothing was left to divide by.
        values = [1 / ratio[key] if ratio[key] else None for ratio in ratios]
        each = ["not measured" if value is None else f"{value:.{digits}f}" for value in values]
        each += ["not measured"] * (RUNS - len(each))
        known = [value for value in values if value is not None]
        missed = any(value > most for value in known)
        met = False if missed else True if len(known) >= max(RUNS, len(values)) else None
        page.judge(of_pattern(what), ", ".join(each) if known else None, met)


def in_kernel(page, found):
    rows = [(number, pattern["name"], one["what"], f"{one['ns']:.1f}", interval(one["interval"]), one["verdict"]) for number, pattern in found for one in (pattern["kernel"] or {"differences": []})["differences"]]
    if rows:
        page.add("In the kernel, between net:netif_rx_entry and net:netif_rx:", "")
        page.table(("run", "pattern", "cost of", "ns", "95 %", "verdict"), rows)


def losses(page, loss):
    if not loss["totals"]:
        return
    rows = [(one["placement"], one["arm"], one["sent"], one["lost"], one["at_socket"], one["at_backlog"], one["unaccounted"]) for one in loss["totals"]]
    page.add("Loss over packet sizes and gaps (figure 6), all points together:", "")
    page.table(("placement", "way", "sent", "lost", "at the socket", "at the backlog", "elsewhere"), rows)
    differences = [(one["placement"], f"{one['of']} less {one['to']}", f"{100 * one['share']:.3f}", interval(one["interval"], 100), one["verdict"]) for one in loss["differences"]]
    page.table(("placement", "difference", "percentage points", "95 %", "verdict"), differences)
    alike = sum(one["verdict"] == "no-difference" for one in loss["differences"])
    page.add(f"Loss does not differ between ways to stamp (found earlier): {alike} of {len(loss['differences'])} comparisons find no difference.", "")


def peers(page, totals):
    """Whole captures of the comparison itself; absent in older results."""
    if not totals:
        return
    cpu = lambda one: "unknown" if one["cpu_ns_per_packet"] is None else f"{one['cpu_ns_per_packet']:.0f}"
    rows = [(one["placement"], *(one[key] for key in ("program", "sent", "captured", "dropped", "unaccounted")), cpu(one)) for one in totals]
    page.add("Whole captures beside each other, by `--compare` itself; CPU with start and end of the program:", "")
    page.table(("placement", "program", "sent", "captured", "dropped", "unaccounted", "CPU (ns a packet)"), rows)


def interval(ends, factor=1):
    return "unknown" if ends is None else f"{factor * ends['low']:.3g} to {factor * ends['high']:.3g}"


def shown(value, ends):
    return "unknown" if value is None else f"{value:.3g} ({interval(ends)})"


def bound(page, directory):
    """the clock's bound"""
    said = result(directory / "clock-bound.json")
    if not said or not said["samples"]:
        return False
    page.add("## Clock: the bound", "", "```json", json.dumps(said, indent=1), "```", "")
    share, bound_ns = said["share_within"], said["bound_ns"]["p50"]
    page.judge(BRACKET, f"{100 * share:.3f} % of {said['samples']:,}", share >= 0.999)
    page.judge(BOUND, f"{bound_ns} ns", bound_ns <= 200)
    return True


def files(page, directory):
    """how fast captures are written and read"""
    for rows in results(directory, "pcapng-speed.json"):
        page.add("## pcapng: written to memory and read from it", "", "One thread, medians:", "")
        page.table(
            ("", "octets", "stamps", "octets in the file", "packets a second", "MB/s", "packets a second at best"),
            [(one["what"], one["packet_bytes"], one["stamps"], f"{one['file_bytes'] / 1e5:.0f}", *(f"{one[key]:,.0f}" for key in ("packets_per_s", "megabytes_per_s", "packets_per_s_at_best"))) for one in rows],
        )
        return True
    return False


def layers(page, groups):
    """Which layers stamped the packets, where all that the interface can give were asked for."""
    found = [(size, run) for (size, name), runs in sorted(groups.items()) if name == "layers" for run in runs if run.get("stamped")]
    if not found:
        return
    names = [name for name in found[0][1]["stamped"] if any(run["stamped"][name] for _, run in found)]
    share = lambda run, name: f"{100 * run['stamped'][name] / max(run['captured'], 1):.3f} %"
    page.add("Layers that stamped the packets under this load:", "")
    page.table(("octets", *names, "stamps out of order"), [(size, *(share(run, name) for name in names), run["stamps_out_of_order"]) for size, run in found])


def load(page, directory):
    """captures of 200,000 packets a second"""
    groups = {}
    for run in results(directory, "load-*.json"):
        groups.setdefault((run["size"], run["name"]), []).append(run)
    for size in SIZES:
        of = lambda name: groups.get((size, name), [])
        for name in ("quaver", "layers"):
            capture_of(page, of_capture(size, name), of(name))
        beside_dumpcap(page, size, of("quaver"), of("dumpcap"))
    # Measured at one size alone.
    accounted(page, BY_ITSELF, next((found for (_, name), found in sorted(groups.items()) if name == "immediate"), []))
    if not groups:
        return False
    page.add("## Capture: 200,000 packets a second", "", "128 octets of each packet are kept; programs in turn. quaver stamps in the kernel alone (`--layers none`), as dumpcap and", "tcpdump do, and like is judged with like: its CPU time beside dumpcap's. quaver with layers (`--layers auto`) has every", "stamp that the interface can give; what these cost is in the table.", "")
    rows = []
    for (size, name), found in sorted(groups.items()):
        each = lambda key: ", ".join(str(run[key]) for run in found)
        cpu = statistics.median(run["cpu_s"] for run in found)
        rows.append((size, TITLES[name], each("sent"), each("captured"), each("dropped"), each("unaccounted"), ", ".join(map(ended, found)), f"{cpu:.2f} ({min(r['cpu_s'] for r in found):.2f} to {max(r['cpu_s'] for r in found):.2f})"))
    page.table(("octets", "program", "sent", "captured", "dropped", "unaccounted", "ended", "CPU (s)"), rows)
    by_itself(page, groups)
    layers(page, groups)
    return True


def by_itself(page, groups):
    """What taking each packet by itself costs."""
    for (size, name), runs in sorted(groups.items()):
        alone, blocks = median_cpu(runs), median_cpu(groups.get((size, "quaver"), []))
        if name == "immediate" and alone is not None and blocks:
            shares = [100 * run["captured"] / run["sent"] for run in runs if run["sent"]]
            page.add(f"Each packet by itself (`--immediate`) costs {alone:.2f} s of CPU for a million packets of {size} octets where blocks cost {blocks:.2f} s:", f"{alone / blocks:.1f} times as much. {min(shares):.2f} % of what was sent at this rate was captured.", "")


def ended(run):
    """How a program ended."""
    told = "" if run.get("told", True) else ", without counts"
    return ("well" if run["status"] == 0 else f"status {run['status']}") + told


def each_round(page, what, runs, shown, met):
    """`shown` and `met`: of one run. Missed where any run misses it; missing where runs are and none misses it."""
    found = ", ".join(map(shown, runs)) or None
    page.judge(what, found, False if not all(map(met, runs)) else None if len(runs) < LOAD_ROUNDS else True)


def accounted(page, what, runs):
    """Nothing unaccounted, and how the program ended; `runs` may be none."""
    each_round(page, f"{what}: unaccounted", runs, lambda run: str(run["unaccounted"]), lambda run: run["unaccounted"] == 0)
    each_round(page, f"{what}: ended", runs, ended, lambda run: ended(run) == "well")


def capture_of(page, what, runs):
    """As `accounted`, the rate, and the length of the stream."""
    accounted(page, what, runs)
    enough = lambda run: run["seconds"] >= 0.9999 * max(run.get("asked_seconds", SECONDS), SECONDS)
    each_round(page, f"{what}: length of the stream", runs, lambda run: f"{run['seconds']:g} s", enough)
    rates = [run["sent"] / run["seconds"] for run in runs if run["seconds"]]
    if rates:
        least = min(rates)
        page.judge(f"{what}: packets a second", f"{least:,.0f} at least", False if least < 199_900 else None if len(rates) < max(LOAD_ROUNDS, len(runs)) else True)


def beside_dumpcap(page, size, ours, theirs):
    """CPU of what was captured, for the source does not reach the same rate in each round."""
    mine, other = (median_cpu(runs) for runs in (ours, theirs))
    if mine is None or other is None:
        return
    enough = min(len(ours), len(theirs)) >= LOAD_ROUNDS
    page.judge(cpu_of(size), f"{mine:.2f} s beside {other:.2f} s", None if not enough else mine <= other)


def median_cpu(runs):
    """Seconds a million packets, of programs that ended well and captured something; None where none did."""
    found = [1e6 * run["cpu_s"] / run["captured"] for run in runs if ended(run) == "well" and run["captured"]]
    return statistics.median(found) if found else None
