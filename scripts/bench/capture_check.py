"""Checks by made-up results that the part of a bench run's page about captures judges as it should.

usage: capture_check.py
"""

import copy
import json
import tempfile
from pathlib import Path

from capture_judge import judged
from capture_page import capture

SOURCE = {"sent": 2_000_000, "slots_missed": 0, "period_ns": 5_000}


class Page:
    """Keeps what the real one would print."""

    def __init__(self):
        self.targets = {}

    def add(self, *_):
        pass

    def table(self, head, rows):
        assert all(len(row) == len(head) for row in rows), (head, rows)

    def target(self, what, wanted, found, met):
        assert what not in self.targets, f"{what} is there twice"
        self.targets[what] = (found, bool(met))


def page_of(files):
    with tempfile.TemporaryDirectory() as directory:
        for name, content in files.items():
            (Path(directory) / name).write_text(content if isinstance(content, str) else json.dumps(content))
        page = Page()
        capture(page, Path(directory))
        return page.targets


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
    return {f"load-{name}-{size}-1.json": judged(name, size, 10, was, source) for size in (64, 512, 1500)}


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
    everything = {f"stamps-{n}.txt": "batch 5 4\nvdso-clock_gettime 25 24\n" for n in (1, 2, 3)}
    everything |= {name: compared(5.0, 80.0) for name in ("compare-pattern2-1.json", "compare-pattern2-2.json", "compare-all.json")}
    everything["clock-bound.json"] = {"share_within": 1.0, "samples": 9, "bound_ns": {"p50": 60}}
    for name, was in (("quaver", quaver(2_000_000)), ("layers", quaver(2_000_000, 5.0)), ("dumpcap", dumpcap(2_000_000))):
        everything |= loads(name, was)
    everything["load-immediate-64-1.json"] = judged("immediate", 64, 10, quaver(1_500_000, 8.0, ring=500_000), SOURCE)
    return everything


def missed(files):
    return {what: found for what, (found, met) in page_of(files).items() if not met}


def changed(less=(), **more):
    files = {name: content for name, content in copy.deepcopy(good()).items() if not any(name.startswith(start) for start in less)}
    return missed(files | more)


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
        lost = changed(**loads(name, quaver(1_999_999, unaccounted=1)))
        assert lost == {f"Capture of {size} octets, {title}: unaccounted": "1" for size in (64, 512, 1500)}, lost
    # Whoever takes each packet by itself may drop some, but has to tell.
    untold = changed(**{"load-immediate-64-1.json": judged("immediate", 64, 10, quaver(1_500_000), SOURCE)})
    assert untold == {"Capture of each packet by itself (--immediate): unaccounted": "500000"}, untold
    short = changed(**loads("quaver", quaver(1_000_000, 0.5), SOURCE | {"sent": 1_000_000}))
    assert set(short) == {f"Capture of {size} octets, quaver: length of the stream" for size in (64, 512, 1500)}, short
    failed = changed(**loads("layers", quaver(2_000_000) | {"status": 1}))
    assert set(failed.values()) == {"status 1"} and len(failed) == 3, failed
    slow = changed(**loads("quaver", quaver(1_900_000), {"sent": 1_900_000, "slots_missed": 100_000, "period_ns": 5_000}))
    assert set(slow.values()) == {"190,000 at least"}, slow
    costly = changed(**loads("quaver", quaver(2_000_000, 3.0)))
    assert len(costly) == 3 and set(costly.values()) == {"1.50 s"}, costly
    for without in (changed(["load-dumpcap"]), changed(**loads("dumpcap", dumpcap(2_000_000, status=2)))):
        assert len(without) == 3 and all("beside dumpcap" in what for what in without), without
        assert set(without.values()) == {"not measured"}, without


def check_runs():
    for files in (changed(["compare-all"]), changed(**{"compare-all.json": compared(5.0, 80.0, done=False)}), changed(**{"compare-all.json": '{"complete'})):
        assert list(files.values()) == ["0.200, 0.200, not measured", "0.0125, 0.0125, not measured"], files
    # Files in the order of their names, that of the whole comparison last.
    for value, told in ((2.0, "0.200, 0.200, 0.500"), (None, "0.200, 0.200, not measured")):
        once = changed(**{"compare-all.json": compared(value, 80.0)})
        assert list(once.values()) == [told], once


def main():
    everything = page_of(good())
    assert all(met for _, met in everything.values()), everything
    # What was not measured has the same rows, and each says so.
    nothing = page_of({})
    assert nothing.keys() == everything.keys(), nothing.keys() ^ everything.keys()
    assert set(nothing.values()) == {("not measured", False)}, nothing
    check_accounts()
    check_loads()
    check_runs()


main()
