"""Writes the README of a bench run from its data. usage: readme.py DIRECTORY

Status 1 if data of a target are missing in a part that was run.
"""

import re
import sys
from pathlib import Path

from capture_page import capture
from chase_page import analysis, chase, sink
from clickhouse_page import clickhouse
from path_more_page import path_long, rtp, skew
from path_page import path
from query_page import query
from spark_page import spark
from sim_page import sim
from source_page import source
from study_page import study
from sync_page import sync
from targets import MET, MISSED, MISSING, Page

# In the order of the page; each is run and kept under its own name.
PARTS = (chase, sink, source, path, path_long, skew, rtp, capture, sync, study, sim, analysis, query, spark, clickhouse)


def main():
    directory = Path(sys.argv[1])
    page = Page()
    for part in PARTS:
        if (directory / part.__name__).is_dir():
            part(page, directory / part.__name__)
    print(f"# Bench run {directory.name}\n")
    print("Written by `make bench` from the data beside this page (`machine.txt`, `commands.txt`, a directory a part).\n")
    summary = Page()
    summary.table(("what", "target", "found", ""), page.judged())
    print("\n".join(summary.lines))
    print(f"{len(page.having(MET))} of {len(page.targets)} targets met.")
    missing = page.having(MISSING)
    for words, found in (("Missed", page.having(MISSED)), ("Missing, for their data are", missing)):
        if found:
            print(f"{words}:\n\n" + "\n".join("- " + one for one in found))
    notes = directory / "notes.md"
    if notes.exists():
        print("\n" + notes.read_text().strip())
    print("\n## Machine\n\n```text\n" + (directory / "machine.txt").read_text().rstrip() + "\n```\n")
    print(re.sub(r"\n{3,}", "\n\n", "\n".join(page.lines)).rstrip())
    if missing:
        print(f"bench: data of {len(missing)} targets are missing", file=sys.stderr)
    return 1 if missing else 0


sys.exit(main())
