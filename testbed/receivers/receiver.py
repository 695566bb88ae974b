"""Receives UDP on loopback and does one deed each 250 packets: `receiver.py WAITING PORT DEED FOLDER`.

WAITING is block or asyncio. FOLDER takes the file of the deed that needs one.
"""

import asyncio
import gc
import os
import socket
import sys
import time

DEED_EACH_PACKETS = 250
DEED_S = 0.003
WRITTEN = bytes(2 << 20)

waiting, port, deed, folder = sys.argv[1:]
received = 0
# What a collection walks through.
kept = [[number] for number in range(100_000)] if deed == "gc" else []
file = None
if deed == "disk":
    path = os.path.join(folder, f"deed.{os.getpid()}")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink(path)


def compute():
    end = time.monotonic() + DEED_S
    while time.monotonic() < end:
        pass


def write_to_disk():
    os.pwrite(file, WRITTEN, 0)
    os.fsync(file)


deeds = {
    "none": lambda: None,
    "sleep": lambda: time.sleep(DEED_S),
    "compute": compute,
    "gc": gc.collect,
    "disk": write_to_disk,
}
do_deed = deeds[deed]


def took():
    global received
    received += 1
    if received % DEED_EACH_PACKETS == 0:
        do_deed()


class Receiver(asyncio.DatagramProtocol):
    def datagram_received(self, data, sender):
        took()


async def receive():
    await asyncio.get_running_loop().create_datagram_endpoint(Receiver, local_addr=("127.0.0.1", int(port)))
    await asyncio.Event().wait()


if waiting == "asyncio":
    asyncio.run(receive())
else:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", int(port)))
    while True:
        receiver.recv(65536)
        took()
