#!/usr/bin/env python3
"""Opens a report whose drawings were made beforehand in a headless browser: its figures are those of the summary, every
drawing is there, whole and in its place, nothing is on the console, nothing is asked of the network.

Usage: drawn_report_test.py KIND REPORT.html SUMMARY.json [--pictures FOLDER]
KIND is sweep or paper.
"""

import argparse
import json
import os
import pathlib
import sys

import report_test
from report_test import check, check_quiet
from webdriver import Browser


def text(browser, selector):
    """The words of each element."""
    return browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent.trim())", selector)


def rows(browser, selector):
    """Rows of the bodies of tables."""
    return browser.run("return document.querySelectorAll(arguments[0] + ' tbody tr').length", selector)


def number(words):
    return int("".join(digit for digit in words if digit.isdigit()))


def check_drawings(browser, least):
    drawn = browser.run("""
        return [...document.querySelectorAll('main svg')].map((svg) => {
            const box = svg.getBoundingClientRect(), room = svg.closest('figure, .timeline, section').getBoundingClientRect();
            const out = [...svg.querySelectorAll('text')].filter((one) => {
                const of = one.getBoundingClientRect();
                return of.left < box.left - 1 || of.right > box.right + 1 || of.top < box.top - 1 || of.bottom > box.bottom + 1;
            }).map((one) => one.textContent);
            const shapes = svg.querySelectorAll('rect, path, line, polyline').length;
            return [box.width, box.height, shapes, box.right <= room.right + 1, out];
        });""")
    check("every drawing is there", len(drawn) >= least, (len(drawn), least))
    check("no drawing is empty", all(width > 100 and height > 20 and shapes > 1 for width, height, shapes, _, _ in drawn), drawn)
    check("no drawing is cut off", all(whole for *_, whole, _ in drawn), drawn)
    check("no words are cut off", not any(out for *_, out in drawn), [out for *_, out in drawn if out])
    wrong = browser.run(r"return [...document.querySelectorAll('main svg')].filter((svg) => /NaN|Infinity|undefined/.test(svg.outerHTML)).length")
    check("no drawing has a place that is no number", wrong == 0, wrong)


def check_structure(browser, sections):
    found = browser.run("return [...document.querySelectorAll('main section[id]')].map((one) => one.id)")
    check("every section is there", all(section in found for section in sections), found)
    links = browser.run("return [...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href').slice(1))")
    check("every link has its section, and no section is empty", set(links) <= set(found), (links, found))
    empty = browser.run("""
        return [...document.querySelectorAll('main section[id]')].filter((one) =>
            !one.querySelector('tbody tr, svg, li')).map((one) => one.id)""")
    check("no section is empty", not empty, empty)
    uneven = browser.run("""
        return [...document.querySelectorAll('main table')].filter((table) => table.tHead &&
            [...table.tBodies[0].rows].some((row) => row.cells.length !== table.tHead.rows[0].cells.length)).length""")
    check("every row has a cell for each head", uneven == 0, uneven)
    keys = browser.run("""
        return [...document.querySelectorAll('.keys')].map((key) =>
            [...key.querySelectorAll('i')].map((one) => getComputedStyle(one).backgroundColor + one.style.height))""")
    check("no two things of a key have one colour", all(len(key) == len(set(key)) for key in keys), keys)
    check("nothing is said of scripts", browser.run("return document.querySelectorAll('noscript, script').length") == 0)


def tiles(browser):
    return dict(zip(text(browser, ".tile-name"), zip(text(browser, ".tile-value"), text(browser, ".tile-note"))))


def check_sweep(browser, summary):
    axes, traces, points = summary["axes"], summary["traces"], summary["points"]
    combinations = {(point["trace"], tuple(point["values"])) for point in points}
    check_structure(browser, ("figures", "points", "facts") if len(axes) in (1, 2) else ("points", "facts"))
    check("the page tells the points", number(tiles(browser)["Points"][0]) == len(points), tiles(browser))
    check("a row for each combination", rows(browser, "#points") == len(combinations), rows(browser, "#points"))
    # Time and cycles are figures of every point.
    figures = len(text(browser, "#figures h3"))
    check("the figures are drawn", figures >= 2 or len(axes) not in (1, 2), figures)
    if len(axes) == 2:
        cells = browser.run("return document.querySelectorAll('.cell').length")
        check("a cell for each combination in each figure", cells == figures * len(combinations), (cells, figures))
        check_drawings(browser, figures * len(traces))
    elif len(axes) == 1:
        dots = browser.run("return document.querySelectorAll('#figures circle').length")
        check("a dot for each combination in each figure", 0 < dots <= figures * len(combinations), (dots, figures))
        check_drawings(browser, figures)


def check_paper(browser, summary):
    check_structure(browser, ("claims", "table-6", "sizes", "classes", "grid", "power", "slips", "facts"))
    programs = [one["program"] for one in summary["programs"]]
    check("the page tells the programs", number(tiles(browser)["Programs"][0]) == len(programs), tiles(browser))
    judged = text(browser, "#claims tbody tr td:last-child")
    check("statements are judged", {"holds", "does not hold"} >= set(filter(None, judged)) and "holds" in judged, judged)
    broken = browser.run("""
        return [...document.querySelectorAll('#claims h3')].find((one) => one.textContent === 'Laws')
            .nextElementSibling.querySelectorAll('tbody tr td:last-child').values().filter((one) => one.textContent !== 'holds').toArray().length""")
    check("every law holds", broken == 0, broken)
    bars = text(browser, "#grid svg title")
    check("each program has a bar", all(any(bar.startswith(program + ",") for bar in bars) for program in programs), bars)
    check_drawings(browser, 4)


KINDS = {"sweep": check_sweep, "paper": check_paper}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("report")
    parser.add_argument("summary")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    url = pathlib.Path(arguments.report).resolve().as_uri()
    summary = json.loads(pathlib.Path(arguments.summary).read_text())
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    with Browser() as browser:
        # What the browser's own start page asks for is not the report's doing.
        browser.open("about:blank")
        browser.log("performance")
        browser.open(url)
        KINDS[arguments.kind](browser, summary)
        check_quiet(browser, url)
    report_test.check_views(url, arguments.pictures, arguments.kind, scripts=False)
    failures = report_test.failures
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
