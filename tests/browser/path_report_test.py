#!/usr/bin/env python3
"""Opens the report of a path in a headless browser: every plot can be chosen and draws, spikes survive zooming, the
keyboard works, hostile names stay words, nothing is asked of the network.

Usage: path_report_test.py REPORT.html FACTS.json [--pictures FOLDER]
FACTS.json holds what the maker of the report knows about it (see quaver/examples/sample_path_report.rs).
"""

import argparse
import functools
import json
import os
import pathlib
import sys

import checks
from checks import NON_BLANK, chart, check, check_quiet
from webdriver import Browser

# Name, and how many series it has.
PLOTS = {
    "delay-corrected": 2, "delay-up": 1, "delay-down": 1, "pdv": 2, "ipdv": 2, "pdv-tail": 4, "delay-time": 8,
    "loss-lengths": 2, "copy-lengths": 1, "displacements": 1,
}
DISTRIBUTIONS = ("delay-corrected", "delay-up", "delay-down", "pdv", "ipdv")

FRAMES = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));"

CHOOSE = """
const list = document.querySelector('#plots select'), figures = [...document.querySelectorAll('#plots figure')];
list.value = String(figures.findIndex((one) => one.id === arguments[0]));
list.dispatchEvent(new Event('change'));
const figure = figures[list.selectedIndex];
View.enliven(figure);
""" + FRAMES.replace("done(true)", "done(figure.hidden ? '' : figure.id)")


def choose(browser, name):
    return browser.run(CHOOSE, name) == name


def ink(browser, name):
    """How many pixels of a plot are drawn on."""
    found = browser.run(NON_BLANK, name)
    return found[0] if found else 0


def check_plots(browser):
    """Every plot can be chosen and is drawn, with each of its series, and is told in words."""
    listed = browser.run("return [...document.querySelectorAll('#plots figure')].map((one) => one.id)")
    check("the plots are there", sorted(listed) == sorted(PLOTS), listed)
    for name, series in PLOTS.items():
        check(f"{name}: can be chosen", choose(browser, name))
        # Axes alone are some 3,000 pixels.
        whole = ink(browser, name)
        check(f"{name}: is drawn", whole > 4000, whole)
        keys = browser.run("return document.querySelectorAll(`#${arguments[0]} .legend button`).length", name)
        check(f"{name}: has {series} series", (keys or 1) == series, keys)
        words = browser.run("return document.getElementById(arguments[0]).textContent", name)
        check(f"{name}: is told in words", len(words) > 60, words)
        if keys:
            browser.run("document.querySelectorAll(`#${arguments[0]} .legend button`).forEach((one) => one.click());" + FRAMES, name)
            left = ink(browser, name)
            check(f"{name}: its series can be hidden", left < whole, (left, whole))
            browser.run("document.querySelectorAll(`#${arguments[0]} .legend button`).forEach((one) => one.click());" + FRAMES, name)
            check(f"{name}: and shown again", ink(browser, name) == whole)


def check_numbers(browser, facts):
    total = "const one = chart.data.series[arguments[1]]; return one.below + one.above + one.counts.reduce((sum, n) => sum + n, 0)"
    for at, flow in enumerate(facts["flows"]):
        for name, place in (("delay-corrected", at), (f"delay-{flow['way']}", 0), ("pdv", at)):
            counted = chart(browser, name, total, place)
            check(f"{flow['way']}: {name} counts every packet", counted == flow["packets"], counted)
        lost = chart(browser, "delay-time", "return chart.data.series.find((one) => one.name === arguments[1] + ', lost').x.length", flow["way"])
        check(f"{flow['way']}: every loss has its mark", lost == flow["lost"], lost)
        many = chart(browser, "loss-lengths", "const one = chart.data.series[arguments[1]]; return one.x.reduce((sum, x, at) => sum + Math.round(x + 0.4 - 0.4 * (arguments[1] + 0.5)) * one.y[at], 0)", at)
        check(f"{flow['way']}: lengths of losses add up", many == flow["lost"], many)


