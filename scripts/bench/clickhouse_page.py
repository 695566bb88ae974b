"""The part of a bench run's page about ClickHouse on the same files."""

from targets import result, text

QUESTIONS = ("by-run", "by-host-and-cpu", "by-microsecond", "late-by-cause")
MEMORY = "ClickHouse's memory"
MOST_KIB = 2 << 20


def same(name):
    return f"{name}: ClickHouse's answer is DuckDB's"


CLICKHOUSE_TARGETS = {**{same(name): "yes" for name in QUESTIONS}, MEMORY: "≤ 2 GiB"}


def clickhouse(page, directory):
    page.expect(CLICKHOUSE_TARGETS)
    found = result(directory / "results.json") or {}
    page.add("## ClickHouse on the same files", "", "ClickHouse reads the files of `quaver query`, unchanged. Memory is the largest resident set of its process.", "")
    page.add(", ".join(text(directory / "versions.txt").splitlines()) + ".", "")
    asked = [(name, found[name]) for name in QUESTIONS if name in found]
    rows = [
        (name, f"{one['clickhouse_s']:.1f} s", f"{one['clickhouse_cpu_s']:.1f} s", f"{one['duckdb_s']:.1f} s", f"{one['duckdb_cpu_s']:.1f} s", one["rows"])
        for name, one in asked
    ]
    page.table(("question", "ClickHouse", "CPU time", "DuckDB", "CPU time", "rows"), rows)
    for name, one in asked:
        page.judge(same(name), "yes" if one["same"] else "no", one["same"] and one["rows"] > 0)
    if asked:
        largest = max(one["largest_kib"] for _, one in asked)
        page.judge(MEMORY, f"{largest / (1 << 20):.2f} GiB", largest <= MOST_KIB)
