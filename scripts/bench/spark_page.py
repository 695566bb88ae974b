"""The part of a bench run's page about Spark on the same files."""

from targets import result, text

QUESTIONS = ("by-run", "by-host-and-cpu", "by-microsecond", "late-by-cause")
KILLED = "an executor killed at work"


def same(name):
    return f"{name}: Spark's answer is DuckDB's"


SPARK_TARGETS = {**{same(name): "yes" for name in QUESTIONS}, KILLED: "one, with its tasks"}


def spark(page, directory):
    page.expect(SPARK_TARGETS)
    found = result(directory / "results.json") or {}
    page.add("## Spark on the same files", "", "`local-cluster[2,1,1024]` reads the files of `quaver query`, unchanged. During the first question one of its")
    page.add("two executors is killed: its time has the repair in it, and its CPU time is not known.", "")
    page.add(", ".join(text(directory / "versions.txt").splitlines()) + ".", "")
    rows = []
    for name in QUESTIONS:
        one = found.get(name)
        if one is None:
            continue
        cpu = "" if one["spark_cpu_s"] is None else f"{one['spark_cpu_s']:.1f} s"
        rows.append((name, f"{one['spark_s']:.1f} s", cpu, f"{one['duckdb_s']:.1f} s", f"{one['duckdb_cpu_s']:.1f} s", one["rows"]))
        page.judge(same(name), "yes" if one["same"] else "no", one["same"] and one["rows"] > 0)
    page.table(("question", "Spark", "CPU time", "DuckDB", "CPU time", "rows"), rows)
    killed = found.get("killed")
    if killed:
        tasks = killed["failed_tasks"]
        page.judge(KILLED, f"{killed['executors']}, with {tasks} tasks", killed["executors"] == 1 and tasks > 0)
