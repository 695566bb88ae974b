#!/usr/bin/env python3
"""Plants causes of lateness on this machine, and judges what `quaver cure` keeps of each:
truth_cures.py QUAVER DIRECTORY [--seeds N] [--for TIME] [--later] [CAUSE...]

A cure is right if it keeps just the remedy of what was planted (nothing where nothing was), and if all settings are as before
once `quaver tune revert` has run. With --later what was kept is tried anew on later occasions, each with other work beside
it: a cure of that alone, whose proof says whether it still helps. Needs root and two CPUs. Results go to DIRECTORY/cures.jsonl, a line a cure."""
import argparse, json, os, pathlib, random, shutil, signal, subprocess, sys, time

RECEIVER = r"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[3], int(sys.argv[1])))
s.setblocking(sys.argv[2] == "sleeps")
print("bound", flush=True)
while True:
    try:
        s.recv(2048)
    except BlockingIOError:
        pass
"""
HOG = "while True: pass"
# Runs for 2 ms of each 20.
BURSTS = """
import time
while True:
    end = time.monotonic() + 0.002
    while time.monotonic() < end:
        pass
    time.sleep(0.018)
"""
# A flow of another program: 16 trains of 60 packets each 10 ms, which nobody reads.
TRAINS = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, 1000)
while True:
    for _ in range(16):
        s.sendto(bytes(60_000), (sys.argv[1], int(sys.argv[2])))
    time.sleep(0.01)
"""
UNREAD = """
import signal, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
signal.pause()
"""
CPU = 1
QUOTA = {"cpu.cfs_quota_us": "16000", "cpu.cfs_period_us": "20000", "cpu.max": "16000 20000"}


def settings(planted):
    """All that a cure of these causes may change."""
    process, files = planted.receiver.pid, {}
    policy = os.sched_getscheduler(process), os.sched_getparam(process).sched_priority
    files = {str(file): file.read_text() for file in planted.files if file.exists()}
    cpus = [sorted(os.sched_getaffinity(child.pid)) for child in planted.children]
    return {"class": policy, "affinity": cpus, "files": files}


class Veth:
    """A pair of interfaces: ours, and the other end in a namespace where senders are."""

    def __init__(self):
        number = os.getpid()
        self.space, self.ours, self.theirs = f"quaver-truth-{number}", f"qt{number}", f"qp{number}"
        self.here, self.there = "10.213.7.1", "10.213.7.2"
        self.ip("netns", "add", self.space)
        try:
            self.ip("link", "add", self.ours, "type", "veth", "peer", "name", self.theirs, "netns", self.space)
            self.ip("address", "add", f"{self.here}/30", "dev", self.ours)
            self.ip("link", "set", self.ours, "up")
            self.ip("-n", self.space, "address", "add", f"{self.there}/30", "dev", self.theirs)
            self.ip("-n", self.space, "link", "set", self.theirs, "up")
        except BaseException:
            self.end()
            raise

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)

    def rps(self):
        return pathlib.Path(f"/sys/class/net/{self.ours}/queues/rx-0/rps_cpus")

    def end(self):
        # The pair goes with the namespace.
        self.ip("netns", "del", self.space)


