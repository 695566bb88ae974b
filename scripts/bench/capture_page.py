"""The part of a bench run's page that is about stamps and captures."""

import json
import statistics


def loaded(directory, pattern):
    return [json.loads(path.read_text()) for path in sorted(directory.glob(pattern))]


def capture(page, directory):
    stamps(page, directory)
    patterns(page, directory)
    bound(page, directory)
    load(page, directory)


def stamps(page, directory):
    runs = []
    for path in sorted(directory.glob("stamps-*.txt")):
        lines = [line.split() for line in path.read_text().splitlines()]
        runs.append({name: (float(median), float(least)) for name, median, least in lines})
    page.add("## Stamps: in a batch", "", "Nanoseconds a stamp, medians of interleaved batches (least in brackets):", "")
    rows = [(name, *(f"{run[name][0]:.1f} ({run[name][1]:.1f})" for run in runs)) for name in runs[0]]
    page.table(("way", *(f"run {number}" for number in range(1, len(runs) + 1))), rows)
    worst = max(run["batch"][0] for run in runs)
    page.target("Hot raw stamp in a batch, median", "at most 12 ns", f"{worst:.1f} ns", worst <= 12)
    ratio = max(run["batch"][0] / run["vdso-clock_gettime"][0] for run in runs)
    page.target("Hot raw stamp over vDSO clock_gettime", "at most 0.6", f"{ratio:.2f}", ratio <= 0.6)


def patterns(page, directory):
    page.add("## Stamps: beside real packets", "", "By the paper's checkpoint method in user space; the checkpoints' own time is taken off.", "")
    rows = []
    runs = loaded(directory, "compare-pattern2-*.json") + loaded(directory, "compare-all.json")
    for number, run in enumerate(runs, 1):
        for pattern in run["patterns"]:
            for arm in pattern["user"]:
                over = arm["overhead"]
                rows.append((number, pattern["name"], arm["name"], over["count"], f"{over['mean_ns']:.1f}", f"{over['variance_ns2']:.1f}", f"{over['trimmed_mean_ns']:.1f}", f"{over['trimmed_variance_ns2']:.1f}", f"{over['p50_ns']:.1f}"))
    page.table(("run", "pattern", "way", "stamps", "mean (ns)", "variance (ns²)", "trimmed mean", "trimmed variance", "median"), rows)
    ratios, means, variances = [], [], []
    for number, run in enumerate(runs, 1):
        for pattern in run["patterns"]:
            for ratio in pattern["ratios"]:
                ratios.append((number, pattern["name"], f"{ratio['of']} over {ratio['to']}", shown(ratio["mean"], ratio["mean_interval"]), shown(ratio["trimmed_variance"], ratio["trimmed_variance_interval"]), ratio["verdict"]))
                if pattern["name"] == "2" and ratio["to"] == "batch" and number <= 3:
                    means.append(1 / ratio["mean"])
                    variances.append(1 / ratio["trimmed_variance"])
    page.add("Ratios with 95 % intervals (the paper's: means 2.66 and 2.45, variances 46.4 and 21.6, for patterns 1 and 2):", "")
    page.table(("run", "pattern", "ratio", "means", "trimmed variances", "verdict"), ratios)
    page.target(f"Pattern 2: mean of raw cycles over inline clock, {len(means)} runs", "at most 0.4 in each", f"{max(means):.3f} at most", max(means) <= 0.4)
    page.target(f"Pattern 2: trimmed variance, {len(variances)} runs", "at most 0.05 in each", f"{max(variances):.4f} at most", max(variances) <= 0.05)
    kernel = [(number, pattern["name"], one["what"], f"{one['ns']:.1f}", interval(one["interval"]), one["verdict"]) for number, run in enumerate(runs, 1) for pattern in run["patterns"] for one in (pattern["kernel"] or {"differences": []})["differences"]]
    page.add("In the kernel, between net:netif_rx_entry and net:netif_rx:", "")
    page.table(("run", "pattern", "cost of", "ns", "95 %", "verdict"), kernel)
    losses = [(one["placement"], one["arm"], one["sent"], one["lost"], one["at_socket"], one["at_backlog"], one["unaccounted"]) for one in runs[-1]["loss"]["totals"]]
    page.add("Loss over packet sizes and gaps (figure 6), all points together:", "")
    page.table(("placement", "way", "sent", "lost", "at the socket", "at the backlog", "elsewhere"), losses)
    differences = [(one["placement"], f"{one['of']} less {one['to']}", f"{100 * one['share']:.3f}", interval(one["interval"], 100), one["verdict"]) for one in runs[-1]["loss"]["differences"]]
    page.table(("placement", "difference", "percentage points", "95 %", "verdict"), differences)


def interval(ends, factor=1):
    return "unknown" if ends is None else f"{factor * ends['low']:.3g} to {factor * ends['high']:.3g}"


def shown(value, ends):
    return f"{value:.3g} ({interval(ends)})"


def bound(page, directory):
    said = json.loads((directory / "clock-bound.json").read_text())
    page.add("## Clock: the bound", "", "```json", json.dumps(said, indent=1), "```", "")


def load(page, directory):
    runs = loaded(directory, "load-*.json")
    page.add("## Capture: 200,000 packets a second", "", "128 octets of each packet are kept; programs in turn.", "")
    groups = {}
    for run in runs:
        groups.setdefault((run["size"], run["name"]), []).append(run)
    rows = []
    for (size, name), found in sorted(groups.items()):
        each = lambda key: ", ".join(str(run[key]) for run in found)
        cpu = statistics.median(run["cpu_s"] for run in found)
        rows.append((size, name, each("sent"), each("captured"), each("dropped"), each("unaccounted"), f"{cpu:.2f} ({min(r['cpu_s'] for r in found):.2f} to {max(r['cpu_s'] for r in found):.2f})"))
    page.table(("octets", "program", "sent", "captured", "dropped", "unaccounted", "CPU (s)"), rows)
    for size in sorted({size for size, _ in groups}):
        ours, theirs = groups.get((size, "quaver")), groups.get((size, "dumpcap"))
        lost = [run["unaccounted"] for run in ours]
        page.target(f"Capture of {size} octets: unaccounted", "0", ", ".join(map(str, lost)), not any(lost))
        if theirs:
            # Of what was captured, for the source does not reach the same rate in each round.
            mine, other = (statistics.median(1e6 * run["cpu_s"] / max(run["captured"], 1) for run in found) for found in (ours, theirs))
            page.target(f"Capture of {size} octets: CPU of a million packets beside dumpcap", f"at most {other:.2f} s", f"{mine:.2f} s", mine <= other)
        rate = min(run["sent"] / run["seconds"] for run in ours)
        page.target(f"Capture of {size} octets: packets a second", "200,000", f"{rate:,.0f} at least", rate >= 190_000)
