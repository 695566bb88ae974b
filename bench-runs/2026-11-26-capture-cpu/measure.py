"""CPU time that captures of one stream take, program by program in turn, between two network namespaces.

usage: measure.py ROUNDS SOURCE NAME=COMMAND...   (as root; SOURCE is a quaver that sends; prints a JSON line a capture)

COMMAND is split as by a shell; {out} in it is the file. The stream: 500,000 packets of 74 bytes in 5 s. CPU time is that of the whole
process, with its start: user and system time of the child, as the kernel counts them (getrusage).
"""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

FROM, TO = "quaver-bench-from", "quaver-bench-to"
HOLD = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 2680)); time.sleep(86400)"
SEND = "{} source 198.51.100.2:2680 --period 10us --size 32 --for 5s --pace spin --catch-up --cpu 0 --json"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *words]


def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime, usage.ru_stime


def capture(round_number, name, command, source, out):
    words = shlex.split(command.format(out=out))
    captor = subprocess.Popen(inside(TO, "taskset", "-c", "1", *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    sent = json.loads(subprocess.run(inside(FROM, *SEND.format(source).split()), capture_output=True, check=True).stdout)
    before = used()
    # tcpdump looks at what lies in its buffer after a second at the latest.
    time.sleep(1.5)
    captor.send_signal(signal.SIGINT)
    status = captor.wait()
    user_s, system_s = (after - early for after, early in zip(used(), before))
    size = os.path.getsize(out)
    os.unlink(out)
    row = {"round": round_number, "name": name, "sent": sent["sent"], "user_s": round(user_s, 3), "system_s": round(system_s, 3)}
    print(json.dumps({**row, "file_bytes": size, "status": status}), flush=True)


def main():
    rounds, source = int(sys.argv[1]), sys.argv[2]
    arms = [arm.split("=", 1) for arm in sys.argv[3:]]
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
                    capture(round_number, name, command, source, os.path.join(place, "captured"))
    finally:
        if holder:
            holder.kill()
            holder.wait()
        for namespace in (FROM, TO):
            subprocess.run(["ip", "netns", "del", namespace], check=False)


main()
