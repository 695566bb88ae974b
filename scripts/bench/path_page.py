"""The part of a bench run's page that is about the path."""

import statistics

from targets import results, text, without

TOOLS = ("quaver", "iperf2", "iperf3", "sockperf", "irtt", "owping")
KINDS = {"quiet": "nobody", "elsewhere": "another server", "here": "the same server"}


def span(values, form="{:.2f}"):
    """Median of the rounds, and least and most."""
    values = [value for value in values if value is not None]
    if not values:
        return "not told"
    show = form.format
    middle = show(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({show(min(values))} to {show(max(values))})"


# How often each tool is loaded and paced, and how many blocks of each kind beside hostile connections.
ROUNDS, BLOCKS = 3, 6
PACED = ("quaver", "iperf2", "iperf3", "sockperf", "irtt")

LOAD = "200,000 packets/s of 80 octets for 10 s over loopback"
PACE = "Sending error p99 at 1 ms"
HOSTILE = "A thousand hostile connections and a running test"
PATH_TARGETS = {LOAD: "2,000,000 sent, nothing lost", PACE: "below all peers", HOSTILE: "no difference, nothing lost"}


def path(page, directory):
    page.expect(PATH_TARGETS)
    page.add("## Path: 200,000 packets a second of 80 octets over loopback, beside peers", "")
    page.add(
        "One tool at a time, alternating, client on CPU 0 and server on CPU 1, in a network namespace with nothing else.",
        "Sent and lost by that namespace's counters: lost is what was handed to the kernel and no program read. irtt",
        "echoes, so it has two packets a probe. CPU time of client and server, from start to end: with quaver also for the",
        "analysis, the run directory and the page. Median of the rounds (least to most).",
        "",
    )
    missing = text(directory / "missing.txt").splitlines()
    if missing:
        page.add(*(f"{line}." for line in sorted(set(missing))), "")
    load_part(page, directory)
    pace_part(page, directory)
    hostile_part(page, directory)


def load_part(page, directory):
    rows = []
    for tool in TOOLS:
        runs = results(directory, f"load-{tool}-*.json")
        if not runs:
            continue
        own = [run["own_words"] for run in runs]
        sending = [one["sending_cpu_ns_per_million"] / 1e9 for one in own if one.get("sending_cpu_ns_per_million")]
        rows.append(
            (
                tool,
                span([run["sent"] for run in runs], "{:.0f}"),
                span([run["lost"] for run in runs], "{:.0f}"),
                span([run["buffer_drops"] for run in runs], "{:.0f}"),
                span([one.get("sent") for one in own], "{:.0f}"),
                span([one.get("lost") for one in own], "{:.0f}"),
                span([run["client_cpu_s"] / run["sent"] * 1e6 for run in runs if run["sent"]]),
                span([run["server_cpu_s"] / run["sent"] * 1e6 for run in runs if run["sent"]]),
                span([run["cpu_s_per_million"] for run in runs]),
                span(sending) if sending else "",
            )
        )
    head = (
        "tool",
        "sent",
        "lost",
        "dropped at a full buffer",
        "sent, its words",
        "lost, its words",
        "CPU s a million, client",
        "server",
        "both",
        "sending thread alone",
    )
    page.table(head, rows)
    judge_load(page, results(directory, "load-quaver-*.json"))


def judge_load(page, runs):
    own = [run["own_words"] for run in runs]
    told = [one for one in own if one.get("sent") is not None and one.get("lost") is not None]
    if len(told) < max(ROUNDS, len(runs)):
        page.judge(LOAD, f"{len(told)} of {ROUNDS} rounds tell what was sent and lost", None)
        return
    # Beyond the test packets there are sentinels; of these some may come when the receiver has ended.
    beyond = [run["sent"] - one["sent"] for run, one in zip(runs, own)]
    lost = [max(run["lost"] - more, one["lost"]) for run, more, one in zip(runs, beyond, own)]
    sent = [one["sent"] for one in own]
    # A test of less than a tenth of the usual length is a trial of the script.
    page.judge(LOAD, f"{span(lost, '{:.0f}')} lost of {span(sent, '{:.0f}')} sent", min(sent) >= 1_990_000 and max(lost) == 0)


def pace_part(page, directory):
    rows, p99 = [], {}
    for tool in TOOLS:
        runs = results(directory, f"pace-{tool}-*.json")
        if not runs:
            continue
        errors = [run["against_schedule"] for run in runs]
        if len(errors) >= ROUNDS:
            p99[tool] = statistics.median(error["p99_ns"] for error in errors)
        us = lambda key: span([error[key] / 1e3 for error in errors])
        rows.append((tool, us("p50_ns"), us("p99_ns"), us("max_ns"), span([run["bursts"] for run in runs], "{:.0f}")))
    page.add("How well each keeps to one packet of 200 octets a millisecond, over a veth pair, by the kernel's stamps where", "they arrive (as in the part on the source); us:", "")
    page.table(("tool", "error p50", "p99", "max", "gaps < 0.25 ms"), rows)
    absent = [tool for tool in PACED if tool not in p99]
    if absent:
        page.judge(PACE, without(absent), None)
        return
    best = min((value, tool) for tool, value in p99.items() if tool != "quaver")
    found = f"{p99['quaver'] / 1e3:.2f} us; best peer {best[1]} {best[0] / 1e3:.2f} us"
    page.judge(PACE, found, p99["quaver"] < best[0])


def hostile_part(page, directory):
    page.add("A test of a packet a millisecond while a thousand hostile connections (stalled, garbage, half messages, each from", "an address of its own, opened again when closed) come to nobody, to another server, or to the same. The hostile", "program runs on the server's CPU and costs the same in the last two, so their difference is what the server", "lets a test feel. Median of the blocks (least to most); PDV in us:", "")
    rows, blocks = [], {}
    for kind, name in KINDS.items():
        ways = [run["up"] for run in results(directory, f"hostile-{kind}-*.json") if run.get("up")]
        if not ways:
            continue
        blocks[kind] = ways
        opened = [run["opened"] for run in results(directory, f"opened-{kind}-*.json")]
        pdv = lambda key: span([way["variation"]["pdv"][key] / 1e3 for way in ways])
        rows.append((name, len(ways), span(opened, "{:.0f}") if opened else "0", span([way["loss"]["packets"] for way in ways], "{:.0f}"), pdv("p50_ns"), pdv("p99_ns"), pdv("p99_9_ns"), pdv("max_ns")))
    page.table(("hostile to", "blocks", "connections opened", "lost", "p50", "p99", "p99.9", "max"), rows)
    judge_hostile(page, blocks)


def judge_hostile(page, blocks):
    absent = [KINDS[kind] for kind in KINDS if len(blocks.get(kind, [])) < BLOCKS]
    if absent:
        page.judge(HOSTILE, f"fewer than {BLOCKS} blocks hostile to {', '.join(absent)}", None)
        return
    p99 = {kind: [way["variation"]["pdv"]["p99_ns"] / 1e3 for way in ways] for kind, ways in blocks.items()}
    lost = sum(way["loss"]["packets"] for way in blocks["here"])
    found = f"PDV p99 {span(p99['here'])} us against {span(p99['elsewhere'])} us elsewhere; {lost} lost"
    # Not slower: the median is at most the third quartile of the other kind, which one bad block does not move.
    bar = statistics.quantiles(p99["elsewhere"], n=4, method="inclusive")[2]
    page.judge(HOSTILE, found, lost == 0 and statistics.median(p99["here"]) <= bar)
