#!/usr/bin/env python3
"""Opens the page of a simulated run in a headless browser: its figures are those of the summary, every drawing is there and
can be zoomed, nothing is on the console, nothing is asked of the network.

Usage: sim_report_test.py RUN [--pictures FOLDER]
RUN is the directory of a run of `quaver sim run`.
"""

import argparse
import os
import pathlib
import sys

import checks
import report_test
from document_checks import check_document, check_drawings, number, rows, text, tiles
from report_test import check, check_quiet
from webdriver import Browser

SECTIONS = ("time", "cores", "caches", "threads", "path", "machine", "facts")
DRAWINGS = ("core-time", "cpi", "l1-data", "l1-instructions", "traffic", "threads-over-time")


def check_tiles(browser, summary):
    chip, found = summary["chip"], tiles(browser)
    value, note = found["Instructions"]
    check("the page tells the instructions", number(value) == chip["instructions"], value)
    used, cores = chip["cores_used"], len(summary["cores"])
    check("the page tells the cores", note == f"on {used} of {cores} cores", note)
    check("the page tells the cycles", number(found["Simulated time"][1]) == chip["cycles"], found["Simulated time"])
    value = found["CPI"][0]
    check("the page tells the CPI", abs(float(value) - chip["cpi"]) <= 0.01 * chip["cpi"], (value, chip["cpi"]))


def check_tables(browser, summary):
    used = [core for core in summary["cores"] if core["instructions"] > 0]
    # The longest waits have a table of their own before that of the threads.
    found = browser.run("return [...document.querySelectorAll('#threads table')].at(-1).querySelectorAll('tbody tr').length")
    check("a row for each thread", found == len(summary["threads"]), found)
    found = rows(browser, "#caches")
    check("a row for each level", found == len(summary["levels"]), found)
    found = len([row for row in text(browser, "#cores tbody th") if row.isdigit()])
    check("a row for each core that ran", found == len(used), (found, len(used)))
    shares = [float(words.strip("<> %\u00a0\u202f")) for words in text(browser, "#time tbody td.number")]
    there = [part for part in summary["time"] if part["time_fs"] > 0]
    check("the parts of the time are all of it", len(shares) == len(there) and abs(sum(shares) - 100) < 1, shares)
    found = rows(browser, "#path")
    parts = [part for part in summary["critical_path"]["parts"] if part["time_fs"] > 0]
    check("every part of the critical path has a row", found == len(parts) > 0, (found, len(parts)))


def check_bars(browser, summary):
    """Each core has a bar in the drawings, whose parts together are its CPI."""
    for core in [core for core in summary["cores"] if core["instructions"] > 0]:
        found = text(browser, "#cpi title")
        own = [float(words.rsplit(": ", 1)[1].strip("< ")) for words in found if words.startswith(f"core {core['core']},")]
        check(f"the parts of core {core['core']} are its CPI", abs(sum(own) - core["cpi"]) < 0.01 * (len(own) + 1), (own, core["cpi"]))


def check_lanes(browser, summary):
    lanes = text(browser, "#threads-over-time svg text")
    missing = [thread["thread"] for thread in summary["threads"] if f"thread {thread['thread']}" not in lanes]
    check("each thread has a lane", not missing, missing)
    arrows = browser.run("return document.querySelectorAll('#threads-over-time svg .arrow').length")
    waits = browser.run("return document.querySelector('#threads .long, #threads .scroll').querySelectorAll('tbody tr').length")
    # An arrow is a line with a head: two paths by the script, three where it stands still.
    check("arrows are those of the longest waits", waits > 0 and arrows in (2 * waits, 3 * waits), (arrows, waits))


def check_zoom(browser):
    lane = "const chart = View.charts.find((one) => one.figure.id === 'threads-over-time'); "
    browser.run("View.enliven(document.getElementById('threads-over-time'))")
    whole = browser.run(lane + "return chart.range()")
    browser.run("document.querySelector('#threads-over-time [aria-label=\"Zoom in\"]').click()")
    near = browser.run(lane + "return chart.range()")
    check("the lanes can be zoomed", 0.2 < (near[1] - near[0]) / (whole[1] - whole[0]) < 0.3, (whole, near))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    run = pathlib.Path(arguments.run).resolve()
    url = (run / "report.html").as_uri()
    summary = checks.whole_summary(run / "summary.json")
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    with Browser() as browser:
        # What the browser's own start page asks for is not the page's doing.
        browser.open("about:blank")
        browser.log("performance")
        browser.open(url)
        check_document(browser, SECTIONS)
        check_tiles(browser, summary)
        check_tables(browser, summary)
        check_bars(browser, summary)
        check_drawings(browser, DRAWINGS)
        check_lanes(browser, summary)
        check_zoom(browser)
        check_quiet(browser, url)
    report_test.check_views(url, arguments.pictures, "sim")
    failures = report_test.failures
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
