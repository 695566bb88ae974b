"""Judges one capture of a bench run. usage: capture_judge.py NAME SIZE SCRATCH RESULT.json"""

import json
import re
import sys
from pathlib import Path


def of_quaver(watched):
    said = json.loads(watched["out"])
    layers = [one["stamped"] for one in said["interfaces"]]
    return {
        "seen": said["seen"],
        "captured": said["captured"],
        "dropped": said["dropped"],
        "stamped": {name: sum(one[name] for one in layers) for name in layers[0]} if layers else {},
        "stamps_out_of_order": sum(one["stamps_out_of_order"] for one in said["interfaces"]),
    }


def of_dumpcap(watched):
    # Packets received/dropped on interface 'veth0': 2000000/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)
    received, dropped = map(int, re.search(r"received/dropped on interface .*?: (\d+)/(\d+)", watched["errors"]).groups())
    return {"seen": received + dropped, "captured": received, "dropped": dropped}


def of_tcpdump(watched):
    def number(words):
        return int(re.search(rf"(\d+) packets? {words}", watched["errors"]).group(1))

    return {"seen": number("received by filter"), "captured": number("captured"), "dropped": number("dropped by kernel")}


def main():
    name, size, scratch, result = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    watched = json.loads((scratch / "watched.json").read_text())
    source = json.loads((scratch / "source.json").read_text())
    found = {"quaver": of_quaver, "layers": of_quaver, "dumpcap": of_dumpcap, "tcpdump": of_tcpdump}[name](watched)
    found |= {
        "name": name,
        "size": size,
        "sent": source["sent"],
        "missed": source["slots_missed"],
        "seconds": (source["sent"] + source["slots_missed"]) * source["period_ns"] / 1e9,
        "unaccounted": source["sent"] - found["captured"] - found["dropped"],
        "cpu_s": watched["user_s"] + watched["system_s"],
        "user_s": watched["user_s"],
        "system_s": watched["system_s"],
        "status": watched["status"],
        "command_said": watched["errors"][-2000:],
    }
    result.write_text(json.dumps(found, indent=1) + "\n")
    print(f"bench: {name} {size}: {found['captured']} of {found['sent']}, {found['dropped']} dropped, {found['cpu_s']:.2f} s")


main()
