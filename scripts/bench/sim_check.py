"""Checks by made-up results that the part of a bench run's page about the simulator judges as it should.

usage: sim_check.py
"""

import json
import tempfile
from pathlib import Path

from sim_page import SPLASH, sim


class Page:
    """Keeps what the real one would print."""

    def __init__(self):
        self.targets = {}
        self.rows = []

    def add(self, *_):
        pass

    def table(self, head, rows):
        assert all(len(row) == len(head) for row in rows), (head, rows)
        self.rows.extend(rows)

    def target(self, what, wanted, found, met):
        assert what not in self.targets, f"{what} is there twice"
        self.targets[what] = (found, bool(met))


THEIRS = dict(zip("Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw".split(), (1000, 100, 10, 500, 60, 20, 300, 40, 70)))
OURS = {"instructions": 1000, "load_misses": 60, "store_misses": 40, "fetch_misses": 100, "from_memory": 100}


HEAD = "round trace instructions elapsed_ns octets threads\n"
SIZES = [f"1 {name} 10000000 200000000 250000 16" for name in SPLASH]


def page_of(speed, ours=OURS, peers="program tool round instructions seconds\nocean lackey 1 50000000 2.5\n", files=1, sizes=SIZES, fits=None):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "versions.txt").write_text("quaver 0\n")
        (directory / "speed.txt").write_text(HEAD + "".join(f"{line}\n" for line in speed))
        (directory / "sizes.txt").write_text(HEAD + "".join(f"{line}\n" for line in sizes))
        (directory / "peers.txt").write_text(peers)
        for number in range(files):
            one = {"program": "ocean", "cachegrind": THEIRS, "quaver": ours, "twice": {"instructions": 0, "data": 0}}
            (directory / f"cachegrind-{number}.json").write_text(json.dumps(one))
        if fits:
            (directory / "all-fits").mkdir()
            one = {"program": "ocean", "cachegrind": THEIRS, "quaver": fits, "twice": {"instructions": 0, "data": 0}}
            (directory / "all-fits" / "cachegrind-0.json").write_text(json.dumps(one))
        page = Page()
        sim(page, directory)
        return page


def met(page):
    return [found[1] for found in page.targets.values()]


def main():
    # 10 million instructions in 0.2 s and 0.125 s are 50 and 80 MIPS; 250 kB are 25 kB a million.
    good = ["1 ocean 10000000 200000000 250000 16", "2 ocean 10000000 125000000 250000 16", "3 ocean 10000000 200000000 250000 16",
            "1 ferret 10000000 333000000 900000 16", "1 lu 10000000 100000000 250000 16"]
    page = page_of(good)
    assert met(page) == [True] * 4, page.targets
    assert ("ocean", "16", "10.0", "50.0 (50.0 to 80.0)") in page.rows, page.rows
    assert ("ocean", "10.0", "250000", "25.0", "50.0") in page.rows, page.rows
    assert any(row[:2] == ("ocean", "valgrind --tool=lackey, counts only, no caches") and row[3] == "20.0" for row in page.rows)
    slow = page_of([*good, "1 vips 10000000 340000000 250000 16"])
    assert met(slow) == [False, False, True, True], slow.targets
    large = page_of(good, sizes=[*SIZES[1:], "1 barnes 10000000 100000000 250100 16"])
    assert met(large) == [True, True, False, True], large.targets
    few = page_of(good, sizes=SIZES[1:])
    assert met(few) == [True, True, False, True], few.targets
    none = page_of(["1 ferret 10000000 100000000 250000 16"], files=0)
    assert met(none) == [True, True, True, False], none.targets
    wrong = page_of(good, {**OURS, "from_memory": 102})
    assert met(wrong) == [True, True, True, False], wrong.targets
    explained = page_of(good, {**OURS, "from_memory": 102}, fits=OURS)
    assert met(explained) == [True, True, True, False, True], explained.targets
    still = page_of(good, {**OURS, "from_memory": 102}, fits={**OURS, "fetch_misses": 102})
    assert met(still) == [True, True, True, False, False], still.targets
    print("results of the simulator are judged as they should be")


main()
