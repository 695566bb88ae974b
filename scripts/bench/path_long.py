"""Watches both ends of a long test. usage: path_long.py RESULT SERVER-PID PACKETS PROBE-COMMAND...

Notes VmRSS and VmHWM of client and server when a tenth, a half and nearly all of the packets have come, by the JSON
lines of the probe, and what the probe stored at last.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from summaries import whole_summary

result, server, packets, command = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
# The last line comes when all is over, and the process may be gone then.
SHARES = (0.1, 0.5, 0.9)


def memory(process):
    """Resident memory now and at most, KiB."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {"rss_kib": int(fields["VmRSS"].split()[0]), "most_kib": int(fields["VmHWM"].split()[0])}


begun = time.monotonic()
probe = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
came, marks, lines = {}, [], 0
for line in probe.stdout:
    figures = json.loads(line)
    came[figures["direction"]] = came.get(figures["direction"], 0) + figures["unique"] + figures["lost"]
    lines += 1
    if len(marks) < len(SHARES) and max(came.values()) >= SHARES[len(marks)] * packets:
        ends = {"client": memory(probe.pid), "server": memory(server)}
        marks.append({"share": SHARES[len(marks)], "packets": max(came.values()), **ends})
status = probe.wait()
run = next(Path(command[command.index("--output") + 1]).iterdir())
figures = json.loads(whole_summary(run).read_text())["rolling"]
files = {path.name: path.stat().st_size for path in sorted(run.iterdir())}
result.write_text(
    json.dumps(
        {
            "packets": packets,
            "seconds": round(time.monotonic() - begun, 1),
            "status": status,
            "json_lines": lines,
            "marks": marks,
            "server_at_the_end": memory(server),
            "rolling": figures,
            "files_bytes": files,
        },
        indent=1,
    )
    + "\n"
)
sys.exit(status)
