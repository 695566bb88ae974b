#!/usr/bin/env python3
"""Opens the gallery of quaver-view in a headless browser: every drawing can be zoomed, chosen and read, scripts write
numbers as the terminal does, nothing is on the console, nothing is asked of the network.

Usage: view_test.py GALLERY.html [--pictures FOLDER]
"""

import argparse
import os
import pathlib
import sys

from checks import chart, check, check_quiet, enliven, failures
from webdriver import Browser

# What cell.rs and ticks.rs write; their tests hold the same vectors.
CELLS = [
    ("duration", 0, "0 ns"), ("duration", 812, "812 ns"), ("duration", 12.34, "12.3 ns"), ("duration", 7410, "7.41 µs"),
    ("duration", 99949, "99.9 µs"), ("duration", 99960, "100 µs"), ("duration", 999600, "1.00 ms"),
    ("duration", -2000000000, "-2.00 s"), ("instant", 3217412400, "3.217412 s"), ("count", 1349527, "1,349,527"),
    ("share", 0, "0 %"), ("share", 0.000001, "< 0.01 %"), ("share", 0.0009, "0.09 %"), ("share", 0.612, "61.2 %"),
    ("share", 0.9999999, "> 99.99 %"), ("share", 1, "100 %"), ("bytes", 999, "999 B"), ("bytes", 1500, "1.50 kB"),
    ("number", 0.001, "< 0.01"), ("number", -0.5, "-0.50"), ("number", 1204.2, "1,204"),
]
TICKS = [
    ("instant", False, 0, 10e9, 6, ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]),
    ("instant", False, 1.0e9, 1.02e9, 5, ["1.000 s", "1.005 s", "1.010 s", "1.015 s", "1.020 s"]),
    ("duration", False, -500, 1500, 5, ["-500 ns", "0 ns", "500 ns", "1 µs", "1.5 µs"]),
    ("share", False, 0, 1, 5, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
    ("count", False, 0, 12000, 4, ["0", "5 k", "10 k"]),
    ("number", False, 0, 0.6, 3, ["0", "0.2", "0.4", "0.6"]),
    ("duration", True, 900, 110000, 8, ["1 µs", "2 µs", "5 µs", "10 µs", "20 µs", "50 µs", "100 µs"]),
    ("count", True, 1, 1e6, 8, ["1", "10", "100", "1 k", "10 k", "100 k", "1 M"]),
    ("share", True, 1e-6, 1, 4, ["0.0001 %", "0.01 %", "1 %", "100 %"]),
    ("duration", True, 3200, 4100, 6, ["3.5 µs", "4 µs"]),
]


def check_numbers(browser):
    for quantity, value, wanted in CELLS:
        found = browser.run("return View.cell(...arguments)", quantity, value)
        check(f"scripts write {wanted}", found == wanted, found)
    for quantity, log, low, high, most, wanted in TICKS:
        found = browser.run("""
            const [quantity, log, low, high, most] = arguments, values = View.ticks({ log }, low, high, most);
            return values.map((value) => View.tick(quantity, value, values[1] - values[0]))""", quantity, log, low, high, most)
        check(f"an axis has {wanted[0]} to {wanted[-1]}", found == wanted, found)


def check_zoom(browser):
    whole = chart(browser, "time-application", "return chart.range()")
    browser.run("document.querySelector('#time-application [aria-label=\"Zoom in\"]').click()")
    near = chart(browser, "time-application", "return chart.range()")
    check("a button zooms in", 0.2 < (near[1] - near[0]) / (whole[1] - whole[0]) < 0.3, (whole, near))
    state = browser.run("return document.querySelector('#time-application .state').textContent")
    check("what is shown is told", "Shown: 3.750000 s to 6.250000 s." in state, state)
    for key, wanted in (("ArrowLeft", 3.125e9), ("0", whole[0])):
        chart(browser, "time-application", "chart.pane.dispatchEvent(new KeyboardEvent('keydown', { key: arguments[1] }))", key)
        found = chart(browser, "time-application", "return chart.range()[0]")
        check(f"the key {key} works", abs(found - wanted) < 1e6, (found, wanted))
    box = chart(browser, "time-application", "chart.pane.scrollIntoView({ block: 'center' }); const box = chart.plot.over.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]")
    left, top, width, height = box
    browser.drag(left + width * 0.2, left + width * 0.4, top + height / 2)
    found = chart(browser, "time-application", "return chart.range()")
    check("dragging zooms", abs(found[0] - 2e9) < 5e7 and abs(found[1] - 4e9) < 5e7, found)
    tip = chart(browser, "time-application", """
        const box = chart.plot.over.getBoundingClientRect();
        chart.plot.over.dispatchEvent(new MouseEvent('mousemove', { clientX: box.left + box.width / 2, clientY: box.bottom - 3, bubbles: true }));
        return document.getElementById('tip').textContent""")
    check("the pointer tells values", tip.startswith(("2.99", "3.00")) and "s\napplication: " in tip and "µs to " in tip, tip)
    chart(browser, "time-application", "chart.all()")


