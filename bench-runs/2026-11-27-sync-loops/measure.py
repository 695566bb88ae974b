"""Ten runs of each program under `quaver sync`, in turns: what it counted itself beside what the summary says."""
import json, os, re, subprocess, sys, tempfile

quaver, programs = sys.argv[1], sys.argv[2:]
with tempfile.TemporaryDirectory() as place:
    for number in range(10):
        for program in programs:
            out = os.path.join(place, f"{os.path.basename(program)}-{number}")
            ran = subprocess.run([quaver, "sync", "-o", out, "--", program], capture_output=True, text=True)
            own = [float(one) for line in ran.stderr.splitlines() if line.startswith("own:") for one in re.findall(r"[\d.]+", line)]
            run = os.path.join(out, os.listdir(out)[0])
            contention = json.load(open(os.path.join(run, "summary.json")))["contention"]
            locks = [
                {"name": lock["name"], "tried_ms": lock["tried"]["total_ns"] / 1e6, "failed": lock["failed_tries"],
                 "waited_ms": lock["wait"]["total_ns"] / 1e6}
                for lock in contention["locks"]
            ]
            print(json.dumps({
                "program": os.path.basename(program), "run": number, "own": own, "locks": locks,
                "conditions": contention["conditions"], "load": os.getloadavg()[0],
            }), flush=True)
