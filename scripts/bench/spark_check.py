"""Checks by made-up results that the part of a bench run's page about Spark judges as it should.

usage: spark_check.py
"""

from made_up_run import having, not_met
from spark_page import KILLED, QUESTIONS, SPARK_TARGETS, same, spark
from targets import MISSED, MISSING


def good():
    one = {"rows": 3, "same": True, "spark_s": 2.0, "spark_cpu_s": 1.0, "duckdb_s": 1.0, "duckdb_cpu_s": 1.0}
    results = {name: dict(one) for name in QUESTIONS}
    results["by-run"]["spark_cpu_s"] = None
    return {"results.json": {**results, "killed": {"executors": 1, "failed_tasks": 1}}, "versions.txt": "v1\n"}


def main():
    assert not_met(spark, good()) == {}
    for name in QUESTIONS:
        for change in ({"same": False}, {"rows": 0}):
            files = good()
            files["results.json"][name].update(change)
            assert having(spark, files, MISSED) == {same(name)}
        files = good()
        del files["results.json"][name]
        assert having(spark, files, MISSING) == {same(name)}
    for change in ({"executors": 0}, {"failed_tasks": 0}):
        files = good()
        files["results.json"]["killed"].update(change)
        assert having(spark, files, MISSED) == {KILLED}
    assert having(spark, {}, MISSING) == set(SPARK_TARGETS)


main()
