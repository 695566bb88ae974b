"""The parts of a bench run's page about chases, the sink, and the analysis of long runs."""

import statistics

from targets import result, results, text, without

# How often each of the three is run.
ROUNDS = 3
LAYERS = ("schedule", "source", "softirq", "receive", "kernel-stamp", "enqueued", "ready", "application")
# Packets of the run that is analysed.
ANALYSED = 10_000_000
WALL, MEMORY = "Elapsed (wall clock) time (h:mm:ss or m:ss)", "Maximum resident set size (kbytes)"
TIMES = {WALL, MEMORY, "User time (seconds)", "System time (seconds)"}

ACCOUNTED = "Every packet accounted for at 135 kpps"
JOINED = "Packets joined at every layer"
PROBES = "Probes, a packet"
CHASE_TARGETS = {ACCOUNTED: "0 unaccounted", JOINED: "100 %", PROBES: "at most 1.0 us"}
SINK = "Sink over the bare loop (recv in line), a packet"
SINK_TARGETS = {SINK: "at most 40 ns"}
ANALYSIS_WALL = "Analysis and report of 10 M + 10 M, wall"
ANALYSIS_MEMORY = "Analysis and report of 10 M + 10 M, memory"
ANALYSIS_TARGETS = {ANALYSIS_WALL: "under 20 s", ANALYSIS_MEMORY: "under 1 GiB"}


def span(values, form="{:.2f}"):
    """Median over the rounds, and least and most."""
    show = form.format
    values = [round(value, 6) + 0.0 for value in values]
    middle = show(statistics.median(values))
    middle = middle.lstrip("-") if not float(middle) else middle
    return middle if len(values) == 1 else f"{middle} ({show(min(values))} to {show(max(values))})"


def chase(page, directory):
    page.expect(CHASE_TARGETS)
    runs = results(directory, "summary-*.json")
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
    if len(runs) < ROUNDS:
        for what in CHASE_TARGETS:
            page.judge(what, f"{len(runs)} of {ROUNDS} runs", None)
    else:
        unaccounted = sum(run["losses"].get("unaccounted") or 0 for run in runs)
        rates = [run["losses"]["sent"] / run["duration_ns"] * 1e6 for run in runs]
        sent = min(run["losses"]["sent"] for run in runs)
        found = f"{unaccounted} in {len(runs)} runs, at {span(rates, '{:.1f}')} kpps reached"
        page.judge(ACCOUNTED, found if sent else "a run sent nothing", accounted if sent else None)
        judge_layers(page, runs)
        judge_probe_cost(page, runs)
    if not runs:
        return
    layers(page, runs)
    probe_cost(page, runs)
    causes(page, runs)


def stamped(run, name):
    """Share of the received packets that have a stamp of this layer, percent; None where the run has no such layer."""
    found = [one["stamped"] for one in run["layers"] if one["layer"] == name]
    return 100 * found[0] / max(1, run["losses"]["received"]) if found else None


def layers(page, runs):
    rows = []
    for layer in runs[0]["layers"]:
        least = min(stamped(run, layer["layer"]) or 0 for run in runs)
        dt = layer["delta_t"]
        rows.append((layer["layer"], f"{least:.4f} %", *(f"{dt[key] / 1e3:.2f}" for key in ("p50_ns", "p99_ns", "p99_9_ns", "max_ns"))))
    page.add("Stamped at each layer (least of the runs), and the time between successive packets there in us (run 1):", "")
    page.table(("layer", "stamped", "p50", "p99", "p99.9", "max"), rows)


def judge_layers(page, runs):
    shares = {name: [stamped(run, name) for run in runs] for name in LAYERS}
    absent = [name for name, of_runs in shares.items() if None in of_runs]
    if absent:
        page.judge(JOINED, without(absent), None)
        return
    least = min(share for of_runs in shares.values() for share in of_runs)
    page.judge(JOINED, f"{least:.4f} % at the worst layer", least >= 100)


def probe_cost(page, runs):
    costs = [run["probe_cost"] for run in runs if run.get("probe_cost")]
    page.add("Cost of the probes, a packet, from alternating blocks within each run:", "")
    rows = [(n, f"{c['per_packet_ns']:.0f} ns", f"{c['interval_ns'][0]:.0f} to {c['interval_ns'][1]:.0f} ns", c["blocks"]) for n, c in enumerate(costs, 1)]
    page.table(("run", "cost", "95 % interval", "pairs of blocks"), rows)


