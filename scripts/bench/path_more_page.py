"""The parts of a bench run's page about long tests, skew through the relay, and RTP in."""

import json

from targets import result, without

LONG_TESTS = ("down", "stamp", "up")
# Shares of the packets at which path_long.py looks at memory.
MARKS = (0.1, 0.5, 0.9)
SEEDS = (1, 2, 3, 4)
SKEW = "Skew of 50 ppm through the relay, 60 s"


def grows(test):
    return f"Memory of a long test, {test}, from 10 % to 90 %"


LONG_TARGETS = {grows(test): "grows by less than 1 MiB" for test in LONG_TESTS}
SKEW_TARGETS = {SKEW: "within 1 ppm"}


def show(value, form="{:.2f}"):
    return "none" if value is None else form.format(value)


def level(vrx):
    return f"{vrx['max']} (mean {vrx['mean']:.2f}), {vrx['late']} late" if vrx else ""


def verdict(timing):
    kept = [v["sender"] for v in timing.get("verdicts", []) if v["network"] is not False and v["receiver"]]
    return ", ".join(kept) or ("none" if timing else "")


def path_long(page, directory):
    page.add("## Long tests: as many packets as 24 hours of a telephone call have", "")
    page.add("4,320,000 packets of 80 octets (50 a second for 24 hours) through tests that keep figures in place of packets,", "faster, so that it takes minutes: resident memory when a part of the packets had come, client and server, MiB.", "")
    page.expect(LONG_TARGETS)
    rows = []
    for test in LONG_TESTS:
        run = result(directory / f"{test}.json")
        if run is None:
            continue
        figures = [f"{way['direction']}: {way['unique']} of {way['unique'] + way['lost']}" for way in run["rolling"]]
        mib = lambda mark, end: f"{mark[end]['rss_kib'] / 1024:.1f} (most {mark[end]['most_kib'] / 1024:.1f})"
        for mark in run["marks"]:
            rows.append((test, f"{mark['packets']:,}", mib(mark, "client"), mib(mark, "server"), f"{run['seconds']:.0f} s", "; ".join(figures)))
        if tuple(mark["share"] for mark in run["marks"]) != MARKS:
            page.judge(grows(test), f"{len(run['marks'])} of {len(MARKS)} looks at memory", None)
            continue
        grown = {end: run["marks"][-1][end]["rss_kib"] - run["marks"][0][end]["rss_kib"] for end in ("client", "server")}
        page.judge(grows(test), ", ".join(f"{end} {by:+} KiB" for end, by in grown.items()), max(grown.values()) < 1024)
    page.table(("test", "packets so far", "client", "server", "took", "arrived"), rows)


def skew(page, directory):
    page.add("## Skew over real sockets", "")
    page.add("60 s of a packet each 20 ms through the relay: up the sender's clock gains 50 ppm, down it loses 50 ppm, and packets", "wait at a busy link (load 0.9, Pareto bursts of shape 1.5). Both clocks are this machine's, so the truth is what", "the relay wrote. The lower convex hull finds, in ppm:", "")
    page.expect(SKEW_TARGETS)
    rows, errors, absent = [], [], []
    for seed in SEEDS:
        run = result(directory / f"probe-{seed}.json")
        if run is None:
            absent.append(f"seed {seed}")
            continue
        row = [seed]
        for way, true in (("up", -50.0), ("down", 50.0)):
            line = run[way].get("skew")
            found = None if line is None else line["slope"] * 1e6
            error = None if found is None else found - true
            if error is None:
                absent.append(f"the slope of seed {seed}, {way}")
            else:
                errors.append(abs(error))
            queued = run[way]["variation"]["pdv"]
            row += [show(found, "{:+.3f}"), show(error, "{:+.3f}"), f"{queued['p50_ns'] / 1e6:.1f}", run[way]["loss"]["packets"]]
        rows.append(row)
    page.table(("seed", "up", "error", "PDV p50 (ms)", "lost", "down", "error", "PDV p50 (ms)", "lost"), rows)
    if absent:
        page.judge(SKEW, without(absent), None)
    else:
        page.judge(SKEW, f"worst error {max(errors):.3f} ppm of {len(errors)} flows", max(errors) <= 1.0)


def rtp(page, directory):
    page.add("## RTP into a sink that knows nothing of it", "")
    page.add("Profiles of our source at their real rate over loopback, leaving slots out when it was late, or catching up by bursts.", "J: interarrival jitter of RFC 3550, last, mean, largest, us. Media clock: Hz by the timestamps over the arrivals.", "")
    rows = []
    for path in sorted(directory.glob("*.json")):
        if path.stem.endswith("-source"):
            continue
        text = path.read_text()
        if not text.strip():
            rows.append((path.stem, "the sink found nothing"))
            continue
        found = json.loads(text).get("rtp") or {}
        if not found:
            rows.append((path.stem, "no RTP figures"))
            continue
        jitter, sequence, video = found["interarrival"], found["sequence"], found.get("video") or {}
        timing = video.get("observed") or {}
        sent = json.loads((directory / f"{path.stem}-source.json").read_text())
        rows.append((
            path.stem,
            f"{sent['packets_per_second']:.0f}/s, {sent['slots_missed']} left out",
            found["kind"],
            found["packets"],
            f"{sequence['lost']} / {sequence['duplicate']} / {sequence['reordered']}",
            show(found["clock"].get("measured_hz"), "{:.0f}"),
            " / ".join(f"{jitter[key] / 1e3:.2f}" for key in ("last_ns", "mean_ns", "max_ns")),
            "{}, {}p".format("/".join(map(str, video["frame_rate"])), video["height"]) if video.get("frame_rate") else "",
            f"{timing['c_inst']['max']} (mean {timing['c_inst']['mean']:.2f})" if timing else "",
            *(level(timing.get(schedule)) for schedule in ("gapped", "linear")),
            verdict(timing),
        ))
    page.table(("profile", "sent", "found to be", "packets", "lost / copies / reordered", "media clock", "J", "format", "C_INST", "VRX, gapped schedule", "VRX, linear", "may be"), rows)
