#!/usr/bin/env python3
"""Opens a report in a headless browser and checks what no other test can: that it draws, keeps spikes when
zoomed, asks the network for nothing, and treats hostile names as words.

Usage: report_test.py REPORT.html [FACTS.json] [--pictures FOLDER]
FACTS.json holds what the maker of the report knows about it (see quaver/examples/sample_report.rs).
"""

import argparse
import json
import os
import pathlib
import sys

from webdriver import Browser

NON_BLANK = """
const canvas = document.querySelector('#' + arguments[0] + ' canvas');
if (!canvas) return null;
const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
copy.drawImage(canvas, 0, 0);
const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
let seen = 0;
for (let at = 3; at < pixels.length; at += 4) if (pixels[at] > 0) seen++;
return [seen, canvas.width * canvas.height];
"""

failures = []


def check(what, holds, found=""):
    print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else f': {found}'}")
    if not holds:
        failures.append(what)


def requests(browser):
    """Addresses that the page asked for."""
    asked = []
    for entry in browser.log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
        if message["method"] == "Network.webSocketCreated":
            asked.append(message["params"]["url"])
    return asked


def check_quiet(browser, url):
    errors = [entry["message"] for entry in browser.log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    check("no error or warning on the console", not errors, errors)
    outside = [asked for asked in requests(browser) if asked.split("#")[0] != url and not asked.startswith("data:")]
    check("no request but for the file itself", not outside, outside)


def check_start(browser):
    check("the scripts ran to their end", browser.run("return document.documentElement.dataset.ready") == "yes")
    for plot in ("time-plot", "histogram-plot", "cdf-plot"):
        found = browser.run(NON_BLANK, plot)
        check(f"{plot} is drawn", found is not None and found[0] > 2000, found)


def check_structure(browser, facts):
    rows = browser.run("return document.querySelectorAll('tr.cause').length")
    check("every cause has a row", rows == facts["causes"], rows)
    check("unexplained has a row", browser.run("return document.querySelectorAll('tr.unexplained').length") == 1)
    layers = browser.run("return document.getElementById('time-layer').options.length")
    check("every layer can be chosen", layers == facts["layers"], layers)
    check("all late packets are marked", browser.run("return Quaver.data.late_drawn") == facts["late"])
    boxes = browser.run("return document.querySelectorAll('#worst-plot rect.box').length")
    check("the timeline has boxes", boxes > 5, boxes)
    browser.run("document.getElementById('worst-after').click()")
    second = browser.run("return [Quaver.timeline.at, document.querySelectorAll('#worst-plot rect.box').length]")
    check("the next timeline is drawn", second[0] == 1 and second[1] > 5, second)


def check_hostile(browser):
    check("a hostile name did not run", "owned" not in browser.run("return document.title"))
    check("a hostile name made no element", browser.run("return document.querySelectorAll('img').length") == 0)
    shown = browser.run("return document.querySelector('tr.cause strong').textContent")
    check("a hostile name is shown as it is", "</script>" in shown, shown)


def shown_peak(browser):
    """Largest ΔT that the plot draws now, from the level of detail that it uses, and the top of its scale."""
    return browser.run("""
        const plot = Quaver.timePlot, [from, to] = plot.range(), level = plot.level;
        let peak = -Infinity;
        for (let at = Math.max(0, Math.floor(from / level.slice)); at <= Math.min(level.largest.length - 1, Math.floor(to / level.slice)); at++)
            peak = Math.max(peak, level.largest[at]);
        return [peak, plot.plot.scales.y.max, level.slice, to - from];""")


def check_zoom(browser, facts):
    spike = facts["spike_delta_ns"]
    peak, top, slice_ns, span = shown_peak(browser)
    check("the whole run shows the spike", peak == spike and top > spike, (peak, top))
    box = browser.run("""
        document.getElementById('time-plot').scrollIntoView({block: 'center'});
        const box = Quaver.timePlot.plot.over.getBoundingClientRect();
        return [box.left, box.top, box.width, box.height];""")
    share = facts["spike_offset_ns"] / browser.run("return Quaver.end_ns")
    at = box[0] + share * box[2]
    browser.drag(max(at - 40, box[0] + 1), min(at + 40, box[0] + box[2] - 1), box[1] + box[3] / 2)
    peak, top, finer, now = shown_peak(browser)
    check("dragging zooms in", now < span / 5, (now, span))
    check("zooming in refines", finer < slice_ns, (finer, slice_ns))
    check("the spike survives zooming by hand", peak == spike and top > spike, (peak, top))
    for width in (1e8, 1e7, 1e6):
        browser.run("Quaver.timePlot.zoom(arguments[0] - arguments[1] / 2, arguments[0] + arguments[1] / 2)",
                    facts["spike_offset_ns"], width)
        browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        peak, top, _, _ = shown_peak(browser)
        check(f"the spike survives zooming to {width / 1e6:g} ms", peak == spike and top > spike, (peak, top))
    marked = browser.run("const [from, to] = Quaver.timePlot.range(); const [a, b] = Quaver.timePlot.visible(from, to); return b - a")
    check("its late packets are marked there", marked > 10, marked)
    found = browser.run(NON_BLANK, "time-plot")
    check("the zoomed plot is drawn", found[0] > 1000, found)
    browser.run("document.getElementById('time-plot').focus()")
    key = {"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": "0"}, {"type": "keyUp", "value": "0"}]}
    browser.call("POST", "/actions", {"actions": [key]})
    browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    check("the key 0 shows the whole run", shown_peak(browser)[3] == browser.run("return Quaver.end_ns"))


