"""Time from the start of a program to its packet socket being bound, and to its first wait for packets, program by program in turn.

usage: startup.py ROUNDS NAME=COMMAND...   (as root; prints a JSON line a start)

strace stamps only the calls that it names (--seccomp-bpf): execve, bind, epoll_create1 and poll; all others run at full speed.
COMMAND is split as by a shell; {out} in it is the file.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time


def start(round_number, name, command, place):
    log, out = os.path.join(place, "log"), os.path.join(place, "out")
    calls = "trace=execve,bind,epoll_create1,poll"
    words = ["strace", "--seccomp-bpf", "-f", "-ttt", "-e", calls, "-o", log, *shlex.split(command.format(out=out))]
    program = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    child = int(subprocess.run(["pgrep", "-P", str(program.pid)], capture_output=True, check=True).stdout.split()[0])
    os.kill(child, signal.SIGINT)
    program.wait()
    times = {}
    with open(log) as lines:
        for line in lines:
            found = re.match(r"\d+ +([\d.]+) (.*)", line)
            stamp, call = float(found[1]), found[2]
            if call.startswith("execve"):
                times.setdefault("begun", stamp)
            elif "AF_PACKET" in call:
                times["bound"] = stamp
            elif "bound" in times and (call.startswith("epoll_create1") or call.startswith("poll")):
                times.setdefault("waiting", stamp)
    row = {"round": round_number, "name": name}
    for key in ("bound", "waiting"):
        row[key + "_ms"] = round((times[key] - times["begun"]) * 1e3, 2) if key in times else None
    print(json.dumps(row), flush=True)


def main():
    arms = [arm.split("=", 1) for arm in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as place:
        for round_number in range(int(sys.argv[1])):
            for turn in range(len(arms)):
                name, command = arms[(turn + round_number) % len(arms)]
                start(round_number, name, command, place)


main()
