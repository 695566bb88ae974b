"""The part of a bench run's page about sources."""

import statistics

from chase_page import span
from targets import results, text, without

PEERS = ("iperf2", "sockperf", "irtt")
OURS = ("quaver-spin", "quaver-hybrid")
TITLES = {"quaver-spin": "quaver source, spin", "quaver-hybrid": "quaver source, hybrid", "irtt": "irtt, busy"}
# Rounds of each sender, and the length of the runs of which the slope is judged, seconds.
ROUNDS, LONG_S = 3, 60


def beside(ours, peer):
    return f"{TITLES[ours]}: error p99 beside {peer}"


def gaps(ours):
    return f"{TITLES[ours]}: gaps under 0.25 ms"


def catch_up(ours):
    return f"{TITLES[ours]}: no burst to catch up, three packets or more"


def slope_over(pace):
    return f"Slope over {LONG_S} s, {pace}"


SOURCE_TARGETS = {
    **{beside(ours, peer): "at or below" for ours in OURS for peer in PEERS},
    **{what(ours): "0" for ours in OURS for what in (gaps, catch_up)},
    **{slope_over(pace): "within 1 ppm" for pace in ("spin", "hybrid")},
}


def us(values_ns):
    return span([value / 1e3 for value in values_ns])


def source(page, directory):
    page.expect(SOURCE_TARGETS)
    page.add("## Source: a packet a millisecond, beside peers", "")
    page.add(
        "One sender at a time, alternating, on CPU 0 at normal priority, over a veth pair; stamps by the kernel at the",
        "receiving interface (taken before the stack delivers the packet), written by tcpdump on CPU 1. Error: against a",
        "schedule of exactly 1 ms whose phase is the median. Median of the rounds (least to most). A wait or a stop of",
        "the sender's CPU by the hypervisor or the kernel is in everybody's figures. One gap under 0.25 ms is a late",
        "packet before one on time; two or more in a row are a burst that catches up.",
        "",
    )
    by_sender = {name: results(directory, f"{name}-*.json") for name in OURS + PEERS}
    by_sender = {name: rounds for name, rounds in by_sender.items() if rounds}
    rows = []
    for name, rounds in by_sender.items():
        errors = lambda key: us([one["against_schedule"][key] for one in rounds])
        rows.append(
            (
                TITLES.get(name, name),
                len(rounds),
                span([one["slope_ppm"] for one in rounds], "{:.3f}"),
                *(errors(key) for key in ("p50_ns", "p99_ns", "p99_9_ns", "max_ns")),
                span([one["bursts"] for one in rounds], "{:.0f}"),
                span([one["longest_burst"] for one in rounds], "{:.0f}"),
                span([one["slots_skipped"] for one in rounds], "{:.0f}"),
                span([lost(one) for one in rounds], "{:.0f}"),
                span([100 * one["cpu_s"] / one["elapsed_s"] for one in rounds], "{:.0f}"),
            )
        )
    page.table(("sender", "rounds", "slope (ppm)", "error p50 (us)", "p99 (us)", "p99.9 (us)", "max (us)", "gaps < 0.25 ms", "most packets in a row so", "slots skipped", "sent, not observed", "CPU (%)"), rows)
    page.add("The same against each sender's own fitted line, in us, which forgives a wrong rate:", "")
    own = lambda rounds, key: us([one["against_own_line"][key] for one in rounds])
    rows = [(TITLES.get(name, name), *(own(rounds, key) for key in ("p50_ns", "p99_ns", "max_ns"))) for name, rounds in by_sender.items()]
    page.table(("sender", "p50", "p99", "max"), rows)
    missing = text(directory / "missing.txt").splitlines()
    if missing:
        page.add("Not measured: " + "; ".join(sorted(set(missing))) + ".", "")
    beside_peers(page, by_sender)
    slope(page, directory)


def lost(one):
    """Packets that the sender counts but the observer did not see; handshakes count for the sender alone."""
    return one["sent"] - one["observed"] if one["sent"] is not None else 0


def beside_peers(page, by_sender):
    """A sender is judged when it went all its rounds, and beside a peer that did."""
    p99 = {name: statistics.median([one["against_schedule"]["p99_ns"] for one in rounds]) for name, rounds in by_sender.items() if len(rounds) >= ROUNDS}
    for ours in OURS:
        for peer in PEERS:
            absent = [TITLES.get(name, name) for name in (ours, peer) if name not in p99]
            if absent:
                page.judge(beside(ours, peer), without(absent), None)
                continue
            found = f"{p99[ours] / 1e3:.2f} us beside {p99[peer] / 1e3:.2f} us, ratio {p99[ours] / p99[peer]:.3f}"
            page.judge(beside(ours, peer), found, p99[ours] <= p99[peer])
        if ours not in p99:
            continue
        rounds = by_sender[ours]
        judged = sum(one["judged"] for one in rounds)
        longest = max(one["longest_gap_ns"] for one in rounds) / 1e6
        bursts = sum(one["bursts"] for one in rounds)
        page.judge(gaps(ours), f"{bursts} of {judged} (longest gap {longest:.2f} ms)", bursts == 0 if judged else None)
        packets = max(one["longest_burst"] for one in rounds)
        page.judge(catch_up(ours), f"at most {packets} packets in a row with such gaps", packets < 3 if judged else None)


def slope(page, directory):
    page.add("The slope over a long run, by the observer's stamps and by the source's own:", "")
    rows = []
    for pace in ("spin", "hybrid"):
        for one in results(directory, f"slope-{pace}-1.json"):
            said, errors = one["own_words"] or {}, one["against_schedule"]
            drift = said.get("drift_ppm")
            rows.append((pace, f"{one['elapsed_s']:.0f} s", f"{one['slope_ppm']:.4f}", "none" if drift is None else f"{drift:.4f}", *(f"{errors[key] / 1e3:.2f}" for key in ("p50_ns", "p99_ns", "max_ns")), one["bursts"], said.get("slots_missed"), lost(one)))
            long_enough = one["elapsed_s"] >= LONG_S
            found = f"{one['slope_ppm']:.4f} ppm" if long_enough else f"only {one['elapsed_s']:.0f} s"
            page.judge(slope_over(pace), found, abs(one["slope_ppm"]) <= 1 if long_enough else None)
    page.table(("pace", "length", "slope (ppm)", "own drift (ppm)", "error p50 (us)", "p99 (us)", "max (us)", "gaps < 0.25 ms", "slots missed", "sent, not observed"), rows)
