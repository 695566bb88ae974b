#!/usr/bin/env bash
# Spark asks about files of runs as they lie there, while one of its executors is killed; `quaver query` asks the same.
# Called by scripts/bench.sh.
#   BENCH_PACKETS   as many packets in made-up runs of a million [1e7]
set -euo pipefail

packets="${BENCH_PACKETS:-1e7}"
[ -z "${BENCH_BRIEF:-}" ] || packets=3e6
for list in python/requirements-test.txt scripts/bench/requirements-spark.txt; do
    scripts/interop/python-venv.sh "$list"
done
python="$(scripts/interop/python-venv.sh --where)/bin/python"
spark="$(scripts/interop/python-venv.sh --where scripts/bench/requirements-spark.txt)/bin/python"
QUAVER_DUCKDB="$("$python" -c 'import duckdb_cli, pathlib; print(pathlib.Path(duckdb_cli.__file__).parent / "duckdb")')"
SPARK_HOME="$("$spark" -c 'import pyspark; print(pyspark.__path__[0])')"
# Executors and their logs stay here, and nobody else's network is asked for a name.
export QUAVER_DUCKDB SPARK_HOME SPARK_LOCAL_IP=127.0.0.1 SPARK_WORKER_DIR="$BENCH_SCRATCH/work" PYSPARK_PYTHON="$spark"
runs="$BENCH_SCRATCH/spark-runs"
run "$python" scripts/bench/query_runs.py "$runs" "$packets" 1e6
# Files that Quaver wrote, too: the others have DuckDB's hand.
for _ in 1 2; do
    run "$QUAVER_BIN" chase --for 3s --quiet --output "$runs" >/dev/null
done
{ "$spark" -c 'import pyspark; print("Spark", pyspark.__version__)' && java -version 2>&1 | head -1 && "$QUAVER_DUCKDB" -version; } >"$BENCH_OUT/spark/versions.txt"
run "$spark" scripts/bench/spark.py "$runs" "$BENCH_OUT/spark" 2>"$BENCH_SCRATCH/spark.log" || {
    status=$?
    tail -20 "$BENCH_SCRATCH/spark.log" >&2
    exit "$status"
}
