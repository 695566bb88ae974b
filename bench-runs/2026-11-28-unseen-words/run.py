#!/usr/bin/env python3
"""Runs a program under `quaver sync` and returns its words, the page, the summary and the run's directory.

    run.py QUAVER [--int SECONDS] [--env NAME=VALUE] PROGRAM [WORD...]

prints the program's own waits beside the rows of the summary, one JSON object.
"""
import json, os, signal, subprocess, sys, tempfile, time


def run(args, interrupt=None, opts=(), env=(), quaver=os.environ.get("QUAVER", "quaver")):
    runs = tempfile.mkdtemp()
    env = dict(os.environ, QUAVER_RUNS=runs, NO_COLOR="1", **dict(env))
    child = subprocess.Popen([quaver, "sync", *opts, "--", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    if interrupt:
        time.sleep(interrupt)
        # As a terminal does: the program hears it.
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(child.pid)], capture_output=True, text=True).stdout
        for pid in listed.split():
            os.kill(int(pid), signal.SIGINT)
    out, err = child.communicate()
    place = os.path.join(runs, os.listdir(runs)[0])
    return out, err, json.load(open(os.path.join(place, "summary.json"))), place


def rows(summary):
    found = summary["contention"]
    row = lambda one: [one["name"], one["wait"]["count"], round(one["wait"]["total_ns"] / 1e6, 2)]
    exact = all(
        sum(value for key, value in one.items() if key.endswith("_ns") and key not in ("first_ns", "last_ns", "unsampled_ns"))
        == one["last_ns"] - one["first_ns"]
        for one in found["threads"]
    )
    return {
        "locks": [row(one) for one in found["locks"]],
        "words": [row(one) + [one["used_like"], one["woken"], one["waker_unknown"]] for one in found["words"]],
        "conditions": [row(one) for one in found["conditions"]],
        "barriers": [row(one) + [one["rounds"]] for one in found["barriers"]],
        "unended": [[one["name"], round(one["total_ns"] / 1e6, 2), one["after_unheard"]] for one in found.get("unended", [])],
        "standstills": [[one["threads"], round(one["total_ns"] / 1e6, 2)] for one in found.get("standstills", [])],
        "coverage": [summary["results"]["coverage"][key] for key in ("matched", "wake_ups")],
        "late_ms": round(summary["results"]["late"]["total_ns"] / 1e6, 2),
        "spurious": summary["futex"] and summary["futex"]["spurious"],
        "threads_exact": exact,
        "advice": [[one["kind"], one["gain"]] for one in summary["advice"]],
    }


if __name__ == "__main__":
    quaver, *words = sys.argv[1:]
    interrupt, env = None, {}
    while words[0].startswith("--"):
        if words[0] == "--int":
            interrupt = float(words[1])
        else:
            env.update([words[1].split("=", 1)])
        words = words[2:]
    out, _, summary, _ = run(words, interrupt, (), env, quaver)
    print(json.dumps({"program": " ".join(words), "own": out.splitlines(), **rows(summary)}))
