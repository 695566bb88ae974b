#!/usr/bin/env python3
"""Opens a page in a headless browser and holds it to what every page owes: each section has something in it, each link
leads somewhere, each drawing is there, nothing is cut off or wider than the view, no number is missing its value,
nothing is on the console, nothing is asked of the network. KIND adds what the page must show of its summary.

Usage: document_test.py KIND PAGE.html [SUMMARY.json] [--pictures FOLDER]
"""

import argparse
import os
import pathlib
import sys

import checks
import report_test
from report_test import check, check_quiet
from view_test import check_fit, enliven
from webdriver import Browser


def rows(browser, selector):
    """Rows of the bodies of tables."""
    return browser.run("return document.querySelectorAll(arguments[0] + ' tbody tr').length", selector)


def tile(browser, name):
    """The number on a tile, without what separates thousands."""
    value = browser.run("""
        const tile = [...document.querySelectorAll('.tile')].find((one) => one.querySelector('.tile-name').textContent === arguments[0]);
        return tile && tile.querySelector('.tile-value').textContent""", name)
    return value and value.replace(",", "")


def check_sections(browser, wanted):
    found = browser.run("return [...document.querySelectorAll('main section[id]')].map((one) => one.id)")
    check("every section is there", all(section in found for section in wanted), (wanted, found))
    links = browser.run("return [...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href').slice(1))")
    check("every link leads to a section", set(links) <= set(found), (links, found))
    empty = browser.run("""
        return [...document.querySelectorAll('main section[id]')].filter((one) =>
            !one.querySelector('tbody tr, svg, canvas, li, p, pre')).map((one) => one.id)""")
    check("no section is empty", not empty, empty)


def check_tables(browser):
    uneven = browser.run("""
        const width = (row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
        return [...document.querySelectorAll('main table')].filter((table) => table.tHead &&
            [...table.tBodies].some((body) => [...body.rows].some((row) => width(row) !== width(table.tHead.rows[0]))))
            .map((table) => table.textContent.slice(0, 80))""")
    check("every row has a cell for each column", not uneven, uneven)


def check_drawings(browser, least):
    """Every drawing in view is there, at least so many of them, and no place or word of it is not a number."""
    enliven(browser)
    drawn = browser.run("""
        return [...document.querySelectorAll('figure')].filter((one) => !one.hidden).map((one) => {
            const of = one.querySelector('.drawing').firstElementChild, box = of ? of.getBoundingClientRect() : { width: 0, height: 0 };
            return [one.id, box.width, box.height, /NaN|Infinity|undefined/.test(one.outerHTML)];
        })""")
    check("the drawings are there", len(drawn) >= least, (least, drawn))
    check("no drawing is empty", all(width > 100 and height > 40 for _, width, height, _ in drawn), drawn)
    check("no drawing has a place that is no number", not any(wrong for *_, wrong in drawn), drawn)


def check_noise(browser, summary):
    check_sections(browser, ("cpus", "distribution", "time"))
    gaps = sum(cpu["gaps"] for cpu in summary["cpus"])
    check("the page tells the gaps", tile(browser, "Gaps") == str(gaps), (tile(browser, "Gaps"), gaps))
    found = rows(browser, "#cpus")
    check("a row for each CPU", found >= len(summary["cpus"]), (found, len(summary["cpus"])))


def check_what_if(browser, summary):
    check_sections(browser, ("model", "curve", "power", "thread", "threads", "frames"))
    found = rows(browser, "#threads")
    check("a row for each thread", found == len(summary["threads"]), (found, len(summary["threads"])))
    limits = len(summary["curves"][0]["points"])
    heads = browser.run("return document.querySelector('#curve table').tHead.rows[0].cells.length")
    check("a column for each limit", heads == 1 + limits, (heads, limits))
    subframes = summary["program"]["subframes"]
    check("the page tells the subframes", tile(browser, "Subframes") == str(subframes), (tile(browser, "Subframes"), subframes))
    found = rows(browser, "#frames")
    check("a row for each controller and limit of frames", found == 1 + len(summary["frames"]["with"]), found)


def check_example(browser, summary):
    check_sections(browser, ("frames",))
    found = rows(browser, "#frames")
    check("a row for each controller and limit of frames", found == 1 + len(summary["frames"]["with"]), found)
    check("nothing is drawn", browser.run("return document.querySelectorAll('figure').length") == 0)


def check_sync(browser, summary):
    check_sections(browser, ("classes", "threads"))
    threads = summary["results"]["threads"]
    found = rows(browser, "#threads")
    check("a row for each thread", found >= len(threads), (found, len(threads)))


# What a kind's page shows of its summary, and how many drawings it has at least.
KINDS = {"noise": (check_noise, 2), "what-if": (check_what_if, 3), "example": (check_example, 0), "sync": (check_sync, 1)}
VIEWS = ((1200, False), (400, False), (2000, True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("page")
    parser.add_argument("summary")
    parser.add_argument("--pictures")
    options = parser.parse_args()
    url = pathlib.Path(options.page).resolve().as_uri()
    summary = checks.whole_summary(options.summary)
    check_kind, drawings = KINDS[options.kind]
    for width, dark in VIEWS:
        with Browser(width, 900, dark) as browser:
            # What the browser's own start page asks for is not the page's doing.
            browser.open("about:blank")
            browser.log("performance")
            # A window cannot be as narrow as a telephone.
            browser.devtools("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
            browser.open(url)
            check("the scripts ran", not drawings or browser.run("return document.documentElement.dataset.ready") == "yes")
            check_kind(browser, summary)
            check_tables(browser)
            check_drawings(browser, drawings)
            check_fit(browser, width)
            check_quiet(browser, url)
            if options.pictures:
                os.makedirs(options.pictures, exist_ok=True)
                browser.picture(os.path.join(options.pictures, f"{options.kind}-{width}.png"))
    failures = report_test.failures
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
