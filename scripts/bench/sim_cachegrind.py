"""Miss counts of the simulator beside those of cachegrind.

usage: sim_cachegrind.py twice                                                    misses that only lines count; below
       sim_cachegrind.py join NAME CACHEGRIND-OUT IMPORTED.json SUMMARY.json TWICE.json      all as one JSON
       sim_cachegrind.py judge FILE...                                            a table; status 1 if one is off
       sim_cachegrind.py check                                                    checks the judge by made-up figures
"""

import json
import re
import sys
from pathlib import Path

LIMIT = 0.01


def twice(lines):
    """Of an access over the end of a line both lines may miss: two misses for the simulator, and one for cachegrind. How many
    more that are, by first-level caches as cachegrind has them (32 KiB, 2 ways, 32 octets) and what lackey printed."""
    caches = {"instructions": [()] * 512, "data": [()] * 512}
    more = dict.fromkeys(caches, 0)
    latest = dict.fromkeys(caches, -1)
    for line in lines:
        kind = line[:3]
        if kind not in ("I  ", " L ", " S ", " M "):
            continue
        address, octets = line[3:].split(",")
        address = int(address, 16)
        which = "instructions" if kind == "I  " else "data"
        first, last = address >> 5, address + int(octets) - 1 >> 5
        if first == last == latest[which]:
            continue
        missed = 0
        for number in range(first, last + 1):
            kept = caches[which][number & 511]
            if number not in kept:
                missed += 1
            caches[which][number & 511] = (number, *(other for other in kept if other != number))[:2]
        more[which] += max(missed - 1, 0)
        latest[which] = last
    return more


def told_by_cachegrind(text):
    events = re.search(r"^events: (.*)$", text, re.M)[1].split()
    counts = re.search(r"^summary: (.*)$", text, re.M)[1].split()
    return dict(zip(events, map(int, counts)))


def join(name, cachegrind, imported, summary, more):
    core = summary["counts"]["cores"][0]
    keys = ("instructions", "loads", "stores", "load_misses", "store_misses", "fetch_misses", "asked_here", "from_memory")
    return {
        "program": name,
        "cachegrind": told_by_cachegrind(cachegrind),
        "imported": {key: imported[key] for key in ("instructions", "accesses")},
        "quaver": {key: core[key] for key in keys},
        "twice": more,
    }


def rows(one):
    """What, cachegrind's count, ours without what only lines count."""
    theirs, ours, more = one["cachegrind"], one["quaver"], one["twice"]
    return [
        ("instructions", theirs["Ir"], ours["instructions"]),
        ("first level, instructions", theirs["I1mr"], ours["fetch_misses"] - more["instructions"]),
        ("first level, data", theirs["D1mr"] + theirs["D1mw"], ours["load_misses"] + ours["store_misses"] - more["data"]),
        ("last level", theirs["ILmr"] + theirs["DLmr"] + theirs["DLmw"], ours["from_memory"]),
    ]


def off(theirs, ours):
    return abs(ours - theirs) / max(theirs, 1)


def judged(one):
    """Each row with how far it is off and whether that is within the limit."""
    found = []
    for what, theirs, ours in rows(one):
        limit = 0 if what == "instructions" else LIMIT
        # A program without instructions was not run.
        found.append((what, theirs, ours, off(theirs, ours), off(theirs, ours) <= limit and (theirs > 0 or what != "instructions")))
    return found


def judge(files):
    met = bool(files)
    print(f"{'program':18}{'count':28}{'cachegrind':>14}{'quaver':>14}{'off':>9}")
    for path in files:
        one = json.loads(Path(path).read_text())
        for what, theirs, ours, share, within in judged(one):
            met &= within
            mark = "" if within else "  above 1 %"
            print(f"{one['program']:18}{what:28}{theirs:14}{ours:14}{100 * share:8.3f}%{mark}")
    return 0 if met else 1


def check():
    theirs = dict(zip("Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw".split(), (1000, 100, 10, 500, 60, 20, 300, 40, 70)))
    ours = {"instructions": 1000, "loads": 500, "stores": 300, "load_misses": 60, "store_misses": 40, "fetch_misses": 104,
            "asked_here": 0, "from_memory": 100}
    told = told_by_cachegrind("desc: I1\nevents: Ir I1mr\nfn=x\n1 2 3\nsummary: 7 8\n")
    assert told == {"Ir": 7, "I1mr": 8}
    one = {"program": "x", "cachegrind": theirs, "quaver": ours, "twice": {"instructions": 3, "data": 0}}
    # Over the end of a line, both cold; then again, both there; then one of them.
    assert twice(["==7==", "I  3e,4", "I  3e,4", " L 5e,4", " S 60,1", " M 7f,2"]) == {"instructions": 1, "data": 1}
    assert [row[4] for row in judged(one)] == [True] * 4
    for key, wrong, row in (("instructions", 1001, 0), ("fetch_misses", 105, 1), ("load_misses", 62, 2), ("from_memory", 98, 3)):
        bad = {**one, "quaver": {**ours, key: wrong}}
        assert [place for place, found in enumerate(judged(bad)) if not found[4]] == [row], key
    nothing = {**one, "cachegrind": dict.fromkeys(theirs, 0), "quaver": dict.fromkeys(ours, 0), "twice": dict.fromkeys(one["twice"], 0)}
    assert [place for place, found in enumerate(judged(nothing)) if not found[4]] == [0]
    assert judge([]) == 1
    print("miss counts of a bench run are judged as they should be")


def main():
    verb, *rest = sys.argv[1:]
    if verb == "twice":
        print(json.dumps(twice(sys.stdin)))
        return 0
    if verb == "join":
        name, cachegrind, *others = rest
        others = [json.loads(Path(path).read_text()) for path in others]
        print(json.dumps(join(name, Path(cachegrind).read_text(), *others), indent=2))
        return 0
    if verb == "judge":
        return judge(rest)
    if verb == "check":
        return check() or 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
