"""What the browser tests of all pages check and ask."""

import json
import os
import pathlib

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


def whole_summary(path):
    """A run's summary; where its tables were cut, with all their rows from the file beside it."""
    summary, details = json.loads(pathlib.Path(path).read_text()), pathlib.Path(path).parent / "details.json"
    return json.loads(details.read_text()) if "left_out" in summary else summary


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


CHART = "const chart = View.charts.find((one) => one.figure.id === arguments[0]); "

FRAMES = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def enliven(browser):
    """Makes every drawing that can be zoomed, as scrolling does."""
    browser.run("document.querySelectorAll('figure[data-chart]').forEach((figure) => { if (!figure.hidden) View.enliven(figure); })")


def chart(browser, name, script, *rest):
    """Runs a function body with `chart`, the drawing of this name."""
    return browser.run(CHART + script, name, *rest)


def check_drawn(browser, when):
    """Every drawing that is shown holds ink."""
    enliven(browser)
    browser.run(FRAMES)
    shown = browser.run("return View.charts.filter((one) => !one.figure.hidden).map((one) => [one.figure.id, Boolean(one.plot)])")
    check(f"drawings are there {when}", len(shown) > 0)
    for name, canvas in shown:
        found = browser.run(NON_BLANK, name) if canvas else [browser.run("return document.querySelectorAll('#' + arguments[0] + ' .span').length", name)]
        check(f"{name} is drawn {when}", found is not None and found[0] > (1000 if canvas else 5), found)


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
