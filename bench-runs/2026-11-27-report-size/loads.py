import json, sys, time
sys.path.insert(0, "tests/browser")
from webdriver import Browser
for turn in range(5):
    for page in sys.argv[1:]:
        with Browser(1280, 900) as browser:
            start = time.time()
            browser.open("file://" + page)
            ended, height = browser.call("POST", "/execute/sync", {"script": "return [performance.timing.loadEventEnd - performance.timing.navigationStart, document.documentElement.scrollHeight]", "args": []})
            import os
            print(json.dumps({"turn": turn, "page": page.split("/")[-1], "bytes": os.path.getsize(page), "ready_s": round(time.time() - start, 3), "load_event_ms": ended, "height_px": height}), flush=True)
