"""Asks Spark about the files of runs as they lie there, while one of its two executors is killed, and DuckDB by `quaver query`.

usage: spark.py RUNS OUT

Spark runs as a cluster of three processes on this machine. OUT/results.json gets, by question, seconds and CPU seconds of both and
whether their answers are the same. Needs the package pyspark, Java, and the program that QUAVER_BIN names.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time

from asked import QUESTIONS, ask_duckdb, plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

EXECUTOR = b"CoarseGrainedExecutorBackend"
PATIENCE_S = 120


def make_views(spark, runs):
    """The views of `quaver query`, over the same files."""
    name = f.element_at(f.split(f.col("_metadata.file_path"), "/"), -2)
    for view, file in (("packets", "samples.parquet"), ("late", "late.parquet")):
        spark.read.parquet(f"{runs}/*/{file}").withColumn("run", name).createOrReplaceTempView(view)
    manifests = spark.read.option("multiLine", True).json(f"{runs}/*/manifest.json")
    host = f.col("host.kernel")
    manifests.select(name.alias("run"), host["hostname"].alias("hostname"), host["release"].alias("kernel")).createOrReplaceTempView("runs")


def processes():
    """Process, its parent, its command line."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            yield int(entry.name), parent, (entry / "cmdline").read_bytes()
        except (OSError, ValueError):
            pass


def own_executors():
    """Executors below this process."""
    table = {pid: (parent, command) for pid, parent, command in processes()}

    def is_ours(pid):
        while pid in table and pid != os.getpid():
            pid = table[pid][0]
        return pid == os.getpid()

    return sorted(pid for pid, (_, command) in table.items() if EXECUTOR in command and b"java" in command and is_ours(pid))


def cpu_s(pids):
    """CPU seconds of these processes so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def kill_one_at_work(tracker, kept):
    """Waits until tasks of a job have ended and others run, and kills the newest executor. Keeps the stages that ran."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numActiveTasks >= 2 and stage.numCompletedTasks >= 1 for stage in stages):
            os.kill(own_executors()[-1], signal.SIGKILL)
            kept.extend(stage.stageId for stage in stages if stage)
            return
        time.sleep(0.01)


def main():
    runs, out = sys.argv[1:]
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").appName("quaver").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    make_views(spark, runs)
    results, killed, tracker = {}, [], spark.sparkContext.statusTracker()
    for name, sql in QUESTIONS.items():
        killer = threading.Thread(target=kill_one_at_work, args=(tracker, killed))
        if name == "by-run":
            killer.start()
        pids = own_executors()
        before, begun = cpu_s(pids), time.monotonic()
        rows = [row.asDict() for row in spark.sql(sql).collect()]
        took = time.monotonic() - begun
        if name == "by-run":
            killer.join()
        used = None if name == "by-run" else cpu_s(pids) - before
        theirs, elapsed, cpu = ask_duckdb(sql, runs)
        results[name] = {
            "rows": len(rows), "same": plain(rows) == plain(theirs), "spark_s": round(took, 2),
            "spark_cpu_s": used, "duckdb_s": round(elapsed, 2), "duckdb_cpu_s": round(cpu, 2),
        }
    results["killed"] = {"executors": min(1, len(killed)), "failed_tasks": sum(tracker.getStageInfo(stage).numFailedTasks for stage in killed)}
    spark.stop()
    pathlib.Path(out, "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))
    good = all(result["same"] and result["rows"] for name, result in results.items() if name != "killed")
    if not good or not killed or not results["killed"]["failed_tasks"]:
        sys.exit("spark: an answer differs, or no executor was killed at work")


if __name__ == "__main__":
    main()
