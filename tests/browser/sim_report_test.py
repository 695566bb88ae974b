#!/usr/bin/env python3
"""Opens the report of a simulated run in a headless browser: its figures are those of the summary, every drawing is
there, nothing is on the console, nothing is asked of the network.

Usage: sim_report_test.py RUN [--pictures FOLDER]
RUN is the directory of a run of `quaver sim run`.
"""

import argparse
import json
import os
import pathlib
import sys

import report_test
from drawn_report_test import check_drawings, number, text
from report_test import check, check_quiet
from webdriver import Browser

SECTIONS = ("time", "threads", "cores", "caches", "path", "machine", "facts")


def check_tiles(browser, summary):
    chip = summary["chip"]
    tiles = dict(zip(text(browser, ".tile-name"), zip(text(browser, ".tile-value"), text(browser, ".tile-note"))))
    value, note = tiles["Instructions"]
    check("the page tells the instructions", number(value) == chip["instructions"], value)
    used, cores = chip["cores_used"], len(summary["cores"])
    check("the page tells the cores", note == f"on {used} of {cores} cores", note)
    check("the page tells the cycles", number(tiles["Simulated time"][1]) == chip["cycles"], tiles["Simulated time"])
    value = tiles["Cycles an instruction"][0]
    check("the page tells the CPI", abs(float(value) - chip["cpi"]) <= 0.01 * chip["cpi"], (value, chip["cpi"]))


def check_tables(browser, summary):
    used = [core for core in summary["cores"] if core["instructions"] > 0]
    for section, rows in (("threads", len(summary["threads"])), ("caches", len(summary["levels"]))):
        found = browser.run("return document.querySelectorAll(`#${arguments[0]} table tbody tr`).length", section)
        check(f"{section}: a row for each", found == rows, (found, rows))
    found = len(text(browser, "#cores table tbody tr"))
    check("cores: a row for each that ran", found >= len(used), (found, len(used)))
    shares = [float(words.strip("< %\u00a0\u202f")) for words in text(browser, "#time .stages td.number")]
    check("the parts of the time are all of it", len(shares) > 3 and abs(sum(shares) - 100) < 1, shares)
    path = text(browser, "#path .stages tbody tr")
    check("the critical path is told", len(path) > 1 and summary["critical_path"]["length_fs"] > 0, path)


def check_lanes(browser, summary):
    lanes = text(browser, "#threads svg title")
    missing = [thread["thread"] for thread in summary["threads"]
               if not any(f"thread {thread['thread']}" in lane for lane in lanes)]
    check("each thread has a lane", not missing, missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    run = pathlib.Path(arguments.run).resolve()
    url = (run / "report.html").as_uri()
    summary = json.loads((run / "summary.json").read_text())
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    with Browser() as browser:
        # What the browser's own start page asks for is not the report's doing.
        browser.open("about:blank")
        browser.log("performance")
        browser.open(url)
        sections = browser.run("return [...document.querySelectorAll('main section[id]')].map((one) => one.id)")
        check("every section is there", all(section in sections for section in SECTIONS), sections)
        check_tiles(browser, summary)
        check_tables(browser, summary)
        check_drawings(browser, 6)
        check_lanes(browser, summary)
        check_quiet(browser, url)
    report_test.check_views(url, arguments.pictures, "sim", scripts=False)
    failures = report_test.failures
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
