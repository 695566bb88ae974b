"""Medians and ranges of startup.py's rows.   usage: startup_eval.py ROWS"""
import json
import statistics
import sys

rows = [json.loads(line) for line in open(sys.argv[1])]
for name in dict.fromkeys(row["name"] for row in rows):
    words = [f"{name:14}"]
    for key in ("bound_ms", "waiting_ms"):
        values = sorted(row[key] for row in rows if row["name"] == name and row[key] is not None)
        if values:
            words.append(f"{key} {statistics.median(values):6.1f} ({values[0]:.1f} to {values[-1]:.1f}), {sum(v <= 50 for v in values)} of {len(values)} within 50")
    print("  ".join(words))
