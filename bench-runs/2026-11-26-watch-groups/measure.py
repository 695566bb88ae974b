"""What counting waits costs, for each switch: measure.py QUAVER ROUNDS > blocks.jsonl (as root, 2 CPUs at least).

Each block is one arm: a watch with some tables, or none (`off`, twice: their difference must be none). The arms of a round come
in random order. `switch_ns` is what a switch and a wake-up of pipe.c take on CPU 1; `run_ns` is the kernel's own count of the
BPF program (kernel.bpf_stats_enabled, put back at the end), which is on in all arms alike.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
CGROUP = pathlib.Path("/sys/fs/cgroup/cpu")
GROUP = CGROUP / "quaver-cost"
STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
LENGTH_MS = 1000


def table(name, text):
    return f"[[threads]]\nname = '{name}'\n{text}\n"


def others(count):
    return "".join(table(f"o{i}", f"group = '{GROUP}-{i}'") for i in range(count))


ARMS = {
    "off": "",
    "off-again": "",
    "cpu": table("a", "cpus = '1'"),
    "member": table("a", f"group = '{GROUP}'"),
    "member-below": table("a", f"group = '{GROUP}'"),
    "1-other": others(1),
    "16-others": others(16),
    "recorder": table("a", f"group = '{GROUP}'\nwait = '500ms'"),
}
DIRECTORIES = [GROUP, GROUP / "below"] + [pathlib.Path(f"{GROUP}-{i}") for i in range(16)]


def programs(pid):
    """Names, runs and nanoseconds of the BPF programs of a process."""
    found = {}
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if "run_cnt" in lines:
            identifier = lines["prog_id"].strip()
            found[identifier] = (int(lines["run_cnt"]), int(lines["run_time_ns"]))
    return found


def block(quaver, pipe, arm):
    with tempfile.TemporaryDirectory() as place:
        daemon = None
        if ARMS[arm]:
            settings = pathlib.Path(place, "watch.toml")
            settings.write_text(f"directory = '{place}'\nsocket = '{place}/s'\n{ARMS[arm]}")
            log = open(pathlib.Path(place, "log"), "w+")
            daemon = subprocess.Popen([quaver, "watch", "--config", settings], stdout=log, stderr=log)
            wanted = ARMS[arm].count("[[threads]]")
            begun = time.monotonic()
            while pathlib.Path(place, "log").read_text().count(": watching waits") < wanted:
                if time.monotonic() - begun > 20:
                    daemon.kill()
                    sys.exit(pathlib.Path(place, "log").read_text())
                time.sleep(0.02)
        time.sleep(0.2)
        at = GROUP / "below" if arm == "member-below" else GROUP
        command = f"echo $$ > {at}/cgroup.procs; exec {pipe} 1 {LENGTH_MS}"
        before = programs(daemon.pid) if daemon else {}
        out = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.split()
        after = programs(daemon.pid) if daemon else {}
        if daemon:
            daemon.terminate()
            daemon.wait()
        runs = sum(after[i][0] - before.get(i, (0, 0))[0] for i in after)
        run_ns = sum(after[i][1] - before.get(i, (0, 0))[1] for i in after)
        return {"arm": arm, "switches": int(out[0]), "switch_ns": float(out[1]), "runs": runs, "run_ns": run_ns}


def main(quaver, rounds):
    pipe = pathlib.Path(tempfile.mkdtemp()) / "pipe"
    subprocess.run(["cc", "-O2", "-pthread", "-o", pipe, HERE / "pipe.c"], check=True)
    was = STATS.read_text()
    for directory in DIRECTORIES:
        directory.mkdir(exist_ok=True)
    try:
        STATS.write_text("1")
        for number in range(int(rounds)):
            arms = list(ARMS)
            random.shuffle(arms)
            for arm in arms:
                print(json.dumps({"round": number, **block(quaver, pipe, arm)}), flush=True)
    finally:
        STATS.write_text(was)
        time.sleep(0.5)
        for directory in reversed(DIRECTORIES):
            directory.rmdir()


main(*sys.argv[1:])
