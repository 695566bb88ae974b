"""Writes the README of a bench run from its data. usage: readme.py DIRECTORY"""

import json
import re
import statistics
import sys
from pathlib import Path

from capture_page import capture
from path_more_page import path_long, rtp, skew
from path_page import path
from sim_page import sim
from study_page import study
from sync_page import sync

PEERS = ("iperf2", "sockperf", "irtt")
OURS = ("quaver-spin", "quaver-hybrid")
TITLES = {"quaver-spin": "quaver source, spin", "quaver-hybrid": "quaver source, hybrid", "irtt": "irtt, busy"}


class Page:
    """The text, and the targets judged on the way."""

    def __init__(self):
        self.lines = []
        self.targets = []

    def add(self, *lines):
        self.lines.extend(lines)

    def table(self, head, rows):
        self.add("| " + " | ".join(head) + " |", "|" + " --- |" * len(head))
        self.add(*("| " + " | ".join(map(str, row)) + " |" for row in rows), "")

    def target(self, what, wanted, found, met):
        self.targets.append((what, wanted, found, "met" if met else "**missed**"))


def span(values, form="{:.2f}"):
    """Median over the rounds, and least and most."""
    show = form.format
    values = [round(value, 6) + 0.0 for value in values]
    middle = show(statistics.median(values))
    middle = middle.lstrip("-") if not float(middle) else middle
    return middle if len(values) == 1 else f"{middle} ({show(min(values))} to {show(max(values))})"


def us(values_ns):
    return span([value / 1e3 for value in values_ns])


def load(directory, pattern):
    return [json.loads(path.read_text()) for path in sorted(directory.glob(pattern))]


def chase(page, directory):
    runs = load(directory, "summary-*.json")
    page.add("## Chase: a packet each 7.41 us, all layers", "")
    places = ("network", "nic_ring", "socket_buffer", "ours")
    rows, accounted = [], True
    for number, run in enumerate(runs, 1):
        losses = run["losses"]
        stack = sum((losses.get("stack") or {}).values())
        named = sum(losses.get(place) or 0 for place in places) + stack
        distinct = losses["received"] - (losses.get("duplicates") or 0)
        accounted &= losses["sent"] == distinct + named and not losses.get("unaccounted")
        late = run["lateness"]
        slots = round(run["duration_ns"] / run["period_ns"])
        rows.append(
            (
                number,
                slots,
                f"{100 * (slots - losses['sent']) / slots:.2f} %",
                losses["sent"],
                losses["received"],
                named,
                losses.get("unaccounted"),
                f"{100 * late['packets'] / max(1, losses['received']):.3f} %",
                f"{late['distribution']['p99_9_ns'] / 1e3:.1f}",
                f"{late['distribution']['max_ns'] / 1e3:.0f}",
            )
        )
    head = ("run", "slots of the schedule", "skipped by our source", "sent", "received", "lost at named places", "unaccounted", "late", "lateness p99.9 (us)", "worst (us)")
    page.table(head, rows)
    page.add("A slot is skipped when the source's CPU was taken for longer than a period: it never catches up with a burst.", "")
    unaccounted = sum(run["losses"].get("unaccounted") or 0 for run in runs)
    rates = [run["losses"]["sent"] / run["duration_ns"] * 1e6 for run in runs]
    found = f"{unaccounted} in {len(runs)} runs, at {span(rates, '{:.1f}')} kpps reached"
    page.target("Every packet accounted for at 135 kpps", "0 unaccounted", found, accounted)
    layers(page, runs)
    probe_cost(page, runs)
    causes(page, runs)


