"""A line of a simulated run: round, trace, instructions, nanoseconds taken, octets of the trace, threads.

usage: sim_speed.py ROUND TRACE RUNS      RUNS: the directory of the run, or one with only the run in it
"""

import json
import sys
from pathlib import Path

number, trace, runs = sys.argv[1:]
(manifest,) = [path for path in Path(runs).glob("**/manifest.json")]
asked = json.loads(manifest.read_text())["asked"]
speed, facts = asked["speed"], asked["facts"]
print(number, Path(trace).name.split(".")[0], speed["instructions"], speed["elapsed_ns"], facts["octets"], facts["threads"])
