"""What counting times of CPUs costs: measure.py QUAVER ROUNDS > blocks.jsonl (as root, 2 CPUs at least).

Each block is one load on CPU 1 for a second, with a watch (`on`) or without (`off`, `off-again`: their difference must be none).
The blocks of a round come in random order. `op_ns` is what a switch with its wake-up, or a packet, takes. `programs` has the
kernel's own count of each BPF program in the order of bpf/c/cpus.bpf.c (kernel.bpf_stats_enabled, put back at the end), which
is on in all blocks alike.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
LENGTH_MS = 1000
LOADS = ["pipe", "packets"]
ARMS = ["off", "off-again", "on"]
KINDS = ["irq_handler", "local_timer", "reschedule", "call_function", "call_function_single", "irq_work"]
NAMES = [f"{kind}_{end}" for kind in KINDS for end in ("entry", "exit")]
NAMES += ["softirq_entry", "softirq_exit", "cpu_idle", "sched_switch"]


def programs(pid):
    """Runs and nanoseconds of the BPF programs of a process, in the order in which they were loaded."""
    found = {}
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if "run_cnt" in lines:
            found[int(lines["prog_id"])] = (int(lines["run_cnt"]), int(lines["run_time_ns"]))
    values = [found[number] for number in sorted(found)]
    assert len(values) == len(NAMES), f"{len(values)} programs, not {len(NAMES)}"
    return values


def metrics(place):
    text = subprocess.run([QUAVER, "watch", "metrics", "--socket", f"{place}/s"], capture_output=True, text=True)
    return text.stdout


def block(load, arm):
    with tempfile.TemporaryDirectory() as place:
        daemon = None
        if arm == "on":
            settings = pathlib.Path(place, "watch.toml")
            settings.write_text(f"directory = '{place}'\nsocket = '{place}/s'\ncpus = '0-1'\n")
            log = open(pathlib.Path(place, "log"), "w+")
            daemon = subprocess.Popen([QUAVER, "watch", "--config", settings], stdout=log, stderr=log)
            begun = time.monotonic()
            while "quaver_watch_cpu_run_queue_seconds_count" not in metrics(place):
                if time.monotonic() - begun > 20:
                    daemon.kill()
                    sys.exit(pathlib.Path(place, "log").read_text())
                time.sleep(0.05)
        before = programs(daemon.pid) if daemon else []
        out = subprocess.run([BUILT / load, "1", str(LENGTH_MS)], capture_output=True, text=True, check=True)
        after = programs(daemon.pid) if daemon else []
        series = 0
        if daemon:
            series = sum("quaver_watch_cpu_" in line and line[0] != "#" for line in metrics(place).splitlines())
            daemon.terminate()
            daemon.wait()
        count, op_ns = out.stdout.split()
        runs = {n: [a[0] - b[0], a[1] - b[1]] for n, a, b in zip(NAMES, after, before)}
        return {"load": load, "arm": arm, "ops": int(count), "op_ns": float(op_ns), "series": series, "programs": runs}


def main(rounds):
    for load in LOADS:
        subprocess.run(["cc", "-O2", "-pthread", "-o", BUILT / load, HERE / f"{load}.c"], check=True)
    was = STATS.read_text()
    try:
        STATS.write_text("1")
        for number in range(rounds):
            blocks = [(load, arm) for load in LOADS for arm in ARMS]
            random.shuffle(blocks)
            for load, arm in blocks:
                print(json.dumps({"round": number, **block(load, arm)}), flush=True)
    finally:
        STATS.write_text(was)


QUAVER = sys.argv[1]
BUILT = pathlib.Path(tempfile.mkdtemp())
main(int(sys.argv[2]))