def layers(page, runs):
    rows, complete = [], True
    for layer in runs[0]["layers"]:
        shares = []
        for run in runs:
            stamped = next((one["stamped"] for one in run["layers"] if one["layer"] == layer["layer"]), 0)
            shares.append(100 * stamped / max(1, run["losses"]["received"]))
        complete &= min(shares) >= 100
        dt = layer["delta_t"]
        rows.append((layer["layer"], f"{min(shares):.4f} %", *(f"{dt[key] / 1e3:.2f}" for key in ("p50_ns", "p99_ns", "p99_9_ns", "max_ns"))))
    page.add("Stamped at each layer (least of the runs), and the time between successive packets there in us (run 1):", "")
    page.table(("layer", "stamped", "p50", "p99", "p99.9", "max"), rows)
    least = min(float(row[1][:-2]) for row in rows)
    page.target("Packets joined at every layer", "100 %", f"{least:.4f} % at the worst layer", complete)


def probe_cost(page, runs):
    costs = [run["probe_cost"] for run in runs if run.get("probe_cost")]
    page.add("Cost of the probes, a packet, from alternating blocks within each run:", "")
    rows = [(n, f"{c['per_packet_ns']:.0f} ns", f"{c['interval_ns'][0]:.0f} to {c['interval_ns'][1]:.0f} ns", c["blocks"]) for n, c in enumerate(costs, 1)]
    page.table(("run", "cost", "95 % interval", "pairs of blocks"), rows)
    if not costs:
        page.target("Probes, a packet", "at most 1.0 us", "not measured", False)
        return
    worst = max(cost["per_packet_ns"] for cost in costs)
    upper = max(cost["interval_ns"][1] for cost in costs)
    found = f"{span([cost['per_packet_ns'] for cost in costs], '{:.0f}')} ns; upper ends of the intervals up to {upper:.0f} ns"
    page.target("Probes, a packet", "at most 1.0 us", found, worst <= 1000)


def causes(page, runs):
    for number, run in enumerate(runs, 1):
        page.add(f"Run {number}: {run['lateness']['packets']} late packets, {run['lateness']['time_ns'] / 1e6:.2f} ms in all; threshold {run['lateness']['threshold_ns'] / 1e3:.1f} us.", "")
        rows = [(cause["name"], f"{100 * cause['share']:.1f} %", cause["packets"], f"{cause['worst_ns'] / 1e3:.1f}") for cause in run["causes"][:6]]
        left = run["unexplained"]
        rows.append(("*unexplained*", f"{100 * left['share']:.1f} %", left["packets"], f"{left['worst_ns'] / 1e3:.1f}"))
        page.table(("cause", "share of late time", "packets", "worst (us)"), rows)
        page.add(f"Unexplained is {left['note']}.", "")


def sink(page, directory):
    runs = load(directory, "cost-*.json")
    page.add("## Sink: cost of a packet beside bare loops", "")
    page.add("Packets that lie ready in the buffer are drained; the four kinds alternate block by block. Median of the", "blocks (quartiles), ns a packet:", "")
    cell = lambda values: f"{values[1]:.0f} ({values[0]:.0f} to {values[2]:.0f})"
    keys = ("bare_libc_ns", "bare_in_line_ns", "sink_ns", "sink_added_ns", "sink_kernel_stamps_ns")
    rows = [(n, run["blocks"], *(cell(run[key]) for key in keys)) for n, run in enumerate(runs, 1)]
    page.table(("run", "blocks", "bare loop, libc recv", "bare loop, recv in line", "sink", "sink minus bare in line, by pairs", "sink with kernel stamps"), rows)
    added = [run["sink_added_ns"][1] for run in runs]
    page.target("Sink over the bare loop (recv in line), a packet", "at most 40 ns", span(added, "{:.0f}") + " ns", statistics.median(added) <= 40)
    stamps = [run["sink_kernel_stamps_ns"][1] - run["sink_ns"][1] for run in runs]
    page.add(f"Kernel stamps cost {span(stamps, '{:.0f}')} ns a packet on top.", "")


