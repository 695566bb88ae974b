#!/usr/bin/env python3
"""Opens the report of a chase in a headless browser and checks what no other test can: that it draws, keeps spikes when
zoomed, asks the network for nothing, and treats hostile names as words.

Usage: report_test.py REPORT.html [FACTS.json] [--pictures FOLDER]
FACTS.json holds what the maker of the report knows about it (see quaver/examples/sample_report.rs).
"""

import argparse
import json
import os
import pathlib
import sys

from checks import FRAMES, NON_BLANK, chart, check, check_drawn, check_quiet, check_views, failures
from webdriver import Browser


def check_structure(browser, facts):
    rows = browser.run("return document.querySelectorAll('table.causes tbody tr').length")
    check("every cause has a row, and the unexplained", rows == facts["causes"] + 1, rows)
    layers = browser.run("return [...document.querySelectorAll('#time .one-of option')].map((one) => one.textContent)")
    check("every layer can be chosen, and the lateness", len(layers) == facts["layers"] + 1 and "Lateness" in layers[-1], layers)
    check("the application comes first", layers[0] == "ΔT at application", layers[0])
    marked = chart(browser, "time-application", "return chart.data.series.filter((one) => one.shape === 'points').map((one) => one.x.length)")
    # MOST_MARKS of core/instrument.
    check("late packets are marked, up to a bound", sum(marked) == min(facts["late"], 5_000), marked)
    check("each cause has marks of its own, and the unexplained", len(marked) == facts["causes"] + 1, marked)
    shown = "return [...document.querySelectorAll('#worst figure')].filter((one) => !one.hidden).map((one) => [one.id, one.querySelectorAll('.span').length])"
    first = browser.run(shown)
    check("one timeline is shown and has intervals", len(first) == 1 and first[0][1] > 5, first)
    browser.run("[...document.querySelectorAll('#worst .buttons button')].find((one) => one.textContent === 'Next').click()")
    second = browser.run(shown)
    check("the next timeline is drawn", len(second) == 1 and second[0][0] != first[0][0] and second[0][1] > 5, second)
    zone = chart(browser, first[0][0], "return [chart.data.zone[1] - chart.data.zone[0], chart.figure.querySelector('h3').textContent]")
    worst = f"{facts['worst_ns'] / 1e6:.2f} ms"
    check("the first one is of the worst packet", zone[0] == facts["worst_ns"] and worst in zone[1], zone)


def check_hostile(browser):
    check("a hostile name did not run", "owned" not in browser.run("return document.title"))
    check("a hostile name made no element", browser.run("return document.querySelectorAll('img').length") == 0)
    shown = browser.run("return document.querySelector('table.causes strong').textContent")
    check("a hostile name is shown as it is", "</script>" in shown, shown)
    legend = browser.run("return [...document.querySelectorAll('#time-application .legend button')].map((one) => one.textContent)")
    check("and in the legend", any("</script>" in name for name in legend), legend)


def shown_peak(browser):
    """Largest ΔT that the plot draws now, from the level of detail that it uses, the top of its scale, that level's slice,
    and how much time is shown."""
    return chart(browser, "time-application", """
        const series = chart.data.series.find((one) => one.shape === 'slices'), [from, to] = chart.range(), level = chart.level(chart.plot, series);
        let peak = -Infinity;
        for (let at = Math.max(0, Math.floor(from / level.step)); at <= Math.min(level.high.length - 1, Math.floor(to / level.step)); at++)
            if (level.high[at] > peak) peak = level.high[at];
        return [peak, chart.plot.scales.y.max, level.step, to - from];""")


def check_zoom(browser, facts):
    spike = facts["spike_delta_ns"]
    whole = chart(browser, "time-application", "return chart.whole")
    peak, top, slice_ns, span = shown_peak(browser)
    check("the whole run shows the spike", peak == spike and top > spike, (peak, top))
    box = chart(browser, "time-application", """
        chart.pane.scrollIntoView({block: 'center'});
        const box = chart.plot.over.getBoundingClientRect();
        return [box.left, box.top, box.width, box.height];""")
    at = box[0] + (facts["spike_offset_ns"] - whole[0]) / (whole[1] - whole[0]) * box[2]
    browser.drag(max(at - 40, box[0] + 1), min(at + 40, box[0] + box[2] - 1), box[1] + box[3] / 2)
    peak, top, finer, now = shown_peak(browser)
    check("dragging zooms in", now < span / 5, (now, span))
    check("zooming in refines", finer < slice_ns, (finer, slice_ns))
    check("the spike survives zooming by hand", peak == spike and top > spike, (peak, top))
    for width in (1e8, 1e7, 1e6):
        chart(browser, "time-application", "chart.zoom(arguments[1] - arguments[2] / 2, arguments[1] + arguments[2] / 2)", facts["spike_offset_ns"], width)
        browser.run(FRAMES)
        peak, top, _, _ = shown_peak(browser)
        check(f"the spike survives zooming to {width / 1e6:g} ms", peak == spike and top > spike, (peak, top))
    marked = chart(browser, "time-application", """
        return chart.shown().filter((one) => one.shape === 'points').reduce((sum, one) => { const [a, b] = chart.visible(one.x, ...chart.range()); return sum + b - a; }, 0)""")
    check("its late packets are marked there", marked > 10, marked)
    found = browser.run(NON_BLANK, "time-application")
    check("the zoomed plot is drawn", found[0] > 1000, found)
    near = chart(browser, "time-application", "return chart.range()")
    choose(browser, 1)
    found = browser.run("const chart = View.charts.find((one) => one.figure.closest('#time') && !one.figure.hidden); return [chart.figure.id, chart.range()]")
    check("another layer shows the same part", found[0] != "time-application" and found[1] == near, (found, near))
    choose(browser, 0)
    chart(browser, "time-application", "chart.pane.focus()")
    key = {"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": "0"}, {"type": "keyUp", "value": "0"}]}
    browser.call("POST", "/actions", {"actions": [key]})
    browser.run(FRAMES)
    check("the key 0 shows the whole run", chart(browser, "time-application", "return chart.range()") == whole)


def choose(browser, at, number=0):
    """Chooses from the list of this number in the page."""
    browser.run("""
        const control = document.querySelectorAll('select')[arguments[1]];
        control.selectedIndex = arguments[0];
        control.dispatchEvent(new Event('change'));""", at, number)


def check_controls(browser):
    """Every choice of every control draws, without an error (the console is checked at the end)."""
    counts = browser.run("return [...document.querySelectorAll('select')].map((one) => one.options.length)")
    for number, count in enumerate(counts):
        for choice in [*range(count), 0]:
            choose(browser, choice, number)
    browser.run("document.querySelectorAll('.controls input[type=checkbox]').forEach((one) => one.click())")
    # A legend with one button takes all away; a second press brings it back.
    legends = browser.run("""
        return [...document.querySelectorAll('figure:not([hidden]) .legend')].map((legend) => {
            const buttons = legend.querySelectorAll('button');
            if (buttons.length > 1) buttons[0].click();
            return buttons.length;
        })""")
    check("a legend has buttons", any(legends), legends)
    check_drawn(browser, "after every choice")


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
        check("the scripts ran to their end", browser.run("return document.documentElement.dataset.ready") == "yes")
        check_drawn(browser, "at first")
        if facts:
            check_structure(browser, facts)
            check_hostile(browser)
            check_zoom(browser, facts)
        check_controls(browser)
        check_quiet(browser, url)
    check_views(url, arguments.pictures)
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
