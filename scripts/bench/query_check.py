"""Checks by made-up results that the part of a bench run's page about questions in SQL judges as it should.

usage: query_check.py
"""

import json

from made_up_run import having, not_met
from query_page import GROUPED, PACKETS, PRUNED, QUERY_TARGETS, memory, query, seconds
from targets import MISSED, MISSING


def took(elapsed_s=1.0, largest_kib=1 << 20):
    return json.dumps({"elapsed_s": elapsed_s, "user_s": 1.0, "system_s": 0.5, "largest_kib": largest_kib})


def good():
    one = {f"{name}.json": took() for name in (*GROUPED, "one-run", "one-moment")}
    rows = {f"{name}.csv": "name,packets\na,1\n" for name in (*GROUPED, "one-moment")}
    return {**one, **rows, "by-run.csv": f"run,packets\na,{PACKETS}\n", "one-run.csv": "Scanning Files: 1/100", "bytes.txt": "7\n", "versions.txt": "v1\n"}


def main():
    assert not_met(query, good()) == {}
    for name in GROUPED:
        assert having(query, good() | {f"{name}.json": took(elapsed_s=60.1)}, MISSED) == {seconds(name)}
        assert having(query, good() | {f"{name}.json": took(largest_kib=(2 << 20) + 1)}, MISSED) == {memory(name)}
        for lacking in (f"{name}.json", f"{name}.csv"):
            less = {file: words for file, words in good().items() if file != lacking}
            assert {seconds(name), memory(name)} <= having(query, less, MISSING), lacking
    assert having(query, good() | {"one-run.csv": "Scanning Files: 100/100"}, MISSED) == {PRUNED}
    assert having(query, good() | {"one-run.csv": ""}, MISSING) == {PRUNED}
    # Fewer packets judge nothing but what is read.
    few = having(query, good() | {"by-run.csv": f"run,packets\na,{PACKETS - 1}\n"}, MISSING)
    assert few == set(QUERY_TARGETS) - {PRUNED}


main()