def source(page, directory):
    page.add("## Source: a packet a millisecond, beside peers", "")
    page.add(
        "One sender at a time, alternating, on CPU 0 at normal priority, over a veth pair; stamps by the kernel at the",
        "receiving interface (taken before the stack delivers the packet), written by tcpdump on CPU 1. Error: against a",
        "schedule of exactly 1 ms whose phase is the median. Median of the rounds (least to most). A wait or a stop of",
        "the sender's CPU by the hypervisor or the kernel is in everybody's figures. One gap under 0.25 ms is a late",
        "packet before one on time; two or more in a row are a burst that catches up.",
        "",
    )
    by_sender = {name: load(directory, f"{name}-*.json") for name in OURS + PEERS}
    by_sender = {name: rounds for name, rounds in by_sender.items() if rounds}
    rows = []
    for name, rounds in by_sender.items():
        errors = lambda key: us([one["against_schedule"][key] for one in rounds])
        rows.append(
            (
                TITLES.get(name, name),
                len(rounds),
                span([one["slope_ppm"] for one in rounds], "{:.3f}"),
                *(errors(key) for key in ("p50_ns", "p99_ns", "p99_9_ns", "max_ns")),
                span([one["bursts"] for one in rounds], "{:.0f}"),
                span([one["longest_burst"] for one in rounds], "{:.0f}"),
                span([one["slots_skipped"] for one in rounds], "{:.0f}"),
                span([lost(one) for one in rounds], "{:.0f}"),
                span([100 * one["cpu_s"] / one["elapsed_s"] for one in rounds], "{:.0f}"),
            )
        )
    page.table(("sender", "rounds", "slope (ppm)", "error p50 (us)", "p99 (us)", "p99.9 (us)", "max (us)", "gaps < 0.25 ms", "most packets in a row so", "slots skipped", "sent, not observed", "CPU (%)"), rows)
    page.add("The same against each sender's own fitted line, in us, which forgives a wrong rate:", "")
    own = lambda rounds, key: us([one["against_own_line"][key] for one in rounds])
    rows = [(TITLES.get(name, name), *(own(rounds, key) for key in ("p50_ns", "p99_ns", "max_ns"))) for name, rounds in by_sender.items()]
    page.table(("sender", "p50", "p99", "max"), rows)
    missing = directory / "missing.txt"
    if missing.exists():
        page.add("Not measured: " + "; ".join(sorted(set(missing.read_text().splitlines()))) + ".", "")
    beside_peers(page, by_sender)
    slope(page, directory)


def lost(one):
    """Packets that the sender counts but the observer did not see; handshakes count for the sender alone."""
    return one["sent"] - one["observed"] if one["sent"] is not None else 0


def beside_peers(page, by_sender):
    p99 = lambda name: statistics.median([one["against_schedule"]["p99_ns"] for one in by_sender[name]])
    for ours in (name for name in OURS if name in by_sender):
        for peer in (name for name in PEERS if name in by_sender):
            found = f"{p99(ours) / 1e3:.2f} us beside {p99(peer) / 1e3:.2f} us, ratio {p99(ours) / p99(peer):.3f}"
            page.target(f"{TITLES[ours]}: error p99 beside {peer}", "at or below", found, p99(ours) <= p99(peer))
        bursts = sum(one["bursts"] for one in by_sender[ours])
        longest = max(one["longest_gap_ns"] for one in by_sender[ours]) / 1e6
        packets = max(one["longest_burst"] for one in by_sender[ours])
        found = f"{bursts} of {sum(one['judged'] for one in by_sender[ours])} (longest gap {longest:.2f} ms)"
        page.target(f"{TITLES[ours]}: gaps under 0.25 ms", "0", found, bursts == 0)
        found = f"at most {packets} packets in a row with such gaps"
        page.target(f"{TITLES[ours]}: no burst to catch up, three packets or more", "0", found, packets < 3)


