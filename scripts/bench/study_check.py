"""Checks by made-up results that the part of a bench run's page about studies judges as it should.

usage: study_check.py
"""

import copy

from made_up_run import check_data, having, not_met
from study_page import ARMS, BLOCKING, FEW, LOOPS, OSNOISE, QUIET, STUDY_TARGETS, USUAL, WAKING, WOKEN, WOKEN_LOOP, blocked, null, study, throttled
from targets import MISSED, MISSING


def effect(arm, difference, verdict="worse"):
    ranked = {"interval": None, "metric": "p99", "baseline": 1.0, "arm": 1.0, "difference": difference}
    return {"arm": arm, "class": None, "ranked": ranked, "p_corrected": 0.01, "verdict": verdict}


def lab(name):
    ranking = sorted((effect(arm, 90.0 if arm.startswith("itr") else 10.0) for arm in ARMS[name]), key=lambda one: -one["ranked"]["difference"])
    of = {"below_half": 0.0, "above_half": 0.0, "p10_ns": 0.0, "p90_ns": 900.0, "p99_ns": 1.0}
    figures = [{"figure": "3", "title": "", "here": None, "saw": ""}]
    if name == "netns":
        awake = {"p10_ns": 0.0, "p90_ns": 800.0}
        here = {"figures": of, "spikes_per_million": None}
        figures.append({"figure": WOKEN, "title": "", "here": here, "status": "", "layer": "", "saw": "", "beside": ("kept awake", awake)})
    facts = {"blocks": 2, "arms": [1], "measured_ns": 10, "period_ns": 5, "rank_by": "p99"}
    controls = [effect("control (A/A)", 0.0, "no-difference")]
    return {"facts": facts, "cells": 9, "discarded": [], "ranking": ranking, "controls": controls, "paper": {"figures": figures}, "warnings": []}


def classes(irq, thread):
    return {name: {"count": count, "net_ns": 1_000 * count} for name, count in (("irq", irq), ("thread", thread))}


def noise(**counts):
    """`counts`: of one loop, ours and the kernel's."""
    usual = {QUIET: (1, 0), WOKEN_LOOP: (902, 901), USUAL: (225, 10)}
    found = [{"what": what, "ours": classes(*of), "kernels": classes(*of)} for what, of in usual.items() if counts.get("only") in (None, what)]
    for one in found:
        if one["what"] == counts.get("what"):
            one |= {side: classes(*counts[side]) for side in ("ours", "kernels") if side in counts}
    return {"loops": found}


def good():
    return {"netns/summary.json": lab("netns"), "qemu/summary.json": lab("qemu"), "osnoise.json": noise()}


def check_osnoise():
    for loops in ({"loops": []}, *(noise(only=what) for what in LOOPS)):
        assert having(study, good() | {"osnoise.json": loops}, MISSING) == {OSNOISE}
    # A class that neither saw is no agreement, one that we alone or the kernel alone saw is none either.
    for what, classes_of in LOOPS.items():
        for name in classes_of:
            few = (0, 901) if name == "irq" else (902, 0)
            both = noise(what=what, ours=few, kernels=few)
            assert having(study, good() | {"osnoise.json": both}, MISSING) == {OSNOISE}, (what, name)
            for side in ("ours", "kernels"):
                assert having(study, good() | {"osnoise.json": noise(what=what, **{side: few})}, MISSED) == {OSNOISE}, (what, side)
    for count, outcome in ((FEW, set()), (FEW + 1, {OSNOISE})):
        assert having(study, good() | {"osnoise.json": noise(what=QUIET, ours=(count, 0))}, MISSED) == outcome, count
    assert having(study, good() | {"osnoise.json": noise(what=USUAL, ours=(236, 10))}, MISSED) == set()
    assert having(study, good() | {"osnoise.json": noise(what=USUAL, ours=(237, 10))}, MISSED) == {OSNOISE}


def check_labs():
    for name in ARMS:
        path = f"{name}/summary.json"
        for arm in ARMS[name]:
            less = lab(name)
            less["ranking"] = [one for one in less["ranking"] if one["arm"] != arm]
            assert throttled(name) in having(study, good() | {path: less}, MISSING), arm
        least = lab(name)
        least["ranking"].reverse()
        assert having(study, good() | {path: least}, MISSED) == {throttled(name)}
        apart = lab(name)
        next(one for one in apart["ranking"] if one["arm"] == "itr-blocking")["ranked"]["difference"] = 99.1
        assert having(study, good() | {path: apart}, MISSED) == {blocked(name)}
        for verdict in ("worse", "better"):
            differs = lab(name) | {"controls": [effect("control (A/A)", 1.0, verdict)]}
            assert having(study, good() | {path: differs}, MISSED) == {null(name)}
        assert having(study, good() | {path: lab(name) | {"controls": []}}, MISSING) == {null(name)}
    narrow = copy.deepcopy(lab("netns"))
    narrow["paper"]["figures"][1]["here"]["figures"]["p90_ns"] = 800.0
    assert having(study, good() | {"netns/summary.json": narrow}, MISSED) == {WAKING}
    assert having(study, good() | {"netns/summary.json": lab("netns") | {"paper": None}}, MISSING) == {WAKING}
    alike = lab("netns")
    next(one for one in alike["ranking"] if one["arm"] == "blocking-no-idle-poll")["verdict"] = "no-difference"
    assert not_met(study, good() | {"netns/summary.json": alike}) == {BLOCKING: "no difference found"}


def main():
    check_data(study, good(), STUDY_TARGETS)
    check_osnoise()
    check_labs()
    print("results about studies are judged as they should be")


main()
