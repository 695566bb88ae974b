"""Nanoseconds of a free lock and of its unlock with two builds of the recorder, in turns.

usage: pairs.py PROGRAM BEFORE.so NOW.so ROUNDS

PROGRAM is scripts/bench/sync-cost.c. Each round runs every arm once, in an order that is drawn: `before` and `again` (the same
file under two names), `now`, and `alone` (no recorder). A line of JSON for each run.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

KINDS = ["lock-unlock", "spin"]
program, before, now, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
draw = random.Random(20)


def run(arm, library, kind, place):
    records = tempfile.mkdtemp(dir=place)
    more = {"LD_PRELOAD": library, "QUAVER_SYNC_DIR": records} if library else {}
    words = [program, "200", kind]
    said = subprocess.run(words, env={**os.environ, **more}, capture_output=True, text=True, check=True)
    shutil.rmtree(records)
    return {"kind": kind, "arm": arm, "ns": float(said.stdout.split()[1])}


with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
    arms = {"alone": None}
    for arm, file in [("before", before), ("again", before), ("now", now)]:
        arms[arm] = shutil.copy(file, f"{place}/{arm}.so")
    for number in range(rounds):
        for kind in KINDS:
            order = list(arms)
            draw.shuffle(order)
            for arm in order:
                print(json.dumps({"round": number, **run(arm, arms[arm], kind, place)}), flush=True)