def check_series(browser):
    pixels = """
        const { canvas } = chart.plot.ctx, copy = Object.assign(document.createElement('canvas'), { width: canvas.width, height: canvas.height });
        const ctx = copy.getContext('2d', { willReadFrequently: true });
        ctx.drawImage(canvas, 0, 0);
        const { data } = ctx.getImageData(0, 0, copy.width, copy.height);
        let ink = 0;
        for (let at = 3; at < data.length; at += 4) ink += data[at] > 200;
        return ink"""
    before = chart(browser, "time-application", pixels)
    browser.run("document.querySelector('#time-application .legend button').click()")
    check("a click on the legend hides a series", chart(browser, "time-application", pixels) < before / 2)
    pressed = browser.run("return document.querySelector('#time-application .legend button').getAttribute('aria-pressed')")
    check("the legend tells so", pressed == "false", pressed)
    browser.run("document.querySelector('#time-application .legend button').click()")
    check("and shows it again", chart(browser, "time-application", pixels) == before)
    browser.run("const box = document.querySelector('#time-application input[type=checkbox]'); box.click()")
    check("the scale can be linear", chart(browser, "time-application", "return chart.plot.scales.y.distr") == 1)


def check_distribution(browser):
    chart(browser, "histogram", "chart.show(5000, 50000)")
    check("charts of one name move together", chart(browser, "tail", "return chart.range()") == [5000, 50000])
    browser.run("const choice = document.querySelector('#tail select'); choice.value = 'cdf'; choice.dispatchEvent(new Event('change'))")
    check("tail and CDF are chosen", chart(browser, "tail", "return [chart.view, chart.plot.scales.y.distr]") == ["cdf", 1])
    check("the range is kept", chart(browser, "tail", "return chart.range()") == [5000, 50000])


def check_choice(browser):
    shown = "return [...document.querySelectorAll('#worst figure')].filter((one) => !one.hidden).map((one) => one.id)"
    check("one of several is shown", browser.run(shown) == ["worst-481203"], browser.run(shown))
    browser.run("[...document.querySelectorAll('#worst .buttons button')].find((one) => one.textContent === 'Next').click()")
    check("the next one is shown", browser.run(shown) == ["worst-481777"], browser.run(shown))
    check("the list follows", browser.run("return document.querySelector('#worst select').value") == "1")
    spans = "return document.querySelectorAll('#worst-481777 .span').length"
    before = browser.run(spans)
    chart(browser, "worst-481777", "chart.show(60000, 80000)")
    check("a timeline can be zoomed", 0 < browser.run(spans) < before, before)
    browser.run("document.querySelector('#worst-481777 .span').dispatchEvent(new MouseEvent('mousemove', { clientX: 200, clientY: 200, bubbles: true }))")
    check("its intervals have words", browser.run("return document.getElementById('tip').textContent.length") > 3)


def check_fit(browser, width):
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    check(f"nothing is wider than {width} px", wide[0] <= wide[1], wide)
    out = browser.run("""
        return [...document.querySelectorAll('.drawing > svg')].flatMap((svg) => {
            const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter((one) => {
                const of = one.getBoundingClientRect();
                return of.width > 0 && (of.left < box.left - 1 || of.right > box.right + 1 || of.bottom > box.bottom + 1);
            }).map((one) => one.textContent);
        })""")
    check("no words are cut off", not out, out)
    met = browser.run("""
        const apart = (one, other) => one.right < other.left || other.right < one.left || one.bottom < other.top + 2 || other.bottom < one.top + 2;
        return [...document.querySelectorAll('.drawing > svg')].flatMap((svg) => {
            const words = [...svg.querySelectorAll('text:not(.inside)')].map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width);
            return words.flatMap(([text, box], at) => words.slice(at + 1).filter(([, other]) => !apart(box, other)).map(([other]) => text + ' / ' + other));
        })""")
    check("no words run into each other", not met, met)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--pictures")
    options = parser.parse_args()
    url = pathlib.Path(options.page).resolve().as_uri()
    for width, dark in ((1200, False), (400, False), (2000, True)):
        with Browser(width, 900, dark) as browser:
            # What the browser's own start page asks for is not the page's doing.
            browser.open("about:blank")
            browser.log("performance")
            # A window cannot be as narrow as a telephone.
            browser.devtools("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
            browser.open(url)
            check("the page is ready", browser.run("return document.documentElement.dataset.ready") == "yes")
            check("no markup of others", browser.run("return document.querySelectorAll('main b b, main rx').length") == 0)
            enliven(browser)
            check("every drawing is there", browser.run("return [...document.querySelectorAll('figure')].every((one) => one.hidden || one.querySelector('.drawing').firstElementChild.getBoundingClientRect().height > 40)"))
            check_fit(browser, width)
            if width == 1200:
                check_numbers(browser)
                check_zoom(browser)
                check_series(browser)
                check_distribution(browser)
                check_choice(browser)
            check_quiet(browser, url)
            if options.pictures:
                browser.picture(os.path.join(options.pictures, f"view-{width}.png"))
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
