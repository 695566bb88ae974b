"""The gain that the advice of a recorded run names, beside that of the program itself without the delay, in alternating bare runs."""
import os, statistics, subprocess
from run import run

ENV = {"OMP_WAIT_POLICY": "passive"}
PROGRAMS = [("./gain", k) for k in "lock pi c11 barrier pipe serial omp".split()] + [("./gainr", k) for k in "lock barrier pipe".split()]
for program, kind in PROGRAMS:
    times = [[], []]
    for _ in range(3):
        for cut in (0, 1):
            bare = subprocess.run([program, kind, str(cut)], capture_output=True, text=True, env=dict(os.environ, **ENV))
            times[cut].append(int(bare.stdout))
    before, after = map(statistics.median, times)
    _, _, summary, _ = run([program, kind, "0"], env=ENV)
    advice = [(one["kind"], one["gain"] and round(one["gain"], 3), one["at_most"]) for one in summary["advice"] if one["kind"] != "others-off"]
    print(program, kind, "ms", round(before / 1e6, 1), round(after / 1e6, 1), "gain", round(1 - after / before, 3), "advice", advice[:3], flush=True)
