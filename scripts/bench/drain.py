"""Receives UDP packets on a port and throws them away, so that nobody answers the sender with errors."""

import socket
import sys

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("0.0.0.0", int(sys.argv[1])))
room = bytearray(2048)
while True:
    receiver.recv_into(room)