def check_controls(browser, packets):
    """Every choice of every control draws without an error (the console is checked at the end). Some are for packets
    only; a report of noise has no layers."""
    for control, event in (("time-layer", "change"), ("time-value", "change"), ("cdf-kind", "change")):
        there = browser.run("return document.getElementById(arguments[0]) !== null", control)
        check(f"{control} can be chosen from", there or not packets and control != "cdf-kind")
        if not there:
            continue
        count = browser.run("return document.getElementById(arguments[0]).options.length", control)
        for choice in [*range(count), count - 1 if control == "time-layer" else 0]:
            browser.run("""
                const control = document.getElementById(arguments[0]);
                control.selectedIndex = arguments[1];
                control.dispatchEvent(new Event(arguments[2]));""", control, choice, event)
    browser.run("document.getElementById('time-linear').click()")
    for legend in ("time-legend", "layer-legend"):
        buttons = browser.run("""
            const buttons = document.querySelectorAll('#' + arguments[0] + ' button');
            if (buttons.length > 0) buttons[0].click();
            // The only one takes all away; a second press brings it back.
            if (buttons.length === 1) buttons[0].click();
            return buttons.length;""", legend)
        check(f"{legend} has buttons", buttons > 0 or not packets, buttons)
    for plot in ("time-plot", "histogram-plot", "cdf-plot"):
        found = browser.run(NON_BLANK, plot)
        check(f"{plot} is drawn after every choice", found is not None and found[0] > 1000, found)


def check_smooth(browser):
    """Drawing the whole run takes a small part of a second; the limit is far above what it takes."""
    taken = browser.run("""
        const began = performance.now();
        for (let turn = 0; turn < 10; turn++) Quaver.timePlot.plot.redraw(false);
        Quaver.timePlot.draw(Quaver.timePlot.plot);
        return performance.now() - began;""")
    print(f"     one drawing and ten requests for it: {taken:.1f} ms")


def check_views(url, pictures, stem="report", picture_more=None, scripts=True):
    """Narrow, dark and printed views fit and say nothing on the console. `picture_more` takes further pictures of a
    view; it is given the browser and the name of the view. Pages whose drawings are made beforehand have no scripts."""
    for name, width, dark in (("light", 1280, False), ("dark", 1280, True), ("narrow", 390, False)):
        with Browser(max(width, 520), 900, dark) as browser:
            if width < 520:
                browser.devtools("Emulation.setDeviceMetricsOverride",
                                 {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": True})
            browser.open(url)
            if scripts:
                check(f"{name}: the scripts ran", browser.run("return document.documentElement.dataset.ready") == "yes")
            over = browser.run("return document.documentElement.scrollWidth - innerWidth")
            check(f"{name}: the page is no wider than the view", over <= 0, over)
            if dark:
                check("dark: the dark colours are used", browser.run("return matchMedia('(prefers-color-scheme: dark)').matches"))
            if pictures:
                browser.picture(os.path.join(pictures, f"{stem}-{name}.png"))
                if picture_more:
                    picture_more(browser, name)
            errors = [entry["message"] for entry in browser.log("browser") if entry["level"] == "SEVERE"]
            check(f"{name}: no error on the console", not errors, errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("facts", nargs="?")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    url = pathlib.Path(arguments.report).resolve().as_uri()
    facts = json.loads(pathlib.Path(arguments.facts).read_text()) if arguments.facts else None
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    with Browser() as browser:
        # What the browser's own start page asks for is not the report's doing.
        browser.open("about:blank")
        browser.log("performance")
        browser.open(url)
        check_start(browser)
        if facts:
            check_structure(browser, facts)
            check_hostile(browser)
            check_zoom(browser, facts)
        check_controls(browser, packets=facts is not None)
        check_smooth(browser)
        check_quiet(browser, url)
    check_views(url, arguments.pictures)
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
