#!/usr/bin/env python3
"""Opens the book in a headless browser from its folder, as a reader without a network does. The search finds a page and
leads to it, its pages fit a telephone, and nothing is asked for from elsewhere. usage: book_test.py FOLDER"""

import pathlib
import sys

import checks
from checks import check
from webdriver import Browser

RESULTS = """
const done = arguments[0], links = () => [...document.querySelectorAll('#mdbook-searchresults a')].map((link) => link.href);
const wait = (left) => links().length || left === 0 ? done(links()) : setTimeout(() => wait(left - 1), 50);
wait(200);
"""


def main():
    book = pathlib.Path(sys.argv[1]).resolve()
    with Browser(1280, 900) as browser:
        # What the browser's own start page asks for is not the page's doing.
        browser.open("about:blank")
        browser.log("performance")
        browser.open((book / "index.html").as_uri() + "?search=rt-throttle")
        found = browser.call("POST", "/execute/async", {"script": RESULTS, "args": []})
        check("the search finds pages", len(found) > 3, found)
        browser.open(found[0] if found else "about:blank")
        words = browser.run("return document.querySelector('main').textContent")
        check("a result leads to its words", "rt-throttle" in words)
        browser.devtools("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
        # Pages of bench runs and of commands are tables and code alone, as these have.
        pages = [page for page in sorted(book.glob("docs/**/*.html")) if page.parent.name != "reference"] + [book / "index.html"]
        for page in pages:
            browser.open(page.as_uri())
            over = browser.run("return document.documentElement.scrollWidth - innerWidth")
            if over > 0:
                check(f"{page.relative_to(book)} fits a telephone", False, over)
        check("there are pages", len(pages) > 40, len(pages))
        outside = [asked for asked in checks.requests(browser) if not asked.startswith(("file://", "data:"))]
        check("nothing is asked for from elsewhere", not outside, outside)
        errors = [entry["message"] for entry in browser.log("browser") if entry["level"] == "SEVERE"]
        check("no error on the console", not errors, errors)
    print(f"{len(checks.failures)} failed" if checks.failures else "all passed")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
