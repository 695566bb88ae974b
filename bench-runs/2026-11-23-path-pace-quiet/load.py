"""One loaded run as a JSON line: packets by the namespace's counters, CPU time, and the tool's own words.

usage: load.py NAME ROUND SCRATCH
"""

import json
import re
import sys
from pathlib import Path

name, number, scratch = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])


def counters(file):
    rows = [line.split() for line in (scratch / file).read_text().splitlines() if line.startswith("Udp:")]
    return dict(zip(rows[0][1:], map(int, rows[1][1:])))


before, after = counters("snmp-before.txt"), counters("snmp-after.txt")
moved = {key: after[key] - before[key] for key in ("InDatagrams", "OutDatagrams", "RcvbufErrors", "InErrors")}
words = (scratch / "client-cpu.txt").read_text().split()
wall, user, system = (float(word) for word in words) if len(words) == 3 else (None, None, None)
server = float((scratch / "server-cpu.txt").read_text() or 0)
found = {"name": name, "round": number, "wall_s": wall, "client_cpu_s": user and user + system, "server_cpu_s": server}
found["counters"] = moved
text = (scratch / "client.txt").read_text()
if "quaver" in name and text.startswith("{"):
    up = json.loads(text)["up"]
    flow, packets = up["flow"], up["packets"]
    found["own"] = {
        "planned": flow["planned"], "sent": packets["sent"], "arrived": packets["unique"], "lost": up["loss"]["packets"],
        "own_drops": flow["own_drops"], "achieved": flow["achieved"], "reordered": packets["reordered"],
        "mean_period_sent_ns": up["periods"]["sent_ns"],
    }
elif "iperf3" in name and text.strip():
    total = json.loads(text)["end"]["sum"]
    found["own"] = {key: total.get(key) for key in ("packets", "lost_packets", "seconds")}
elif "iperf2" in name:
    report = re.findall(r"(\d+)/\s*(\d+) \(", text)
    sent = re.findall(r"Sent (\d+) datagrams", text)
    found["own"] = {"sent": sent and int(sent[-1]), "lost": report and int(report[-1][0])}
print(json.dumps(found))
