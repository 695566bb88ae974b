"""Checks by made-up results that the part of a bench run's page about threads judges as it should.

usage: sync_check.py
"""

import copy
from pathlib import Path

from made_up_run import check_data, having, not_met
from sync_page import BESIDE, CALL, CALLS, DENSITY, EVENT, EVENTS, MATCHED, PROGRAMS, ROUNDS, SYNC_TARGETS, UPROBE, WHOLE_TIME, beside, sync
from targets import MISSED, MISSING


def program(name, verdict="within", waits=1000, matched=1000):
    runs = [{"events": 10, "wake_ups": waits, "matched": matched}]
    cost = {"interval": {"low": 0.0, "high": 0.01}, "unrecorded_ns": 1e6, "recorded_ns": 1e6, "overhead": 0.0, "pairs": 45, "verdict": verdict}
    return {"program": name, "cost": cost, "row": {}, "runs": runs, "sync_share": 0.5}


def bench(*changed, less=(), complete=True):
    found = {name: program(name) for name in PROGRAMS if name not in less} | {one["program"]: one for one in changed}
    return {"threads": 2, "cpus": 2, "threshold_ns": 10_000, "complete": complete, "programs": list(found.values())}


def density(octets=50, less=(), events=10):
    return "".join(f"{name} {events} {octets} {octets / max(events, 1):.2f}\n" for name in PROGRAMS if name not in less)


def cost(call_ns=50.0, event_ns=25.0, less=(), uprobe="uprobe: 900 ns more a call; 300 times a call counted by us, 30 times an event recorded"):
    rows = [f"{name:14} 1.7 2.7 {call_ns} {event_ns if name in EVENTS else '-'}" for name in CALLS if name not in less]
    return "\n".join(["calls alone", *rows, uprobe]) + "\n"


def peers():
    seconds = {"plain": 0.40, "quaver": 0.44, "bpftrace": 0.85, "perf": 0.50, "mutrace": 0.50, "ltrace": 9.0}
    return {f"peers-{name}-{tool}.txt": f"{took}\n" * ROUNDS[tool] for name in BESIDE for tool, took in seconds.items()}


def good():
    return {
        "programs.json": bench(),
        "density.txt": density(),
        "cost.txt": cost(),
        "analysis.txt": "100000000 events: 5.02 s, 5.01 s on a CPU",
        "analysis-time.txt": "5.65 s, 3792 KiB",
        **peers(),
    }


def changed(**files):
    """By file with its dots and dashes written as underscores."""
    found = copy.deepcopy(good())
    names = {name.replace(".", "_").replace("-", "_"): name for name in found} | {"programs_again_json": "programs-again.json"}
    return found | {names[name]: content for name, content in files.items()}


def check_programs():
    for less in (PROGRAMS[1:], PROGRAMS[:1], ("vips",)):
        found = changed(programs_json=bench(less=less))
        assert having(sync, found, MISSING) == {WHOLE_TIME, MATCHED}, less
    assert having(sync, changed(programs_json=bench(complete=False)), MISSING) == {WHOLE_TIME, MATCHED}
    assert having(sync, changed(programs_json=bench({**program("lu"), "cost": None})), MISSING) == {WHOLE_TIME, MATCHED}
    for verdict in ("above", "undecided"):
        found = changed(programs_json=bench(program("lu", verdict)))
        assert not_met(sync, found) == {WHOLE_TIME: f"worst +0.0 %; {verdict}: lu"}, verdict
        assert not not_met(sync, found | {"programs-again.json": {"programs": [program("lu")]}})
    assert having(sync, changed(programs_json=bench(program("lu", matched=999))), MISSED) == {MATCHED}
    nobody_waited = [program(name, waits=0, matched=0) for name in PROGRAMS]
    assert having(sync, changed(programs_json=bench(*nobody_waited)), MISSING) == {MATCHED}


def check_costs():
    assert having(sync, changed(density_txt=density(81)), MISSED) == {DENSITY}
    for told in (density(less=("x264",)), density(events=0)):
        assert having(sync, changed(density_txt=told), MISSING) == {DENSITY}
    assert having(sync, changed(cost_txt=cost(60.1)), MISSED) == {CALL}
    assert having(sync, changed(cost_txt=cost(event_ns=30.1)), MISSED) == {EVENT}
    assert having(sync, changed(cost_txt=cost(less=("spin",))), MISSING) == {CALL}
    assert having(sync, changed(cost_txt=cost(less=("signal",))), MISSING) == {CALL, EVENT}
    assert having(sync, changed(cost_txt=cost(uprobe="uprobe: not measured (not installed, or not permitted)")), MISSING) == {UPROBE}
    assert having(sync, changed(analysis_txt="1000000 events: 1 s"), MISSING) == {what for what in SYNC_TARGETS if "analysed" in what or "memory" in what}
    assert len(having(sync, changed(analysis_time_txt="30.00 s, 524288 KiB"), MISSED)) == 2


def check_peers():
    # Without our own time there is nothing to compare, and the program alone is not taken for it.
    assert having(sync, changed(peers_ocean_quaver_txt="ended with 1: no\n"), MISSING) == {beside(tool, "ocean") for tool in ("perf", "bpftrace", "mutrace", "ltrace")}
    assert not_met(sync, changed(peers_ocean_mutrace_txt="not installed\n")) == {beside("mutrace", "ocean"): "not installed"}
    assert having(sync, changed(peers_ocean_perf_txt="0.43\n" * 5), MISSED) == {beside("perf", "ocean")}
    assert having(sync, changed(peers_ocean_perf_txt="0.50\n" * 4), MISSING) == {beside("perf", "ocean")}
    assert having(sync, changed(peers_raytrace_bpftrace_txt="0.78\n" * 5), MISSED) == {beside("bpftrace", "raytrace")}


def main():
    in_the_tree = {path.stem for path in (Path(__file__).parents[2] / "kernels").glob("*.c")}
    assert in_the_tree == set(PROGRAMS), in_the_tree ^ set(PROGRAMS)
    check_data(sync, good(), SYNC_TARGETS)
    check_programs()
    check_costs()
    check_peers()
    print("results about threads are judged as they should be")


main()
