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

import report_test
from report_test import NON_BLANK, check, check_quiet
from webdriver import Browser

PLOTS = ("latency", "pdv", "ipdv", "tail", "burstiness", "losses", "copies", "order")

CHOOSE = """
const control = document.getElementById(arguments[0]);
control.value = arguments[1];
control.dispatchEvent(new Event('change'));
return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(control.value))));
"""


def choose(browser, control, value):
    return browser.run(CHOOSE, control, str(value)) == str(value)


def state(browser):
    return browser.run("return document.getElementById('path-state').textContent")


def check_plots(browser, facts):
    """Every plot for every way: it is drawn, or the page says why there is nothing to draw."""
    for plot in PLOTS:
        for way in (0, 1, -1):
            chosen = choose(browser, "path-plot", plot) and choose(browser, "path-way", way)
            check(f"{plot}, way {way}: can be chosen", chosen)
            found = browser.run(NON_BLANK, "path-pane")
            if way == 1 and plot in ("copies", "order"):
                words = browser.run("return document.getElementById('path-pane').textContent")
                check(f"{plot}, way {way}: says that there is none", found is None and words.endswith("."), words)
                continue
            # Axes alone are some 3,000 pixels.
            drawn = browser.run("return Quaver.pane.plot !== null") and found is not None and found[0] > 5000
            check(f"{plot}, way {way}: is drawn", drawn, found)
            check(f"{plot}, way {way}: is told in words", len(state(browser)) > 20, state(browser))


def check_numbers(browser, facts):
    for at, flow in enumerate(facts["flows"]):
        way = flow["way"]
        total = "const f = Quaver.data.flows[arguments[0]], b = f[arguments[1]]; return b.below + b.above + b.counts.reduce((s, n) => s + n, 0)"
        for bins in ("latency", "pdv"):
            counted = browser.run(total, at, bins)
            check(f"{way}: {bins} counts every packet", counted == flow["packets"], counted)
        lost = browser.run("const p = Quaver.block('lost-' + arguments[0]); let n = 0; for (let at = 1; at < p.length; at += 2) n += p[at]; return n", at)
        check(f"{way}: every loss has its mark", lost == flow["lost"], lost)


def check_switches(browser):
    choose(browser, "path-plot", "latency")
    choose(browser, "path-way", 0)
    ranges = {}
    for value in ("measured", "corrected"):
        choose(browser, "path-delay", value)
        ranges[value] = browser.run("return Quaver.pane.range()")
    shift = browser.run("return Quaver.data.flows[0].shift_ns")
    moved = ranges["corrected"][0] - ranges["measured"][0]
    check("corrected delays are moved by the clocks' offset", abs(moved - shift) < 1000 and shift != 0, (moved, shift))
    browser.run("document.getElementById('path-log').click()")
    for plot in ("latency", "pdv", "ipdv", "losses", "copies", "order"):
        choose(browser, "path-plot", plot)
        choose(browser, "path-way", -1)
        found = browser.run(NON_BLANK, "path-pane")
        check(f"{plot}: is drawn with logarithmic counts", found is not None and found[0] > 5000, found)
    browser.run("document.getElementById('path-log').click()")


def check_spike(browser, facts):
    choose(browser, "path-plot", "burstiness")
    choose(browser, "path-way", 0)
    choose(browser, "path-delay", "measured")
    spike = facts["flows"][0]["spike_ns"]
    find = """
        const pane = Quaver.pane, flow = Quaver.data.flows[0], [from, to] = pane.range();
        const level = Quaver.levelFor(0, from, to, pane.plot.over.clientWidth);
        let best = 0, at = 0;
        for (let i = Math.max(0, Math.floor(from / level.slice)); i < Math.min(level.largest.length, Math.ceil(to / level.slice)); i++)
            if (level.largest[i] > best) { best = level.largest[i]; at = (i + 0.5) * level.slice; }
        return [flow.base_ns + best * flow.unit_ns, at, pane.plot.scales.y.max, level.slice];"""
    peak, at, top, slice_ns = browser.run(find)
    check("the whole test shows the spike", peak == spike and top > spike, (peak, spike, top))
    browser.run("Quaver.pane.zoom(arguments[0] - 2e7, arguments[0] + 2e7)", at)
    browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    peak, _, top, finer = browser.run(find)
    check("the spike survives zooming", peak == spike and top > spike and finer < slice_ns, (peak, spike, finer, slice_ns))
    check("the zoomed plot is drawn", browser.run(NON_BLANK, "path-pane")[0] > 3000)


def press(browser, key):
    keys = {"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}
    browser.call("POST", "/actions", {"actions": [keys]})
    browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def check_keys(browser):
    for plot in ("tail", "pdv"):
        choose(browser, "path-plot", plot)
        browser.run("document.getElementById('path-pane').focus()")
        whole = browser.run("return Quaver.pane.range()")
        press(browser, "+")
        nearer = browser.run("return Quaver.pane.range()")
        check(f"{plot}: the key + zooms in", whole[0] < nearer[0] and nearer[1] < whole[1], (whole, nearer))
        press(browser, "\ue014")
        moved = browser.run("return Quaver.pane.range()")
        check(f"{plot}: an arrow moves", moved[0] > nearer[0], (nearer, moved))
        press(browser, "0")
        back = browser.run("return Quaver.pane.range()")
        check(f"{plot}: the key 0 shows all", all(abs(a - b) <= 1e-6 * abs(b) + 1e-6 for a, b in zip(back, whole)), (whole, back))
    browser.run("document.getElementById('path-plot').focus()")
    press(browser, "\ue015")
    check("the plot can be chosen with the keyboard", browser.run("return Quaver.pane.kind") == "ipdv")


def check_hostile(browser):
    check("a hostile name did not run", "owned" not in browser.run("return document.title"))
    check("a hostile name made no element", browser.run("return document.querySelectorAll('img').length") == 0)
    check("a hostile name is shown as it is", "</script>" in browser.run("return document.getElementById('facts').textContent"))


def picture_plots(pictures, browser, view):
    for plot in PLOTS[1:]:
        choose(browser, "path-plot", plot)
        browser.run("document.getElementById('plots').scrollIntoView()")
        browser.picture(os.path.join(pictures, f"path-{view}-{plot}.png"), whole=False)


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
        check_plots(browser, facts)
        check_numbers(browser, facts)
        check_switches(browser)
        check_spike(browser, facts)
        check_keys(browser)
        check_hostile(browser)
        check_quiet(browser, url)
    report_test.check_views(url, arguments.pictures, "path", functools.partial(picture_plots, arguments.pictures))
    failures = report_test.failures
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
