#!/usr/bin/env python3
"""Opens a report whose drawings were made beforehand in a headless browser: its figures are those of the summary, every
drawing is there, whole and in its place, nothing is on the console, nothing is asked of the network.

Usage: drawn_report_test.py KIND REPORT.html SUMMARY.json [--pictures FOLDER]
KIND is sweep or paper.
"""

import argparse
import os
import pathlib
import sys

import checks
import document_checks as documents
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
    documents.check_document(browser, ("points", "figures", "facts"))
    check("the page tells the points", number(tiles(browser)["Points"][0]) == len(points), tiles(browser))
    check("a row for each combination", documents.rows(browser, "#points") == len(combinations), documents.rows(browser, "#points"))
    drawn = documents.figures(browser, "figures")
    # Time and cycles are figures of every point.
    if len(axes) == 2:
        cells = browser.run("return document.querySelectorAll('#figures rect title').length")
        check("a map for each trace of each figure", len(drawn) >= 2 * len(traces) and len(drawn) % len(traces) == 0, drawn)
        check("a cell for each combination in each figure", cells * len(traces) == len(drawn) * len(combinations), (cells, drawn))
    elif len(axes) == 1:
        dots = text(browser, "#figures svg path title")
        check("the figures are drawn", len(drawn) >= 2, drawn)
        # Drawings in view have become ones that can be zoomed.
        still = browser.run("return [...document.querySelectorAll('#figures figure')].filter((one) => !one.querySelector('canvas')).length")
        check("a mark for each combination in each figure", 0 < len(dots) == still * len(combinations), (len(dots), still))
        named = [label for label in axes[0]["values"] if not any(dot.endswith(f" at {label}") for dot in dots)]
        check("marks say of which value they are", not named, (named, dots[:3]))
        best = browser.run("""
            const figure = document.querySelector('#figures figure');
            View.enliven(figure);
            const chart = View.charts.find((one) => one.figure === figure);
            return chart.data.series.map((one) => [one.name, one.marks, one.x.length, one.low.every((low, at) => low <= one.y[at] && one.y[at] <= one.high[at])])""")
        values = len(axes[0]["values"])
        check("each trace is a line with a band", [one for one in best] == [[trace, True, values, True] for trace in traces], best)
    else:
        check("nothing is drawn", not drawn, drawn)
    documents.check_drawings(browser, drawn)


def check_paper(browser, summary):
    documents.check_document(browser, ("claims", "table-6", "sizes", "classes", "grid", "power", "slips", "facts"))
    programs = [one["program"] for one in summary["programs"]]
    check("the page tells the programs", number(tiles(browser)["Programs"][0]) == len(programs), tiles(browser))
    judged = text(browser, "#claims tbody tr:not(:has(.remark)) td:last-child")
    check("claims are judged", {"holds", "fails", "not judged"} >= set(filter(None, judged)) and "holds" in judged, judged)
    laws = browser.run("""
        return [...document.querySelectorAll('#claims h3')].find((one) => one.textContent === 'Laws').nextElementSibling
            .querySelectorAll('tbody tr:not(:has(.remark)) td:last-child').values().map((one) => one.textContent).toArray()""")
    check("every law holds", len(laws) > 3 and set(laws) == {"holds"}, laws)
    bars = text(browser, "#grid-bars svg title")
    check("each program has a bar of each cure", all(sum(bar.startswith(program + ",") for bar in bars) == 4 for program in programs), bars)
    means = {one["program"]: one["arms"] for one in summary["programs"]}
    unified = {program: next(arm["slow_down_percent"]["mean"] for arm in arms if arm["arm"] == "unified") for program, arms in means.items()}
    said = {program: float(next(bar for bar in bars if bar.startswith(f"{program}, unified:")).split(": ")[1].split(" %")[0]) for program in programs}
    check("bars are as long as the slow-downs", all(abs(said[one] - unified[one]) <= 0.06 + 0.006 * abs(unified[one]) for one in programs), (said, unified))
    wanted = ["by-class", "grid-bars", "power-bars", "reactivity-bars", "alternatives-bars"]
    documents.check_drawings(browser, wanted + [f"frequency-{one}" for one in programs])


KINDS = {"sweep": check_sweep, "paper": check_paper}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("report")
    parser.add_argument("summary")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    url = pathlib.Path(arguments.report).resolve().as_uri()
    summary = checks.whole_summary(arguments.summary)
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    with Browser() as browser:
        # What the browser's own start page asks for is not the report's doing.
        browser.open("about:blank")
        browser.log("performance")
        browser.open(url)
        KINDS[arguments.kind](browser, summary)
        check_quiet(browser, url)
    # Pages without drawings that can be zoomed have no scripts.
    scripts = "<script" in pathlib.Path(arguments.report).read_text()
    report_test.check_views(url, arguments.pictures, arguments.kind, scripts=scripts)
    failures = report_test.failures
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
