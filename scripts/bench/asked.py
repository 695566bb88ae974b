"""Questions that Spark, ClickHouse and DuckDB are asked about the same files, and whether two answers are the same."""

import decimal
import json
import os
import resource
import subprocess
import time

# All have these words of SQL. A sum of integers and a division of two of them are exact in all.
QUESTIONS = {
    "by-run": "SELECT run, count(*) AS packets, sum(app_ns - schedule_ns) AS delay_ns, max(app_ns - schedule_ns) AS max_ns FROM packets GROUP BY run",
    "by-host-and-cpu": "SELECT hostname, app_cpu, count(*) AS packets, max(app_ns - schedule_ns) AS max_ns FROM packets JOIN runs USING (run) GROUP BY hostname, app_cpu",
    "by-microsecond": "SELECT floor((app_ns - schedule_ns) / 1000) AS us, count(*) AS packets FROM packets GROUP BY floor((app_ns - schedule_ns) / 1000)",
    "late-by-cause": "SELECT kernel, source, certainty, count(DISTINCT run, seq) AS packets, sum(end_ns - start_ns) AS late_ns FROM late JOIN runs USING (run) GROUP BY kernel, source, certainty",
}
DUCKDB = {"count(DISTINCT run, seq)": "count(DISTINCT (run, seq))"}


def plain(rows):
    """Rows as text, in an order of their own."""
    def value(cell):
        if isinstance(cell, (decimal.Decimal, float)):
            assert cell == int(cell), cell
            return int(cell)
        return cell

    return sorted(json.dumps({name: value(cell) for name, cell in row.items()}, sort_keys=True) for row in rows)


def ask_duckdb(sql, runs):
    for words, other in DUCKDB.items():
        sql = sql.replace(words, other)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    answer = subprocess.run([os.environ["QUAVER_BIN"], "query", "--json", "--root", runs, sql], check=True, stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(answer)["rows"], time.monotonic() - begun, used
