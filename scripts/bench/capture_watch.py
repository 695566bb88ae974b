"""Runs a capture until SIGTERM, then interrupts it and writes what it said and the CPU time that it took.

usage: capture_watch.py RESULT.json COMMAND...
"""

import json
import os
import signal
import subprocess
import sys
import time


def main():
    result, command = sys.argv[1], sys.argv[2:]
    # A shell lets what it starts in the background ignore SIGINT, and that is inherited.
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGINT))
    began = time.monotonic()
    out, errors = child.communicate()
    used = os.times()
    with open(result, "w") as file:
        json.dump(
            {
                "status": child.returncode,
                "out": out,
                "errors": errors,
                "user_s": used.children_user,
                "system_s": used.children_system,
                "elapsed_s": time.monotonic() - began,
            },
            file,
        )


main()
