"""The little of the WebDriver protocol (W3C) that the browser test needs, with the standard library only."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request


def find(*names):
    """The first of these programs that is installed."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise SystemExit(f"none of {', '.join(names)} is installed; run: apt-get install chromium chromium-driver")


class Browser:
    """A headless Chromium with a profile of its own. Use as a context manager: leaving ends it and removes the profile."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.mkdtemp(prefix="quaver-browser-")
        arguments = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
            f"--user-data-dir={self.profile}", f"--window-size={width},{height}",
        ]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        # Port 0: the driver takes a free one and says which.
        self.driver = subprocess.Popen(
            [find("chromedriver"), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "HOME": self.profile},
        )
        self.base = None
        for line in self.driver.stdout:
            port = re.search(r"started successfully on port (\d+)", line)
            if port:
                self.base = f"http://127.0.0.1:{port[1]}"
                break
        if self.base is None:
            raise SystemExit("chromedriver ended before it was ready")
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": find("chromium", "chromium-browser", "google-chrome"), "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.base += f"/session/{made['sessionId']}"
        self.call("POST", "/window/rect", {"width": width, "height": height})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(timeout=20)
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()[:600]}") from error

    def open(self, url):
        self.call("POST", "/url", {"url": url})
        # Scripts unpack what they draw from after the page is there.
        script = "const done = arguments[0]; if (typeof View === 'object') View.started.then(() => done()); else done();"
        self.call("POST", "/execute/async", {"script": script, "args": []})

    def run(self, script, *arguments):
        """Runs a function body in the page and returns what it returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def log(self, kind):
        """Entries of the `browser` (console) or `performance` (protocol events) log since the last call."""
        return self.call("POST", "/se/log", {"type": kind})

    def devtools(self, command, parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def drag(self, x0, x1, y):
        """Presses at (x0, y) of the view, moves to (x1, y) and lets go."""
        move = lambda x, duration: {"type": "pointerMove", "duration": duration, "x": round(x), "y": round(y), "origin": "viewport"}
        actions = [move(x0, 0), {"type": "pointerDown", "button": 0}, move((x0 + x1) / 2, 60), move(x1, 60),
                   {"type": "pointerUp", "button": 0}]
        self.call("POST", "/actions", {"actions": [
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}]})

    def picture(self, path, whole=True):
        """Writes a picture of the page."""
        parameters = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.devtools("Page.getLayoutMetrics", {})["cssContentSize"]
            parameters["clip"] = {**size, "scale": 1}
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.devtools("Page.captureScreenshot", parameters)["data"]))
