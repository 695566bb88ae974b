"""Asks ClickHouse about the files of runs as they lie there, and DuckDB by `quaver query`.

usage: clickhouse.py RUNS OUT

ClickHouse runs whole in this process, as the package chdb has it. OUT/results.json gets, by question, seconds and CPU seconds of
both, ClickHouse's largest memory so far, and whether their answers are the same. Needs the program that QUAVER_BIN names.
"""

import json
import pathlib
import resource
import sys
import time

from asked import QUESTIONS, ask_duckdb, plain
from chdb.session import Session

# The views of `quaver query`, over the same files.
VIEWS = {
    "packets": "SELECT splitByChar('/', _path)[-2] AS run, * FROM file('{runs}/*/samples.parquet')",
    "late": "SELECT splitByChar('/', _path)[-2] AS run, * FROM file('{runs}/*/late.parquet')",
    "runs": "SELECT splitByChar('/', _path)[-2] AS run, JSONExtractString(json, 'host', 'kernel', 'hostname') AS hostname, "
    "JSONExtractString(json, 'host', 'kernel', 'release') AS kernel FROM file('{runs}/*/manifest.json', 'JSONAsString')",
}


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    runs, out = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
    session = Session()
    # As DuckDB gets it.
    session.query("SET max_memory_usage = 2147483648, schema_inference_make_columns_nullable = 'auto'")
    for view, sql in VIEWS.items():
        session.query(f"CREATE VIEW {view} AS {sql.format(runs=runs)}")
    results = {}
    for name, sql in QUESTIONS.items():
        before, begun = cpu_s(), time.monotonic()
        answer = str(session.query(sql + " SETTINGS output_format_json_quote_64bit_integers = 0", "JSONEachRow"))
        took, used = time.monotonic() - begun, cpu_s() - before
        rows = [json.loads(line) for line in answer.splitlines()]
        theirs, elapsed, cpu = ask_duckdb(sql, runs)
        results[name] = {
            "rows": len(rows), "same": plain(rows) == plain(theirs), "clickhouse_s": round(took, 2), "clickhouse_cpu_s": round(used, 2),
            "duckdb_s": round(elapsed, 2), "duckdb_cpu_s": round(cpu, 2), "largest_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
    pathlib.Path(out, "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))
    if not all(result["same"] and result["rows"] for result in results.values()):
        sys.exit("clickhouse: an answer differs")


if __name__ == "__main__":
    main()
