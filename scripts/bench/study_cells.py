"""Keeps what a study measured as text: its results without plots, and a line for each layer of each cell.

usage: study_cells.py RUNS DIRECTORY      RUNS holds one run of `quaver study`
       study_cells.py --planned RUNS      prints how many cells are planned
"""

import csv
import json
import sys
from pathlib import Path

from summaries import whole_summary

FIGURES = ("count", "min_ns", "p10_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns", "mean_ns", "sd_ns",
           "below_half", "above_half", "spikes")
PLOTS = ("bins", "series")


def only_run(runs):
    return next(path for path in Path(runs).iterdir() if path.name.startswith("study-"))


def without_plots(value):
    if isinstance(value, dict):
        return {key: without_plots(inner) for key, inner in value.items() if key not in PLOTS}
    return [without_plots(inner) for inner in value] if isinstance(value, list) else value


def planned(run):
    facts = json.loads((run / "manifest.json").read_text())["asked"]["facts"]
    return facts["blocks"] * len(facts["arms"])


def rows(run):
    for path in sorted((run / "cells").glob("*.json")):
        cell = json.loads(path.read_text())
        head = [cell["block"], cell["position"], cell["arm"], cell["tier"], cell["discarded"] or ""]
        counts = [cell[key] for key in ("sent", "received", "slots_missed", "sink_involuntary", "source_involuntary")]
        layers = [(one["layer"], one["figures"]) for one in cell["layers"]]
        layers += [("sender", cell["sender"])] if cell["sender"] else []
        for layer, figures in layers:
            yield [*head, *counts, layer, *(f"{figures[key]:.6g}" if isinstance(figures[key], float) else figures[key]
                                            for key in FIGURES)]


def main():
    if sys.argv[1] == "--planned":
        print(planned(only_run(sys.argv[2])))
        return
    run, directory = only_run(sys.argv[1]), Path(sys.argv[2])
    summary = without_plots(json.loads(whole_summary(run).read_text()))
    (directory / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    with open(directory / "cells.csv", "w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["block", "position", "arm", "tier", "discarded", "sent", "received", "slots_missed", "sink_involuntary",
                        "source_involuntary", "layer", *FIGURES])
        table.writerows(rows(run))


main()
