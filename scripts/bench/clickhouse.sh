#!/usr/bin/env bash
# ClickHouse asks about files of runs as they lie there; `quaver query` asks the same. Called by scripts/bench.sh.
#   BENCH_PACKETS   as many packets in made-up runs of ten million [1e8]
set -euo pipefail

packets="${BENCH_PACKETS:-1e8}"
[ -z "${BENCH_BRIEF:-}" ] || packets=3e6
for list in python/requirements-test.txt scripts/bench/requirements-clickhouse.txt; do
    scripts/interop/python-venv.sh "$list"
done
python="$(scripts/interop/python-venv.sh --where)/bin/python"
clickhouse="$(scripts/interop/python-venv.sh --where scripts/bench/requirements-clickhouse.txt)/bin/python"
QUAVER_DUCKDB="$("$python" -c 'import duckdb_cli, pathlib; print(pathlib.Path(duckdb_cli.__file__).parent / "duckdb")')"
export QUAVER_DUCKDB
runs="$BENCH_SCRATCH/clickhouse-runs"
run "$python" scripts/bench/query_runs.py "$runs" "$packets" 1e7
# Files that Quaver wrote, too: the others have DuckDB's hand.
for _ in 1 2; do
    run "$QUAVER_BIN" chase --for 3s --quiet --output "$runs" >/dev/null
done
{ "$clickhouse" -c 'import chdb; print("ClickHouse", str(chdb.query("SELECT version()")).strip().strip("\""))' && "$QUAVER_DUCKDB" -version; } >"$BENCH_OUT/clickhouse/versions.txt"
run "$clickhouse" scripts/bench/clickhouse.py "$runs" "$BENCH_OUT/clickhouse"
