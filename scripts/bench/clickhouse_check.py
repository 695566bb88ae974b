"""Checks by made-up results that the part of a bench run's page about ClickHouse judges as it should.

usage: clickhouse_check.py
"""

from clickhouse_page import CLICKHOUSE_TARGETS, MEMORY, QUESTIONS, clickhouse, same
from made_up_run import having, not_met
from targets import MISSED, MISSING


def good():
    one = {"rows": 3, "same": True, "clickhouse_s": 2.0, "clickhouse_cpu_s": 1.0, "duckdb_s": 1.0, "duckdb_cpu_s": 1.0, "largest_kib": 1 << 20}
    return {"results.json": {name: dict(one) for name in QUESTIONS}, "versions.txt": "v1\n"}


def main():
    assert not_met(clickhouse, good()) == {}
    for name in QUESTIONS:
        for change, missed in (({"same": False}, same(name)), ({"rows": 0}, same(name)), ({"largest_kib": (2 << 20) + 1}, MEMORY)):
            files = good()
            files["results.json"][name].update(change)
            assert having(clickhouse, files, MISSED) == {missed}
        files = good()
        del files["results.json"][name]
        assert having(clickhouse, files, MISSING) == {same(name)}
    assert having(clickhouse, {}, MISSING) == set(CLICKHOUSE_TARGETS)


main()
