"""What `quaver sync` says of the same sleep without the lock, beside the program with it: medians of five alternating bare runs."""
import glob, json, os, statistics, subprocess, tempfile
Q = os.environ.get("QUAVER", "quaver")
for kind, lock in (("three", "m"), ("keeper", "m"), ("chain", "L")):
    times = [[], []]
    for _ in range(5):
        for out in (0, 1):
            times[out].append(int(subprocess.run(["./outs", kind, str(out)], capture_output=True, text=True).stdout))
    before, after = map(statistics.median, times)
    runs = tempfile.mkdtemp()
    subprocess.run([Q, "sync", "--", "./outs", kind, "0"], capture_output=True, env=dict(os.environ, QUAVER_RUNS=runs))
    summary = json.load(open(glob.glob(runs + "/*/summary.json")[0]))
    gain = next(one["gain"] for one in summary["contention"]["locks"] if one["name"] == lock)
    advice = [(one["kind"], round(one["gain"] or 0, 3)) for one in summary["advice"] if one["kind"] != "others-off"]
    print(kind, "measured", round(1 - after / before, 3), "sleep_outside", round(gain.get("sleep_outside", -1), 3), "hold_halved", round(gain["hold_halved"], 3), advice)
