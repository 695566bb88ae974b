"""Checks by made-up results that the part of a bench run's page about captures judges as it should.

usage: capture_check.py
"""

import copy
import json

from capture_judge import judged
from capture_page import CAPTURE_TARGETS, LOAD_ROUNDS, RUNS, capture, of_pattern
from made_up_run import check_data, having, not_met
from targets import MISSED, MISSING

SOURCE = {"sent": 2_000_000, "slots_missed": 0, "period_ns": 5_000}


def watched(out="", errors="", status=0, cpu_s=1.0):
    return {"out": out, "errors": errors, "status": status, "user_s": cpu_s, "system_s": 0.0}


def quaver(captured, cpu_s=1.0, **dropped):
    places = {"ring": 0, "undecoded": 0, "unaccounted": 0} | dropped
    interface = {"stamped": {"kernel": captured}, "stamps_out_of_order": 0, "dropped": places}
    all_dropped = sum(places.values())
    said = {"seen": captured + all_dropped, "captured": captured, "dropped": all_dropped, "interfaces": [interface]}
    return watched(json.dumps(said), cpu_s=cpu_s)


def dumpcap(captured, cpu_s=1.2, status=0):
    line = f"Packets received/dropped on interface 'veth0': {captured}/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0)"
    return watched(errors=line, status=status, cpu_s=cpu_s)


def loads(name, was, source=SOURCE):
    rounds = range(1, LOAD_ROUNDS + 1)
    return {f"load-{name}-{size}-{number}.json": judged(name, size, 10, was, source) for size in (64, 512, 1500) for number in rounds}


def immediate(was):
    return {f"load-immediate-64-{number}.json": judged("immediate", 64, 10, was, SOURCE) for number in range(1, LOAD_ROUNDS + 1)}


def compared(mean, variance, done=True):
    """`mean` and `variance`: of the inline clock over raw cycles."""
    ratio = {"of": "inline-clock", "to": "batch", "mean": mean, "mean_interval": None, "trimmed_variance": variance, "trimmed_variance_interval": None, "verdict": "larger"}
    # Another way to the same end does not count.
    other = ratio | {"of": "threaded", "mean": 1.0, "trimmed_variance": 1.0}
    overhead = {"count": 9} | dict.fromkeys(("mean_ns", "variance_ns2", "trimmed_mean_ns", "trimmed_variance_ns2", "p50_ns"), 1.0)
    arms = [{"name": way, "overhead": overhead, "resolve_ns": 1.0} for way in ("inline-clock", "batch")]
    pattern = {"name": "2", "user": arms, "ratios": [ratio, other], "kernel": None}
    return {"complete": done, "patterns": [pattern], "loss": {"totals": []}}


def good():
    everything = {f"stamps-{n}.txt": "batch 5 4\nvdso-clock_gettime 25 24\n" for n in range(1, RUNS + 1)}
    everything |= {name: compared(5.0, 80.0) for name in ("compare-pattern2-1.json", "compare-pattern2-2.json", "compare-all.json")}
    everything["clock-bound.json"] = {"share_within": 1.0, "samples": 9, "bound_ns": {"p50": 60}}
    for name, was in (("quaver", quaver(2_000_000)), ("layers", quaver(2_000_000, 5.0)), ("dumpcap", dumpcap(2_000_000))):
        everything |= loads(name, was)
    return everything | immediate(quaver(1_500_000, 8.0, ring=500_000))


def changed(less=(), **more):
    return {name: content for name, content in copy.deepcopy(good()).items() if not name.startswith(tuple(less))} | more


def check_accounts():
    # Nobody knows where these went, whatever the program calls that.
    for place in ("unaccounted", "undecoded"):
        astray = judged("quaver", 64, 10, quaver(1_999_900, **{place: 100}), SOURCE)
        assert (astray["captured"], astray["dropped"], astray["unaccounted"]) == (1_999_900, 0, 100)
    known = judged("quaver", 64, 10, quaver(1_999_900, ring=100), SOURCE)
    assert (known["dropped"], known["unaccounted"]) == (100, 0)
    silent = judged("quaver", 64, 10, watched("", "no such device", 6), SOURCE)
    assert (silent["unaccounted"], silent["status"], silent["told"]) == (2_000_000, 6, False)


def check_loads():
    for name, title in (("quaver", "quaver"), ("layers", "quaver with layers")):
        lost = not_met(capture, changed(**loads(name, quaver(1_999_999, unaccounted=1))))
        assert lost == {f"Capture of {size} octets, {title}: unaccounted": "1, 1" for size in (64, 512, 1500)}, lost
    # Whoever takes each packet by itself may drop some, but has to tell.
    untold = not_met(capture, changed(**immediate(quaver(1_500_000))))
    assert untold == {"Capture of each packet by itself (--immediate): unaccounted": "500000, 500000"}, untold
    short = not_met(capture, changed(**loads("quaver", quaver(1_000_000, 0.5), SOURCE | {"sent": 1_000_000})))
    assert set(short) == {f"Capture of {size} octets, quaver: length of the stream" for size in (64, 512, 1500)}, short
    failed = not_met(capture, changed(**loads("layers", quaver(2_000_000) | {"status": 1})))
    assert set(failed.values()) == {"status 1, status 1"} and len(failed) == 3, failed
    slow = not_met(capture, changed(**loads("quaver", quaver(1_900_000), {"sent": 1_900_000, "slots_missed": 100_000, "period_ns": 5_000})))
    assert set(slow.values()) == {"190,000 at least"}, slow
    costly = changed(**loads("quaver", quaver(2_000_000, 3.0)))
    assert len(having(capture, costly, MISSED)) == 3 and set(not_met(capture, costly).values()) == {"1.50 s beside 0.60 s"}, not_met(capture, costly)
    for without in (changed(["load-dumpcap"]), changed(**loads("dumpcap", dumpcap(2_000_000, status=2)))):
        found = not_met(capture, without)
        assert len(found) == 3 and all("beside dumpcap" in what for what in found), found
        assert set(found.values()) == {"not measured"}, found
    # A round that is bad is missed even where another one is not there.
    half = changed(["load-quaver-64-1"], **{"load-quaver-64-2.json": judged("quaver", 64, 10, quaver(1_999_999, unaccounted=1), SOURCE)})
    assert having(capture, half, MISSED) == {"Capture of 64 octets, quaver: unaccounted"}, having(capture, half, MISSED)
    assert len(having(capture, half, MISSING)) == 4, having(capture, half, MISSING)


def check_runs():
    for broken in (changed(["compare-all"]), changed(**{"compare-all.json": compared(5.0, 80.0, done=False)}), changed(**{"compare-all.json": '{"complete'})):
        assert list(not_met(capture, broken).values()) == ["0.200, 0.200, not measured", "0.0125, 0.0125, not measured"], not_met(capture, broken)
        assert having(capture, broken, MISSING) == {of_pattern("mean"), of_pattern("trimmed variance")}
    # Files in the order of their names, that of the whole comparison last.
    for value, told, outcome in ((2.0, "0.200, 0.200, 0.500", MISSED), (None, "0.200, 0.200, not measured", MISSING)):
        once = changed(**{"compare-all.json": compared(value, 80.0)})
        assert not_met(capture, once) == {of_pattern("mean"): told} and having(capture, once, outcome), once


def main():
    check_data(capture, good(), CAPTURE_TARGETS)
    check_accounts()
    check_loads()
    check_runs()
    print("results of captures are judged as they should be")


main()
