#!/usr/bin/env python3
"""Kills `quaver cure` at random moments (SIGKILL), and judges whether `quaver tune revert` puts everything back:
truth_cure_kills.py QUAVER DIRECTORY [--kills N] [--seed N] [--within SECONDS] [--until HH:MM]

A moment is drawn from the seed, evenly over the first SECONDS of the cure. Needs root and two CPUs. Results go to
DIRECTORY/kills.jsonl, a line a kill."""
import argparse, json, os, pathlib, random, subprocess, sys, time

# Settings of the host that no stream feels; the cure tries each of the two rows.
ROWS = "rcu-exp,writeback"
FILES = [pathlib.Path("/sys/kernel/rcu_normal"), pathlib.Path("/sys/devices/virtual/workqueue/writeback/cpumask")]


def settings():
    return [file.read_bytes() for file in FILES]


def kill(args, number, delay_s, environment):
    before = settings()
    command = [args.quaver, "cure", "noise", "1", "--tier", "user", "--allow", "host", "--only", ROWS, "--seed", str(number)]
    command += ["--yes", "--quiet", "--for", "50s", "--output", str(args.directory / "runs")]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(delay_s)
    child.kill()
    _, said = child.communicate()
    at_kill = settings()
    revert = subprocess.run([args.quaver, "tune", "revert"], env=environment, capture_output=True)
    after = settings()
    status = subprocess.run([args.quaver, "tune", "status", "--json"], env=environment, capture_output=True, check=True)
    open_changes = len(json.loads(status.stdout)["changes"])
    return {
        "kill": number, "delay_s": round(delay_s, 3), "status": child.returncode, "said": said,
        "in_force": [now != old for now, old in zip(at_kill, before)], "revert_status": revert.returncode,
        "open_changes": open_changes, "right": after == before and revert.returncode == 0 and open_changes == 0,
    }


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("quaver", type=os.path.abspath)
    words.add_argument("directory", type=pathlib.Path)
    words.add_argument("--kills", type=int, default=200)
    words.add_argument("--seed", type=int, default=21)
    words.add_argument("--within", type=float, default=12.0, metavar="SECONDS")
    words.add_argument("--until", metavar="HH:MM", help="begin no kill after this time")
    args = words.parse_args()
    if missing := [str(file) for file in FILES if not file.exists()]:
        sys.exit(f"truth_cure_kills: this host lacks {missing[0]}")
    args.directory.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "QUAVER_TUNE_JOURNAL": str(args.directory / "journal")}
    moments = random.Random(args.seed)
    rows = []
    with open(args.directory / "kills.jsonl", "w") as out:
        for number in range(1, args.kills + 1):
            if args.until and time.strftime("%H:%M") >= args.until:
                break
            rows.append(kill(args, number, moments.uniform(0, args.within), environment))
            print(json.dumps(rows[-1]), file=out, flush=True)
    right = sum(row["right"] for row in rows)
    in_force = sum(any(row["in_force"]) for row in rows)
    ended = sum(row["status"] != -9 for row in rows)
    print(f"right after {right} of {len(rows)} kills; settings were in force at {in_force} of them; {ended} cures had ended")
    # Without a kill that met a setting in force nothing was shown.
    sys.exit(right < len(rows) or len(rows) < args.kills or in_force == 0)


main()