def judge_probe_cost(page, runs):
    costs = [run["probe_cost"] for run in runs if run.get("probe_cost")]
    if len(costs) < len(runs):
        page.judge(PROBES, f"told by {len(costs)} of {len(runs)} runs", None)
        return
    worst = max(cost["per_packet_ns"] for cost in costs)
    upper = max(cost["interval_ns"][1] for cost in costs)
    found = f"{span([cost['per_packet_ns'] for cost in costs], '{:.0f}')} ns; upper ends of the intervals up to {upper:.0f} ns"
    page.judge(PROBES, found, worst <= 1000)


def causes(page, runs):
    for number, run in enumerate(runs, 1):
        page.add(f"Run {number}: {run['lateness']['packets']} late packets, {run['lateness']['time_ns'] / 1e6:.2f} ms in all; threshold {run['lateness']['threshold_ns'] / 1e3:.1f} us.", "")
        rows = [(cause["name"], f"{100 * cause['share']:.1f} %", cause["packets"], f"{cause['worst_ns'] / 1e3:.1f}") for cause in run["causes"][:6]]
        left = run["unexplained"]
        rows.append(("*unexplained*", f"{100 * left['share']:.1f} %", left["packets"], f"{left['worst_ns'] / 1e3:.1f}"))
        page.table(("cause", "share of late time", "packets", "worst (us)"), rows)
        page.add(f"Unexplained is {left['note']}.", "")


def sink(page, directory):
    page.expect(SINK_TARGETS)
    runs = results(directory, "cost-*.json")
    page.add("## Sink: cost of a packet beside bare loops", "")
    page.add("Packets that lie ready in the buffer are drained; the four kinds alternate block by block. Median of the", "blocks (quartiles), ns a packet:", "")
    cell = lambda values: f"{values[1]:.0f} ({values[0]:.0f} to {values[2]:.0f})"
    keys = ("bare_libc_ns", "bare_in_line_ns", "sink_ns", "sink_added_ns", "sink_kernel_stamps_ns")
    rows = [(n, run["blocks"], *(cell(run[key]) for key in keys)) for n, run in enumerate(runs, 1)]
    page.table(("run", "blocks", "bare loop, libc recv", "bare loop, recv in line", "sink", "sink minus bare in line, by pairs", "sink with kernel stamps"), rows)
    added = [run["sink_added_ns"][1] for run in runs]
    if len(runs) < ROUNDS:
        page.judge(SINK, f"{len(runs)} of {ROUNDS} runs", None)
    else:
        page.judge(SINK, span(added, "{:.0f}") + " ns", statistics.median(added) <= 40)
    if runs:
        stamps = [run["sink_kernel_stamps_ns"][1] - run["sink_ns"][1] for run in runs]
        page.add(f"Kernel stamps cost {span(stamps, '{:.0f}')} ns a packet on top.", "")


def analysis(page, directory):
    page.expect(ANALYSIS_TARGETS)
    page.add("## Analysis: ten million packets and ten million events", "")
    rows, walls, sizes = [], [], []
    for number in range(1, ROUNDS + 1):
        words = text(directory / f"time-{number}.txt").splitlines()
        said = dict(line.strip().rsplit(": ", 1) for line in words if ": " in line)
        if not TIMES <= said.keys():
            continue
        parts = [float(part) for part in said[WALL].split(":")]
        walls.append(sum(part * 60**place for place, part in enumerate(reversed(parts))))
        sizes.append(int(said[MEMORY]) / 1024)
        rows.append((number, f"{walls[-1]:.2f}", said["User time (seconds)"], said["System time (seconds)"], f"{sizes[-1]:.0f}"))
    page.table(("run", "wall (s)", "user (s)", "system (s)", "largest resident memory (MiB)"), rows)
    summary = result(directory / "summary.json")
    received = summary["losses"]["received"] if summary else 0
    if received < ANALYSED or len(walls) < ROUNDS:
        for what in ANALYSIS_TARGETS:
            page.judge(what, f"{len(walls)} of {ROUNDS} analyses told, of {received:,} packets", None)
    else:
        page.judge(ANALYSIS_WALL, span(walls, "{:.1f}") + " s", max(walls) < 20)
        page.judge(ANALYSIS_MEMORY, span(sizes, "{:.0f}") + " MiB", max(sizes) < 1024)
    if not summary or not received:
        return
    late = summary["lateness"]["packets"]
    page.add(f"{received} packets, {late} late ({100 * late / received:.2f} %). Files, MB:", "")
    files = [line.split() for line in text(directory / "files.txt").splitlines()]
    page.table([name for name, _ in files], [[f"{int(size) / 1e6:.1f}" for _, size in files]])
