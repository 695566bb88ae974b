#!/usr/bin/env python3
"""Plants causes of lateness on this machine, and judges what `quaver cure` keeps of each:
truth_cures.py QUAVER DIRECTORY [--seeds N] [--for TIME] [CAUSE...]

A cure is right if it keeps just the remedy of what was planted (nothing where nothing was), and if all settings are as before
once `quaver tune revert` has run. Needs root and two CPUs. Results go to DIRECTORY/cures.jsonl, a line a cure."""
import argparse, json, os, pathlib, random, shutil, signal, subprocess, sys, time

RECEIVER = r"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.setblocking(sys.argv[2] == "sleeps")
print("bound", flush=True)
while True:
    try:
        s.recv(2048)
    except BlockingIOError:
        pass
"""
HOG = "while True: pass"
CPU = 1
QUOTA = {"cpu.cfs_quota_us": "16000", "cpu.cfs_period_us": "20000", "cpu.max": "16000 20000"}


def settings(process, group):
    """All that a cure of these causes may change."""
    policy = os.sched_getscheduler(process), os.sched_getparam(process).sched_priority
    files = {name: (group / name).read_text() for name in QUOTA if group and (group / name).exists()}
    return {"class": policy, "affinity": sorted(os.sched_getaffinity(process)), "files": files}


class Planted:
    """A receiver with its stream and what is planted beside it; all of it ends with the block."""

    def __init__(self, quaver, cause, port):
        self.quaver, self.cause, self.port, self.children, self.group = quaver, cause, port, [], None

    def start(self, command, **more):
        child = subprocess.Popen(["taskset", "-c", str(more.pop("cpu", CPU)), *command], **more)
        self.children.append(child)
        return child

    def __enter__(self):
        kind = "spins" if self.cause == "quota" else "sleeps"
        # Threads of the machine itself run beside it: a receiver before all of these lacks nothing.
        first = ["chrt", "-f", "10"] if self.cause == "nothing" else []
        python = [*first, sys.executable, "-c", RECEIVER, str(self.port), kind]
        self.receiver = self.start(python, stdout=subprocess.PIPE, text=True)
        self.receiver.stdout.readline()
        source = ["chrt", "-f", "40", self.quaver, "source", f"127.0.0.1:{self.port}", "--period", "500us", "--pace", "sleep"]
        self.start([*source, "--for", "1h", "--quiet"], cpu=0, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if self.cause == "competitor":
            # One alone gives way to who wakes up: several that weigh more than it do not.
            for _ in range(3):
                self.start(["nice", "-n", "-10", sys.executable, "-c", HOG])
        if self.cause == "quota":
            self.limit()
        return self

    def limit(self):
        root = pathlib.Path("/sys/fs/cgroup")
        self.group = (root / "cpu" if (root / "cpu").is_dir() else root) / f"quaver-truth-{os.getpid()}"
        self.group.mkdir()
        (self.group / "cgroup.procs").write_text(str(self.receiver.pid))
        for name in sorted(QUOTA, reverse=True):
            if (self.group / name).exists():
                (self.group / name).write_text(QUOTA[name])

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.send_signal(signal.SIGKILL)
            child.wait()
        if self.group:
            self.group.rmdir()


CAUSES = {"competitor": ["receiver-class"], "quota": ["quota"], "nothing": []}


def cure(args, cause, seed, directory):
    journal = directory / "journal"
    shutil.rmtree(journal, ignore_errors=True)
    environment = {**os.environ, "QUAVER_TUNE_JOURNAL": str(journal)}
    with Planted(args.quaver, cause, random.randrange(20000, 50000, 2)) as planted:
        process = planted.receiver.pid
        before = settings(process, planted.group)
        command = [args.quaver, "cure", "--pid", str(process), "--yes", "--quiet", "--json", "--seed", str(seed)]
        command += ["--for", args.time, "--output", str(directory / "runs")]
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        took_s = time.monotonic() - began
        if done.returncode:
            sys.exit(f"truth_cures: {cause}: quaver cure ended with {done.returncode}: {done.stderr}")
        kept_settings = settings(process, planted.group)
        subprocess.run([args.quaver, "tune", "revert"], env=environment, capture_output=True, check=True)
        after = settings(process, planted.group)
    summary = json.loads(done.stdout)
    proof = summary.get("proof") or {}
    return {
        "cause": cause, "seed": seed, "kept": summary["kept"], "expected": CAUSES[cause], "took_s": round(took_s, 1),
        "right": summary["kept"] == CAUSES[cause] and after == before and (before == kept_settings) == (not CAUSES[cause]),
        "put_back": after == before, "outcome": summary["outcome"], "effect": proof.get("effect"),
        "tried": [one["id"] for one in summary["remedies"]],
    }


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("quaver", type=os.path.abspath)
    words.add_argument("directory", type=pathlib.Path)
    words.add_argument("--seeds", type=int, default=20)
    words.add_argument("--for", dest="time", default="200s")
    words.add_argument("causes", nargs="*", default=list(CAUSES), metavar="CAUSE", help=", ".join(CAUSES))
    args = words.parse_intermixed_args()
    if unknown := [cause for cause in args.causes if cause not in CAUSES]:
        sys.exit(f"truth_cures: no such cause: {unknown[0]}; there are {', '.join(CAUSES)}")
    args.directory.mkdir(parents=True, exist_ok=True)
    # What was planted ends with this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = []
    with open(args.directory / "cures.jsonl", "a") as out:
        for seed in range(1, args.seeds + 1):
            for cause in args.causes:
                rows.append(cure(args, cause, seed, args.directory))
                print(json.dumps(rows[-1]), file=out, flush=True)
                print({key: rows[-1][key] for key in ("cause", "seed", "kept", "right", "took_s")}, flush=True)
    failed = False
    for cause in args.causes:
        right = sum(row["right"] for row in rows if row["cause"] == cause)
        print(f"{cause}: right in {right} of {args.seeds}")
        failed |= right * 20 < args.seeds * 19
    sys.exit(failed)


main()
