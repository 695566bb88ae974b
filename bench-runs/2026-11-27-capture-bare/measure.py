"""CPU time that captures of one stream take, and packets that they miss, program by program in turn, between two network namespaces.

usage: measure.py ROUNDS PERIOD SECONDS SOURCE NAME=COMMAND...   (as root; SOURCE is a quaver that sends; prints a JSON line a capture)

COMMAND is split as by a shell; {out} in it is the file. The stream: packets of 74 bytes, one each PERIOD. CPU time is what the scheduler
counts for all threads of the program (/proc/PID/task/*/schedstat), from before the stream to 1.5 s after it: the start of the program
is not in it. The packets of each file are counted by capinfos.
"""

import glob
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

FROM, TO = "quaver-bench-from", "quaver-bench-to"
HOLD = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 2680)); time.sleep(86400)"
SEND = "{} source 198.51.100.2:2680 --period {} --size 32 --for {}s --pace spin --catch-up --cpu 0 --json"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *words]


def used_ns(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total


def capture(round_number, name, command, source, stream, out):
    words = shlex.split(command.format(out=out))
    captor = subprocess.Popen(inside(TO, "taskset", "-c", "1", *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    before_ns = used_ns(captor.pid)
    sent = json.loads(subprocess.run(inside(FROM, *SEND.format(source, *stream).split()), capture_output=True, check=True).stdout)
    # tcpdump looks at what lies in its buffer after a second at the latest.
    time.sleep(1.5)
    after_ns = used_ns(captor.pid)
    captor.send_signal(signal.SIGINT)
    status = captor.wait()
    size = os.path.getsize(out)
    counted = subprocess.run(["capinfos", "-M", "-c", "-T", "-r", "-m", out], capture_output=True, text=True, check=True).stdout
    os.unlink(out)
    row = {"round": round_number, "name": name, "period": stream[0], "sent": sent["sent"], "captured": int(counted.strip().split(",")[-1]), "used_ns": after_ns - before_ns}
    print(json.dumps({**row, "file_bytes": size, "status": status}), flush=True)


def main():
    rounds, *stream, source = int(sys.argv[1]), *sys.argv[2:5]
    arms = [arm.split("=", 1) for arm in sys.argv[5:]]
    ip("netns", "add", FROM)
    ip("netns", "add", TO)
    holder = None
    try:
        ip("-n", FROM, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", TO)
        ip("-n", FROM, "address", "add", "198.51.100.1/24", "dev", "veth0")
        ip("-n", TO, "address", "add", "198.51.100.2/24", "dev", "veth0")
        for namespace in (FROM, TO):
            ip("-n", namespace, "link", "set", "lo", "up")
            ip("-n", namespace, "link", "set", "veth0", "up")
        holder = subprocess.Popen(inside(TO, "python3", "-c", HOLD))
        with tempfile.TemporaryDirectory() as place:
            for round_number in range(rounds):
                for turn in range(len(arms)):
                    name, command = arms[(turn + round_number) % len(arms)]
                    capture(round_number, name, command, source, stream, os.path.join(place, "captured"))
    finally:
        if holder:
            holder.kill()
            holder.wait()
        for namespace in (FROM, TO):
            subprocess.run(["ip", "netns", "del", namespace], check=False)


main()
