"""The part of a bench run's page about questions in SQL."""

import re

from targets import result, text

GROUPED = ("by-run", "by-host-and-cpu", "by-kernel", "by-microsecond", "late-by-cause-and-hour")
PACKETS = 1_000_000_000
# Of all packets, and what a question may take.
SECONDS, GIB = 60, 2


def seconds(name):
    return f"{name}: time over 10⁹ packets"


def memory(name):
    return f"{name}: memory over 10⁹ packets"


PRUNED = "one run: files that are read"
QUERY_TARGETS = {
    **{seconds(name): f"≤ {SECONDS} s" for name in GROUPED},
    **{memory(name): f"≤ {GIB} GiB" for name in GROUPED},
    PRUNED: "1",
}


def packets_of(directory):
    """Packets that the question by run counted."""
    rows = text(directory / "by-run.csv").splitlines()[1:]
    return sum(int(row.split(",")[1]) for row in rows)


def query(page, directory):
    page.expect(QUERY_TARGETS)
    packets = packets_of(directory)
    page.add("## Questions in SQL", "", "`quaver query` over runs that `scripts/bench/query_runs.py` made. Memory is the largest resident set of the")
    page.add("program and of DuckDB. The page cache is as it was: the files had just been written.", "")
    size = text(directory / "bytes.txt").strip()
    page.add(f"{packets:,} packets in {size} bytes, {text(directory / 'versions.txt').strip()}.", "")
    rows = []
    for name in (*GROUPED, "one-run", "one-moment"):
        took = result(directory / f"{name}.json")
        if took is None:
            continue
        answers = max(0, len(text(directory / f"{name}.csv").splitlines()) - 1)
        gib = took["largest_kib"] / 2**20
        rows.append((name, f"{took['elapsed_s']:.1f} s", f"{took['user_s'] + took['system_s']:.1f} s", f"{gib:.2f} GiB", "" if name == "one-run" else answers))
        if name in GROUPED and answers and packets >= PACKETS:
            page.judge(seconds(name), f"{took['elapsed_s']:.1f} s", took["elapsed_s"] <= SECONDS)
            page.judge(memory(name), f"{gib:.2f} GiB", gib <= GIB)
    page.table(("question", "time", "CPU time", "memory", "rows"), rows)
    read = re.search(r"Scanning Files: (\d+)/(\d+)", text(directory / "one-run.csv"))
    if read:
        page.judge(PRUNED, f"{read[1]} of {read[2]}", read[1] == "1" and int(read[2]) > 1)
