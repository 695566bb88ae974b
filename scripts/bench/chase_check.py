"""Checks by made-up results that the parts of a bench run's page about chases, sink, source and analysis judge as they should.

usage: chase_check.py
"""

import copy

from chase_page import (
    ACCOUNTED, ANALYSIS_MEMORY, ANALYSIS_TARGETS, ANALYSIS_WALL, CHASE_TARGETS, JOINED, LAYERS, MEMORY, PROBES, ROUNDS, SINK, SINK_TARGETS, WALL, analysis, chase, sink,
)
from made_up_run import check_data, having, not_met
from source_page import OURS, PEERS, SOURCE_TARGETS, beside, catch_up, gaps, slope_over, source
from targets import MISSED, MISSING

QUANTILES = dict.fromkeys(("p50_ns", "p99_ns", "p99_9_ns", "max_ns"), 1.0)


def run(cost_ns=900.0, layers=LAYERS, stamped=1000, **losses):
    losses = {"sent": 1000, "received": 1000, "duplicates": 0, "network": 0, "stack": {}, "unaccounted": 0} | losses
    cause = {"share": 1.0, "packets": 1, "worst_ns": 1.0}
    return {
        "losses": losses,
        "lateness": {"packets": 1, "time_ns": 1, "threshold_ns": 1, "distribution": QUANTILES},
        "duration_ns": 10_000_000,
        "period_ns": 10_000,
        "layers": [{"layer": name, "stamped": stamped, "delta_t": QUANTILES} for name in layers],
        "probe_cost": {"per_packet_ns": cost_ns, "interval_ns": [0.0, 2000.0], "blocks": 8},
        "causes": [cause | {"name": "tick"}],
        "unexplained": cause | {"note": "nothing"},
    }


def check_chase():
    files = {f"summary-{number}.json": run() for number in range(1, ROUNDS + 1)}
    check_data(chase, files, CHASE_TARGETS)
    second = lambda one: files | {"summary-2.json": one}
    assert having(chase, second(run(unaccounted=1, received=999)), MISSED) == {ACCOUNTED, }
    assert having(chase, second(run(received=999)), MISSED) == {ACCOUNTED}
    assert not not_met(chase, second(run(received=999, stamped=999, network=1)))
    assert having(chase, second(run(stamped=999)), MISSED) == {JOINED}
    for name in LAYERS:
        # Of whichever run: the first one's layers are no list of all.
        less = run(layers=[layer for layer in LAYERS if layer != name])
        for of in (second(less), files | {"summary-1.json": less}, dict.fromkeys(files, less)):
            assert not_met(chase, of) == {JOINED: f"without {name}"}, name
    assert having(chase, second(run(cost_ns=1000.1)), MISSED) == {PROBES}
    assert having(chase, second(run() | {"probe_cost": None}), MISSING) == {PROBES}
    assert having(chase, dict.fromkeys(files, run(sent=0, received=0)), MISSING) == {ACCOUNTED}


def cost(added_ns):
    quartiles = [1.0, 2.0, 3.0]
    keys = ("bare_libc_ns", "bare_in_line_ns", "sink_ns", "sink_kernel_stamps_ns")
    return {"blocks": 100, "sink_added_ns": [0.0, added_ns, 90.0]} | dict.fromkeys(keys, quartiles)


def check_sink():
    files = {f"cost-{number}.json": cost(40.0) for number in range(1, ROUNDS + 1)}
    check_data(sink, files, SINK_TARGETS)
    assert not not_met(sink, files | {"cost-2.json": cost(90.0)})
    assert having(sink, files | dict.fromkeys(("cost-1.json", "cost-2.json"), cost(40.1)), MISSED) == {SINK}


def sent(p99_ns=9_000, **changed):
    found = {
        "against_schedule": QUANTILES | {"p99_ns": p99_ns}, "against_own_line": QUANTILES, "slope_ppm": 1.0, "bursts": 0, "longest_burst": 0, "longest_gap_ns": 1, "slots_skipped": 0,
        "sent": 9, "observed": 9, "judged": 9, "cpu_s": 1.0, "elapsed_s": 60.02, "own_words": None,
    }
    return found | changed


def check_source():
    files = {f"{name}-{number}.json": sent() for name in OURS + PEERS for number in (1, 2, 3)}
    files |= {f"slope-{pace}-1.json": sent() for pace in ("spin", "hybrid")}
    check_data(source, files, SOURCE_TARGETS)
    spin = "quaver-spin"
    first = lambda **changed: files | {f"{spin}-1.json": sent(**changed)}
    slow = first(p99_ns=9_001) | {f"{spin}-2.json": sent(9_001)}
    assert having(source, slow, MISSED) == {beside(spin, peer) for peer in PEERS}
    assert having(source, first(bursts=1, longest_burst=2), MISSED) == {gaps(spin)}
    assert having(source, first(bursts=2, longest_burst=3), MISSED) == {gaps(spin), catch_up(spin)}
    # A peer that is not installed.
    without_irtt = {name: one for name, one in files.items() if not name.startswith("irtt")}
    assert having(source, without_irtt, MISSING) == {beside(ours, "irtt") for ours in OURS}
    assert having(source, dict.fromkeys((f"{spin}-{number}.json" for number in (1, 2, 3)), sent(judged=0)) | {
        name: one for name, one in files.items() if not name.startswith(spin)
    }, MISSING) == {gaps(spin), catch_up(spin)}
    for wrong in (-1.01, 1.01):
        assert having(source, files | {"slope-spin-1.json": sent(slope_ppm=wrong)}, MISSED) == {slope_over("spin")}
    assert not_met(source, files | {"slope-spin-1.json": sent(elapsed_s=2.0)}) == {slope_over("spin"): "only 2 s"}


def took(wall="0:19.99", kib=1_048_575):
    return f"\t{WALL}: {wall}\n\tUser time (seconds): 1\n\tSystem time (seconds): 1\n\t{MEMORY}: {kib}\n"


def check_analysis():
    summary = {"losses": {"received": 10_000_000}, "lateness": {"packets": 1}}
    files = {f"time-{number}.txt": took() for number in (1, 2, 3)} | {"summary.json": summary, "files.txt": "samples.parquet 1000000\n"}
    check_data(analysis, files, ANALYSIS_TARGETS, apart=("files",))
    assert having(analysis, files | {"time-2.txt": took("0:20.00")}, MISSED) == {ANALYSIS_WALL}
    assert having(analysis, files | {"time-2.txt": took("1:00:00")}, MISSED) == {ANALYSIS_WALL}
    assert having(analysis, files | {"time-2.txt": took(kib=1_048_576)}, MISSED) == {ANALYSIS_MEMORY}
    small = copy.deepcopy(summary)
    small["losses"]["received"] = 100_000
    assert having(analysis, files | {"summary.json": small}, MISSING) == set(ANALYSIS_TARGETS)


def main():
    check_chase()
    check_sink()
    check_source()
    check_analysis()
    print("results of chases, sink, source and analysis are judged as they should be")


main()
