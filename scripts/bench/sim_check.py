"""Checks by made-up results that the part of a bench run's page about the simulator judges as it should.

usage: sim_check.py
"""

from made_up_run import check_data, having, not_met
from sim_page import COUNTED, MEDIAN_SPEED, MISSES, MISSES_ALL_FITS, ROUNDS, SIM_TARGETS, SIZE, SPEED, SPLASH, sim
from targets import MISSED, MISSING

THEIRS = dict(zip("Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw".split(), (1000, 100, 10, 500, 60, 20, 300, 40, 70)))
OURS = {"instructions": 1000, "load_misses": 60, "store_misses": 40, "fetch_misses": 100, "from_memory": 100}
HEAD = "round trace instructions elapsed_ns octets threads"


def counted(name, **ours):
    return {"program": name, "cachegrind": THEIRS, "quaver": OURS | ours, "twice": {"instructions": 0, "data": 0}}


def speed(elapsed_ns=None, less=()):
    """Of 10 million instructions in 0.2 s, which is 50 MIPS, or as long as `elapsed_ns` says by trace."""
    took = dict.fromkeys(SPLASH, 200_000_000) | (elapsed_ns or {})
    rows = [f"{number} {name} 10000000 {took[name]} 250000 16" for number in range(1, ROUNDS + 1) for name in SPLASH]
    return "\n".join([HEAD, *(row for row in rows if row not in less)]) + "\n"


def sizes(octets=250_000, names=SPLASH):
    """250 kB of 10 million instructions are 25 kB a million."""
    return "\n".join([HEAD, *(f"1 {name} 10000000 200000000 {octets} 16" for name in names)]) + "\n"


def good():
    return {
        "versions.txt": "quaver 0\n",
        "speed.txt": speed(),
        "sizes.txt": sizes(),
        "peers.txt": "program tool round instructions seconds\nocean lackey 1 50000000 2.5\n",
        **{f"{where}cachegrind-{name}.json": counted(name) for where in ("", "all-fits/") for name in COUNTED},
    }


def check_speed():
    # Half of the traces at 50, the others above the least: the median is between.
    slower = dict.fromkeys(SPLASH[:5], 250_000_000)
    assert having(sim, good() | {"speed.txt": speed(slower)}, MISSED) == {MEDIAN_SPEED}
    slowest = {"ocean": 333_400_000}
    assert having(sim, good() | {"speed.txt": speed(slowest)}, MISSED) == {SPEED}
    for name in SPLASH:
        less = speed(less=[f"2 {name} 10000000 200000000 250000 16"])
        assert not_met(sim, good() | {"speed.txt": less}) == dict.fromkeys((MEDIAN_SPEED, SPEED), f"without {name}")
    assert having(sim, good() | {"speed.txt": HEAD + "\n"}, MISSING) == {MEDIAN_SPEED, SPEED}


def check_sizes():
    assert having(sim, good() | {"sizes.txt": sizes(250_001)}, MISSED) == {SIZE}
    for name in SPLASH:
        less = sizes(names=[one for one in SPLASH if one != name])
        assert not_met(sim, good() | {"sizes.txt": less}) == {SIZE: f"without {name}"}


def check_misses():
    for where, what in (("", MISSES), ("all-fits/", MISSES_ALL_FITS)):
        for name in COUNTED:
            path = f"{where}cachegrind-{name}.json"
            assert having(sim, good() | {path: counted(name, from_memory=101)}, MISSED) == set()
            for wrong in ({"from_memory": 102}, {"from_memory": 98}, {"fetch_misses": 102}, {"instructions": 1001}):
                assert having(sim, good() | {path: counted(name, **wrong)}, MISSED) == {what}, (name, wrong)
            less = {other: one for other, one in good().items() if other != path}
            assert not_met(sim, less) == {what: f"without {name}"}


def main():
    check_data(sim, good(), SIM_TARGETS, apart=("versions", "peers"))
    check_speed()
    check_sizes()
    check_misses()
    print("results of the simulator are judged as they should be")


main()
