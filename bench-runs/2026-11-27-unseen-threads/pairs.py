"""What the recorder costs: runs of cost.c alone, with each recorder, and once more alone (A/A), in random order within each round.

usage: pairs.py ROUNDS CPU KIND[,KIND...] LABEL=RECORDER... (raw figures to pairs.jsonl; a table to standard output)
"""
import json, os, random, shutil, statistics, subprocess, sys, tempfile
from math import comb

rounds, cpu, kinds = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
recorders = dict(word.split("=", 1) for word in sys.argv[4:])
random.seed(20)

def once(kind, recorder):
    place = tempfile.mkdtemp(dir="/dev/shm")
    more = {"LD_PRELOAD": recorder, "QUAVER_SYNC_DIR": place} if recorder else {}
    try:
        done = subprocess.run(["./build/cost", kind, cpu], env={**os.environ, **more}, capture_output=True, check=True)
        assert bool(recorder) == bool(os.listdir(place)), "recorded or not"
        return float(done.stdout)
    finally:
        shutil.rmtree(place)

def interval(differences):
    """The median, and the interval of order statistics that holds it with 95 % or more."""
    ordered, n, k = sorted(differences), len(differences), 0
    while 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n <= 0.05:
        k += 1
    k = max(k - 1, 0)
    return f"{statistics.median(ordered):+.1f} ({ordered[k]:+.1f} to {ordered[n - 1 - k]:+.1f})"

with open("pairs.jsonl", "a") as raw:
    print("| operation | alone, ns |", " | ".join(f"{name}, ns" for name in recorders), "| A/A, ns |\n" + "|---" * (3 + len(recorders)) + "|")
    for kind in kinds:
        found = []
        for _ in range(rounds):
            arms = [("alone", None), ("again", None), *recorders.items()]
            random.shuffle(arms)
            found.append({arm: once(kind, recorder) for arm, recorder in arms})
            raw.write(json.dumps({"kind": kind, **found[-1]}) + "\n")
        more = {arm: interval([one[arm] - one["alone"] for one in found]) for arm in (*recorders, "again")}
        print(f"| {kind} | {statistics.median(one['alone'] for one in found):.1f} |", " | ".join(more.values()), "|", flush=True)
