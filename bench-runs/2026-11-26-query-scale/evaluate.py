"""What questions in SQL cost with the rows and with the runs: python3 evaluate.py > results.txt"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
NAMES = ("by-run", "by-host-and-cpu", "by-kernel", "by-microsecond", "late-by-cause-and-hour")


def took(part, name):
    found = json.loads((HERE / part / f"{name}.json").read_text())
    return found["elapsed_s"], found["user_s"] + found["system_s"], found["largest_kib"] / 2**20


print("A further 10^9 packets, from 10^7 and 10^8 packets in 100 runs each (time; CPU time), and memory at 10^8:")
for name in NAMES:
    few, many = took("rows-1e7", name), took("rows-1e8", name)
    time, cpu = ((after - before) / 0.09 for before, after in zip(few[:2], many[:2]))
    print(f"{name:24} {time:6.1f} s  {cpu:6.1f} s CPU  {many[2]:.2f} GiB")
few, many = (int((HERE / part / "bytes.txt").read_text()) for part in ("rows-1e7", "rows-1e8"))
print(f"bytes: {many / 1e8:.2f} a packet with its late packets, {(many - few) / 0.09 / 1e9:.2f} GB for a further 10^9")
print()
print("10^4 runs of 100 packets (time; CPU time; CPU time a run; memory; memory a run):")
for name in NAMES:
    time, cpu, gib = took("runs-1e4", name)
    print(f"{name:24} {time:6.1f} s  {cpu:6.1f} s CPU  {cpu / 1e4 * 1e3:.2f} ms  {gib:.2f} GiB  {gib * 2**20 / 1e4:.0f} KiB")
