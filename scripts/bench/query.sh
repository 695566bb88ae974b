#!/usr/bin/env bash
# Questions in SQL about a billion packets in a hundred runs. Called by scripts/bench.sh.
#   BENCH_PACKETS   as many packets [1e9]
#   BENCH_RUNS      in as many runs [100]
set -euo pipefail

packets="${BENCH_PACKETS:-1e9}" runs_asked="${BENCH_RUNS:-100}"
[ -z "${BENCH_BRIEF:-}" ] || { packets=4e6 runs_asked=4; }
scripts/interop/python-venv.sh
python="$(scripts/interop/python-venv.sh --where)/bin/python"
QUAVER_DUCKDB="$("$python" -c 'import duckdb_cli, pathlib; print(pathlib.Path(duckdb_cli.__file__).parent / "duckdb")')"
export QUAVER_DUCKDB
runs="$BENCH_SCRATCH/runs"
# 8.6 bytes a packet, and as much again beside them.
free=$(df --output=avail -B1 "$BENCH_SCRATCH" | tail -1)
if [ "$free" -lt "$("$python" -c "print(int($packets * 18))")" ]; then
    echo "bench: query: $BENCH_SCRATCH has no room for $packets packets; name another place with TMPDIR" >&2
    exit 6
fi
each="$("$python" -c "print(int($packets) // $runs_asked)")"
run "$python" scripts/bench/query_runs.py "$runs" "$packets" "$each"
du -sb "$runs" | cut -f1 >"$BENCH_OUT/query/bytes.txt"
"$QUAVER_DUCKDB" -version >"$BENCH_OUT/query/versions.txt"

# A question, timed: rows to NAME.csv; seconds, CPU seconds and the largest resident set of the program and DuckDB to NAME.json.
ask() {
    local name="$1" sql="$2"
    note "$QUAVER_BIN" query --csv --root "$runs" "$sql"
    /usr/bin/time -o "$BENCH_OUT/query/$name.json" -f '{"elapsed_s": %e, "user_s": %U, "system_s": %S, "largest_kib": %M}' \
        "$QUAVER_BIN" query --csv --root "$runs" "$sql" >"$BENCH_OUT/query/$name.csv"
}

delay="app_ns - schedule_ns"
ask by-run "SELECT run, count(*) AS packets, avg($delay) AS mean_ns, max($delay) AS max_ns FROM packets GROUP BY run"
ask by-host-and-cpu "SELECT hostname, app_cpu, count(*) AS packets, max($delay) AS max_ns
    FROM packets JOIN runs USING (run) GROUP BY ALL"
# Counted first, it is exact.
ask by-kernel "SELECT kernel, max(upto) AS packets, min(ns) FILTER (upto >= 0.999 * whole) AS p99_9_ns FROM (
    SELECT kernel, ns, sum(n) OVER (PARTITION BY kernel ORDER BY ns) AS upto, sum(n) OVER (PARTITION BY kernel) AS whole
    FROM (SELECT kernel, $delay AS ns, count(*) AS n FROM packets JOIN runs USING (run) GROUP BY ALL)) GROUP BY kernel"
ask by-microsecond "SELECT ($delay) // 1000 AS us, count(*) AS packets FROM packets GROUP BY us"
ask late-by-cause-and-hour "SELECT date_trunc('hour', started) AS hour, source, sum(end_ns - start_ns) / 1e6 AS late_ms
    FROM late JOIN runs USING (run) GROUP BY ALL"
# One run of a hundred, and one million of ten in each: by the names of files, and by the statistics of row groups.
ask one-run "EXPLAIN ANALYZE SELECT count(*), max($delay) FROM packets WHERE run = 'chase-000001'"
ask one-moment "SELECT count(*) AS packets, max($delay) AS max_ns FROM packets WHERE seq BETWEEN 100 AND 200"
