"""Many hostile connections: usage: hostile.py HOST PORT COUNT SECONDS

Each comes from an address of its own (127.1.x.y) and stalls, sends garbage, or sends half a message; what the server
closes is opened again. Prints how many were opened, and how many were open at most.
"""

import json
import os
import selectors
import socket
import sys
import time

host, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
# A HELLO of the extension without its end, and an ACCEPT that announces a body which never comes.
HALVES = (bytes.fromhex("00000008 00000001 00000000 00000001"), bytes.fromhex("00000008 00000001 0000ffff 00000006"))
watch = selectors.DefaultSelector()
opened, most_open = 0, 0


def start(number):
    """Opens connection `number` and lets it say what it says."""
    global opened
    attacker = socket.socket()
    attacker.setblocking(False)
    attacker.bind((f"127.1.{number // 250}.{1 + number % 250}", 0))
    attacker.connect_ex((host, port))
    opened += 1
    watch.register(attacker, selectors.EVENT_WRITE, number)


end = time.monotonic() + seconds
for number in range(count):
    start(number)
while time.monotonic() < end:
    most_open = max(most_open, len(watch.get_map()))
    again = []
    for key, events in watch.select(0.1):
        attacker, number = key.fileobj, key.data
        try:
            if events & selectors.EVENT_WRITE:
                words = (b"", os.urandom(1000), HALVES[number // 3 % 2])[number % 3]
                attacker.send(words)
                watch.modify(attacker, selectors.EVENT_READ, number)
            elif attacker.recv(4096):
                continue
            else:
                again.append(key)
        except OSError:
            again.append(key)
    for key in again:
        watch.unregister(key.fileobj)
        key.fileobj.close()
        if time.monotonic() < end:
            start(key.data)
print(json.dumps({"opened": opened, "open_at_most": most_open}))
