"""How well one sender kept to one packet a millisecond, by the kernel's stamps at the receiving interface.

usage: pcap_schedule.py NAME SCRATCH OUT_PREFIX. Writes OUT_PREFIX.json and OUT_PREFIX.csv.gz (slot, and error
against the schedule in nanoseconds, a line a packet).

The first half second (handshakes, warm-up) and the last quarter are left out. A sender that leaves out slots after
it was late would shift all that follows: whole periods by which even the best of the 20 packets after a long gap
is behind those before are counted as skipped slots and not as error. The schedule's phase is the median of the errors.
"""

import gzip
import json
import re
import statistics
import struct
import sys
from pathlib import Path

PERIOD_NS = 1_000_000
PAYLOAD_BYTES = 200
LEAD_NS, TAIL_NS = 500_000_000, 250_000_000
BURST_NS = 250_000
SETTLED = 20


def packet_stamps(path):
    """Kernel stamps in nanoseconds of the packets with our length of payload."""
    octets = path.read_bytes()
    magic = struct.unpack_from("<I", octets)[0]
    if magic != 0xA1B23C4D:
        raise SystemExit(f"pcap_schedule.py: {path.name} is no nanosecond pcap of this byte order")
    stamps, at = [], 24
    while at + 16 <= len(octets):
        seconds, nanoseconds, kept, _ = struct.unpack_from("<IIII", octets, at)
        at += 16
        ip = at + 14
        udp = ip + 4 * (octets[ip] & 15)
        if struct.unpack_from(">H", octets, udp + 4)[0] == PAYLOAD_BYTES + 8:
            stamps.append(seconds * 1_000_000_000 + nanoseconds)
        at += kept
    return stamps


def slots(stamps):
    """The slot of each packet, and how many slots were skipped."""
    found, skipped = [], 0
    raw = [stamp - index * PERIOD_NS for index, stamp in enumerate(stamps)]
    for index in range(len(stamps)):
        if index >= SETTLED and stamps[index] - stamps[index - 1] > 1.02 * PERIOD_NS:
            before = statistics.median(raw[index - SETTLED : index])
            after = min(raw[index : index + SETTLED])
            periods = int((after - before) / PERIOD_NS + 0.25)
            if periods > 0:
                skipped += periods
                raw[index:] = [value - periods * PERIOD_NS for value in raw[index:]]
        found.append(index + skipped)
    return found, skipped


def line_through(xs, ys):
    """Intercept and slope by least squares."""
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    square = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / square
    return mean_y - slope * mean_x, slope


def longest_burst(gaps):
    """Most packets that followed each other with gaps of a burst; 1 where none did."""
    longest = now = 1
    for gap in gaps:
        now = now + 1 if gap < BURST_NS else 1
        longest = max(longest, now)
    return longest


def sizes(errors):
    """Percentiles of the absolute errors."""
    ordered = sorted(abs(error) for error in errors)
    at = lambda part: round(ordered[min(len(ordered) - 1, int(len(ordered) * part))])
    return {"p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99), "p99_9_ns": at(0.999), "max_ns": round(ordered[-1])}


def said_sent(text):
    """How many packets the sender says that it sent; none where it does not say."""
    for pattern in (r'"sent": (\d+)', r"Sent (\d+) datagrams", r"Total of (\d+) messages sent", r"packets sent/received[^:]*: (\d+)/"):
        if match := re.search(pattern, text):
            return int(match.group(1))
    return None


def own_words(text):
    """What quaver says of its own schedule."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return {key: said.get(key) for key in ("drift_ppm", "slots_missed", "lateness", "involuntary_switches")}


def judge(name, scratch):
    every = packet_stamps(scratch / "observed.pcap")
    if len(every) < 100:
        raise SystemExit(f"pcap_schedule.py: {name}: only {len(every)} packets were observed")
    stamps = [s for s in every if every[0] + LEAD_NS <= s <= every[-1] - TAIL_NS]
    found, skipped = slots(stamps)
    errors = [stamp - stamps[0] - slot * PERIOD_NS for stamp, slot in zip(stamps, found)]
    phase = round(statistics.median(errors))
    errors = [error - phase for error in errors]
    intercept, slope = line_through(found, errors)
    own = [error - intercept - slope * slot for error, slot in zip(errors, found)]
    gaps = [after - before for before, after in zip(stamps, stamps[1:])]
    text = (scratch / "sender.txt").read_text(errors="replace")
    sent = said_sent(text)
    dropped = re.search(r"(\d+) packets? dropped by kernel", (scratch / "tcpdump.txt").read_text())
    elapsed, user, system = map(float, (scratch / "cpu.txt").read_text().split()[-3:])
    return {
        "sender": name,
        "sent": sent,
        "observed": len(every),
        "observer_dropped": int(dropped.group(1)) if dropped else None,
        "judged": len(stamps),
        "slope_ppm": slope / PERIOD_NS * 1e6,
        "against_schedule": sizes(errors),
        "against_own_line": sizes(own),
        "slots_skipped": skipped,
        "bursts": sum(gap < BURST_NS for gap in gaps),
        "longest_burst": longest_burst(gaps),
        "shortest_gap_ns": min(gaps),
        "longest_gap_ns": max(gaps),
        "elapsed_s": elapsed,
        "cpu_s": user + system,
        "own_words": own_words(text),
    }, list(zip(found, errors))


def main():
    name, scratch, prefix = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    result, rows = judge(name, scratch)
    Path(prefix + ".json").write_text(json.dumps(result, indent=1) + "\n")
    with gzip.open(prefix + ".csv.gz", "wt") as file:
        file.write("slot,error_ns\n")
        file.writelines(f"{slot},{error}\n" for slot, error in rows)
    schedule = result["against_schedule"]
    print(
        f"  {name}: slope {result['slope_ppm']:.3f} ppm, p50 {schedule['p50_ns']} ns, p99 {schedule['p99_ns']} ns, "
        f"max {schedule['max_ns']} ns, bursts {result['bursts']}, sent {result['sent']}, observed {result['observed']}"
    )


main()
