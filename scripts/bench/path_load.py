"""What one tool did at a high rate, from the kernel's counters of its namespace and from its own words.

usage: path_load.py NAME SCRATCH OUT.json. Reads snmp-before.txt, snmp-after.txt, server-cpu.txt (seconds), client-cpu.txt
(elapsed, user and system seconds) and client.txt from SCRATCH.

The namespace has nothing but the tool, so the kernel's counters of UDP are the tool's: sent is what was handed to the
kernel, lost is what of it no program read. A tool that echoes has both ways in them.
"""

import json
import re
import sys
from pathlib import Path


def counters(path):
    """UDP of /proc/net/snmp by name."""
    names, values = (line.split()[1:] for line in path.read_text().splitlines() if line.startswith("Udp:"))
    return dict(zip(names, map(int, values)))


def own_words(text):
    """Packets and losses as the tool tells them; nothing where it does not."""
    said = {}
    try:
        tree = json.loads(text)
    except ValueError:
        tree = {}
    if "up" in tree:
        flow, up = tree["up"]["flow"], tree["up"]
        said = {"sent": up["packets"]["sent"], "lost": up["loss"]["packets"], "own_drops": up["loss"].get("own_drops")}
        achieved = flow.get("achieved") or {}
        said["sending_cpu_ns_per_million"] = achieved.get("cpu_per_million_ns")
        said["slots_missed"] = achieved.get("missed")
    elif "end" in tree:
        whole = tree["end"]["sum"]
        said = {"sent": whole.get("packets"), "lost": whole.get("lost_packets")}
    elif match := re.search(r"(\d+)/\s*(\d+) \([\d.e+-]+%\)", text):
        said = {"sent": int(match.group(2)), "lost": int(match.group(1))}
    elif match := re.search(r"packets sent/received[^:]*: (\d+)/(\d+)", text):
        said = {"sent": int(match.group(1)), "lost": int(match.group(1)) - int(match.group(2))}
    elif match := re.search(r"Total of (\d+) messages sent", text):
        said = {"sent": int(match.group(1))}
    return said


def main():
    name, scratch, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    before, after = counters(scratch / "snmp-before.txt"), counters(scratch / "snmp-after.txt")
    grown = {key: after[key] - before[key] for key in after}
    elapsed, user, system = map(float, (scratch / "client-cpu.txt").read_text().split()[-3:])
    server = float((scratch / "server-cpu.txt").read_text())
    sent = grown["OutDatagrams"]
    result = {
        "tool": name,
        "sent": sent,
        "lost": sent - grown["InDatagrams"],
        "buffer_drops": grown["RcvbufErrors"],
        "elapsed_s": elapsed,
        "client_cpu_s": user + system,
        "server_cpu_s": server,
        "cpu_s_per_million": (user + system + server) / max(1, sent) * 1e6,
        "own_words": own_words((scratch / "client.txt").read_text(errors="replace")),
    }
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"  {name}: sent {sent} in {elapsed:.1f} s, lost {result['lost']}, "
        f"{result['cpu_s_per_million']:.2f} s of CPU a million packets; says {result['own_words']}"
    )


main()
