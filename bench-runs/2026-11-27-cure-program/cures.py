#!/usr/bin/env python3
"""cures.py QUAVER DIRECTORY OUT [SEEDS]: cures of programs by their seeds; a line of JSON each."""
import json, os, subprocess, sys, time

quaver, directory, out = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
seeds = int(sys.argv[4]) if len(sys.argv) > 4 else 10
ocean = os.path.join(os.path.dirname(quaver), "../kernels/ocean")
sleeps = ["sh", "-c", 'test "$(nproc)" = 1 && sleep 0.3; exit 0']
programs = {
    "ocean": ([ocean, "-p", "2"], ["more-cpus"]),
    "sleeps-with-one-cpu": (sleeps, ["more-cpus"]),
    "sleeps": (["sleep", "0.1"], []),
}
environment = {**os.environ, "QUAVER_TUNE_JOURNAL": f"{directory}/journal", "QUAVER_RUNS": f"{directory}/runs"}
with open(out, "w") as lines:
    for seed in range(1, seeds + 1):
        for name, (program, expected) in programs.items():
            command = ["taskset", "-c", "1", quaver, "cure", "--yes", "--quiet", "--json", "--seed", str(seed)]
            command += ["--only", "more-cpus", "--for", "60s", "--", *program]
            began = time.monotonic()
            done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.returncode:
                sys.exit(f"{name}: {done.returncode}: {done.stderr}")
            summary = json.loads(done.stdout)
            status = subprocess.run([quaver, "tune", "status", "--json"], env=environment, capture_output=True, check=True)
            row = {
                "program": name, "seed": seed, "kept": summary["kept"], "right": summary["kept"] == expected,
                "nothing_in_force": json.loads(status.stdout)["changes"] == [],
                "took_s": round(time.monotonic() - began, 1), "load": round(os.getloadavg()[0], 2),
                "effect": (summary.get("proof") or {}).get("effect"),
                "trial": [one["effect"] for one in summary["remedies"]], "outcome": summary["outcome"],
            }
            print(json.dumps(row), file=lines, flush=True)
for name in programs:
    rows = [row for row in map(json.loads, open(out)) if row["program"] == name]
    print(name, sum(row["right"] and row["nothing_in_force"] for row in rows), "of", len(rows))
