"""What tests of the dashboard's pages in Debian's Chromium share: the browser, looks at a page in light, dark and at
360 px by axe-core, and that nothing is asked of another machine.

A test's arguments: ADDRESS-WITH-TOKEN PROFILE-DIRECTORY [--screenshots DIRECTORY]
"""

import json
import pathlib
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

HERE = pathlib.Path(__file__).parent
AXE = (HERE / "vendor" / "axe.min.js").read_text(encoding="utf-8")
ADDRESS, PROFILE = sys.argv[1], sys.argv[2]
SHOTS = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
BASE, TOKEN = ADDRESS.split("#token=")
WIDE, NARROW = (1440, 900), (360, 740)


def start():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                 "--disable-background-networking", "--no-first-run", f"--user-data-dir={PROFILE}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


browser = start()
faults = []
begun = time.monotonic()


def say(text):
    print(f"{time.monotonic() - begun:5.1f} s  {text}", flush=True)


def wait(holds, what, seconds=20):
    try:
        return WebDriverWait(browser, seconds, poll_frequency=0.05).until(lambda _: holds())
    except Exception as error:
        keep("failed")
        raise AssertionError(f"{what}: not within {seconds} s; the page says: {text()[:2000]}") from error


def script(code, *arguments):
    return browser.execute_script(code, *arguments)


def text():
    return script("return document.body.innerText") or ""


def there(words):
    return wait(lambda: words.lower() in text().lower(), words)


def open_page(path):
    script("location.hash = arguments[0]", path)
    script("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def button(words, inside="document"):
    found = script(f"""
      return [...{inside}.querySelectorAll('button, a.button')].find((one) => one.checkVisibility() && !one.disabled
        && one.textContent.trim().startsWith(arguments[0]))""", words)
    return found


def press(words, inside="document"):
    wait(lambda: button(words, inside), f"a button {words}").click()


def fill(selector, value):
    field = browser.find_element(By.CSS_SELECTOR, selector)
    field.clear()
    field.send_keys(value)


def size(width, height):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


def scheme(name):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})


def keep(name):
    if SHOTS:
        SHOTS.mkdir(parents=True, exist_ok=True)
        whole = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        import base64
        (SHOTS / f"{name}.png").write_bytes(base64.b64decode(whole["data"]))


def axe(name):
    if not script("return Boolean(window.axe)"):
        # Beside the page's policy, which would refuse any other script.
        browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    found = browser.execute_async_script("""
      const done = arguments[arguments.length - 1];
      axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'] })
        .then((all) => done(all.violations.map((one) => [one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + node.failureSummary.slice(0, 200))])),
          (error) => done([['axe', String(error), []]]));""")
    for rule, words, nodes in found:
        faults.append(f"{name}: {rule}: {words}: {nodes}")


def wide(name):
    over = script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if over > 0:
        worst = script("""
          const edge = document.documentElement.clientWidth;
          return [...document.querySelectorAll('main *, header *')].filter((one) => one.getBoundingClientRect().right > edge + 1 && !one.parentElement.closest('.scroll, pre'))
            .slice(0, 3).map((one) => one.outerHTML.slice(0, 160))""")
        faults.append(f"{name}: {over} px wider than the screen: {worst}")


def look(name, dialog=False):
    """All four looks of what is shown."""
    for colours in ("light", "dark"):
        scheme(colours)
        for shape, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
            size(width, height)
            time.sleep(0.12)
            keep(f"{name}-{colours}-{shape}")
            # Both colours and both shapes once: what axe finds depends on each, hardly on their pairs.
            if (colours, shape) in (("light", "wide"), ("dark", "narrow")) or dialog:
                axe(f"{name} {colours} {shape}")
            wide(f"{name} {colours} {shape}")
    scheme("light")
    size(*WIDE)
    say(name)


def elsewhere():
    """What the browser asked of whom."""
    asked = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.add(message["params"]["request"]["url"])
    strange = [url for url in asked if not url.startswith((BASE, "data:", "blob:", "chrome"))]
    assert len(asked) > 20 and not strange, strange


def carry_out(main):
    """Opens the dashboard, does what the test does, and tells what was wrong on the way."""
    try:
        browser.set_script_timeout(30)
        size(*WIDE)
        browser.get(ADDRESS)
        there("Live")
        assert "token" not in browser.current_url, browser.current_url
        main()
        elsewhere()
        for entry in browser.get_log("browser"):
            if entry["level"] == "SEVERE" and "favicon" not in entry["message"] and "/api/" not in entry["message"]:
                faults.append(f"console: {entry['message']}")
        if faults:
            raise AssertionError("\n".join(faults))
        say("no violation")
    finally:
        browser.quit()