class Planted:
    """A receiver with its stream and what is planted beside it; all of it ends with the block."""

    def __init__(self, quaver, cause, port):
        self.quaver, self.cause, self.port, self.children, self.group = quaver, cause, port, [], None
        self.files, self.veth = [], None

    def start(self, command, **more):
        cpus = {more.pop("cpu", CPU)}
        # In force once this returns: what a program had before its first step is none of the cure's doing.
        child = subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, cpus), **more)
        self.children.append(child)
        return child

    def __enter__(self):
        try:
            self.plant()
        except BaseException:
            self.__exit__()
            raise
        return self

    def plant(self):
        kind = "spins" if self.cause in ("quota", "three") else "sleeps"
        address, within = "127.0.0.1", []
        if self.cause == "three":
            self.veth = Veth()
            address, within = self.veth.here, ["ip", "netns", "exec", self.veth.space]
        # Threads of the machine itself run beside it: a receiver before all of these lacks nothing.
        first = ["chrt", "-f", "10"] if self.cause == "nothing" else []
        python = [*first, sys.executable, "-c", RECEIVER, str(self.port), kind, address]
        self.receiver = self.start(python, stdout=subprocess.PIPE, text=True)
        self.receiver.stdout.readline()
        source = ["chrt", "-f", "40", self.quaver, "source", f"{address}:{self.port}", "--period", "500us", "--pace", "sleep"]
        self.start([*within, *source, "--for", "1h", "--quiet"], cpu=0, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if self.cause == "competitor":
            # One alone gives way to who wakes up: several that weigh more than it do not.
            for _ in range(3):
                self.start(["nice", "-n", "-10", sys.executable, "-c", HOG])
        if self.cause in ("quota", "three"):
            self.limit()
        if self.cause in ("burst", "three"):
            self.start(["chrt", "-f", "30", sys.executable, "-c", BURSTS])
        if self.cause == "three":
            other = [address, str(self.port + 1)]
            self.start([sys.executable, "-c", UNREAD, *other], cpu=0)
            self.start([*within, sys.executable, "-c", TRAINS, *other], cpu=0)
            self.veth.rps().write_text(f"{1 << CPU:x}")
            self.files.append(self.veth.rps())

    def limit(self):
        root = pathlib.Path("/sys/fs/cgroup")
        self.group = (root / "cpu" if (root / "cpu").is_dir() else root) / f"quaver-truth-{os.getpid()}"
        self.group.mkdir()
        (self.group / "cgroup.procs").write_text(str(self.receiver.pid))
        self.files += [self.group / name for name in QUOTA]
        for name in sorted(QUOTA, reverse=True):
            if (self.group / name).exists():
                (self.group / name).write_text(QUOTA[name])

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.send_signal(signal.SIGKILL)
            child.wait()
        if self.group:
            self.group.rmdir()
        if self.veth:
            self.veth.end()


class Beside:
    """Other work on the other CPU; it ends with the block."""

    PROGRAMS = {"idle": [], "hog": [[HOG]], "network": [[UNREAD, "127.0.0.1", "19999"], [TRAINS, "127.0.0.1", "19999"]]}

    def __init__(self, occasion):
        self.occasion, self.children = occasion, []

    def __enter__(self):
        for words in self.PROGRAMS[self.occasion]:
            on = lambda: os.sched_setaffinity(0, {0})
            self.children.append(subprocess.Popen([sys.executable, "-c", *words], preexec_fn=on))
        time.sleep(0.5)

    def __exit__(self, *_):
        for child in self.children:
            child.send_signal(signal.SIGKILL)
            child.wait()


CAUSES = {
    "burst": ["others-elsewhere"],
    "competitor": ["receiver-class"],
    "quota": ["quota"],
    "nothing": [],
    "three": ["others-elsewhere", "quota", "rps"],
}


def cure(args, cause, seed, directory):
    journal = directory / "journal"
    shutil.rmtree(journal, ignore_errors=True)
    environment = {**os.environ, "QUAVER_TUNE_JOURNAL": str(journal)}
    with Planted(args.quaver, cause, random.randrange(20000, 50000, 2)) as planted:
        before = settings(planted)
        command = [args.quaver, "cure", "--pid", str(planted.receiver.pid), "--yes", "--quiet", "--json", "--seed", str(seed)]
        command += ["--for", args.time, "--output", str(directory / "runs")]
        if cause == "burst":
            command += ["--allow", "host", "--only", "others-elsewhere"]
        if planted.veth:
            # Beside the three remedies three without effect: a whole host has twenty of those.
            tried = [*CAUSES["three"], "cstate", "thp", "wq-unbound"]
            command += ["--interface", planted.veth.ours, "--allow", "host", "--only", ",".join(tried)]
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        took_s = time.monotonic() - began
        if done.returncode:
            sys.exit(f"truth_cures: {cause}: quaver cure ended with {done.returncode}: {done.stderr}")
        kept_settings = settings(planted)
        summary = json.loads(done.stdout)
        occasions = later(args, command, summary["kept"], environment) if args.later and summary["kept"] else []
        subprocess.run([args.quaver, "tune", "revert"], env=environment, capture_output=True, check=True)
        after = settings(planted)
    proof = summary.get("proof") or {}
    expected = CAUSES[cause]
    return {
        "cause": cause, "seed": seed, "kept": summary["kept"], "expected": expected, "took_s": round(took_s, 1),
        "load": round(os.getloadavg()[0], 2),
        "right": sorted(summary["kept"]) == expected and after == before and (before == kept_settings) == (not expected),
        "put_back": after == before, "outcome": summary["outcome"], "effect": proof.get("effect"),
        "tried": [
            {"id": one["id"], "rounds": (one["effect"] or {}).get("rounds"), "e": (one["effect"] or {}).get("e"),
             "difference": (one["effect"] or {}).get("difference"), "verdict": one["verdict"], "settled": one["settled"]}
            for one in summary["remedies"]
        ],
        "causes": [[one["source"], round(one["share"], 3)] for one in summary["causes"][:6]],
        "not_tried": [one["id"] for one in summary["not_tried"]],
        **({"later": occasions} if args.later else {}),
    }


def later(args, command, kept, environment):
    """What a fresh cure of what was kept says, on each occasion."""
    found = []
    for occasion in Beside.PROGRAMS:
        subprocess.run([args.quaver, "tune", "revert"], env=environment, capture_output=True, check=True)
        with Beside(occasion):
            load = round(os.getloadavg()[0], 2)
            at = command.index("--only") if "--only" in command else len(command)
            words = [*command[:at], *command[at + 2 :], "--only", ",".join(kept)]
            done = subprocess.run(words, env=environment, capture_output=True, text=True)
        summary = json.loads(done.stdout) if done.returncode == 0 else {"kept": [], "outcome": done.stderr, "remedies": []}
        effects = [one["effect"] for one in summary["remedies"]]
        proof = summary.get("proof") or {}
        told = [proof["effect"]] if proof.get("effect") else effects
        # What helps may be refused all the same, for what it does to others then.
        helps = bool(told) and all(one and one["interval"] and one["interval"]["high"] < 0 for one in told)
        row = {"occasion": occasion, "helps": helps, "kept": summary["kept"], "outcome": summary["outcome"], "load": load}
        row |= {"proof": proof.get("effect"), "trial": effects, "withdrawn": [one["withdrawn"] for one in summary["remedies"]]}
        found.append(row)
        print({key: row[key] for key in ("occasion", "helps", "outcome")}, flush=True)
    return found


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("quaver", type=os.path.abspath)
    words.add_argument("directory", type=pathlib.Path)
    words.add_argument("--seeds", type=int, default=20)
    words.add_argument("--for", dest="time", default="170s")
    words.add_argument("--later", action="store_true", help="try what was kept on later occasions too")
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
