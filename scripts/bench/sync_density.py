"""Prints name, events, octets on disk and octets an event of a run of `quaver sync`. usage: sync_density.py NAME RUN"""

import json
import sys
from pathlib import Path

from summaries import whole_summary

name, run = sys.argv[1], Path(sys.argv[2])
counts = json.loads(whole_summary(run).read_text())["results"]["counts"]
octets = sum(path.stat().st_blocks * 512 if path.suffix == ".seg" else path.stat().st_size
             for path in (run / "sync").iterdir() if path.suffix in (".seg", ".parquet"))
print(name, counts["events"], octets, f"{octets / max(counts['events'], 1):.2f}")
