"""Makes runs to ask questions about: chases with as many packets as are asked for.

usage: query_runs.py DIRECTORY PACKETS [PACKETS_A_RUN]

Their tables have the columns and the metadata of docs/formats.md, and about as many bytes a packet as measured ones: each stamp
differs by some hundred nanoseconds, by a hash of the numbers of run and packet. Packet n is on CPU n % 4, and each hundredth is
read 300 us late. Hosts, kernels and hours take turns. Needs the package duckdb.
"""

import json
import sys
from pathlib import Path

import duckdb

PERIOD_NS = 7_410
HOSTS, KERNELS = 16, ("6.12", "6.15", "6.18")
FIRST_NS = 1_790_000_000_000_000_000
HOUR_NS = 3_600_000_000_000

# As `quaver_store::packets` and `late` have them.
PACKETS = """
SELECT CAST(n AS UBIGINT) AS seq, due + 2000 + CASE WHEN n % 100 = 0 THEN 300000 ELSE CAST(j >> 54 & 1023 AS BIGINT) END AS app_ns,
    CAST(n % 4 AS USMALLINT) AS app_cpu, CAST(1 AS USMALLINT) AS stack_cpu,
    due AS schedule_ns, due + 100 + CAST(j >> 0 & 255 AS BIGINT) AS source_ns, CAST(NULL AS BIGINT) AS interrupt_ns, due + 700 + CAST(j >> 8 & 511 AS BIGINT) AS softirq_ns,
    due + 900 + CAST(j >> 16 & 511 AS BIGINT) AS receive_ns, due + 800 + CAST(j >> 24 & 511 AS BIGINT) AS kernel_stamp_ns, due + 1300 + CAST(j >> 32 & 511 AS BIGINT) AS enqueued_ns,
    due + 1500 + CAST(j >> 40 & 511 AS BIGINT) AS ready_ns,
    CAST(NULL AS UINTEGER) AS rtp_timestamp, CAST(NULL AS UINTEGER) AS payload_bytes, CAST(NULL AS UTINYINT) AS rtp_marker,
    CAST(NULL AS UTINYINT) AS rtp_payload_type, CAST(NULL AS UINTEGER) AS rtp_ssrc, CAST(NULL AS BIGINT) AS rtp_head
FROM (SELECT n, {start} + n * {period} AS due, hash(n, {number}) AS j FROM range({packets}) AS t(n))
"""
LATE = """
SELECT CAST(n AS UBIGINT) AS seq, CAST(300000 AS BIGINT) AS lateness_ns, due AS start_ns, due + 300000 AS end_ns,
    CAST(n % 4 AS USMALLINT) AS cpu, CASE n // 100 % 4 WHEN 0 THEN NULL WHEN 1 THEN 'tick' WHEN 2 THEN 'own-packets' ELSE 'cfs-preempt' END AS source,
    source AS name, CASE WHEN source IS NULL THEN 'unexplained' ELSE 'body' END AS part, 'receiver' AS place,
    CASE WHEN source IS NULL THEN 'unknown' ELSE 'certain' END AS certainty
FROM (SELECT n, {start} + n * {period} AS due FROM range(0, {packets}, 100) AS t(n))
"""


def table(connection, path, select, keys):
    pairs = ", ".join(f"'{key}': '{value}'" for key, value in keys.items())
    connection.execute(
        f"COPY ({select}) TO '{path}' (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE 1048576, KV_METADATA {{{pairs}}})"
    )


def main():
    root, all_packets = Path(sys.argv[1]), int(float(sys.argv[2]))
    each = min(all_packets, int(float(sys.argv[3])) if len(sys.argv) > 3 else 1_000_000)
    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET memory_limit = '1GiB'; SET preserve_insertion_order = true")
    for number in range(all_packets // each):
        name = f"chase-{number:06}"
        run = root / name
        run.mkdir(parents=True)
        started = FIRST_NS + number * HOUR_NS
        host = {"kernel": {"hostname": f"host-{number % HOSTS:02}", "release": KERNELS[number % len(KERNELS)]}, "cpu": {"model": "made up"}}
        manifest = {
            "format": 1, "verb": "chase", "complete": True, "started_realtime_ns": started, "started": "", "host": host, "asked": {},
            "ended_realtime_ns": started + each * PERIOD_NS, "lost": {"events": 0, "samples": 0}, "tool": {"name": "quaver", "version": "0.1.0"},
            "clock": {"anchors": 2, "worst_half_bracket_ns": 20, "error_bound_ns": 30, "realtime_minus_monotonic_ns": started - 1_000_000_000},
        }
        (run / "manifest.json").write_text(json.dumps(manifest))
        p99_ns = 300_000 + number
        (run / "summary.json").write_text(json.dumps({"schema": "quaver.chase/1", "lateness": {"distribution": {"p99_ns": p99_ns}}}))
        values = {"start": 1_000_000_000, "period": PERIOD_NS, "packets": each, "number": number}
        keys = {"quaver.format": 1, "quaver.run": name, "quaver.verb": "chase", "quaver.host": host["kernel"]["hostname"]}
        table(connection, run / "samples.parquet", PACKETS.format(**values), {**keys, "quaver.table": "packets"})
        table(connection, run / "late.parquet", LATE.format(**values), {**keys, "quaver.table": "late"})


if __name__ == "__main__":
    main()
