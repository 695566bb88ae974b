"""The part of a bench run's page that is about stamps and captures."""

import json
import statistics


def capture(page, directory):
    missing = []
    for part in (stamps, patterns, bound, load):
        if not part(page, directory):
            missing.append(part.__doc__)
    said = directory / "missing.txt"
    if said.exists():
        missing += sorted({line.rstrip(".") for line in said.read_text().splitlines()})
    if missing:
        page.add("Not measured in the part about captures: " + "; ".join(missing) + ".", "")


def complete(directory, pattern):
    """Results of the files; one that an interrupted run left empty or cut short is none."""
    for path in sorted(directory.glob(pattern)):
        try:
            yield json.loads(path.read_text())
        except ValueError:
            continue


def stamps(page, directory):
    """stamps in a batch"""
    runs = []
    for path in sorted(directory.glob("stamps-*.txt")):
        lines = [line.split() for line in path.read_text().splitlines()]
        if lines:
            runs.append({name: (float(median), float(least)) for name, median, least in lines})
    if not runs:
        return False
    page.add("## Stamps: in a batch", "", "Nanoseconds a stamp, medians of interleaved batches (least in brackets):", "")
    rows = [(name, *(f"{run[name][0]:.1f} ({run[name][1]:.1f})" for run in runs)) for name in runs[0]]
    page.table(("way", *(f"run {number}" for number in range(1, len(runs) + 1))), rows)
    worst = max(run["batch"][0] for run in runs)
    page.target("Hot raw stamp in a batch, median", "at most 12 ns", f"{worst:.1f} ns", worst <= 12)
    ratio = max(run["batch"][0] / run["vdso-clock_gettime"][0] for run in runs)
    page.target("Hot raw stamp over vDSO clock_gettime", "at most 0.6", f"{ratio:.2f}", ratio <= 0.6)
    return True


def patterns(page, directory):
    """stamps beside real packets"""
    seconds, whole = (list(complete(directory, name)) for name in ("compare-pattern2-*.json", "compare-all.json"))
    # A run's number, and its results; only those that went their full length.
    runs = [(number, run) for number, run in enumerate(seconds + whole, 1) if run["complete"]]
    found = [(number, pattern) for number, run in runs for pattern in run["patterns"]]
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
    ratios(page, found, len(seconds))
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


def ratios(page, found, judged):
    rows, means, variances = [], [], []
    for number, pattern in found:
        for ratio in pattern["ratios"]:
            rows.append((number, pattern["name"], f"{ratio['of']} over {ratio['to']}", shown(ratio["mean"], ratio["mean_interval"]), shown(ratio["trimmed_variance"], ratio["trimmed_variance_interval"]), ratio["verdict"]))
            # Neither is known where nothing was left to divide by.
            if pattern["name"] == "2" and ratio["to"] == "batch" and number <= judged and ratio["mean"] and ratio["trimmed_variance"]:
                means.append(1 / ratio["mean"])
                variances.append(1 / ratio["trimmed_variance"])
    page.add("Ratios with 95 % intervals (the paper's: means 2.66 and 2.45, variances 46.4 and 21.6, for patterns 1 and 2):", "")
    page.table(("run", "pattern", "ratio", "means", "trimmed variances", "verdict"), rows)
    if means:
        page.target(f"Pattern 2: mean of raw cycles over inline clock, {len(means)} runs", "at most 0.4 in each", ", ".join(f"{mean:.3f}" for mean in means), max(means) <= 0.4)
        page.target(f"Pattern 2: trimmed variance, {len(variances)} runs", "at most 0.05 in each", ", ".join(f"{one:.4f}" for one in variances), max(variances) <= 0.05)


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
    for said in complete(directory, "clock-bound.json"):
        page.add("## Clock: the bound", "", "```json", json.dumps(said, indent=1), "```", "")
        share, bound_ns = said["share_within"], said["bound_ns"]["p50"]
        page.target("Conversions that meet the kernel's bracket", "99.9 %", f"{100 * share:.3f} % of {said['samples']:,}", share >= 0.999)
        page.target("Bound of a conversion, median", "at most 200 ns", f"{bound_ns} ns", bound_ns <= 200)
        return True
    return False


# As capture_judge.py has them.
TITLES = {"quaver": "quaver", "layers": "quaver with layers", "dumpcap": "dumpcap", "tcpdump": "tcpdump"}


def load(page, directory):
    """captures of 200,000 packets a second"""
    runs = list(complete(directory, "load-*.json"))
    if not runs:
        return False
    page.add("## Capture: 200,000 packets a second", "", "128 octets of each packet are kept; programs in turn. quaver stamps in the kernel alone, as dumpcap and tcpdump do;", "quaver with layers (`--layers auto`) has every stamp that the interface can give.", "")
    groups = {}
    for run in runs:
        groups.setdefault((run["size"], run["name"]), []).append(run)
    rows = []
    for (size, name), found in sorted(groups.items()):
        each = lambda key: ", ".join(str(run[key]) for run in found)
        cpu = statistics.median(run["cpu_s"] for run in found)
        rows.append((size, TITLES[name], each("sent"), each("captured"), each("dropped"), each("unaccounted"), f"{cpu:.2f} ({min(r['cpu_s'] for r in found):.2f} to {max(r['cpu_s'] for r in found):.2f})"))
    page.table(("octets", "program", "sent", "captured", "dropped", "unaccounted", "CPU (s)"), rows)
    for size in sorted({size for size, _ in groups}):
        ours, theirs = groups.get((size, "quaver")), groups.get((size, "dumpcap"))
        if not ours:
            continue
        lost = [run["unaccounted"] for run in ours]
        page.target(f"Capture of {size} octets: unaccounted", "0", ", ".join(map(str, lost)), not any(lost))
        if theirs:
            # Of what was captured, for the source does not reach the same rate in each round.
            mine, other = (statistics.median(1e6 * run["cpu_s"] / max(run["captured"], 1) for run in found) for found in (ours, theirs))
            page.target(f"Capture of {size} octets: CPU of a million packets beside dumpcap", f"at most {other:.2f} s", f"{mine:.2f} s", mine <= other)
        rate = min(run["sent"] / run["seconds"] for run in ours)
        page.target(f"Capture of {size} octets: packets a second", "200,000", f"{rate:,.0f} at least", rate >= 199_900)
    return True
