"""Checks by made-up results that the parts of a bench run's page about the path judge as they should.

usage: path_check.py
"""

from made_up_run import check_data, having, not_met
from path_more_page import LONG_TARGETS, LONG_TESTS, MARKS, SEEDS, SKEW, SKEW_TARGETS, grows, path_long, skew
from path_page import BLOCKS, HOSTILE, KINDS, LOAD, PACE, PACED, PATH_TARGETS, ROUNDS, path
from targets import MISSED, MISSING


def load(sent=2_000_000, lost=0, own_lost=0):
    return {"sent": sent + 3, "lost": lost + 3, "buffer_drops": 0, "client_cpu_s": 1.0, "server_cpu_s": 1.0, "cpu_s_per_million": 1.0,
            "own_words": {"sent": sent, "lost": own_lost}}


def pace(p99_ns):
    return {"against_schedule": {"p50_ns": 1, "p99_ns": p99_ns, "max_ns": 9_999}, "bursts": 0}


def block(p99_ns=2_000, lost=0):
    pdv = {"p50_ns": 1, "p99_ns": p99_ns, "p99_9_ns": 1, "max_ns": 1}
    return {"up": {"variation": {"pdv": pdv}, "loss": {"packets": lost}}}


def good():
    found = {f"load-quaver-{n}.json": load() for n in range(1, ROUNDS + 1)}
    found |= {f"pace-{tool}-{n}.json": pace(7_000 if tool == "quaver" else 9_000) for tool in PACED for n in range(1, ROUNDS + 1)}
    return found | {f"hostile-{kind}-{n}.json": block() for kind in KINDS for n in range(1, BLOCKS + 1)}


def blocks(kind, *p99_us):
    return {f"hostile-{kind}-{n}.json": block(1_000 * us) for n, us in enumerate(p99_us, 1)}


def check_path():
    assert having(path, good() | {"load-quaver-2.json": load(lost=1)}, MISSED) == {LOAD}
    assert having(path, good() | {"load-quaver-2.json": load(own_lost=1)}, MISSED) == {LOAD}
    assert having(path, good() | {"load-quaver-2.json": load(1_989_999)}, MISSED) == {LOAD}
    assert having(path, good() | {"load-quaver-2.json": {**load(), "own_words": {}}}, MISSING) == {LOAD}
    slow = {f"pace-quaver-{n}.json": pace(9_000) for n in (1, 2)}
    assert having(path, good() | slow, MISSED) == {PACE}
    # The best of the peers that are there is not the best of all.
    without_irtt = {name: one for name, one in good().items() if "irtt" not in name}
    assert not_met(path, without_irtt) == {PACE: "without irtt"}, not_met(path, without_irtt)
    assert having(path, good() | {"hostile-here-1.json": block(lost=1)}, MISSED) == {HOSTILE}
    assert having(path, good() | blocks("here", 3, 3, 3, 3, 1, 1), MISSED) == {HOSTILE}
    # One bad block elsewhere excuses nothing.
    assert having(path, good() | blocks("here", 3, 3, 3, 3, 1, 1) | blocks("elsewhere", 2, 2, 2, 2, 2, 90), MISSED) == {HOSTILE}
    assert not not_met(path, good() | blocks("here", 2, 2, 2, 2, 1, 90))


def memory(client_kib, server_kib=0):
    return {"client": {"rss_kib": 14_000 + client_kib, "most_kib": 20_000}, "server": {"rss_kib": 7_000 + server_kib, "most_kib": 9_000}}


def long_test(*last, shares=MARKS):
    marks = [{"share": share, "packets": 9} | memory(0) for share in shares]
    marks[-1] |= memory(*last)
    return {"rolling": [{"direction": "up", "unique": 9, "lost": 0}], "marks": marks, "seconds": 60.0}


def check_long():
    files = {f"{test}.json": long_test(1_023) for test in LONG_TESTS}
    check_data(path_long, files, LONG_TARGETS)
    for grown in ((1_024,), (0, 1_024)):
        assert having(path_long, files | {"up.json": long_test(*grown)}, MISSED) == {grows("up")}
    for shares in ((0.1,), (0.1, 0.5), (0.5, 0.9)):
        assert having(path_long, files | {"up.json": long_test(0, shares=shares)}, MISSING) == {grows("up")}, shares


def flow(slope):
    return {"skew": slope and {"slope": slope}, "variation": {"pdv": {"p50_ns": 1}}, "loss": {"packets": 0}}


def check_skew():
    files = {f"probe-{seed}.json": {"up": flow(-50.9e-6), "down": flow(50.9e-6)} for seed in SEEDS}
    check_data(skew, files, SKEW_TARGETS)
    off = files | {"probe-2.json": {"up": flow(-50e-6), "down": flow(51.1e-6)}}
    assert having(skew, off, MISSED) == {SKEW}
    unknown = files | {"probe-2.json": {"up": flow(-50e-6), "down": flow(None)}}
    assert not_met(skew, unknown) == {SKEW: "without the slope of seed 2, down"}


def main():
    check_data(path, good(), PATH_TARGETS)
    check_path()
    check_long()
    check_skew()
    print("results about the path are judged as they should be")


main()