def check_switches(browser, facts):
    ranges = {name: chart(browser, name, "return chart.data.series[0].edges[0]") for name in ("delay-corrected", "delay-up")}
    moved = ranges["delay-corrected"] - ranges["delay-up"]
    shift = facts["flows"][0]["shift_ns"]
    check("corrected delays are moved by the clocks' offset", moved == shift != 0, (moved, shift))
    for name in DISTRIBUTIONS:
        choose(browser, name)
        seen = set()
        for view in ("cdf", "tail", "histogram"):
            browser.run("const one = document.querySelector(`#${arguments[0]} .controls select`); one.value = arguments[1]; one.dispatchEvent(new Event('change'));" + FRAMES, name, view)
            check(f"{name}: {view} is chosen", chart(browser, name, "return chart.view") == view)
            seen.add(ink(browser, name))
        check(f"{name}: each view is another drawing", len(seen) == 3 and min(seen) > 4000, seen)
    for name in ("loss-lengths", "copy-lengths", "displacements", "pdv-tail"):
        choose(browser, name)
        scale = "document.querySelector(`#${arguments[0]} .controls input[type=checkbox]`).click();" + FRAMES
        browser.run(scale, name)
        linear = chart(browser, name, "return chart.plot.scales.y.distr") == 1
        check(f"{name}: is drawn with a linear scale", linear and ink(browser, name) > 4000)
        browser.run(scale, name)


def check_spike(browser, facts):
    choose(browser, "delay-time")
    flow = facts["flows"][0]
    spike = flow["spike_ns"]
    find = """
        const series = chart.data.series.find((one) => one.name === 'up'), [from, to] = chart.range(), level = chart.level(chart.plot, series);
        let best = -Infinity, at = 0;
        for (let i = Math.max(0, Math.floor(from / level.step)); i < Math.min(level.high.length, Math.ceil(to / level.step)); i++)
            if (level.high[i] > best) { best = level.high[i]; at = (i + 0.5) * level.step; }
        return [best, at, chart.plot.scales.y.max, level.step];"""
    peak, at, top, step = chart(browser, "delay-time", find)
    check("the whole test shows the spike", peak == spike and top > spike, (peak, spike, top))
    chart(browser, "delay-time", "chart.zoom(arguments[1] - 2e7, arguments[1] + 2e7);" + FRAMES, at)
    peak, _, top, finer = chart(browser, "delay-time", find)
    check("the spike survives zooming", peak == spike and top > spike and finer < step, (peak, spike, finer, step))
    check("the zoomed plot is drawn", ink(browser, "delay-time") > 3000)
    chart(browser, "delay-time", "chart.all();" + FRAMES)


def press(browser, key):
    keys = {"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}
    browser.call("POST", "/actions", {"actions": [keys]})
    browser.run(FRAMES)


def check_keys(browser):
    for name in ("pdv-tail", "pdv"):
        choose(browser, name)
        browser.run("document.querySelector(`#${arguments[0]} .drawing`).focus()", name)
        whole = chart(browser, name, "return chart.range()")
        press(browser, "+")
        nearer = chart(browser, name, "return chart.range()")
        check(f"{name}: the key + zooms in", whole[0] < nearer[0] and nearer[1] < whole[1], (whole, nearer))
        press(browser, "\ue014")
        moved = chart(browser, name, "return chart.range()")
        check(f"{name}: an arrow moves", moved[0] > nearer[0], (nearer, moved))
        press(browser, "0")
        back = chart(browser, name, "return chart.range()")
        check(f"{name}: the key 0 shows all", all(abs(a - b) <= 1e-6 * abs(b) + 1e-6 for a, b in zip(back, whole)), (whole, back))
    browser.run("document.querySelector('#plots select').focus()")
    press(browser, "\ue015")
    shown = browser.run("return [...document.querySelectorAll('#plots figure')].filter((one) => !one.hidden).map((one) => one.id)")
    check("the plot can be chosen with the keyboard", shown == ["pdv-tail"], shown)


def check_hostile(browser):
    check("a hostile name did not run", "owned" not in browser.run("return document.title"))
    check("a hostile name made no element", browser.run("return document.querySelectorAll('img').length") == 0)
    check("a hostile name is shown as it is", "</script>" in browser.run("return document.body.innerText"))


def picture_plots(pictures, browser, view):
    for name in PLOTS:
        choose(browser, name)
        browser.run("document.getElementById('plots').scrollIntoView()")
        browser.picture(os.path.join(pictures, f"path-{view}-{name}.png"), whole=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("facts")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    url = pathlib.Path(arguments.report).resolve().as_uri()
    facts = json.loads(pathlib.Path(arguments.facts).read_text())
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    with Browser() as browser:
        # What the browser's own start page asks for is not the report's doing.
        browser.open("about:blank")
        browser.log("performance")
        browser.open(url)
        check("the scripts ran to their end", browser.run("return document.documentElement.dataset.ready") == "yes")
        check_plots(browser)
        check_numbers(browser, facts)
        check_switches(browser, facts)
        check_spike(browser, facts)
        check_keys(browser)
        check_hostile(browser)
        check_quiet(browser, url)
    checks.check_views(url, arguments.pictures, "path", functools.partial(picture_plots, arguments.pictures))
    failures = checks.failures
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
