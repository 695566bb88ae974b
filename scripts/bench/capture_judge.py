"""Judges one capture of a bench run. usage: capture_judge.py NAME SIZE SECONDS SCRATCH RESULT.json"""

import json
import re
import sys
from pathlib import Path


# Places of `quaver capture --json` that name nothing: packets that went astray there are not accounted for.
NO_PLACES = ("unaccounted", "undecoded")


def of_quaver(watched):
    said = json.loads(watched["out"])
    layers = [one["stamped"] for one in said["interfaces"]]
    astray = sum(one["dropped"][place] for one in said["interfaces"] for place in NO_PLACES)
    return {
        "seen": said["seen"],
        "captured": said["captured"],
        "dropped": said["dropped"] - astray,
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


READERS = {"quaver": of_quaver, "layers": of_quaver, "immediate": of_quaver, "dumpcap": of_dumpcap, "tcpdump": of_tcpdump}


def judged(name, size, asked_seconds, watched, source):
    """What a program did. One that does not tell its counts has captured nothing."""
    try:
        found = READERS[name](watched) | {"told": True}
    except (ValueError, KeyError, AttributeError):
        found = {"seen": 0, "captured": 0, "dropped": 0, "told": False}
    return found | {
        "name": name,
        "size": size,
        "sent": source["sent"],
        "missed": source["slots_missed"],
        "seconds": (source["sent"] + source["slots_missed"]) * source["period_ns"] / 1e9,
        "asked_seconds": asked_seconds,
        "unaccounted": source["sent"] - found["captured"] - found["dropped"],
        "cpu_s": watched["user_s"] + watched["system_s"],
        "user_s": watched["user_s"],
        "system_s": watched["system_s"],
        "status": watched["status"],
        "command_said": watched["errors"][-2000:],
    }


def main():
    name, size, seconds, scratch, result = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5])
    watched = json.loads((scratch / "watched.json").read_text())
    source = json.loads((scratch / "source.json").read_text())
    found = judged(name, size, seconds, watched, source)
    result.write_text(json.dumps(found, indent=1) + "\n")
    print(f"bench: {name} {size}: {found['captured']} of {found['sent']}, {found['dropped']} dropped, {found['cpu_s']:.2f} s")


if __name__ == "__main__":
    main()