def slope(page, directory):
    page.add("The slope over a long run, by the observer's stamps and by the source's own:", "")
    rows = []
    for pace in ("spin", "hybrid"):
        for one in load(directory, f"slope-{pace}-*.json"):
            said, errors = one["own_words"] or {}, one["against_schedule"]
            drift = said.get("drift_ppm")
            rows.append((pace, f"{one['elapsed_s']:.0f} s", f"{one['slope_ppm']:.4f}", "none" if drift is None else f"{drift:.4f}", *(f"{errors[key] / 1e3:.2f}" for key in ("p50_ns", "p99_ns", "max_ns")), one["bursts"], said.get("slots_missed"), lost(one)))
            page.target(f"Slope over {one['elapsed_s']:.0f} s, {pace}", "within 1 ppm", f"{one['slope_ppm']:.4f} ppm", abs(one["slope_ppm"]) <= 1)
    page.table(("pace", "length", "slope (ppm)", "own drift (ppm)", "error p50 (us)", "p99 (us)", "max (us)", "gaps < 0.25 ms", "slots missed", "sent, not observed"), rows)


def analysis(page, directory):
    page.add("## Analysis: ten million packets and ten million events", "")
    rows, walls, sizes = [], [], []
    for number, path in enumerate(sorted(directory.glob("time-*.txt")), 1):
        said = dict(line.strip().rsplit(": ", 1) for line in path.read_text().splitlines() if ": " in line)
        parts = [float(part) for part in said["Elapsed (wall clock) time (h:mm:ss or m:ss)"].split(":")]
        walls.append(sum(part * 60**place for place, part in enumerate(reversed(parts))))
        sizes.append(int(said["Maximum resident set size (kbytes)"]) / 1024)
        rows.append((number, f"{walls[-1]:.2f}", said["User time (seconds)"], said["System time (seconds)"], f"{sizes[-1]:.0f}"))
    page.table(("run", "wall (s)", "user (s)", "system (s)", "largest resident memory (MiB)"), rows)
    summary = json.loads((directory / "summary.json").read_text())
    received, late = summary["losses"]["received"], summary["lateness"]["packets"]
    page.add(f"{received} packets, {late} late ({100 * late / received:.2f} %). Files, MB:", "")
    files = [line.split() for line in (directory / "files.txt").read_text().splitlines()]
    page.table([name for name, _ in files], [[f"{int(size) / 1e6:.1f}" for _, size in files]])
    page.target("Analysis and report of 10 M + 10 M, wall", "under 20 s", span(walls, "{:.1f}") + " s", max(walls) < 20)
    page.target("Analysis and report of 10 M + 10 M, memory", "under 1 GiB", span(sizes, "{:.0f}") + " MiB", max(sizes) < 1024)


def main():
    directory = Path(sys.argv[1])
    page = Page()
    for name, part in (("chase", chase), ("sink", sink), ("source", source), ("path", path), ("path_long", path_long), ("skew", skew), ("rtp", rtp), ("capture", capture), ("sync", sync), ("study", study), ("sim", sim), ("analysis", analysis)):
        if (directory / name).is_dir():
            part(page, directory / name)
    print(f"# Bench run {directory.name}\n")
    print("Written by `make bench` from the data beside this page (`machine.txt`, `commands.txt`, a directory a part).\n")
    summary = Page()
    summary.table(("what", "target", "found", ""), page.targets)
    print("\n".join(summary.lines))
    missed = [f"{what}: {found}" for what, _, found, met in page.targets if "missed" in met]
    print(f"{len(page.targets) - len(missed)} of {len(page.targets)} targets met.")
    if missed:
        print("Missed:\n\n" + "\n".join("- " + text for text in missed))
    notes = directory / "notes.md"
    if notes.exists():
        print("\n" + notes.read_text().strip())
    print("\n## Machine\n\n```text\n" + (directory / "machine.txt").read_text().rstrip() + "\n```\n")
    print(re.sub(r"\n{3,}", "\n\n", "\n".join(page.lines)).rstrip())


main()
